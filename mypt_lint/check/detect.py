"""Finds the dialect of a source from its beginning.

Input are the first lines of a file or pipe, and the dialects to choose from; output is the dialect
with the fewest errors, and a source that can still be read as a whole. Users need not name the
dialect of each file, and a file that is checked as the wrong one gets one finding and not
thousands.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import IO, BinaryIO, NamedTuple, cast

import mypt_spec
from mypt_cli.jsonl.blocks import Source, blocks
from mypt_cli.jsonl.layout import EVENTS, RECORD, TABLES, layout_of
from mypt_cli.jsonl.records import record_blocks
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.dialect import Dialect, detectable_dialects, shaped
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding
from mypt_spec.states import open_blocks
from mypt_spec.table import TEXT

_HEAD = 1 << 18  # bytes looked at; more only until one line is whole
_MOST = 16 << 20
_LINES = 50
_WORST = 5  # errors of one line that count
_MISSPELT = "MYP303"
_PRIOR = 1.25  # how much better than the first dialect another must be


Legal = Callable[[object], bool]


class Guess(NamedTuple):
    """The dialect of a source.

    `source` is to be read in place of the one that was looked at, because a pipe can be read only
    once. `others` explain the beginning as well; `sure` is whether anything of it is legal in the
    dialect.
    """

    dialect: Dialect
    source: Source
    others: tuple[str, ...] = ()
    sure: bool = True


class _Score(NamedTuple):
    """How well a dialect explains the beginning.

    `fit` is minus the number of errors; `explained` counts lines that are explained, and `clean`
    those without error.
    """

    fit: int
    explained: int
    clean: int


def candidates(first: str, kind: str = "record") -> list[Dialect]:
    """Returns the dialects that a source of a kind may have.

    `first` is in front: it is preferred where another is about as good.
    """
    return [mypt_spec.dialect(name) for name in in_order(first, kind)]


def in_order(first: str, kind: str = "record") -> list[str]:
    """Returns the names of the dialects that a source of a kind may have, `first` in front."""
    names = detectable_dialects() if kind == "record" else mypt_spec.dialects()
    return sorted(names, key=lambda name: name != first)


def detect(
    source: Source, kind: str, dialects: Sequence[Dialect], hidden: frozenset[str] = frozenset()
) -> Guess:
    """Returns the dialect in which the beginning has the fewest errors, but for `hidden` codes.

    It is the first of `dialects` where that is about as good as another. Raises UsageError as
    `blocks` does.
    """
    head, source = _head(source)
    if kind != "record":
        from mypt_records.shapes.text import distinct, formats_of

        beginning = replace(source, stream=io.BytesIO(head), size=None)
        text = b"".join(block.data for block in blocks(beginning)).decode("utf-8-sig", "replace")
        names = distinct(formats_of(text, _fit if kind == "text" else lambda *_: 0))
        named = mypt_spec.dialect(names[0]) if names else dialects[0]
        return Guess(named, source, names[1:], bool(names))
    scores = _records(_unpacked(head, source), dialects, hidden)

    def merit(dialect: Dialect) -> tuple[float, int]:
        fit, explained, _ = scores[dialect.name]
        return fit * (1 if dialect is dialects[0] else _PRIOR), explained

    best = max(dialects, key=merit)
    score = scores[best.name]
    others = tuple(d.name for d in dialects if d is not best and scores[d.name][:2] == score[:2])
    return Guess(best, source, others, score.clean > 0)


def elsewhere(
    source: Source, codes: Callable[[object], frozenset[str]], legal: Mapping[str, Legal]
) -> tuple[tuple[str, ...], Source]:
    """Returns the formats in which all first records of a source are legal, and the source to read.

    There are none unless all these records have a failure in common as they are read now.
    `codes` returns the failures of a record as it is read now; `legal` maps each other format to
    whether a record is legal there. Raises UsageError as `blocks` does.
    """
    head, source = _head(source, least=1)  # a pipe that begins well need not wait for more
    first = _first_records(_unpacked(head, source), 1)
    common = codes(first[0]) if first else None
    if common is not None and not common:
        return (), source
    head, source = _head(source)
    records = _first_records(_unpacked(head, source))
    fitting = [name for name, fits in legal.items() if all(map(fits, records))]
    for record in records[len(first) :] if fitting else ():
        common = codes(record) if common is None else common & codes(record)
    return tuple(fitting) if common else (), source


def elsewhere_than(
    source: Source, dialect: Dialect, names: Iterable[str]
) -> tuple[tuple[Dialect, ...], Source]:
    """Returns the dialects of a source that is not in `dialect`, as `elsewhere` does.

    What a safe fix repairs is no failure. A dialect of `names` is loaded only for a record that has
    its shape. Where the records of `dialect` are chats as other tools write them, such a chat is in
    no other dialect, whichever can read it, too.
    """
    a_chat = dialect.name not in detectable_dialects()

    def fits(record: object, name: str) -> bool:
        with suppress(Exception):  # the check of the line reports it
            if not shaped(record, name) or (a_chat and _is_clean_chat(record)):
                return False
            return not error_count(record, mypt_spec.dialect(name))
        return False

    legal = {name: partial(fits, name=name) for name in names if name != dialect.name}
    fitting, source = elsewhere(source, partial(failures, dialect=dialect), legal)
    return tuple(map(mypt_spec.dialect, fitting)), source


def of_a_dialect(record: object) -> bool:
    """Returns whether a record has a key that dialects have, and hardly any shape."""
    return (
        isinstance(record, dict) and isinstance(record.get("system"), str) and "messages" in record
    )


def _is_clean_chat(record: object) -> bool:
    from mypt_records.shapes import read, shape_of

    shape = shape_of(record)
    if not shape or of_a_dialect(record):
        return False
    return not any(finding.severity == "error" for finding in read(record, shape).findings)


def beginning(source: Source, least: int = _HEAD) -> tuple[list[object], Source]:
    """Returns the first records of a source that are JSON, and the source to read.

    At least `least` bytes are read of a pipe. Raises UsageError as `blocks` does.
    """
    head, source = _head(source, least)
    return _first_records(_unpacked(head, source), 1 if least == 1 else _LINES), source


def _head(source: Source, least: int = _HEAD) -> tuple[bytes, Source]:
    """Reads at least `least` bytes of a source, and more until one line, or object, is whole."""
    stream = source.open()
    read_piece = getattr(stream, "read1", stream.read)
    head = b""
    while len(head) < least or (
        len(head) < _MOST
        and not (source.compressed or head.startswith((b"[", *TABLES)))
        and (b"\n" not in head or layout_of(head, ended=True) == RECORD)
    ):
        try:
            piece = read_piece(_HEAD)
        except OSError:  # the reader of the whole source reports it
            break
        head += piece
        if not piece:
            break
    if not source.streamed:
        stream.close()
        return head, source
    return head, replace(source, stream=cast(BinaryIO, _Replayed(head, stream)))


class _Replayed(io.BufferedIOBase):
    """A stream that first returns again what was read from it."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head, self._stream = io.BytesIO(head), stream

    def read1(self, size: int = -1, /) -> bytes:
        data: bytes = self._head.read(size) or getattr(self._stream, "read1", self._stream.read)(
            size
        )
        return data

    def read(self, size: int | None = -1, /) -> bytes:
        return self.read1(-1 if size is None else size)


