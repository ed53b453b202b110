"""`Encoded.message_indices`: which message of the record each token comes from."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.episode import Episode
from tests.support.build import assistant, call, calls, chat, tool, user
from tests.support.dialects import ALL
from tests.support.examples import examples
from tests.support.strategies import DIALECTS, legal, records


def number_at(pointer: str) -> int:
    """Returns the number of the message in a pointer, which has no number where it has no message."""
    steps = pointer.split("/")
    return int(steps[2]) if steps[:2] == ["", "messages"] else -1


def naive_indices(d: mypt_spec.Dialect, episode: Episode) -> list[int]:
    """Returns the index of each token, block by block, without a memory between blocks.

    A tag that closes a block belongs to the last message inside of it.
    """
    out: list[int] = []
    inner = 0  # the most that any event of the open top-level block has
    opened = False
    for segment in d.segments(episode):
        number = number_at(segment.event.at.pointer)
        terminal = d.table.terminals.get(segment.event.terminal)
        opened |= bool(segment.inside)
        if terminal and terminal.opens and len(segment.inside) == 1:
            inner = number
        closes = terminal is not None and terminal.closes
        inner = inner if closes else max(inner, number)  # praxis: a message may be a closing tag
        number = inner if closes and number >= 0 else number
        out += [number if opened else -1] * len(segment.ids)
    return out


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=examples(60))
@given(st.data())
def test_indices_agree_with_naive_ones(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    record = data.draw(records(name))
    episode, _ = d.read(record)
    assert episode is not None
    encoded = d.encode(episode)
    indices = encoded.message_indices
    assert indices is not None
    assert (indices.dtype, indices.shape) == ("int32", encoded.ids.shape)
    assert indices.tolist() == naive_indices(d, episode)
    within = indices[indices >= 0].tolist()
    assert within == sorted(within), "tokens come in the order of messages"
    assert max(within, default=-1) < len(record.get("messages", ()))
    if name != "usf-omega":  # its records may have the last answer outside of messages
        assert (indices[encoded.loss == 1] >= 0).all(), "what is trained comes from a message"
    for mask in ("trl", "no-think"):
        assert d.encode(episode, mask=mask).message_indices.tolist() == indices.tolist()


@pytest.mark.parametrize("name", ALL)
def test_a_text_has_no_record(name: str) -> None:
    """An Episode that was parsed from a text has no messages of a record to count."""
    d = mypt_spec.dialect(name)
    episode, _ = d.read(legal(random.Random(1), name))
    assert episode is not None
    parsed, _ = d.parse(d.serialize(episode))
    assert parsed is not None
    assert d.encode(parsed).message_indices is None
    again, _ = d.read(d.write(parsed))
    assert again is not None
    assert d.encode(again).message_indices is not None


def indices_of(name: str, record: dict[str, object]) -> list[tuple[str, int]]:
    """Returns the runs of tokens with one index: their text and the index."""
    d = mypt_spec.dialect(name)
    episode, findings = d.read(record)
    assert episode is not None, findings
    encoded = d.encode(episode)
    assert encoded.message_indices is not None
    out: list[tuple[str, int]] = []
    begin = 0
    numbers = encoded.message_indices.tolist()
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[begin]:
            out.append((d.tokenizer.decode(encoded.ids[begin:end]), numbers[begin]))
            begin = end
    return out


def test_what_belongs_to_no_message() -> None:
    record = {"system": "S", **chat(user("a"), assistant("b"))}
    assert indices_of("mypt", record) == [
        ("<myPT_system>S</myPT_system>", -1),
        ("<myPT_user>a</myPT_user>", 0),
        ("<myPT_assistant>b</myPT_assistant><myPT_eot>", 1),
    ]
    assert indices_of("mistral", chat(user("a"), assistant("b")))[0] == ("<s>", -1)


def test_results_in_one_block() -> None:
    asked = assistant("", tool_calls=[call("f", {}, id="a"), call("f", {}, id="b")])
    record = chat(
        user("Hi"), asked, tool("1", tool_call_id="a"), tool("2", tool_call_id="b"), assistant("Yo")
    )
    texts = {number: text for text, number in indices_of("qwen3", record)}
    assert texts[2].startswith("<|im_start|>user\n<tool_response>\n1")
    assert texts[3].endswith("2\n</tool_response><|im_end|>\n")


def test_text_that_comes_after_the_results_of_its_message() -> None:
    """As Gemma 4 has it; where the next answer goes on there, it is one text, of the first."""
    asked = [user("Hi"), calls(call("f", {}), content="I look."), tool("1"), assistant("Yo")]
    for messages, text in ((asked, "I look.Yo<turn|>\n"), (asked[:-1], "I look.<turn|>\n")):
        assert indices_of("gemma4", chat(*messages))[-1] == (text, 1)
