"""The machine behind the tables: nodes that read structure symbol by symbol, and leaves that read
what stands between.

A net is built with alternatives (`also`), as a regular expression would be, and made deterministic
by `determinize`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mypt_infer.decode.compile.byte_dfa import ByteDfa, Symbol

NO_BLOCK, THINKING, CALLING = 0, 1, 2  # blocks with a budget of their own
HOLE = "hole"  # ("hole", i): what stands here another engine reads


class NfaError(ValueError):
    """Alternatives that no deterministic machine can tell apart."""


@dataclass(eq=False)
class Node:
    """A place between two symbols. `edges` lead on; `also` are places where it is at the same time;
    `leaf` reads from here.

    `final`: generation may end here. `block` has a budget of its own. `owner` is the tool that only
    this place belongs to.
    """

    edges: dict[Symbol, Place] = field(default_factory=dict)
    also: list[Node] = field(default_factory=list)
    leaf: ByteDfa | None = None
    final: bool = False
    block: int = NO_BLOCK
    owner: int = -1


Place = tuple[Node, int]  # a node, and the state of its leaf


@dataclass(eq=False)
class Dfa:
    """A node of the deterministic net; edges lead to (index of a node, state of its leaf)."""

    leaf: ByteDfa | None
    final: bool
    block: int
    owner: int
    edges: dict[Symbol, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Nfa:
    """`nodes`, and where the nodes that were asked for have gone."""

    nodes: list[Dfa]
    starts: list[int]

    def step(self, place: tuple[int, int], byte: int) -> tuple[int, int] | None:
        """Where one byte leads; None: nowhere."""
        node = self.nodes[place[0]]
        if node.leaf is None:
            return node.edges.get(("byte", byte))
        then = int(node.leaf.step[place[1], byte])
        if then >= 0:
            return place[0], then
        return node.edges.get(node.leaf.exits[-2 - then]) if then < -1 else None

    def walk(self, place: tuple[int, int] | None, data: bytes) -> tuple[int, int] | None:
        """Where some bytes lead; None: nowhere."""
        for byte in data:
            if place is None:
                return None
            place = self.step(place, byte)
        return place


def chain(symbols: Sequence[Symbol], then: Node, *, block: int = NO_BLOCK, owner: int = -1) -> Node:
    """A node from which the symbols lead to `then`."""
    for symbol in reversed(symbols):
        then = Node({symbol: (then, 0)}, block=block, owner=owner)
    return then


def spelled(text: str) -> list[Symbol]:
    """The bytes of a text as symbols."""
    return [("byte", b) for b in text.encode()]


def determinize(wanted: Iterable[Node]) -> Nfa:
    """Make a net deterministic.

    Raises NetError where a leaf and something else read the same bytes.
    """
    net = Nfa([], [])
    numbers: dict[frozenset[Place], int] = {}
    queue: list[frozenset[Place]] = []

    def number(places: frozenset[Place]) -> int:
        if places not in numbers:
            numbers[places] = len(numbers)
            queue.append(places)
        return numbers[places]

    net.starts.extend(number(frozenset({(node, 0)})) for node in wanted)
    at = 0
    while at < len(queue):
        places = _closure(queue[at])
        leaves = [node for node in places if node.leaf is not None]
        if len(leaves) > 1:
            raise NfaError("two alternatives read free content at the same place")
        owners = {n.owner for n in places}
        merged = Dfa(
            leaves[0].leaf if leaves else None,
            any(n.final for n in places),
            max(n.block for n in places),
            owners.pop() if len(owners) == 1 else -1,
        )
        net.nodes.append(merged)
        targets: dict[Symbol, set[Place]] = {}
        for node in places:
            for symbol, target in node.edges.items():
                targets.setdefault(symbol, set()).add(target)
        for symbol, found in targets.items():
            if merged.leaf is not None and symbol[0] == "byte" and symbol not in merged.leaf.exits:
                raise NfaError(
                    f"free content and {bytes([int(symbol[1])])!r} can stand at the same place"
                )
            inside = {state for _, state in found}
            if len(found) > 1 and inside != {0}:
                raise NfaError("two alternatives read free content at the same place")
            merged.edges[symbol] = (number(frozenset((node, 0) for node, _ in found)), inside.pop())
        at += 1
    return net


def _closure(places: frozenset[Place]) -> list[Node]:
    found = [node for node, _ in places]
    for node in found:
        found += [n for n in node.also if n not in found]
    return found
