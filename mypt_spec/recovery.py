"""Finds the cheapest repair of a refused event, so that one mistake is one finding.

The input is the events, the position of the refused event and the automaton's state there; the
output is a `Repair`, with which the validator continues. It changes no data.

Theory of operation. People and models make few mistakes, and some more often than others: a
forgotten closing tag is likelier than a missing opening tag. So each edit has a cost, and
Dijkstra's algorithm finds the edits that explain the events at the least total cost. A node is a
state of the automaton and a position in the events. Its edges either read the event at that
position, at no cost, or edit: insert a tag, a text or a whole block; delete an event or a whole
block; replace a closing tag by another; unwrap a block (delete both of its tags); hoist a block out
of the block around it; or forget what the innermost block held so far. The search ends once the
next few events (`HORIZON`) are explained, because a repair that explains only one event often moves
the error to the next.

Only the edits before the next event that is read are returned. Those further on belong to a later
mistake, which gets its own search.

In the example, `<myPT_assistant>` (event 5) is refused in state 7, inside `user`. Inserting
`</myPT_user>` costs 1.0, and the rest then reads at no cost. Deleting the event costs 1.0 as well,
but leaves `</myPT_assistant>` to be explained:

>>> import mypt_spec
>>> d = mypt_spec.dialect("mypt")
>>> events = d.lex("<myPT_system>S</myPT_system><myPT_user>Hi"
...                "<myPT_assistant>Yo</myPT_assistant><myPT_eot>")
>>> RepairSearch(events, 5, 7, "user", d.table, d.automaton, spaces=True).cheapest().inserts
[(5, 'USER_CLOSE')]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from mypt_spec.automaton import Automaton
from mypt_spec.episode import Event
from mypt_spec.states import open_blocks
from mypt_spec.table import TEXT, Terminal, TokenTable

HORIZON = 8  # events after the fault that a repair must explain
BLOCK_REACH = 40  # events within which the other tag of a block is looked for
MAX_COST = 9.0
# Costs of inserting a terminal: a forgotten closing tag is the likeliest mistake.
_CLOSER, _TEXT, _MARK, _OPENER = 1.0, 1.1, 1.2, 2.0
_DELETE, _UNWRAP, _HOIST, _REPLACE, _FORGET, _BLOCK = 1.0, 1.2, 1.3, 1.3, 1.5, 1.5
# Costs of deleting a whole block, and of each event in it: the longer a block, the rather it is
# explained than deleted.
_SKIP, _SKIPPED = 0.8, 0.15


@dataclass(slots=True)
class Repair:
    """What to do where an event was refused. Positions count events.

    `inserts` are (position, terminal); `deletes` are positions; `replaces` maps positions to
    terminals. `state`, unless None, is where to continue; what the block held so far is forgotten.
    """

    inserts: list[tuple[int, str]] = field(default_factory=list)
    deletes: set[int] = field(default_factory=set)
    replaces: dict[int, str] = field(default_factory=dict)
    state: int | None = None

    def adds(self, terminal: Terminal | None) -> bool:
        """Returns whether the repair inserts this terminal where the fault is."""
        return terminal is not None and any(
            name == terminal.name for pos, name in self.inserts if pos == self.inserts[0][0]
        )


# Edits as (what to do, position, terminal); of "forget", the number is the state to go on in.
_Edits = tuple[tuple[str, int, str], ...]
# State, position, and the position of a closing tag that is to be deleted (-1: none).
_Node = tuple[int, int, int]
_Edge = tuple[float, _Node, _Edits]


class RepairSearch(NamedTuple):
    """A search for the repair of event `at`, refused in `state` inside of block `inside`.

    `inside` is "" between blocks. With `spaces`, white space between blocks means nothing.
    """

    events: Sequence[Event]
    at: int
    state: int
    inside: str
    table: TokenTable
    automaton: Automaton
    spaces: bool

    def cheapest(self) -> Repair:
        """Returns the cheapest repair; where none is cheap enough, it deletes the event, if any."""
        last = len(self.events)
        end = _closing(self.events, self.at, self.table)
        goal = min(last, max(self.at + HORIZON, (end or self.at) + HORIZON // 2))
        order = count()  # of equal costs, the edge found first: `_edges` has likelier repairs first
        start: _Node = (self.state, self.at, -1)
        queue: list[tuple[float, int, _Node, _Edits, bool]] = [(0.0, next(order), start, (), False)]
        done: set[_Node] = set()
        while queue:
            cost, _, node, edits, shut = heappop(queue)
            if node in done:
                continue
            done.add(node)
            if node[1] >= goal and (node[1] < last or node[0] in self.automaton.accepts):
                return _commit(edits)
            for extra, following, edit in self._edges(node, goal):
                if cost + extra <= MAX_COST and following not in done:
                    # Edits after the first event that is read belong to a later fault, which gets
                    # its own search.
                    after = edits if shut else edits + edit
                    item = cost + extra, next(order), following, after, shut or not edit
                    heappush(queue, item)
        return Repair(deletes={self.at}) if self.at < last else Repair()

    def _edges(self, node: _Node, goal: int) -> Iterator[_Edge]:
        state, pos, pending = node
        steps = self.automaton.steps[state]
        if pos < len(self.events):
            if pos == pending:
                yield 0.0, (state, pos + 1, -1), ()
                return
            event = self.events[pos]
            if event.terminal in steps:
                yield 0.0, (steps[event.terminal], pos + 1, pending), ()
            elif pos == self.at and state == self.state:
                for other in _alike(self.automaton, self.table, state):
                    if event.terminal in self.automaton.steps[other]:
                        yield _FORGET, (other, pos, pending), (("forget", other, ""),)
            gap = self.spaces and event.blank and TEXT not in steps
            if gap and not open_blocks(self.automaton, self.table)[state]:
                yield 0.0, (state, pos + 1, pending), ()
        yield from self._inserts(state, pos, pending)
        if pos < len(self.events):
            yield from self._deletes(state, pos, pending, goal)

    def _inserts(self, state: int, pos: int, pending: int) -> Iterator[_Edge]:
        for name, following in self.automaton.steps[state].items():
            terminal = self.table.terminals.get(name)
            edit = ("insert", pos, name)
            if terminal is None:
                yield _TEXT, (following, pos, pending), (edit,)
                continue
            price = _CLOSER if terminal.closes else _OPENER if terminal.opens else _MARK
            yield price, (following, pos, pending), (edit,)
            if terminal.opens in self.table.closers:
                block = [name, TEXT, self.table.closers[terminal.opens].name]
                after = self.automaton.run(block, state)
                if after is not None:
                    yield _BLOCK, (after, pos, pending), tuple(("insert", pos, n) for n in block)
            if terminal.closes and pending < 0:
                # One that comes before its block opens again becomes stray.
                openers = {self.table.openers[kind].name for kind in terminal.ends}
                stray = _first(self.events, pos, pos, terminal.name, openers)
                if stray is not None:
                    yield _UNWRAP, (following, pos, stray), (edit, ("delete", stray, ""))

    def _deletes(self, state: int, pos: int, pending: int, goal: int) -> Iterator[_Edge]:
        event, table = self.events[pos], self.table
        yield _DELETE, (state, pos + 1, pending), (("delete", pos, ""),)
        terminal = table.terminals.get(event.terminal)
        if terminal is not None and terminal.closes:
            for other, following in self.automaton.steps[state].items():
                if other in table.terminals and table.terminals[other].closes:
                    yield _REPLACE, (following, pos + 1, pending), (("replace", pos, other),)
        end = _closing(self.events, pos, table)
        if end is None or end >= goal or pending >= 0:
            return
        block = range(pos, end + 1)
        skipped = tuple(("delete", p, "") for p in block)
        yield _SKIP + _SKIPPED * len(block), (state, end + 1, -1), skipped
        yield _UNWRAP, (state, pos + 1, end), (("delete", pos, ""), ("delete", end, ""))
        if pos == self.at and self.inside in table.closers:
            closer, opener = table.closers[self.inside].name, table.openers[self.inside].name
            names = [closer, *(self.events[p].terminal for p in block), opener]
            after = self.automaton.run(names, state)
            if after is not None:
                edits = (("insert", pos, closer), ("insert", end + 1, opener))
                yield _HOIST, (after, end + 1, -1), edits


def _commit(edits: _Edits) -> Repair:
    out = Repair()
    for kind, number, name in edits:
        if kind == "insert":
            out.inserts.append((number, name))
        elif kind == "delete":
            out.deletes.add(number)
        elif kind == "forget":
            out.state = number
        else:
            out.replaces[number] = name
    return out


def _closing(events: Sequence[Event], at: int, table: TokenTable) -> int | None:
    """Returns where the closing tag of the block that the event at `at` opens is, when near."""
    if at >= len(events):
        return None
    terminal = table.terminals.get(events[at].terminal)
    closer = table.closers.get(terminal.opens) if terminal is not None else None
    if terminal is None or closer is None:
        return None
    return _first(events, at, at + 1, closer.name, {terminal.name})


def _first(events: Sequence[Event], at: int, start: int, name: str, but: set[str]) -> int | None:
    """Returns where a terminal comes first from `start` on, near `at` and before those of `but`."""
    for pos in range(start, min(len(events), at + BLOCK_REACH)):
        if events[pos].terminal == name:
            return pos
        if events[pos].terminal in but:
            return None
    return None


def _alike(automaton: Automaton, table: TokenTable, state: int) -> list[int]:
    """Returns the other states in which the same blocks are open."""
    stacks = open_blocks(automaton, table)
    return [s for s, stack in stacks.items() if s != state and stack == stacks[state]]
