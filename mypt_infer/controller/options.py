"""Holds the limits of a turn, and divides a context among prompt, results and answer."""

import sys
from collections.abc import Sized
from dataclasses import dataclass

from mypt_infer.tool_run import time_limit
from mypt_infer.truncate_result import LEAST

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
_OPTIONAL = ("max_think_tokens", "max_toolcall_tokens", "context_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The limits of a turn; None is no limit.

    - `max_steps`: calls with their results, and the answer; each is a step.
    - `max_tokens`: ids that the model draws.
    - `max_think_tokens`, `max_toolcall_tokens`: ids in one such block.
    - `max_result_tokens`: ids of one result; longer ones are shortened. No result takes more than
      half of a context.
    - `context_length`: ids that the model can see; the oldest turns are dropped.
    - `answer_reserve`: ids of the context that no result may take, so that an answer fits after it;
      of a small context at most a third.
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
    answer_reserve: int = 128
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


class Budget:
    """Says what is left of the limits of one turn; its one place where they are reckoned.

    The length of `history` is the number of ids that the model sees. `sampled` counts the ids that
    the model drew.
    """

    def __init__(self, options: Options, history: Sized) -> None:
        self.options, self._history, self.sampled = options, history, 0
        self._length = options.context_length or sys.maxsize

    @property
    def remaining(self) -> int:
        """Returns the number of ids that the model may still draw."""
        return min(self.options.max_tokens - self.sampled, self.longest - len(self._history))

    @property
    def prompt(self) -> int:
        """Returns the number of ids that a prompt may have without turns being dropped."""
        return self.longest - min(self.options.max_tokens, self._length // 2)

    @property
    def longest(self) -> int:
        """Returns the number of ids that a prompt may have at most."""
        return self._length - RESERVE

    def limit_reached(self, call: int | None) -> str:
        """Returns why the model may draw no further id; "" if it may.

        `call` is the number of ids of the call that it writes, or None.
        """
        options = self.options
        if self.sampled >= options.max_tokens:
            return f"{options.max_tokens} tokens were drawn"
        if self.remaining <= 0:
            return f"the context of {options.context_length} ids is full"
        most = options.max_toolcall_tokens
        if call is not None and most is not None and call > most:
            return f"a tool call is longer than {most} tokens"
        return ""

    @property
    def answer(self) -> int:
        """Returns the number of ids that are kept free for the answer."""
        options = self.options
        return min(options.answer_reserve, self.longest // 3, options.max_tokens - self.sampled)

    @property
    def longest_result(self) -> int:
        """Returns the number of ids that one result may have, however empty the context is."""
        return min(self.options.max_result_tokens, max(LEAST, self.longest // 2))

    def result(self, tags: int, waiting: int) -> int:
        """Returns the number of ids that the next result may have, without its `tags`.

        `waiting` is the number of results that the context must still hold, this one included.
        """
        room = self.longest - len(self._history) - self.answer
        return min(self.longest_result, room // waiting - tags)

    @property
    def worth_dropping(self) -> int:
        """Returns the number of ids of a result for which old turns are dropped."""
        return self.longest_result // 2
