"""Says what may come next in a turn, and what must.

Input: the state of a history, and the options of the turn. Output: terminals. All of it is read off
the grammar's states (`Format.model_writes`); a turn only forbids blocks on top.
"""

from mypt_infer.controller.draft import Draft
from mypt_infer.controller.history import History
from mypt_infer.controller.options import Options
from mypt_spec.states import empty_kinds, stop_tags
from mypt_spec.table import TEXT


class Allowed:
    """What may come next on a history.

    `calls` says whether the model may call tools. `forbidden_blocks` are the kinds of block that
    the model may not open in this turn.
    """

    def __init__(self, history: History, options: Options, *, calls: bool) -> None:
        self._history, self._options = history, options
        self._format, self._table = history.format, history.dialect.table
        self.forbidden_blocks = (frozenset() if calls else self._format.calls) | (
            self._format.thinking if options.think is False else frozenset()
        )
        closed = self.forbidden_blocks - empty_kinds(self._table)
        openers = {t.name for t in self._table.terminals.values() if t.opens in closed}
        self._writable = {s: names - openers for s, names in self._format.model_writes.items()}

    @property
    def writable(self) -> frozenset[str]:
        """Returns the terminals that the model may write now."""
        return self._writable[self._history.state]

    @property
    def result(self) -> bool:
        """Returns whether the result of a call may come now."""
        return self._format.awaits(self._history.state)

    def stops(self, state: int | None = None) -> set[int]:
        """Returns the ids at which the model stops here, or in a state; the next tag has them."""
        tags = stop_tags(self._history.dialect.automaton, self._table)
        return {self._table.special[t] for t in tags[state or self._history.state].values()}

    def header(self) -> str:
        """Returns the system's tag that opens a block of the model. Raises ValueError for none."""
        allowed = self._history.dialect.automaton.allowed(self._history.state)
        openers = [n for n in allowed - {TEXT} if self._table.terminals[n].body_by_model]
        if not openers:
            raise ValueError(
                f"the conversation does not end where the model may answer; expected {allowed}"
            )
        return min(openers)

    def prompted(self) -> list[str]:
        """Returns the tags of a thought that only prompts write; the closing tag if it is empty."""
        allowed = self._history.dialect.automaton.allowed(self._history.state)
        adapter = self._history.dialect.adapter
        options = {None: ({},), False: adapter.prompting, True: ()}[self._options.think]
        for kind in [kind for given in options[:1] for kind in adapter.prompted(given)]:
            if self._table.openers[kind].name in allowed:
                return [self._table.openers[kind].name, self._table.closers[kind].name]
        kinds = self._format.thinking - self.forbidden_blocks
        names = allowed - self.writable - {TEXT}
        return sorted(n for n in names if self._table.terminals[n].opens in kinds)[:1]

    @property
    def ended(self) -> bool:
        """Returns whether the turn is complete: the model has nothing left to write."""
        history, machine = self._history, self._history.dialect.automaton
        final = self._table.terminals.get(self._format.final)
        # The system may have to write a mark at the end of the conversation.
        closed = (
            final is not None and not final.by_model and final.name in machine.steps[history.state]
        )
        complete = (machine.accepting(history.state) or closed) and not history.open
        return complete and not self.writable

    def forced(self, draft: Draft) -> str:
        """Returns the tag that must come: the only one, or one that an option asks for; else ""."""
        if len(self.writable) == 1 and TEXT not in self.writable and not self.stops():
            return next(iter(self.writable))
        if self._thinks:
            block, limit = draft.block, self._options.max_think_tokens
            over = limit is not None and block is not None and draft.length(block) >= limit
            return self._way_out() if over else ""
        thinking = self._format.thinking
        if self._options.think and not any(block.kind in thinking for block in draft.open):
            openers = {self._table.openers[kind].name for kind in thinking}
            return min(openers & self.writable, default="")
        return ""

    def instead(self, name: str) -> str:
        """Returns the tag that comes in place of what the model writes; "" if it may stay.

        A tag that ends the turn while the model still thinks only ends the thinking. A mark that
        ends the conversation for good only closes the block, since a conversation continues. Where
        only a turn may follow the tag, the mark that ends the conversation comes instead.
        """
        terminal = self._table.terminals.get(name)
        if terminal is None:
            return ""
        if name not in self.writable:
            return self._way_out() if self._thinks and not terminal.opens else ""
        machine = self._history.dialect.automaton
        row = machine.steps[self._history.state]
        if name == self._format.earlier and row[name] in self._format.between:
            return "" if machine.accepting(row[name]) else self._format.final
        if not terminal.closes or machine.allowed(row[name]):
            return ""
        others = self.writable - {TEXT, name}
        closers = [n for n in others if terminal.closes in self._table.terminals[n].ends]
        late = {n for n in closers if row[n] in self._format.between}
        return min((n for n in closers if n not in late or machine.accepting(row[n])), default="")

    def leads_nowhere(self, token: int) -> bool:
        """Returns whether an id is a tag, or part of one, that the model may not write now."""
        tags = [tag for tag, number in self._table.special.items() if number == token]
        own_tags = [
            p.value for n in self.writable - {TEXT} for p in self._table.terminals[n].spelling
        ]
        return any(tag not in own_tags for tag in tags)

    @property
    def _thinks(self) -> bool:
        return bool(self._history.open) and self._history.open[-1] in self._format.thinking

    def _way_out(self) -> str:
        """Returns the one tag that ends the thinking; "" if thinking may not end yet."""
        tags = self.writable - {TEXT}
        return next(iter(tags)) if len(tags) == 1 else ""
