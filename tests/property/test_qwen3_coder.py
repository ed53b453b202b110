"""Calls as tags, in the folder `examples/qwen3_coder`: the text of the template, and what comes back.

The template here says in a few lines what the published one does. Where the variable CHAT_TEMPLATES
names a folder with `qwen3_coder.jinja`, this is read, too.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.stream_parser import StreamParser
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.own.check import check
from mypt_lint.template.lint import lint_template
from mypt_spec import Dialect
from mypt_spec.bodies import tagged
from mypt_train.data.encode_line import Encoder, Options
from tests.dialects import qwen3
from tests.property.test_qwen3 import real, trained
from tests.property.test_stream_parser import merged
from tests.support.chat_shapes import Shape, typed_tools
from tests.support.conversations import conversations
from tests.support.examples import examples
from tests.support.oracles import EXAMPLES
from tests.support.strategies import Record

FOLDER = Path(__file__).parents[2] / "examples/qwen3_coder"
# Texts of Qwen3, whose tags are more, in calls of tools whose schemas have each type.
SHAPE = Shape(
    name=qwen3.NAME, calls=2, ids="call_{}", keys=("city", "n", "unit_2", "q"), quoted=True, tools=typed_tools
)  # fmt: skip
DEFAULT = "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks."
HERE = (
    "{% macro more(given, but) %}{% for key in given if key not in but %}{% set v = given[key] %}"
    "{{ '\n<' ~ key ~ '>' ~ ((v | tojson) if v is mapping or (v is sequence and v is not string) else v)"
    " ~ '</' ~ key ~ '>' }}{% endfor %}{% endmacro %}"
    "{% set system = messages[0].role == 'system' %}"
    "{% if system or tools %}<|im_start|>system{{ '\n' }}{% endif %}"
    "{% if system %}{{ messages[0].content }}{% elif tools %}{{ default }}{% endif %}"
    "{% if tools %}{{ open }}{% for tool in tools %}{% set f = tool.function %}"
    "{{ '\n<function>\n<name>' ~ f.name ~ '</name>' }}"
    "{% if 'description' in f %}{{ '\n<description>' ~ (f.description | trim) ~ '</description>' }}{% endif %}"
    "{{ '\n<parameters>' }}{% for name, p in f.get('parameters', {}).get('properties', {}).items() %}"
    "{{ '\n<parameter>\n<name>' ~ name ~ '</name>' }}"
    "{% if 'type' in p %}{{ '\n<type>' ~ p.type ~ '</type>' }}{% endif %}"
    "{% if 'description' in p %}{{ '\n<description>' ~ (p.description | trim) ~ '</description>' }}{% endif %}"
    "{{ more(p, ['name', 'type', 'description']) ~ '\n</parameter>' }}{% endfor %}"
    "{{ more(f.get('parameters', {}), ['type', 'properties']) ~ '\n</parameters>\n</function>' }}{% endfor %}"
    "{{ close }}{% endif %}{% if system or tools %}<|im_end|>{{ '\n' }}{% endif %}"
    "{% for m in messages[system | int:] %}"
    "{% if m.role == 'tool' %}{% if loop.previtem.role != 'tool' %}<|im_start|>user{{ '\n' }}{% endif %}"
    "{{ '<tool_response>\n' ~ m.content ~ '\n</tool_response>\n' }}"
    "{% if loop.last or loop.nextitem.role != 'tool' %}<|im_end|>{{ '\n' }}{% endif %}"
    "{% else %}{{ '<|im_start|>' ~ m.role }}"
    "{% set said = (m.content or '') | trim if m.tool_calls else m.content %}"
    "{{ '\n' ~ said if said or not m.tool_calls }}{{ '\n' if said and m.tool_calls }}"
    "{% for call in m.tool_calls or [] %}{{ '\n<tool_call>\n<function=' ~ call.function.name ~ '>\n' }}"
    "{% for key, v in call.function.arguments.items() %}{{ '<parameter=' ~ key ~ '>\n' }}"
    "{{ (v | tojson) if v is mapping or (v is sequence and v is not string) else v }}"
    "{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}{% endfor %}"
    "<|im_end|>{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}"
)


@cache
def dialect() -> Dialect:
    return mypt_spec.load(FOLDER)


@cache
def template(name: str) -> str:
    """A template by its name; skips where it is the official one and the folder is not there."""
    if name == "here":
        return HERE
    folder = os.environ.get("CHAT_TEMPLATES")
    path = Path(folder or "", f"{name}.jinja")
    if not folder or not path.is_file():
        pytest.skip(f"CHAT_TEMPLATES names no folder with {name}.jinja")
    return path.read_text(encoding="utf-8")


def rendered(name: str, record: Record, **more: Any) -> str:
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    terminals = dialect().table.terminals
    found, _ = rendering.render_jinja_template(
        conversations=[record["messages"]],
        tools=record.get("tools"),
        chat_template=template(name),
        open="\n\n" + terminals["TOOLS_OPEN"].bare.removesuffix("\n"),
        close=terminals["TOOLS_CLOSE"].bare,
        default=DEFAULT,
        **more,
    )
    return str(found[0])


def comparable(made: Record) -> Record:
    """A canonical record without what the template is known to change (SPEC, Differences)."""
    episode, _ = dialect().read(made)
    assert episode is not None
    record = dialect().write(episode)
    messages = record["messages"]
    if "tools" in record and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": DEFAULT})
    for message in messages:
        if message.get("tool_calls") and "content" in message:
            message["content"] = message["content"].strip()
            if not message["content"]:
                del message["content"]
        for call in message.get("tool_calls", ()):
            given = call["function"]["arguments"]
            call["function"]["arguments"] = {k: v for k, v in given.items() if v not in (None, True, False) or v.__class__ in (int, float)}  # fmt: skip
    return record


@pytest.mark.parametrize("name", ["here", "qwen3_coder"])
def test_text_is_that_of_the_template(name: str) -> None:
    d = dialect()
    template(name)
    calls = 0
    for number, made in conversations(SHAPE, clean=True):
        if any(f.severity == "error" for f in d.check(made)[1]):
            continue  # arguments that tags cannot say
        record = comparable(made)
        episode, findings = d.check(record)
        assert episode is not None
        text = rendered(name, record)
        assert d.serialize(episode) == text, number
        back, more = d.parse(text)
        assert (back, more) == (episode, []), number
        calls += text.count("<function=") - text.count("<function=example")
        asked = record | {"messages": record["messages"][:-1]}
        prompt = rendered(name, asked, add_generation_prompt=True)
        assert d.check_prefix(prompt).findings == [], number
        assert back is not None
        if not {"MYP362", "MYP360"} & {f.code for f in findings}:
            said = d.write(back)
            assert said["messages"] == without_ids(record)["messages"], number
    assert calls


def without_ids(record: Record) -> Record:
    out = json.loads(json.dumps(record))
    for message in out["messages"]:
        for key in ("tool_call_id", "name", "_note"):
            message.pop(key, None)
        for call in message.get("tool_calls", ()):
            call.pop("id", None)
    return dict(out)


def test_the_folder_is_a_format_of_ones_own() -> None:
    assert [result.said for result in check(FOLDER) if result.fine is not True] == []


# --- the body


TYPES = [{"type": t} for t in sorted(tagged.KINDS)] + [
    {},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    {"enum": ["a", 1]},
    {"$ref": "#/$defs/n"},
]
WORDS = st.text(max_size=5) | st.sampled_from(
    [
        "",
        "5",
        "true",
        "null",
        "None",
        '"5"',
        "[1]",
        "1.0",
        " 5",
        "\n",
        "</parameter>",
        "<parameter",
        "<function=f>",
        "\n</parameter",
        '{"a":1}',
    ]
)
LEAVES = WORDS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=2) | st.dictionaries(WORDS, v, max_size=2))  # fmt: skip
LITERALS = re.compile("<end>")


@settings(max_examples=examples(300))
@given(value=VALUES, schema=st.sampled_from(TYPES), key=st.sampled_from(["q", "n m", "a>", " "]))
def test_an_argument_comes_back_or_is_found(value: Any, schema: Record, key: str) -> None:
    """Exactly those without a finding come back, with their type; errors are those that no text says."""
    parameters = {"properties": {key: schema}, "$defs": {"n": {"type": "integer"}}}
    types = tagged.types_of([{"function": {"name": "f", "parameters": parameters}}])
    call = {"name": "f", "arguments": {key: value, "z": "last"}}
    findings = tagged.call_findings(call, "/at", types, LITERALS)
    text = tagged.write_tagged("f", call["arguments"], LITERALS)
    codes = {f.code for f in findings}
    try:
        name, texts = tagged.read_tagged(text)
        back = tagged.typed(name, texts, types)
    except tagged.TaggedFault:
        assert codes & {"MYP301", "MYP320"}
        return
    same = json.dumps(back) == json.dumps(call["arguments"])
    assert same or codes, (text, back)
    assert not (same and "MYP362" in codes)
    assert ("MYP320" in codes) == (key in ("a>", " "))


def test_types_of_schemas_that_are_none_or_name_themselves() -> None:
    loop = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 50}}, "$ref": "#/$defs/a"}
    for schema in ({"type": {}}, {"type": [{}]}, {"anyOf": 3}, loop, 5, {"$ref": "#/none"}):
        assert tagged.kinds_in(schema, schema) == tagged.KINDS


PIECES = [*tagged.TAGS, "f", ">", ">\n", "\n", "a", "<", "\n</parameter>\n", "</function>"]


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_text_is_read_or_refused_and_comes_back(text: str) -> None:
    for body in (text, f"<function=f>\n{text}</function>", f"<function=f>\n<parameter=k>\n{text}\n</parameter>\n</function>"):  # fmt: skip
        offset = 0
        try:
            name, texts = tagged.read_tagged(body)
            assert tagged.write_tagged(name, texts, LITERALS) == body
        except tagged.TaggedFault as fault:
            offset = fault.offset
        assert 0 <= offset <= len(body)


# --- ids


@pytest.mark.parametrize("vocabulary", ["learnt", "of Qwen"])
def test_ids_are_those_of_the_rendered_text(vocabulary: str, tmp_path: Path) -> None:
    """The tokenizer of the model makes them of the whole text, its tags and the values alike."""
    pytest.importorskip("tokenizers")
    if vocabulary == "of Qwen" and (EXAMPLES < 100 or find_spec("dashscope") is None):
        pytest.skip("nox -s oracles has the vocabulary, and time for it")
    library, other = trained(str(tmp_path)) if vocabulary == "learnt" else real()
    assert other.vocabulary is not None
    for name, data in other.vocabulary.copy.items():
        (tmp_path / name).write_bytes(data)
    d, compared = mypt_spec.dialect(str(FOLDER), vocabulary=tmp_path), 0
    for number, made in conversations(SHAPE, clean=True):
        for message in made["messages"]:  # where an answer begins, ids say who wrote white space
            if message["role"] == "assistant" and message.get("content"):
                message["content"] = message["content"].lstrip() or "a"
        episode, findings = d.check(made)
        if episode is None or any(f.severity == "error" for f in findings):
            continue
        text = d.serialize(episode)
        if is_normalized("NFC", text):  # as Qwen's tokenizer makes it
            ids = d.encode(episode).ids.tolist()
            assert ids == library.encode(text, add_special_tokens=False).ids, number
            assert d.parse_ids(ids)[0] == episode, number
            compared += 1
    assert compared > EXAMPLES / 2


# --- differences from the template


USER = {"role": "user", "content": "u"}


def asked(arguments: Record, **more: Any) -> Record:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [USER, {"role": "assistant", "tool_calls": [call], **more}]}


def own(record: Record) -> str:
    episode, findings = dialect().check(record)
    assert episode is not None
    assert findings == []
    return dialect().serialize(episode)


def test_words_of_python_are_json() -> None:
    record = asked({"a": True, "b": None})
    assert "<parameter=a>\ntrue\n</parameter>\n<parameter=b>\nnull\n</parameter>" in own(record)
    assert "<parameter=a>\nTrue\n</parameter>\n<parameter=b>\nNone\n" in rendered("here", record)


def test_json_in_an_argument_escapes_tags() -> None:
    for tag in ("</parameter>", "</tool_call>"):
        record = asked({"a": [tag]})
        text = own(record)
        assert f'["\\u003c{tag[1:]}"]' in text
        assert dialect().parse(text)[0] == dialect().read(record)[0]
        assert f'["{tag}"]' in rendered("here", record)


def test_no_system_message_is_made_up() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    record = asked({}) | {"tools": tools}
    assert own(record).startswith("<|im_start|>system\n# Tools\n")
    assert rendered("here", record).startswith(f"<|im_start|>system\n{DEFAULT}\n\n# Tools\n")


def test_nothing_is_trimmed() -> None:
    record = asked({}, content=" a\n")
    assert "assistant\n a\n\n\n<tool_call>" in own(record)
    assert "assistant\na\n\n<tool_call>" in rendered("here", record)


# --- findings


def test_findings_name_the_argument() -> None:
    at = "/messages/1/tool_calls/0/function/arguments/a"
    for value, code in (("x</parameter>", "MYP301"), ("5", "MYP362")):
        _, findings = dialect().check(asked({"a": value}))
        assert [(f.code, f.pointer) for f in findings] == [(code, at)]


def test_arguments_are_held_to_a_schema_of_the_settings() -> None:
    schema = '{"properties": {"a": {"type": "string"}, "n": {"type": "integer", "minimum": 3}}}'
    limits = mypt_spec.Limits(schemas=(mypt_spec.rules.context.ToolSchema("f", schema),))
    episode, _ = dialect().read(asked({"a": "5", "n": 1}))
    assert episode is not None
    found = dialect().validate(episode, limits=limits)
    at = "/messages/1/tool_calls/0/function/arguments/n"
    assert [(f.code, f.pointer) for f in found] == [("MYP353", at)]


def test_json_of_an_argument_in_a_text_is_canonical() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}
    record = asked({"a": [1]}) | {"tools": [{"type": "function", "function": tool}]}
    text = own(record).replace("\n[1]\n", "\n[ 1 ]\n")
    episode, findings = dialect().parse(text)
    assert episode is not None
    assert dialect().write(episode)["messages"][1] == record["messages"][1]
    assert [f.code for f in [*findings, *dialect().validate(episode)]] == ["MYP308"]


# --- running a conversation


@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_stream_has_the_events_of_the_whole(data: st.DataObject) -> None:
    """Also where line ends before a call come one by one, and where some are missing."""
    d = dialect()
    pieces = ["\n", "\n\n", "a", " ", "b\n", "<tool_call>", "</tool_call>", "<|im_end|>", "<parameter"]  # fmt: skip
    text = "<|im_start|>assistant\n" + "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=9)))  # fmt: skip
    ids: list[int] = []
    for part in re.split(f"({'|'.join(map(re.escape, d.table.special))})", text):
        ids += [d.table.special[part]] if part in d.table.special else [
            i for c in part for i in d.tokenizer.encode(c)
        ]  # fmt: skip
    parser = StreamParser(d)
    found = [(p.event.terminal, p.event.text) for i in ids for p in parser.push(i)]
    found += [(p.event.terminal, p.event.text) for p in parser.flush()]
    whole = [(e.terminal, e.text) for e in d.lex_ids(ids)[0]]
    assert merged(found) == whole


# --- the fast paths


def test_fast_paths_say_what_the_slow_ones_do() -> None:
    """Equal records but for an argument, whose type and tags decide; in each order, again and again."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]  # fmt: skip
    values = [
        "abc",
        "5",
        "x</parameter>",
        "abd",
        5,
        6,
        "<tool_call>",
        "y<function=",
        "",
        "[]",
        None,
    ]
    rows = [asked({"a": v, "b": w}) | more for v in values for w in values[:3] for more in ({}, {"tools": tools})]  # fmt: skip
    lines = [json.dumps(row).encode() for row in rows] * 2
    checker, fast = Checker(dialect()), FastChecker(Checker(dialect()))
    said = [[d.finding for d in checker.line(line, row=1, filename="x")] for line in lines]
    for line, expected in zip(lines, said, strict=True):
        _, found = fast.block(line + b"\n", row=1, filename="x")
        assert [d.finding for _, many in found for d in many] == expected, line
    encoder, slow = (Encoder(Options(dialect=str(FOLDER))) for _ in range(2))
    expected_ids = [outcome_of(slow.line(line)) for line in lines]
    for _ in range(3):
        assert [outcome_of(outcome) for outcome in encoder.lines(lines)] == expected_ids
    assert {status for status, _ in expected_ids} == {"written", "refused"}
    refused = [any(f.severity == "error" for f in found) for found in said]
    assert [status == "refused" for status, _ in expected_ids] == refused


def outcome_of(outcome: Any) -> tuple[str, list[list[int]]]:
    return outcome.status, [sample.ids.tolist() for sample in outcome.samples]


def test_the_linter_of_templates_takes_the_folder(tmp_path: Path) -> None:
    """Its conversations become records of the format, and their texts are compared."""
    pytest.importorskip("transformers.utils.chat_template_utils")
    path = tmp_path / "t.jinja"
    path.write_text(HERE.replace("<|im_end|>", "<|im_end|> "), encoding="utf-8")
    (chunk,) = lint_template(str(path), mypt_spec.dialect(str(FOLDER)), frozenset({"MYP722"}), {})
    assert any("qwen3-coder" in item.finding.message for item in chunk.found)