def _unpacked(head: bytes, source: Source) -> bytes:
    """Returns the first records as lines; the last may be cut off."""
    if head.startswith(TABLES):  # which is read from its end
        return next(record_blocks(source, block_size=_HEAD)).data
    if len(head) >= _HEAD and layout_of(head, ended=True) == EVENTS:
        head = head[: head.rfind(b"\n") + 1]
    beginning = replace(source, stream=io.BytesIO(head), size=None)
    return b"".join(block.data for block in record_blocks(beginning))


def _first_records(data: bytes, most: int = _LINES) -> list[object]:
    """Returns the JSON values of the first lines, without those that are no JSON."""
    records: list[object] = []
    for raw in [line for line in data.split(b"\n")[: _LINES + 1] if line.strip()][:_LINES]:
        with suppress(Fault):
            records.append(loads(raw.decode("utf-8-sig", "replace")))
        if len(records) == most:
            break
    return records


def mentions(record: object, dialect: Dialect) -> bool:
    """Returns whether a text has a tag of the dialect, which is an error, and a sign for it."""
    text = json.dumps(record, ensure_ascii=False)
    return any(tag in text for tag in dialect.table.special)


def _records(data: bytes, dialects: Sequence[Dialect], hidden: frozenset[str]) -> dict[str, _Score]:
    """Judges the first lines by their errors in each dialect.

    A tag in the data is an error in the dialect that it belongs to, and a sign that this is the
    one: such lines are excused for all errors but those of their shape. They are not excused where
    no line is legal, and in another dialect every line is. A misspelt tag is no error here, but a
    sign for the dialect, too.
    """
    records = _first_records(data)
    counts = {d.name: [_error_counts(record, d, hidden) for record in records] for d in dialects}
    clean = {name: sum(not full for full, *_ in lines) for name, lines in counts.items()}
    strict = len(records) in clean.values()
    scores = {}
    for name, lines in counts.items():
        errors = [spelt if strict and not clean[name] else excused for _, spelt, excused in lines]
        scores[name] = _Score(-sum(errors), errors.count(0), clean[name])
    return scores


