"""Checks one unit of files as `mypt-lint` checks all of them.

Input: a job, which holds checkers and pieces of files, and the number of a unit. Output: an
`Outcome` for each piece of the unit. A job is bytes, so that it can be sent to any machine; it
holds no credentials.
"""

import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Block, Source
from mypt_cli.jsonl.values import MAX_LINE
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import MAX_KEYS
from mypt_lint.check.file_faults import BLOCK
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.run.chunk import FAR, Chunk
from mypt_lint.run.runner import checked, ended, run
from mypt_train.scale.planning.pieces import Input, Piece, piece_blocks

MANY = 1000  # findings of a chunk, about: more of them are kept apart
Unit = tuple[Piece, ...]


@dataclass(frozen=True)
class Part:
    """A file: the number of its checker, its kind, and whether it is one piece, read alone."""

    checker: int
    kind: str
    source: Source
    input: Input
    is_whole: bool


@dataclass(frozen=True)
class Job:
    """All that units depend on; relative paths begin at `folder`."""

    folder: str
    checkers: Sequence[Checker]
    parts: Sequence[Part]
    units: Sequence[Unit]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is found in a piece of a file, in order; rows count as in a byte range (`Chunk.moved`).

    - `ending`: what the end of the file shows, if this piece has the last line. None for a piece
      without lines.
    - `broken`: the file cannot be read further than this.
    """

    chunks: list[Chunk]
    ending: Chunk | None = None
    broken: bool = False


def packed(job: Job) -> bytes:
    """Returns a job as bytes, with the version that can read it."""
    return pickle.dumps((mypt_spec.__version__, _fingerprints(job), pickle.dumps(job)))


def check_unit(data: bytes, number: int) -> list[Outcome] | UsageError:
    """Returns what is found in a unit, an outcome for each of its pieces.

    Returns the error of one that cannot be read, however often it is tried.
    """
    try:
        job, fast = _load_job(data)
        if any(part.input.local for part in job.parts):
            with suppress(FileNotFoundError):  # then the files are not here either, which is said
                os.chdir(job.folder)
        return [_piece(job, fast, piece) for piece in job.units[number]]
    except UsageError as error:
        return UsageError(str(error))


@lru_cache(maxsize=1)
def _load_job(data: bytes) -> tuple[Job, list[FastChecker]]:
    version, fingerprints, body = pickle.loads(data)
    if version != mypt_spec.__version__:
        raise UsageError(
            f"a machine has version {mypt_spec.__version__} of mypt-tags, this is {version}; "
            "install the same on all"
        )
    job: Job = pickle.loads(body)
    if _fingerprints(job) != fingerprints:
        raise UsageError("a machine has another grammar than this one; install the same on all")
    return job, [FastChecker(checker) for checker in job.checkers]


def _fingerprints(job: Job) -> list[str]:
    return [checker.dialect.fingerprint for checker in job.checkers]


def _piece(job: Job, fast: Sequence[FastChecker], piece: Piece) -> Outcome:
    part = job.parts[piece.file]
    if part.is_whole:
        all_chunks = list(run(job.checkers[part.checker], [part.source], part.kind))
        return Outcome(all_chunks[:-1], all_chunks[-1])
    checker = fast[part.checker]
    base = FAR if piece.start else 0
    chunks: list[Chunk] = []
    last: Block | None = None
    for block in piece_blocks(part.input, piece, block_size=BLOCK, max_line=MAX_LINE):
        row = base + block.first_row
        _add(chunks, checked(checker, block, row, part.input.path, part.kind))
        last = block
    if last is None:
        return Outcome(chunks)
    ending = ended(checker.checker, last, base, part.input.path)
    return Outcome(chunks, ending, bool(last.broken))


def _add(chunks: list[Chunk], chunk: Chunk) -> None:
    """Adds a chunk to the last one, as long as that is small."""
    if chunks:
        last = chunks[-1]
        keys = len(last.summary.keys) + len(chunk.summary.keys)
        if len(last.findings) + len(chunk.findings) <= MANY and keys <= MAX_KEYS:
            last.join(chunk)
            return
    chunks.append(chunk)
