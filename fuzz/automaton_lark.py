"""Invariant 2: Lark's parser, the automaton and the parser of texts accept the same strings."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import mypt_spec
from fuzz.driver import run
from mypt_spec.table import END
from tests.support.language import feed, parser, spelled, walk


@st.composite
def _inputs(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(mypt_spec.dialects()))
    return {"dialect": name, "string": walk(mypt_spec.dialect(name), draw(st.data()), 150)}


STRATEGY = _inputs()


def check(value: dict[str, Any]) -> None:
    d = mypt_spec.dialect(value["dialect"])
    here: Any = parser(value["dialect"])
    state: int | None = d.automaton.start
    for terminal in value["string"]:
        here = feed(here, terminal) if here is not None else None
        state = d.automaton.steps[state].get(terminal) if state is not None else None
        assert (here is None) == (state is None)
    accepted = state is not None and d.automaton.accepting(state)
    assert accepted == (here is not None and feed(here, END) is not None)
    episode, findings = d.parse(spelled(d, value["string"]))
    # What is read with a warning is not of the language; it is written as something else.
    assert (episode is not None and not findings) == accepted


if __name__ == "__main__":
    run("automaton_lark")
