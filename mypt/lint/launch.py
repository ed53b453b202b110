"""Runs `mypt-lint` over units of its files, by processes or by Ray, and merges what they find.

Input: groups of sources with their checkers, as the linter plans them. Output: chunks of findings
in the order of the input, which are those of one process. Files are cut as a plan cuts them. A file
that can be read only once, such as standard input, is checked here, in its place.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice

from mypt.lint.unit_job import Job, Outcome, Part, check_unit, packed
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_lint.check.checker import Checker
from mypt_lint.run.chunk import Chunk, once
from mypt_lint.run.plan import Group
from mypt_lint.run.runner import ended, run
from mypt_lint.settings.settings import NO_SETTINGS
from mypt_train.scale.launch.choice import engine_of
from mypt_train.scale.launch.queue import MakeEngine, attempts
from mypt_train.scale.planning.cut import cut_inputs, units_of
from mypt_train.scale.planning.pieces import Piece

# Bytes of a unit: a share of all, within bounds. Small units are dear, large ones take memory.
_LEAST, _MOST, _SHARE = 4 << 20, 64 << 20, 256
_AHEAD = 3  # units for each slot whose findings may wait for an earlier unit
_LINES = ("record", "rows")  # kinds of files that can be cut


def launched(groups: Sequence[Group], *, launcher: str, jobs: int) -> Iterator[Chunk]:
    """Checks groups by a launcher: `jobs` processes, or processors of a cluster; 0 is all.

    Raises UsageError as `run` does, and for a launcher that cannot run.
    """
    bytes_ = sum(source.size or 0 for group in groups for source in group.sources)
    size = min(_MOST, max(_LEAST, bytes_ // _SHARE))
    return merged(groups, engine_of(launcher, max(jobs, 0)), size=size)


def merged(groups: Sequence[Group], engine: MakeEngine, *, size: int) -> Iterator[Chunk]:
    """Checks groups by an engine, in units of about `size` bytes; yields the chunks in order."""
    job = _job(groups, size)
    outcomes = _outcomes(job, engine)
    numbers = {id(part.source): number for number, part in enumerate(job.parts)}
    counts = Counter(piece.file for unit in job.units for piece in unit)

    def files() -> Iterator[Chunk]:
        for group in groups:
            for source in group.sources:
                number = numbers.get(id(source))
                if number is None:
                    yield from run(group.checker, [source], group.kind)
                else:
                    of_file = islice(outcomes, counts[number])
                    yield from _file(group.checker, source, of_file)

    with closing(outcomes):
        yield from once(files())


def _job(groups: Sequence[Group], size: int) -> Job:
    chosen = [
        (number, group.kind, source)
        for number, group in enumerate(groups)
        for source in group.sources
        if not source.streamed
    ]
    sources = [source for *_, source in chosen]
    inputs, pieces = cut_inputs(sources, [NO_SETTINGS] * len(sources), size=size, hashed="nothing")
    parts = list[Part]()
    for file, (checker, kind, source) in enumerate(chosen):
        if len(pieces[file]) != 1 and (kind not in _LINES or not pieces[file]):
            pieces[file] = [Piece(file, 0, inputs[file].bytes)]
        parts.append(Part(checker, kind, source, inputs[file], len(pieces[file]) == 1))
    checkers = [group.checker for group in groups]
    return Job(os.getcwd(), checkers, parts, units_of(inputs, pieces, size=size))


def _outcomes(job: Job, engine: MakeEngine) -> Generator[Outcome]:
    """Yields the outcomes of all pieces in order. Raises UsageError for a unit that fails."""
    if not job.units:
        return
    waiting: dict[int, list[Outcome]] = {}
    first = 0
    with engine(partial(check_unit, packed(job))) as running:
        for attempt in attempts(range(len(job.units)), running, ahead=_AHEAD * running.slots):
            if not attempt.last:
                continue
            if attempt.error:
                paths = dict.fromkeys(
                    job.parts[p.file].source.path for p in job.units[attempt.unit]
                )
                raise UsageError(f"{', '.join(paths)}: checking failed: {attempt.error}")
            waiting[attempt.unit] = attempt.result
            while first in waiting:
                result = waiting.pop(first)
                if isinstance(result, UsageError):
                    raise result
                yield from result
                first += 1


def _file(checker: Checker, source: Source, outcomes: Iterator[Outcome]) -> Iterator[Chunk]:
    """Yields the chunks of a file, with rows as in it; what comes after damage is left out."""
    rows, broken = 0, False
    ending: Chunk | None = None
    for outcome in outcomes:
        if broken:
            continue
        before = rows
        for chunk in outcome.chunks:
            rows += chunk.summary.units
            yield chunk.moved(before)
        if outcome.ending is not None:
            ending = outcome.ending.moved(before)
        broken = outcome.broken
    yield ending or ended(checker, None, 0, source.path)
