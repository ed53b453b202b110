"""Finds what no episode shows by itself (family 6), in one pass over all records, in order.

Memory is bounded. The pass is only made when asked for: it reads every episode, clean ones too,
which takes several times as long.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
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
from mypt_lint.dataset.fingerprints import Fingerprint, digest, of_chat, of_episode, plain
from mypt_lint.dataset.seen import DigestTable
from mypt_lint.dataset.whitespace import untidy
from mypt_lint.run.chunk import Chunk
from mypt_lint.run.plan import Group
from mypt_lint.settings.config import matches
from mypt_records.chat import Chat
from mypt_records.names import OPT_OUT
from mypt_records.shapes import read as read_chat
from mypt_records.shapes import shape_of
from mypt_spec.bodies.json_body import value_in
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.episode import Episode, Part, events_of
from mypt_spec.findings import Finding, Fix
from mypt_spec.table import CALLS

_EVAL = re.compile(
    r"(?:^|[/._-])(?:eval|evaluation|val|valid|validation|test|dev|heldout)(?=[/._-]|$)",
    re.IGNORECASE,
)
_CITED = "cite"  # a block that names its source
_DOCUMENT = "doc_id"  # an argument that names a document
_MANY = 50  # the least number of episodes of a file that is checked for variety
_DISTINCT = 0.5  # the least share of its answers that must differ
_ROW = 40  # bits of a place that hold the row
_FEW = 100  # names of one length that are looked for one by one
_LONG = 200  # characters of a name that always is: so the time is linear in the text


class DataSet:
    """One pass over all data; `prompts` must not be trained on.

    `eval_globs` name the files for evaluation; without them, the files' own names do.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        eval_globs: Sequence[str] = (),
        prompts: Sequence[str] = (),
    ) -> None:
        pairs = [(g.checker, source) for g in groups if g.kind == "record" for source in g.sources]
        self._sources, self._globs = pairs, eval_globs
        self._names = [source.path for _, source in pairs]
        self._reserved = {digest(plain(text)) for text in prompts if text.strip()}
        tables = (DigestTable() for _ in range(5))
        self.episodes, self.prompts, self._answers, self._evaluated, self._toolless = tables

    def is_eval(self, path: str) -> bool:
        name = path.replace("\\", "/").removeprefix("./")
        if self._globs:
            return any(matches(glob, name) for glob in self._globs)
        return _EVAL.search("/".join(name.split("/")[-2:])) is not None

    def chunks(self) -> Iterator[Chunk]:
        """Yields the findings of each file, a block at a time."""
        evaluated = {path for path in self._names if self.is_eval(path)}
        if evaluated and len(evaluated) < len(self._names):
            self._remember(evaluated)
        for number, (checker, source) in enumerate(self._sources):
            yield from self._file(checker, source, number, source.path in evaluated)

    def _remember(self, evaluated: set[str]) -> None:
        """Keeps the prompts of the evaluation data, before any of the training data is read."""
        for number, (checker, source) in enumerate(self._sources):
            if source.path not in evaluated:
                continue
            if source.streamed:
                raise UsageError(
                    f"{source.path}: evaluation data is read twice, so it must be a file"
                )
            for row, *_, unit, _ in conversations_of(checker, source):
                digests = _fingerprint(unit, checker)
                self._evaluated.put(digests.questions, number << _ROW | row)

    def _file(
        self, checker: Checker, source: Source, number: int, evaluated: bool
    ) -> Iterator[Chunk]:
        answers, count = DigestTable(1 << 20), 0
        chunk = Chunk()
        for row, raw, record, unit, block in conversations_of(checker, source):
            place = number << _ROW | row
            digests = _fingerprint(unit, checker)
            findings = list(self._compared(digests, place, evaluated))
            if isinstance(unit, Episode):
                findings += [*within(unit, checker), *untidy(record, unit, checker.dialect.table)]
            if digests.answer is not None:
                count += 1
                answers.put(digest(plain(digests.answer)), 1)
            if findings and findings[0].code == "MYP601":
                edit = 0, len(raw.decode("utf-8", "replace")), ""
                findings[0] = replace(findings[0], fix=Fix("delete the line", False, edits=(edit,)))
            if OPT_OUT in record:
                findings = suppressed(record[OPT_OUT], findings, checker.codes, complete=False)
            if findings:
                items = checker.locate(findings, raw, row=row, filename=source.path)
                items = sorted(placed(items, block), key=lambda item: item.sort_key)
                chunk.add(items, raw, checker.baseline)
            if len(chunk.findings) >= 1000:
                yield chunk
                chunk = Chunk()
        is_varied = count < _MANY or answers.full or answers.count >= _DISTINCT * count
        if "MYP607" in checker.codes and not is_varied:
            share = f"{answers.count} of {count} final answers differ ({answers.count / count:.0%})"
            hint = "look at the answers that come most often; vary them, or drop some"
            finding = checker.graded(Finding("MYP607", share, help=hint))
            item = Diagnostic(finding, source.path, row, 1, row, 1, checker.dialect.name)
            chunk.add([item], b"", checker.baseline)
        yield chunk

    def _place(self, place: int) -> str:
        return f"{self._names[place >> _ROW]}:{place & ((1 << _ROW) - 1)}"

    def _compared(self, digests: Fingerprint, place: int, evaluated: bool) -> Iterator[Finding]:
        before = self.episodes.put(digests.everything, place)
        like = None if digests.toolless is None else self._toolless.put(digests.toolless, place)
        if before is not None:
            message = f"the same episode is at {self._place(before)}"
            yield Finding("MYP601", message, help="delete one of the two")
        elif like is not None:
            message = f"the same conversation, with other tools, is at {self._place(like)}"
            yield Finding("MYP610", message, help="keep the one whose tools belong to it")
        elif digests.prompt is not None:
            first = self.prompts.put(digests.prompt, place)
            same_answer = self._answers.put(digests.prompt, digests.answer_digest)
            if first is not None and same_answer != digests.answer_digest:
                message = f"the same prompt has another answer at {self._place(first)}"
                hint = "keep the better answer, or make the prompts differ"
                yield Finding("MYP602", message, digests.answer_at, help=hint)
        if evaluated:
            return
        where = self._evaluated.get(digests.questions) if self._evaluated.count else None
        if where is not None:
            message = f"the same questions are evaluated at {self._place(where)}"
            hint = "remove it from one of the two: what is trained on measures nothing"
            yield Finding("MYP603", message, help=hint)
        for text, at in digests.user_texts if self._reserved else ():
            if digest(text) in self._reserved:
                hint = "take the episode out of the training data"
                yield Finding("MYP606", "this prompt is reserved for evaluation", at, help=hint)


def _fingerprint(unit: Episode | Chat, checker: Checker) -> Fingerprint:
    return of_chat(unit) if isinstance(unit, Chat) else of_episode(unit, checker.dialect.table)


def conversations_of(
    checker: Checker, source: Source
) -> Iterator[tuple[int, bytes, dict[str, Any], Episode | Chat, Block]]:
    """Yields the readable records of a source: row, bytes, record, episode or chat, block."""
    reader = chat_of if checker.shape else episode_of
    for block in record_blocks(source, block_size=BLOCK, max_line=MAX_LINE):
        if block.too_long or block.broken:
            continue
        for index, raw in enumerate(block.lines()):
            unit = reader(checker, raw)
            if unit is not None:
                yield block.first_row + index, raw, *unit, block


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
    hint = (
        "name what occurs in an earlier context or result; a model that invents sources learns it "
        "here"
    )
    for at, part, name, quoted in mentions:
        if name and ends.get(name, before[-1]) >= before[at]:
            message = f"{quoted} does not occur before it in the episode"
            yield Finding("MYP604", message, *part.at, help=hint)


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
