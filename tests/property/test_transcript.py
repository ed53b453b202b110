"""A damaged transcript is refused with a TranscriptError, whatever the damage is."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.controller import Controller, Options, Script, TranscriptError, replay
from tests.support.examples import examples
from tests.support.faults import DIALECTS, Chaos
from tests.support.scripted import tools_of


def transcripts() -> list[tuple[str, dict[str, Any]]]:
    """Transcripts with their dialects."""
    out = []
    for dialect in ("mypt", "praxis", "mypt-3b", "usf-omega"):
        chaos = Chaos(dialect, random.Random(1))
        controller = Controller(
            Script([*chaos.call("f"), *chaos.answer("Done. ") * 2, *chaos.call("f")[:4]]),
            tools_of(f=lambda _: {"found": [1, "a"]}),
            dialect=dialect,
            system=chaos.system,
            options=Options(context_length=500),
        )
        for text in ("Hi", "And <myPT_user>?", "So?"):
            try:
                list(controller.say(text))
            except RuntimeError:
                break
        out.append((dialect, json.loads(json.dumps(controller.record()))))
    return out


TRANSCRIPTS = transcripts()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["stop", "value", "ToolResult", "Sample", "prompt", "sampled", "id", "error"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["stop", "value", "truncated", "x"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """All (container, key) of a JSON value."""
    out: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        keys = item.keys() if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()  # fmt: skip
        for key in keys:
            out.append((item, key))
            waiting.append(item[key])
    return out


def test_they_replay_unharmed() -> None:
    for dialect, record in TRANSCRIPTS:
        replay(record, dialect)


@pytest.mark.parametrize("part", ["origins", "turns", "dropped", "events"])
def test_what_was_taken_out_is_named(part: str) -> None:
    """Each part is compared with the replay: not only that it can be read."""
    dialect, record = next(one for one in TRANSCRIPTS if one[1]["_transcript"]["dropped"])
    damaged = copy.deepcopy(record)
    del damaged["_transcript"][part][-1]
    with pytest.raises(TranscriptError, match=f"the replay has other {part}"):
        replay(damaged, dialect)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(DIALECTS), st.integers(0, 2**16), st.integers(0, 5),
    st.sampled_from([None, 500]), st.sampled_from([0.0, 0.03]),
)  # fmt: skip
def test_the_first_turns_are_what_was_there_after_them(
    dialect: str, seed: int, turns: int, length: int | None, fault: float
) -> None:
    chaos = Chaos(dialect, random.Random(seed), fault=fault)
    tools = tools_of(large=lambda _: {"found": ["a"] * 40})
    options = Options(context_length=length, max_tokens=60)
    made = Controller(chaos, tools, dialect=dialect, system=chaos.system, options=options)
    chaos.controller = made
    records: list[str] = []  # after each turn
    for text in ("Hi", "And <myPT_user> </user>?", "So? " * 20, "Well"):
        chaos.coming = []
        with contextlib.suppress(RuntimeError, SystemExit, ValueError):
            list(made.say(text))
        if len(made.replies.turns) > len(records):
            records.append(json.dumps(made.record()))
    if not records:
        return
    record = json.loads(records[-1])
    cut = Controller.from_record(record, Script([]), tools, dialect=dialect, turns=turns)
    if turns:
        assert json.dumps(cut.record()) == records[min(turns, len(records)) - 1]
    else:
        assert not cut.history.ids
        assert not cut.replies.turns


@settings(max_examples=examples(500))
@given(data=st.data(), which=st.integers(0, len(TRANSCRIPTS) - 1))
def test_any_damage_is_a_transcript_error(data: st.DataObject, which: int) -> None:
    dialect, record = TRANSCRIPTS[which]
    damaged = copy.deepcopy(record)
    for _ in range(data.draw(st.integers(1, 2))):
        inner = damaged.get("_transcript")
        spots = [*(places(inner) if isinstance(inner, dict) else ()), (damaged, "_transcript")]
        # The short lists come first: what is long is mostly ids.
        shallow = [p for p in spots if not isinstance(p[0], list) or len(p[0]) < 30]
        container, key = data.draw(
            st.sampled_from(range(len(shallow))).map(lambda i, s=shallow: s[i])  # type: ignore[misc]
            | st.sampled_from(range(len(spots))).map(lambda i: spots[i])  # noqa: B023
        )
        what = data.draw(st.sampled_from(["change", "drop", "twice", "cut"]))
        if what == "change" or container is damaged:
            container[key] = data.draw(VALUES)
        elif what == "drop":
            del container[key]
        elif isinstance(container, list):
            if what == "twice":
                container.insert(key, copy.deepcopy(container[key]))
            else:
                del container[key:]
    with contextlib.suppress(TranscriptError):
        replay(damaged, dialect)


@pytest.mark.parametrize("record", [None, [], "x", 3, {"_transcript": []}, {"_transcript": {}}])
def test_what_is_no_record_is_a_transcript_error(record: Any) -> None:
    with pytest.raises(TranscriptError):
        replay(record, "mypt")
