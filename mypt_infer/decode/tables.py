"""Packs a graph into allow tables: what each token does in each state (docs/decoding.md draws it).

Input: the graph of a dialect and its tools (compile/grammar_graph.py). Output: `Tables`, arrays.

Theory of operation. A state is an int. State 0 is dead: nothing may follow. A node that reads
structure is one state. A node that reads free content has a *leaf*, a byte automaton (text, a
JSON string, a number), and a state for each state of the leaf, side by side. Nodes share leaves, so
a leaf's rows are stored once, with targets relative to the node. Tokens that do the same in every
state share a *class*, which shrinks 50,304 columns to 268 in the example below. One step is

    then = after[row[state], classes[token]]
    next = base[state] + then  if then >= 0  else  exits[frame[state], -1 - then]

Inside a leaf, `base` is the node's first state, so `then` is a state of the leaf. A negative `then`
leaves the leaf: the column -1 - then of the node's `exits` holds the state after it, 0 where the
node refuses that exit. A state without a leaf takes few tokens of many, so its steps are `edges`: a
list of tokens and states. Last, a next state from where no legal ending can be reached (`distance`
is FAR) counts as dead.

In dialect gabgpt without tools, after "<|user|>Hi": state 1 has an edge for `<|assistant|>` that
leads to state 2, which has a leaf of text. `" Yo"` gives then = 1: state 2 + 1 = 3, at
distance 1. `<|end|>` gives then = -9: column 8 of the node's exits holds state 74, which is final.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.call_graph import Bodies
from mypt_infer.decode.compile.grammar_graph import (
    GrammarDfa,
    GrammarGraph,
    MakeBodies,
    names_in_tags,
)
from mypt_infer.decode.compile.nfa import HOLE, NO_BLOCK, Dfa
from mypt_infer.decode.compile.row_sets import RowSets
from mypt_infer.decode.compile.token_classes import TokenClasses, token_classes
from mypt_infer.decode.compile.token_table import FAR
from mypt_infer.decode.compile.vocab import Ints, Trie
from mypt_infer.decode.tools import ToolSpec
from mypt_spec import Dialect
from mypt_spec.memo import Memo

DEAD_STATE = 0


@dataclass(frozen=True, eq=False)
class Frame:
    """A node with a leaf: its first state, and the leaf's first column of exits.

    `away` is that of the leaf's Rows: int32, shape (states of the leaf, exits).
    """

    first: int
    column: int
    away: Ints

    @property
    def columns(self) -> slice:
        """Returns the columns of the leaf's exits."""
        return slice(self.column, self.column + self.away.shape[1])


@dataclass(frozen=True, eq=False)
class Edges:
    """The steps from states without a leaf, int32, in lists one after the other.

    The list of a state begins at `first[state]` and ends at `first[state + 1]`; that of a state
    with a leaf is empty. `token` is sorted within a list; `then` has the states after.
    """

    first: Ints
    token: Ints
    then: Ints

    @property
    def nbytes(self) -> int:
        return self.first.nbytes + self.token.nbytes + self.then.nbytes


