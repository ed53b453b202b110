"""What decoders keep is little for Python's collector of garbage, which stops all while it looks.

A full collection looks at each object that may be part of a cycle, wherever the program is. So what
is kept by the thousand is numbers: arrays, and tuples of numbers, at which it looks once.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.compile import build_tables, pieces
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_spec.memo import Memo
from tests.support.decoding import in_call, requiring
from tests.support.large_tools import many_tools

pytestmark = pytest.mark.usefixtures("frozen_objects")


def tracked_objects() -> int:
    """Returns how many objects a collection looks at, once it has left out what it can."""
    for _ in range(3):  # of tuples within tuples, each leaves out one level
        gc.collect()
    return len(gc.get_objects())


def test_tools_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their graphs have some hundred nodes each."""
    for module, name in ((build_tables, "_built"), (pieces, "_pieces")):
        monkeypatch.setattr(module, name, Memo[Any, Any](99, room=64 << 20))
    Decoder("mypt", many_tools(1))
    before = tracked_objects()
    Decoder("mypt", many_tools(10))
    kept = list(pieces._pieces.entries.values())
    assert len(kept) >= 10
    assert sum(len(piece.dfa) for piece in kept) > 400
    assert tracked_objects() - before < 20 * 10


def test_states_of_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a long generation reaches, and what is known of each."""
    pytest.importorskip("llguidance")
    schema = {"type": "array", "items": {"type": "integer"}}
    made = Decoder("mypt", [requiring(a=schema)], engine="llguidance")
    guided: Any = made.engine  # type: ignore[attr-defined]
    for of, names in ((made, ("_free", "_sets")), (guided, ("_offered", "_texts", "_matchers"))):
        for name in names:
            monkeypatch.setattr(of, name, Memo[Any, Any](4))
    numbers = made.dialect.tokenizer.encode(", ".join(map(str, range(10, 90))))
    state = in_call(made, '{"name": "t", "a": [')
    before = tracked_objects()
    for token in numbers:
        state = made.next(state, token)
    assert len(numbers) > 150
    assert len(guided.places) > 150
    assert tracked_objects() - before < 100


def test_the_vocabulary_that_llguidance_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llguidance")
    from mypt_infer.decode.llguidance import grammar

    def long() -> set[int]:
        return {id(o) for o in gc.get_objects() if isinstance(o, list) and len(o) > 20_000}

    dialect = mypt_spec.dialect("mypt")
    grammar.words(dialect, call_ends(dialect)[1])
    before = long()
    monkeypatch.setattr(grammar, "_words", Memo[Any, Any](2))
    made = grammar.words(dialect, call_ends(dialect)[1])
    gc.collect()
    assert made is not None
    assert not long() - before
