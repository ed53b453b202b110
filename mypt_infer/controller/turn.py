"""Runs one turn of the model: from the user's last word to the legal end of the answer.

Input: a history that ends with a user's message, and the replies to what the turn asks for. Output:
events, and a longer history. Nothing here waits, reads a clock, draws or calls a tool, so each turn
can be tested, recorded and replayed exactly (invariant 8 of ARCHITECTURE.md).

Theory of operation. A turn is a generator. It yields events, and asks: `Sample` for the next id,
`Execute` for the result of a tool. The caller answers by `send`. In each round the grammar's state
decides who writes:

1. the system, where the model may write nothing or a result is due: the result of a call, or the
   header of the model's next block;
2. nobody, where only one tag may come or a limit demands one: the tag is put in without asking;
3. the model: one id is sampled, and given to the StreamParser, which returns tags and texts as soon
   as they are certain.

An event that may not occur in its state ends the turn as "illegal". A turn that is stopped, for any
reason, is cut back to the last point where something can be completed, and ended by the shortest
legal way (`ending`). `_marks` holds the points where ids can be cut off, with their states.

One turn in dialect mypt. The model writes a call, then an answer. Four tags are forced: the two
that open the assistant's blocks and the two that come when nothing else may. The result is
injected:

>>> import mypt_spec
>>> from mypt_infer.controller.history import PROMPT
>>> from mypt_spec.encoder import encode_events
>>> d = mypt_spec.dialect("mypt")
>>> history = History(d)
>>> _ = history.write(d.lex("<myPT_system>S</myPT_system><myPT_user>2+2?</myPT_user>"), PROMPT)
>>> body = '{"name": "calc", "x": "2+2"}'
>>> said = d.lex(f"<myPT_toolcall>{body}</myPT_toolcall>4</myPT_assistant>")
>>> model = iter(encode_events(said, d.table, d.tokenizer).ids.tolist())
>>> turn, reply = Turn(history, Options(), calls=True).run(), None
>>> try:
...     while True:
...         got, reply = turn.send(reply), None
...         if isinstance(got, Sample):
...             reply = next(model)
...         elif isinstance(got, Execute):
...             reply = Returned(4)
...         if isinstance(got, CallParsed | ToolResult | TurnEnd):
...             print(got)
... except StopIteration:
...     pass
CallParsed(name='calc', arguments={'x': '2+2'})
ToolResult(name='calc', value=4, truncated=False, error='')
TurnEnd(reason='stop', sampled=19, message='')
>>> print(d.tokenizer.decode(history.ids[9:]).replace("><", ">" + chr(10) + "<"))
<myPT_assistant>
<myPT_toolcall>{"name": "calc", "x": "2+2"}</myPT_toolcall>
</myPT_assistant>
<myPT_toolresult>4</myPT_toolresult>
<myPT_assistant>4</myPT_assistant>
<myPT_eot>
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from mypt_infer.controller.ending import ending
from mypt_infer.controller.events import (
    ArgumentsDelta,
    Ask,
    CallDropped,
    CallParsed,
    CallStart,
    Cite,
    Event,
    Execute,
    Notice,
    Reason,
    Reply,
    Returned,
    Sample,
    StepEnd,
    Stop,
    TextDelta,
    ThinkDelta,
    ToolResult,
    TurnEnd,
    TurnsDropped,
    TurnStart,
)  # fmt: skip
from mypt_infer.controller.history import FORCED, INJECTED, SAMPLED, History
from mypt_infer.controller.options import RESERVE, Options
from mypt_infer.controller.stream_parser import Piece, StreamParser
from mypt_infer.controller.truncate_result import LEAST, count_result
from mypt_infer.run_format import ToolCall
from mypt_infer.toolbox import copied, error, error_type
from mypt_spec.encoder import encode_events
from mypt_spec.episode import Event as Tag
from mypt_spec.table import TEXT

# The answer of a turn that was stopped before it had one.
STOPPED = "(stopped)"


def mixed_up(before: list[ToolCall], calls: list[ToolCall]) -> str:
    """Returns why results could not say which of a message's calls they answer; "" if they can."""
    ids = [call.id for call in (*before, *calls)]
    if len(calls) > 1 and not all(call.id for call in calls):
        return "a call beside others has no id"
    twice = next((i for i in ids if ids.count(i) > 1), None)
    if twice is None:
        return ""
    return f"the id {twice!r} stands twice" if twice else "two calls have no id"


