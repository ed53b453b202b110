"""The decoders that a server keeps: the last ones, within a number and within bytes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra infer")
pytest.importorskip("llguidance", reason="needs the extra llguidance")
pytest.importorskip("openai", reason="needs the extra test")

import mypt_spec
from mypt_infer.serve.asked import decoders
from mypt_infer.serve.asked.decoders import Choice, Decoders, Recipe
from tests.support.decoding import in_call, requiring


def wanted(name: str, *, engine: str = "table") -> Recipe:
    bound = {"minLength": 2, "pattern": "^[a-z]+$"} if engine != "table" else {}
    return Recipe([requiring(name, a={"type": "string", **bound})], Choice())


def names(of: Decoders) -> list[str]:
    return [ready.decoder.tools[0].name for ready in of._ready.values()]


def kept_bytes(of: Decoders) -> int:
    return sum(ready.decoder.nbytes for ready in of._ready.values())


def test_decoders_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as they grow: what one has learnt since is counted when the next one is asked for."""
    of = Decoders(mypt_spec.dialect("mypt"))
    first = of.get(wanted("t0", engine="llguidance"))
    one = first.decoder.nbytes
    assert one >= first.decoder.tables.nbytes > 1 << 19
    monkeypatch.setattr(decoders, "_ROOM", 4 * one)
    for name in ("t1", "t2", "t0", "t3", "t4"):
        of.get(wanted(name, engine="llguidance"))
        assert kept_bytes(of) <= 4 * one
    assert names(of)[-3:] == ["t0", "t3", "t4"]
    before = names(of)
    made, text = first.decoder, '{"name": "t0", "a": "' + "some" * 300
    state = in_call(made)
    for token in made.dialect.tokenizer.encode(text):
        made.allow(state)
        state = made.next(state, token)
    assert first.decoder.nbytes > 1.4 * one
    of.get(wanted("t4", engine="llguidance"))
    assert kept_bytes(of) <= 4 * one
    assert names(of) != before
    assert names(of)[-1] == "t4"


def test_a_decoder_larger_than_the_room_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Decoders(mypt_spec.dialect("mypt"))
    monkeypatch.setattr(decoders, "_ROOM", 1)
    for name in ("t0", "t1"):
        assert of.get(wanted(name)).decoder.tools[0].name == name
        assert names(of) == [name]


def test_decoders_are_kept_within_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "_MOST", 2)
    of: Any = Decoders(mypt_spec.dialect("mypt"))
    for name in ("t0", "t1", "t0", "t2"):
        assert of.get(wanted(name)) is of.cached(wanted(name))
    assert names(of) == ["t0", "t2"]
    assert of.cached(wanted("t1")) is None
