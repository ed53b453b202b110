"""Prove records clean by their likeness: for dialects whose records no `SCHEMA` describes.

An adapter's `likeness` splits a record into free texts, of which rules see only whether they are clean, and the rest. Of
each rest one record is put before the checker; if that is clean, so is every other with clean texts.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from mypt_spec.lint.check import Checker

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
        self.known: dict[bytes, bool] = {}
        adapter: Any = judge.checker.dialect.adapter
        self.likeness: Callable[[Any], tuple[Any, list[str]] | None] = adapter.likeness
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def scan(self, lines: list[bytes]) -> tuple[list[int], int, list[Any]]:
        """As the pass of scan.py: the lines that are not clean, and the JSON values whose strings are to be counted."""
        bad, values = [], []
        for i, raw in enumerate(lines):
            try:
                record = self.decode(raw)
                told = self.likeness(record)
                clean = told is not None and self._clean(raw, *told)
            except (ValueError, RecursionError, OverflowError):
                clean = False
            if clean:
                values.append(record)
            else:
                bad.append(i)
        return bad, 0, values

    def _clean(self, raw: bytes, rest: Any, texts: list[str]) -> bool:
        if b"\r" in raw[-2:] or len(raw) > self.judge.longest:
            return False
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        content = "\n".join(texts)
        if any(c in content for c in self.judge.first) and not self.judge.texts(texts):
            return False
        digest = blake2b(self.encode(rest), digest_size=20).digest()
        known = self.known.get(digest)
        if known is None:
            if len(self.known) >= _MEMO:
                self.known.clear()
            known = self.known[digest] = not self.judge.checker.line(raw.removesuffix(b"\n"), row=2, filename="")
        return known
