"""Holds the tokens of text as bytes, grouped by their first byte, and as a trie.

Both forms exist so that automata run over all 50,256 tokens at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mypt_spec.memo import Memo
from mypt_spec.tokenizer.tokenizer import Tokenizer

Ints = npt.NDArray[np.int32]
# The bytes that each memo keeps of dialects and their vocabularies.
ROOM = 256 << 20
# The bytes of a token, without its text: an object, and its nodes in the tree.
_TOKEN = 100


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_memos: list[Memo[Any, Any]] = []  # of all functions that are cached
_P = ParamSpec("_P")
_S = TypeVar("_S", bound=_Sized)


def cached_by(
    key: Callable[..., Hashable], room: int = ROOM
) -> Callable[[Callable[_P, _S]], Callable[_P, _S]]:
    """Caches what a function returns by a key of its arguments: 16 results in `room` bytes."""

    def decorate(make: Callable[_P, _S]) -> Callable[_P, _S]:
        memo = Memo[Hashable, _S](16, room=room)
        _memos.append(memo)

        @wraps(make)
        def cached(*args: _P.args, **options: _P.kwargs) -> _S:
            number = key(*args, **options)
            entry = memo.entries.get(number)
            if entry is None:
                entry = make(*args, **options)
                memo.keep(number, entry, entry.nbytes)
            return entry

        return cached

    return decorate


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens of text. `tokens[i]` are the bytes of id i, none where i is no text.

    Ids from `len(tokens)` to `size` are no text either.
    """

    tokens: tuple[bytes, ...]
    size: int

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.tokens)) + _TOKEN * len(self.tokens)

    @cached_property
    def by_first(self) -> tuple[Ints, ...]:
        """Returns for each byte the ids of the tokens that begin with it."""
        groups: list[list[int]] = [[] for _ in range(256)]
        for i, token in enumerate(self.tokens):
            if token:
                groups[token[0]].append(i)
        return tuple(np.array(g, dtype=np.int32) for g in groups)

    @cached_property
    def firsts(self) -> npt.NDArray[np.uint8]:
        """Returns the first byte of each token, 0 where an id is no text."""
        return np.array([token[0] if token else 0 for token in self.tokens], dtype=np.uint8)

    @cached_property
    def texts(self) -> npt.NDArray[np.bool_]:
        """Returns for each id whether it is text. Shape (size,)."""
        out = np.zeros(self.size, bool)
        out[: len(self.tokens)] = [bool(token) for token in self.tokens]
        return out

    @cached_property
    def of_byte(self) -> dict[int, int]:
        """Returns the id of the token of one byte, by byte."""
        return {token[0]: i for i, token in enumerate(self.tokens) if len(token) == 1}

    @cached_property
    def nowhere(self) -> int:
        """Returns an id that no text has, for bytes that no token has: whoever reads it refuses."""
        return int(np.flatnonzero(~self.texts)[-1])

    @cached_property
    def data(self) -> npt.NDArray[np.uint8]:
        """Returns the bytes of all tokens, one after the other. `begin` says where each begins."""
        return np.frombuffer(b"".join(self.tokens), dtype=np.uint8)

    @cached_property
    def begin(self) -> Ints:
        """Returns where each token begins in `data`, and where the last one ends."""
        lengths = np.fromiter(map(len, self.tokens), dtype=np.int32, count=len(self.tokens))
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

    @cached_property
    def trie(self) -> Trie:
        """Returns the root of the tree of all tokens."""
        return Trie(_nodes(self.tokens), 0)

    def fewest(self, text: bytes) -> list[int]:
        """Returns a text in as few tokens as possible; `nowhere` for all of one that has none."""
        nodes = self.trie.nodes
        begin, text_end, below, labels, ids = (
            nodes.begin, nodes.own, nodes.below, nodes.bytes, nodes.ids
        )  # fmt: skip
        # Of each place: how many tokens lead there, the last one, and where it begins.
        size = len(text) + 1
        count, last, start = [0, *[size] * len(text)], [-1] * size, [0] * size
        for at in range(len(text)):
            node, tokens = 0, count[at] + 1
            for end in range(at, len(text)):
                node = labels.find(text[end], below[node], below[node + 1])
                if node < 0:
                    break
                if tokens < count[end + 1] and begin[node] < text_end[node]:
                    count[end + 1], last[end + 1], start[end + 1] = tokens, ids[begin[node]], at
        if count[-1] == size:
            return [self.nowhere] * len(text)
        out: list[int] = []
        place = len(text)
        while place:
            out.append(last[place])
            place = start[place]
        return out[::-1]


