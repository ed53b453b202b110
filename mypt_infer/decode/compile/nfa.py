"""Makes a graph of nodes deterministic: structure symbol by symbol, leaves for free content.

Input: nodes, built with alternatives (`also`) as a regular expression would be. Output: a Dfa,
whose nodes are deterministic. The graphs of grammar and calls are easy to write with alternatives;
the decoder needs one state for each prefix.

Theory of operation. A node reads symbols (bytes, ids, tags) along its edges, or has a leaf that
reads free content until an exit, whose symbol the node's edges then read. `determinize` is the
subset construction: a new node is a set of old ones, closed under `also`. Two leaves at the same
place, or a leaf and a byte of structure, could not be told apart and are refused, so the state of a
leaf never has to be a set.

Two alternatives, "ab" and "ac", share their first byte: after it, one node reads either b or c.

>>> end = Node(final=True)
>>> dfa = determinize([Node(also=[chain(spelled("ab"), end), chain(spelled("ac"), end)])])
>>> [sorted(node.edges) for node in dfa.nodes]
[[('byte', 97)], [('byte', 98), ('byte', 99)], []]
>>> dfa.step((1, 0), ord("c")), dfa.step((1, 0), ord("d"))
((2, 0), None)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mypt_infer.decode.base.work import step
from mypt_infer.decode.compile.byte_dfa import ByteDfa, Symbol

# The blocks that have budgets: thoughts and calls.
NO_BLOCK, THINKING, CALLING = 0, 1, 2
# ("hole", i) is an edge along which another engine reads body i.
HOLE = "hole"
# (PART, i) is the only edge of a node after which part i of the graph was left out.
PART = "part"
# The hole for the text of an answer, and that of a call of any tool; one of tool i has hole i + 1.
RESPONSE, ANY = -1, 0


# The most states of a graph: it takes about a tenth of a millisecond to make one.
MOST = 250_000


class NfaError(ValueError):
    """Two alternatives read the same bytes, so no deterministic machine can tell them apart."""


@dataclass(eq=False)
class Node:
    """A place between two symbols, while a graph is built.

    - `edges`: the place after each symbol. `also`: places where this place is at the same time.
    - `leaf`: reads free content from here.
    - `final`: generation may end here.
    - `block`: the budget that counts here. `owner`: the only tool that this place belongs to, or
      -1.
    """

    edges: dict[Symbol, Place] = field(default_factory=dict)
    also: list[Node] = field(default_factory=list)
    leaf: ByteDfa | None = None
    final: bool = False
    block: int = NO_BLOCK
    owner: int = -1


# A node, and the state of its leaf.
Place = tuple[Node, int]


class TooLarge(ValueError):
    """A graph would have too many states."""


@dataclass(eq=False)
class DfaNode:
    """A node of the deterministic graph; edges lead to (index of a node, state of its leaf)."""

    leaf: ByteDfa | None
    final: bool
    block: int
    owner: int
    edges: dict[Symbol, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dfa:
    """A deterministic graph: its nodes, and the indices of the nodes that were asked for."""

    nodes: list[DfaNode]
    starts: list[int]

    def leads(self, node: int) -> bytes | None:
        """Returns the bytes that lead on from a node of structure; None where a leaf reads."""
        dfa_node = self.nodes[node]
        if dfa_node.leaf is not None:
            return None
        return bytes(int(code) for kind, code in dfa_node.edges if kind == "byte")

    def step(self, place: tuple[int, int], byte: int) -> tuple[int, int] | None:
        """Returns the place after one byte, or None if the byte is refused."""
        node = self.nodes[place[0]]
        if node.leaf is None:
            return node.edges.get(("byte", byte))
        then = int(node.leaf.step[place[1], byte])
        if then >= 0:
            return place[0], then
        return node.edges.get(node.leaf.exits[-2 - then]) if then < -1 else None


def chain(symbols: Sequence[Symbol], then: Node, *, block: int = NO_BLOCK, owner: int = -1) -> Node:
    """Returns a node from which the symbols lead to `then`."""
    for symbol in reversed(symbols):
        then = Node({symbol: (then, 0)}, block=block, owner=owner)
    return then


def spelled(text: str) -> list[Symbol]:
    """Returns the bytes of a text as symbols."""
    return [("byte", b) for b in text.encode()]


def determinize(start_nodes: Iterable[Node]) -> Dfa:
    """Returns a deterministic graph in which `start_nodes` are the starts.

    Raises NfaError where a leaf and something else read the same bytes, and TooLarge.
    """
    dfa = Dfa([], [])
    numbers: dict[frozenset[Place], int] = {}
    queue: list[frozenset[Place]] = []

    def number(places: frozenset[Place]) -> int:
        if places not in numbers:
            numbers[places] = len(numbers)
            queue.append(places)
        return numbers[places]

    dfa.starts.extend(number(frozenset({(node, 0)})) for node in start_nodes)
    at = 0
    while at < len(queue):
        step()
        if at >= MOST:
            raise TooLarge(f"its tables would have more than {MOST:,} states")
        places = _closure(queue[at])
        leaves = [node for node in places if node.leaf is not None]
        if len(leaves) > 1:
            raise NfaError("two alternatives read free content at the same place")
        owners = {n.owner for n in places}
        merged = DfaNode(
            leaves[0].leaf if leaves else None,
            any(n.final for n in places),
            max(n.block for n in places),
            owners.pop() if len(owners) == 1 else -1,
        )
        dfa.nodes.append(merged)
        targets: dict[Symbol, set[Place]] = {}
        for node in places:
            for symbol, target in node.edges.items():
                if merged.leaf is not node.leaf and symbol[0] == "id":  # in place of the content
                    symbol = "first", symbol[1]
                targets.setdefault(symbol, set()).add(target)
        for symbol, group in targets.items():
            if merged.leaf is not None and symbol[0] == "byte" and symbol not in merged.leaf.exits:
                raise NfaError(
                    f"free content and {bytes([int(symbol[1])])!r} can occur at the same place"
                )
            inside = {state for _, state in group}
            if len(group) > 1 and inside != {0}:
                raise NfaError("two alternatives read free content at the same place")
            merged.edges[symbol] = (number(frozenset((node, 0) for node, _ in group)), inside.pop())
        at += 1
    return dfa


def _closure(places: frozenset[Place]) -> list[Node]:
    reached = [node for node, _ in places]
    visited = set(reached)
    for node in reached:
        for other in node.also:
            if other not in visited:
                visited.add(other)
                reached.append(other)
    return reached
