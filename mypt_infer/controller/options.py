"""Holds the limits of a turn, and divides a context among prompt, results and answer."""

from __future__ import annotations

from dataclasses import dataclass

from mypt_infer.controller.truncate_result import LEAST
from mypt_infer.tool_run import time_limit

# The ids of the context that are kept free: enough to end any turn legally.
RESERVE = 128


# The least value of each limit of ids or steps.
_LEAST = {
    "max_steps": 1,
    "max_tokens": 1,
    "max_think_tokens": 1,
    "max_toolcall_tokens": 1,
    "max_result_tokens": LEAST,
    "context_length": RESERVE + LEAST,
    "answer_reserve": 0,
}
# The limits that may be None.
_OPTIONAL = ("max_think_tokens", "max_toolcall_tokens", "context_length", "answer_reserve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The limits of a turn; None is no limit.

    - `max_steps`: calls with their results, and the answer; each is a step.
    - `max_tokens`: ids that the model draws.
    - `max_think_tokens`, `max_toolcall_tokens`: ids in one such block.
    - `max_result_tokens`: ids of one result; longer ones are shortened. With `answer_reserve`, no
      result takes more than half of a context.
    - `context_length`: ids that the model can see; the oldest turns are dropped.
    - `answer_reserve`: ids of the context that no result may take, so that an answer fits after it;
      of a small context at most a third. None: a result may take the whole context.
    - `seconds`, `tool_seconds`: for the turn, and for one call of a tool.
    - `think`: True makes the model think first, False forbids thinking, None leaves it to the
      model.

    A time without end is no limit. Raises ValueError for a limit that no turn can keep.
    """

    max_steps: int = 3
    max_tokens: int = 512
    max_think_tokens: int | None = None
    max_toolcall_tokens: int | None = None
    max_result_tokens: int = 1024
    context_length: int | None = None
    answer_reserve: int | None = 128
    seconds: float | None = None
    tool_seconds: float | None = 30.0
    think: bool | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if type(value) is not int or value < least:
                raise ValueError(f"{name} is {value}, expected a whole number, {least} or more")
        for name in ("seconds", "tool_seconds"):
            object.__setattr__(self, name, time_limit(name, getattr(self, name)))

    def reserve(self, sampled: int) -> int:
        """Returns the number of ids kept free for the answer, after `sampled` ids of the turn."""
        if self.context_length is None or self.answer_reserve is None:
            return 0
        free = self.context_length - RESERVE
        return min(self.answer_reserve, free // 3, self.max_tokens - sampled)

    def for_results(self, seen: int, sampled: int) -> int | None:
        """Returns the number of ids that results may take of a context that holds `seen` ids."""
        if self.context_length is None:
            return None
        return self.context_length - RESERVE - seen - self.reserve(sampled)

    @property
    def for_one_result(self) -> int:
        """Returns the number of ids that one result may have, however empty the context is."""
        if self.context_length is None or self.answer_reserve is None:
            return self.max_result_tokens
        return min(self.max_result_tokens, max(LEAST, (self.context_length - RESERVE) // 2))

    @property
    def worth_dropping(self) -> int:
        """Returns the number of ids of a result for which old turns are dropped."""
        if self.context_length is None or self.answer_reserve is None:
            return 0
        return self.for_one_result // 2
