"""Follows the calls of a turn, from the tag that begins one to its result.

Input: blocks of calls, and results. Output: events that name each call by its number, which is
unique in the conversation in every dialect, so that a listener can tell what belongs together. A
call that begins is either dropped, or complete; one that is complete gets a result, or is dropped.
"""

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from mypt_infer.controller import events
from mypt_infer.controller.draft import Block
from mypt_infer.controller.history import INJECTED, History
from mypt_infer.controller.options import Budget
from mypt_infer.run_format import ToolCall
from mypt_infer.toolbox import copied, error, error_type
from mypt_infer.truncate_result import LEAST, count_result
from mypt_spec.episode import patterns_of


class Call(NamedTuple):
    """A call that waits for its result; `block` is the one in which it is written."""

    number: int
    tool: ToolCall
    block: Block


class Calls:
    """The calls of a turn. `pending` are those without a result, in the order of their results."""

    def __init__(self, history: History, budget: Budget) -> None:
        self._history, self._budget = history, budget
        self._begun: dict[Block, int] = {}
        self.pending: list[Call] = []

    def begin(self, block: Block) -> events.CallStart:
        """Numbers the call that a block begins; further calls in it get the next numbers."""
        self._history.calls += 1
        self._begun[block] = self._history.calls
        return events.CallStart(_name(block), self._history.calls)

    def number(self, block: Block | None) -> int:
        """Returns the number of the call that is written in a block; 0 if it holds none."""
        return self._begun.get(block, 0) if block is not None else 0

    def complete(self, block: Block, closer: str) -> list[events.CallParsed]:
        """Reads the calls of a block that is closed.

        Raises ValueError for what is no call, and for calls that no result could tell apart.
        """
        body = "".join(block.text)
        raw = (block.tag.text + body + closer).strip()
        types = self._history.types
        parsed, reason = self._history.format.read_calls(block.tag, body, raw, types)
        form = self._history.format
        result, table = form.result, form.dialect.table
        named = result is not None and "id" in patterns_of(result.opens, table)
        if named and not all(call.id for call in parsed):
            reason = reason or "a call has no id, so its result could not name it"
        if self._history.format.ids:  # without them, results are in the order of their calls
            reason = reason or mixed_up([call.tool for call in self.pending], parsed)
        if reason:
            raise ValueError(reason)
        first = self._begun[block]
        self._history.calls = max(self._history.calls, first + len(parsed) - 1)
        calls = [Call(first + at, call, block) for at, call in enumerate(parsed)]
        self.pending = sorted([*self.pending, *calls], key=lambda call: not call.tool.id)
        return [
            events.CallParsed(c.tool.name, copied(c.tool.arguments), c.number, c.tool.id)
            for c in calls
        ]

    def drop(self, blocks: list[Block]) -> Iterator[events.CallDropped]:
        """Forgets the calls of blocks that are no longer there."""
        for block in blocks:
            dropped = [call for call in self.pending if call.block is block]
            self.pending = [call for call in self.pending if call.block is not block]
            if block in self._begun:
                names = [(call.tool.name, call.number) for call in dropped]
                for name, number in names or [(_name(block), self._begun[block])]:
                    yield events.CallDropped(name, number)

    def answer(self) -> Generator[events.Event | events.Ask, events.Reply, events.Stop | None]:
        """Writes the result of the next call, so that an answer still fits after it.

        Returns why the turn must end instead; None if there is a result now.
        """
        call = self.pending[0]
        room = self._room(call)
        if room < self._budget.worth_dropping:
            turns, ids = self._history.forget(
                len(self._history) - (self._budget.worth_dropping - room)
            )
            if turns:
                yield events.TurnsDropped(turns, ids)
            room = self._room(call)
        if room < LEAST:
            full = error("no_room", "the context has no room for a result; answer without it")
            size = count_result(self._history.format, full)
            if size > room + self._budget.answer // 2:
                return events.Stop("max_tokens", "no room for a result")
            yield self.give(call, full)
            return None
        reply = yield events.Execute(call.tool.name, call.tool.arguments, room)
        if isinstance(reply, events.Stop):
            return reply
        assert isinstance(reply, events.Returned)
        yield self.give(call, reply.value, truncated=reply.truncated)
        return None

    def _room(self, call: Call) -> int:
        """Returns the number of ids that the result of a call may have, without its tags."""
        empty = self._history.format.result_events(call.tool.name, "", call.tool.id)
        tags = sum(len(self._history.encoded([event])[0]) for event in empty)
        return self._budget.result(tags, len(self.pending))

    def give(self, call: Call, value: Any, *, truncated: bool = False) -> events.ToolResult:
        """Writes the result of a call."""
        name, written_id = call.tool.name, call.tool.id
        self.pending.remove(call)
        around = {terminal.opens for terminal in self._history.format.around}
        first, last = not around <= {*self._history.open}, not self.pending
        tags = self._history.format.result_events(name, value, written_id, first=first, last=last)
        self._history.write(tags, INJECTED)
        return events.ToolResult(name, value, truncated, error_type(value), call.number, written_id)


def _name(block: Block) -> str:
    """Returns the name of the tool, if the tag that opens the block says it; else ""."""
    return dict(block.tag.attrs).get("name", "")


def mixed_up(before: list[ToolCall], calls: list[ToolCall]) -> str:
    """Returns why results could not say which of a message's calls they answer; "" if they can."""
    ids = [call.id for call in (*before, *calls)]
    if len(calls) > 1 and not all(call.id for call in calls):
        return "a call beside others has no id"
    twice = next((i for i in ids if ids.count(i) > 1), None)
    if twice is None:
        return ""
    return f"the id {twice!r} occurs twice" if twice else "two calls have no id"
