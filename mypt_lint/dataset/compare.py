"""Finds what no episode shows by itself (family 6), in two passes over all records, in order.

The first pass keeps digests of each record (`records`), some hundred bytes, and counts; then the
records are compared, all at once. The second pass reads only records with findings again. Nothing
depends on the blocks in which the data is read.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Block, Source
from mypt_cli.jsonl.records import record_blocks
from mypt_cli.jsonl.values import MAX_LINE
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.file_faults import BLOCK
from mypt_lint.check.origins import placed
from mypt_lint.check.suppress import suppressed
from mypt_lint.dataset.evaluation import Evaluation, Reserved, reserved_in
from mypt_lint.dataset.fingerprints import Fingerprint, digest, of_chat, of_episode, plain
from mypt_lint.dataset.of_file import FileCounts
from mypt_lint.dataset.passages import signatures, words
from mypt_lint.dataset.records import MOST, Records, Relation
from mypt_lint.dataset.whitespace import untidy, untidy_answers
from mypt_lint.run.chunk import Chunk
from mypt_lint.run.plan import Plan
from mypt_lint.run.resolve import Group
from mypt_lint.settings.config import matches
from mypt_records.chat import Chat
from mypt_records.names import OPT_OUT
from mypt_records.shapes import read as read_chat
from mypt_records.shapes import shape_of
from mypt_spec.bodies.json_body import value_in
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.compiled.toml import load
from mypt_spec.episode import Episode, Part, events_of
from mypt_spec.findings import Finding, Fix
from mypt_spec.table import CALLS

_EVAL = re.compile(
    r"(?:^|[/._-])(?:eval|evaluation|val|valid|validation|test|dev|heldout)(?=[/._-]|$)",
    re.IGNORECASE,
)
_SPOKEN = ("openai", "sharegpt")  # shapes whose answers need no white space around them
_CITED = "cite"  # a block that names its source
_DOCUMENT = "doc_id"  # an argument that names a document
_ROW = 40  # bits of a place that hold the row
_ROWS = (1 << _ROW) - 1
_FEW = 100  # names of one length that are looked for one by one
_LONG = 200  # characters of a name that always is: so the time is linear in the text
_TEXT = 1 << 18  # characters of texts that are hashed at once
_MESSAGES = load(Path(__file__).with_name("messages.toml"))


def compared(plan: Plan, groups: Sequence[Group]) -> Iterator[Chunk]:
    """Yields the findings about all data, by the settings. Raises UsageError for what is a pipe."""
    if any(source.streamed for group in groups for source in group.sources):
        raise UsageError("--data-set reads the data twice, so it must be a file")
    globs, reserved = plan.top["eval"] or (), reserved_in(plan.eval_prompts)
    return DataSet(groups, eval_globs=globs, reserved=reserved).chunks()


class DataSet:
    """All data, compared; `reserved` must not be trained on.

    `eval_globs` name the files for evaluation; without them, the files' own names do.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        eval_globs: Sequence[str] = (),
        reserved: Sequence[Reserved] = (),
    ) -> None:
        pairs = [(g.checker, source) for g in groups if g.kind == "record" for source in g.sources]
        self._sources, self._globs = pairs, eval_globs
        self._names = [source.path for _, source in pairs]
        self._evaluated = {path for path in self._names if self.is_eval(path)}
        self._evaluation = Evaluation(reserved)
        self._overlaps: dict[int, int] = {}  # by number of a record
        self._counts: list[FileCounts] = []
        self.records = Records()

    def is_eval(self, path: str) -> bool:
        name = path.replace("\\", "/").removeprefix("./")
        if self._globs:
            return any(matches(glob, name) for glob in self._globs)
        return _EVAL.search("/".join(name.split("/")[-2:])) is not None

    def chunks(self) -> Iterator[Chunk]:
        """Yields the findings of each file, a block at a time."""
        if len(self._evaluated) == len(self._names):
            self._evaluated = set()  # there is no other data
        for checker, source in self._sources:
            if source.path in self._evaluated:
                for row, *_, unit, _ in conversations_of(checker, source):
                    self._evaluation.add(_fingerprint(unit, checker), f"{source.path}:{row}")
        starts = [0]
        for number in range(len(self._sources)):
            self._read(number)
            starts.append(len(self.records))
        relations = self.records.relations()
        for number, (first, last) in enumerate(pairwise(starts)):
            yield from self._file(number, first, last, relations)

    def _read(self, number: int) -> None:
        """Adds the records of a source to those that are compared."""
        checker, source = self._sources[number]
        counts, texts = FileCounts(), list[str]()
        self._counts.append(counts)
        for row, _, record, unit, _ in conversations_of(checker, source):
            digests = _fingerprint(unit, checker)
            counts.add(row, record, unit, digests.final)
            if len(self.records) >= MOST:
                continue
            final = 0 if digests.final is None else digest(digests.final)
            has_findings = bool(self._alone(record, unit, digests, source.path, checker))
            self.records.add(number << _ROW | row, digests, final, has_findings)
            texts.append(digests.text)
            if sum(map(len, texts)) > _TEXT:
                self._hash(texts, source.path)
                texts.clear()
        self._hash(texts, source.path)

    def _hash(self, texts: list[str], path: str) -> None:
        hashes, first = words(texts), len(self.records) - len(texts)
        self.records.sign(signatures(hashes))
        if path not in self._evaluated:
            for text, item in self._evaluation.near(hashes).items():
                self._overlaps[first + text] = item

    def _alone(
        self, record: Any, unit: Episode | Chat, digests: Fingerprint, path: str, checker: Checker
    ) -> list[Finding]:
        """Returns what a record shows without the others of its data."""
        findings = [] if path in self._evaluated else list(self._evaluation.exact(digests))
        if isinstance(unit, Episode):
            findings += [*within(unit, checker), *untidy(record, unit, checker.dialect.table)]
        elif unit.shape in _SPOKEN:
            findings += untidy_answers(unit)
        return findings

    def _file(
        self, number: int, first: int, last: int, relations: dict[int, Relation]
    ) -> Iterator[Chunk]:
        """Yields the findings of a source, whose records have the numbers `first` to `last`."""
        checker, source = self._sources[number]
        chunk = Chunk()
        places = self.records.digests[3, first:last].tolist()
        flagged = {
            place & _ROWS: i
            for i, place in enumerate(places, first)
            if self.records.flags[i] or i in relations or i in self._overlaps
        }
        again = conversations_of(checker, source, flagged) if flagged else ()
        for row, raw, record, unit, block in again:
            digests = _fingerprint(unit, checker)
            findings = self._alone(record, unit, digests, source.path, checker)
            if (index := flagged[row]) in self._overlaps and not findings:
                findings = [self._evaluation.finding(self._overlaps[index])]
            if index in relations:
                findings.insert(0, self._related(relations[index], digests, raw))
            if OPT_OUT in record:
                findings = suppressed(record[OPT_OUT], findings, checker.codes, complete=False)
            items = checker.locate(findings, raw, row=row, filename=source.path)
            items = sorted(placed(items, block), key=lambda item: item.sort_key)
            chunk.add(items, raw, checker.baseline)
            if len(chunk.findings) >= 1000:
                yield chunk
                chunk = Chunk()
        counts = self._counts[number]
        row = counts.last_row  # at which findings of the file are shown
        for finding in checker.selected_findings(
            list(counts.findings(self.records.digests[4, first:last]))
        ):
            item = Diagnostic(finding, source.path, row, 1, row, 1, checker.dialect.name)
            chunk.add([item], b"", checker.baseline)
        yield chunk

    def _related(self, relation: Relation, digests: Fingerprint, raw: bytes) -> Finding:
        place = int(self.records.digests[3, relation.other])
        where = f"{self._names[place >> _ROW]}:{place & _ROWS}"
        is_conflict = relation.code == "MYP602"
        code = "MYP620" if is_conflict and digests.is_judged else relation.code
        message, _, hint = _MESSAGES[code].format(where).partition("; ")
        at = digests.answers[relation.answer].at if is_conflict else ""
        fix = None
        if code == "MYP601":
            size = len(raw.decode("utf-8", "replace"))
            fix = Fix("delete the line", False, edits=((0, size, ""),))
        return Finding(code, message, at, help=hint, fix=fix)


