"""Calls as tags, in the format `qwen3-coder`: the text of the template, and what comes back.

The template is that of tests/support/chat_templates.py, and the official one where it is at hand.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.own_format.check import check
from mypt_infer.stream_parser import StreamParser
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.template.lint import lint_templates
from mypt_spec.bodies import tagged
from mypt_train.data.encode_line import Encoder, Options
from tests.support import chat_templates
from tests.support.build import call, chat, function, lines, user
from tests.support.chat_templates import DEFAULT, QWEN3_CODER, learnt, qwen, template
from tests.support.conversations import conversations
from tests.support.events import join_texts
from tests.support.examples import examples
from tests.support.fast_paths import assert_same_ids
from tests.support.oracles import EXAMPLES
from tests.support.qwen3_coder import FOLDER, SHAPE, dialect, without_ids
from tests.support.strategies import Record

HERE = "written here: qwen3_coder"


def rendered(name: str, record: Record, **more: Any) -> str:
    terminals = dialect().table.terminals
    opening = "\n\n" + terminals["TOOLS_OPEN"].bare.removesuffix("\n")
    words = {"open": opening, "close": terminals["TOOLS_CLOSE"].bare, "default": DEFAULT}
    return chat_templates.rendered(name, record, **words, **more)


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
        for one in message.get("tool_calls", ()):
            arguments = one["function"]["arguments"]
            one["function"]["arguments"] = {k: v for k, v in arguments.items() if v not in (None, True, False) or v.__class__ in (int, float)}  # fmt: skip
    return record


@pytest.mark.parametrize("name", [HERE, "qwen3_coder"])
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


def test_the_folder_is_a_format_of_ones_own() -> None:
    assert [result.said for result in check(FOLDER) if result.fine is not True] == []


# --- the body


TYPES = [{"type": t} for t in sorted(tagged.KINDS)] + [
    {}, {"type": ["string", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"enum": ["a", 1]}, {"$ref": "#/$defs/n"},
]  # fmt: skip
SPELLED = [
    "", "5", "true", "null", "None", '"5"', "[1]", "1.0", " 5", "\n", "</parameter>", "<parameter", "<function=f>", "\n</parameter", '{"a":1}',
]  # fmt: skip
WORDS = st.text(max_size=5) | st.sampled_from(SPELLED)
LEAVES = WORDS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=2) | st.dictionaries(WORDS, v, max_size=2))  # fmt: skip
LITERALS = re.compile("<end>")


@settings(max_examples=examples(300))
@given(value=VALUES, schema=st.sampled_from(TYPES), key=st.sampled_from(["q", "n m", "a>", " "]))
def test_an_argument_comes_back_or_is_found(value: Any, schema: Record, key: str) -> None:
    """Exactly those without a finding come back, with their type; errors are those that no text says."""
    parameters = {"properties": {key: schema}, "$defs": {"n": {"type": "integer"}}}
    types = tagged.types_of([{"function": {"name": "f", "parameters": parameters}}])
    arguments = {key: value, "z": "last"}
    asked = {"name": "f", "arguments": arguments}
    findings = tagged.call_findings(asked, "/at", types, LITERALS)
    text = tagged.write_tagged("f", arguments, LITERALS)
    codes = {f.code for f in findings}
    try:
        name, texts = tagged.read_tagged(text)
        back = tagged.typed(name, texts, types)
    except tagged.Fault:
        assert codes & {"MYP301", "MYP320"}
        return
    same = json.dumps(back) == json.dumps(arguments)
    assert same or codes, (text, back)
    assert not (same and "MYP362" in codes)
    assert ("MYP320" in codes) == (key in ("a>", " "))


def test_types_of_schemas_that_are_none_or_name_themselves() -> None:
    loop = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 50}}, "$ref": "#/$defs/a"}
    for schema in ({"type": {}}, {"type": [{}]}, {"anyOf": 3}, loop, 5, {"$ref": "#/none"}):
        assert tagged.kinds_in(schema, schema) == tagged.KINDS


PIECES = [*tagged.USUAL.marks, "f", ">", ">\n", "\n", "a", "<", "\n</parameter>\n", "</function>"]


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_text_is_read_or_refused_and_comes_back(text: str) -> None:
    for body in (text, f"<function=f>\n{text}</function>", f"<function=f>\n<parameter=k>\n{text}\n</parameter>\n</function>"):  # fmt: skip
        offset = 0
        try:
            name, texts = tagged.read_tagged(body)
            assert tagged.write_tagged(name, texts, LITERALS) == body
        except tagged.Fault as fault:
            offset = fault.offset
        assert 0 <= offset <= len(body)


# --- ids


@pytest.mark.parametrize("vocabulary", ["learnt", "of Qwen"])
def test_ids_are_those_of_the_rendered_text(vocabulary: str, tmp_path: Path) -> None:
    """The tokenizer of the model makes them of the whole text, its tags and the values alike."""
    pytest.importorskip("tokenizers")
    if vocabulary == "of Qwen" and (EXAMPLES < 100 or find_spec("dashscope") is None):
        pytest.skip("nox -s oracles has the vocabulary, and time for it")
    library, other = learnt("qwen3") if vocabulary == "learnt" else qwen()
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


def asked(arguments: Record, **more: Any) -> Record:
    return chat(user("u"), {"role": "assistant", "tool_calls": [call("f", arguments)], **more})


def own(record: Record) -> str:
    episode, findings = dialect().check(record)
    assert episode is not None
    assert findings == []
    return dialect().serialize(episode)


def test_words_of_python_are_json() -> None:
    record = asked({"a": True, "b": None})
    assert "<parameter=a>\ntrue\n</parameter>\n<parameter=b>\nnull\n</parameter>" in own(record)
    assert "<parameter=a>\nTrue\n</parameter>\n<parameter=b>\nNone\n" in rendered(HERE, record)
    types = {"a": {"type": "boolean"}, "b": {"type": ["null", "integer"]}}
    schema = {"type": "object", "properties": types}
    record["tools"] = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    text = own(record)
    episode, findings = dialect().parse(text.replace("true", "True").replace("null\n", "None\n"))
    assert [f.code for f in findings] == ["MYP308"]
    assert episode == dialect().parse(text)[0], "an official text says the same"


def test_json_in_an_argument_escapes_tags() -> None:
    for tag in ("</parameter>", "</tool_call>"):
        record = asked({"a": [tag]})
        episode, findings = dialect().check(record)
        assert episode is not None
        assert [f.code for f in findings] == ["MYP302"]
        text = dialect().serialize(episode)
        assert f'["\\u003c{tag[1:]}"]' in text
        assert dialect().parse(text)[0] == dialect().read(record)[0]
        assert f'["{tag}"]' in rendered(HERE, record)


def test_no_system_message_is_made_up() -> None:
    record = asked({}) | {"tools": [{"type": "function", "function": {"name": "f"}}]}
    assert own(record).startswith("<|im_start|>system\n# Tools\n")
    assert rendered(HERE, record).startswith(f"<|im_start|>system\n{DEFAULT}\n\n# Tools\n")


def test_nothing_is_trimmed() -> None:
    record = asked({}, content=" a\n")
    assert "assistant\n a\n\n\n<tool_call>" in own(record)
    assert "assistant\na\n\n<tool_call>" in rendered(HERE, record)


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
    record = asked({"a": [1]}) | {"tools": [function("f", {"a": {"type": "array"}})]}
    text = own(record).replace("\n[1]\n", "\n[ 1 ]\n")
    episode, findings = dialect().parse(text)
    assert episode is not None
    assert dialect().write(episode)["messages"][1] == record["messages"][1]
    assert [f.code for f in [*findings, *dialect().validate(episode)]] == ["MYP308"]


# --- running a conversation


SPOKEN = st.sampled_from(["\n", "\n\n", "a", " ", "b\n", "<tool_call>", "</tool_call>", "<|im_end|>", "<parameter"])  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(SPOKEN, max_size=9).map("".join))
def test_a_stream_has_the_events_of_the_whole(answer: str) -> None:
    """Also where line ends before a call come one by one, and where some are missing."""
    d = dialect()
    ids: list[int] = []
    for part in re.split(f"({'|'.join(map(re.escape, d.table.special))})", "<|im_start|>assistant\n" + answer):  # fmt: skip
        special = d.table.special.get(part)
        ids += [i for c in part for i in d.tokenizer.encode(c)] if special is None else [special]
    parser = StreamParser(d)
    pieces = [piece for i in ids for piece in parser.push(i)] + list(parser.flush())
    whole = [(e.terminal, e.text) for e in d.lex_ids(ids)[0]]
    assert join_texts([(p.event.terminal, p.event.text) for p in pieces]) == whole


# --- the fast paths


def test_fast_paths_say_what_the_slow_ones_do() -> None:
    """Equal records but for an argument, whose type and tags decide; in each order, again and again."""
    tools = {"tools": [function("f", {"a": {"type": "string"}})]}
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
    rows = [asked({"a": v, "b": w}) | more for v in values for w in values[:3] for more in ({}, tools)]  # fmt: skip
    raw = lines(*rows) * 2
    checker, fast = Checker(dialect()), FastChecker(Checker(dialect()))
    expected = [[d.finding for d in checker.line(line, row=1, filename="x")] for line in raw]
    for line, findings in zip(raw, expected, strict=True):
        _, found = fast.block(line + b"\n", row=1, filename="x")
        assert [d.finding for _, many in found for d in many] == findings, line
    outcomes = assert_same_ids(*(Encoder(Options(dialect=str(FOLDER))) for _ in range(2)), raw)
    statuses = [outcome.status for outcome in outcomes]
    assert set(statuses) == {"written", "refused"}
    refused = [any(f.severity == "error" for f in findings) for findings in expected]
    assert [status == "refused" for status in statuses] == refused


def test_the_linter_of_templates_takes_the_folder(tmp_path: Path) -> None:
    """Its conversations become records of the format, and their texts are compared."""
    pytest.importorskip("transformers.utils.chat_template_utils")
    path = tmp_path / "t.jinja"
    path.write_text(QWEN3_CODER.replace("<|im_end|>", "<|im_end|> "), encoding="utf-8")
    (chunk,) = lint_templates(
        [str(path)], mypt_spec.dialect(str(FOLDER)), frozenset({"MYP722"}), {}
    )
    assert any("qwen3-coder" in item.finding.message for item in chunk.findings)
