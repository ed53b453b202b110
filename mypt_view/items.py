"""Reads sources into items to show: one for each episode, legal or not. Prints nothing.

Ids and loss are those of `Dialect.encode`, findings are the linter's. Another kind of source is
another function that yields `Item`s; nothing that shows items asks where they are from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.records import record_blocks
from mypt_cli.jsonl.values import MAX_LINE
from mypt_cli.words import counted
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.file_faults import BLOCK, broken_off, too_long, whole_text
from mypt_lint.check.texts import decode, text_episodes
from mypt_lint.run.chunk import OF_THE_FILE
from mypt_records.shapes import SHAPES
from mypt_spec.bodies.json_body import NAME, call_parts, names_called
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.dialect import Dialect
from mypt_spec.encoder import Mask, Segment
from mypt_spec.episode import Episode, Event, Place, events_of
from mypt_spec.findings import Finding, regraded
from mypt_spec.table import TEXT

if TYPE_CHECKING:
    from mypt_train.data.encode_line import Encoder

_BOM = "\ufeff"


class Item(NamedTuple):
    """One episode to show.

    `episode` is None where it could not be read; `value` and `raw` are then what can be shown.
    `segments` are its ids and loss, by event; None where it has none, and `lacks` says why. `text`
    is the serialised text that was read, None for a record. Spans of findings count in the string
    that their pointer names. With a `shape`, it is a record of other tools, shown as it is.
    """

    label: str
    dialect: Dialect
    episode: Episode | None
    segments: tuple[Segment, ...] | None
    findings: tuple[Finding, ...]
    raw: str = ""
    value: Any = None
    text: str | None = None
    lacks: str = ""
    shape: str = ""

    @property
    def format(self) -> str:
        """Returns what the episode is shown as."""
        return SHAPES[self.shape].ABOUT if self.shape else self.dialect.name

    @property
    def ids(self) -> list[int]:
        return [i for segment in self.segments or () for i in segment.ids]

    @property
    def loss(self) -> list[int]:
        return [loss for segment in self.segments or () for loss in segment.losses]

    def events(self) -> list[Event] | None:
        """Returns tags and text runs, as far as there are any."""
        if self.segments is not None:
            return [segment.event for segment in self.segments]
        if self.episode is not None:
            try:
                return list(events_of(self.episode.messages, self.dialect.table))
            except ValueError:
                return None
        return self.dialect.lex(self.text) if self.text is not None else None


def read_items(checker: Checker, source: Source, kind: str, line: int | None) -> Iterator[Item]:
    """Yields the episodes of a source from `line` on (None: from the beginning).

    `kind` is "record" or "text". Raises UsageError where the source cannot be read, is empty, or
    has no such line.
    """
    return records(checker, source, line) if kind == "record" else texts(checker, source, line)


def records(checker: Checker, source: Source, line: int | None) -> Iterator[Item]:
    """Yields one item for each record; `line` is its line, row, or number in an array."""
    first, row, noun = line or 1, 0, "line"
    reported_keys: set[tuple[str, str]] = set()
    for block in record_blocks(source, block_size=BLOCK, max_line=MAX_LINE):
        noun = "line" if block.kind == "lines" else "record"
        if block.too_long:
            row = block.first_row
            if row >= first:
                findings = too_long(checker, block, row, source.path)
                yield _unread(checker, block.data, row, source.path, findings)
            continue
        lines = block.lines()
        for row, raw in enumerate(lines, block.first_row):
            if row < first:
                continue
            if block.broken and row == block.first_row + len(lines) - 1:
                break  # the piece of a line where a damaged file ends
            yield _once(record(checker, raw, row, source.path), reported_keys)
        if block.broken:
            row = block.first_row + max(0, len(lines) - 1)
            if row >= first:
                findings = broken_off(checker, block, row, source.path)
                yield _unread(checker, lines[-1] if lines else b"", row, source.path, findings)
    _need(source, row, first, noun)


def record(checker: Checker, raw: bytes, row: int, path: str) -> Item:
    """Returns the item of one line of JSONL. Never raises."""
    diagnostic = checker.line(raw, row=row, filename=path)
    text = raw.decode("utf-8", "replace").removesuffix("\r")
    label, dialect = f"{path}:{row}", checker.dialect
    try:
        value = loads(text.removeprefix(_BOM) if row == 1 else text)
    except Fault:
        return _unread(checker, raw.removesuffix(b"\r"), row, path, diagnostic)
    findings = tuple(item.finding for item in diagnostic)
    if checker.formatless:
        why = f"{SHAPES[checker.shape].ABOUT} have none; name --model or --dialect"
        shape = checker.shape
        return Item(label, dialect, None, None, findings, text, value, lacks=why, shape=shape)
    episode = None
    if not any(f.code in ("MYP002", "MYP901") for f in findings):
        episode = (checker if checker.shape else dialect).read(value)[0]
    segments, lacks = encoded(dialect, episode)
    return Item(label, dialect, episode, segments, findings, text, value, lacks=lacks)


def texts(checker: Checker, source: Source, line: int | None) -> Iterator[Item]:
    """Yields one item for each episode of serialised text; `line` is any of its lines."""
    data, _, diagnostic = whole_text(checker, source)
    text, faults, readable = decode(checker, data)
    findings = faults or [item.finding for item in diagnostic]
    rows = text.count("\n") + (not text.endswith("\n") and bool(text))
    dialect, lacks = checker.dialect, "the text cannot be read"
    if diagnostic or (not readable and line is None):
        yield Item(source.path, dialect, None, None, tuple(findings), text, text=text, lacks=lacks)
        return
    _need(source, rows, line or 1)
    row, done = 1, 0
    about = [_placed(fault, None) for fault in faults]  # of the file, not of its first tag
    for unit in text_episodes(checker, text):
        row += text.count("\n", done, unit.start)
        done = unit.start
        if line is not None and row + unit.text.count("\n") < line:
            continue
        segments, lacks = encoded(dialect, unit.episode)
        common = f"{source.path}:{row}", dialect, unit.episode, segments
        yield Item(*common, (*about, *unit.findings), unit.text, text=unit.text, lacks=lacks)
        about = []


def encoded(
    dialect: Dialect, episode: Episode | None, mask: str = "model"
) -> tuple[tuple[Segment, ...] | None, str]:
    """Returns the segments of an episode by a mask; or None, and why it has none."""
    if episode is None:
        return None, "it cannot be read without loss"
    try:
        return tuple(dialect.segments(episode, mask=mask)), ""
    except ValueError as error:
        return None, str(error)


def masked(dialect: Dialect, ids: Any, mask: Any) -> tuple[Segment, ...]:
    """Returns the ids of a format that has no tags as segments, one for each run of one loss."""
    runs = groupby(zip(ids.tolist(), mask.tolist(), strict=True), key=itemgetter(1))
    out = []
    for loss, pairs in runs:
        run = [number for number, _ in pairs]
        out.append(Segment(Event(TEXT, dialect.tokenizer.decode(run)), run, loss, ()))
    return tuple(out)


def rendered(encoder: Encoder, item: Item) -> Item:
    """Returns the item of a record with the text, ids and loss that a chat template makes of it."""
    outcome = None if item.value is None else encoder.record(item.value)
    if outcome is None or not outcome.samples:
        return item._replace(lacks="the chat template does not write the record")
    (sample,) = outcome.samples
    segments = masked(encoder.dialect, sample.ids, sample.mask)
    text = encoder.dialect.tokenizer.decode(sample.ids)
    return item._replace(segments=segments, text=text, lacks="", shape="")


def as_prepared(items: Iterable[Item], history: str, mask: str) -> Iterator[Item]:
    """Yields for each item the episodes that a policy of `mypt-prepare --history` makes of it, with
    the loss of a mask of `mypt-prepare --mask`.

    An item without an episode stays as it is. Raises UsageError where the policy needs more than
    the dialect says.
    """
    if history == "per-turn":
        mask = str(Mask.from_name(mask)._replace(last=True))
    for item in items:
        if item.episode is None or item.segments is None:
            yield item
            continue
        try:
            episodes = item.dialect.trained(item.episode, history=history)
        except ValueError as error:
            raise UsageError(str(error)) from None
        for number, episode in enumerate(episodes, 1):
            segments, lacks = encoded(item.dialect, episode, mask)
            yield item._replace(
                label=item.label + f", episode {number} of {len(episodes)}" * (len(episodes) > 1),
                episode=episode,
                segments=segments,
                findings=item.findings if number == 1 else (),
                lacks=lacks,
                text=None if history != "keep" else item.text,
            )


def first(items: Iterable[Item], number: int | None) -> Iterator[Item]:
    """Yields the first `number` items (None: all); empty lines are shown and not counted."""
    count = 0
    for item in items:
        yield item
        count += bool(item.raw.strip())
        if number is not None and count >= number:
            return  # before the next one is read: it may not be there yet


def outline(item: Item) -> tuple[int | None, int | None]:
    """Returns the number of turns (None if no format says it), and the first phase of the episode
    (None without phases).
    """
    table = item.dialect.table
    tags = [table.terminals.get(e.terminal) for e in item.events() or ()]
    opened = [terminal.opens if terminal else "" for terminal in tags]
    turns = sum(map(table.begins_turn, opened, [*opened[1:], ""]))
    if item.episode is None:
        return turns or None, None
    if not table.phases:
        return turns, None
    needed = [t.phase for t in tags if t and not t.closes] + [table.multi_turn_phase] * (turns > 1)
    return turns, max(needed, default=1)


def tools_called(item: Item) -> list[str]:
    """Returns the names of the called tools, each once, in order; quoted calls are none."""
    messages = item.episode.messages if item.episode is not None else ()
    table, names = item.dialect.table, dict[str, None]()
    for part in call_parts(messages, table):
        in_tag = dict(part.attrs).get(NAME)
        call_names = [in_tag] if in_tag else names_called(part.text, table.openers[part.kind].body)
        names |= dict.fromkeys(call_names)
    return list(names)


def _unread(
    checker: Checker, raw: bytes, row: int, path: str, diagnostic: list[Diagnostic]
) -> Item:
    """Returns the item of a line that is not JSON; the columns of its findings are their spans."""
    findings = tuple(_placed(d.finding, (d.column - 1, d.end_column - 1)) for d in diagnostic)
    text, lacks = raw.decode("utf-8", "replace"), "the line cannot be read"
    return Item(f"{path}:{row}", checker.dialect, None, None, findings, text, lacks=lacks)


def _placed(finding: Finding, span: tuple[int, int] | None) -> Finding:
    """Returns a finding about what is shown as a whole, with the severity that it has."""
    return regraded(replace(finding, pointer="", span=span), finding.severity)


def _once(item: Item, reported_keys: set[tuple[str, str]]) -> Item:
    """Returns an item without its `reported_keys`, and adds those reported once per file."""
    keys = [(f.code, f.message) for f in item.findings]
    fresh = tuple(f for f, key in zip(item.findings, keys, strict=True) if key not in reported_keys)
    reported_keys.update(key for key in keys if key[0] in OF_THE_FILE)
    return item if len(fresh) == len(keys) else item._replace(findings=fresh)


def _need(source: Source, rows: int, line: int, noun: str = "line") -> None:
    if not rows:
        raise UsageError(f"{source.path}: is empty, there is nothing to show")
    if line > rows:
        raise UsageError(
            f"{source.path}:{line}: there is no {noun} {line}; the file has {counted(rows, noun)}"
        )


def plain_event(text: str, pointer: str, *, span: bool = False) -> Event:
    """Returns content that belongs to no block of the format, as an event."""
    return Event(TEXT, text, Place(pointer, (0, len(text)) if span else None))