def _fingerprint(unit: Episode | Chat, checker: Checker) -> Fingerprint:
    return of_chat(unit) if isinstance(unit, Chat) else of_episode(unit, checker.dialect.table)


def conversations_of(
    checker: Checker, source: Source, rows: Collection[int] | None = None
) -> Iterator[tuple[int, bytes, dict[str, Any], Episode | Chat, Block]]:
    """Yields the readable records of a source, or those at `rows` when it is read again.

    That is row, bytes, record, episode or chat, block.
    """
    reader = chat_of if checker.shape else episode_of
    if rows is not None and source.stream is not None:
        source.stream.seek(0)
    for block in record_blocks(source, block_size=BLOCK, max_line=MAX_LINE):
        if block.too_long or block.broken:
            continue
        for row, raw in enumerate(block.lines(), block.first_row):
            unit = reader(checker, raw) if rows is None or row in rows else None
            if unit is not None:
                yield row, raw, *unit, block


def chat_of(checker: Checker, raw: bytes) -> tuple[dict[str, Any], Chat] | None:
    """Returns the record in a line and its chat; None where not all of it can be read."""
    record = _record(raw)
    if shape_of(record) != checker.shape:
        return None
    chat = read_chat(record, checker.shape)
    return (record, chat) if chat.is_readable and chat.messages else None


