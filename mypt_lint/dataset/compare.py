"""Finds what no episode shows by itself (family 6), in one pass over all records, in order.

Input are the sources with their checkers; output are findings, a block at a time. Memory is
bounded. It is a separate pass, and only made when asked for: it reads every episode, clean ones
too, which takes several times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from mypt_lint.dataset.mentions import first_ends
from mypt_lint.dataset.seen import Seen
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
from mypt_spec.episode import Episode, Message, Part, events_of
from mypt_spec.findings import Finding, Fix
from mypt_spec.table import CALLS, Terminal

_EVAL = re.compile(
    r"(?:^|[/._-])(?:eval|evaluation|val|valid|validation|test|dev|heldout)(?=[/._-]|$)",
    re.IGNORECASE,
)
_CITED = "cite"  # a block that names its source
_DOCUMENT = "doc_id"  # an argument that names a document
_MANY = 50  # the least number of episodes of a file that is checked for variety
_DISTINCT = 0.5  # the least share of its answers that must differ
_ROW = 40  # bits of a place that hold the row


class DataSet:
    """One pass over all data.

    `eval_globs` name the files for evaluation; without them, the files' own names do. `prompts`
    must not be trained on.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        *,
        eval_globs: Sequence[str] = (),
        prompts: Sequence[str] = (),
    ) -> None:
        self._groups = [group for group in groups if group.kind == "record"]
        self._globs = eval_globs
        self._names = [source.path for group in self._groups for source in group.sources]
        self._reserved = {digest(plain(text)) for text in prompts if text.strip()}
        self.episodes, self.prompts, self._answers, self._evaluated = Seen(), Seen(), Seen(), Seen()
        self._toolless = Seen()

    def is_eval(self, path: str) -> bool:
        """Returns whether a file is for evaluation."""
        name = path.replace("\\", "/").removeprefix("./")
        return (
            any(matches(glob, name) for glob in self._globs)
            if self._globs
            else _EVAL.search("/".join(name.split("/")[-2:])) is not None
        )

    def chunks(self) -> Iterator[Chunk]:
        """Yields the findings of each file, a block at a time."""
        evaluated = {path for path in self._names if self.is_eval(path)}
        if evaluated and len(evaluated) < len(self._names):
            self._remember(evaluated)
        number = 0
        for group in self._groups:
            for source in group.sources:
                yield from self._file(group.checker, source, number, source.path in evaluated)
                number += 1

    def _remember(self, evaluated: set[str]) -> None:
        """Keeps the prompts of the evaluation data, before any of the training data is read."""
        number = 0
        for group in self._groups:
            for source in group.sources:
                if source.path in evaluated:
                    _again(source)
                    for row, *_, unit, _ in conversations_of(group.checker, source):
                        digests = _fingerprint(unit, group.checker)
                        self._evaluated.put(digests.questions, number << _ROW | row)
                number += 1

    def _file(
        self, checker: Checker, source: Source, number: int, evaluated: bool
    ) -> Iterator[Chunk]:
        answers, count = Seen(1 << 20), 0
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
            findings = [
                replace(f, fix=_dropped(raw)) if f.code == "MYP601" else f for f in findings
            ]
            if OPT_OUT in record:
                findings = suppressed(record[OPT_OUT], findings, checker.codes, complete=False)
            if findings:
                items = checker.locate(findings, raw, row=row, filename=source.path)
                items = sorted(placed(items, block), key=lambda item: item.sort_key)
                chunk.add(items, raw, checker.known)
            if len(chunk.findings) >= 1000:
                yield chunk
                chunk = Chunk()
        if (
            count >= _MANY
            and not answers.full
            and answers.count < _DISTINCT * count
            and "MYP607" in checker.codes
        ):
            message = (
                f"{answers.count} of {count} final answers differ ({answers.count / count:.0%})"
            )
            finding = Finding(
                "MYP607",
                message,
                help="look at the answers that come most often; vary them, or drop some",
            )
            item = Diagnostic(
                checker.graded(finding), source.path, row, 1, row, 1, checker.dialect.name
            )
            chunk.add([item], b"", checker.known)
        yield chunk

    def _place(self, place: int) -> str:
        return f"{self._names[place >> _ROW]}:{place & ((1 << _ROW) - 1)}"

    def _compared(self, digests: Fingerprint, place: int, evaluated: bool) -> Iterator[Finding]:
        before = self.episodes.put(digests.whole, place)
        like = None if digests.toolless is None else self._toolless.put(digests.toolless, place)
        if before is not None:
            yield Finding(
                "MYP601",
                f"the same episode is at {self._place(before)}",
                help="delete one of the two",
            )
        elif like is not None:
            yield Finding(
                "MYP610",
                f"the same conversation, with other tools, is at {self._place(like)}",
                help="keep the one whose tools belong to it",
            )
        elif digests.prompt is not None:
            first = self.prompts.put(digests.prompt, place)
            same_answer = self._answers.put(digests.prompt, digests.own)
            if first is not None and same_answer != digests.own:
                yield Finding(
                    "MYP602",
                    f"the same prompt has another answer at {self._place(first)}",
                    digests.answer_at,
                    help="keep the better answer, or make the prompts differ",
                )
        if (
            not evaluated
            and self._evaluated.count
            and (where := self._evaluated.get(digests.questions)) is not None
        ):
            hint = "remove it from one of the two: what is trained on measures nothing"
            yield Finding(
                "MYP603", f"the same questions are evaluated at {self._place(where)}", help=hint
            )
        if not evaluated and self._reserved:
            for text, at in digests.asked:
                if digest(text) in self._reserved:
                    yield Finding(
                        "MYP606",
                        "this prompt is reserved for evaluation",
                        at,
                        help="take the episode out of the training data",
                    )


