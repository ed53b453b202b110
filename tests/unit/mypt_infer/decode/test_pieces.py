"""Tables that are joined of tools compiled one by one are those of the whole list."""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

import numpy as np
import pytest

import mypt_spec
from mypt_infer.decode.base.tools import ToolSpec, declare
from mypt_infer.decode.base.vocab import Vocabulary
from mypt_infer.decode.compile import build_tables, call_graph, pieces
from mypt_infer.decode.compile.build_tables import build, tables_of
from mypt_infer.decode.compile.call_graph import Bodies, Part
from mypt_infer.decode.compile.grammar_graph import GrammarGraph
from mypt_infer.decode.compile.nfa import CALLING, Node
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.compile.token_classes import token_classes
from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.json_body import written, written_key
from mypt_spec.memo import Memo
from tests.support.decoding import CALLERS, TOOLS
from tests.support.dialects import FEW
from tests.support.large_tools import many_tools


def at_once(name: str, tools: tuple[ToolSpec, ...]) -> Tables:
    """Tables whose graph was determinised as a whole, with a copy of each value for each set of
    arguments before it, where they may come in any order.
    """
    dialect = mypt_spec.dialect(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bodies, "rest_of_call", copied)
        grammar = GrammarGraph(dialect, tools).build()
    return tables_of(grammar, token_classes(dialect, grammar.text))


in_order = Bodies.rest_of_call


def copied(bodies: Bodies, part: Part, then: Node) -> Node:
    """What `rest_of_call` returns, without sharing."""
    if part.tool not in bodies.any_order:
        return in_order(bodies, part, then)
    bodies.owner, tool, renamed = part.tool, bodies.tools[part.tool], bodies.kind == "call"
    properties = written(tool.properties) if renamed else tool.properties
    required = {written_key(k) if renamed else k for k in tool.required}

    @cache
    def rest(left: frozenset[str], comma: bool) -> Node:
        end = [] if left & required else [bodies._text(part.after, then)]
        node = Node(block=CALLING, owner=bodies.owner, also=end)
        for key in sorted(left):
            after = rest(left - {key}, comma=True)
            tagged = isinstance(bodies.kind, Tags)
            value = bodies._argument(key, after) if tagged else bodies.value(properties[key], after)
            between = bodies.style.comma if comma else ""
            node.also.append(bodies._text(between + bodies.style.key(key), value))
        return node

    return rest(frozenset(properties), comma=part.comma)


def check_equal(joined: Tables, whole: Tables) -> None:
    """From equal starts the same ids lead to states of which the same is known."""
    assert (joined.classes == whole.classes).all()
    assert joined.start.keys() == whole.start.keys()
    pair = {joined.start[state]: whole.start[state] for state in whole.start}
    queue = list(pair.items())
    for one, other in queue:
        for known in ("distance", "to_close", "block", "owner", "final"):
            assert getattr(joined, known)[one] == getattr(whole, known)[other]
        both = joined.following(one).astype(np.int64) << 32 | whole.following(other)
        for then, there in (divmod(key, 1 << 32) for key in np.unique(both).tolist()):
            assert (then == DEAD_STATE) == (there == DEAD_STATE)
            if then not in pair and then != DEAD_STATE:
                pair[then] = there
                queue.append((then, there))
            assert then == DEAD_STATE or pair[then] == there
    assert len(set(pair.values())) == len(pair)


@pytest.mark.parametrize("name", [name for name in CALLERS if name in FEW])
def test_joined_tables_are_those_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order."""
    dialect, declared = mypt_spec.dialect(name), declare(TOOLS)
    monkeypatch.setattr(build_tables, "_built", Memo[Any, Any](32))
    monkeypatch.setattr(call_graph, "_SETS", 24)
    for order in ((1, 0), (0, 1, 2)):
        listed = tuple(declared[i] for i in order)
        joined = build(dialect, listed)
    check_equal(joined, at_once(name, listed))


def test_only_what_changed_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 128 tools, one has another member: 1 of 128 pieces is new."""
    dialect, tools = mypt_spec.dialect("mypt"), many_tools(128)
    build(dialect, declare(tools))
    compiled, make = list[int](), pieces._compiled
    monkeypatch.setattr(
        pieces, "_compiled", lambda bodies, part, leaves: compiled.append(part.tool) or make(bodies, part, leaves)  # type: ignore[func-returns-value]
    )  # fmt: skip
    changed = {**tools[70]["parameters"]["properties"], "more": {"type": "boolean"}}
    tools[70] = {"name": tools[70]["name"], "parameters": {"properties": changed}}
    build(dialect, declare(tools))
    assert set(compiled) == {70}


def test_pieces_are_kept_within_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 1 << 19
    kept = Memo[Any, pieces.Piece](4096, room=room)
    monkeypatch.setattr(pieces, "_pieces", kept)
    build(mypt_spec.dialect("mypt"), declare(many_tools(20)))
    assert 0 < kept.size == sum(piece.nbytes for piece in kept.entries.values()) <= room
    assert len(kept.entries) < 20


def test_the_tree_of_tokens() -> None:
    """Each node has the tokens that begin with its bytes, and is nothing for the collector."""
    words = (b"ab", b"", b"a", b"abc", b"abd", b"b", b"\xff\xff", b"a", b"ba")
    root = Vocabulary(words, 20).trie
    texts = {word[:n] for word in words for n in range(len(word) + 1)}
    for text in texts:
        node = root
        for byte in text:
            below = node.below(byte)
            assert below is not None
            node = below
        begun = [i for i, word in enumerate(words) if word and word.startswith(text)]
        assert list(node.ids) == [i for i in begun if words[i] == text]
        assert sorted(node.all_ids) == begun
        assert node.bytes == bytes(sorted({words[i][len(text)] for i in begun if words[i] != text}))
        assert all(node.below(byte) is None for byte in set(range(256)) - set(node.bytes))
    tokens = mypt_spec.dialect("mypt").tokenizer
    large = Vocabulary(tuple(tokens.decode_bytes([i]) for i in tokens.ordinary), 50304).trie
    before = len(gc.get_objects())
    for byte in large.bytes:
        below = large.below(byte)
        assert below is not None
        assert None not in [below.below(b) for b in below.bytes]
    assert len(gc.get_objects()) < before + 1000
