"""What the linter says about chat templates that write too much, in another place, or for the model."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from mypt_lint.template.checks import case, tokens
from mypt_lint.template.formats import Format
from mypt_lint.template.lint import CONVERSATIONS, lint_templates
from mypt_lint.template.render import Rendered, in_its_form
from mypt_lint.template.source import load
from mypt_lint.template.values import moved, places, values
from mypt_spec.findings import RULES
from tests.support.build import assistant, call, read, tool, user

CODES = frozenset(code for code in RULES if "MYP710" <= code <= "MYP726")
ROWS = {row["_name"]: row for row in read(CONVERSATIONS)}
CHAT = """\
{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif -%}
{%- for m in messages -%}
    {%- set text = m.content if m.content is string else m.content | map(attribute="text") | join if m.content else "" -%}
    <|{{ m.role }}|>{{ m.name }}{{ m.tool_call_id }}
    {%- if m.reasoning_content %}<|think|>{{ m.reasoning_content }}<|/think|>{% endif -%}
    {{ text }}
    {%- for c in m.tool_calls or [] -%}
        {%- set a = c.function.arguments if c.function.arguments is string else c.function.arguments | tojson -%}
        <|call|>{"id": "{{ c.id }}", "name": "{{ c.function.name }}", "arguments": {{ a }}}
    {%- endfor -%}
    <|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""
INSTRUCT = """\
{{- bos_token }}{% if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif -%}
{%- for m in messages -%}
    {%- set text = m.content if m.content is string else m.content | map(attribute="text") | join if m.content else "" -%}
    {%- if m.role == "assistant" -%}
        {%- if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]{% endif -%}
        {{ text }}
        {%- for c in m.tool_calls or [] -%}
            [CALL]{{ c.id }} {{ c.function.name }} {{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}
        {%- endfor -%}
        {{ eos_token }}
    {%- else -%}
        [{{ m.role | upper }}]{{ m.name }}{{ m.tool_call_id }} {{ text }}[/{{ m.role | upper }}]
    {%- endif -%}
{%- endfor -%}
"""


def findings_of(tmp_path: Path, text: str, dialect: str = "") -> list[tuple[str, str]]:
    """Returns code and message of each finding on a lone file, but that text may become a tag."""
    path = tmp_path / "t.jinja"
    path.write_text(text, encoding="utf-8")
    named = mypt_spec.dialect(dialect) if dialect else None
    chunks = lint_templates([str(path)], named, CODES - {"MYP720"}, {})
    return [(d.finding.code, d.finding.message) for chunk in chunks for d in chunk.findings]


def replaced(before: str, after: str, text: str = CHAT) -> str:
    assert before in text
    return text.replace(before, after)


@pytest.mark.parametrize("text", [CHAT, INSTRUCT], ids=["with headers", "without a header"])
def test_a_faithful_template_is_clean(text: str, tmp_path: Path) -> None:
    """A prompt may end where the model writes a tag, and an answer may begin with blanks."""
    assert findings_of(tmp_path, text) == []


@pytest.mark.parametrize("opener", [" ", "\n", "  \n"])
def test_blanks_before_answers_are_no_header(opener: str, tmp_path: Path) -> None:
    text = replaced('{%- if m.role == "assistant" -%}', "{%- if m.role == 'assistant' -%}{{ " + repr(opener) + " }}", INSTRUCT)  # fmt: skip
    assert "MYP717" not in {code for code, _ in findings_of(tmp_path, text)}


def test_a_header_before_answers_and_calls_alike_belongs_to_the_prompt(tmp_path: Path) -> None:
    text = replaced('{%- if m.role == "assistant" -%}', '{%- if m.role == "assistant" -%}[BOT]', INSTRUCT)  # fmt: skip
    said = [message for code, message in findings_of(tmp_path, text) if code == "MYP717"]
    assert any('adds nothing, but trained text has "[BOT]" before an answer' in m for m in said)
    assert any('adds nothing, but trained text has "[BOT][CALL]' in m for m in said)


