"""Tables grow in step with the schema: nested arrays, long enumerations, many optional members."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.compile import build_tables, nfa, pieces, tables
from mypt_spec.memo import Memo
from tests.support.build import function
from tests.support.decoding import requiring
from tests.support.examples import either
from tests.support.large_tools import long_enum, many_tools, nested_schema, optional_members


def decoder_of(schema: dict[str, Any]) -> Decoder:
    return Decoder("mypt", [requiring(a=schema)])


@pytest.mark.parametrize(
    ("schema", "small"), [(nested_schema, 4), (long_enum, 200), (optional_members, 20)]
)
def test_states_and_bytes_grow_in_step(schema: Any, small: int) -> None:
    """Four times the schema has at most five times the states, and takes five times the bytes."""
    alone = Decoder("mypt").tables
    one, four = (decoder_of(schema(n)).tables for n in (small, 4 * small))
    assert four.size - alone.size <= 5 * (one.size - alone.size)
    assert four.nbytes - alone.nbytes <= 5 * (one.nbytes - alone.nbytes)


def test_arrays_nest_as_deep_as_tables_say() -> None:
    assert decoder_of(nested_schema(18)).tables.size < 5000


def test_tables_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only by number: a list of a hundred tools takes a hundred times as much as a small one."""
    room = 3 * Decoder("mypt", [{"name": "t_0"}]).tables.nbytes
    kept = Memo[tuple[str, str], tables.Tables](32, room=room)
    monkeypatch.setattr(build_tables, "_built", kept)
    for i in range(6):
        Decoder("mypt", [{"name": f"t_{i}"}])
        assert kept.size == sum(t.nbytes for t in kept.entries.values()) <= room
    assert len(kept.entries) > 1
    large = [function(f"u_{i}", {"a": long_enum(120)}) for i in range(40)]
    assert Decoder("mypt", large).tables.nbytes > room
    assert kept.size <= room


def test_the_work_for_optional_members_grows_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of them, all later ones may come; what these share is built once."""
    work: list[int] = []
    real = nfa._closure
    monkeypatch.setattr(
        nfa, "_closure", lambda places: work.append(len(found := real(places))) or found
    )

    def done(count: int) -> int:
        work.clear()
        Decoder("mypt", [function("t", {"grown": optional_members(count)})])
        return sum(work)

    done(1)  # and the dialect itself
    assert done(80) <= 5 * done(20)


def test_the_steps_of_optional_members_grow_in_step() -> None:
    """Counted in calls of functions, which no other process on the machine makes more."""
    counted = 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1

    def calls(members: int, key: str) -> int:
        nonlocal counted
        properties = {f"{key}{i * 7919 % 10_007}": {"type": "boolean"} for i in range(members)}
        tool = function("t", {"a": {"type": "object", "properties": properties}})
        counted = 0
        sys.setprofile(count)
        try:
            Decoder("mypt", [tool])
        finally:
            sys.setprofile(None)
        return counted

    calls(1, "first")  # and the dialect itself
    small = calls(40, "small")
    assert calls(160, "large") <= 4.6 * small


def test_garbage_is_collected_after_tools_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    real = pieces._compiled
    monkeypatch.setattr(pieces, "_compiled", lambda *a: seen.append(gc.isenabled()) or real(*a))
    schema = {"a": {"type": "string"}, "b of this test": {"type": "null"}}
    Decoder("mypt", [function("t", schema)])
    assert seen == [False]
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), pieces._uncollected():
        _ = 1 // 0
    assert gc.isenabled()
    gc.disable()
    try:
        with pieces._uncollected():
            pass
        assert not gc.isenabled(), "whoever collects by hand goes on to"
    finally:
        gc.enable()


@pytest.mark.parametrize("name", either(["mypt"], ["mypt", "praxis"]))
def test_many_tools_take_few_bytes(name: str) -> None:
    """128 tools: the tables are below a fourth of 64 MB."""
    made = Decoder(name, many_tools(128))
    assert made.tables.nbytes < 16 << 20
