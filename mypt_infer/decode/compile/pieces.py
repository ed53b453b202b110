"""Compiles the arguments of one tool by itself, so that a changed list compiles only what changed.

Input: the graph of a call after its tool's name, up to what follows the call. Output: a Piece, with
states counted from 0, which `tables` puts into the tables of a whole list. Pieces are kept within a
bound of bytes.

Theory of operation. After the name, which no other tool has, a call reads what its schema says,
whatever else is declared. So this part of the graph (PART) is cut out, determinised alone, and read
by all tokens. It ends at a place OUT, whose number is known only in the whole: a step to there is
coded as OUT. A token that goes on after OUT is kept as what is left of it: a subtree of the tree of
all tokens after structure, and bytes after a leaf.

With the tool `f`, one argument and `{"name": "f", "a": true}`, the piece reads `, "a": true}`. In
dialect mypt a tag of one id follows `}`, so no token goes on after OUT. In praxis `}` and a line
break may be one token: the piece keeps that the break is left to be read.

Where arguments may come in any order, the graph reads them again and again, so that it has no value
twice. The whole has all states of the piece after each set of arguments that have begun, one set
after the other: where a step begins argument i (`bits`), it leads 1 << i sets further.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints, Trie
from mypt_infer.decode.base.work import step
from mypt_infer.decode.compile.byte_dfa import ByteDfa, Symbol
from mypt_infer.decode.compile.call_graph import Bodies, Part
from mypt_infer.decode.compile.nfa import PART, Dfa, NfaError, Node, determinize
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.compile.token_classes import TokenClasses
from mypt_spec.memo import Memo

Codes = npt.NDArray[np.int64]
# A node of a graph, and the state of its leaf.
Spot = tuple[int, int]

# Codes of states that are not the piece's. From this bit on, a code has the arguments that begin.
OUT, DEAD, BITS = -1, -2, 25
_ENDS: Symbol = ("out", 0)
# About the bytes of a piece beside its arrays, and of a step; those of all pieces that are kept.
_PIECE, _STEP, _ROOM = 4000, 220, 48 << 20
# The most states of a tool whose arguments come in any order, and steps of those without a leaf.
_STATES, _STEPS = 1 << 17, 1 << 19
_BYTES: dict[Symbol, int] = {("byte", byte): byte for byte in range(256)}


@dataclass(frozen=True, eq=False)
class PackedDfa:
    """A graph that reads what its Dfa reads, of fewer objects; its first node is `start`.

    A graph has thousands of nodes with edges, and is kept for the next list that has the tool. As
    objects, they made each full collection of garbage some ten milliseconds longer; tuples of
    numbers are looked at once.

    `leaves` has the leaf of each node. `steps` has the place after a byte, by (node, byte), or by
    (node, code of an exit) where a leaf reads.
    """

    start: int
    leaves: tuple[ByteDfa | None, ...]
    steps: dict[tuple[int, int], Spot]
    leads: tuple[bytes | None, ...]

    def __len__(self) -> int:
        return len(self.leaves)

    def step(self, place: Spot, byte: int) -> Spot | None:
        node, code, leaf = place[0], byte, self.leaves[place[0]]
        if leaf is not None:
            code = int(leaf.step[place[1], byte])
            if code >= 0:
                return node, code
        return self.steps.get((node, code))


def pack(dfa: Dfa) -> PackedDfa:
    steps: dict[tuple[int, int], Spot] = {}
    for i, node in enumerate(dfa.nodes):
        codes = _BYTES
        if node.leaf is not None:
            codes = {symbol: -2 - code for code, symbol in enumerate(node.leaf.exits)}
        steps |= {(i, codes[s]): then for s, then in node.edges.items() if s in codes}
    leads = tuple(map(dfa.leads, range(len(dfa.nodes))))
    return PackedDfa(dfa.starts[0], tuple(node.leaf for node in dfa.nodes), steps, leads)


@dataclass(frozen=True, eq=False)
class Piece:
    """The arguments of a tool, compiled. States are numbers from 0, OUT or DEAD.

    - `dfa`: the graph; `first` is the state of each node, `out` the node after the piece.
    - `bits`: see above; `required`: those of required arguments.
    - `row`, `base`, `frame`: as in `Tables`, int32, (size,); `frames`: (first state, leaf).
    - `exits`: for each frame the state after each exit of its leaf; of `beyond`, (frame, column,
      bytes), the bytes are left to be read after OUT.
    - `source`, `token`, `then`: all steps of states without a leaf, sorted; of `crossing`, (state,
      node of the tree, code), the tokens below are left to be read. `spine`: each
      source << 32 | code - DEAD, once. Codes of what steps lead to are int64.
    """

    dfa: PackedDfa
    first: Ints
    out: int
    bits: Mapping[int, int]
    required: int
    size: int
    row: Ints
    base: Ints
    frame: Ints
    frames: tuple[tuple[int, str], ...]
    exits: Codes
    beyond: tuple[tuple[int, int, bytes], ...]
    source: Ints
    token: Ints
    then: Codes
    crossing: tuple[tuple[int, int, int], ...]
    spine: Codes

    @property
    def nbytes(self) -> int:
        arrays = [v for v in vars(self).values() if isinstance(v, np.ndarray)]
        frames = 100 * (len(self.frames) + len(self.beyond) + len(self.crossing))
        return _PIECE + _STEP * len(self.dfa.steps) + sum(v.nbytes for v in arrays) + frames


class Placed(NamedTuple):
    """A piece of the tool `owner` in a whole: its first node, and where it ends."""

    piece: Piece
    node: int
    then: Spot
    owner: int

    @property
    def sets(self) -> int:
        """Returns the number of sets of arguments that may have begun; the piece is after each."""
        return 1 << len(self.piece.bits)

    def starts(self, at: int) -> Ints:
        """Returns the first state of the piece after each set of arguments, (sets, 1)."""
        return at + self.piece.size * np.arange(self.sets, dtype=np.int32)[:, None]

    def states(self, codes: Codes, at: int, out: int) -> Ints:
        """Returns the states of codes after each set of arguments, (sets, *codes.shape).

        The first state of the piece is `at`, the one after it `out`.
        """
        begun = np.arange(self.sets).reshape(-1, *[1] * codes.ndim)
        bits = codes + 2 >> BITS
        local = codes - (bits << BITS)
        end = np.where(self.piece.required & ~(begun | bits), DEAD_STATE, out)
        then = np.where(local == OUT, end, local + (begun + bits) * self.piece.size + at)
        is_dead = (local == DEAD) | (begun & bits > 0)
        return np.where(is_dead, DEAD_STATE, then).astype(np.int32)


class PieceGraph:
    """A graph with pieces in the places of its edges (PART, i).

    Its `count` nodes are those of the graph, its `own_count`, then those of each piece. `pieces`
    have the tools that they are of.
    """

    def __init__(self, dfa: Dfa, pieces: Sequence[tuple[Piece, int]]) -> None:
        self.dfa, self.own_count, self.count = dfa, len(dfa.nodes), len(dfa.nodes)
        self._first: dict[int, Spot] = {}
        placed: list[tuple[Piece, int, Spot, int]] = []
        for i, node in enumerate(dfa.nodes):
            for symbol, then in node.edges.items():
                if symbol[0] != PART:
                    continue
                if len(node.edges) > 1 or node.leaf is not None or node.final:
                    raise NfaError("a name and arguments can occur at the same place")
                piece, owner = pieces[int(symbol[1])]
                self._first[i] = self.count + piece.dfa.start, 0
                placed.append((piece, self.count, then, owner))
                self.count += len(piece.dfa) << len(piece.bits)
        self.placed = [Placed(p, at, self._real(then), owner) for p, at, then, owner in placed]
        self._bases = [p.node for p in self.placed]

    def left_out(self, node: int) -> bool:
        """Returns whether a node only holds the place of a piece."""
        return node in self._first

    def edge(self, node: int, symbol: Symbol) -> Spot | None:
        """Returns where an edge of one of the graph's own nodes leads."""
        spot = self.dfa.nodes[node].edges.get(symbol)
        return None if spot is None else self._real(spot)

    def leads(self, node: int) -> bytes | None:
        if node < self.own_count:
            return self.dfa.leads(node)
        here, _, node = self._placed_at(node)
        return here.piece.dfa.leads[node]

    def step(self, place: Spot, byte: int) -> Spot | None:
        if place[0] < self.own_count:
            then = self.dfa.step(place, byte)
            return None if then is None else self._real(then)
        here, begun, node = self._placed_at(place[0])
        piece = here.piece
        then = piece.dfa.step((node, place[1]), byte)
        bit = passed(piece.bits, node, then)
        at_end = then is not None and then[0] == piece.out
        if then is None or bit & begun or (at_end and piece.required & ~begun):
            return None
        return here.then if at_end else (place[0] + then[0] - node + bit * len(piece.dfa), then[1])

    def walk(self, place: Spot | None, data: bytes) -> Spot | None:
        for byte in data:
            if place is None:
                return None
            place = self.step(place, byte)
        return place

    def _placed_at(self, node: int) -> tuple[Placed, int, int]:
        """Returns the piece of a node, the arguments that have begun, the node in the piece."""
        here = self.placed[bisect_right(self._bases, node) - 1]
        return here, *divmod(node - here.node, len(here.piece.dfa))

    def _real(self, place: Spot) -> Spot:
        return self._first.get(place[0], place)


