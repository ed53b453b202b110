"""The fast path of preparing returns the ids and masks of the segment path, on everything.

And clean records do take it.
"""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.adapters.splitter import splitter
from mypt_spec.tokenizer import batch
from mypt_spec.tokenizer.tokenizer import gpt2
from mypt_train.data.encode_line import Encoder
from mypt_train.data.formats.options import Options
from mypt_train.data.templates.chats import ChatTemplates
from tests.support.build import assistant, call, function, lines, tool, user
from tests.support.build import chat as chat_of
from tests.support.chats_with_calls import chat, tools, weighed
from tests.support.examples import either, examples
from tests.support.fast_paths import assert_same_ids, assert_sound, facts
from tests.support.lines import any_lines
from tests.support.maker import drawn
from tests.support.pieces import PIECES, SPACES
from tests.support.strategies import DIALECTS, legal, lines_of, records

CODER = "qwen3-coder"
WITH_TEMPLATES = [name for name in DIALECTS if Encoder(Options(dialect=name)).templates is not None]
AROUND = ["", *SPACES, "<", "<b>", "]", "é", '"', "\\", "</myPT_cite>", "\ue0001\ue001"]


def encoders(**options: Any) -> tuple[Encoder, Encoder]:
    """Returns two encoders with the same options, for the fast and the slow way."""
    return Encoder(Options(**options)), Encoder(Options(**options))


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
@settings(max_examples=examples(60))
def test_fast_path_is_the_segment_path(name: str, data: st.DataObject) -> None:
    turns = bool(mypt_spec.dialect(name).table.turn_opener)
    encoder, slow = encoders(
        dialect=name,
        context_length=data.draw(st.sampled_from([40, 1 << 14])),
        phase=data.draw(st.sampled_from([None, 3])),
        long=data.draw(st.sampled_from(["error", "drop", "split-turns"])),
        history=data.draw(st.sampled_from(["keep", "official", "per-turn"][: 2 + turns])),
    )
    raw = data.draw(st.lists(any_lines(name), min_size=1, max_size=3)) + data.draw(alike(name))
    outcomes = [facts(outcome) for outcome in assert_same_ids(encoder, slow, raw)]
    order = data.draw(st.permutations(range(len(raw))))
    again = [facts(outcome) for outcome in encoder.lines([raw[i] for i in order])]
    assert again == [outcomes[i] for i in order]


@cache
def alike(name: str) -> st.SearchStrategy[list[bytes]]:
    """Three lines of the same skeleton: they differ in texts and values."""

    def make(rng: random.Random) -> list[bytes]:
        record = legal(rng, name)
        return lines(*(varied(record, rng) for _ in range(3)))

    return drawn(make)


def varied(value: object, rng: random.Random) -> object:
    """Returns the same with other texts, here and there with white space, tags or nothing."""
    if isinstance(value, dict):
        words = ("role", "type", "name", "language", "id", "tool_call_id")
        return {k: v if k in words else varied(v, rng) for k, v in value.items()}
    if isinstance(value, list):
        return [varied(v, rng) for v in value]
    if isinstance(value, str):
        return rng.choice(AROUND) + value + rng.choice(AROUND)
    return value


def test_a_text_that_looks_like_a_mark_stays_as_it_is() -> None:
    """A text with tags inside belongs to the skeleton, and may hold what marks look like."""
    asked = {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}
    result = {"role": "toolresult", "name": "find", "content": 1}
    cited = assistant("\ue0000\ue001<myPT_cite>d</myPT_cite>")
    record = chat_of(user(), asked, result, cited, system="- find(q) - it finds")
    assert_same_ids(*encoders(dialect="mypt"), lines(record) * 3)


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
    assert encoder.templates.find_template(kept[0], line) is None
    assert encoder.templates.find_template(kept[0], line) is not None


@pytest.mark.parametrize("name", ["qwen3", "harmony", "mistral"])
@pytest.mark.parametrize("mask", ["model", "all-assistant", "trl", "last+no-think"])
def test_chats_without_calls_take_it(name: str, mask: str) -> None:
    """Speed must not die in silence; and what comes out is what the slow way makes."""
    encoder, slow = encoders(dialect=name, mask=mask)
    texts = (("Hi", "Yes"), ("a\nb ", " é\n\n"), ("}", "12"), (" \n x", "\tno\n"))
    raw = lines(*(chat_of(*[user(one), assistant(other)] * 2) for one, other in texts))
    assert_same_ids(encoder, slow, raw)
    assert taken(encoder, raw) == raw


def taken(encoder: Encoder, lines: list[bytes]) -> list[bytes]:
    """Returns the lines that have a template. Learns it at the second time."""
    clean: list[Any] = []
    encoder.clean_filter.doubtful(lines, clean)
    assert encoder.chats is not None
    return [
        line
        for one, line in zip(clean, lines, strict=True)
        if one is not None and encoder.chats.find(one, line) is not None
    ]


