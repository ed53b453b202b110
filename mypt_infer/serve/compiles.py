"""Compiles decoders in threads: none keeps another, or the end of the server, waiting.

Input: what requests ask of a decoder. Output: a `Ready` decoder, or the reason why there is none.

Theory of operation. Requests that ask the same wait for one compile. Each compile has a thread; of
these, one at a time has its turn, in order, so that a small compile is done soon beside large ones,
and the threads of the model and of the server have one competitor at most. A compile looks every
few steps whether somebody still waits for it (`work.watched`), and ends if nobody does: when the
client has gone, when its time is over, when the server is closed.
"""

import asyncio
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from mypt_infer.decode.base.work import watched
from mypt_infer.serve.asked.decoders import Decoders, Ready, Recipe
from mypt_infer.serve.asked.errors import LATER, ApiError, shutting_down, too_late

_LAST_LOOK = 3.0  # seconds that all compiles get to see that they are to end


class _Abandoned(Exception):
    """Nobody waits for a compile any more."""


@dataclass(eq=False)
class _Compile:
    recipe: Recipe
    waiters: int = 1
    result: Future[Ready] = field(default_factory=Future)


class Compiles:
    """The compiles of a server: `most` run at once, and `queue` more may wait."""

    def __init__(self, decoders: Decoders, *, most: int, queue: int) -> None:
        self.decoders, self.most, self.queue = decoders, most, queue
        self._turns, self._lock = _Turns(), threading.Lock()
        self._compiles: dict[str, _Compile] = {}
        self._waiting: deque[_Compile] = deque()
        self._running, self._closed = 0, False
        self._threads: list[threading.Thread] = []

    async def ready(self, recipe: Recipe, seconds: float) -> Ready:
        """Returns the decoder of a request. Raises ApiError."""
        if ready := self.decoders.cached(recipe):
            return ready
        work = self._join(recipe)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work.result), seconds)
        except TimeoutError:
            raise too_late() from None
        finally:
            with self._lock:
                work.waiters -= 1
                if not work.waiters and work in self._waiting:
                    self._waiting.remove(work)

    def close(self) -> None:
        """Ends all compiles at their next look; who waits is told."""
        with self._lock:
            self._closed = True
            waiting = [*self._waiting]
            self._waiting.clear()
        for work in waiting:
            work.result.set_exception(shutting_down())
        until = time.monotonic() + _LAST_LOOK
        for thread in self._threads:  # one in code of C++ when Python ends would abort the process
            thread.join(max(until - time.monotonic(), 0))

    def _join(self, recipe: Recipe) -> _Compile:
        with self._lock:
            if self._closed:
                raise shutting_down()
            work = self._compiles.get(recipe.key)
            if work is not None and work.waiters:  # without any, it is ending
                work.waiters += 1
                return work
            if self._running >= self.most and len(self._waiting) >= self.queue:
                message = (
                    f"{self._running} compiles run and {len(self._waiting)} wait, of tools and "
                    "response formats: try again later"
                )
                raise ApiError(message, status=503, kind="server_error", code="busy", headers=LATER)
            work = self._compiles[recipe.key] = _Compile(recipe)
            work.result.set_running_or_notify_cancel()  # who leaves cancels it for nobody else
            if self._running < self.most:
                self._running += 1
                thread = threading.Thread(target=self._run, args=[work], daemon=True)
                self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
                thread.start()
            else:
                self._waiting.append(work)
            return work

    def _run(self, work: _Compile | None) -> None:
        while work is not None:
            try:
                with self._turns, watched(partial(self._check, work)):
                    self._check(work)
                    work.result.set_result(self.decoders.get(work.recipe))
            except BaseException as error:
                work.result.set_exception(shutting_down() if self._closed else error)
            with self._lock:
                if self._compiles.get(work.recipe.key) is work:
                    del self._compiles[work.recipe.key]
                work = self._waiting.popleft() if self._waiting else None
                self._running -= work is None

    def _check(self, work: _Compile) -> None:
        if self._closed or not work.waiters:
            raise _Abandoned
        self._turns.pass_on()


class _Turns:
    """Gives threads turns, one at a time, in the order in which they ask."""

    def __init__(self) -> None:
        self._lock, self._asking, self._busy = threading.Lock(), deque[threading.Event](), False

    def __enter__(self) -> None:
        with self._lock:
            if not self._busy:
                self._busy = True
                return
            turn = threading.Event()
            self._asking.append(turn)
        turn.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._busy = bool(self._asking)
            if self._asking:
                self._asking.popleft().set()

    def pass_on(self) -> None:
        """Lets others have their turn first, if some ask."""
        if self._asking:
            self.__exit__()
            self.__enter__()