_pieces = Memo[tuple[str, str], Piece](4096, room=_ROOM)


def piece_of(fingerprint: str, bodies: Bodies, part: Part, leaves: TokenClasses) -> Piece:
    """Returns the piece of a tool's arguments in a dialect; it is compiled once."""
    tool = bodies.tools[part.tool]
    how = part.comma, part.after, part.tool in bodies.any_order
    key = (fingerprint, repr((bodies.kind, tool.schema, how)))
    piece = _pieces.entries.get(key)
    if piece is None:
        with _uncollected():
            piece = _compiled(bodies, part, leaves)
        _pieces.keep(key, piece, piece.nbytes)
    return piece


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pauses the collection of garbage in cycles.

    A graph is many small objects, none of which is garbage yet: looking at all of them again and
    again took half of the time of large schemas.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _compiled(bodies: Bodies, part: Part, leaves: TokenClasses, *, in_order: bool = False) -> Piece:
    after = Node({_ENDS: (Node(), 0)})
    values: list[tuple[Node, bool]] = []
    free = part.tool in bodies.any_order and not in_order
    start = bodies.rest_of_call(part, after, values if free else None)
    dfa = determinize([start, after, *(value for value, _ in values)])
    out = dfa.starts[1]
    bits = {node: 1 << i for i, node in enumerate(dfa.starts[2:])}
    required = sum(1 << i for i, (_, is_required) in enumerate(values) if is_required)
    end = dfa.nodes[out].edges[_ENDS][0]
    if any(_ENDS in node.edges for i, node in enumerate(dfa.nodes) if i != out):
        raise NfaError("the end of the arguments is not known by itself")
    first, size = [], 0
    for i, node in enumerate(dfa.nodes):
        first.append(size)
        if i not in (out, end):
            size += 1 if node.leaf is None else node.leaf.states
    if bits and size << len(bits) > _STATES:
        return _compiled(bodies, part, leaves, in_order=True)
    first[out] = OUT

    def state(place: Spot | None) -> int:
        return DEAD if place is None else first[place[0]] + place[1]

    row, base, frame = (np.zeros(size, dtype=np.int32) for _ in range(3))
    row[:] = len(leaves.columns)
    frames: list[tuple[int, str]] = []
    exits: list[Codes] = []
    beyond: list[tuple[int, int, bytes]] = []
    sources: list[tuple[int, int]] = []  # states, and how many steps each has
    steps = TokenReads([], [], [])
    crossing: list[tuple[int, int, int]] = []
    reads: Reads = {}
    for i, node in enumerate(dfa.nodes):
        if i in (out, end):
            continue
        at = first[i]
        if node.leaf is None:
            read = tokens_from(dfa, leaves.vocabulary.trie, (i, 0), state, reads, out, bits)
            sources.append((at, len(read.tokens)))
            steps.add(read)
            crossing += [(at, tree.node, code) for tree, code in read.unread]
            continue
        name, last = node.leaf.name, at + node.leaf.states
        frames.append((at, name))
        row[at:last] = leaves.first_row[name] + np.arange(node.leaf.states)
        base[at:last], frame[at:last] = at, len(frames)
        column = np.full(1 + len(leaves.exits), DEAD, dtype=np.int64)
        for j, (symbol, tail) in enumerate(leaves.rows[name].exits, 1 + leaves.first_exit[name]):
            place, unread, begun = _walk(dfa, node.edges.get(symbol), tail, out, bits)
            column[j] = state(place) + (begun << BITS)
            if unread:
                beyond.append((len(frames), j, unread))
        exits.append(column)
    if bits and len(steps.tokens) << len(bits) > _STEPS:
        return _compiled(bodies, part, leaves, in_order=True)
    source = np.repeat(*np.array(sources, dtype=np.int32).reshape(-1, 2).T)
    token, then = np.array(steps.tokens, dtype=np.int32), np.array(steps.then, dtype=np.int64)
    order = np.lexsort((token, source))
    source, token, then = source[order], token[order], then[order]
    return Piece(
        pack(dfa), np.array(first, dtype=np.int32), out, bits, required,
        size, row, base, frame, tuple(frames),
        np.array(exits, dtype=np.int64).reshape(-1, 1 + len(leaves.exits)), tuple(beyond),
        source, token, then, tuple(crossing),
        np.unique(source.astype(np.int64) << 32 | then - DEAD),
    )  # fmt: skip