CHATS = ("qwen3", "harmony", "mistral", "mistral-v13", "llama3")
WAYS = [("model", "keep"), ("last+no-think", "keep"), ("model", "official"), ("model", "per-turn")]
KINDS = ["calls", "answers", "no-empty-think", "trl+calls", "answers+last"]


def each_with(names: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Returns each name with each way of masks and histories; in the quick tests, with two of them."""
    pairs = product(enumerate(names), enumerate(WAYS))
    return [
        (name, *way) for (i, name), (j, way) in pairs if (i - j) % 4 in either((0, 1), range(4))
    ]


@pytest.mark.parametrize(("name", "mask", "history"), each_with(CHATS))
def test_chats_with_calls_take_it(name: str, mask: str, history: str) -> None:
    """Pieces of many chats, in all their orders, make what the slow way makes of each chat."""
    rng = random.Random(f"{name} {mask}")
    chats = [chat(rng, name) for _ in range(either(20, 50))]
    if history == "keep":
        chats += [weighed(copy.deepcopy(one), rng, [0, 0.5, None]) for one in chats[:20]]
    raw = [json.dumps(chat, ensure_ascii=rng.random() < 0.5).encode() for chat in chats]
    size = 150 if history == "per-turn" else 2048  # some turns are too long
    encoder, slow = encoders(
        dialect=name, mask=mask, history=history, context_length=size, long="drop"
    )
    outcomes = assert_same_ids(encoder, slow, raw)
    written = sum(outcome.status == "written" for outcome in outcomes)
    # Chats whose arguments have numbers as large as some of these are left to the checker.
    least = 0.4 if mask == "model" else 0.25
    least /= 1 + 2 * (name == "qwen3")  # nor has it those with a text that begins with a line end
    assert len(taken(encoder, raw)) > least * written


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize("mask", KINDS)
def test_masks_by_kind_take_it(name: str, mask: str) -> None:
    """Whether a tag belongs to a call is the same by templates, wherever pieces are cut."""
    rng = random.Random(f"{name} {mask}")
    chats = [chat(rng, name) for _ in range(either(8, 60))]
    raw = [json.dumps(one).encode() for one in chats]
    outcomes = assert_same_ids(*encoders(dialect=name, mask=mask, history="keep"), raw)
    encoder = Encoder(Options(dialect=name, mask=mask))
    for _ in range(3):
        again = encoder.lines(raw)
        assert [facts(outcome) for outcome in again] == [facts(outcome) for outcome in outcomes]
    assert len(taken(encoder, raw)) > 0


@pytest.mark.parametrize("name", ["qwen3", "harmony"])
@pytest.mark.parametrize(("mask", "history"), [("no-think", "keep"), ("model", "per-turn")])
def test_all_chats_with_thoughts_and_weights_take_it(name: str, mask: str, history: str) -> None:
    """A token may hold the end of a thought and the beginning of the answer: a line end of each."""
    texts = ("Hi", "\n\n", " \nyes", "1\n", "\t\u3000x", "日本")
    raw = lines(*(
        chat_of(
            user(f"{text}?"), assistant(f"{text}a", reasoning_content=f"t{text}"),
            user("u"), assistant(f"{text}b", weight=weight),
        )
        for text, weight in product(texts, (1, 0.25, 0))
    ))  # fmt: skip
    encoder, slow = encoders(dialect=name, mask=mask, history=history)
    assert_same_ids(encoder, slow, raw)
    # Of qwen3, line ends before a text are left out in some turns.
    fast = [line for line in raw if name != "qwen3" or b': "\\n' not in line]
    assert taken(encoder, raw) == fast


ODD_WEIGHTS = [0, 1, 1.0, True, None, "2", -1, 1000, 1001, 2, 1e-7, 5e-324, 1 + 1 / 4096, 1 + 3 / 4096]  # fmt: skip


@pytest.mark.parametrize(("name", "mask", "history"), each_with((*CHATS, CODER)))
def test_weights_that_no_other_chat_has_take_it(name: str, mask: str, history: str) -> None:
    """A template takes weights from the record; those of 0 and 1, and faulty ones, are told apart."""
    rng = random.Random(f"{Path(name).name} {mask} {history}")
    bases = [weighed(chat(rng, Path(name).name), rng, [0.5]) for _ in range(either(5, 24))]

    def again(one: dict[str, Any], weights: list[Any]) -> bytes:
        """Returns a chat with other weights in the same places."""
        made = copy.deepcopy(one)
        for m in made["messages"]:
            if "weight" in m:
                m["weight"] = rng.choice(weights)
        return json.dumps(made).encode()

    fine = [again(one, [rng.random(), 999 * rng.random()]) for one in bases for _ in range(2)]
    raw = [*fine, *(again(one, ODD_WEIGHTS) for one in bases for _ in range(3))]
    encoder, slow = encoders(dialect=name, mask=mask, history=history)
    assert_same_ids(encoder, slow, raw)
    known, usual = len(taken(encoder, fine)), Encoder(slow.options)
    bare = [line for one in bases for line in [again(one, [1])] * 2]
    for _ in range(3):
        usual.lines(bare)
    assert known >= len(taken(usual, bare)) > 0, "as many as of the same chats with equal weights"
    other = [again(one, [1 / 3, 7.5, 1e-3]) for one in bases for _ in range(2)]
    assert_sound(encoder.clean_filter, [*raw, *other])
    with mock.patch.object(ChatTemplates, "_right", side_effect=AssertionError):
        assert len(taken(encoder, other)) == known
    assert [facts(o) for o in encoder.lines(other)] == [facts(slow.line(o)) for o in other]


def with_id(ident: str, name: str = "find") -> bytes:
    asked = {"role": "assistant", "tool_calls": [call(name, {"q": "x"}, id=ident)]}
    result = tool("r", tool_call_id=ident)
    (line,) = lines(chat_of(user("a"), asked, result, assistant("b"), tools=tools((name,))))
    return line


@pytest.mark.parametrize("name", CHATS)
def test_ids_that_no_text_can_have_are_found(name: str) -> None:
    """Mistral writes ids into tags: after chats with other ids, those with bad ones are refused."""
    idents = ("abcdefghi", "123456789", "a b", "</s>", "é", "x-_", "call:0")
    outcomes = assert_same_ids(*encoders(dialect=name), [with_id(ident) for ident in idents])
    statuses = [outcome.status for outcome in outcomes]
    assert (statuses[2:5] == ["refused"] * 3) == (name == "mistral")


def test_a_template_that_makes_other_tokens_is_never_used() -> None:
    raw = [with_id(f"abcdefgh{i}") for i in range(4)]
    encoder = Encoder(Options(dialect="qwen3"))
    assert encoder.chats is not None
    with mock.patch.object(encoder.chats, "_right", return_value=False):
        assert [taken(encoder, raw), taken(encoder, raw)] == [[], []]
    assert taken(encoder, raw) == [], "it is not tried again"


def turn(*names_and_texts: str) -> bytes:
    """Returns a chat of praxis: letters are calls of tools, others texts."""
    contents: list[dict[str, Any]] = []
    for item in names_and_texts:
        if item.isalpha() and item.islower():
            contents.append({"type": "toolcall", "name": item, "arguments": {}})
            contents.append({"type": "toolresult", "content": "r"})
        else:
            contents.append({"type": "text", "text": item})
    (line,) = lines(chat_of(user("u"), {"role": "assistant", "contents": contents}))
    return line


@pytest.mark.parametrize(
    "raw",
    [
        [turn("a", "a"), turn("a", "a"), turn("a", "b"), turn("c", "d")],
        [turn("a", "b"), turn("a", "b"), turn("c", "c")],
        [turn("X", "a", "Y"), turn("X", "a", "Y"), turn("X", "a", " ")],
        [turn("a", " ", "a"), turn("a", " ", "a"), turn("a", "\n", "a")],
    ],
)
def test_what_a_template_must_tell_apart(raw: list[bytes]) -> None:
    assert_same_ids(*encoders(dialect="praxis"), raw)


def test_every_dialect_with_a_schema_has_templates() -> None:
    """Others split their records by an adapter, or encode texts and tags together."""
    others = set(DIALECTS) - set(WITH_TEMPLATES)
    assert all(splitter(mypt_spec.dialect(name).adapter) for name in others)
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


@pytest.mark.parametrize("system", ["Be\nbrief", "You are", "x \n", "é 1"])
def test_constant_text_between_values_is_encoded_once(system: str) -> None:
    """Around the definitions of tools: the ids are those of the whole text, whatever is beside."""
    encoder, slow = encoders(dialect="qwen2.5")
    find = function("find", {"q": {"type": "string"}})
    raw = lines(
        *({"tools": [find], **chat_of(user(f"Hi {n}"), assistant("Yes"))} for n in range(3))
    )
    raw += lines(  # the second one is learnt
        *(
            {
                "tools": [find],
                "messages": [{"role": "system", "content": text}, user("a"), assistant("b")],
            }
            for text in ("Hi.", "Hi.", system)
        )
    )
    for _ in range(3):
        encoder.lines(raw)
    assert_same_ids(encoder, slow, raw)
    assert encoder.chats is not None
    texts = [
        text for chat in encoder.chats.chats.entries.values() for text in chat.templates[0].texts
    ]
    written = "".join(
        before for _, pieces, end in texts for before in (*(p[0] for p in pieces), end)
    )
    assert "one or more functions to assist" not in written
    assert "return a json object with" not in written
