"""Which dialect a source is written in, from its beginning."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, BinaryIO, cast

from mypt_spec import frontdoor
from mypt_spec.frontdoor import Dialect
from mypt_spec.jsonvalue import Fault, loads
from mypt_spec.lint.sources import Source, blocks
from mypt_spec.tokens import TEXT

_HEAD = 1 << 18  # bytes looked at; more only until one line is whole
_MOST = 16 << 20
_LINES = 50
_WORST = 5  # errors of one line that count
_PRIOR = 1.25  # how much better than the first dialect another must be


@dataclass(frozen=True, slots=True)
class Guess:
    """The dialect of a source. `source` is to be read instead of the one that was looked at: a pipe gives its bytes once.

    `others` explain the beginning as well; `sure` is whether anything of it is legal in the dialect.
    """

    dialect: Dialect
    source: Source
    others: tuple[str, ...] = ()
    sure: bool = True


def candidates(first: str) -> list[Dialect]:
    """All dialects, `first` in front: it is preferred where another is about as good."""
    return [
        frontdoor.dialect(name)
        for name in sorted(frontdoor.dialects(), key=lambda name: name != first)
    ]


def detect(source: Source, kind: str, dialects: Sequence[Dialect]) -> Guess:
    """The dialect in which the beginning has the fewest errors; the first of `dialects` where it is about as good as another.

    Raises UsageError as `blocks` does.
    """
    head, source = _head(source)
    data = b"".join(
        block.data for block in blocks(replace(source, stream=io.BytesIO(head), size=None))
    )
    if kind == "record":
        scores = _records(data, dialects)
    else:
        text = data.decode("utf-8", "replace")
        scores = {d.name: (tagged := _tagged(text, d), tagged) for d in dialects}
    best = max(
        dialects,
        key=lambda d: (scores[d.name][0] * (1 if d is dialects[0] else _PRIOR), scores[d.name][1]),
    )
    others = tuple(
        d.name for d in dialects if d is not best and scores[d.name] == scores[best.name]
    )
    return Guess(best, source, others, scores[best.name][1] > 0)


def _head(source: Source) -> tuple[bytes, Source]:
    stream = source.open()
    head = b""
    while len(head) < _HEAD or (len(head) < _MOST and b"\n" not in head and not source.compressed):
        piece = stream.read(_HEAD)
        head += piece
        if not piece:
            break
    if source.size is not None and not source.stdin and source.stream is None:
        stream.close()
        return head, source
    return head, replace(source, stream=cast(BinaryIO, _Replayed(head, stream)))


class _Replayed(io.BufferedIOBase):
    """A stream that gives again what was read from it."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head, self._stream = io.BytesIO(head), stream

    def read1(self, size: int = -1, /) -> bytes:
        data: bytes = self._head.read(size) or getattr(self._stream, "read1", self._stream.read)(
            size
        )
        return data

    def read(self, size: int | None = -1, /) -> bytes:
        return self.read1(-1 if size is None else size)


def _records(data: bytes, dialects: Sequence[Dialect]) -> dict[str, tuple[int, int]]:
    """Minus the errors of the first lines, and how many of these have none."""
    errors: Counter[str] = Counter()
    clean: Counter[str] = Counter()
    for raw in [line for line in data.split(b"\n")[: _LINES + 1] if line.strip()][:_LINES]:
        try:
            record = loads(raw.decode("utf-8-sig", "replace"))
        except Fault:
            continue
        for dialect in dialects:
            # A tag in the data is an error in the dialect that it belongs to, and a sign that this is the one.
            own = any(tag.encode() in raw for tag in dialect.table.special)
            count = 0 if own else error_count(record, dialect)
            errors[dialect.name] += min(count, _WORST)
            clean[dialect.name] += not count
    return {d.name: (-errors[d.name], clean[d.name]) for d in dialects}


def error_count(record: object, dialect: Dialect) -> int:
    """How many errors a record has in a dialect; one that cannot be read has at least as many as any that can."""
    episode, findings = dialect.check(record)
    return _WORST if episode is None else sum(f.severity == "error" for f in findings)


def _tagged(text: str, dialect: Dialect) -> int:
    """How much of a text is tags."""
    return sum(len(event.text) for event in dialect.lex(text) if event.terminal != TEXT)