def passed(bits: Mapping[int, int], node: int, then: Spot | None) -> int:
    """Returns the bit of the argument that begins with a step from a node; 0 for none."""
    return bits.get(then[0], 0) if then is not None and then[0] != node else 0


class TokenReads(NamedTuple):
    """What was read from a place: tokens, the state after each, and subtrees that are left.

    These are lists of numbers because there are many: after each of some optional members, all
    later ones may come.
    """

    tokens: list[int]
    then: list[int]
    unread: list[tuple[Trie, int]]

    def add(self, other: TokenReads) -> None:
        self.tokens.extend(other.tokens)
        self.then.extend(other.then)
        self.unread.extend(other.unread)


# What was read of subtrees from places.
Reads = dict[tuple[int, Spot], TokenReads]


def tokens_from(
    graph: Dfa | PieceGraph,
    tree: Trie,
    place: Spot,
    state: Callable[[Spot], int],
    cache: Reads,
    out: int,
    bits: Mapping[int, int],
) -> TokenReads:
    """Returns the tokens of a subtree that can be read from a place, each with the state after it.

    What reaches the node `out` and goes on is there as the subtree that is left. States have the
    `bits` of nodes on the way, none twice. Places share what follows them, so each is read once:
    `cache` has what was read of the same graph before. After each of many optional members, for
    example, nearly the same keys may come.
    """
    key = (tree.node, place)
    reads = cache.get(key)
    if reads is not None:
        return reads
    step()
    reads = cache[key] = TokenReads([], [], [])
    if place[0] == out:
        if tree.bytes:
            reads.unread.append((tree, OUT))
        return reads
    leads = graph.leads(place[0])
    for byte in tree.bytes if leads is None else leads:
        below = tree.below(byte)
        then = graph.step(place, byte) if below is not None else None
        if below is not None and then is not None:
            deeper = tokens_from(graph, below, then, state, cache, out, bits)
            bit = passed(bits, place[0], then) << BITS
            if below.ids:
                reads.tokens.extend(below.ids)
                reads.then.extend([state(then) + bit] * len(below.ids))
            if bit:
                others = [i for i, code in enumerate(deeper.then) if not code + 2 & bit]
                tokens, codes = ([part[i] for i in others] for part in deeper[:2])
                unread = [(t, code + bit) for t, code in deeper.unread if not code + 2 & bit]
                deeper = TokenReads(tokens, [code + bit for code in codes], unread)
            reads.add(deeper)
    return reads


def _walk(
    dfa: Dfa, place: Spot | None, data: bytes, out: int, bits: Mapping[int, int]
) -> tuple[Spot | None, bytes, int]:
    """Returns the place after some bytes, those that are left at `out`, and the bits on the way."""
    begun = passed(bits, -1, place)
    for at, byte in enumerate(data):
        if place is None or place[0] == out:
            return place, data[at:] if place is not None else b"", begun
        then = dfa.step(place, byte)
        bit = passed(bits, place[0], then)
        place, begun = None if begun & bit else then, begun | bit
    return place, b"", begun
