"""Whatever models, tools, users and clocks do, every history is legal, nothing is lost, and every
transcript replays.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.controller import Controller, Script
from mypt_infer.controller.events import CallParsed
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Toolbox
from tests.support.dialects import ALL
from tests.support.examples import examples
from tests.support.faults import DIALECTS, Chaos, conversation
from tests.support.scripted import check_legal, tools_of


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


def scripted(dialect: str, tools: Toolbox) -> Controller:
    """A controller whose model calls a tool, if its dialect has calls, and answers."""
    chaos = Chaos(dialect, random.Random(1))
    script = Script([*chaos.call("f"), *chaos.answer("Done.")])
    return Controller(script, tools, dialect=dialect, system=chaos.system)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(question=TEXTS, result=TEXTS)
def test_no_text_becomes_structure(dialect: str, question: str, result: str) -> None:
    """What users type and tools return: the blocks of the history are those of a harmless conversation."""
    logs = []
    for text, value in (("Hi", "found"), (question, result)):
        tools = tools_of(f=lambda _, value=value: {"text": value, value: 1})  # type: ignore[misc]
        controller = scripted(dialect, tools)
        list(controller.say(text))
        episode = check_legal(controller, tags=True)
        logs.append([(m.role, [p.kind for p in m.parts]) for m in episode.messages])
    assert logs[0] == logs[1]


@pytest.mark.parametrize("dialect", ALL)
def test_the_script_of_a_dialect_is_its_own(dialect: str) -> None:
    """What the model of these tests writes is legal in every dialect."""
    controller = scripted(dialect, tools_of(f=lambda _: 1))
    events = list(controller.say("Hi"))
    assert controller.last_end is not None
    assert controller.last_end.reason == "stop"
    assert not controller.history.dropped
    assert any(isinstance(e, CallParsed) for e in events) == bool(format_of(dialect).calls)
