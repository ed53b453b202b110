"""Holds allow tables: what each token does in each state (docs/decoding.md draws it).

`Tables` are arrays, which compile/build_tables.py packs from the graph of a dialect and its tools.

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

from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.nfa import NO_BLOCK
from mypt_infer.decode.compile.row_sets import RowSets
from mypt_infer.decode.compile.token_table import FAR

DEAD_STATE = 0
# `block`, `distance`, `to_close` and `final` of all states.
Lists = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[bool, ...]]


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
    `rows` has the rows of all leaves as sets of ids, which all tables of a dialect share.
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
    rows: RowSets
    holes: dict[int, tuple[int, int]] = field(default_factory=dict)
    answers: frozenset[int] = frozenset()

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
