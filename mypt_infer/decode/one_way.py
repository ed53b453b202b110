"""Finds what must come next byte by byte, and spells it with the tokens that training has for it.

Input: a state, and the ids before it. Output: ids. Inside the structure of a call there is often
one text that may follow, such as `", "top_k": `, but many ways to cut it into tokens. A model need
not be asked for what it cannot change, and the tokens that it then reads should be those that it
was trained on: those of the encoder.

Theory of operation. In a state of the tables without content, few tokens may follow. If all begin
with the same byte, that byte must come; the token of one byte leads to the next state, and so on.
The encoder cuts a text into pieces and encodes each by itself. Whatever follows, all pieces but the
last are known, and the last one, too, if no character that may come next can belong to it.

Inside bodies that llguidance reads, the engine knows the bytes that must come (`forced_bytes`), and
each token is proved when it is taken, as any other.

After `<myPT_toolcall>` with the tool `add(a: int)`, the text `{"name": "add"` and `, "a": ` must
come. The pieces are `{"`, `name`, `":`, ` "`, `add`, `",`, ` "`, `a`, `":` and ` `; the last one is
left to the model, because the space may be one token with the digits after it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mypt_infer.decode.base.vocab import vocabulary
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.engine import Engine
from mypt_spec import Dialect
from mypt_spec.memo import Memo
from mypt_spec.tokenizer.tokenizer import Tokenizer

# How many ids before a state may share a piece with what follows.
TAIL = 8
_LONGEST = 4096  # bytes of a way
# One character of each kind that patterns of pieces tell apart, and the quotes of contractions.
_KINDS = "aA0 .\n\"'"
_MAX_ENTRIES, _ROOM = 4096, 4 << 20


class _Way(NamedTuple):
    """The bytes that must follow a state, and one character of each kind that may follow these."""

    text: bytes
    then: str


class OneWay:
    """Spells what must follow the states of one engine."""

    def __init__(self, dialect: Dialect, engine: Engine) -> None:
        self.tokenizer, self.engine, self.tables = dialect.tokenizer, engine, engine.tables
        self.vocabulary = vocabulary(dialect.tokenizer, dialect.table.base_vocabulary)
        self.words = self.vocabulary.tokens
        self._ways = Memo[int, _Way](_MAX_ENTRIES, room=_ROOM)
        self._spelled = Memo[tuple[int, ...], list[int]](_MAX_ENTRIES, room=_ROOM)

    @property
    def nbytes(self) -> int:
        return self._ways.nbytes + self._spelled.nbytes

    def ids(self, machine: int, before: Sequence[int], *, beside: bool = False) -> list[int]:
        """Returns the ids of what must follow a state, as far as they are known; often none.

        `before` are the ids that led to it, the last ones at least. With `beside`, tags may follow
        in place of the text.
        """
        inner = self.engine.inner(machine)
        if inner is None:
            forced, after = self.engine.forced_bytes(machine, beside=beside)
            then = "".join(chr(b) if b < 0x80 else _KINDS for b in after) or _KINDS
            return self._spell(self._tail(before), _Way(forced, then)) if forced else []
        if self.tables.frame[inner]:
            return []
        tail = self._tail(before)
        key = (inner, *tail)
        entry = self._spelled.entries.get(key)
        if entry is None:
            ids = self._spell(tail, self._way(inner))
            entry = self._spelled.keep(key, ids, 200 + 36 * len(ids))
        return entry

    def respelled(self, machine: int, token: int, before: Sequence[int]) -> list[int]:
        """Returns the ids of the one text that a drawn id begins, as the encoder spells it.

        Only the id where another text may follow, or where it is a tag.
        """
        ids = self.ids(machine, before, beside=True) if self.vocabulary.texts[token] else []
        text = b"".join(self.words[i] for i in ids)
        return ids if ids and text.startswith(self.words[token]) else [token]

    def _tail(self, before: Sequence[int]) -> tuple[int, ...]:
        out: list[int] = []
        for token in reversed(before[-TAIL:]):
            if not self.vocabulary.texts[token]:
                break
            out.append(int(token))
        return tuple(reversed(out))

    def _way(self, state: int) -> _Way:
        way = self._ways.entries.get(state)
        if way is not None:
            return way
        out, at = bytearray(), state
        while True:
            if self.tables.frame[at] or at in self.tables.holes:
                then = _KINDS
                break
            ids, _ = self.tables.listed(at)
            ordinary = ids[self.vocabulary.texts[ids]]
            following = np.unique(self.vocabulary.firsts[ordinary]).tolist()
            then = "".join(chr(b) if b < 0x80 else _KINDS for b in following)
            if len(ids) != len(ordinary) or len(following) != 1 or len(out) >= _LONGEST:
                break
            after = self.tables.next(at, self.vocabulary.of_byte.get(following[0], -1))
            if after == DEAD_STATE:
                break
            out.append(following[0])
            at = after
        return self._ways.keep(state, _Way(bytes(out), then), 200 + len(out))

    def _spell(self, tail: tuple[int, ...], way: _Way) -> list[int]:
        """Returns the ids of a way after `tail`.

        Where the encoder would have cut the text before the way otherwise, the way is encoded by
        itself.
        """
        for begin in range(len(tail) + 1):
            last_ids = list(tail[begin:])
            try:
                text = (b"".join(self.words[i] for i in last_ids) + way.text).decode()
            except UnicodeDecodeError:
                continue
            ids = self.tokenizer.encode_as_written(settled(text, way.then, self.tokenizer))
            if ids[: len(last_ids)] == last_ids and (len(ids) > len(last_ids) or not last_ids):
                return ids[len(last_ids) :]
        return []


def settled(text: str, then: str, tokenizer: Tokenizer) -> str:
    """Returns the beginning of a text whose pieces are the same whatever follows.

    `then` are characters that may follow, one of each kind; none if the text is over.

    >>> import mypt_spec
    >>> tokenizer = mypt_spec.dialect("mypt").tokenizer
    >>> settled('{"a": ', "0-", tokenizer), settled('{"a": ', "", tokenizer)
    ('{"a":', '{"a": ')
    """
    pieces = tokenizer.pieces(text)
    probes = [c + probe for c in then for probe in ("", "a", "A", "0", " ", ".")]
    open_end = bool(then) and text.endswith("'")  # "'s" may follow
    if pieces and (
        open_end or any(tokenizer.pieces(text + p)[: len(pieces)] != pieces for p in probes)
    ):
        pieces.pop()
    return "".join(pieces)
