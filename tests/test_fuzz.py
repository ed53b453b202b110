"""The fuzzers end in time, keep what breaks an invariant, and see faults that are planted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st

import fuzz
from fuzz import clock, driver

Check = Callable[[Any], None]


class Invariants:
    """Invariants made of functions, under a clock that only their checks move on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
        self.seconds = 0.0
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(fuzz, "STARTED", 0.0)
        monkeypatch.setattr(clock, "now", lambda: self.seconds)
        monkeypatch.setattr(driver, "CORPUS", corpus)

    def add(self, name: str, check: Check, *, seconds: float) -> list[Any]:
        """Adds an invariant whose examples take so many seconds; returns the list of its inputs."""
        inputs: list[Any] = []

        def take(value: Any) -> None:
            inputs.append(value)
            self.seconds += seconds
            check(value)

        module = ModuleType(name)
        module.STRATEGY = st.integers(0, 2**32)  # type: ignore[attr-defined]
        module.check = take  # type: ignore[attr-defined]
        self.monkeypatch.setitem(sys.modules, f"fuzz.{name}", module)
        return inputs


@pytest.fixture
def invariants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    yield Invariants(monkeypatch, tmp_path)
    clock.stop_at(float("inf"))


def fine(value: Any) -> None:
    """Holds for everything."""


def small(value: Any) -> None:
    assert value < 1000


@pytest.mark.parametrize("minutes", [0.0, 0.2, 1, 10])
def test_all_invariants_share_the_time(
    invariants: Invariants, minutes: float, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {name: invariants.add(name, fine, seconds=2.0) for name in "abcdefghij"}
    assert driver.main(tuple(inputs), ["--minutes", str(minutes), "--seed", "7"]) == 0
    assert 60 * minutes - 10 <= invariants.seconds < 60 * minutes + 60
    counts = [len(values) for values in inputs.values()]
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 2, "each has its share"
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "seed 7"
    assert len(printed) == 1 + len(inputs)
    for line, name, count in zip(printed[1:], inputs, counts, strict=True):
        # The last input was drawn when the time was up.
        assert line.startswith(f"{name}: held for ")
        assert line.endswith(" examples from seed 7 on")
        assert int(line.split()[3]) == count


def test_rounds_have_other_examples(invariants: Invariants) -> None:
    inputs = invariants.add("a", fine, seconds=0.1)
    driver.main(("a",), ["--minutes", "1", "--seed", "1"])
    assert len(inputs) > 2 * driver.ROUND
    assert len(set(inputs)) > len(inputs) / 2


@pytest.mark.parametrize("seconds", [0.001, 5.0])
def test_a_broken_input_is_kept_and_shrunk_in_time(
    invariants: Invariants, seconds: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = invariants.add("a", small, seconds=seconds)
    others = {name: invariants.add(name, fine, seconds=0.5) for name in "bcd"}
    assert driver.main(("a", *others), ["--minutes", "0.5", "--seed", "3"]) == 1
    assert invariants.seconds < 0.5 * 60 + 60
    assert all(others.values()), "an invariant that is broken ends no other"
    (path,) = tmp_path.glob("a/*.json")
    broken = driver.load(path)
    assert broken in inputs
    assert broken >= 1000
    if seconds < 1:
        assert broken == 1000, "the smallest one"
    assert "AssertionError" in (printed := capsys.readouterr().out)
    assert "a: broken with seed 3; input kept in " in printed
    again = invariants.add("a", small, seconds=0.001)
    assert driver.main(("a",), ["--minutes", "60", "--seed", "3"]) == 1
    assert again[0] == inputs[0], "the seed that was printed draws the same inputs"


def test_many_broken_invariants_take_no_longer(invariants: Invariants) -> None:
    for name in driver.INVARIANTS:
        invariants.add(name, small, seconds=1.0)
    assert driver.main(driver.INVARIANTS, ["--minutes", "0.2", "--seed", "3"]) == 1
    assert invariants.seconds < 0.2 * 60 + 60


def test_a_long_example_is_given_up(invariants: Invariants) -> None:
    """One that looks at the clock, as those of growth do, ends soon after the time is up."""

    def long(value: Any) -> None:
        for _ in range(1000):
            clock.look()
            invariants.seconds += 1

    invariants.add("a", long, seconds=0.0)
    assert driver.main(("a",), ["--minutes", "1"]) == 0
    assert invariants.seconds < 120


def test_the_time_is_up_for_a_command_alone() -> None:
    clock.look()
    clock.stop_at(clock.now() - 1)
    with pytest.raises(clock.TimeIsUp):
        clock.look()
    clock.stop_at(float("inf"))
    clock.look()
