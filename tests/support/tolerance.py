"""Says how far two computations of the same floats may be apart.

The order in which a processor sums, how many numbers it takes at a time and whether it rounds
between a product and a sum depend on its instruction set, on libraries and on the number of
threads. A limit such as 1e-6 that holds on one machine is therefore no promise. The limits here
follow from what is computed: each operation rounds to half a unit in the last place, relatively
`eps / 2`. The errors of `terms` operations have any sign, so they add up like a random walk, to
about `eps * sqrt(terms)` of the largest number that takes part, `scale`. SAFETY is for what this
leaves out: values that grow on their way, and the worst of many elements. The largest difference
measured is about one tenth of the limit.

A limit must also see a fault: a row left out, a wrong divisor, a lost step. Faults are planted in
`tests/test_tolerance.py`, and beside the comparisons themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

SAFETY = 8
# Weights of a tensor that may go anywhere; see `tensors_apart`.
FEW = 2


def tolerance(dtype: Any, *, terms: float, scale: float) -> float:
    """Returns how far apart floats of a dtype may be; the dtype is one of NumPy or of torch."""
    return SAFETY * _eps(dtype) * math.sqrt(terms) * scale


def forward_terms(shape: Any, tokens: int) -> int:
    """Counts the operations in a row behind one logit of a Llama; `shape` is its config.

    Each layer has two norms, four projections and two sums over tokens; then a norm and the head.
    """
    of = shape.__getitem__ if isinstance(shape, Mapping) else lambda name: getattr(shape, name)
    wide, inner = of("hidden_size"), of("intermediate_size")
    return int(of("num_hidden_layers") * (6 * wide + inner + 2 * tokens) + 2 * wide)


def difference(one: Any, other: Any) -> float:
    """Returns the largest difference of two arrays, tensors, lists or numbers.

    It is infinite if one of them has a NaN, or an infinity that the other has not.
    """
    mine, theirs = _array(one), _array(other)
    assert mine.shape == theirs.shape, f"shapes {mine.shape} and {theirs.shape}"
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.where(mine == theirs, 0.0, mine - theirs))
    return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))


def is_close(
    one: Any, other: Any, *, terms: float, scale: float | None = None, dtype: Any = None
) -> bool:
    """Returns whether rounding explains how far two results are apart.

    By default `scale` is the largest magnitude in the results. Pass it where larger numbers cancel
    each other. `dtype` is by default the less precise one of the results. Pass it for numbers of
    Python that were computed in another.
    """
    return difference(one, other) <= _limit(one, other, terms, scale, dtype)


def assert_close(
    one: Any, other: Any, *, terms: float, scale: float | None = None, dtype: Any = None
) -> None:
    """Fails if rounding does not explain how far two results are apart; see `is_close`."""
    apart, limit = difference(one, other), _limit(one, other, terms, scale, dtype)
    assert apart <= limit, f"they differ by {apart:.3g}; rounding explains {limit:.3g}"


def tensors_apart(
    mine: Mapping[str, Any], theirs: Mapping[str, Any], *, terms: float, path: float
) -> list[str]:
    """Returns the names of weights that are further apart than two runs of Adam may be.

    `path` is the sum of the learning rates, which is how far a weight can go. Adam divides a
    gradient by its own size, so rounding errors matter relatively to what is left of a gradient
    after its terms have cancelled each other: of all weights, about 1/k keep less than 1/k of their
    terms, and go wrong by k times as much as others. So one weight in ten may be off by more than
    the tolerance, which is SAFETY times the usual error, but none by more than 100 times that,
    except for FEW. Weights that are equal are not counted.
    """
    assert mine.keys() == theirs.keys()
    limit, names = tolerance(np.float32, terms=terms, scale=path), []
    for name in theirs:
        apart = np.abs(_array(mine[name]) - _array(theirs[name]))
        apart = apart[apart != 0]
        many = (apart > limit).sum() > max(FEW, apart.size / 10)
        if many or (apart > 100 * limit).sum() > FEW or not np.isfinite(apart).all():
            names.append(name)
    return names


def path_of(config: Mapping[str, Any]) -> float:
    """Returns the sum of the learning rates of a run with this config."""
    from mypt_train.training.parts.config import Config
    from mypt_train.training.trainer import rate

    train = Config.load({"train": config["train"]}).train
    return sum(rate(step, train) for step in range(train.steps))


def _limit(one: Any, other: Any, terms: float, scale: float | None, dtype: Any) -> float:
    if scale is None:
        finite = [values[np.isfinite(values)] for values in (_array(one), _array(other))]
        scale = max(float(np.abs(values).max(initial=0.0)) for values in finite)
    kinds = [_dtype(one), _dtype(other)] if dtype is None else [dtype]
    return max(tolerance(kind, terms=terms, scale=scale) for kind in kinds)


def _eps(dtype: Any) -> float:
    if type(dtype).__module__ == "torch":
        import torch

        return float(torch.finfo(dtype).eps)
    return float(np.finfo(dtype).eps)


def _dtype(values: Any) -> Any:
    return values.dtype if hasattr(values, "dtype") else np.float64


def _array(values: Any) -> np.ndarray[Any, Any]:
    if type(values).__module__.startswith("torch"):
        values = values.detach().double().numpy()
    return np.asarray(values, np.float64)
