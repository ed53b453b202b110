"""Blocks that the next opening tag ends, which the model writes as its stop: GLM."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from mypt.generate import Screen
from mypt_infer.controller.events import TurnEnd
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.llguidance.response import Response
from mypt_infer.run_format import format_of
from mypt_infer.serve.deltas import DeltaReader
from mypt_spec import SpecError
from mypt_spec.table_file import load_table
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.answers import answers
from mypt_train.export.chat_facts import endings
from mypt_train.export.response_template import response_template
from tests.support.build import Record, assistant, chat, function, lines, system, tool, user
from tests.support.fast_paths import assert_same_ids
from tests.support.naive_mask import naive_mask
from tests.support.scripted import run_turn, text_of, tools_of

FOLDER = Path(__file__).parents[2] / "toy" / "glm"
GLM = mypt_spec.dialect(FOLDER)
CALL = {"type": "function", "function": {"name": "f", "arguments": {"q": 1}}}
RECORDS: list[Record] = [
    chat(user("u"), assistant("a")),
    chat(system("s"), user("u"), assistant("a"), user("\n\nv"), assistant("")),
    chat(user(""), assistant("", reasoning_content="t"), user("v"), assistant("b")),
    chat(user("u"), assistant("a", tool_calls=[CALL, CALL]), tool("r"), tool("\ns"), assistant("b")),
    chat(user("u"), assistant("", tool_calls=[CALL]), tool("r"), assistant("b"), user("v"), assistant("c")),
]  # fmt: skip


def trained(record: Record, mask: str = "model") -> str:
    """Returns what is trained of a record."""
    episode, findings = GLM.check(record)
    assert episode is not None
    assert findings == []
    encoded = GLM.encode(episode, mask=mask)
    return GLM.tokenizer.decode(encoded.ids[encoded.loss == 1])


@pytest.mark.parametrize("record", RECORDS)
def test_the_mask_is_that_of_the_naive_one(record: Record) -> None:
    episode, findings = GLM.check(record)
    assert episode is not None
    assert findings == []
    encoded, text = GLM.encode(episode), GLM.serialize(episode)
    assert (encoded.ids.tolist(), encoded.loss.tolist()) == naive_mask("glm", text)
    assert GLM.parse(text) == (episode, []) == GLM.parse_ids(encoded.ids)


def test_a_stop_belongs_to_the_block_that_it_ends() -> None:
    call = '<tool_call>{"name": "f", "arguments": {"q": 1}}</tool_call>'
    assert trained(RECORDS[4]) == f"{call}<|observation|>b<|user|>c"
    assert trained(RECORDS[4], "calls") == f"{call}<|observation|>"
    assert trained(RECORDS[4], "answers") == "b<|user|>c"
    assert trained(RECORDS[4], "last") == "c"
    assert trained(RECORDS[4], "trl") == f"{call}<|observation|>b<|user|>c"
    weighted = [m | ({"weight": 0} if m["content"] == "b" else {}) for m in RECORDS[4]["messages"]]
    assert trained({"messages": weighted}) == f"{call}<|observation|>c"


def test_the_fast_path_gives_a_stop_the_weight_of_its_answer() -> None:
    turns = (("", 0, "a"), ("a", 1, "\nb"))
    records = [
        chat(system(), user(""), assistant(one, weight=w), user(""), assistant(other, weight=0.5))
        for one, w, other in turns
    ]
    options = Options(dialect=str(FOLDER))
    slow = Encoder(options)
    slow.chats = slow.templates = None
    assert_same_ids(Encoder(options), slow, lines(*records))


def test_ids_that_end_with_a_stop_end_with_the_answer() -> None:
    episode, _ = GLM.check(RECORDS[4])
    assert episode is not None
    ids, stop = GLM.encode(episode).ids.tolist(), GLM.table.special["<|user|>"]
    assert GLM.parse_ids([*ids, stop]) == (episode, [])
    assert GLM.parse_ids([*ids, stop, *GLM.tokenizer.encode("\nv")])[0] is None  # a question


def test_a_model_stops_at_the_tag_that_may_follow() -> None:
    prompt = GLM.tokenizer.encode("x")
    stops = {i for tag, i in GLM.table.special.items() if tag in ("<|user|>", "<|observation|>")}
    for tools, text, expected in (
        ([], "a", "<|user|>"),
        ([function("f")], '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "<|observation|>"),
    ):  # fmt: skip
        decoder = Decoder(GLM, tools)
        start = decoder.start(GLM.check_prefix and ids_of("[gMASK]<sop><|user|>\nu<|assistant|>\n"))
        state = decoder.run(start, ids_of(text))
        assert stops & {*decoder.ids(state)} == {GLM.table.special[expected]}
        assert not decoder.final(state)
        assert decoder.final(decoder.next(state, GLM.table.special[expected]))
    assert prompt


def test_an_answer_that_a_response_binds_is_written_before_its_stop() -> None:
    decoder = Decoder(GLM, [function("f")], response=Response(regex="yes|no"))
    start = decoder.start(ids_of("[gMASK]<sop><|user|>\nu<|assistant|>\n"))
    user, result = (GLM.table.special[tag] for tag in ("<|user|>", "<|observation|>"))
    assert user not in decoder.ids(start)
    assert user in decoder.ids(decoder.run(start, ids_of("yes")))
    called = decoder.run(start, ids_of('<tool_call>{"name": "f", "arguments": {}}</tool_call>'))
    assert result in decoder.ids(called)


def ids_of(text: str) -> list[int]:
    """Returns the ids of a text with tags."""
    return [
        i
        for event in GLM.lex(text)
        for i in mypt_spec.encoder.tag_ids(event, GLM.table, GLM.tokenizer)
    ]


def test_a_turn_with_a_call_goes_on_after_its_result() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    script = [*ids_of(f"x{call}{call}"), GLM.table.special["<|observation|>"]]
    script += [*ids_of("Done"), GLM.table.special["<|user|>"]]
    tools = tools_of(f=lambda _: "r")
    controller, events = run_turn(script, tools, str(FOLDER), text="u")
    assert [e.reason for e in events if isinstance(e, TurnEnd)] == ["stop"]
    roles = [m["role"] for m in controller.record()["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    reader = DeltaReader(format_of(GLM), ids_of("[gMASK]<sop><|user|>\nu<|assistant|>\n"))
    deltas = [d for i in script[-2:] for d in reader.push(i)] + reader.end()
    assert "".join(d.text for d in deltas) == "Done"


def test_a_turn_that_ends_early_has_the_results_of_all_calls() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    script = [*ids_of(f"{call}{call}"), GLM.table.special["<|observation|>"]]
    tools = tools_of(f=lambda _: "r")
    controller, _ = run_turn(script, tools, str(FOLDER), text="u", max_steps=1)
    text = text_of(controller)
    assert text.count("</tool_response>") == 2
    assert text.endswith("</tool_response><|assistant|>\n")
    assert GLM.parse_ids(controller.history.ids)[1] == []


def test_a_stop_is_not_shown_as_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(GLM)
    for token in [*ids_of("<think>t</think>Done"), GLM.table.special["<|user|>"]]:
        screen.token(token)
    screen.end()
    assert capsys.readouterr().out == "think: t\nDone\n"


def test_servers_stop_at_the_stops() -> None:
    assert endings(GLM) == ["<|observation|>", "<|user|>"]
    assert "<\\|user\\|>" in response_template(GLM)["fields"]["content"]["close_pattern"]
    ways = answers(GLM, ["<|user|>"]).rules
    ends = {
        way.items[-1] for some in ways.values() for way in some if way.then is None and way.items
    }
    assert ends == {("text", ""), ("id", "<|observation|>")}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"USER_OPEN", "RE', '"USER", "RE', "\"stops\" names opening tags of the system.*not .'USER', 'RESULTS_OPEN'."),
        ('"USER_OPEN", "RE', '"THINK_OPEN", "RE', "not .'THINK_OPEN'"),
        ('"USER_OPEN", "RE', '"USER_OPEN", "USER_OPEN", "RE', "of the system once, .*'USER_OPEN', 'USER_OPEN'"),
        ('closes = "think"', 'closes = ["think", "assistant"]\norigin = "model"\ndoc = "x"',
             '"stops" of a block with a closing tag names results in it, not USER_OPEN'),
        ('closes = "think"', 'closes = "think"\nstops = ["USER_OPEN"]',
         '"stops" is for a tag that opens a block'),
    ],
)  # fmt: skip
def test_stops_that_mean_nothing_are_refused(old: str, new: str, message: str) -> None:
    text = (FOLDER / "tokens.toml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(SpecError, match=message):
        load_table(text.replace(old, new))
