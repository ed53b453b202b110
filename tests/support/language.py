"""Strings of terminals, read by Lark's parser and by the automaton, and written as texts."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from lark import Token

import mypt_spec
from mypt_spec.automaton import make_parser
from mypt_spec.dialect import grammar_root
from mypt_spec.table import TEXT
from tests.support.strategies import body

BODY = '{"name": "n"}'  # legal as text, as a call and as a result; other bodies have their own


@cache
def grammar(name: str) -> str:
    """Returns the text of the grammar of a dialect."""
    folder = grammar_root() / name.replace("-", "_")
    return (folder / f"{folder.name}.lark").read_text(encoding="utf-8")


def parser(name: str) -> Any:
    """Returns Lark's parser before the first terminal."""
    return make_parser(grammar(name)).parse_interactive([])


def feed(state: Any, terminal: str) -> Any:
    """Returns the parser after one terminal, or None where it refuses it.

    It is fed, not asked: `accepts()` is what extraction used. The trees that it builds are shared by
    all copies, and nobody looks at them.
    """
    following = state.copy(deepcopy_values=False)
    try:
        following.feed_token(Token(terminal, ""))
    except Exception:
        return None
    return following


def walk(d: mypt_spec.Dialect, data: st.DataObject, size: int) -> list[str]:
    """Draws a path through the automaton, with a wrong terminal here and there or none."""
    out: list[str] = []
    state = d.automaton.start
    wrong = data.draw(st.sampled_from([0, 0, 1, 2]))
    for _ in range(data.draw(st.integers(0, size))):
        if wrong and data.draw(st.integers(0, 9)) == 0:
            out.append(data.draw(st.sampled_from([TEXT, *d.table.terminals])))
            wrong -= 1
            continue
        terminal = data.draw(st.sampled_from(sorted(d.automaton.allowed(state)) or [TEXT]))
        out.append(terminal)
        state = d.automaton.steps[state].get(terminal, state)
    return out


def spelled(d: mypt_spec.Dialect, string: list[str]) -> str:
    """Returns a text with these terminals; TEXT TEXT is one run, so it is written once."""
    runs = [
        t for before, t in zip(["", *string], string, strict=False) if t != TEXT or before != TEXT
    ]
    before = ["", *runs]
    bodies = {t.name: body(d.table, t.opens) for t in d.table.terminals.values() if t.opens}
    names = {
        t.name: t.spell(tuple((key, "n") for key in t.patterns)) for t in d.table.terminals.values()
    }
    return "".join(
        bodies.get(b, BODY) if t == TEXT else names[t] for b, t in zip(before, runs, strict=False)
    )
