"""Packs a graph into allow tables, and keeps those built last.

Input: the graph of a dialect and its tools (compile/grammar_graph.py). Output: `Tables`
(compile/tables.py).
"""

from collections.abc import Sequence

import numpy as np

from mypt_infer.decode.base.tools import SchemaFault, ToolSpec
from mypt_infer.decode.base.vocab import Ints, Trie
from mypt_infer.decode.compile.call_graph import Bodies, Part
from mypt_infer.decode.compile.grammar_graph import GrammarDfa, GrammarGraph, names_in_tags
from mypt_infer.decode.compile.nfa import CALLING, HOLE, TooLarge
from mypt_infer.decode.compile.pieces import DEAD, Piece, PieceGraph, Reads, piece_of, tokens_from
from mypt_infer.decode.compile.tables import DEAD_STATE, Edges, Frame, Tables
from mypt_infer.decode.compile.token_classes import TokenClasses, token_classes
from mypt_infer.decode.compile.token_table import FAR
from mypt_spec.dialect import Dialect
from mypt_spec.memo import Memo

# More bits than an id of any vocabulary needs.
_TOKEN_BITS = 20
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
    require_call: bool = False,
) -> Tables:
    """Returns the tables of a dialect and some tools; no block of `forbidden_blocks` may open.

    Keeps the tables built last, and of each tool what does not depend on the others. Raises
    SchemaFault for tools that tables cannot hold. With `holes`, each body of a call is a hole: then
    the tables hold nothing of the tools but their names, and these only where a tag has them. With
    `response`, the answer's text is a hole; with `require_call`, the answer has to call.
    """
    tool_key: object = [(t.name, t.schema) for t in tools]
    if holes:
        tool_key = [t.name for t in tools] if names_in_tags(dialect) else bool(tools)
    options = sorted(forbidden_blocks), response, require_call
    key = (dialect.fingerprint, repr((holes, tool_key, *options)))
    entry = _built.entries.get(key)
    if entry is None:
        parts: list[tuple[Bodies, Part]] = []
        try:
            grammar = GrammarGraph(
                dialect, tools, forbidden_blocks, holes=holes, response=response,
                require_call=require_call, parts=parts,
            ).build()  # fmt: skip
            leaves = token_classes(dialect, grammar.text)
            pieces = [(piece_of(dialect.fingerprint, *p, leaves), p[1].tool) for p in parts]
            entry = tables_of(grammar, leaves, pieces)
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
            rows_of_pieces = (placed.piece.first + placed.starts(at)).ravel()
            first[placed.node : placed.node + len(rows_of_pieces)] = rows_of_pieces
            at += placed.piece.size * placed.sets
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
            piece, count = placed.piece, placed.sets
            last = at + piece.size * count
            starts = placed.starts(at)
            row[at:last] = np.tile(piece.row, count)
            owner[at:last], block[at:last] = placed.owner, CALLING
            base[at:last] = np.where(piece.frame > 0, piece.base + starts, 0).ravel()
            numbers = len(frames) + len(piece.frames) * np.arange(count)[:, None]
            frame[at:last] = np.where(piece.frame > 0, piece.frame + numbers, 0).ravel()
            out = self._state(placed.then)
            columns = placed.states(piece.exits, at, out)
            for n, column, unread in piece.beyond:
                ends = columns[:, n - 1, column] == out
                columns[ends, n - 1, column] = self._state(self.graph.walk(placed.then, unread))
            exits.append(columns.reshape(-1, columns.shape[-1]))
            frames += [
                Frame(first + n, 1 + leaves.first_exit[name], leaves.rows[name].away)
                for first in range(at, last, piece.size)
                for n, name in piece.frames
            ]
            thens = placed.states(piece.then, at, out)
            sources, tokens = np.broadcast_arrays(piece.source + starts, piece.token)
            edges.append(np.stack([sources, tokens, thens], axis=-1).reshape(-1, 3))
            thens = placed.states((piece.spine & (1 << 32) - 1) + DEAD, at, out)
            pairs = np.stack([(piece.spine >> 32) + starts, thens], axis=-1)
            spine.append(pairs.reshape(-1, 2).astype(np.int32))
            for state, below, code in piece.crossing:
                if (out, below) not in after:
                    tree = Trie(trie.nodes, below)
                    after[out, below] = [s[1:] for s in self._steps(0, tree, placed.then)]
                ends = np.flatnonzero(placed.states(np.array(code), at, out) == out)
                for source in (ends * piece.size + at + state).tolist():
                    steps += [(source, *step) for step in after[out, below]]
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
            tuple(frames), (pairs[:, 0].copy(), pairs[:, 1].copy(), cost), leaves.sets, holes,
            self.grammar.answers,
        )  # fmt: skip

    def _steps(self, state: int, tree: Trie, place: tuple[int, int]) -> list[tuple[int, int, int]]:
        """Returns (state, token, state after it) for the tokens of a subtree, from a place."""
        reads = tokens_from(self.graph, tree, place, self._state, self._reads, -1, {})
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