@dataclass(frozen=True, eq=False)
class Tables:
    """All arrays of a decoder, int32. `size` counts states, `vocabulary` ids.

    Of shape (size,): `row`, `base`, `frame` (see above; without a leaf, `row` is the last one, in
    which nothing may follow), `final` (generation may end here), `block`
    (the budget that counts here), `owner` (the only tool that the state belongs to, -1 for none),
    `distance` (tokens to the nearest legal ending) and `to_close` (to the end of the block that has
    a budget). `classes` has shape (vocabulary,). `start` maps states of the grammar to states.
    `spine` holds sources, targets and tokens of all steps that begin at states without a leaf.
    `holes` maps the state at the start of a body that another engine reads to (the body's number,
    the state after it); `answers` are the grammar states with such a hole for an answer.
    """

    size: int
    vocabulary: int
    classes: Ints
    after: Ints
    exits: Ints
    edges: Edges
    row: Ints
    base: Ints
    frame: Ints
    final: npt.NDArray[np.bool_]
    block: Ints
    owner: Ints
    start: dict[int, int]
    frames: tuple[Frame, ...]
    spine: tuple[Ints, Ints, Ints]
    holes: dict[int, tuple[int, int]] = field(default_factory=dict)
    answers: frozenset[int] = frozenset()
    unfilled: Tables | None = None  # the same tables before `with_holes`
    shared: RowSets | None = None  # of all tables of the dialect

    @cached_property
    def rows(self) -> RowSets:
        """Returns the rows of all leaves as sets of ids."""
        return self.shared or RowSets(self.after, self.classes)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the arrays, with the lists that a decoder makes of them."""
        arrays = self.classes.nbytes + self.after.nbytes + self.exits.nbytes + self.edges.nbytes
        return arrays + self.size * 8 * self.row.itemsize

    def following(self, state: int) -> Ints:
        """Returns the next state for each class; DEAD_STATE if refused. Shape (classes,)."""
        if not self.frame[state]:
            ids, then = self.listed(state)
            out = np.zeros(self.after.shape[1], dtype=np.int32)
            out[self.classes[ids]] = then
            return out
        after = self.after[self.row[state]]
        found = np.where(
            after >= 0,
            self.base[state] + after,
            self.exits[self.frame[state], np.maximum(-1 - after, 0)],
        )
        return np.where(self.distance[found] < FAR, found, DEAD_STATE)

    def listed(self, state: int) -> tuple[Ints, Ints]:
        """Returns (ids, states) of all steps from a state without a leaf, the ids sorted."""
        begin, end = self.edges.first[state : state + 2]
        ids, then = self.edges.token[begin:end], self.edges.then[begin:end]
        alive = self.distance[then] < FAR
        return (ids, then) if alive.all() else (ids[alive], then[alive])

    def next(self, state: int, token: int) -> int:
        """Returns the next state, DEAD_STATE if the token is refused."""
        if not 0 <= token < self.vocabulary:
            return DEAD_STATE
        classes, after, row, base, exits, frame, distance, first, tokens, thens = self._views
        found: int
        if frame[state]:
            then = after[row[state], classes[token]]
            found = base[state] + then if then >= 0 else exits[frame[state], -1 - then]
        else:
            end = first[state + 1]
            at = bisect_left(tokens, token, first[state], end)
            found = thens[at] if at < end and tokens[at] == token else DEAD_STATE
        return found if distance[found] < FAR else DEAD_STATE

    @cached_property
    def _views(self) -> tuple[memoryview, ...]:
        """Returns views of the arrays: for single numbers, a view is several times as fast."""
        classes = [self.classes, self.after, self.row, self.base]
        edges = [self.edges.first, self.edges.token, self.edges.then]
        return tuple(a.data for a in [*classes, self.exits, self.frame, self.distance, *edges])

    def alive(self, state: int) -> bool:
        """Returns whether a legal ending can be reached from a state."""
        return bool(self.distance[state] < FAR)

    @cached_property
    def distance(self) -> Ints:
        """Returns the least number of tokens from each state to a legal ending."""
        return self.measure(self.final, above=self.unfilled.distance if self.unfilled else None)

    @cached_property
    def to_close(self) -> Ints:
        """Returns the least number of tokens from each state to the end of its block."""
        above = self.unfilled.to_close if self.unfilled else None
        return self.measure(self.outside, above=above)

    @property
    def outside(self) -> npt.NDArray[np.bool_]:
        """Returns for each state whether no block that has a budget is open."""
        outside: npt.NDArray[np.bool_] = self.block == NO_BLOCK
        outside[DEAD_STATE] = False
        return outside

    def measure(
        self,
        goal: npt.NDArray[np.bool_],
        *,
        avoided: npt.NDArray[np.bool_] | None = None,
        above: Ints | None = None,
    ) -> Ints:
        """Returns the least number of tokens from each state to a goal; FAR where there is no way.

        No way leads through a state of `avoided`. `above` are upper bounds of the result,
        measured before some distances shrank: leaves whose exits kept theirs are skipped.
        """
        found = np.where(goal, 0, FAR).astype(np.int32) if above is None else above.copy()
        avoided = np.zeros(self.size, bool) if avoided is None else avoided
        found[avoided] = FAR
        source, target, cost = self.spine
        seen = (
            {}
            if above is None
            else {i: above[self.exits[i + 1, f.columns]] for i, f in enumerate(self.frames)}
        )
        while True:
            before = found.copy()
            np.minimum.at(found, source, np.minimum(before[target] + cost, FAR))
            for i, frame in enumerate(self.frames):
                beyond = before[self.exits[i + 1, frame.columns]]
                if i not in seen or (seen[i] != beyond).any():
                    seen[i] = beyond
                    own = found[frame.first : frame.first + len(frame.away)]
                    np.minimum(own, (frame.away + beyond).min(axis=1, initial=FAR), out=own)
            found[avoided] = FAR
            if (found == before).all():
                return found

    def with_holes(self, least: Mapping[int, int] | Sequence[int]) -> Tables:
        """Returns these tables with holes filled: body i takes at least `least[i]` tokens."""
        source, target, cost = self.spine
        cost = cost.copy()
        for state, (body, _) in self.holes.items():
            cost[source == state] = least[body]
        out = replace(self, spine=(source, target, cost), unfilled=self.unfilled or self)
        vars(out)["members"] = self.members  # the classes are the same
        return out

    # What a decoder reads again and again.

    @cached_property
    def members(self) -> tuple[Ints, Ints]:
        """Returns ids by class, (vocabulary,), and where each class begins, (classes + 1,)."""
        order = np.argsort(self.classes, kind="stable").astype(np.int32)
        return order, np.searchsorted(
            self.classes[order], np.arange(self.after.shape[1] + 1)
        ).astype(np.int32)

    @cached_property
    def lists(self) -> tuple[list[int], list[int], list[int]]:
        """Returns `block`, `distance` and `to_close` as lists: faster for single numbers."""
        return self.block.tolist(), self.distance.tolist(), self.to_close.tolist()


# The bytes of all tables that are kept.
_ROOM = 64 << 20
_built = Memo[tuple[str, str], Tables](32, room=_ROOM)


def build(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    bodies: MakeBodies = Bodies,
    forbidden_blocks: frozenset[str] = frozenset(),
    *,
    response: bool = False,
) -> Tables:
    """Returns the tables of a dialect and some tools; no block of `forbidden_blocks` may open.

    Keeps the tables built last. Raises SchemaFault for tools that tables cannot hold. `bodies`
    makes the graphs of calls; those of another engine hold nothing of the tools but their names,
    and these only where a tag has them. With `response`, the answer's text is a hole.
    """
    known: object = [(t.name, t.schema) for t in tools]
    if bodies is not Bodies:
        known = [t.name for t in tools] if names_in_tags(dialect) else bool(tools)
    key = (dialect.fingerprint, repr((bodies.__name__, known, sorted(forbidden_blocks), response)))
    found = _built.known.get(key)
    if found is None:
        grammar = GrammarGraph(dialect, tools, bodies, forbidden_blocks, response=response).build()
        found = tables_of(grammar, token_classes(dialect, grammar.text))
        _built.keep(key, found, found.nbytes)
    return found


def tables_of(grammar: GrammarDfa, leaves: TokenClasses) -> Tables:
    """Returns the tables of a graph."""
    return _Builder(grammar, leaves).tables()


class _Builder:
    def __init__(self, grammar: GrammarDfa, leaves: TokenClasses) -> None:
        self.grammar, self.leaves, self.dfa = grammar, leaves, grammar.dfa
        sizes = [1 if n.leaf is None else n.leaf.states for n in self.dfa.nodes]
        self.first = np.cumsum([1, *sizes])[:-1].tolist()
        self.size = 1 + sum(sizes)

    def _state(self, place: tuple[int, int] | None) -> int:
        return DEAD_STATE if place is None else self.first[place[0]] + place[1]

    def tables(self) -> Tables:
        leaves, dfa, size = self.leaves, self.dfa, self.size
        spine = {
            i: dict(_reading(dfa, i, leaves.vocabulary.trie))
            for i, n in enumerate(dfa.nodes)
            if n.leaf is None
        }
        own = sorted({t for row in spine.values() for t in row})
        classes, columns = leaves.classes.copy(), leaves.columns
        split = np.arange(len(own)) + columns.shape[1]
        after = np.full((len(columns) + 1, columns.shape[1] + len(own)), -1, dtype=np.int32)
        after[: len(columns), : columns.shape[1]] = columns
        after[: len(columns), columns.shape[1] :] = columns[:, classes[own]]
        classes[own] = split
        arrays = {
            name: np.zeros(size, dtype=np.int32) for name in ("row", "base", "frame", "block")
        }
        row, base, frame, block = arrays.values()
        owner, final = np.full(size, -1, dtype=np.int32), np.zeros(size, bool)
        row[:] = len(columns)
        frames: list[Frame] = []
        exits = [np.zeros(1 + len(leaves.exits), dtype=np.int32)]
        spine_: list[tuple[int, int, int]] = []
        holes: dict[int, tuple[int, int]] = {}
        for i, node in enumerate(dfa.nodes):
            first = self.first[i]
            if node.leaf is None:
                spine_ += [
                    (first, then, 1) for then in {self._state(place) for place in spine[i].values()}
                ]
                for symbol, place in node.edges.items():
                    if symbol[0] == HOLE:
                        holes[first] = int(symbol[1]), self._state(place)
                        spine_.append((first, self._state(place), FAR))
                last = first + 1
            else:
                last = first + node.leaf.states
                name = node.leaf.name
                frames.append(Frame(first, 1 + leaves.first_exit[name], leaves.rows[name].away))
                row[first:last] = leaves.first_row[name] + np.arange(node.leaf.states)
                base[first:last], frame[first:last] = first, len(frames)
                exits.append(self._exits(i, name))
            block[first:last], owner[first:last], final[first] = node.block, node.owner, node.final
        start = {state: self.first[node] for state, node in self.grammar.starts.items()}
        steps = np.array(spine_, dtype=np.int32).reshape(-1, 3)
        return Tables(
            size, leaves.vocabulary.size, classes, after, np.array(exits), self._edges(spine),
            row, base, frame, final, block, owner, start,
            tuple(frames), (steps[:, 0], steps[:, 1], steps[:, 2]), holes, self.grammar.answers,
            shared=leaves.sets,
        )  # fmt: skip

    def _edges(self, spine: dict[int, dict[int, tuple[int, int]]]) -> Edges:
        """Returns the steps of nodes without a leaf: by node, the place after each token."""
        counts = np.zeros(self.size + 1, dtype=np.int32)
        tokens: list[int] = []
        thens: list[int] = []
        for i, row in spine.items():  # in the order of states
            counts[self.first[i] + 1] = len(row)
            for token in sorted(row):
                tokens.append(token)
                thens.append(self._state(row[token]))
        return Edges(
            np.cumsum(counts, dtype=np.int32),
            np.array(tokens, dtype=np.int32),
            np.array(thens, dtype=np.int32),
        )

    def _exits(self, node: int, leaf: str) -> Ints:
        """Returns the states after a leaf's exits; 0 where the node has no edge for an exit."""
        out = np.zeros(1 + len(self.leaves.exits), dtype=np.int32)
        first = 1 + self.leaves.first_exit[leaf]
        for i, (symbol, rest) in enumerate(self.leaves.rows[leaf].exits):
            out[first + i] = self._state(
                self.dfa.walk(self.dfa.nodes[node].edges.get(symbol), rest)
            )
        return out


def _reading(dfa: Dfa, node: int, trie: Trie) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yields the tokens that a node without a leaf can read, and where they lead."""
    for symbol, place in dfa.nodes[node].edges.items():
        if symbol[0] == "id":
            yield int(symbol[1]), place
    queue = [(trie, (node, 0))]
    while queue:
        tree, place = queue.pop()
        steps = dfa.nodes[place[0]]
        bytes_ = (
            tree.bytes
            if steps.leaf is not None
            else [int(b) for kind, b in steps.edges if kind == "byte"]
        )
        for byte in bytes_:
            below = tree.below(byte)
            then = dfa.step(place, byte) if below is not None else None
            if below is not None and then is not None:
                yield from ((token, then) for token in below.ids)
                queue.append((below, then))
