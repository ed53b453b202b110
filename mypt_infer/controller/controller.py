"""Runs a conversation: joins a source of ids, tools and the turns.

Input: messages of the user. Output: events, or the answer as a message. `turn` holds the logic of a
turn; this module holds the clock, the threads and the exceptions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from mypt_infer.controller import events
from mypt_infer.controller.driver import Driver, events_of, failed
from mypt_infer.controller.history import History
from mypt_infer.controller.messages import append_messages
from mypt_infer.controller.options import Options
from mypt_infer.controller.read_transcript import reread
from mypt_infer.controller.source import Feeder, Forbidding, NoRoom, Source
from mypt_infer.controller.transcript import Replies, as_record, record_of, written
from mypt_infer.controller.turn import Turn
from mypt_infer.run_format import format_of
from mypt_infer.tool_run import Unfinished
from mypt_infer.toolbox import Toolbox
from mypt_infer.truncate_result import count_result, truncate_result
from mypt_spec import Dialect

Message = dict[str, Any]

# The seconds that a tool has when the turn's are just over.
_SHORTEST = 0.001


class BusyError(RuntimeError):
    """Another turn of the conversation runs."""


class Controller:
    """One conversation. `say` or `run` take the next turn.

    `cancel` ends the turn, from another thread or a signal handler, too. `system` is the system
    prompt of a new conversation.
    """

    def __init__(
        self,
        source: Source,
        tools: Toolbox | None = None,
        *,
        dialect: str | Dialect = "mypt",
        system: str | None = None,
        options: Options | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source, self.tools = source, tools or Toolbox()
        self.options, self.seed = options or Options(), seed
        self.dialect, self._clock, self._system = dialect, clock, system
        spoken = format_of(dialect)
        if len(self.tools) and spoken.calls and spoken.result is None:
            raise ValueError(
                f"nothing says how {spoken.dialect.name} writes the results of calls: where "
                'the block that opens a turn holds them, its token table must say role = "result"'
            )
        self._cancelled, self._busy = threading.Event(), threading.Lock()
        self.reset()

    @property
    def source(self) -> Source:
        """Returns the source of ids; another one is given the whole context at its first draw."""
        return self._feeder.source

    @source.setter
    def source(self, source: Source) -> None:
        self._feeder = Feeder(source)

    @classmethod
    def from_record(
        cls,
        record: Message,
        source: Source,
        tools: Toolbox | None = None,
        *,
        dialect: str | Dialect = "mypt",
        turns: int | None = None,
        **options: Any,
    ) -> Controller:
        """Returns a controller that continues the conversation of a record with a transcript.

        The turns are run again, as by `replay`; with `turns`, it continues after so many of them.
        The options are those of a new controller. Raises TranscriptError if the record has no
        transcript, or a damaged one.
        """
        controller = cls(source, tools, dialect=dialect, **options)
        state = reread(record, dialect, turns=turns)
        controller.history, controller.replies, controller._events = state
        return controller

    def reset(self) -> None:
        """Begins a new conversation. Raises BusyError while a turn runs."""
        if self._busy.locked():
            raise BusyError("a turn of this conversation runs; wait for it, or cancel it")
        self.history = History(self.dialect)
        self.replies = Replies()
        self._events: list[events.Event] = []
        self._seen_messages: list[Message] = []

    def cancel(self) -> None:
        """Ends the turn at the next id; what was said stays, and the history is legal.

        A tool that runs in another thread is no longer waited for. A turn whose first event was not
        asked for yet is cancelled, too.
        """
        self._cancelled.set()

    # Turns

    def say(self, text: str, **keys: Any) -> Iterator[events.Event]:
        """Takes a text of the user; yields the events of the turn.

        `keys` are further keys of the message, such as `context`.
        """
        return self.turn([{"role": "user", "content": text, **keys}])

    def run(self, history: Sequence[Message], max_steps: int | None = None) -> Message:
        """Returns the assistant's answer to a history that ends with a user's message.

        The answer is a message, without its thinking.

        A history that begins with the last one, followed by the answer that was returned, continues
        on the same ids: nothing is encoded again. Any other history begins a new conversation.
        Raises ValueError for a history that the format cannot hold.
        """
        count = len(self._seen_messages)
        if not count or list(history[:count]) != self._seen_messages:
            self.reset()
            count = 0
        for _ in self.turn(list(history[count:]), max_steps=max_steps):
            pass
        answer = self.answer()
        self._seen_messages = [*history, answer]
        return answer

    def turn(
        self, messages: list[Message], *, max_steps: int | None = None
    ) -> Iterator[events.Event]:
        """Takes messages, the last of them the user's; yields the events of the turn that follows.

        Raises ValueError, before anything is drawn, for messages that the format cannot hold, and
        BusyError while another turn runs. What the source raises ends the turn legally, with the
        reason "error", and is then raised again. A caller that stops asking for events cancels the
        turn, and so does an exception that is raised into it.
        """
        self._cancelled = cancelled = threading.Event()
        return self._turn(messages, max_steps, cancelled.is_set)

    def _turn(
        self, messages: list[Message], max_steps: int | None, stopped: Callable[[], bool]
    ) -> Iterator[events.Event]:
        with self._one_turn(stopped) as running:
            steps = self._begin(running, messages, max_steps)
            yield from events_of(steps, lambda ask: self._answer(ask, running))

    @contextmanager
    def _one_turn(self, stopped: Callable[[], bool]) -> Iterator[_Running]:
        """Leaves a legal history after a turn, and lets no other turn begin in between."""
        if not self._busy.acquire(blocking=False):
            raise BusyError("another turn of this conversation runs; wait for it, or cancel it")
        try:
            end = None if self.options.seconds is None else self._clock() + self.options.seconds
            running = _Running(Driver(self.history, self.replies, self._events), end, stopped)
            try:
                yield running
            except BaseException as error:
                running.driver.stop(error)
                raise
        finally:
            self._busy.release()
        if running.fault is not None:
            raise running.fault

    def _begin(
        self, running: _Running, messages: list[Message], max_steps: int | None
    ) -> events.Steps:
        notices = append_messages(
            self.history, messages, system=self._system, tools=self.tools.schemas
        )
        options = self.options if max_steps is None else replace(self.options, max_steps=max_steps)
        if options.context_length is None:
            options = replace(options, context_length=getattr(self.source, "context_length", None))
        calls = len(self.tools) > 0
        self.replies.begin(options, ids=len(self.history.ids), calls=calls)

        def make_turn() -> Turn:
            return Turn(self.history, options, calls=calls)

        running.driver.begin(notices, make_turn)
        if isinstance(self.source, Forbidding):
            self.source.forbid(make_turn().forbidden_blocks)
        return running.driver.run()

    def _answer(self, ask: events.Ask, running: _Running) -> events.Reply:
        try:
            if (stop := self._reason_to_stop(running)) is not None:
                return stop
            if isinstance(ask, events.Sample):
                return self._feeder.draw(self.history, ask.left)
            return self._shortened(
                ask, self.tools.call(ask.name, ask.arguments, **self._limits(running))
            )
        except BaseException as error:
            return running.stop(error)

    def _reason_to_stop(self, running: _Running) -> events.Stop | None:
        """Returns that the turn must end before anything else is done; None if it may go on."""
        if running.stopped():
            return events.Stop("cancelled")
        if running.end is not None and running.end <= self._clock():
            return events.Stop("deadline", f"{self.options.seconds:g} s are over")
        return None

    def _limits(self, running: _Running) -> dict[str, Any]:
        """Returns the time that a tool has, and what says that it is no longer waited for."""
        remaining = None if running.end is None else running.end - self._clock()
        bounds = [s for s in (self.options.tool_seconds, remaining) if s is not None]
        seconds = max(min(bounds), _SHORTEST) if bounds else None
        return {"seconds": seconds, "stopped": running.stopped}

    def _shortened(self, ask: events.Execute, value: Any) -> events.Returned:
        def count(value: Any) -> int:
            return count_result(self.history.format, value)

        value = self.tools.shortened(ask.name, ask.arguments, value, lambda v: count(v) <= ask.most)
        return events.Returned(*truncate_result(value, ask.most, count))

    # What was said

    def messages(self) -> list[Message]:
        """Returns all messages, thinking included. Raises ValueError if no record can hold them."""
        record = written(self.history.dialect, self.history.ids)
        return list(record[self.history.dialect.adapter.SCHEMA.messages])

    def answer(self) -> Message:
        """Returns the last answer, without its thinking. Raises ValueError if it cannot be read."""
        d = self.history.dialect
        begin = self.history.turns[-1] if self.history.turns else 0
        episode, findings = d.parse_ids(
            self.history.ids[: self.history.head] + self.history.ids[begin:]
        )
        if episode is None:
            raise ValueError(f"the history cannot be read: {findings[0].message}")
        try:
            record = as_record(episode, d)
            message = dict(record[d.adapter.SCHEMA.messages][-1])
        except ValueError:
            # The answer spells a whole reference in ordinary letters, which no record can tell from
            # a real one.
            text = "".join(p.text for p in episode.messages[-1].parts) or episode.messages[-2].text
            message = {"role": "assistant", "content": text}
        return {key: value for key, value in message.items() if key not in ("think", "reasoning")}

    def record(self) -> Message:
        """Returns the conversation as a record to train on, with its transcript (`transcript`)."""
        return record_of(self.history, self.replies, self._events, seed=self.seed)

    @property
    def last_end(self) -> events.TurnEnd | None:
        """Returns how the last turn ended, or None."""
        return next((e for e in reversed(self._events) if isinstance(e, events.TurnEnd)), None)


@dataclass(slots=True)
class _Running:
    """A turn that runs: until when it may, whether it is cancelled, what its source has raised."""

    driver: Driver
    end: float | None
    stopped: Callable[[], bool]
    fault: BaseException | None = None

    def stop(self, error: BaseException) -> events.Stop:
        """Returns the end of a turn whose source or tool has raised."""
        if isinstance(error, KeyboardInterrupt):
            return events.Stop("cancelled", "interrupted")
        if isinstance(error, Unfinished):
            return events.Stop("cancelled")
        if isinstance(error, NoRoom):
            return events.Stop("max_tokens", str(error))
        self.fault = error
        return failed(error)
