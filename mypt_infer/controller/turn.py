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
legal way (`Format.ending`). `allowed` says what may come next, `draft` holds the blocks of the turn
and the points to which it can be cut back, `calls` its calls, and a `Budget` what is left of its
limits.

One turn in dialect mypt. The model writes a call, then an answer. Four tags are forced: the two
that open the assistant's blocks and the two that come when nothing else may. The result is
injected:

>>> import mypt_spec
>>> from mypt_infer.controller.events import CallParsed, Execute, Returned, Sample, ToolResult
>>> from mypt_infer.controller.events import TurnEnd
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
CallParsed(name='calc', arguments={'x': '2+2'}, call=1, id='')
ToolResult(name='calc', value=4, truncated=False, error='', call=1, id='')
TurnEnd(reason='stop', sampled=19, message='')
>>> print(d.tokenizer.decode(history.ids[9:]).replace("><", ">" + chr(10) + "<"))
<myPT_assistant>
<myPT_toolcall>{"name": "calc", "x": "2+2"}</myPT_toolcall>
</myPT_assistant>
<myPT_toolresult>4</myPT_toolresult>
<myPT_assistant>4</myPT_assistant>
<myPT_eot>
"""

from collections.abc import Generator, Iterator, Sequence

from mypt_infer.controller import events
from mypt_infer.controller.allowed import Allowed
from mypt_infer.controller.calls import Calls
from mypt_infer.controller.draft import Change, Draft
from mypt_infer.controller.history import FORCED, INJECTED, SAMPLED, History
from mypt_infer.controller.options import Budget, Options
from mypt_infer.stream_parser import Piece
from mypt_infer.toolbox import error
from mypt_spec.episode import Event as Tag
from mypt_spec.table import TEXT

# The answer of a turn that was stopped before it had one.
STOPPED = "(stopped)"


class ContextError(ValueError):
    """The system prompt and the newest turn alone are too long for the context."""


class Turn:
    """One turn after a message of the user; `calls` says whether the model may call tools."""

    def __init__(self, history: History, options: Options, *, calls: bool) -> None:
        self.history, self.options = history, options
        self._format, self._table = history.format, history.dialect.table
        self._allowed = Allowed(history, options, calls=calls)
        self.forbidden_blocks = self._allowed.forbidden_blocks
        self._draft, self._budget = Draft(history), Budget(options, history)
        self._calls = Calls(history, self._budget)
        self._ended, self._step = False, 1

    def run(self) -> events.Steps:
        """Yields the events of the turn, and what it asks for; takes the replies.

        Raises ContextError, before anything else, if the newest turn leaves no room for an answer.
        """
        yield from self._make_room()
        yield events.TurnStart(len(self.history))
        while not self._ended:
            if self._draft.uncertain:
                if space := self._draft.missing():
                    yield from self._take(space, FORCED)
                    continue
            elif not self._allowed.writable or (
                self._calls.pending and self._allowed.result and not self._allowed.stops()
            ):
                if self._calls.pending:
                    yield from self._result()
                else:
                    yield from self._insert([self._allowed.header()], INJECTED)
                    yield from self._insert(self._allowed.prompted(), INJECTED)
                continue
            elif forced := self._allowed.forced(self._draft):
                yield from self._insert([forced], FORCED)
                continue
            block = self._draft.block
            calling = block is not None and block.kind in self._format.calls
            reason = self._budget.limit_reached(
                self._draft.length(block) if block and calling else None
            )
            if reason:
                yield from self._finish("max_tokens", reason)
                return
            reply = yield events.Sample(self._budget.remaining)
            if isinstance(reply, events.Stop):
                yield from self._finish(reply.reason, reply.message)
                return
            assert isinstance(reply, int)
            self._budget.sampled += 1
            yield from self._take([reply], SAMPLED)

    def _make_room(self) -> Iterator[events.Event]:
        turns, ids = self.history.forget(self._budget.prompt)
        if len(self.history) > self._budget.longest:
            raise ContextError(
                f"the system prompt and the newest turn have {len(self.history)} ids; a context of "
                f"{self.options.context_length} has room for {self._budget.longest}"
            )
        if turns:
            yield events.TurnsDropped(turns, ids)

    # What comes

    def _take(self, ids: list[int], origin: str) -> events.Steps:
        """Takes ids of the model, or white space that belongs to its tag."""
        for token in ids:
            stops = token in self._allowed.stops(self._draft.held_state)
            try:
                pieces = self._draft.push(token, origin, stops=stops)
            except ValueError as fault:
                yield from self._finish("illegal", str(fault))
                return
            if not (pieces or stops) and self._allowed.leads_nowhere(token):
                written = self.history.dialect.tokenizer.decode([token])
                problem = f"the model wrote {written!r}, which nothing that may stand here holds"
                yield from self._finish("illegal", problem)
                return
            for piece in pieces:
                goes_on = yield from self._piece(piece)
                if self._ended or not goes_on:
                    return
            if stops:
                self._draft.note()
                yield from self._result() if self._calls.pending else self._stop()

    def _piece(self, piece: Piece) -> Generator[events.Event | events.Ask, events.Reply, bool]:
        """Takes a tag or a text of the model; returns whether what comes after it is kept."""
        name = piece.event.terminal
        writable, instead = self._allowed.writable, self._allowed.instead(name)
        if instead:
            yield from self._calls.drop(self._draft.cut_back(self._draft.begin))
            if name not in writable:
                label = self._table.terminals[instead].shown
                yield events.Notice(
                    f"the model ended its turn while thinking; {label} was put in, and it goes on"
                )
            yield from self._insert([instead], FORCED)
            return False
        if name not in writable:
            expected = " or ".join(self._table.describe(writable))
            problem = f"the model wrote {piece.event.text[:60]!r} where only {expected} may stand"
            yield from self._finish("illegal", problem)
            return False
        yield from self._tag_events(piece.event, self._draft.step_event(piece.event, piece.end))
        if piece.exact and not self._ended:
            self._draft.note(piece.end)
        return True

    def _insert(self, names: Sequence[str], origin: str) -> events.Steps:
        """Writes tags that are not the model's choice."""
        tags = [Tag(name, self._table.terminals[name].spell()) for name in names]
        for tag, ids in zip(tags, self.history.encoded(tags), strict=True):
            yield from self._tag_events(tag, self._draft.write_tag(tag, ids, origin))
        if names and not self._ended:
            self._draft.note()

    def _tag_events(self, event: Tag, change: Change) -> events.Steps:
        """Yields what is told of a tag or a text that has come, and ends the turn at its end."""
        opened, closed = change
        if event.terminal == TEXT:
            yield from self._text(event.text)
        elif closed is not None and closed.kind in self._format.citing:
            yield events.Cite("".join(closed.text))
        elif closed is not None and closed.kind in self._format.calls:
            try:
                yield from self._calls.complete(closed, "" if opened else event.text)
            except ValueError as fault:
                yield from self._finish("illegal", f"the call cannot be read: {fault}")
                return
        if opened is not None and opened.kind in self._format.calls:
            yield self._calls.begin(opened)
        if self._allowed.ended and not (self._calls.pending and self._allowed.result):
            if not self.history.dialect.automaton.accepting(self.history.state):
                self._draft.note()  # the system writes the mark at the end of the conversation
                final = self._table.terminals[self._format.final]
                self.history.write([Tag(final.name, final.spell())], INJECTED)
            yield from self._stop()

    def _stop(self) -> Iterator[events.Event]:
        self._ended = True
        yield events.StepEnd(self._step)
        yield events.TurnEnd("stop", self._budget.sampled)

    def _text(self, text: str) -> Iterator[events.Event]:
        block = self._draft.block
        kind = block.kind if block is not None else ""
        if kind in self._format.calls:
            yield events.ArgumentsDelta(text, self._calls.number(block))
        elif kind in self._format.thinking:
            yield events.ThinkDelta(text)
        elif kind not in self._format.citing:
            yield events.TextDelta(text)

    def _result(self) -> events.Steps:
        """Writes the result of a call."""
        if self._step >= self.options.max_steps:
            yield from self._finish("max_steps", f"{self._step} steps were taken")
            return
        stop = yield from self._calls.answer()
        if stop is not None:
            yield from self._finish(stop.reason, stop.message)
            return
        self._draft.note()
        if not self._calls.pending:
            yield events.StepEnd(self._step)
            self._step += 1

    # The end

    def _finish(self, reason: events.Reason, message: str = "") -> Iterator[events.Event]:
        """Ends the turn legally now, without calls and references that cannot be completed."""
        yield from self._calls.drop(self._draft.settle())
        while (block := self._draft.unfinished()) is not None:
            yield from self._calls.drop(self._draft.cut_back(block.begin))
        explanation = "the turn was ended before the tool was called or gave an answer"
        state = self.history.state
        ended = self.history.dialect.automaton.accepting(state) and state in self._format.between
        if self._calls.pending and self._allowed.result and not ended:
            for call in list(self._calls.pending):  # some results are there: the others, too
                yield self._calls.give(call, error(reason, explanation))
        result, inside = self._format.result, ""
        result = next(iter(self._format.around), result)
        for name in self._format.ending(self.history.state):
            terminal = self._table.terminals.get(name)
            if result is not None and name == result.name:
                for call in list(self._calls.pending):
                    yield self._calls.give(call, error(reason, explanation))
                inside = result.opens
            elif inside:
                inside = "" if terminal is not None and inside in terminal.ends else inside
            elif terminal is None:
                self.history.write([Tag(TEXT, STOPPED)], FORCED)
                yield events.Notice(f"{STOPPED} was put in where the format wants text")
            else:
                tag = Tag(name, terminal.spell())
                self.history.write([tag], FORCED if terminal.by_model else INJECTED)
        self._ended = True
        self.history.stopped[len(self.history.turns) - 1] = reason
        yield events.StepEnd(self._step)
        yield events.TurnEnd(reason, self._budget.sampled, message)
