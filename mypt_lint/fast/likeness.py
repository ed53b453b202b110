"""Prove records clean by their likeness: for dialects whose records no `SCHEMA` describes.

An adapter's `likeness` splits a record into free texts, of which rules see only whether they are
clean, and the rest. Of each rest one record is put before the checker; if that is clean, so is
every other with clean texts. Its strings are counted, too: but for metadata, every other has as
many.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.check.suppress import OPT_OUT
from mypt_lint.fast.quotes import unescaped_quotes

_MEMO = 20_000  # likenesses that are remembered, by digest


class Judge(Protocol):
    """What `fast.Prover` knows of texts."""

    checker: Checker
    first: tuple[str, ...]  # the first characters of tags
    longest: int  # bytes

    def texts(self, texts: list[str]) -> bool:
        """Whether texts are clean."""
        ...


class Alike:
    """The likenesses that one checker has judged."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.known: dict[bytes, int] = {}
        adapter: Any = judge.checker.dialect.adapter
        self.likeness: Callable[[Any], tuple[Any, list[str], list[Any]] | None] = adapter.likeness
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def scan(
        self, lines: list[bytes], kept: list[Any] | None = None
    ) -> tuple[list[int], int, list[Any]]:
        """As the pass of scan.py: the lines that are not clean; the strings of the others, without
        those in their metadata; and the metadata values. Nothing is kept.
        """
        bad, values, strings = [], [], 0
        for i, raw in enumerate(lines):
            count = -1
            try:
                record = self.decode(raw)
                told = (
                    self.likeness(record)
                    if isinstance(record, dict) and OPT_OUT not in record
                    else None
                )
                if told is not None and self._clean(raw, told[1]):
                    count = self._strings(raw, record, told[0], told[2])
            except (ValueError, RecursionError, OverflowError):
                pass
            if count < 0 or told is None:
                bad.append(i)
            else:
                strings += count
                values += told[2]
        return bad, strings, values

    def _clean(self, raw: bytes, texts: list[str]) -> bool:
        if b"\r" in raw[-2:] or len(raw) > self.judge.longest:
            return False
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        content = "\n".join(texts)
        for first in self.judge.first:
            if first in content and not self.judge.texts([text for text in texts if first in text]):
                return False
        return True

    def _strings(self, raw: bytes, record: Any, rest: Any, metadata: list[Any]) -> int:
        """The strings of a record, without those in its metadata; -1 where records alike are not
        clean.
        """
        digest = blake2b(self.encode(rest), digest_size=20).digest()
        known = self.known.get(digest)
        if known is None:
            if len(self.known) >= _MEMO:
                self.known.clear()
            clean = not self.judge.checker.line(raw.removesuffix(b"\n"), row=2, filename="")
            count, apart = (
                unescaped_quotes(self.encode(value)) // 2 for value in (record, metadata)
            )
            known = self.known[digest] = count - apart if clean else -1
        return known
