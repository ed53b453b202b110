"""Runs events through the automaton and names what it refuses: the rules of family 2.

Input are events of a text, of ids or of a record; output is an `Outcome`: the events that were
read, and findings. The automaton alone decides legality; here a refusal only gets its name.

Theory of operation. Each event is one step of the automaton. Most conversations take every step,
and `Run._straight` is all that runs. At an event that the state does not allow there are four
cases:

- White space between blocks means nothing: it is kept as a gap.
- A `[[mistake]]` row of the token table that is no error names it: it is reported and skipped.
- Any other refusal is an error. `name_refusal` gives it a code and help: MYP211, MYP212 and MYP214
  where a block is not closed, not open or empty; else by the first `[[mistake]]` row that fits;
  else MYP220. The finding always has the exact set of what was expected.
- After 25 errors the rest is left unchecked, and MYP299 says so.

A reader that only skipped the refused event would refuse most of what follows. So `recovery` finds
the cheapest repair, the run goes on as if it was made, and one mistake is one finding. Here the
user block is not closed, so `<myPT_assistant>` is refused in state 7. The repair inserts
`</myPT_user>`, which leads to state 9, where `<myPT_assistant>` is legal:

>>> import mypt_spec
>>> d = mypt_spec.dialect("mypt")
>>> text = ("<myPT_system>S</myPT_system><myPT_user>Hi"
...         "<myPT_assistant>Yo</myPT_assistant><myPT_eot>")
>>> outcome = Run(d.table, d.automaton).check(d.lex(text))
>>> [(f.code, f.expected) for f in outcome.findings]
[('MYP211', ('text', '</myPT_user>'))]
>>> outcome.before[5], d.automaton.accepting(outcome.state)
(9, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mypt_spec.automaton import Automaton
from mypt_spec.bodies.strict_json import shortened
from mypt_spec.episode import Event, Place
from mypt_spec.findings import RULES, Finding, Fix
from mypt_spec.recovery import Repair, RepairSearch
from mypt_spec.states import after_tag, before_tag, open_blocks
from mypt_spec.table import END, STRAY, TEXT, Mistake, TokenTable

MAX_FAULTS = 25


@dataclass(slots=True)
class Outcome:
    """What a run over events found.

    `events` are those that were read, without white space between blocks, which is in `gaps`.
    `state` is where the automaton ended, `inside` the innermost block still open, and `last` the
    block or mark read last between blocks. `before` maps the position of each event that was not
    skipped to the state in which it was read or refused.
    """

    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    state: int = 0
    inside: str = ""
    last: str | None = ""
    gaps: list[Event] = field(default_factory=list)
    before: dict[int, int] = field(default_factory=dict)


class Run:
    """One pass over events.

    `complete=False` accepts any legal prefix; `spaces=False` allows nothing between blocks.
    """

    def __init__(
        self, table: TokenTable, automaton: Automaton, *, spaces: bool = True, complete: bool = True
    ) -> None:
        self.table, self.automaton, self.spaces, self.complete = table, automaton, spaces, complete
        self.open: tuple[str, ...] = ()
        self.last: str | None = ""  # the block or mark read last between blocks; None: unknown
        self.out = Outcome(state=automaton.start)

    def start_at(self, state: int, last: str | None) -> Run:
        """Makes the run begin in the middle of a conversation. Returns the run."""
        self.out.state, self.last = state, last
        self.open = open_blocks(self.automaton, self.table)[state]
        return self

    def check(self, events: Sequence[Event], most: int = MAX_FAULTS) -> Outcome:
        """Returns the outcome of a pass over events, up to `most` errors. A `Run` checks once."""
        repair = Repair()
        at, errors = self._straight(events), 0
        while True:
            for pos, name in [i for i in repair.inserts if i[0] == at] if repair.inserts else ():
                self._advance(Event(name, "", events[at].at if at < len(events) else Place()))
                repair.inserts.remove((pos, name))
            if at < len(events) and at in repair.deletes:
                at += 1
                continue
            if at == len(events):
                if not self.complete or self.automaton.accepting(self.out.state):
                    break
                event = Event(END, "", _end_place(events))
            else:
                event = events[at]
                if at in repair.replaces:
                    event = event._replace(terminal=repair.replaces[at])
            self.out.before[at] = self.out.state
            if event.terminal in self.automaton.steps[self.out.state]:
                self._advance(event)
                self.out.events.append(event)
                at += 1
            elif self.spaces and not self.open and event.blank:
                self.out.gaps.append(event)
                at += 1
            elif at < len(events) and (harmless := self._harmless_finding(events, at)) is not None:
                self.out.findings.append(harmless)
                at += 1
            elif errors >= most:
                message = f"{most} misplaced tags in one episode"
                message += "; the rest of it was not checked"
                self.out.findings.append(Finding("MYP299", message, *event.at))
                break
            else:
                state, table, machine = self.out.state, self.table, self.automaton
                search = RepairSearch(events, at, state, self.inside, table, machine, self.spaces)
                repair = search.cheapest()
                errors += 1
                if at < len(events) or self.out.events or not self.out.findings:
                    self.out.findings.append(self._name(event, repair))
                if at == len(events):
                    break
                if repair.state is not None:
                    self.out.state = repair.state
        self.out.inside, self.out.last = self.inside, self.last
        return self.out

    def _straight(self, events: Sequence[Event]) -> int:
        """Reads events until one is refused. Returns its position, or the number of events."""
        out, steps, at = self.out, self.automaton.steps, 0
        for at, event in enumerate(events):
            if event.terminal not in steps[out.state]:
                break
            out.before[at] = out.state
            self._advance(event)
        else:
            at = len(events)
        out.events += events[:at]
        return at

    @property
    def inside(self) -> str:
        """Returns the innermost open block, "" between blocks."""
        return self.open[-1] if self.open else ""

    def _harmless_finding(self, events: Sequence[Event], at: int) -> Finding | None:
        """Returns the finding about a refused event that is named by a row below error.

        None for any other event. Only an event between a run of content and a tag that may follow
        it is harmless: elsewhere, to skip it could hide what is really wrong.
        """
        event = events[at]
        if at + 1 == len(events) or event.terminal == TEXT or events[at + 1].terminal == TEXT:
            return None
        expected = self.automaton.expected(self.out.state)
        row = mistake_of(event, expected, self.inside, self.last, self.table)
        harmless = row is not None and RULES[row.code].severity != "error"
        if row is None or not harmless or events[at + 1].terminal not in expected:
            return None
        fix = None
        if not event.at.pointer and event.at.span is not None:
            fix = Fix("delete it", True, edits=((*event.at.span, ""),))
        message = _sentence(event, self.inside, self.last, self.table)
        return Finding(row.code, message, *event.at, self.table.describe(expected), row.help, fix)

    def _advance(self, event: Event) -> None:
        self.out.state = self.automaton.steps[self.out.state][event.terminal]
        terminal = self.table.terminals.get(event.terminal)
        if terminal is None:
            return
        stack = before_tag(self.open, self.table, terminal)
        if len(stack) < len(self.open):
            self.last = self.open[len(stack)]
        if not terminal.opens:
            by_name = terminal.mark or not terminal.closes
            self.last = event.terminal.lower() if by_name else stack[-1]
        self.open = after_tag(self.open, terminal, self.table)

    def _name(self, event: Event, repair: Repair) -> Finding:
        expected, inside, table = self.automaton.expected(self.out.state), self.inside, self.table
        code, message, hint = name_refusal(event, expected, inside, self.last, repair, table)
        at = event.at
        if code == "MYP214" and inside and inside not in table.closers and self.out.events:
            at = self.out.events[-1].at  # no closing tag to point to: the tag that opens it
        return Finding(code, message, *at, table.describe(expected), hint)


def mistake_of(
    event: Event,
    expected: frozenset[str],
    inside: str,
    last: str | None,
    table: TokenTable,
    *,
    lesser: bool = True,
) -> Mistake | None:
    """Returns the first row that names a refused event. Without `lesser`, only errors count."""
    for row in table.mistakes:
        if (
            row.terminal in ("", event.terminal)
            and (row.inside is None or inside in row.inside)
            and (row.after is None or last in row.after)
            and (not row.expected or row.expected in expected)
            and (lesser or RULES[row.code].severity == "error")
        ):
            return row
    return None


def name_refusal(
    event: Event,
    expected: frozenset[str],
    inside: str,
    last: str | None,
    repair: Repair,
    table: TokenTable,
) -> tuple[str, str, str]:
    """Returns (code, message, help) for an event that is refused inside of block `inside`.

    `expected` is what would have been legal, `last` the block or mark before the event between
    blocks ("" at the start, None if unknown), and `repair` what was found for it.
    """
    if event.terminal == STRAY:
        openers = [t for t in table.terminals.values() if t.opens]
        tags = ", ".join(t.shown for t in openers if t.bare.startswith(event.text))
        hint = f"tags that begin with it: {tags}" if tags else "delete it"
        return "MYP240", f"`{event.text}` alone is not a tag", hint
    terminal = table.terminals.get(event.terminal)
    message = _sentence(event, inside, last, table)
    around = table.closers.get(inside)
    if terminal is not None and terminal.closes:
        if inside in terminal.ends:
            row = mistake_of(event, expected, inside, last, table, lesser=False)
            if row is not None and row.expected:
                return row.code, message, row.help
            missing = "text" if TEXT in expected else "complete content"
            message = f"`{table.openers[inside].shown}` holds no {missing}"
            return "MYP214", message, "give it content, or delete the block"
        if around is not None and repair.adds(around):
            return "MYP211", _unclosed(event, inside, table), f"write `{around.shown}` before it"
        intended = table.terminals.get(next(iter(repair.replaces.values()), ""))
        hint = "delete it, or open its block before"
        if intended is not None:
            hint = f"did you mean `{intended.shown}`?"
            if intended.shown == terminal.shown:
                hint = f"this block ends with {intended.spell()!r}, line ends and all"
        return "MYP212", f"`{terminal.shown}` closes nothing here", hint
    if inside and around is None and expected == {TEXT}:
        message = f"`{table.openers[inside].shown}` holds no text"
        return "MYP214", message, "give it content, or delete it"
    row = mistake_of(event, expected, inside, last, table, lesser=False)
    if row is not None:
        return row.code, message, row.help
    if around is not None and (event.terminal == END or repair.adds(around)):
        hint = f"write `{around.shown}` where the block ends"
        return "MYP211", _unclosed(event, inside, table), hint
    return "MYP220", message, ""


def _unclosed(event: Event, inside: str, table: TokenTable) -> str:
    words = {END: "the text ends", TEXT: "text comes"}
    where = words.get(event.terminal) or f"`{table.terminals[event.terminal].shown}` comes"
    return f"`{table.openers[inside].shown}` is still open where {where}"


def _sentence(event: Event, inside: str, last: str | None, table: TokenTable) -> str:
    after = "at the start" if last == "" else "here"
    if inside:
        after = f"inside `{table.openers[inside].shown}`"
    elif last:
        tag = table.closers.get(last) or table.openers.get(last) or table.marks[last]
        after = f"after `{tag.shown}`"
    if event.terminal == END:
        return f"the conversation ends {after}" if inside or last else "the conversation is empty"
    if event.terminal == TEXT:
        return f"text {after}: {shortened(event.text, 40)!r}"
    terminal = table.terminals[event.terminal]
    verb = "opens" if terminal.opens else "stands"
    return f"`{terminal.shown}` {verb} {after}"


def _end_place(events: Sequence[Event]) -> Place:
    """Returns where to report a missing rest: the end of the text, or a record's last message."""
    place = events[-1].at if events else Place()
    return Place("", (place.span[1],) * 2) if place.span and not place.pointer else place
