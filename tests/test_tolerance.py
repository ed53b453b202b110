"""Limits of `tests.support.tolerance` pass what rounding does, and see faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.tolerance import (
    assert_close,
    difference,
    forward_terms,
    is_close,
    path_of,
    tensors_apart,
    tolerance,
)

pytestmark = pytest.mark.numeric

Array = np.ndarray[Any, Any]
# The scores that the authors of a model print have four digits.
LIMITED = "unit/mypt_infer/test_embedders.py"
HERE = Path(__file__).parent
RATES = [0.005, 0.01, 0.008, 0.004, 0.001]


@given(st.integers(1, 5000), st.integers(0, 1 << 20), st.sampled_from([np.float32, np.float64]))
def test_the_order_of_a_sum_makes_no_difference(n: int, seed: int, dtype: Any) -> None:
    """One by one, from both ends, and as NumPy does it; the largest number is a partial sum."""
    terms = np.random.default_rng(seed).normal(size=n).astype(dtype)
    partial = np.cumsum(terms)
    scale = float(np.abs(partial).max())
    for other in (np.cumsum(terms[::-1])[-1], terms.sum(), np.sum(np.sort(terms))):
        assert_close(partial[-1], other, terms=n, scale=scale + float(np.abs(terms).sum()) / n)


@given(st.integers(2, 1000), st.integers(0, 1 << 20), st.sampled_from([np.float32, np.float64]))
def test_faults_of_a_sum_are_seen(n: int, seed: int, dtype: Any) -> None:
    terms = np.random.default_rng(seed).uniform(0.5, 1, size=n).astype(dtype)
    total = terms.sum()
    for wrong in (total - terms[n // 2], total * n / (n - 1), total * 1.001):
        assert not is_close(total, wrong.astype(dtype), terms=n)


@pytest.mark.parametrize("shape", [(30, 512, 40), (1, 16, 50304), (64, 2048, 8)])
def test_faults_of_a_product_of_matrices_are_seen(shape: tuple[int, int, int]) -> None:
    """In pieces it is the same; without one of the products that each element sums it is not."""
    rows, inner, columns = shape
    draw = np.random.default_rng(0)
    left, right = (
        draw.normal(size=s).astype(np.float32) for s in ((rows, inner), (inner, columns))
    )
    whole, half = left @ right, inner // 2
    assert_close(left[:, :half] @ right[:half] + left[:, half:] @ right[half:], whole, terms=inner)
    assert not is_close(left[:, 1:] @ right[1:], whole, terms=inner)
    assert not is_close(np.roll(whole, 1, axis=1), whole, terms=inner)


def test_narrow_types_have_wide_limits() -> None:
    torch = pytest.importorskip("torch")
    exact = torch.linspace(1, 2, 100)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        assert_close(exact.to(dtype), exact, terms=1)
    assert not is_close(exact.bfloat16(), exact, terms=1, dtype=torch.float32)
    assert tolerance(torch.float32, terms=4, scale=3) == tolerance(np.float32, terms=4, scale=3)


def test_what_is_no_number_is_never_close() -> None:
    inf, nan = np.inf, np.nan
    assert difference([1.0, inf, -inf], [1.0, inf, -inf]) == 0
    for one, other in ([nan], [nan]), ([inf], [-inf]), ([inf], [1.0]), ([0.0], [nan]):
        assert difference(one, other) == inf
        assert not is_close(one, other, terms=100)
    assert difference([], []) == 0
    with pytest.raises(AssertionError, match=r"shapes \(1,\) and \(2,\)"):
        difference([1.0], [1.0, 1.0])
    with pytest.raises(AssertionError, match=r"differ by 1; rounding explains 3.81e-06"):
        assert_close(2.0, 1.0, terms=4, dtype=np.float32)


def trained(gradients: Callable[[int], dict[str, Array]], rates: list[float]) -> dict[str, Array]:
    """Returns what Adam makes of weights that begin at 0.02."""
    weights = {name: np.full_like(g, 0.02) for name, g in gradients(0).items()}
    first, second = ({n: np.zeros_like(w) for n, w in weights.items()} for _ in range(2))
    for step, rate in enumerate(rates):
        for name, gradient in gradients(step).items():
            first[name] += np.float32(0.1) * (gradient - first[name])
            second[name] += np.float32(0.05) * (gradient**2 - second[name])
            mean, power = (
                first[name] / (1 - 0.9 ** (step + 1)),
                second[name] / (1 - 0.95 ** (step + 1)),
            )
            weights[name] -= (rate * mean / (np.sqrt(power) + 1e-8)).astype(np.float32)
    return weights


@pytest.mark.parametrize("seed", range(examples(8)))
def test_faults_of_training_are_seen(seed: int) -> None:
    """Gradients that differ by rounding pass; a lost row, batch or step, or another rate, do not."""
    shapes, terms = {"table": (2000, 16), "norm": (16,), "layer": (24, 16)}, 2048
    draw = np.random.default_rng(seed)
    batches = [
        {n: draw.normal(size=(2, *s)).astype(np.float32) for n, s in shapes.items()} for _ in RATES
    ]
    noise = np.finfo(np.float32).eps * terms**0.5

    def whole(step: int) -> dict[str, Array]:
        return {name: halves.sum(0) for name, halves in batches[step].items()}

    def rounded(step: int) -> dict[str, Array]:
        """The same by another processor."""
        off = np.random.default_rng(step)
        return {n: g + (noise * off.normal(size=g.shape)).astype(np.float32) for n, g in whole(step).items()}  # fmt: skip

    def halved(step: int) -> dict[str, Array]:
        return {name: halves[0] for name, halves in batches[step].items()}

    right = trained(whole, RATES)
    allowed = {"terms": terms, "path": sum(RATES)}
    other = trained(rounded, RATES)
    assert other["table"].tolist() != right["table"].tolist()
    assert tensors_apart(other, right, **allowed) == []
    for wrong in (
        trained(halved, RATES),
        trained(rounded, RATES[:-1]),
        trained(rounded, [rate * 1.01 for rate in RATES]),
    ):
        assert tensors_apart(wrong, right, **allowed) == ["table", "norm", "layer"]
    other["table"][7] = 0.02
    assert tensors_apart(other, right, **allowed) == ["table"]
    other["table"] = right["table"]
    other["norm"][3] = np.nan
    assert tensors_apart(other, right, **allowed) == ["norm"]


def test_what_limits_are_made_of() -> None:
    shape = {"num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 24}
    assert forward_terms(shape, 100) == 2 * (6 * 16 + 24 + 200) + 32
    pytest.importorskip("torch")
    constant = {"train": {"steps": 4, "lr": 0.5, "warmup": 1, "schedule": "constant"}}
    assert path_of(constant) == 2.0


def test_comparisons_of_floats_have_a_limit_that_follows() -> None:
    """No other file has limits; who compares floats has the mark that `nox -s machines` runs."""
    limits = re.compile(r"allclose\(|isclose\(|\batol=|\brtol=|approx\([^\n]*\b(abs|rel)=")
    files = {
        path.relative_to(HERE).as_posix(): path.read_text(encoding="utf-8")
        for path in HERE.rglob("*.py")
        if not path.is_relative_to(HERE / "browser") and path != Path(__file__)
    }
    assert sorted(name for name, text in files.items() if limits.search(text)) == [LIMITED]
    users = {name for name, text in files.items() if "support.tolerance import" in text}
    assert len(users) > 10
    assert {name for name in users if "pytest.mark.numeric" not in files[name]} == set()
