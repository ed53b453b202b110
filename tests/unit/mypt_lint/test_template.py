"""What the linter says about chat templates, on templates with planted faults."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main
from mypt_cli.errors import UsageError
from mypt_lint.template.checks import case, tokens
from mypt_lint.template.formats import Format
from mypt_lint.template.lint import CONVERSATIONS, lint_templates
from mypt_lint.template.render import Rendered, in_its_form
from mypt_lint.template.source import load
from mypt_lint.template.values import places, values
from mypt_spec.findings import RULES
from mypt_spec.templates import sandbox
from mypt_spec.templates.sandbox import compiled
from mypt_train.export.chat_template import chat_template
from tests.support.build import assistant, chat, read, user
from tests.support.examples import examples
from tests.support.linting import Linter

FAITHFUL = """\
{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif -%}
{%- for m in messages -%}
    {%- if m.role == "assistant" -%}
        <|assistant|>{% generation %}
        {%- if m.reasoning_content %}<|think|>{{ m.reasoning_content }}<|/think|>{% endif -%}
        {%- if m.content %}{{ m.content }}{% endif -%}
        {%- for c in m.tool_calls or [] -%}
            <|call|>{{ c.id }} {{ c.function.name }} {{ c.function.arguments
            if c.function.arguments is string else c.function.arguments | tojson }}
        {%- endfor -%}
        <|end|>{% endgeneration %}
    {%- elif m.content is string -%}
        {%- if "<|" in m.content %}{{ raise_exception("a tag in the content") }}{% endif -%}
        <|{{ m.role }}|>{{ m.tool_call_id }} {{ m.name }} {{ m.content }}<|end|>
    {%- else -%}
        <|{{ m.role }}|>{% for part in m.content %}{{ part.text }}{% endfor %}<|end|>
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""
CODES = frozenset(code for code in RULES if "MYP710" <= code <= "MYP724")


ROWS = read(CONVERSATIONS)


