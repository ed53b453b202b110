"""Keeps the ids of a source equal to what the model sees of a history, and draws.

Input: a history before each draw. Output: the next id. Nothing is held to be with the source before
the source has taken it, so what failed once is repeated at the next draw. A draw in a thread may be
given up; the next one waits for it, and takes back what it did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from mypt_infer.controller.history import History
from mypt_infer.controller.source import Counting, Source
from mypt_infer.tool_run import awaited


@dataclass(slots=True)
class _Job:
    """A draw; what was achieved is written into it, from whatever thread."""

    same: int
    ids: list[int]
    left: int
    given: bool = False
    token: int | None = None


class Feeder:
    """A source, and what it has of a history."""

    def __init__(self, source: Source) -> None:
        self.source = source
        # The number of ids that the source has; those before `history.unchanged` are right.
        self._held = 0
        # Whether the last draw came to its end, so that `_held` is known.
        self._sure = True
        self._working = threading.Lock()

    def draw(self, history: History, left: int) -> int:
        """Returns the source's next id, after giving it all that the model is to see.

        Raises what the source raises.
        """
        job = self._job(history, left)
        try:
            self._work(job)
        finally:
            self._take(job, history)
        assert job.token is not None
        return job.token

    async def adraw(self, history: History, left: int, stopped: Callable[[], bool]) -> int:
        """Returns the next id as `draw` does; the source works in another thread.

        Raises Unfinished, without waiting for the source, when `stopped()`.
        """
        job = self._job(history, left)
        outcome = None
        try:
            outcome = await awaited(self._work, job, seconds=None, stopped=stopped)
        finally:
            # What a thread does that is no longer waited for is not known.
            self._take(job if outcome is not None else None, history)
        if outcome.raised is not None:
            raise outcome.raised
        assert job.token is not None
        return job.token

    def _job(self, history: History, left: int) -> _Job:
        return _Job(min(history.unchanged, self._held), history.context(), left)

    def _work(self, job: _Job) -> None:
        with self._working:
            source, same = self.source, job.same
            has = source.held if isinstance(source, Counting) else self._held
            if has > same or not (self._sure or isinstance(source, Counting)):
                source.truncate(same)
            same = min(same, has)
            source.append(job.ids[same:])
            job.given = True
            job.token = int(source.next(job.left))

    def _take(self, job: _Job | None, history: History) -> None:
        """Notes what a draw has achieved; None is an unknown one."""
        self._sure = job is not None and job.token is not None
        if job is not None and job.given:
            self._held = len(job.ids) + (job.token is not None)
            # The turn will put a drawn id there, or take it off and say so.
            history.unchanged = self._held
