"""The fast path of preparing returns the ids and masks of the segment path, on everything.

And clean records do take it.
"""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.tokenizer import batch
from mypt_spec.tokenizer.tokenizer import gpt2
from mypt_train.data.encode_line import Encoder, LineOutcome
from mypt_train.data.options import Options
from mypt_train.data.templates.chats import ChatTemplates
from tests.property.test_fast import agree
from tests.support.chats_with_calls import chat, tools, weighed
from tests.support.examples import examples
from tests.support.lines import any_lines
from tests.support.pieces import PIECES, SPACES
from tests.support.strategies import DIALECTS, lines_of, records

CODER = str(Path(__file__).resolve().parents[2] / "examples/qwen3_coder")
WITH_TEMPLATES = [name for name in DIALECTS if Encoder(Options(dialect=name)).templates is not None]


def plain(outcome: LineOutcome) -> object:
    samples = [
        (
            sample.ids.tolist(),
            sample.mask.tolist(),
            None if sample.weights is None else sample.weights.tolist(),
            sample.weighed,
        )
        for sample in outcome.samples
    ]
    return (
        outcome.status, samples, outcome.findings, outcome.tags, outcome.history, outcome.warned,
    )  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
@settings(max_examples=examples(60))
def test_fast_path_is_the_segment_path(name: str, data: st.DataObject) -> None:
    turns = bool(mypt_spec.dialect(name).table.turn_opener)
    options = Options(
        dialect=name,
        context_length=data.draw(st.sampled_from([40, 1 << 14])),
        phase=data.draw(st.sampled_from([None, 3])),
        long=data.draw(st.sampled_from(["error", "drop", "split-turns"])),
        history=data.draw(st.sampled_from(["keep", "official", "per-turn"][: 2 + turns])),
    )
    lines = data.draw(
        st.lists(any_lines(name).filter(lambda line: b"\n" not in line), min_size=1, max_size=3)
    )
    # Other records of the same skeleton as one that was drawn: other texts, and values.
    record = data.draw(records(name))
    lines += [json.dumps(varied(record, data)).encode() for _ in range(3)]
    quick, slow = Encoder(options), Encoder(options)
    expected = [plain(slow.line(line)) for line in lines]
    for _ in range(3):  # seen, learnt, known
        assert [plain(outcome) for outcome in quick.lines(lines)] == expected
    again = data.draw(st.permutations(range(len(lines))))
    assert [plain(outcome) for outcome in quick.lines([lines[i] for i in again])] == [
        expected[i] for i in again
    ]


def test_a_text_that_looks_like_a_mark_stays_as_it_is() -> None:
    """A text with tags inside belongs to the skeleton, and may hold what marks look like."""
    call = {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}
    result = {"role": "toolresult", "name": "find", "content": 1}
    cited = {"role": "assistant", "content": "\ue0000\ue001<myPT_cite>d</myPT_cite>"}
    messages = [{"role": "user", "content": "Hi"}, call, result, cited]
    line = json.dumps({"system": "- find(q) - it finds", "messages": messages}).encode()
    quick, slow = (Encoder(Options(dialect="mypt")) for _ in range(2))
    expected = plain(slow.line(line))
    assert [plain(outcome) for outcome in quick.lines([line] * 3)] == [expected] * 3


