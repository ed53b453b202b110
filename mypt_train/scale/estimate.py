"""Says how much work a plan is: bytes, units, tokens, hours of one processor core.

Input: a plan, and how many records of each input to check. Output: an estimate, by these records if
there are any, and what is wrong with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from rich.filesize import decimal

from mypt_cli.words import counted
from mypt_train.data.encode_line import Encoder
from mypt_train.data.encode_model import encoder_of
from mypt_train.data.unit_files import REFUSED
from mypt_train.scale.planning.pieces import Piece, piece_blocks
from mypt_train.scale.planning.plan import Plan

# Of English chats: tokens of a byte of input, and bytes that a core prepares in a second.
_TOKENS, _SPEED = 0.2, 10e6
_MAX_REASONS = 3
_THREADS = 32


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much work a plan is: `tokens`, `hours` of a core.

    `records` were checked, and `refused` of them are no episodes; `reasons` are a line each.
    """

    tokens: float
    hours: float
    records: int = 0
    refused: int = 0
    reasons: str = ""

    def summary(self, plan: Plan) -> str:
        size = sum(source.bytes for source in plan.inputs)
        units, groups = counted(len(plan.units), "unit"), counted(plan.groups, "group")
        by = "a rule of thumb; --sample measures"
        if self.records:
            by = f"{counted(self.records, 'record')}, of which {self.refused} are refused"
        inputs = counted(len(plan.inputs), "input")
        return (
            f"{decimal(size)} in {inputs}, {units} in {groups}; "
            f"about {_short(self.tokens)} tokens and {_time(self.hours)} (by {by})"
        )


def estimated(
    plan: Plan, sample: int = 0, progress: Callable[[int], None] = lambda _: None
) -> Estimate:
    """Returns an estimate, after checking the first `sample` records of each input.

    `progress` is told how many inputs are looked at. Raises UsageError for an input that cannot be
    read.
    """
    plain = sum(source.bytes * source.expansion for source in plan.inputs)
    begins = {piece.file: piece for unit in reversed(plan.units) for piece in reversed(unit)}
    records = refused = size = timed = tokens = 0
    reasons: list[str] = []
    took = 0.0
    encoders: dict[object, Encoder] = {}
    first_pieces = sorted(begins.items()) if sample > 0 else []
    for done, (number, lines) in enumerate(_beginnings(plan, first_pieces, sample), 1):
        progress(done)
        source = plan.inputs[number]
        new = 0
        if source.rules not in encoders:
            new = len(lines) // 2  # the first records of a process take several times as long
            encoders[source.rules] = encoder_of(plan.options, source.rules)
            plan.options.loaded_dialect.tokenizer.encode_batch([" "])  # loaded before it is timed
        encoder = encoders[source.rules]
        outcomes = [*encoder.lines(lines[:new], first=True)] if new else []
        began = time.thread_time()
        outcomes += encoder.lines(lines[new:], first=not new)
        took += time.thread_time() - began
        records += len(lines)
        size += sum(map(len, lines)) + len(lines)
        timed += sum(map(len, lines[new:])) + len(lines) - new
        for row, outcome in enumerate(outcomes, 1):
            tokens += sum(len(item.ids) for item in outcome.samples)
            if outcome.status == REFUSED:
                refused += 1
                first = outcome.findings[0]
                reasons.append(f"\n  {source.path}:{row}: {first.code} {first.message}")
    share = tokens / size if tokens else _TOKENS
    speed = timed / took if took else _SPEED
    return Estimate(
        plain * share, plain / speed / 3600, records, refused, "".join(reasons[:_MAX_REASONS])
    )


def indivisible(plan: Plan, size: int) -> list[str]:
    """Returns what to tell of inputs that are one unit, though they are larger than `size` bytes.

    A line for each way in which an input cannot be cut.
    """
    large: dict[str, list[str]] = {}
    for source in plan.inputs:
        if source.cut == "whole" and source.bytes * source.expansion > size:
            large.setdefault(source.packing if source.local else "store", []).append(source.path)
    out = []
    for kind, paths in large.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        one = "each is one unit" if others else "it is one unit"
        out.append(f"{paths[0]}{others}: {_INDIVISIBLE[kind].format(one)}")
    return out


_INDIVISIBLE = {
    "gz": "gzip is read from its beginning, so {}; to cut it, repack it: zcat OLD | bgzip > NEW",
    "zst": "has one frame of zstandard, so {}; to cut it, repack it: zstdcat OLD | pzstd > NEW",
    "": "is not JSONL, so {}; to cut it, write a record on each line",
    "store": "cannot be cut where it is, so {}; put several smaller objects there, or zstandard "
    "in its seekable format",
}


def _beginnings(
    plan: Plan, pieces: Sequence[tuple[int, Piece]], most: int
) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the first lines of inputs that can be read, by their numbers.

    Some inputs are read at a time.
    """

    def read(item: tuple[int, Piece]) -> tuple[int, list[bytes]]:
        number, piece = item
        blocks = piece_blocks(plan.inputs[number], piece, little=True)
        complete = (block for block in blocks if not (block.too_long or block.broken))
        return number, [*islice((line for block in complete for line in block.lines()), most)]

    with ThreadPoolExecutor(_THREADS) as threads:  # they wait for a disk or a store
        for at in range(0, len(pieces), _THREADS):
            yield from threads.map(read, pieces[at : at + _THREADS])


def _time(hours: float) -> str:
    """Returns hours of a core, in a unit of which there is one.

    >>> [_time(n) for n in (278.4, 1.2, 0.5, 0.00004)]
    ['280 core-hours', '1.2 core-hours', '30 core-minutes', '0.14 core-seconds']
    """
    for parts, name in ((1, "hours"), (60, "minutes")):
        if hours * parts >= 1:
            return f"{_short(hours * parts)} core-{name}"
    return f"{_short(hours * 3600)} core-seconds"


def _short(number: float) -> str:
    """Returns a number with two digits that count.

    >>> [_short(n) for n in (3_140_000_000, 1234, 12.34, 0.0271, 0)]
    ['3.1 billion', '1,200', '12', '0.027', '0']
    """
    for size, name in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"), (1, "")):
        if number >= size:
            rounded = float(f"{number / size:.2g}")
            return f"{rounded:,.10g}{name}"
    return f"{number:.2g}"
