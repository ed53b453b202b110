"""Runs one turn for whoever answers what it asks for, and keeps its replies and events.

Input: the replies. Output: events, and a history that is legal after the turn, however it ends. A
turn is deterministic: from the same history and replies it makes the same ids and events. So after
an exception at any place, even a signal's in the middle of a step, the history goes back to the
beginning of the turn, the turn runs again with the replies it was given, and is stopped after them.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy

from mypt_infer.controller import events
from mypt_infer.controller.history import History
from mypt_infer.controller.transcript import Replies
from mypt_infer.controller.turn import Turn


class Driver:
    """One turn: `begin` it after the user's message, `run` it, and `stop` it after an exception."""

    def __init__(self, history: History, replies: Replies, past_events: list[events.Event]) -> None:
        self._history, self._replies, self._events = history, replies, past_events
        self._before = history.mark()
        self._event_count, self._turns = len(past_events), len(replies.turns)
        self._make_turn: Callable[[], Turn] | None = None

    def begin(self, notices: list[events.Notice], make_turn: Callable[[], Turn]) -> None:
        """Notes that the history now ends with the user's message, and how its turn is made."""
        self._begun, self._notices, self._make_turn = self._history.mark(), notices, make_turn

    def run(self) -> events.Steps:
        """Yields the events of the turn and what it asks for; takes the replies."""
        if self._make_turn is None:
            raise RuntimeError("the turn has not begun")
        for notice in self._notices:
            self._events.append(notice)
            yield notice
        core, reply = self._make_turn().run(), None
        while (event := next_step(core, reply)) is not None:
            reply = None
            if isinstance(event, events.Sample | events.Execute):
                reply = yield event
                assert reply is not None
                self._replies.add(reply)
            else:
                changes = isinstance(event, events.CallParsed | events.ToolResult)  # if listened to
                self._events.append(deepcopy(event) if changes else event)
                yield event

    def stop(self, error: BaseException) -> None:
        """Ends the turn legally after the last reply; a turn that cannot be run was not said."""
        cancels = isinstance(error, GeneratorExit | KeyboardInterrupt)
        try:
            self._again(events.Stop("cancelled") if cancels else failed(error))
        except BaseException:  # it cannot be run at all, or that was interrupted too
            self._history.back(self._before)
            del self._replies.turns[self._turns :], self._events[self._event_count :]

    def _again(self, stop: events.Stop) -> None:
        if self._make_turn is None:
            raise RuntimeError("the turn has not begun")
        self._history.back(self._begun)
        del self._events[self._event_count :]
        replies = iter(self._replies.restart())
        for _ in events_of(self.run(), lambda _: next(replies, stop)):
            pass


def next_step(steps: events.Steps, reply: events.Reply) -> events.Event | events.Ask | None:
    """Returns what a turn yields next; None at its end."""
    try:
        return steps.send(reply)
    except StopIteration:
        return None


def events_of(
    steps: events.Steps, answer: Callable[[events.Ask], events.Reply]
) -> Iterator[events.Event]:
    """Yields the events of a turn; `answer` replies to what it asks for."""
    reply: events.Reply = None
    while (event := next_step(steps, reply)) is not None:
        reply = None
        if isinstance(event, events.Sample | events.Execute):
            reply = answer(event)
        else:
            yield event


def failed(error: BaseException) -> events.Stop:
    """Returns the end of a turn in which an exception was raised."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return events.Stop("error", f"{type(error).__name__}: {text}".rstrip(": "))