def varied(value: object, data: st.DataObject) -> object:
    """The same with other texts, here and there with white space, tags or nothing."""
    if isinstance(value, dict):
        return {
            k: v
            if k in ("role", "type", "name", "language", "id", "tool_call_id")
            else varied(v, data)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [varied(v, data) for v in value]
    if isinstance(value, str):
        more = st.sampled_from(
            ["", *SPACES, "<", "<b>", "]", "é", '"', "\\", "</myPT_cite>", "\ue0001\ue001"]
        )
        return data.draw(more) + value + data.draw(more)
    return value


@pytest.mark.parametrize("name", WITH_TEMPLATES)
@given(st.data())
@settings(max_examples=examples(60))
def test_clean_records_take_it(name: str, data: st.DataObject) -> None:
    encoder = Encoder(Options(dialect=name))
    assert encoder.templates is not None
    record = data.draw(records(name))
    line = data.draw(lines_of(record))
    kept: list[Any] = []
    if encoder.clean_filter.doubtful([line], kept):
        return
    assert encoder.templates.of(*kept[0]) is None
    assert encoder.templates.of(*kept[0]) is not None


@pytest.mark.parametrize("name", ["qwen3", "harmony", "mistral"])
@pytest.mark.parametrize("mask", ["model", "all-assistant", "trl", "last+no-think"])
def test_chats_without_calls_take_it(name: str, mask: str) -> None:
    """Speed must not die in silence; and what comes out is what the slow way makes."""
    encoder, slow = (Encoder(Options(dialect=name, mask=mask)) for _ in range(2))
    chats = [
        {
            "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": more}]
            * 2
        }
        for said, more in (("Hi", "Yes"), ("a\nb ", " é\n\n"), ("}", "12"), ("\n x", "\tno\n"))
    ]
    lines = [json.dumps(chat).encode() for chat in chats]
    kept: list[Any] = []
    assert encoder.clean_filter.doubtful(lines, kept) == []
    expected = [plain(slow.line(line)) for line in lines]
    assert [plain(outcome) for outcome in encoder.lines(lines)] == expected
    taken(encoder, lines)
    assert [plain(outcome) for outcome in encoder.lines(lines)] == expected


def taken(encoder: Encoder, lines: list[bytes]) -> list[bytes]:
    """The lines that have a template. Learns it at the second time."""
    kept: list[Any] = []
    encoder.clean_filter.doubtful(lines, kept)
    assert encoder.chats is not None
    return [
        line
        for one, line in zip(kept, lines, strict=True)
        if one is not None and encoder.chats.find(one[0], line) is not None
    ]


CHATS = ("qwen3", "harmony", "mistral", "mistral-v13", "llama3")


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize(
    ("mask", "history"),
    [
        ("model", "keep"),
        ("last+no-think", "keep"),
        ("model", "official"),
        ("model", "per-turn"),
    ],
)
def test_chats_with_calls_take_it(name: str, mask: str, history: str) -> None:
    """Pieces of many chats, in all their orders, make what the slow way makes of each chat."""
    rng = random.Random(f"{name} {mask}")
    most = 1 if name in ("harmony", "llama3") else 2  # calls in a message
    chats = [chat(rng, calls=most, ids="mistral" in name) for _ in range(examples(50))]
    if history == "keep":
        chats += [weighed(copy.deepcopy(one), rng, [0, 0.5, None]) for one in chats[:20]]
    lines = [json.dumps(chat, ensure_ascii=rng.random() < 0.5).encode() for chat in chats]
    size = 150 if history == "per-turn" else 2048  # some turns are too long
    options = Options(dialect=name, mask=mask, history=history, context_length=size, long="drop")
    encoder, slow = (Encoder(options) for _ in range(2))
    outcomes = [slow.line(line) for line in lines]
    expected = [plain(outcome) for outcome in outcomes]
    for _ in range(3):  # seen, learnt, known
        assert [plain(outcome) for outcome in encoder.lines(lines)] == expected
    written = sum(outcome.status == "written" for outcome in outcomes)
    # Arguments with integers as large as some of these are held to their tools one by one.
    least = 0.5 if mask == "model" else 0.25
    assert len(taken(encoder, lines)) > least * written


