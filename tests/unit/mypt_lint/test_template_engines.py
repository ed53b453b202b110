"""MYP745: other engines of templates, where they are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mypt_lint.template import lint
from mypt_lint.template.lint import lint_templates
from mypt_lint.template.sandbox import other_engine

PLAIN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


def messages(path: Path, codes: frozenset[str] = frozenset({"MYP745"})) -> list[str]:
    (chunk,) = lint_templates([str(path)], None, codes, {})
    return [item.finding.message for item in chunk.findings]


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (lambda text, values: "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in values["messages"]), []),
        (lambda text, values: "x", ['renders "one question" otherwise: at character 0, "x" where Jinja writes "<|user|>']),
        (lambda text, values: 1 / 0, ['renders "one question" otherwise: it fails: division by zero']),
        (None, []),
    ],
)  # fmt: skip
def test_each_engine_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any, expected: list[str]
) -> None:
    """One runs in the process of the template, the other beside it; equal texts are no finding."""
    monkeypatch.setattr(lint, "other_engine", lambda name: engine)
    (tmp_path / "t.jinja").write_text(PLAIN)
    reported = messages(tmp_path / "t.jinja")
    both = ["minijinja", "llama.cpp"] if expected else []
    assert [message.split()[0] for message in reported] == both
    assert all(text in message for message in reported for text in expected)
    assert messages(tmp_path / "t.jinja", frozenset({"MYP710"})) == []


@pytest.mark.parametrize(("name", "package"), [("minijinja", "minijinja"), ("llama.cpp", "ggufdoctor")])  # fmt: skip
def test_an_engine_renders(name: str, package: str) -> None:
    pytest.importorskip(package)
    engine = other_engine(name)
    assert engine is not None
    text = PLAIN.replace(
        "{{ m.content }}", "{%- generation -%}{{ m.content }}{%- endgeneration -%}"
    )
    values = {"messages": [{"role": "user", "content": "Hi"}], "tools": None}
    assert engine(text, values) == "<|user|>Hi<|end|>"
    with pytest.raises(ValueError, match="no"):
        engine("{{ raise_exception('no') }}", values)
