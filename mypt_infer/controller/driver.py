"""Runs one turn for whoever answers what it asks for, and keeps its replies and events.

Input: the replies. Output: events, and a history that is legal after the turn, however it ends. A
turn is deterministic: from the same history and replies it makes the same ids and events. So after
an exception at any place, even a signal's in the middle of a step, the history goes back to the
beginning of the turn, the turn runs again with the replies it was given, and is stopped after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace

from mypt_infer.controller.events import (
    Ask,
    CallParsed,
    Event,
    Execute,
    Notice,
    Reply,
    Sample,
    Stop,
    ToolResult,
)
from mypt_infer.controller.history import History
from mypt_infer.controller.transcript import Replies
from mypt_infer.controller.turn import Turn
from mypt_infer.toolbox import copied


class Driver:
    """One turn: `begin` it after the user's message, then `run` it.

    After an exception, `stop` it.
    """

    def __init__(self, history: History, replies: Replies, events: list[Event]) -> None:
        self._history, self._replies, self._events = history, replies, events
        self._before = history.mark()
        self._event_count, self._turns = len(events), len(replies.turns)
        self._make_turn: Callable[[], Turn] | None = None

    def begin(self, notices: list[Notice], make_turn: Callable[[], Turn]) -> None:
        """Notes that the history now ends with the user's message, and how its turn is made."""
        self._begun, self._notices, self._make_turn = self._history.mark(), notices, make_turn

    def run(self) -> Generator[Event | Ask, Reply, None]:
        """Yields the events of the turn and what it asks for; takes the replies."""
        if self._make_turn is None:
            raise RuntimeError("the turn has not begun")
        for notice in self._notices:
            self._events.append(notice)
            yield notice
        core, reply = self._make_turn().run(), None
        while True:
            try:
                event = core.send(reply)
            except StopIteration:
                return
            reply = None
            if isinstance(event, Sample | Execute):
                reply = yield event
                assert reply is not None
                self._replies.add(reply)
            else:
                self._events.append(_copy(event))
                yield event

    def stop(self, error: BaseException) -> None:
        """Ends the turn legally after the last reply; a turn that cannot be run was not said."""
        cancels = isinstance(error, GeneratorExit | KeyboardInterrupt | asyncio.CancelledError)
        try:
            self._again(Stop("cancelled") if cancels else failed(error))
        except BaseException:  # it cannot be run at all, or that was interrupted too
            self._history.back(self._before)
            del self._replies.turns[self._turns :], self._events[self._event_count :]

    def _again(self, stop: Stop) -> None:
        if self._make_turn is None:
            raise RuntimeError("the turn has not begun")
        self._history.back(self._begun)
        del self._events[self._event_count :]
        replies = iter(self._replies.restart())
        steps, reply = self.run(), None
        while True:
            try:
                event = steps.send(reply)
            except StopIteration:
                return
            asks = isinstance(event, Sample | Execute)
            reply = next(replies, stop) if asks else None


def failed(error: BaseException) -> Stop:
    """Returns the end of a turn in which an exception was raised."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return Stop("error", f"{type(error).__name__}: {text}".rstrip(": "))


def _copy(event: Event) -> Event:
    """Returns an event that a listener cannot change."""
    if isinstance(event, CallParsed):
        return replace(event, arguments=copied(event.arguments))
    return replace(event, value=copied(event.value)) if isinstance(event, ToolResult) else event