@pytest.mark.parametrize("name", ["qwen3", "harmony"])
@pytest.mark.parametrize(("mask", "history"), [("no-think", "keep"), ("model", "per-turn")])
def test_all_chats_with_thoughts_and_weights_take_it(name: str, mask: str, history: str) -> None:
    """A token may hold the end of a thought and the beginning of the answer: a line end of each."""
    texts = ("Hi", "\n\n", " \nyes", "1\n", "\t\u3000x", "日本")
    lines = [
        json.dumps(
            {
                "messages": [
                    {"role": "user", "content": f"{said}?"},
                    {"role": "assistant", "reasoning_content": f"t{said}", "content": f"{said}a"},
                    {"role": "user", "content": "u"},
                    {"role": "assistant", "content": f"{said}b", "weight": weight},
                ]
            }
        ).encode()
        for said in texts
        for weight in (1, 0.25, 0)
    ]
    encoder, slow = (Encoder(Options(dialect=name, mask=mask, history=history)) for _ in range(2))
    expected = [plain(slow.line(line)) for line in lines]
    for _ in range(3):
        assert [plain(outcome) for outcome in encoder.lines(lines)] == expected
    assert taken(encoder, lines) == lines


@pytest.mark.parametrize("name", [*CHATS, CODER])
@pytest.mark.parametrize(
    ("mask", "history"),
    [("model", "keep"), ("last+no-think", "keep"), ("model", "official"), ("model", "per-turn")],
)
def test_weights_that_no_other_chat_has_take_it(name: str, mask: str, history: str) -> None:
    """A template takes weights from the record; those of 0 and 1, and faulty ones, are told apart."""
    rng = random.Random(f"{name} {mask} {history}")
    most = 1 if name in ("harmony", "llama3") else 2
    bases = [chat(rng, calls=most, ids="mistral" in name) for _ in range(examples(24))]
    bases = [weighed(one, rng, [0.5]) for one in bases]

    def again(one: dict[str, Any], weights: list[Any]) -> bytes:
        """A chat with other weights in the same places."""
        made = copy.deepcopy(one)
        for message in made["messages"]:
            if "weight" in message:
                message["weight"] = rng.choice(weights)
        return json.dumps(made).encode()

    odd = [0, 1, 1.0, True, None, "2", -1, 1000, 1001, 2, 1e-7, 5e-324, 1 + 1 / 4096, 1 + 3 / 4096]
    fine = [again(one, [rng.random(), 999 * rng.random()]) for one in bases for _ in range(2)]
    lines = [*fine, *(again(one, odd) for one in bases for _ in range(3))]
    encoder, slow = (Encoder(Options(dialect=name, mask=mask, history=history)) for _ in range(2))
    expected = [plain(slow.line(line)) for line in lines]
    for _ in range(3):
        assert [plain(outcome) for outcome in encoder.lines(lines)] == expected
    known, usual = len(taken(encoder, fine)), Encoder(slow.options)
    bare = [line for one in bases for line in [again(one, [1])] * 2]
    for _ in range(3):
        usual.lines(bare)
    assert known >= len(taken(usual, bare)) > 0, "as many as of the same chats with equal weights"
    other = [again(one, [1 / 3, 7.5, 1e-3]) for one in bases for _ in range(2)]
    agree(encoder.clean_filter, [*lines, *other])
    assert encoder.chats is not None
    with mock.patch.object(ChatTemplates, "_right", side_effect=AssertionError):
        assert len(taken(encoder, other)) == known
    assert [plain(o) for o in encoder.lines(other)] == [plain(slow.line(o)) for o in other]


def with_id(ident: str, name: str = "find") -> bytes:
    call = {"id": ident, "type": "function", "function": {"name": name, "arguments": {"q": "x"}}}
    return json.dumps(
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": ident, "content": "r"},
                {"role": "assistant", "content": "b"},
            ],
            "tools": tools((name,)),
        }
    ).encode()


