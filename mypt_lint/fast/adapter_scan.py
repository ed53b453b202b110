"""Proves records clean by the skeleton that their adapter makes: no `SCHEMA` describes them.

Input and output are those of the pass of scan.py. An adapter's `skeleton` splits a record into the
rest, its free texts, of which rules see only whether they are clean, and its metadata values. One
record of each rest is put before the checker; if that is clean, so is every other with clean texts.
Its strings are counted, too: but for metadata, every other has as many.
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

_ENTRIES = 20_000  # rests that are remembered, by digest


class AdapterScan:
    """The skeletons that one checker has judged."""

    def __init__(self, checker: Checker, texts: CleanTexts, longest: int) -> None:
        self.checker, self.texts, self.longest = checker, texts, longest
        self.known = Memo[bytes, int](_ENTRIES)  # strings of a record; -1: not clean
        self.skeleton = checker.dialect.adapter.skeleton
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def scan(
        self, lines: list[bytes], kept: list[Any] | None = None
    ) -> tuple[list[int], int, list[Any]]:
        """Returns what the pass of scan.py returns; nothing is kept.

        These are the lines that are not clean, the number of strings of the others without those in
        their metadata, and the metadata values.
        """
        bad, values, strings = [], [], 0
        for i, raw in enumerate(lines):
            count = -1
            try:
                record = self.decode(raw)
                opts_out = record.__class__ is not dict or OPT_OUT in record
                found = None if opts_out else self.skeleton(record)
                if found is not None and self._clean(raw, found[1]):
                    count = self._strings(raw, record, found[0], found[2])
            except (ValueError, RecursionError, OverflowError):
                pass
            if count < 0 or found is None:
                bad.append(i)
            else:
                strings += count
                values += found[2]
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

    def _strings(self, raw: bytes, record: Any, rest: Any, metadata: list[Any]) -> int:
        """Returns the number of strings of a record, without those in its metadata.

        It is -1 where records with this rest are not clean.
        """
        digest = blake2b(self.encode(rest), digest_size=20).digest()
        known = self.known.known.get(digest)
        if known is None:
            clean = not self.checker.line(raw.removesuffix(b"\n"), row=2, filename="")
            count, apart = (
                unescaped_quotes(self.encode(value)) // 2 for value in (record, metadata)
            )
            known = self.known.keep(digest, count - apart if clean else -1)
        return known
