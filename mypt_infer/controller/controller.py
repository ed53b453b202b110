"""Runs a conversation: joins a source of ids, tools and the turns.

Input: messages of the user. Output: events, or the answer as a message. `turn` holds the logic of a
turn; this module holds the clock, the threads and the exceptions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from mypt_infer.controller.events import (
    Ask,
    CallParsed,
    Event,
    Execute,
    Notice,
    Reply,
    Returned,
    Sample,
    Stop,
    ToolResult,
    TurnEnd,
)
from mypt_infer.controller.history import PROMPT, History
from mypt_infer.controller.messages import heard
from mypt_infer.controller.options import Options
from mypt_infer.controller.source import Forbidding, NoRoom, Source
from mypt_infer.controller.transcript import Replies, record_of, written
from mypt_infer.controller.truncate_result import count_result, truncate_result
from mypt_infer.controller.turn import ContextError, Turn
from mypt_infer.toolbox import Toolbox, copied
from mypt_spec import Dialect
from mypt_spec.episode import Event as Tag
from mypt_spec.episode import events_of
from mypt_spec.table import TEXT
from mypt_spec.validator import Run

Message = dict[str, Any]
Core = Generator[Event | Ask, Reply, None]


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
        self.source, self.tools, self.options, self.seed = (
            source,
            tools or Toolbox(),
            options or Options(),
            seed,
        )
        self.dialect, self._clock, self._system = dialect, clock, system
        self._cancelled = False
        self.reset()

    def reset(self) -> None:
        """Begins a new conversation."""
        self.history = History(self.dialect)
        self.replies = Replies()
        self._events: list[Event] = []
        self._known: list[Message] = []

    def cancel(self) -> None:
        """Ends the turn at the next id; what was said stays, and the history is legal."""
        self._cancelled = True

    # Turns

    def say(self, text: str, **keys: Any) -> Iterator[Event]:
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
        known = len(self._known)
        if not known or list(history[:known]) != self._known:
            self.reset()
            known = 0
        for _ in self.turn(list(history[known:]), max_steps=max_steps):
            pass
        answer = self.answer()
        self._known = [*history, answer]
        return answer

    def turn(self, messages: list[Message], *, max_steps: int | None = None) -> Iterator[Event]:
        """Takes messages, the last of them the user's; yields the events of the turn that follows.

        Raises ValueError, before anything is drawn, for messages that the format cannot hold. What
        the source raises ends the turn legally, with the reason "error", and is then raised again.
        A caller that stops asking for events cancels the turn.
        """
        mark, told = self.history.mark(), len(self._events)
        core = self._begin(messages, max_steps)
        fault: list[BaseException] = []
        end = None if self.options.seconds is None else self._clock() + self.options.seconds
        try:
            yield from self._events_of(core, end, fault)
        except GeneratorExit:
            self._cancelled = True
            for _ in self._events_of(core, end, fault):
                pass
            raise
        except ContextError:  # the messages count as not said
            self.history.back(mark)
            self.replies.turns.pop()
            del self._events[told:]
            raise
        if fault:
            raise fault[0]

    def _events_of(
        self, core: Core, end: float | None, fault: list[BaseException]
    ) -> Iterator[Event]:
        reply: Reply = None
        while True:
            try:
                got = core.send(reply)
            except StopIteration:
                return
            reply = None
            if isinstance(got, Sample | Execute):
                reply = self.replies.add(self._answer(got, end, fault))
            else:
                self._events.append(_own(got))
                yield got

    async def aturn(
        self, messages: list[Message], *, max_steps: int | None = None
    ) -> AsyncIterator[Event]:
        """Yields events as `turn` does; the model and the tools work in another thread."""
        events = self.turn(messages, max_steps=max_steps)
        while True:
            try:
                event = await asyncio.to_thread(next, events, None)
            except asyncio.CancelledError:
                self.cancel()
                raise
            if event is None:
                return
            yield event

    def _begin(self, messages: list[Message], max_steps: int | None) -> Core:
        self._cancelled = False
        notices = self._hear(messages)
        options = self.options if max_steps is None else replace(self.options, max_steps=max_steps)
        calls = len(self.tools) > 0
        self.replies.begin(options, ids=len(self.history.ids), calls=calls)
        turn = Turn(self.history, options, calls=calls)
        if isinstance(self.source, Forbidding):
            self.source.forbid(turn.forbidden_blocks)

        def events() -> Core:
            yield from notices
            yield from turn.run()

        return events()

    def _answer(
        self, ask: Ask, end: float | None, fault: list[BaseException]
    ) -> int | Returned | Stop:
        """Returns the reply to what a turn asks for, or that it must end."""
        left = None if end is None else end - self._clock()
        if self._cancelled:
            return Stop("cancelled")
        if left is not None and left <= 0:
            return Stop("deadline", f"{self.options.seconds:g} s are over")
        try:
            if isinstance(ask, Sample):
                return self._draw(ask.left)
            bounds = [s for s in (self.options.tool_seconds, left) if s is not None]
            value = self.tools.call(
                ask.name, ask.arguments, seconds=min(bounds) if bounds else None
            )
            return Returned(*truncate_result(value, ask.most, self._count))
        except KeyboardInterrupt:
            return Stop("cancelled", "interrupted")
        except NoRoom as error:
            return Stop("max_tokens", str(error))
        except Exception as error:
            fault.append(error)
            return Stop("error", f"{type(error).__name__}: {error}")

    def _draw(self, left: int) -> int:
        """Returns the source's next id, after giving it, once, all that the model is to see."""
        same = self.history.settled()
        if same < self._taken:
            self.source.truncate(same)
        self.source.append(self.history.context(same))
        self._taken = len(self.history)
        token = int(self.source.next(left))
        self._taken += 1
        # The turn appends this id, or cuts it off and then lowers this number.
        self.history.unchanged = self._taken
        return token

    _taken = 0

    def _count(self, value: Any) -> int:
        return count_result(self.history.format, value)

    # What was said

    def _hear(self, messages: Iterable[Message]) -> list[Notice]:
        """Appends messages to the history, as ids; returns notices of what was changed.

        Raises ValueError, and changes nothing, if the format cannot hold the messages.
        """
        d, fmt = self.history.dialect, self.history.format
        held = heard(messages, d)
        given: dict[str, Any] = {d.adapter.SCHEMA.messages: held}
        if not self.history.ids:
            system = (
                {"role": "system", "content": self._system} if self._system is not None else None
            )
            if held and held[0].get("role") == "system":
                system = held.pop(0)
            if system is not None and "system" in d.adapter.SCHEMA.top:
                given["system"] = system.get("content")
            elif system is not None:
                held.insert(0, system)
            if len(self.tools) and "tools" in d.adapter.SCHEMA.top:
                given["tools"] = self.tools.schemas
        episode, findings = d.read(given)
        wrong = next((f for f in findings if f.severity == "error"), None)
        if episode is None or wrong is not None:
            raise ValueError(
                f"{wrong.code} {wrong.message} at {wrong.pointer}"
                if wrong
                else "the messages cannot be read"
            )
        notices = []
        events: list[Tag] = []
        for event in events_of(episode.messages, d.table):
            if self.history.ids and event.terminal in fmt.begins:
                continue  # the history has it already
            if event.terminal == TEXT and (harmless := fmt.harmless(event.text)) != event.text:
                notices.append(
                    Notice(
                        "a text spells a tag of the format; it was written so that it is none: "
                        f"{event.text[:60]!r}"
                    )
                )
                event = event._replace(text=harmless)
            events.append(event)
        run = Run(d.table, d.automaton, spaces=False, complete=False)
        last = (f"{d.table.turn_opener}" if self.history.turns else "") or None
        state = self.history.ended[1] if self.history.ended is not None else self.history.state
        outcome = (run.start_at(state, last) if self.history.ids else run).check(events)
        if outcome.findings:
            first = outcome.findings[0]
            raise ValueError(
                f"{first.code} {first.message} at {first.pointer}; expected "
                f"{' or '.join(first.expected)}"
            )
        self.history.reopen()
        self.history.write(events, PROMPT)
        return notices

    def messages(self) -> list[Message]:
        """Returns the conversation so far as messages of a record, thinking included.

        Raises ValueError if no record can hold it.
        """
        record = written(self.history.dialect, self.history.ids)
        return list(record[self.history.dialect.adapter.SCHEMA.messages])

    def answer(self) -> Message:
        """Returns the last answer as a message, without its thinking.

        Raises ValueError if the history cannot be read.
        """
        d = self.history.dialect
        begin = self.history.turns[-1] if self.history.turns else 0
        episode, findings = d.parse_ids(
            self.history.ids[: self.history.head] + self.history.ids[begin:]
        )
        if episode is None:
            raise ValueError(f"the history cannot be read: {findings[0].message}")
        try:
            message = dict(d.write(episode)[d.adapter.SCHEMA.messages][-1])
        except ValueError:
            # The answer spells a whole reference in ordinary letters, which no record can tell from
            # a real one.
            message = {
                "role": "assistant",
                "content": "".join(p.text for p in episode.messages[-1].parts)
                or episode.messages[-2].text,
            }
        return {key: value for key, value in message.items() if key not in ("think", "reasoning")}

    def record(self) -> Message:
        """Returns the conversation as a record that can be trained on, with its transcript.

        The key for the transcript and its content are described in `transcript`.
        """
        return record_of(self.history, self.replies, self._events, seed=self.seed)

    @property
    def last_end(self) -> TurnEnd | None:
        """Returns how the last turn ended, or None."""
        return next((e for e in reversed(self._events) if isinstance(e, TurnEnd)), None)


def _own(event: Event) -> Event:
    """Returns an event that a listener cannot change."""
    if isinstance(event, CallParsed):
        return replace(event, arguments=copied(event.arguments))
    return replace(event, value=copied(event.value)) if isinstance(event, ToolResult) else event
