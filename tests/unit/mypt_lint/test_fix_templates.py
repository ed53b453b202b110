"""Fixes of chat templates: an edit is made only where all conversations prove it."""

from pathlib import Path

import pytest

from mypt.lint.cli import main

CHAT = """\
{%- for m in messages -%}
<|{{ m.role }}|>CONTENT CALLS<|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""
CALLS = "{% for c in m.tool_calls or [] %}<|call|>{{ c.function.name }} {{ ARGUMENTS }}{% endfor %}"
JSON = "(c.function.arguments if c.function.arguments is string else c.function.arguments | tojson)"
TEXT = "{{ m.content if m.content else '' }}"


def written(folder: Path, content: str, calls: str, name: str = "chat.jinja") -> Path:
    path = folder / name
    path.write_text(CHAT.replace("CONTENT", content).replace("CALLS", calls), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "calls", "fixed"),
    [
        ("{{ m.content }}", "", ("{{ (m.content or '') }}", "")),
        ("{{ 'x: ' + m['content'] }}", "", ("{{ 'x: ' + (m['content'] or '') }}", "")),
        ("{{ m.content or '' if m.tool_calls else m.content }}", "", ("{{ m.content or '' if m.tool_calls else (m.content or '') }}", "")),
        ("{{ m.content.strip() }}", "", ("{{ (m.content or '').strip() }}", "")),
        (TEXT, CALLS.replace("ARGUMENTS", "c.function.arguments"), (TEXT, CALLS.replace("ARGUMENTS", JSON))),
    ],
    ids=["None", "concatenation", "rare None", "method", "arguments"],
)  # fmt: skip
def test_a_fix_is_shown_then_made(
    content: str,
    calls: str,
    fixed: tuple[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = written(tmp_path, content, calls)
    before = path.read_text()
    command = ["--no-config", "--template", str(path)]
    assert main([*command, "--diff"]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert path.read_text() == before
    assert main([*command, "--fix-only"]) == 0
    after = path.read_text()
    assert after == written(tmp_path, *fixed).read_text()
    new = next(line for line in after.splitlines() if line not in before)
    assert "+" + new in lines
    assert main([*command, "--diff"]) == 0  # nothing is left to fix


@pytest.mark.parametrize("name", ["x.j2", "X.JINJA2", "template.txt"])
def test_a_file_of_any_name_is_fixed(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, "{{ m.content }}", "", name)
    assert main(["--no-config", "--template", str(path), "--fix-only", "-q"]) == 0
    assert "{{ (m.content or '') }}" in path.read_text()


def test_what_has_no_exact_fix_stays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "{{ m.content | upper if m.content else '' }}", "")
    before = path.read_bytes()
    assert main(["--no-config", "--template", str(path), "--fix", "-q"]) == 1
    assert path.read_bytes() == before
    assert "MYP713" in capfd.readouterr().out
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"chat_template": "{{ messages[0].content }}"}')
    assert main(["--no-config", "--template", str(config), "--diff"]) == 0
    assert "not fixed; save its template as a file of Jinja" in capfd.readouterr().err
