"""Holds what a request asks of the model, and what the model tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mypt_infer.serve.asked.decoders import Ready
from mypt_infer.serve.asked.prompts import Prompt

if TYPE_CHECKING:
    from mypt_infer.generate.sample import Sampling


class Logprob(NamedTuple):
    """The log-probability of an id under the model as it is, and the best ids with theirs."""

    value: float
    best: tuple[tuple[int, float], ...]


class NewIds(NamedTuple):
    """Ids that an answer goes on with, and the log-probabilities of each if they are wanted."""

    ids: list[int]
    logprobs: list[Logprob]


class Ended(NamedTuple):
    """An answer is complete. `cut`: without the budget, it would go on otherwise."""

    cut: bool


class Failed(NamedTuple):
    """An answer cannot be had, or not to its end."""

    error: Exception


Update = NewIds | Ended | Failed


@dataclass(eq=False)
class Job:
    """One answer that is wanted.

    `notify` is called from the thread of the model. `top` is the number of best ids that go with
    each log-probability, None without these. `deadline` is in the time of `time.monotonic`.
    `thoughts` is the number of tokens that all thoughts together may have, None without a budget.
    Whoever sets `cancelled` hears no more.
    """

    prompt: Prompt
    ready: Ready
    most: int
    sampling: Sampling
    notify: Callable[[Update], None]
    seed: str | None = None
    top: int | None = None
    thoughts: int | None = None
    deadline: float | None = None
    cancelled: bool = False

    @property
    def late(self) -> bool:
        """Returns whether its time is over."""
        return self.deadline is not None and time.monotonic() > self.deadline