def findings_of(path: Path, dialect: str = "") -> list[tuple[str, str]]:
    """Returns code and message of each finding."""
    named = mypt_spec.dialect(dialect) if dialect else None
    chunks = lint_templates([str(path)], named, CODES, {})
    return [(d.finding.code, d.finding.message) for chunk in chunks for d in chunk.findings]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A faithful template."""
    (tmp_path / "t.jinja").write_text(FAITHFUL, encoding="utf-8")
    return tmp_path / "t.jinja"


def replaced(path: Path, before: str, after: str, text: str = FAITHFUL) -> Path:
    """Writes a template in which something is replaced."""
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")
    return path


@cache
def exported(name: str = "mypt") -> str:
    return chat_template(mypt_spec.dialect(name))


def test_conversations_are_many_and_their_values_differ() -> None:
    assert len(ROWS) == 40
    assert len({row["_name"] for row in ROWS}) == 40
    for row in ROWS:
        texts = [v.text for v in values(row["messages"], None) if not v.kind.startswith("name")]
        assert len(texts) == len(set(texts)), row["_name"]


def test_a_faithful_template_has_no_finding(path: Path) -> None:
    assert findings_of(path) == []


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        ("{{ c.function.name }} ", "", "MYP713 MYP714 MYP719", 'name of a call "get_weather"'),
        ("{{ m.reasoning_content }}", "...", "MYP721", "thoughts"),
        ("<|tools|>{{ tools | tojson }}<|end|>", "", "MYP713", "declared tool"),
        ("{{ c.id }} ", "", "MYP714", "id of a call"),
        ("{{ m.name }} ", "", "MYP714", "name of a result"),
        ("{{ m.content }}<|end|>\n", "{{ m.content | trim }}<|end|>\n", "MYP714", "white space"),
        ("<|assistant|>{% gen", "{% if loop.index < 4 %}<|assistant|>{% endif %}{% gen", "MYP715 MYP717", "between question and answer"),
        ("<|end|>{% endgen", "{{ '<|stop|>' if loop.last else '<|end|>' }}{% endgen", "MYP716", '"<|stop|>", and "<|end|>'),
        ("prompt %}<|assistant|>", "prompt %}<|assistant|>\n", "MYP717", r'"\n", trained on'),
        ("prompt %}<|assistant|>", "prompt %}", "MYP717", "adds nothing"),
        ("<|end|>{% endgeneration %}", "{% endgeneration %}", "MYP718", "nothing is written"),
        ("{%- if m.content %}{{ m.content }}{% endif -%}", "{% endgeneration %}{{ m.content or '' }}{% generation %}", "MYP719", 'the answer "The Danube." is outside'),
        ('{%- if "<|" in', '{%- if "<|no|>" in', "MYP720", "special token"),
        ("{{ part.text }}", "{{ part.words.first }}", "MYP711", "no attribute"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(
    before: str, after: str, code: str, words: str, path: Path
) -> None:
    findings = findings_of(replaced(path, before, after))
    assert {c for c, _ in findings} == set(code.split()), findings
    assert any(words in message for _, message in findings)


def test_a_stop_token_that_is_not_marked(path: Path, tmp_path: Path) -> None:
    replaced(path, "<|end|>{% endgeneration %}", "{% endgeneration %}{{ eos_token }}")
    path.rename(tmp_path / "chat_template.jinja")
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|e|>"}}')
    places = [(c, m.split(" at ")[0]) for c, m in findings_of(tmp_path)]
    assert places == [("MYP719", "the stop token")]


def test_stop_tokens_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(FAITHFUL)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 8]}')
    added = [{"id": 7, "content": "<|halt|>"}, {"id": 8, "content": "<|eot|>"}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (template,) = load(str(tmp_path))
    assert template.stops == {"<|halt|>", "<|eot|>"}
    assert [code for code, _ in findings_of(tmp_path)] == ["MYP718", "MYP718"]


def test_templates_of_settings_are_named(tmp_path: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    two = [{"name": "default", "template": FAITHFUL}, {"name": "tool_use", "template": "{{ x() }}"}]
    config.write_text(json.dumps({"chat_template": two}))
    (finding,) = findings = findings_of(config)
    assert finding[0] == "MYP710"
    assert finding[1].startswith("template tool_use: it renders no co")
    assert findings_of(tmp_path) == findings


def test_parts_and_json_text_are_tried(path: Path) -> None:
    only_parts = (
        "{% for m in messages %}<|{{ m.role }}|>{% for p in m.content %}{{ p.text }}{% endfor %}"
        "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    path.write_text(only_parts)
    codes = {code for code, _ in findings_of(path)}
    assert codes == {"MYP711", "MYP714", "MYP720", "MYP721"}
    replaced(path, "c.function.arguments | tojson", "c.function.arguments.strip()")
    assert findings_of(path) == []


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("mypt", {"MYP712"}),
        # A conversation may end with a question; tools are given where records are rendered, too.
        # As by its own template, only the last answer has an empty thought.
        ("qwen3", {"MYP712", "MYP714", "MYP716"}),
    ],
)
def test_the_exported_template_writes_its_format(name: str, codes: set[str], path: Path) -> None:
    path.write_text(exported(name), encoding="utf-8")
    assert {code for code, _ in findings_of(path, name)} <= codes


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ('set after = "EOT"', 'set after = ""', "MYP722"),
        ('{{- piece("thought", prefixes["thought"] ~ thought.text, key, where, {}) -}}', "", "MYP722"),
        ("if part[1] == 1", "if part[1] == 0", "MYP719"),
    ],
)  # fmt: skip
def test_a_template_that_differs_from_its_format(
    before: str, after: str, code: str, path: Path
) -> None:
    replaced(path, before, after, exported())
    assert code in {c for c, _ in findings_of(path, "mypt")}


def test_the_command(path: Path, lint: Linter) -> None:
    command = ["--no-config", "--template", path]
    path.write_text("{% for m in messages %}{{ m.content }}")
    status, (finding,), err = lint(*command)
    assert status == 1
    assert (finding["code"], finding["location"]["row"]) == ("MYP710", 1)
    assert "endfor" in finding["message"]
    assert "80 conversations" in err
    assert lint(*command, "--ignore", "MYP7", "-q")[0] == 0
    path.write_text(FAITHFUL)
    assert lint(*command) == (0, [], "80 conversations clean (1 file)\n")


def test_templates_that_a_shell_writes_out(path: Path, lint: Linter) -> None:
    """As of `--template *.jinja`: the second one is no data."""
    (path.parent / "b.jinja").write_bytes(path.read_bytes())
    status, findings, _ = lint("--template", str(path), str(path.parent / "b.jinja"))
    assert (status, findings) == lint("--template", str(path))[:2]


def test_severities_of_the_settings(path: Path, tmp_path: Path) -> None:
    replaced(path, "{{ c.id }} ", "")
    (tmp_path / "mypt-lint.toml").write_text('[severity]\ntemplate-loses-detail = "error"\n')
    run = ["--template", str(path), "--config", str(tmp_path / "mypt-lint.toml"), "-q"]
    assert main(run) == 1
    assert main(["--template", str(path), "--no-config", "-q"]) == 0


def test_what_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no chat template"):
        load(str(tmp_path))
    with pytest.raises(UsageError, match="No such file"):
        load(str(tmp_path / "x.jinja"))
    with pytest.raises(UsageError, match="downloaded first: hf download Qwen/Qwen3-8B --include"):
        load("Qwen/Qwen3-8B")
    tags = [{"id": i, "content": tag} for i, tag in enumerate(("<|im_start|>", "<|im_end|>", "x"))]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tags}))
    with pytest.raises(UsageError, match="its tokens fit chatml: use --dialect chatml instead"):
        load(str(tmp_path))
    for text, words in [
        ("{", "is not JSON"),
        ("[]", "expected a JSON object"),
        ("{}", "no chat_temp"),
    ]:
        (tmp_path / "tokenizer_config.json").write_text(text)
        with pytest.raises(UsageError, match=words):
            load(str(tmp_path / "tokenizer_config.json"))
    (tmp_path / "b.jinja").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        load(str(tmp_path / "b.jinja"))


def test_a_newer_jinja_is_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.compiled.cache_clear()
    monkeypatch.setattr(jinja2, "__version__", "3.1.5")
    with pytest.raises(mypt_spec.SpecError, match=r"3\.1\.6 or newer: pip install -U jinja2"):
        findings_of(path)


@settings(max_examples=examples(40))
@given(st.data())
def test_whatever_a_template_is_no_exception_leaves(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    pieces = ["{{ m.content }}", "{{ m.role }}", "<|x|>", "{{ eos_token }}", "{{ m.tool_calls }}",
              "{% generation %}a{% endgeneration %}", "{{ raise_exception('no') }}", "{{ m.a.b }}",
              "{{ tools | tojson }}", "{% if loop.last %}b{% endif %}", "\n", "{{", "é"]  # fmt: skip
    inside = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=5)))
    text = "{% for m in messages %}" + inside + "{% endfor %}"
    path = tmp_path_factory.mktemp("t") / "t.jinja"
    path.write_text(text, encoding="utf-8")
    assert all(code in CODES for code, _ in findings_of(path))


def test_values_are_found_after_what_was_before() -> None:
    row = next(row for row in ROWS if row["_name"] == "one call")
    text = "get_weather | How is the weather in Oslo? | get_weather Oslofjord | It snows lightly."
    at = places(values(row["messages"], row["tools"]), text)
    spans = {value.kind: span[0] for value, span in at}
    assert spans["declared tool"] == 0
    assert spans["name of a call"] == text.rindex("get_weather")


def test_tokens_of_a_template() -> None:
    text = "<|u|>Which river runs through Vienna?</s><｜a｜>The Danube.[INST]<|t><t|>[|e|]"
    ((row,), _) = in_its_form({None: ROWS[:1]}, lambda *_: Rendered("", None))
    here = case(row, lambda *_: None, Rendered(text, None))  # type: ignore[arg-type,return-value]
    assert tokens(here, {"bos_token": "<b>"}) == [
        "<|u|>",
        "</s>",
        "<｜a｜>",
        "[INST]",
        "<|t>",
        "<t|>",
        "[|e|]",
    ]


@pytest.mark.parametrize(
    ("name", "roles"),
    [("qwen3", ["user", "assistant"]), ("mypt", ["system", "user", "assistant"])],
)
def test_no_prompt_is_put_in_where_the_format_needs_none(name: str, roles: list[str]) -> None:
    format_ = Format(mypt_spec.dialect(name))
    record = format_.record(chat(user(), assistant()))
    assert record is not None
    assert [message["role"] for message in format_.messages(record)] == roles


def test_the_sandbox_writes_what_that_of_transformers_writes() -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    uses = FAITHFUL + "{% set n = namespace(x=1) %}{{ n.x }}{{ dict(a=2) }}{{ strftime_now('%Y') }}"
    for row in ROWS:
        variables = {"tools": row.get("tools"), "add_generation_prompt": True, "bos_token": "<s>"}
        theirs, marks = utils.render_jinja_template(
            conversations=[row["messages"]], chat_template=uses, return_assistant_tokens_mask=True,
            **variables,
        )  # fmt: skip
        text, spans = compiled(uses)(messages=row["messages"], documents=None, **variables)
        assert (text, spans) == (theirs[0], [tuple(span) for span in marks[0]])