def episode_of(checker: Checker, raw: bytes) -> tuple[dict[str, Any], Episode] | None:
    """Returns the record in a line and its episode; None without one that could be written."""
    if checker.shape:  # places in the episode would not be those in the record
        return None
    record = _record(raw)
    episode, _ = checker.dialect.read(record)
    if episode is None or not episode.messages:
        return None
    try:
        list(events_of(episode.messages, checker.dialect.table))
    except ValueError:
        return None
    return record, episode


def _record(raw: bytes) -> Any:
    """Returns the value of a line; None, which is no record, where it is not valid JSON."""
    try:
        return loads(raw.decode("utf-8-sig"))
    except (Fault, UnicodeDecodeError):
        return None


def within(episode: Episode, checker: Checker) -> Iterator[Finding]:
    """Yields findings about documents that a call or citation names and no message before it.

    An episode shows them by itself, but the fast path does not look for them.
    """
    openers = checker.dialect.table.openers
    mentions = [
        (at, part, plain(name), quoted)
        for at, message in enumerate(episode.messages)
        if message.role in openers and openers[message.role].body_by_model
        for part in message.parts
        if part.kind != "text"
        for name, quoted in _named_values(part, openers[part.kind].body)
    ]
    if not mentions:
        return
    texts = ["".join([f"{t} " for p in m.parts if (t := plain(p.text))]) for m in episode.messages]
    before = list(accumulate(map(len, texts), initial=0))  # characters before each message
    ends = first_ends("".join(texts), {name for _, _, name, _ in mentions if name})
    for at, part, name, quoted in mentions:
        if name and ends.get(name, before[-1]) >= before[at]:
            yield Finding("MYP604", f"{quoted} does not occur before it in the episode", *part.at)


def first_ends(text: str, names: Collection[str]) -> dict[str, int]:
    """Returns where each name that occurs in a text first ends there."""
    by_length: defaultdict[int, set[str]] = defaultdict(set)
    for name in names:
        by_length[len(name)].add(name)
    ends: dict[str, int] = {}
    for length, remaining in by_length.items():
        if length > _LONG or len(remaining) <= _FEW:
            ends |= {name: at + length for name in remaining if (at := text.find(name)) >= 0}
            continue
        for at in range(len(text) - length + 1):
            if (name := text[at : at + length]) in remaining:
                ends[name] = at + length
                remaining.remove(name)
    return ends


def _named_values(part: Part, body: str) -> Iterator[tuple[str, str]]:
    if body in CALLS:
        try:
            value = value_in(part.text, body)
        except ValueError:
            return
        stack: list[Any] = [value]
        while stack:
            item = stack.pop()
            name = item.get(_DOCUMENT) if isinstance(item, dict) else None
            if isinstance(name, str | int) and not isinstance(name, bool):
                yield str(name), f"{_DOCUMENT} {name!r}"
            if isinstance(item, dict | list):
                stack += item.values() if isinstance(item, dict) else item
    elif part.kind == _CITED:
        yield part.text, f"the citation {part.text[:60]!r}"
