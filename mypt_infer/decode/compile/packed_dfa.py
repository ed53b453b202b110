"""Holds a deterministic graph as numbers: Python's garbage collector has little to look at.

Input: a Dfa. Output: a PackedDfa, which reads the same bytes. A graph has thousands of nodes, each
with edges, and the graphs of tools are kept for the next list that has them. As objects, they made
each full collection of garbage some ten milliseconds longer, in the middle of a step.

Each symbol has a code: a byte is its own, any other a number from 256 on.

>>> from mypt_infer.decode.compile.nfa import Node, chain, determinize, spelled
>>> packed = pack(determinize([chain(spelled("ab"), Node(final=True))]))
>>> packed.step((0, 0), ord("a")), packed.step((0, 0), ord("b")), packed.leads(1)
((1, 0), None, b'b')
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass

from mypt_infer.decode.compile.byte_dfa import DEAD, ByteDfa, Symbol
from mypt_infer.decode.compile.nfa import Dfa

_NONE = -1


@dataclass(frozen=True, eq=False)
class PackedDfa:
    """A deterministic graph. `start` is its first node.

    Of each node: `leaf`, the number of its leaf, or -1; `first`, its first edge (up to that of the
    next node). Of each edge: `code`, sorted within a node, and `node` and `state`, where it leads.
    `exits` has the codes of the exits of each of `leaves`, -1 for one that no node has an edge for.
    """

    start: int
    leaves: tuple[ByteDfa, ...]
    exits: tuple[tuple[int, ...], ...]
    leaf: array[int]
    first: array[int]
    code: array[int]
    node: array[int]
    state: array[int]

    def __len__(self) -> int:
        return len(self.leaf)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the numbers."""
        arrays = (self.leaf, self.first, self.code, self.node, self.state)
        return sum(len(part) * part.itemsize for part in arrays) + 8 * sum(map(len, self.exits))

    def leads(self, node: int) -> bytes | None:
        """Returns the bytes that lead on from a node of structure; None where a leaf reads."""
        if self.leaf[node] != _NONE:
            return None
        codes = self.code[self.first[node] : self.first[node + 1]]
        return bytes(code for code in codes if code < 256)

    def step(self, place: tuple[int, int], byte: int) -> tuple[int, int] | None:
        """Returns the place after one byte, or None if the byte is refused."""
        node, code, leaf = place[0], byte, self.leaf[place[0]]
        if leaf != _NONE:
            then = int(self.leaves[leaf].step[place[1], byte])
            if then >= 0:
                return node, then
            if then == DEAD:
                return None
            code = self.exits[leaf][-2 - then]
        end = self.first[node + 1]
        at = bisect_left(self.code, code, self.first[node], end)
        return (self.node[at], self.state[at]) if at < end and self.code[at] == code else None


def pack(dfa: Dfa) -> PackedDfa:
    """Returns a graph as numbers."""
    codes: dict[Symbol, int] = {("byte", byte): byte for byte in range(256)}
    leaves: dict[ByteDfa, int] = {}
    leaf, first, edges = array("i"), array("i", [0]), list[tuple[int, int, int]]()
    for node in dfa.nodes:
        leaf.append(_NONE if node.leaf is None else leaves.setdefault(node.leaf, len(leaves)))
        edges += sorted(
            (codes.setdefault(symbol, len(codes)), *then) for symbol, then in node.edges.items()
        )
        first.append(len(edges))
    exits = tuple(tuple(codes.get(symbol, _NONE) for symbol in one.exits) for one in leaves)
    code, node_, state = (array("i", [edge[i] for edge in edges]) for i in range(3))
    return PackedDfa(dfa.starts[0], tuple(leaves), exits, leaf, first, code, node_, state)