@pytest.mark.parametrize("name", CHATS)
def test_ids_that_no_text_can_have_are_found(name: str) -> None:
    """Mistral writes ids into tags: after chats with other ids, those with bad ones are refused."""
    lines = [with_id(i) for i in ("abcdefghi", "123456789", "a b", "</s>", "é", "x-_", "call:0")]
    encoder, slow = (Encoder(Options(dialect=name)) for _ in range(2))
    expected = [plain(slow.line(line)) for line in lines]
    for _ in range(3):
        assert [plain(outcome) for outcome in encoder.lines(lines)] == expected
    statuses = [slow.line(line).status for line in lines]
    assert (statuses[2:5] == ["refused"] * 3) == (name == "mistral")


def test_a_template_that_makes_other_tokens_is_never_used() -> None:
    lines = [with_id(f"abcdefgh{i}") for i in range(4)]
    encoder = Encoder(Options(dialect="qwen3"))
    assert encoder.chats is not None
    with mock.patch.object(encoder.chats, "_right", return_value=False):
        assert [taken(encoder, lines), taken(encoder, lines)] == [[], []]
    assert taken(encoder, lines) == [], "it is not tried again"


def turn(*items: dict[str, object]) -> bytes:
    contents = [
        item
        for one in items
        for item in (one, {"type": "toolresult", "content": "r"})
        if one["type"] == "toolcall" or item is one
    ]
    return json.dumps(
        {
            "messages": [
                {"role": "user", "content": "u"},
                {"role": "assistant", "contents": contents},
            ]
        }
    ).encode()


def call(name: str) -> dict[str, object]:
    return {"type": "toolcall", "name": name, "arguments": {}}


def text(said: str) -> dict[str, object]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    "lines",
    [
        [
            turn(call("a"), call("a")),
            turn(call("a"), call("a")),
            turn(call("a"), call("b")),
            turn(call("c"), call("d")),
        ],
        [turn(call("a"), call("b")), turn(call("a"), call("b")), turn(call("c"), call("c"))],
        [
            turn(text("x"), call("a"), text("y")),
            turn(text("x"), call("a"), text("y")),
            turn(text("x"), call("a"), text(" ")),
        ],
        [
            turn(call("a"), text(" "), call("a")),
            turn(call("a"), text(" "), call("a")),
            turn(call("a"), text("\n"), call("a")),
        ],
    ],
)
def test_what_a_template_must_tell_apart(lines: list[bytes]) -> None:
    quick, slow = (Encoder(Options(dialect="praxis")) for _ in range(2))
    for _ in range(2):
        assert [plain(outcome) for outcome in quick.lines(lines)] == [
            plain(slow.line(line)) for line in lines
        ]


def test_every_dialect_with_a_schema_has_templates() -> None:
    """Others split their records by an adapter, or encode texts and tags together."""
    others = set(DIALECTS) - set(WITH_TEMPLATES)
    assert all(mypt_spec.dialect(name).adapter.splits for name in others)
    assert "usf-omega" in others


ENGINES = {"gigatoken": batch.engine, "tiktoken": cache(batch._Simple)}


@pytest.mark.parametrize("library", ENGINES)
@given(
    texts=st.lists(
        st.lists(PIECES | st.sampled_from(SPACES) | st.text(max_size=3), max_size=8).map("".join),
        max_size=4,
    )
)
@example(texts=["a\xa0\xa0\xa0b"])
@example(texts=["a\u2003\u2003\u2003b"])
@example(texts=["a\u3000\u3000"])
@example(texts=["a\x85\x85", "b"])
@settings(max_examples=examples(400))
def test_texts_at_once_are_encoded_as_one_by_one(library: str, texts: list[str]) -> None:
    tokenizer = mypt_spec.dialect("mypt").tokenizer
    with mock.patch.object(batch, "engine", ENGINES[library]):
        ids, lengths = tokenizer.encode_batch(texts)
    assert lengths.tolist() == [len(tokenizer.encode(text)) for text in texts]
    assert ids.tolist() == [i for text in texts for i in gpt2().encode_ordinary(text)]


def test_a_lone_surrogate_among_texts() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        mypt_spec.dialect("mypt").tokenizer.encode_batch(["a", "\ud800"])
