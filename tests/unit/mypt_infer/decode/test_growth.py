"""Tables grow in step with the schema: nested arrays, long enumerations, many optional members."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
import torch

from mypt_infer.decode import Decoder, tables
from mypt_infer.decode.compile import nfa, pieces
from mypt_infer.generate.device import DeviceDecoder
from mypt_spec.memo import Memo


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def listed(count: int) -> dict[str, Any]:
    return {"enum": [f"value {i * 7919 % 100_003:05}" for i in range(count)]}


def optional(count: int) -> dict[str, Any]:
    names = [f"member_{i}" for i in range(count)]
    return {"type": "object", "properties": {n: {"type": "boolean"} for n in names}}


@pytest.mark.parametrize(
    ("made", "small"), [(nested, 4), (listed, 200), (optional, 20)], ids=["nested", "enum", "optional"]
)  # fmt: skip
def test_states_grow_in_step(made: Any, small: int) -> None:
    """Four times the schema has at most five times the states."""

    def states(schema: dict[str, Any]) -> int:
        tool = {"name": "t", "parameters": {"properties": {"a": schema}, "required": ["a"]}}
        return Decoder("mypt", [tool]).tables.size - Decoder("mypt").tables.size

    assert states(made(4 * small)) <= 5 * states(made(small))


def test_arrays_nest_as_deep_as_tables_say() -> None:
    tool = {"name": "t", "parameters": {"properties": {"a": nested(18)}}}
    assert Decoder("mypt", [tool]).tables.size < 5000


def test_tables_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only by number: a list of a hundred tools takes a hundred times as much as a small one."""
    room = 3 * Decoder("mypt", [{"name": "t_0"}]).tables.nbytes
    kept = Memo[tuple[str, str], tables.Tables](32, room=room)
    monkeypatch.setattr(tables, "_built", kept)
    for i in range(6):
        Decoder("mypt", [{"name": f"t_{i}"}])
        assert kept.size == sum(t.nbytes for t in kept.known.values()) <= room
    assert len(kept.known) > 1
    large = [
        {"name": f"u_{i}", "parameters": {"properties": {"a": listed(120)}}} for i in range(40)
    ]
    assert Decoder("mypt", large).tables.nbytes > room
    assert kept.size <= room


@pytest.mark.parametrize(
    ("made", "small"), [(nested, 4), (listed, 200), (optional, 20)], ids=["nested", "enum", "optional"]
)  # fmt: skip
def test_bytes_grow_in_step(made: Any, small: int) -> None:
    """Four times the schema takes at most five times the bytes."""

    def size(schema: dict[str, Any]) -> int:
        tool = {"name": "t", "parameters": {"properties": {"a": schema}, "required": ["a"]}}
        return Decoder("mypt", [tool]).tables.nbytes - Decoder("mypt").tables.nbytes

    assert size(made(4 * small)) <= 5 * size(made(small))


def test_the_work_for_optional_members_grows_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of them, all later ones may come; what these share is built once."""
    work: list[int] = []
    real = nfa._closure
    monkeypatch.setattr(
        nfa, "_closure", lambda places: work.append(len(found := real(places))) or found
    )

    def done(count: int) -> int:
        work.clear()
        tool = {"name": "t", "parameters": {"properties": {"grown": optional(count)}}}
        Decoder("mypt", [tool])
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
        tool = {"name": "t", "parameters": {"properties": {"a": {"type": "object", "properties": properties}}}}  # fmt: skip
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
    schema = {"properties": {"a": {"type": "string"}, "b of this test": {"type": "null"}}}
    Decoder("mypt", [{"name": "t", "parameters": schema}])
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


def many(count: int) -> list[dict[str, Any]]:
    """Tools of the size that real ones have."""
    more = {"a": nested(1), "b": listed(5), "c": {"type": "integer"}, "d": {"type": "string"}}
    return [
        {
            "name": f"tool_{i * 7919 % 1009}.do",
            "parameters": {
                "properties": {f"{k}_{i * 31 % 97}": v for k, v in more.items()}
                | {"where": optional(4)},
                "required": [f"d_{i * 31 % 97}"],
            },
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("name", ["mypt", "praxis"])
def test_many_tools_take_few_bytes(name: str) -> None:
    """128 tools: the tables and their copy on a device, each below a fourth of 64 MB."""
    made = Decoder(name, many(128))
    assert made.tables.nbytes < 16 << 20
    device = DeviceDecoder(made)
    held = [v for v in vars(device).values() if isinstance(v, torch.Tensor)]
    assert sum(v.nbytes for v in held) < 16 << 20