def _dropped(raw: bytes) -> Fix:
    return Fix("delete the line", False, edits=((0, len(raw.decode("utf-8", "replace")), ""),))


def _again(source: Source) -> None:
    if source.stdin or source.size is None or source.stream is not None:
        raise UsageError(f"{source.path}: evaluation data is read twice, so it must be a file")


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
    try:
        record = loads(raw.decode("utf-8-sig"))
    except (Fault, UnicodeDecodeError):
        return None
    if shape_of(record) != checker.shape:
        return None
    chat = read_chat(record, checker.shape)
    return (record, chat) if chat.is_readable and chat.messages else None


def episode_of(checker: Checker, raw: bytes) -> tuple[dict[str, Any], Episode] | None:
    """Returns the record in a line and its episode; None without one that could be written."""
    if checker.shape:  # places in the episode would not be those in the record
        return None
    try:
        record = loads(raw.decode("utf-8-sig"))
    except (Fault, UnicodeDecodeError):
        return None
    episode, _ = checker.dialect.read(record)
    if episode is None or not episode.messages:
        return None
    try:
        list(events_of(episode.messages, checker.dialect.table))
    except ValueError:
        return None
    return record, episode


def within(episode: Episode, checker: Checker) -> Iterator[Finding]:
    """Yields findings that an episode shows by itself, but that the fast path does not look for."""
    openers = checker.dialect.table.openers
    by_model = [m for m in episode.messages if m.role in openers and openers[m.role].body_by_model]
    yield from _unseen(episode, by_model, openers)


def _unseen(
    episode: Episode, by_model: list[Message], openers: Mapping[str, Terminal]
) -> Iterator[Finding]:
    """Yields findings about documents that a call or citation names and no message before it."""
    mentions = [
        (id(message), part, plain(name), quoted)
        for message in by_model
        for part in message.parts
        if part.kind != "text"
        for name, quoted in _named_values(part, openers[part.kind].body)
    ]
    if not mentions:
        return
    texts: list[str] = []
    length, before = 0, {}  # of the text before each message
    for message in episode.messages:
        before[id(message)] = length
        for text in filter(None, [plain(part.text) for part in message.parts]):
            texts.append(text)
            length += len(text) + 1
    ends = first_ends(" ".join(texts), {name for _, _, name, _ in mentions if name})
    for place, part, name, quoted in mentions:
        if name and ends.get(name, length) >= before[place]:
            hint = (
                "name what occurs in an earlier context or result; a model that invents sources "
                "learns it here"
            )
            yield Finding(
                "MYP604", f"{quoted} does not occur before it in the episode", *part.at, help=hint
            )


def _named_values(part: Part, body: str) -> Iterator[tuple[str, str]]:
    if body in CALLS:
        try:
            value = value_in(part.text, body)
        except ValueError:
            return
        for name in _values(value):
            if isinstance(name, str | int) and not isinstance(name, bool):
                yield str(name), f"{_DOCUMENT} {name!r}"
    elif part.kind == _CITED:
        yield part.text, f"the citation {part.text[:60]!r}"


def _values(value: Any) -> Iterator[Any]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield from [v for k, v in item.items() if k == _DOCUMENT]
            stack += item.values()
        elif isinstance(item, list):
            stack += item
