"""Checks JSONL sources by several processes, with the findings in the order of one.

Every process walks the same list of units in the same order and does its share of them, every
`jobs`-th; this one yields its own and what the others send. There is no queue and no pool: to start
one takes longer than to check a small data set.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.records import record_ranges
from mypt_lint.check.checker import Checker
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.run.chunk import Chunk, once
from mypt_lint.run.runner import check_lines, pieces, run

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RANGE = 1 << 20  # bytes of a unit of a plain file
Part = tuple[int, int | None]
Unit = tuple[bool, Source, Callable[[], Iterable[Chunk]]]


def check_sources(
    checker: Checker, sources: list[Source], kind: str, *, jobs: int = 1
) -> Iterator[Chunk]:
    """Checks as `runner.run`, records by `jobs` processes. Raises UsageError if one is killed."""
    if kind == "record" and jobs > 1:
        yield from once(_parallel(checker, sources, jobs))
    else:
        yield from run(checker, sources, kind)


def _parallel(checker: Checker, sources: list[Source], jobs: int) -> Iterator[Chunk]:
    from multiprocessing import get_all_start_methods, get_context

    # A forked worker has everything imported and loaded; it must start before any thread does.
    method = "fork" if "fork" in get_all_start_methods() else "spawn"
    context = get_context(method)
    parts = [_parts(source) for source in sources]
    bare = [replace(source, stream=None) for source in sources]
    connections: list[Connection] = []
    workers = []
    try:
        for index in range(1, jobs):
            here, there = context.Pipe(duplex=False)
            connections.append(here)
            inherited = connections if method == "fork" else []
            worker_args = (there, inherited, checker, bare, parts, index, jobs)
            worker = context.Process(target=_work, args=worker_args)  # type: ignore[attr-defined]
            worker.start()
            there.close()
            workers.append(worker)
        yield from _collect(units(checker, sources, parts), connections)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
        for connection in connections:
            connection.close()


def units(checker: Checker, sources: list[Source], parts: list[list[Part]]) -> Iterator[Unit]:
    """Yields (divisible, source, work) for each unit.

    Units are byte ranges of plain files, and blocks of compressed files, of arrays and of tables,
    which every process reads. A source that can be read only once is not divisible, and is for the
    first process.
    """
    fast = FastChecker(checker)
    for source, ranges_ in zip(sources, parts, strict=True):
        for part in ranges_:
            yield True, source, partial(_range, fast, source, part)
        if ranges_:
            continue
        if source.streamed:
            yield False, source, partial(check_lines, fast, source)
            continue
        for piece in pieces(fast, source):
            yield True, source, partial(_one, piece)


def _parts(source: Source) -> list[Part]:
    parts: list[Part] = list(record_ranges(source, size=RANGE))
    if parts:
        parts[-1] = parts[-1][0], None  # to the end, even if the file has grown since
    return parts


def _range(fast: FastChecker, source: Source, part: Part) -> list[Chunk]:
    out, last = Chunk(), []
    for chunk in check_lines(fast, source, part=part):
        if chunk.summary.files:  # what is shown at the end of a file stays there
            last = [chunk]
        else:
            out.join(chunk)
    return [out, *last]


def _one(piece: Callable[[], Chunk]) -> list[Chunk]:
    return [piece()]


def _work(
    connection: Connection,
    inherited: list[Connection],
    checker: Checker,
    sources: list[Source],
    parts: list[list[Part]],
    index: int,
    jobs: int,
) -> None:
    """Does the share of process `index`, and sends the results, errors too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process stops the others
    for foreign_end in inherited:
        foreign_end.close()  # else no writer notices when the first process is gone
    number = 0
    try:
        for divisible, _, work in units(checker, sources, parts):
            if divisible and number % jobs == index:
                connection.send(list(work()))
            number += divisible
    except BrokenPipeError:
        pass
    except Exception as error:
        connection.send(error)


def _collect(todo: Iterator[Unit], connections: list[Connection]) -> Iterator[Chunk]:
    """Yields the outcome of every unit in order, rows counted from the start of the file."""
    rows: dict[str, int] = {}
    number = 0
    for divisible, source, work in todo:
        owner = number % (len(connections) + 1) if divisible else 0
        number += divisible
        before = rows.get(source.path, 0)
        for chunk in work() if owner == 0 else _received(connections[owner - 1]):
            rows[source.path] = rows.get(source.path, 0) + chunk.summary.units
            yield chunk.moved(before)


def _received(connection: Connection) -> list[Chunk]:
    try:
        outcome = connection.recv()
    except (EOFError, ConnectionError):
        raise UsageError(
            "a worker process was killed, possibly out of memory; try again with -j 1"
        ) from None
    if isinstance(outcome, Exception):
        raise outcome
    chunks: list[Chunk] = outcome
    return chunks
