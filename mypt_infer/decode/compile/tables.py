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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.base.vocab import Ints, Trie
from mypt_infer.decode.compile.call_graph import Bodies, Part
from mypt_infer.decode.compile.grammar_graph import GrammarDfa, GrammarGraph, names_in_tags
from mypt_infer.decode.compile.nfa import CALLING, HOLE, NO_BLOCK, NfaError, TooLarge
from mypt_infer.decode.compile.pieces import OUT, Piece, PieceGraph, Reads, piece_of, tokens_from
from mypt_infer.decode.compile.row_sets import RowSets
from mypt_infer.decode.compile.token_classes import TokenClasses, token_classes
from mypt_infer.decode.compile.token_table import FAR
from mypt_spec import Dialect
from mypt_spec.memo import Memo

DEAD_STATE = 0
# `block`, `distance`, `to_close` and `final` of all states.
Lists = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[bool, ...]]
# More bits than an id of any vocabulary needs.
_TOKEN_BITS = 20


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
        states = np.where(
            after >= 0,
            self.base[state] + after,
            self.exits[self.frame[state], np.maximum(-1 - after, 0)],
        )
        return np.where(self.distance[states] < FAR, states, DEAD_STATE)

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
        target: int
        if frame[state]:
            then = after[row[state], classes[token]]
            target = base[state] + then if then >= 0 else exits[frame[state], -1 - then]
        else:
            end = first[state + 1]
            at = bisect_left(tokens, token, first[state], end)
            target = thens[at] if at < end and tokens[at] == token else DEAD_STATE
        return target if distance[target] < FAR else DEAD_STATE

    @cached_property
    def _views(self) -> tuple[memoryview, ...]:
        """Returns views of the arrays: for single numbers, a view is several times as fast."""
        classes = [self.classes, self.after, self.row, self.base]
        edges = [self.edges.first, self.edges.token, self.edges.then]
        return tuple(a.data for a in [*classes, self.exits, self.frame, self.distance, *edges])

    def facts(self, states: Ints) -> tuple[Ints, Ints, Ints]:
        return self.block[states], self.distance[states], self.to_close[states]

    def alive(self, state: int) -> bool:
        """Returns whether a legal ending can be reached from a state."""
        return bool(self.distance[state] < FAR)

    @cached_property
    def distance(self) -> Ints:
        """Returns the least number of tokens from each state to a legal ending."""
        return self.measure(self.final)

    @cached_property
    def to_close(self) -> Ints:
        """Returns the least number of tokens from each state to the end of its block."""
        return self.measure(self.outside)

    @property
    def outside(self) -> npt.NDArray[np.bool_]:
        """Returns for each state whether no block that has a budget is open."""
        outside: npt.NDArray[np.bool_] = self.block == NO_BLOCK
        outside[DEAD_STATE] = False
        return outside

    def measure(
        self, goal: npt.NDArray[np.bool_], avoided: npt.NDArray[np.bool_] | None = None
    ) -> Ints:
        """Returns the least number of tokens from each state to a goal; FAR where there is no way.

        No way leads through a state of `avoided`. Frames of one leaf are counted together, and only
        those whose exits have come nearer.
        """
        distances = np.where(goal, 0, FAR).astype(np.int32)
        avoided = np.zeros(self.size, bool) if avoided is None else avoided
        distances[avoided] = FAR
        source, target, cost = self.spine
        by_leaf: dict[int, list[tuple[Frame, Ints]]] = {}
        for frame, exits in zip(self.frames, self.exits[1:], strict=True):
            by_leaf.setdefault(id(frame.away), []).append((frame, exits[frame.columns]))
        leaves = []
        for frames in by_leaf.values():
            ends, away = np.array([exits for _, exits in frames]), frames[0][0].away
            states = np.array([[frame.first] for frame, _ in frames]) + np.arange(len(away))
            leaves.append((states, ends, away, np.full(ends.shape, FAR, dtype=np.int32)))
        while True:
            before = distances.copy()
            np.minimum.at(distances, source, np.minimum(before[target] + cost, FAR))
            for states, ends, away, previous in leaves:
                beyond = before[ends]
                nearer = np.flatnonzero((beyond != previous).any(axis=1))
                if not len(nearer):
                    continue
                previous[:] = beyond
                inner, beyond = states[nearer], beyond[nearer]
                open_exits = np.flatnonzero((beyond < FAR).any(axis=0))
                least = (away[:, open_exits] + beyond[:, None, open_exits]).min(axis=2, initial=FAR)
                distances[inner] = np.minimum(distances[inner], least)
            distances[avoided] = FAR
            if (distances == before).all():
                return distances

    def with_holes(self, least: Mapping[int, int] | Sequence[int]) -> Tables:
        """Returns these tables with holes filled: body i takes at least `least[i]` tokens."""
        source, target, cost = self.spine
        cost = cost.copy()
        for state, (body, _) in self.holes.items():
            cost[source == state] = least[body]
        out = replace(self, spine=(source, target, cost))
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
    def lists(self) -> Lists:
        """Returns `block`, `distance`, `to_close` and `final`: faster for single numbers.

        They are tuples, at which the collector of garbage looks once, not each time.
        """
        block, distance, to_close = (
            tuple(array.tolist()) for array in (self.block, self.distance, self.to_close)
        )
        return block, distance, to_close, tuple(self.final.tolist())