def _error_counts(
    record: object, dialect: Dialect, hidden: frozenset[str] = frozenset()
) -> tuple[int, int, int]:
    """Counts a record's errors: all, those but misspelt tags, and those that no tag excuses."""
    episode, shape, second = _findings(record, dialect)
    if episode is None:
        return _WORST, _WORST, _WORST
    first = _errors(shape, hidden)
    full, spelt = (min(first + _errors(second, h), _WORST) for h in (hidden, hidden | {_MISSPELT}))
    return full, spelt, min(first, _WORST) if mentions(record, dialect) else spelt


def failures(record: object, dialect: Dialect) -> frozenset[str]:
    """Returns the codes of a record's errors that no safe fix repairs.

    Where a text mentions a tag, only errors of shape count, and a misspelt tag is none.
    """
    _, shape, second = _findings(record, dialect)
    text = json.dumps(record, ensure_ascii=False)
    tagged = mentions(record, dialect) or any(e.terminal != TEXT for e in dialect.lex(text))
    both = [*shape, *([] if tagged else (f for f in second if f.code != _MISSPELT))]
    return frozenset(f.code for f in both if f.severity == "error" and not (f.fix and f.fix.safe))


def _findings(
    record: object, dialect: Dialect
) -> tuple[Episode | None, list[Finding], list[Finding]]:
    """Returns the Episode of a record, the findings about its shape, and the others.

    All are empty where the dialect raises.
    """
    try:
        episode, shape = dialect.read(record)
        return episode, shape, [] if episode is None else dialect.validate(episode)
    except Exception:  # the check of the line reports it
        return None, [], []


def _errors(findings: Iterable[Finding], hidden: frozenset[str]) -> int:
    return sum(f.severity == "error" and f.code not in hidden for f in findings)


def error_count(record: object, dialect: Dialect) -> int:
    """Returns how many errors a record has in a dialect.

    One that cannot be read has at least as many as any that can.
    """
    return _error_counts(record, dialect)[0]


def _fit(name: str, text: str) -> int:
    """Returns how well a format fits the episodes of a text; the last may be cut off."""
    dialect = mypt_spec.dialect(name)
    pieces = [piece for _, piece in episodes_of(dialect, text)]
    parsed = [dialect.parse(piece) for piece in pieces[:-1] or pieces]
    return min((episode is not None) + (not findings) for episode, findings in parsed)


def episodes_of(dialect: Dialect, text: str) -> Iterator[tuple[int, str]]:
    """Yields the episodes of a text, with their beginnings.

    Between blocks, a tag that is refused here but can begin an episode begins the next one, whether
    this one is complete or not.
    """
    machine, table = dialect.automaton, dialect.table
    state: int | None = machine.start
    stacks = open_blocks(machine, table)
    begin = 0
    for event in dialect.lex(text):
        here = machine.steps[state].get(event.terminal) if state is not None else None
        starts = event.terminal in machine.steps[machine.start] and event.terminal != TEXT
        at = event.at.extent[0]
        if here is None and starts and at > begin and (state is None or not stacks[state]):
            if text[begin:at].strip():
                yield begin, _without_line_end(dialect, text[begin:at])
            begin = at
            here = machine.steps[machine.start][event.terminal]
        gap = event.terminal == TEXT and here is None and event.text.isspace()
        state = state if gap else here
    if text[begin:].strip() or begin == 0:
        yield begin, _without_line_end(dialect, text[begin:])


def _without_line_end(dialect: Dialect, text: str) -> str:
    last = dialect.lex(text)[-1:]
    return text.removesuffix("\n") if last and last[0].terminal == TEXT else text
