"""The first visit of a place: the ids that may follow while no budget counts."""

from __future__ import annotations

import numpy as np
import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.base.allow import AllowSet
from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.free_sets import _FEW
from mypt_infer.decode.compile.row_sets import RowSets
from mypt_infer.decode.limits import ENDLESS, UNBOUNDED, packed
from tests.support.decoding import TOOLS

# A value that may begin with more tokens than are looked at one by one.
MANY = {
    "name": "many",
    "parameters": {
        "properties": {"kind": {"enum": [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]}}
    },
}


def ids_of(found: AllowSet, size: int) -> Ints:
    """The ids of an allow set, sorted."""
    if found.only is not None:
        return found.only
    assert found.refused is not None
    return np.delete(np.arange(size, dtype=np.int32), found.refused)


@pytest.mark.parametrize("name", ["mypt", "praxis"])
@pytest.mark.parametrize("content", [True, False])
def test_sets_of_places_are_those_of_classes(name: str, content: bool) -> None:
    """In free content and in structure, for each budget around the one from which on none counts."""
    of = Decoder(name, [*TOOLS, MANY], max_think_tokens=30, max_toolcall_tokens=40)
    tables = of.tables
    _, first = np.unique(
        np.stack([tables.row, tables.exits[tables.frame, -1], tables.block])
        if content
        else np.diff(tables.edges.first),
        axis=-1,
        return_index=True,
    )
    states = [s for s in first.tolist() if bool(tables.frame[s]) == content and tables.alive(s)]
    assert len(states) > 100 or (not content and np.diff(tables.edges.first)[states].max() > _FEW)
    for state in states[:: max(1, len(states) // 60)]:
        left, inside, _ = of.free(packed(state, ENDLESS, UNBOUNDED))
        for budget in (ENDLESS, left + 1, left, left - 1):
            for block in (UNBOUNDED, inside + 1, inside):
                there = packed(state, max(budget, 0), block)
                allowed, found = np.flatnonzero(of.allowed(there)), of.allow(there)
                ids = ids_of(found, tables.vocabulary)
                assert np.array_equal(ids, allowed), (state, budget, block)
                assert found.count == len(allowed)


def test_places_with_the_same_exits_share_a_set() -> None:
    """Of ids 0 to 5, 0 to 3 stay, 4 leaves through exit 1, 5 through exit 2; then the other way."""
    after = np.array([[0, -2, -3], [-1, 0, -2]], dtype=np.int32)
    sets = RowSets(after, np.array([0, 0, 0, 0, 1, 2], dtype=np.int32))
    one = sets.allow(0, np.array([True, False]))
    assert one is sets.allow(0, np.array([True, False]))
    assert one.refused is not None
    assert (one.count, one.refused.tolist()) == (5, [5])
    other = sets.allow(1, np.array([True]))
    assert other.only is not None
    assert other.only.tolist() == [4, 5]
    assert ids_of(sets.allow(1, np.array([False])), 6).tolist() == [4]