def test_a_header_that_only_calls_have_is_what_the_model_writes(tmp_path: Path) -> None:
    """Also where the prompt before answers after results is another one."""
    text = replaced('<|assistant|>{% endif -%}', "{{ '' if messages[-1].role == 'tool' else '<|assistant|>' }}{% endif -%}")  # fmt: skip
    text = replaced("<|{{ m.role }}|>", "{% if m.role != 'assistant' or loop.previtem.role != 'tool' %}<|{{ m.role }}|>{% endif %}", text)  # fmt: skip
    assert "MYP717" not in {code for code, _ in findings_of(tmp_path, text)}


def test_a_prompt_that_ends_with_the_stop_token(tmp_path: Path) -> None:
    text = replaced("{%- else -%}\n", "{%- else -%}\n    ", INSTRUCT)
    text = replaced("{%- endif -%}\n{%- endfor", "{{ eos_token if m.role == 'user' }}{%- endif -%}\n{%- endfor", text)  # fmt: skip
    said = [message for code, message in findings_of(tmp_path, text) if code == "MYP717"]
    assert said
    assert all("ends with the stop token" in message for message in said)


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        ('if m.content else "" -%}', 'if m.content is not none else m.content -%}', "MYP723", "it writes None for a value that is absent"),
        ("{{ m.name }}", "{{ m.name is string and m.role == 'tool' }}", "MYP723", "it writes False for"),
        ("m.tool_call_id }}", "m.tool_call_id }}{{ '<|x|>' + ('' | safe) }}", "MYP723", r"as HTML: "),
        ("c.function.arguments | tojson -%}", "c.function.arguments | tojson | tojson -%}", "MYP724", "arguments are a JSON string in the place of an object"),
        ('"arguments": {{ a }}', "{% if c.function.arguments is mapping %}{% for k, v in c.function.arguments.items() %}{{ k }}='{{ v }}'{% endfor %}{% else %}{{ a }}{% endif %}", "MYP724", "quotes and line ends inside of a quoted argument are not escaped"),
        ("c.function.arguments | tojson -%}", "c.function.arguments | string -%}", "MYP726", "written as Python writes them"),
        ("{{ text }}", "{{ text | replace('\\n\\n', '\\n') }}", "MYP713", "white space inside of the question"),
        ("{{ text }}", "{{ ' ' * (text | length - text.lstrip() | length) }}{{ text }}", "MYP714", "blanks around them are written with"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(
    before: str, after: str, code: str, words: str, tmp_path: Path
) -> None:
    found = findings_of(tmp_path, replaced(before, after))
    assert any(c == code and words in message for c, message in found), found


MARKED = """\
{%- for m in messages -%}
    {%- if m.role == "assistant" -%}
        <|assistant|>{% generation %}{{ m.content or "" }}
        {%- for c in (m.tool_calls or [])[:1] %}<|call|>{{ c.function | tojson }}{% endfor -%}
        <|end|>{% endgeneration %}
    {%- else -%}
        <|{{ m.role }} of {{ m.name }}|>{{ m.content if m.content is string else m.content[0].text }}<|end|>
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""


def test_marks_of_a_header(tmp_path: Path) -> None:
    """The name of a call that is left out stands in the header of its result, which has no mark."""
    assert "MYP719" not in {code for code, _ in findings_of(tmp_path, MARKED)}
    text = replaced("<|assistant|>{% generation %}", "{% generation %}<|assistant|>", MARKED)
    marks = [message for code, message in findings_of(tmp_path, text) if code == "MYP719"]
    assert [m.split(";")[0] for m in marks] == [
        'the header "<|assistant|>" is inside of {% generation %}'
    ]


def test_marks_may_begin_with_a_thought_that_the_prompt_has(tmp_path: Path) -> None:
    text = replaced("{% generation %}", "{% generation %}<|think|>", MARKED)
    text = replaced("prompt %}<|assistant|>", "prompt %}<|assistant|><|think|>", text)
    assert "MYP719" not in {code for code, _ in findings_of(tmp_path, text)}


def test_a_template_that_writes_no_text(tmp_path: Path) -> None:
    text = '{% for m in messages %}{{ m.role + ": " + nothing | trim }}\n{% endfor %}'
    assert findings_of(tmp_path, text) == [
        ("MYP710", "it writes no question and no answer of any conversation")
    ]


def test_an_end_that_the_template_names_itself(tmp_path: Path) -> None:
    text = "{% set eos_token = '<|e|>' %}" + INSTRUCT
    assert findings_of(tmp_path, text) == []
    text = replaced("{{ eos_token }}\n", "<|e|>\n", INSTRUCT) + "{# eos_token #}"
    assert {code for code, _ in findings_of(tmp_path, text)} == {"MYP718"}


def test_tokens_of_a_lone_file_are_only_assumed(tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text(INSTRUCT + "{# </s> #}")
    (template,) = load(str(path))
    assert template.assumed == {"<s>"}
    ((row,), _) = in_its_form({None: [ROWS["one question"]]}, lambda *_: Rendered("", None))
    one = case(row, lambda *_, **__: None, Rendered("<s>[USER]</s>", None))  # type: ignore[arg-type,return-value]
    assert tokens(one, template.tokens, template.assumed) == ["[USER]", "</s>"]


@pytest.mark.parametrize(("name", "begin"), [("llama3", "<|begin_of_text|>"), ("qwen3", "")])
def test_a_format_knows_what_a_lone_template_begins_with(
    name: str, begin: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.jinja"
    path.write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
    (template,) = load(str(path))
    format_ = Format(mypt_spec.dialect(name))
    assert format_.named(template).tokens["bos_token"] == begin
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<b>", "chat_template": "x"}')
    (template,) = load(str(tmp_path))
    assert format_.named(template).tokens["bos_token"] == "<b>"


def test_what_is_counted_may_differ_between_rounds(tmp_path: Path) -> None:
    text = replaced("<|{{ m.role }}|>", "<|{{ m.role }}|>{{ loop.index }}: ")
    text = replaced(
        "<|assistant|>{% endif", "<|assistant|>{{ messages | length + 1 }}: {% endif", text
    )
    assert findings_of(tmp_path, text) == []


def test_text_that_moved_is_not_lost(tmp_path: Path) -> None:
    """A prompt before the last question; text beside a call, behind the result."""
    text = replaced("{{ text }}", "{{ text if m.role != 'system' }}{{ messages[0].content if loop.last and m.role == 'user' and messages[0].role == 'system' }}")  # fmt: skip
    assert "MYP713" not in {code for code, _ in findings_of(tmp_path, text)}
    text = replaced("{{ text }}", "{{ text if not m.tool_calls }}{{ loop.previtem.content if m.role == 'tool' }}")  # fmt: skip
    found = [(c, m) for c, m in findings_of(tmp_path, text) if c in ("MYP713", "MYP714")]
    assert found
    assert all(c == "MYP714" and "its place among the messages" in m for c, m in found), found


def test_the_order_that_most_texts_have_counts() -> None:
    row = [user("one?"), assistant("two"), user("three?"), assistant("four")]
    found, text = values(row, None), "two one? three? four two"
    at = places(found, text)
    assert [(value.text, span[0]) for value, span in at] == [
        ("one?", 4),
        ("three?", 9),
        ("four", 16),
    ]
    assert [value.text for value, _ in moved(found, text, at)] == ["two"]


@pytest.mark.parametrize(
    "written",
    ['it\'s "so"\n', 'it\'s \\"so\\"\\n', 'it\\\'s "so"\\n', 'it\'s \\\\\\"so\\\\\\"\\\\n'],
)
def test_arguments_in_quotes_of_json_and_python(written: str) -> None:
    row = [assistant("", tool_calls=[call("f", {"q": 'it\'s "so"\n'})]), tool("r")]
    found = values(row, None)
    assert [v.kind for v, _ in places(found, f"f {written} r")] == [
        "name of a call",
        "argument",
        "result",
    ]


QWEN3 = """\
{%- set last = namespace(user=0) -%}
{%- for m in messages %}{% if m.role == "user" %}{% set last.user = loop.index0 %}{% endif %}{% endfor -%}
{%- for m in messages %}{{ "<|im_start|>" + m.role + "\n" }}
    {%- if m.role == "assistant" and loop.index0 > last.user and (loop.last or m.reasoning_content) %}{{ "<think>\n" + (m.reasoning_content or "") + "\n</think>\n\n" }}{% endif -%}
    {{ m.content + "<|im_end|>\n" }}
{%- endfor -%}
"""


def test_a_template_may_forget_thoughts_as_the_official_one(tmp_path: Path) -> None:
    found = [m for code, m in findings_of(tmp_path, QWEN3, "qwen3") if code == "MYP722"]
    assert not [m for m in found if "one question" in m or "thought in each round" in m], found
