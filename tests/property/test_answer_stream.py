"""What a stream says of an answer does not depend on how the answer is cut into pieces."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.plugins.answer_stream import AnswerStream
from mypt_infer.run_format import format_of
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.deltas import CALLED, DeltaReader
from mypt_spec.dialect import families
from tests.support.build import assistant, function, user
from tests.support.examples import either, examples
from tests.support.state import state_of

TOOLS = [function("find", {"q": {"type": "string"}, "n": {"type": "integer"}})]
SYSTEM = {"role": "system", "content": "S"}
CALL = {
    "type": "function",
    "function": {"name": "find", "arguments": {"q": 'a "b" </x> é\n', "n": 3}},
}
FIRST, SECOND = ({"id": f"call_{i}aaa"} | CALL for i in range(2))
ANSWERS = {
    "text": assistant("If a < b, then </ is 1 <| 2 é.\n\nYes"),
    "thought": assistant("Yes.", reasoning_content="Is a < b?\n<thi"),
    "call": assistant("", tool_calls=[FIRST]),
    "pair": assistant("", tool_calls=[FIRST, SECOND]),
    "calls": assistant("Let me see.", tool_calls=[FIRST, SECOND], reasoning_content="Two."),
}  # fmt: skip
# Their prompts end with a thought, or begin one, that no answer of the template has.
APART = {"gemma4-26b", "gemma4-31b"}
NAMES = sorted({*mypt_spec.dialects(), *families()} - APART)
Known = tuple[mypt_spec.Dialect, list[int], list[int], str]


@cache
def answers(name: str) -> dict[str, Known]:
    """Returns answers of a format by name: its dialect, the prompt, ids and text."""
    prompter, out = Prompter(mypt_spec.dialect(name), name), {}
    dialect = prompter.dialect
    for kind, answer in ANSWERS.items():
        tools = TOOLS if "tool_calls" in answer else []
        for head in ([SYSTEM], []):
            try:
                prompt = prompter.prompt([*head, user("Hi")], tools).ids
                episode, _, _ = prompter.episode([*head, user("Hi"), answer], tools)
                (written,) = dialect.trained(episode, history="official")
                ids = dialect.encode(written, partial=True).ids.tolist()
            except ValueError:
                continue
            if ids[: len(prompt)] != prompt:  # the prompt opens a thought that the answer has not
                continue
            out[kind] = (
                dialect,
                prompt,
                ids[len(prompt) :],
                dialect.tokenizer.decode(ids[len(prompt) :]),
            )
            break
    return out  # fmt: skip


def added_up(stream: AnswerStream, deltas: list[Any]) -> dict[str, Any]:
    """Returns what deltas add up to, as clients add them up; it must be the message."""
    out: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": []}
    for delta in deltas:
        for key in ("content", "reasoning_content"):
            out[key] += delta.get(key, "")
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(out["calls"])
                out["calls"].append([call["function"]["name"], ""])
            out["calls"][call["index"]][1] += call["function"].get("arguments", "")
    message = stream.message
    assert (message["content"] or "") == out["content"]
    told = [
        [c["function"]["name"], c["function"]["arguments"]] for c in message.get("tool_calls", [])
    ]
    assert told == out["calls"]
    return out | {"statuses": [call.status for call in stream.calls]}


def of_text(known: Known, cuts: list[int]) -> dict[str, Any]:
    dialect, prompt, _, text = known
    stream = AnswerStream(dialect, prompt, tools=TOOLS)
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    return added_up(stream, [d for piece in pieces for d in stream.push_text(piece)] + stream.end())


def of_ids(known: Known) -> dict[str, Any]:
    dialect, prompt, ids, _ = known
    stream = AnswerStream(dialect, prompt, tools=TOOLS)
    return added_up(stream, [delta for i in ids for delta in stream.push([i])] + stream.end())


@pytest.mark.parametrize("name", NAMES)
def test_any_two_pieces_are_the_whole(name: str) -> None:
    known_answers = answers(name)
    assert known_answers
    for kind, known in known_answers.items():
        whole = of_ids(known)
        asked = ANSWERS[kind]
        assert whole["content"] == (asked["content"] or ""), kind
        assert [json.loads(text) for _, text in whole["calls"]] == [
            call["function"]["arguments"] for call in asked.get("tool_calls", [])
        ]
        assert whole["statuses"] == ["ok"] * len(whole["calls"])
        assert of_text(known, []) == whole, kind
        size = len(known[-1])
        for cut in range(0, size, either(max(1, size // 12), 1)):
            assert of_text(known, [cut]) == whole, (kind, cut)
        assert of_text(known, [*range(size)]) == whole, kind


@settings(max_examples=examples(200))
@given(st.sampled_from(NAMES), st.integers(0, 1 << 30))
def test_any_pieces_of_any_text_are_the_whole(name: str, seed: int) -> None:
    """Of answers that are cut or damaged, too."""
    draw = random.Random(seed)
    dialect, prompt, ids, text = draw.choice([*answers(name).values()])
    at, end = sorted(draw.choices(range(len(text) + 1), k=2))
    tags = [*dialect.table.special, "<", '"', "{", "\n"]
    text = draw.choice(
        [text[:end], text[:at] + text[end:], text[:at] + draw.choice(tags) + text[at:]]
    )
    known = dialect, prompt, ids, text
    cuts = [draw.randrange(len(text) + 1) for _ in range(draw.randrange(1, 9))]
    assert of_text(known, cuts) == of_text(known, []) == of_text(known, [*range(len(text))])


@settings(max_examples=examples(400))
@given(st.sampled_from(NAMES), st.integers(0, 1 << 30))
def test_a_piece_leads_where_its_characters_lead(name: str, seed: int) -> None:
    """After any text before it; so, by induction, any number of pieces is the whole."""
    draw = random.Random(seed)
    dialect, prompt, _, text = draw.choice([*answers(name).values()])
    begin, end = sorted(draw.choices(range(len(text) + 1), k=2))
    states = []
    for pieces in ([*text[:end]], [*text[:begin], text[begin:end]]):
        stream = AnswerStream(dialect, prompt, tools=TOOLS)
        for piece in pieces:
            stream.push_text(piece)
        states.append(state_of(stream))
    assert states[0] == states[1]


def test_each_call_of_several_has_an_end() -> None:
    """Of calls that one tag parts, too: it ends a call and begins the next."""
    dialect, prompt, ids, _ = answers("granite4")["pair"]
    reader = DeltaReader(format_of(dialect), prompt)
    deltas = [delta for i in ids for delta in reader.push(i)] + reader.end()
    assert [bool(d.name) for d in deltas if d.kind == CALLED and (d.name or d.ended)] == [
        True,
        False,
    ] * 2


@pytest.mark.parametrize(
    ("text", "content", "statuses"),
    [
        ("<tool_call>\n{]\n</tool_call>", "<tool_call>\n{]\n</tool_call>", ["invalid_json"]),
        ("a</tool_call>b", "a\n</tool_call>b", []),
        ('<tool_call>\n{"name": "find", "arguments": {"q', "", ["unclosed_block"]),
        (
            '<tool_call>\n{"arguments": {}}\n</tool_call>',
            '<tool_call>\n{"arguments": {}}\n</tool_call>',
            ["missing_name"],
        ),
        (
            '<tool_call>\n{"name": "find", "arguments": 1}\n</tool_call>',
            "",
            ["malformed_structure"],
        ),
    ],
)
def test_what_is_no_call_is_told(text: str, content: str, statuses: list[str]) -> None:
    stream = AnswerStream(mypt_spec.dialect("qwen3"))
    told = added_up(stream, stream.push_text(text) + stream.end())
    assert (told["content"], told["statuses"]) == (content, statuses)


def test_calls_of_an_answer_whose_stop_token_is_not_shown() -> None:
    """In Mistral's format it ends the list of calls, too; a list that is cut is no call."""
    dialect, prompt, _, text = answers("mistral")["pair"]
    for cut, count in ((len("</s>"), 2), (len("]</s>"), 0)):
        stream = AnswerStream(dialect, prompt)
        stream.push_text(text[:-cut])
        stream.end()
        assert len(stream.message.get("tool_calls", ())) == count
        assert [call.status for call in stream.calls] == (["ok"] * count or ["unclosed_block"])


