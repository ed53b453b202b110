"""Whatever models, tools, users and clocks do, every history is legal, nothing is lost, and every
transcript replays.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.controller import Controller, Script, replay
from mypt_infer.controller.events import CallParsed
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Tool, Toolbox
from tests.support.dialects import ALL
from tests.support.examples import examples
from tests.support.faults import DIALECTS, Chaos, conversation


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32))
def test_random_faults(dialect: str, seed: int) -> None:
    conversation(dialect, seed, turns=3)


TAGS = [
    t.shown
    for name in mypt_spec.dialects()
    for t in mypt_spec.dialect(name).table.terminals.values()
]
TEXTS = (
    st.lists(
        st.sampled_from(TAGS) | st.text(st.characters(exclude_categories=[]), max_size=8),
        min_size=1,
        max_size=8,
    )
    .map("".join)
    .filter(bool)
)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(said=TEXTS, found=TEXTS)
def test_no_text_becomes_structure(dialect: str, said: str, found: str) -> None:
    """What users type and tools return: the blocks of the history are those of a harmless conversation."""
    logs = []
    for user, value in (("Hi", "found"), (said, found)):
        chaos = Chaos(dialect, random.Random(1))
        tools = Toolbox(
            [Tool("f", "", {"type": "object"}, lambda args, value=value: {"text": value, value: 1})]
        )  # type: ignore[misc]
        controller = Controller(
            Script([*chaos.call("f"), *chaos.answer("Done.")]),
            tools,
            dialect=dialect,
            system=chaos.system,
        )
        list(controller.say(user))
        episode, findings = controller.history.dialect.parse_ids(controller.history.ids)
        assert not findings
        assert episode is not None
        logs.append([(m.role, [p.kind for p in m.parts]) for m in episode.messages])
        record = json.loads(json.dumps(controller.record()))
        assert replay(record, dialect)[0].ids == controller.history.ids
    assert logs[0] == logs[1]


def test_the_script_of_a_dialect_is_its_own() -> None:
    """What the model of these tests writes is legal in every dialect."""
    for dialect in ALL:
        chaos = Chaos(dialect, random.Random(1))
        controller = Controller(
            Script([*chaos.call("f"), *chaos.answer("Done.")]),
            Toolbox([Tool("f", "", {"type": "object"}, lambda args: 1)]),
            dialect=dialect,
            system=chaos.system,
        )
        events = list(controller.say("Hi"))
        assert controller.last_end is not None
        assert controller.last_end.reason == "stop"
        assert not controller.history.dropped
        calls = format_of(dialect).calls
        assert any(isinstance(e, CallParsed) for e in events) == bool(calls)
