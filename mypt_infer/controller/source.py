"""Defines a source of ids: whatever draws the next id of a conversation.

A model under a decoder is one (`model_source`); a list of ids is another, for tests and
demonstrations. A `Feeder` keeps the ids of a source equal to what the model sees of a history.
The source reports how many ids it has, so the next draw repeats whatever failed, even halfway. A
draw in a thread may be abandoned; the next draw waits for it, and undoes what it did.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mypt_infer.controller.history import History
from mypt_infer.tool_run import awaited


@runtime_checkable
class Source(Protocol):
    """A context of ids that grows, and draws the next id.

    It gets each id once, so that a model can keep its KV cache; only the ids of a call that raised
    an exception are repeated. `truncate` is called with a length below `held`.
    """

    @property
    def held(self) -> int:
        """Returns the number of ids of its context."""
        ...

    def append(self, ids: Sequence[int]) -> None:
        """Appends ids to the context."""
        ...

    def next(self, left: int) -> int:
        """Draws and appends the next of at most `left` ids; an exception ends the turn."""
        ...

    def truncate(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        ...


@runtime_checkable
class Forbidding(Protocol):
    """A source that can be told not to open certain blocks in this conversation."""

    def forbid(self, kinds: frozenset[str]) -> None:
        """Opens no block of these kinds from now on; other kinds are no longer forbidden."""
        ...


class NoRoom(RuntimeError):
    """No legal ending fits into the remaining tokens of the turn."""


class ScriptEnd(RuntimeError):
    """A script has no further id."""


class Script:
    """Draws the ids of a list, whatever the context is; `context` is what was appended."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = iter(ids)
        self.context: list[int] = []

    @property
    def held(self) -> int:
        return len(self.context)

    def append(self, ids: Sequence[int]) -> None:
        self.context += ids

    def next(self, left: int = 0) -> int:
        """Returns the next id of the list. Raises ScriptEnd after the last one."""
        token = next(self._ids, None)
        if token is None:
            raise ScriptEnd("the script has no further id")
        self.context.append(token)
        return token

    def truncate(self, length: int) -> None:
        del self.context[length:]


@dataclass(slots=True)
class _Job:
    """A draw, and its outcome, which is written by the thread that runs it."""

    same: int
    ids: list[int]
    remaining: int
    has_ids: bool = False
    drawn: int | None = None


class Feeder:
    """Sends a source the ids of a history that it does not have yet."""

    def __init__(self, source: Source) -> None:
        if not isinstance(source, Source):
            members = ("append", "next", "truncate", "held")
            lacks = ", ".join(name for name in members if not hasattr(source, name))
            raise TypeError(f"{type(source).__name__} is not a source of ids: it lacks {lacks}")
        self.source = source
        # How many ids the source has taken; those before `history.unchanged` are up to date.
        self._length = 0
        self._working = threading.Lock()

    def draw(self, history: History, remaining: int) -> int:
        """Returns the source's next id, after giving it all that the model is to see.

        Raises what the source raises.
        """
        job = self._job(history, remaining)
        try:
            self._work(job)
        finally:
            self._take(job, history)
        assert job.drawn is not None
        return job.drawn

    async def adraw(self, history: History, remaining: int, stopped: Callable[[], bool]) -> int:
        """Returns the next id as `draw` does, from a thread. Raises Unfinished when `stopped()`."""
        job = self._job(history, remaining)
        outcome = None
        try:
            outcome = await awaited(self._work, job, seconds=None, stopped=stopped)
        finally:
            # Nobody waits for an abandoned thread, so what it did is unknown.
            self._take(job if outcome is not None else None, history)
        if outcome.raised is not None:
            raise outcome.raised
        assert job.drawn is not None
        return job.drawn

    def _job(self, history: History, remaining: int) -> _Job:
        return _Job(min(history.unchanged, self._length), history.context(), remaining)

    def _work(self, job: _Job) -> None:
        with self._working:
            source = self.source
            if source.held > job.same:
                source.truncate(job.same)
            source.append(job.ids[min(job.same, source.held) :])
            job.has_ids = True
            job.drawn = int(source.next(job.remaining))

    def _take(self, job: _Job | None, history: History) -> None:
        """Records the outcome of a draw, None if it is unknown."""
        if job is not None and job.has_ids:
            self._length = len(job.ids) + (job.drawn is not None)
            # If the turn does not keep the drawn id, it lowers `unchanged` again.
            history.unchanged = self._length