def test_ids_without_meaning_and_bytes() -> None:
    stream = AnswerStream(mypt_spec.dialect("chatml"))
    with pytest.raises(ValueError, match="means nothing"):
        stream.push([999_999])
    (byte,) = (
        i
        for i in range(256)
        if stream._reader.format.dialect.tokenizer.decode_bytes([i]) == b"\xe9"
    )
    assert "".join(d["content"] for d in stream.push([byte, 64, 64])) == "\ufffdaa"


def test_arguments_have_the_types_that_tools_declare() -> None:
    """Where the format does not say them: 7 is a text here, for the tool says so."""
    call = "<tool_call>find\n<arg_key>q</arg_key>\n<arg_value>7</arg_value>\n</tool_call>"
    stream = AnswerStream(mypt_spec.dialect("glm4.5"), tools=TOOLS)
    stream.push_text(call)
    stream.end()
    assert [attempt.arguments for attempt in stream.calls] == [{"q": "7"}]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("qwen3", 'arguments": {"q"', 'arguments" "q"'),
        ("usf-omega", 'arguments": {"q"', 'arguments" "q"'),
        ("usf-omega", "call_1", r"\xall_1"),
    ],
)
def test_what_precedes_a_fault_in_a_call_is_told(name: str, right: str, wrong: str) -> None:
    """However the call is cut; what follows the fault is not."""
    *head, text = answers(name)["pair"]
    damaged = text.replace(right, wrong, 1)
    assert damaged != text
    of_pieces = of_text((*head, damaged), [*range(len(damaged))])
    assert of_text((*head, damaged), []) == of_pieces
    assert [name for name, _ in of_pieces["calls"]] == ["find"] * (1 + (name == "qwen3"))


def test_blanks_after_an_answer_wait_for_what_they_begin() -> None:
    """Text after them goes on with the answer, and a tag does not."""
    *head, text = answers("gemma4")["text"]
    for more in (" a<turn|>\n", " <|tool_call>"):
        known = (*head, text + more)
        assert of_text(known, [len(text) + 1]) == of_text(known, [])
