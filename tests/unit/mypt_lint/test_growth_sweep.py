"""The search for what grows with the square of the data: it sees a fault that is planted, and a sweep
goes on where it was stopped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import growth
from fuzz.growing import SHAPES, forms, kinds, line
from mypt.lint.cli import main as lint

KIND = "turns"
Taken = Callable[[float], float]  # from megabytes of a line to seconds
IN_PROPORTION: dict[str, Taken] = {
    "fast": lambda size: 0.01 * size,
    "slow": lambda size: 2 * size,
    "slow, with a square that is a small part": lambda size: 2 * size + 0.2 * size**2,
    "very slow": lambda size: 200 * size,
    "nothing": lambda size: 0.0,
}
NOT: dict[str, Taken] = {
    "a square": lambda size: 10 * size**2,
    "a square in what is slow": lambda size: 2 * size + 8 * size**2,
    "a cube": lambda size: 100 * size**3,
}


def plant(monkeypatch: pytest.MonkeyPatch, taken: Taken) -> list[float]:
    """Makes the time of commands a function of their data; returns the sizes that are tried."""
    sizes: list[float] = []

    def seconds(dialect: str, path: Path, way: str) -> float:
        sizes.append(path.stat().st_size / (1 << 20))
        return 0.02 + taken(sizes[-1])

    growth._least.cache_clear()
    monkeypatch.setattr(growth, "_seconds", seconds)
    return sizes


@pytest.mark.parametrize("case", [*IN_PROPORTION, *NOT])
def test_a_square_is_an_alarm(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    sizes = plant(monkeypatch, (IN_PROPORTION | NOT)[case])
    assert (growth.growth("mypt", KIND, "lint") is not None) == (case in NOT)
    assert max(sizes) < 8


def test_what_a_second_look_shows_to_be_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def disturbed(size: float) -> float:
        looks.append(size)
        return 2 * size * (5 if looks.count(size) == 1 and size > 0.05 else 1)

    plant(monkeypatch, disturbed)
    assert growth.growth("mypt", KIND, "lint") is None


def test_a_sweep_goes_on_where_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, NOT["a square"])
    seen = ["messages/0/content of ' '", "opt-outs"]
    monkeypatch.setattr(growth, "kinds", lambda dialect: seen)
    notes = tmp_path / "notes.jsonl"
    strata = growth.strata(["mypt"])
    assert growth.sweep(strata, notes, minutes=0, share=(0, 1)) == 0
    assert growth.sweep(strata, notes, minutes=1, share=(0, 2)) == 1
    half = notes.read_text().splitlines()
    assert growth.sweep(strata, notes, minutes=1, share=(0, 1)) == 1
    entries = [json.loads(entry) for entry in notes.read_text().splitlines()]
    assert notes.read_text().splitlines()[: len(half)] == half
    assert len(half) == 3
    assert len({(e["kind"], e["way"]) for e in entries}) == len(entries) == 2 * len(growth.WAYS)
    assert "6 of 6 strata were looked at: 6 alarms" in capsys.readouterr().out


@pytest.mark.parametrize("form", forms())
def test_each_dialect_and_shape_grows(form: str, tmp_path: Path) -> None:
    """Its sample is a record without an error, and the search can make lines of it."""
    path = tmp_path / "data.jsonl"
    path.write_bytes(line(form, "turns", 2))
    way = "--records" if form in SHAPES else "--dialect"
    assert lint([str(path), way, form, "--no-config", "--fail-on", "error"]) == 0
    assert len(kinds(form)) > 300


def test_a_sample_is_of_all_dialects_and_the_same_for_a_seed() -> None:
    drawn = growth.strata(forms(), sample=7, seed=1)
    assert Counter(s.dialect for s in drawn) == dict.fromkeys(forms(), 7)
    assert drawn == growth.strata(forms(), sample=7, seed=1)
    assert set(drawn) != set(growth.strata(forms(), sample=7, seed=2))
    assert {s.dialect for s in drawn[:60]} > set(SHAPES)  # in no order of dialects
    of_mypt = {s for s in drawn if s.dialect == "mypt"}
    assert set(growth.strata(["mypt"], sample=7, seed=1)) == of_mypt
    assert set(drawn) < set(growth.strata(forms()))


@given(st.lists(st.floats(0.01, 3.0), min_size=1))
def test_whatever_a_busy_machine_measures(times: list[float]) -> None:
    """A time that is out of proportion once, and next to nothing later, ends no search."""
    clock = cycle(times)
    growth._least.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "_seconds", lambda *_: next(clock))
        alarm = growth.growth("mypt", KIND, "lint")
    assert alarm is None or len(alarm) == 3