class ContextError(ValueError):
    """The system prompt and the newest turn alone are too long for the context."""


@dataclass(slots=True)
class _Block:
    """A block that was opened in this turn.

    `begin` is the index of its opening tag in the history, `content` that of what comes after this
    tag, and `before` the state before it.
    """

    kind: str
    tag: Tag
    begin: int
    content: int
    before: int
    text: list[str] = field(default_factory=list)


class Turn:
    """One turn on a history that ends with a message of the user.

    `calls` says whether the model may call tools. `forbidden_blocks` are the kinds of block that
    the model may not open in this turn.
    """

    def __init__(self, history: History, options: Options, *, calls: bool) -> None:
        self.history, self.options = history, options
        self._parser = StreamParser(history.dialect)
        # The open blocks of those that were opened in this turn.
        self._blocks: list[_Block] = []
        self._opened: list[_Block] = []
        # The lengths to which the ids can be cut, and the states there.
        self._marks = [(len(history.ids), history.state)]
        # The calls that have no result yet, in the order of their results.
        self._pending: list[ToolCall] = []
        self.forbidden_blocks = (frozenset() if calls else history.format.calls) | (
            history.format.thinking if options.think is False else frozenset()
        )
        self._ended = False
        self.step, self.sampled = 1, 0

    def run(self) -> Generator[Event | Ask, Reply, None]:
        """Yields the events of the turn, and what it asks for; takes the replies.

        Raises ContextError, before anything else, if the newest turn leaves no room for an answer.
        """
        yield from self._make_room()
        yield TurnStart(len(self.history))
        while not self._ended:
            own = self._own()
            if self._parser.pushed > self._parser.position:
                space = self._parser.missing()
                if space:
                    yield from self._take(self.history.dialect.tokenizer.encode(space), FORCED)
                    continue
            elif not own or self._awaited():
                yield from self._system_writes()
                continue
            elif forced := self._forced(own):
                yield from self._put(
                    Tag(forced, self.history.dialect.table.terminals[forced].spell()), FORCED
                )
                continue
            limit = self._limit()
            if limit:
                yield from self._finish("max_tokens", limit)
                return
            reply = yield Sample(self._left())
            if isinstance(reply, Stop):
                yield from self._finish(reply.reason, reply.message)
                return
            assert isinstance(reply, int)
            self.sampled += 1
            yield from self._take([reply], SAMPLED)

    def _make_room(self) -> Iterator[Event]:
        length = self.options.context_length
        if length is None:
            return
        most = length - RESERVE - min(self.options.max_tokens, length // 2)
        turns, ids = self.history.forget(most)
        if len(self.history) > length - RESERVE:
            raise ContextError(
                f"the system prompt and the newest turn have {len(self.history)} ids; a context of "
                f"{length} has room for {length - RESERVE}"
            )
        if turns:
            yield TurnsDropped(turns, ids)

    # What may come next

    def _own(self) -> frozenset[str]:
        """Returns the terminals that the model may write now."""
        openers = self.history.dialect.table.openers
        return self.history.own() - {openers[kind].name for kind in self.forbidden_blocks}

    def _forced(self, own: frozenset[str]) -> str:
        """Returns the tag that must come: the only one, or one that a limit asks for; else ""."""
        table = self.history.dialect.table
        if len(own) == 1 and TEXT not in own:
            return next(iter(own))
        kind = self.history.open[-1] if self.history.open else ""
        thinking = [
            table.openers[k].name
            for k in self.history.format.thinking
            if k in table.openers and table.openers[k].name in own
        ]
        if (
            self.options.think
            and thinking
            and kind not in self.history.format.thinking
            and not any(b.kind in self.history.format.thinking for b in self._blocks)
        ):
            return thinking[0]
        limit = self.options.max_think_tokens
        if (
            limit is not None
            and kind in self.history.format.thinking
            and self._blocks
            and self._length(self._blocks[-1]) >= limit
        ):
            return self._way_out(own)
        return ""

    def _way_out(self, own: frozenset[str]) -> str:
        """Returns the one tag that ends the thinking; "" if thinking may not end yet."""
        tags = own - {TEXT}
        return next(iter(tags)) if len(tags) == 1 else ""

    def _left(self) -> int:
        """Returns the number of ids that the model may still draw."""
        left, length = self.options.max_tokens - self.sampled, self.options.context_length
        return left if length is None else min(left, length - RESERVE - len(self.history))

    def _length(self, block: _Block) -> int:
        """Returns the number of ids of a block's content, as the decoder counts them.

        Tags do not count, nor does what may yet become one.
        """
        return self._parser.position - self._parser.pushed + len(self.history.ids) - block.content

    def _limit(self) -> str:
        """Returns why the model may draw no further id; "" if it may."""
        if self.sampled >= self.options.max_tokens:
            return f"{self.options.max_tokens} tokens were drawn"
        if self._left() <= 0:
            return f"the context of {self.options.context_length} ids is full"
        block, most = self._blocks[-1] if self._blocks else None, self.options.max_toolcall_tokens
        if (
            block is not None
            and most is not None
            and block.kind in self.history.format.calls
            and self._length(block) > most
        ):
            return f"a tool call is longer than {most} tokens"
        return ""

    # What comes

    def _take(self, ids: list[int], origin: str) -> Generator[Event | Ask, Reply, None]:
        """Takes ids of the model, or white space that belongs to its tag."""
        for token in ids:
            self.history.add([token], origin)
            try:
                pieces = self._parser.push(token)
            except ValueError as fault:
                self.history.cut(len(self.history.ids) - 1, self.history.state)
                yield from self._finish("illegal", str(fault))
                return
            if not pieces and self._leads_nowhere(token):
                yield from self._finish(
                    "illegal",
                    f"the model wrote {self.history.dialect.tokenizer.decode([token])!r}, which "
                    "nothing that may stand here holds",
                )
                return
            base = len(self.history.ids) - self._parser.pushed
            for piece in pieces:
                if self._ended:
                    return
                yield from self._piece(piece, base)

    def _leads_nowhere(self, token: int) -> bool:
        """Returns whether an id is a tag, or part of a tag, that the model may not write now.

        Then there is no need to wait for the rest.
        """
        table = self.history.dialect.table
        spelled = {
            p.value for name in self._own() if name != TEXT for p in table.terminals[name].spelling
        }
        return any(number == token and tag not in spelled for tag, number in table.special.items())

    def _piece(self, piece: Piece, base: int) -> Generator[Event | Ask, Reply, None]:
        own, name = self._own(), piece.event.terminal
        begin = self._marks[-1][0]
        if name not in own:
            terminal = self.history.dialect.table.terminals.get(name)
            ends = (
                terminal is not None
                and not terminal.opens
                and self.history.open
                and self.history.open[-1] in self.history.format.thinking
            )
            out = self._way_out(own) if ends else ""
            if out:
                self._cut(begin)
                yield Notice(
                    "the model ended its turn while thinking; "
                    f"{self.history.dialect.table.terminals[out].shown} was put in, and it goes on"
                )
                yield from self._put(
                    Tag(out, self.history.dialect.table.terminals[out].spell()), FORCED
                )
                return
            expected = " or ".join(self.history.dialect.table.describe(own))
            yield from self._finish(
                "illegal",
                f"the model wrote {piece.event.text[:60]!r} where only {expected} may stand",
            )
            return
        instead = self._instead(name, own)
        if instead:
            self._cut(begin)
            yield from self._put(
                Tag(instead, self.history.dialect.table.terminals[instead].spell()), FORCED
            )
            return
        yield from self._event(piece.event, begin, base + piece.end)
        if piece.exact and not self._ended:
            self._marks.append((base + piece.end, self.history.state))

    def _instead(self, name: str, own: frozenset[str]) -> str:
        """Returns the tag that closes the block in place of a mark that ends the conversation.

        Returns "" for any other terminal.
        """
        table, machine = self.history.dialect.table, self.history.dialect.automaton
        terminal = table.terminals.get(name)
        if (
            terminal is None
            or not terminal.mark
            or machine.allowed(machine.step(self.history.state, name))
        ):
            return ""
        return next(
            (
                n
                for n in sorted(own)
                if n not in (TEXT, name) and terminal.closes in table.terminals[n].ends
            ),
            "",
        )

    def _put(self, tag: Tag, origin: str) -> Generator[Event | Ask, Reply, None]:
        """Writes a tag that is not the model's choice."""
        begin, state = len(self.history.ids), self.history.state
        self.history.write([tag], origin)
        self.history.state = state
        yield from self._event(tag, begin, len(self.history.ids))
        if not self._ended:
            self._marks.append((len(self.history.ids), self.history.state))

    def _event(self, event: Tag, begin: int, end: int) -> Generator[Event | Ask, Reply, None]:
        """Reads a tag or a run of text that may occur here, from index `begin` to `end`."""
        table = self.history.dialect.table
        before = self.history.state
        self.history.step(event, begin)
        terminal = table.terminals.get(event.terminal)
        if terminal is None:
            yield from self._text(event.text)
            return
        closed = (
            self._blocks.pop()
            if self._blocks and len(self._blocks) > len(self.history.open) - bool(terminal.opens)
            else None
        )
        if terminal.opens:
            self._blocks.append(_Block(terminal.opens, event, begin, end, before))
            self._opened.append(self._blocks[-1])
            if terminal.opens in self.history.format.calls:
                yield CallStart(dict(event.attrs).get("name", ""))
        elif closed is not None and closed.kind in self.history.format.citing:
            yield Cite("".join(closed.text))
        elif closed is not None and closed.kind in self.history.format.calls:
            yield from self._called(closed, event)
        if (
            not self._ended
            and not self.history.open
            and self.history.dialect.automaton.accepting(self.history.state)
            and not self._own()
        ):
            yield StepEnd(self.step)
            yield TurnEnd("stop", self.sampled)
            self._ended = True

    def _text(self, text: str) -> Iterator[Event]:
        kind = self._blocks[-1].kind if self._blocks else ""
        if self._blocks:
            self._blocks[-1].text.append(text)
        if kind in self.history.format.calls:
            yield ArgumentsDelta(text)
        elif kind in self.history.format.thinking:
            yield ThinkDelta(text)
        elif kind not in self.history.format.citing:
            yield TextDelta(text)

    def _called(self, block: _Block, closer: Tag) -> Generator[Event | Ask, Reply, None]:
        body = "".join(block.text)
        calls, reason = self.history.format.read_calls(
            block.tag, body, (block.tag.text + body + closer.text).strip()
        )
        reason = reason or mixed_up(self._pending, calls)
        if reason:
            yield from self._finish("illegal", f"the call cannot be read: {reason}")
            return
        self._pending = sorted([*self._pending, *calls], key=lambda call: not call.id)
        for call in calls:
            yield CallParsed(call.name, copied(call.arguments))

    def _awaited(self) -> bool:
        """Returns whether a result must be written now, though the model might continue."""
        result = self.history.format.result
        return (
            bool(self._pending)
            and result is not None
            and (result.name in self.history.dialect.automaton.allowed(self.history.state))
        )

    # What the system writes

    def _system_writes(self) -> Generator[Event | Ask, Reply, None]:
        """Writes the result of a call, or the header of the model's next block."""
        table = self.history.dialect.table
        if self._pending:
            yield from self._result(self._pending[0])
            return
        openers = [
            n
            for n in sorted(self.history.dialect.automaton.allowed(self.history.state))
            if n in table.terminals and table.terminals[n].body_loss
        ]
        if not openers:
            raise ValueError(
                "the conversation does not end where the model may answer; expected "
                f"{self.history.dialect.automaton.allowed(self.history.state)}"
            )
        yield from self._put(Tag(openers[0], table.terminals[openers[0]].spell()), INJECTED)

    def _result(self, call: ToolCall) -> Generator[Event | Ask, Reply, None]:
        """Writes the result of a call, so that an answer still fits after it."""
        if self.step >= self.options.max_steps:
            yield from self._finish("max_steps", f"{self.step} steps were taken")
            return
        room = self._room_for(call)
        if room < self.options.worth_dropping:
            yield from self._drop(self.options.worth_dropping - room)
            room = self._room_for(call)
        if room < LEAST:
            full = error("no_room", "the context has no room for a result; answer without it")
            size = count_result(self.history.format, full)
            most = room + self.options.reserve(self.sampled) // 2
            if self.options.answer_reserve is None or size > most:
                yield from self._finish("max_tokens", "no room for a result")
                return
            yield from self._give(call, full, False)
        else:
            reply = yield Execute(call.name, call.arguments, room)
            if isinstance(reply, Stop):
                yield from self._finish(reply.reason, reply.message)
                return
            assert isinstance(reply, Returned)
            yield from self._give(call, reply.value, reply.truncated)
        if not self._pending:
            yield StepEnd(self.step)
            self.step += 1

    def _room_for(self, call: ToolCall) -> int:
        """Returns the number of ids that the result of a call may have, without its tags."""
        most = self.options.for_one_result
        room = self.options.for_results(len(self.history), self.sampled)
        if room is None or self.options.answer_reserve is None:
            return most if room is None else min(most, room)
        d = self.history.dialect
        tags = encode_events(
            self.history.format.result_events(call.name, "", call.id), d.table, d.tokenizer
        )
        return min(most, room // len(self._pending) - len(tags.ids))

    def _drop(self, ids: int) -> Iterator[Event]:
        """Drops the oldest turns, if that leaves so many more ids of room; else as many as help."""
        turns, gone = self.history.forget(len(self.history) - ids)
        if turns:
            yield TurnsDropped(turns, gone)

    def _give(self, call: ToolCall, value: Any, truncated: bool) -> Iterator[Event]:
        self._pending.remove(call)
        self.history.write(self.history.format.result_events(call.name, value, call.id), INJECTED)
        self._marks.append((len(self.history.ids), self.history.state))
        yield ToolResult(call.name, value, truncated, error_type(value))

    # The end

    def _cut(self, index: int) -> None:
        """Takes off the ids after the last mark at or before `index`."""
        while self._marks[-1][0] > index:
            self._marks.pop()
        self.history.cut(*self._marks[-1])
        self._parser = StreamParser(self.history.dialect)

    def _finish(self, reason: Reason, message: str = "") -> Generator[Event | Ask, Reply, None]:
        """Ends the turn legally now.

        A call or reference that cannot be completed is taken off.
        """
        self._cut(len(self.history.ids) - (self._parser.pushed - self._parser.position))
        while (block := self._unfinished()) is not None:
            self._cut(block.begin)
            if block.kind in self.history.format.calls:
                yield CallDropped()
        result = self.history.format.result
        inside = ""
        for name in ending(self.history.format, self.history.state):
            terminal = self.history.dialect.table.terminals.get(name)
            if result is not None and name == result.name:
                said = "the turn was ended before the tool was called or gave an answer"
                for call in list(self._pending):
                    yield from self._give(call, error(reason, said), False)
                inside = result.opens
            elif inside:
                inside = "" if terminal is not None and inside in terminal.ends else inside
            elif terminal is None:
                self.history.write([Tag(TEXT, STOPPED)], FORCED)
                yield Notice(f"{STOPPED} was put in where the format wants text")
            else:
                self.history.write(
                    [Tag(name, terminal.spell())],
                    INJECTED if not terminal.by_model else FORCED,
                )
        self._ended = True
        self.history.stopped[len(self.history.turns) - 1] = reason
        yield StepEnd(self.step)
        yield TurnEnd(reason, self.sampled, message)

    def _unfinished(self) -> _Block | None:
        """Returns the innermost block if it is open and cannot stay as it is.

        That is a call, a reference, or a block inside another one that has no text.
        """
        around, machine = self.history.open, self.history.dialect.automaton
        kind = around[-1] if around else ""
        block = next(
            (
                b
                for b in reversed(self._opened)
                if b.kind == kind and b.begin < len(self.history.ids)
            ),
            None,
        )
        if block is None or kind in self.history.format.calls or kind in self.history.format.citing:
            return block
        empty = self.history.state == machine.step(block.before, block.tag.terminal)
        return block if empty and len(around) > 1 else None
