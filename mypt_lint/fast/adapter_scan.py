"""Proves records clean by the skeleton that their adapter makes: no `SCHEMA` describes them.

Input and output are those of the pass of scan.py. An adapter's `skeleton` splits a record into the
rest, its free texts, of which rules see only whether they are clean, and its metadata values. One
record of each rest is put before the checker; if that is clean, so is every other with clean texts.
Its strings are counted, too: but for metadata, every other has as many. An adapter that divides
records has a rest for the head and for each turn; then turns are put before the checker, each in a
record with the same head, and the strings of head and turns are added up. A record whose outline
(`Adapter.outline`) was seen in a clean one is not split at all.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.check.suppress import OPT_OUT
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec.memo import Memo

_ENTRIES = 20_000  # rests that are remembered ...
_LONG = 200  # ... by digest, where they have more bytes
_LONGEST, _ROOM = 20_000, 16 << 20  # bytes of an outline that is remembered, and of all


class AdapterScan:
    """The skeletons that one checker has judged."""

    def __init__(self, checker: Checker, texts: CleanTexts, longest: int) -> None:
        self.checker, self.texts, self.longest = checker, texts, longest
        self.known = Memo[bytes, int](_ENTRIES)  # strings of a record; -1: not clean
        self.adapter = checker.dialect.adapter
        self.skeleton, self.outline = self.adapter.skeleton, self.adapter.outline
        # Outlines of clean records: (strings, keys of the rests).
        self.outlines = Memo[bytes, tuple[int, tuple[bytes, ...]]](_ENTRIES, room=_ROOM)
        self.divides = self.adapter.divides
        self.keys: tuple[bytes, ...] = ()  # of the rests of the line at hand
        self.strings = self._in_pieces if self.divides else self._whole
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def scan(
        self, lines: list[bytes], kept: list[Any] | None = None
    ) -> tuple[list[int], int, list[Any]]:
        """Returns what the pass of scan.py returns.

        These are the lines that are not clean, the number of strings of the others without those in
        their metadata, and the metadata values. `kept` gets (keys of the rests, record, texts) of
        each line where records are judged in pieces, None for the others.
        """
        if self.checker.limits.schemas:  # which bind values that a rest leaves out
            return list(range(len(lines))), 0, []
        bad, values, strings = [], [], 0
        for i, raw in enumerate(lines):
            count, found, self.keys = -1, None, ()
            outline = b""
            try:
                record = self.decode(raw)
                opts_out = record.__class__ is not dict or OPT_OUT in record
                free = self.outline(record) if self.divides and not opts_out else None
                if free is not None:
                    outline = self.encode(record)
                    known = self.outlines.known.get(outline)
                    if known is not None and self._clean(raw, free[0]):
                        count, self.keys = known
                        strings += count
                        values += free[1]
                        if kept is not None:
                            kept.append((self.keys, record, free[0]))
                        continue
                    record = self.decode(raw)
                found = None if opts_out else self.skeleton(record)
                if found is not None and self._clean(raw, found[1]):
                    count = self.strings(raw, record, found[0], found[2])
            except (ValueError, RecursionError, OverflowError):
                pass
            if kept is not None:
                whole = count >= 0 and found is not None and self.keys
                kept.append((self.keys, record, found[1]) if whole and found else None)
            if count < 0 or found is None:
                bad.append(i)
            else:
                strings += count
                values += found[2]
                if outline and len(outline) < _LONGEST:
                    size = len(outline) + sum(map(len, self.keys))
                    self.outlines.keep(outline, (count, self.keys), size)
        return bad, strings, values

    def _clean(self, raw: bytes, texts: list[str]) -> bool:
        """Returns whether a line and its texts are clean, whatever the rest is."""
        if b"\r" in raw[-2:] or len(raw) > self.longest:
            return False
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        content = "\n".join(texts)
        for first in self.texts.first:
            odd = [text for text in texts if first in text] if first in content else []
            if odd and not self.texts.are_clean(odd):
                return False
        return True

    def _whole(self, raw: bytes, record: Any, rest: Any, metadata: list[Any]) -> int:
        """Returns the number of strings of a record, without those in its metadata.

        It is -1 where records with this rest are not clean.
        """
        digest = blake2b(self.encode(rest), digest_size=20).digest()
        known = self.known.known.get(digest)
        if known is None:
            clean = not self.checker.line(raw.removesuffix(b"\n"), row=2, filename="")
            count = self._counted(record) - self._counted(metadata)
            known = self.known.keep(digest, count if clean else -1)
        return known

    def _in_pieces(self, raw: bytes, record: Any, rests: list[Any], _: list[Any]) -> int:
        """Returns what `_whole` does, for a record with a rest for its head and for each piece."""
        encode, known = self.encode, self.known.known
        head, *others = rests
        first = encode(head)
        if len(first) > _LONG:
            first = blake2b(first, digest_size=20).digest()
        total = 0
        self.keys = (first, *[first + encode(rest) for rest in others])
        # A head alone is judged as the whole record that it is.
        for i, key in enumerate(self.keys):
            if len(key) > _LONG:
                key = blake2b(key, digest_size=20).digest()
            count = known.get(key if others else key + b"!")
            if count is None:
                count = self._piece(record, i)
                self.known.keep(key if others else key + b"!", count)
            if count < 0:
                return -1
            total += count
        return total

    def _piece(self, record: dict[str, Any], number: int) -> int:
        """Returns the number of strings that a piece adds, -1 where it is not clean."""
        pieces = list(self.adapter.divided(record))
        judged, own = pieces[number]
        alone = number == 0 and len(pieces) > 1
        if not alone and self.checker.line(self.encode(judged), row=2, filename=""):
            return -1
        return self._counted(own)

    def _counted(self, value: Any) -> int:
        return unescaped_quotes(self.encode(value)) // 2
