"""Compiled tools in files: the same masks after a round trip, and what does not fit is refused."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode import Decoder, Response, SavedToolsError, load_tools, save_tools, saved
from mypt_infer.decode.compile import build_tables, tables
from mypt_infer.decode.decoder import machine
from mypt_spec.memo import Memo
from tests.support.decoding import DIALECTS, TOOLS, generated, prompt
from tests.support.large_tools import many_tools


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(0, 2)), st.integers(0, 1 << 30))
def test_masks_are_equal_after_a_round_trip(
    tmp_path: Path, name: str, which: set[int], seed: int
) -> None:
    tools = [TOOLS[i] for i in sorted(which)]
    made = Decoder(name, tools, max_toolcall_tokens=60)
    save_tools(made, tmp_path / "t.npz")
    back = Decoder(name, load_tools(tmp_path / "t.npz", made.dialect), max_toolcall_tokens=60)
    assert back.tools == made.tools
    state = back.start(prompt(name), max_new_tokens=80)
    assert state == made.start(prompt(name), max_new_tokens=80)
    for token in generated(made, state, random.Random(seed)):
        assert (back.bitmask([state]) == made.bitmask([state])).all()
        assert back.forced(state) == made.forced(state)
        if machine(state) < made.tables.size:
            assert (
                back.tables.following(machine(state)) == made.tables.following(machine(state))
            ).all()
        then = made.next(state, token)
        assert back.next(state, token) == then
        state = then
    assert (back.tables.distance == made.tables.distance).all()


def test_it_loads_in_a_fraction_of_the_time_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """128 tools. In one run, by processor time; a fiftieth is usual, half is the bound."""
    dialect = mypt_spec.dialect("mypt")
    Decoder(dialect)
    monkeypatch.setattr(build_tables, "_built", Memo[Any, Any](4))
    begun = time.process_time()
    made = Decoder(dialect, many_tools(128))
    compiled = time.process_time()
    save_tools(made, tmp_path / "t.npz")
    saved_at = time.process_time()
    back = Decoder(dialect, load_tools(tmp_path / "t.npz", dialect))
    loaded = time.process_time() - saved_at
    print(f"load / compile = {loaded / (compiled - begun):.3f}")
    assert back.tables.size == made.tables.size
    assert loaded < (compiled - begun) / 2


def test_forbidden_blocks_are_kept(tmp_path: Path) -> None:
    made = Decoder("gabgpt", forbidden_blocks=["think"])
    save_tools(made, tmp_path / "t.npz")
    found = load_tools(tmp_path / "t.npz", made.dialect)
    back = Decoder("gabgpt", found)
    assert back.forbidden_blocks == {"think"}
    assert (back.ids(back.start(prompt("gabgpt"))) == made.ids(made.start(prompt("gabgpt")))).all()
    with pytest.raises(ValueError, match="compiled tools have their forbidden blocks"):
        Decoder("gabgpt", found, forbidden_blocks=["think"])
    with pytest.raises(
        SavedToolsError, match="another grammar or vocabulary than this one of mypt"
    ):
        Decoder("mypt", found)


def rewrite_head(path: Path, **head: Any) -> None:
    with np.load(path) as file:
        arrays = dict(file.items())
    old = json.loads(arrays["head"].tobytes())
    arrays["head"] = np.frombuffer(json.dumps(old | head).encode(), np.uint8)
    with path.open("wb") as out:
        np.savez(out, **arrays)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ({"format": 0}, "another format of files"),
        ({"version": "0.0.1"}, r"another version of this package \(0.0.1, here"),
        ({"dialect": "mypt"}, "another dialect"),
        ({"vocabulary": "x"}, "another vocabulary"),
        ({"fingerprint": "x"}, "another grammar"),
        ({"size": 3}, "damaged: arrays do not fit together"),
        ({"tools": 3}, "damaged"),
    ],
)
def test_what_is_of_another_kind_is_refused(tmp_path: Path, head: Any, why: str) -> None:
    made, path = Decoder("gabgpt"), tmp_path / "t.npz"
    save_tools(made, path)
    rewrite_head(path, **head)
    with pytest.raises(SavedToolsError, match=why):
        load_tools(path, made.dialect)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    made, path = Decoder("gabgpt"), tmp_path / "t.npz"
    save_tools(made, path)
    whole = path.read_bytes()
    for damaged in (b"", b"no", whole[:100], whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(SavedToolsError):
            load_tools(path, made.dialect)
    path.write_bytes(whole.replace(b"\1\0\0\0\2", b"\1\0\0\0\3", 1))
    if path.read_bytes() != whole:
        with pytest.raises(SavedToolsError):
            load_tools(path, made.dialect)
    np.savez(path, a=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(SavedToolsError):
        load_tools(path, made.dialect)
    with pytest.raises(OSError, match="No such file"):
        load_tools(tmp_path / "none.npz", made.dialect)


def test_what_llguidance_reads_is_not_saved(tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    for made in (
        Decoder("mypt", TOOLS, engine="llguidance"),
        Decoder("gabgpt", response=Response(regex="a")),
    ):
        with pytest.raises(ValueError, match="only tools that tables hold can be saved"):
            save_tools(made, tmp_path / "t.npz")


def test_no_two_formats_have_one_number() -> None:
    """The arrays of a file are those of Tables: who adds one counts FORMAT up."""
    fields = set(tables.Tables.__dataclass_fields__)
    assert fields == {
        *saved._ARRAYS, "size", "vocabulary", "edges", "start", "frames", "spine", "holes",
        "answers",
        "shared",  # is made anew
    }, f"change FORMAT, now {saved.FORMAT}, and this list"  # fmt: skip