# The bytes of all tables that are kept.
_ROOM = 64 << 20
_built = Memo[tuple[str, str], Tables](32, room=_ROOM)


def build(
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    forbidden_blocks: frozenset[str] = frozenset(),
    *,
    holes: bool = False,
    response: bool = False,
) -> Tables:
    """Returns the tables of a dialect and some tools; no block of `forbidden_blocks` may open.

    Keeps the tables built last, and of each tool what does not depend on the others. Raises
    SchemaFault for tools that tables cannot hold. With `holes`, each body of a call is a hole: then
    the tables hold nothing of the tools but their names, and these only where a tag has them. With
    `response`, the answer's text is a hole.
    """
    tool_key: object = [(t.name, t.schema) for t in tools]
    if holes:
        tool_key = [t.name for t in tools] if names_in_tags(dialect) else bool(tools)
    key = (dialect.fingerprint, repr((holes, tool_key, sorted(forbidden_blocks), response)))
    entry = _built.entries.get(key)
    if entry is None:

        def tables_with(parts: list[tuple[Bodies, Part]] | None) -> Tables:
            graph = GrammarGraph(
                dialect, tools, forbidden_blocks, holes=holes, response=response, parts=parts
            )
            grammar = graph.build()
            leaves = token_classes(dialect, grammar.text)
            pieces = [(piece_of(dialect.fingerprint, *p, leaves), p[1].tool) for p in parts or ()]
            return tables_of(grammar, leaves, pieces)

        try:
            entry = tables_with([])
        except NfaError:  # where a call goes on is not told by its name alone
            if holes:
                raise
            entry = tables_with(None)
        except TooLarge as error:
            name = max(tools, key=lambda tool: len(repr(tool.schema))).name
            raise SchemaFault(
                name, "", f"{error}; shorten its lists of values, or use the engine llguidance"
            ) from None
        _built.keep(key, entry, entry.nbytes)
    return entry


def tables_of(
    grammar: GrammarDfa, leaves: TokenClasses, pieces: Sequence[tuple[Piece, int]] = ()
) -> Tables:
    """Returns the tables of a graph; `pieces` are those that it has left out, and their tools."""
    return _Builder(grammar, leaves, PieceGraph(grammar.dfa, pieces)).tables()