class _Nodes(NamedTuple):
    """The tree of all tokens, as numbers: Python's garbage collector has nothing to look at.

    `ids` are those of text, in the order of their bytes. Of each node: `bytes` is the last of its
    text, `below` its first child (up to that of the next node), `begin` and `end` its range of
    `ids`, of which those up to `own` are just its text.
    """

    ids: array[int]
    bytes: bytes
    below: array[int]
    begin: array[int]
    own: array[int]
    end: array[int]


def _nodes(tokens: tuple[bytes, ...]) -> _Nodes:
    """Returns the tree of all tokens, level by level: the children of a node are a range."""
    ids = np.array(sorted((i for i, t in enumerate(tokens) if t), key=tokens.__getitem__))
    lengths = np.array([len(tokens[i]) for i in ids.tolist()], dtype=np.int64)
    data = np.frombuffer(b"".join(tokens[i] for i in ids.tolist()), dtype=np.uint8)
    starts = np.cumsum(lengths) - lengths
    longer = np.arange(len(ids))  # the tokens that go on after the nodes of the last level
    node = np.zeros(len(ids), dtype=np.int64)  # and of each its node there
    levels = [(np.zeros(1, np.uint8), *np.array([[0], [0], [0], [len(ids)]]))]
    count, depth = 1, 0
    while len(longer):
        byte = data[starts[longer] + depth]
        new = np.flatnonzero(np.diff(node * 256 + byte, prepend=-1))
        sizes = np.diff(new, append=len(longer))
        begin, parent, last = longer[new], node[new], byte[new]
        node, depth = count + np.repeat(np.arange(len(new)), sizes), depth + 1
        ended = lengths[longer] == depth
        own = begin + np.bincount(node[ended] - count, minlength=len(new))
        levels.append((last, parent, begin, own, begin + sizes))
        count += len(new)
        longer, node = longer[~ended], node[~ended]
    last, parent, begin, own, end = (np.concatenate(part) for part in zip(*levels, strict=True))
    below = 1 + np.searchsorted(parent[1:], np.arange(count + 1))
    numbers = (array("i", part.astype(np.int32).tobytes()) for part in (below, begin, own, end))
    return _Nodes(array("i", ids.astype(np.int32).tobytes()), last.tobytes(), *numbers)


class Trie:
    """A node of the tree of all tokens: those that begin with some bytes. `node` is its number."""

    __slots__ = ("node", "nodes")

    def __init__(self, nodes: _Nodes, node: int) -> None:
        self.nodes, self.node = nodes, node

    def below(self, byte: int) -> Trie | None:
        """Returns the node of the tokens that go on with a byte; None if there are none."""
        nodes = self.nodes
        child = nodes.bytes.find(byte, nodes.below[self.node], nodes.below[self.node + 1])
        return Trie(nodes, child) if child >= 0 else None

    @property
    def ids(self) -> array[int]:
        """Returns the ids of the tokens that are just these bytes."""
        return self.nodes.ids[self.nodes.begin[self.node] : self.nodes.own[self.node]]

    @property
    def all_ids(self) -> array[int]:
        """Returns the ids of all tokens that begin with these bytes."""
        return self.nodes.ids[self.nodes.begin[self.node] : self.nodes.end[self.node]]

    @property
    def bytes(self) -> bytes:
        """Returns the bytes that tokens go on with."""
        return self.nodes.bytes[self.nodes.below[self.node] : self.nodes.below[self.node + 1]]


@cached_by(lambda tokenizer, base: f"{base}/{tokenizer.vocab_size}")
def vocabulary(tokenizer: Tokenizer, base: str) -> Vocabulary:
    """Returns the vocabulary of a tokenizer, read once for each base encoding, named `base`."""
    tokenizer.encode("")  # raises where there is no vocabulary
    texts = [b""] * tokenizer.ordinary.ranges[-1].stop
    for i in tokenizer.ordinary:
        texts[i] = tokenizer.decode_bytes([i])
    return Vocabulary(tuple(texts), tokenizer.vocab_size)