class _Builder:
    """Packs a graph: the states of its own nodes come first, then those of each piece."""

    def __init__(self, grammar: GrammarDfa, leaves: TokenClasses, graph: PieceGraph) -> None:
        self.grammar, self.leaves, self.graph, self.dfa = grammar, leaves, graph, grammar.dfa
        self.own_nodes = [i for i in range(graph.own_count) if not graph.left_out(i)]
        at, first = 1, np.zeros(graph.count, dtype=np.int32)
        for i in self.own_nodes:
            leaf = self.dfa.nodes[i].leaf
            first[i] = at
            at += 1 if leaf is None else leaf.states
        self.offsets: list[int] = []
        for placed in graph.placed:
            self.offsets.append(at)
            rows_of_piece = placed.piece.first
            first[placed.node : placed.node + len(rows_of_piece)] = np.add(rows_of_piece, at)
            at += placed.piece.size
        self.first, self.size = first.tolist(), at
        self._reads: Reads = {}

    def _state(self, place: tuple[int, int] | None) -> int:
        return DEAD_STATE if place is None else self.first[place[0]] + place[1]

    def tables(self) -> Tables:
        leaves, size = self.leaves, self.size
        row, base, frame, block = (np.zeros(size, dtype=np.int32) for _ in range(4))
        owner, final = np.full(size, -1, dtype=np.int32), np.zeros(size, bool)
        row[:] = len(leaves.columns)
        frames: list[Frame] = []
        exits = [np.zeros((1, 1 + len(leaves.exits)), dtype=np.int32)]
        steps: list[tuple[int, int, int]] = []
        links: list[tuple[int, int, int]] = []
        holes: dict[int, tuple[int, int]] = {}
        trie = leaves.vocabulary.trie
        for i in self.own_nodes:
            node, first = self.dfa.nodes[i], self.first[i]
            last = first + (1 if node.leaf is None else node.leaf.states)
            block[first:last], owner[first:last], final[first] = node.block, node.owner, node.final
            if node.leaf is not None:
                name = node.leaf.name
                frames.append(Frame(first, 1 + leaves.first_exit[name], leaves.rows[name].away))
                row[first:last] = leaves.first_row[name] + np.arange(node.leaf.states)
                base[first:last], frame[first:last] = first, len(frames)
                columns = np.zeros((1, 1 + len(leaves.exits)), dtype=np.int32)
                for j, (symbol, tail) in enumerate(leaves.rows[name].exits, frames[-1].column):
                    place = self.graph.walk(self.graph.edge(i, symbol), tail)
                    columns[0, j] = self._state(place)
                exits.append(columns)
                continue
            for symbol in node.edges:
                then = self._state(self.graph.edge(i, symbol))
                if symbol[0] == "id":
                    steps.append((first, int(symbol[1]), then))
                elif symbol[0] == HOLE:
                    holes[first] = int(symbol[1]), then
                    links.append((first, then, FAR))
            steps += self._steps(first, trie, (i, 0))
        edges, spine = [], []
        after: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for placed, at in zip(self.graph.placed, self.offsets, strict=True):
            piece, last = placed.piece, at + placed.piece.size
            row[at:last], owner[at:last], block[at:last] = piece.row, placed.owner, CALLING
            base[at:last] = np.where(piece.frame > 0, piece.base + at, 0)
            frame[at:last] = np.where(piece.frame > 0, piece.frame + len(frames), 0)
            out = self._state(placed.then)
            columns = _placed(piece.exits, at, out)
            for n, column, unread in piece.beyond:
                columns[n - 1, column] = self._state(self.graph.walk(placed.then, unread))
            exits.append(columns)
            frames += [
                Frame(at + n, 1 + leaves.first_exit[name], leaves.rows[name].away)
                for n, name in piece.frames
            ]
            thens = _placed(piece.then, at, out)
            edges.append(np.stack([piece.source + at, piece.token, thens], axis=1))
            spine.append(np.stack([piece.spine[:, 0] + at, _placed(piece.spine[:, 1], at, out)], 1))
            for state, below in piece.crossing:
                if (out, below) not in after:
                    tree = Trie(trie.nodes, below)
                    after[out, below] = [s[1:] for s in self._steps(0, tree, placed.then)]
                steps += [(state + at, *step) for step in after[out, below]]
        links += [(a, b, 1) for a, b in {(first, then) for first, _, then in steps}]
        edges.append(np.array(steps, dtype=np.int32).reshape(-1, 3))
        linked = np.array(links, dtype=np.int32).reshape(-1, 3)
        pairs = np.concatenate([*spine, linked[:, :2]])
        cost = np.ones(len(pairs), dtype=np.int32)
        cost[len(cost) - len(linked) :] = linked[:, 2]
        step_lists = self._edges(np.concatenate(edges))
        classes, table = self._classes(step_lists.token)
        start = {state: self.first[node] for state, node in self.grammar.starts.items()}
        return Tables(
            size, leaves.vocabulary.size, classes, table, np.concatenate(exits), step_lists,
            row, base, frame, final, block, owner, start,
            tuple(frames), (pairs[:, 0].copy(), pairs[:, 1].copy(), cost), holes,
            self.grammar.answers,
            shared=leaves.sets,
        )  # fmt: skip

    def _steps(self, state: int, tree: Trie, place: tuple[int, int]) -> list[tuple[int, int, int]]:
        """Returns (state, token, state after it) for the tokens of a subtree, from a place."""
        reads = tokens_from(self.graph, tree, place, self._state, self._reads)
        return [(state, *step) for step in zip(reads.tokens, reads.then, strict=True)]

    def _edges(self, steps: Ints) -> Edges:
        """Returns the steps of states without a leaf, each (state, token, state after it)."""
        key = steps[:, 0].astype(np.int64) << _TOKEN_BITS | steps[:, 1]
        steps = steps[key.argsort(kind="stable")]
        counts = np.bincount(steps[:, 0], minlength=self.size)
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return Edges(first, steps[:, 1].copy(), steps[:, 2].copy())

    def _classes(self, tokens: Ints) -> tuple[Ints, Ints]:
        """Returns the classes of ids, and the rows of leaves by class.

        Each token that structure reads has a class by itself.
        """
        leaves = self.leaves
        used_ids = np.flatnonzero(np.bincount(tokens, minlength=leaves.vocabulary.size))
        classes, columns = leaves.classes.copy(), leaves.columns
        after = np.full((len(columns) + 1, columns.shape[1] + len(used_ids)), -1, dtype=np.int32)
        after[: len(columns), : columns.shape[1]] = columns
        after[: len(columns), columns.shape[1] :] = columns[:, classes[used_ids]]
        classes[used_ids] = np.arange(len(used_ids)) + columns.shape[1]
        return classes, after


def _placed(codes: Ints, at: int, out: int) -> Ints:
    """Returns the states of a piece's codes: its first state is `at`, the one after it `out`."""
    return np.where(codes >= 0, codes + at, np.where(codes == OUT, out, DEAD_STATE)).astype(
        np.int32
    )
