"""Holds the outcome for a part of a source: findings, counts, and the keys of a baseline.

What many records of a file have is one finding, shown at the first of them: chunks count it apart,
and `once` puts it into the last chunk of the file. `interleaved` merges the chunks of two passes
over the same sources, as if there had been one; it holds at most one chunk of each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, repeat

from mypt_cli.words import counted
from mypt_lint.check.baseline import Key, keys
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_spec.findings import Finding, regraded
from mypt_spec.memo import lazy_re

FAR = 1 << 48  # rows of a range count from here, so that none is taken for the file's first
METADATA, MIXED, ONE_LABEL, UNREAD = "MYP112", "MYP113", "MYP611", "MYP018"
VOCABULARY, THOUGHTS, CHANCE, FORMS = "MYP513", "MYP737", "MYP739", "MYP135"
_PROMPT_ONLY = "MYP252"
OF_THE_FILE = frozenset({
    METADATA, MIXED, ONE_LABEL, UNREAD, VOCABULARY, THOUGHTS, CHANCE, "MYP133", "MYP134", "MYP137",
    "MYP326", "MYP328", "MYP370",
})  # fmt: skip
_MILD = dict.fromkeys(
    ("MYP138", "MYP214", "MYP259", "MYP301", "MYP314", "MYP351", "MYP609"), ("info",)
) | {"MYP010": ("info", "warning")}  # once a file where their severity is one of these
_BY_MESSAGE = {MIXED, ONE_LABEL, THOUGHTS, FORMS, "MYP138", "MYP214", "MYP301", "MYP314"}
_LABEL = lazy_re(rb'"(?:label|kto_tag)"\s*:\s*(true|false)')
_FEW = 10  # labels of a file that may be equal by chance
# Findings about a file: the line at which they are shown is not faulty because of them.
_NOT_OF_A_LINE = frozenset({"MYP010", "MYP012", "MYP013", METADATA, ONE_LABEL, FORMS})
_Place = tuple[str, int]
_END: _Place = ("\U0010ffff", 0)


@dataclass(slots=True)
class Once:
    """A finding of many records: the first of them, and how many there are."""

    first: Diagnostic
    count: int = 1


OncePerFile = dict[tuple[str, str], Once]  # by code, and by what is the same in all of them


@dataclass(slots=True)
class Chunk:
    """The outcome for a part of a source, in order.

    `position` is the number of bytes on disk read so far, for progress. `keys` are those of all
    findings, including known ones, which are not among `findings`; only with a baseline.
    `once_per_file` are findings that are shown once a file, at its end.
    """

    findings: list[Diagnostic] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    position: int = 0
    keys: set[Key] = field(default_factory=set)
    once_per_file: OncePerFile = field(default_factory=dict)

    def add(self, items: list[Diagnostic], raw: bytes, baseline: Collection[Key] | None) -> bool:
        """Adds the findings of a line that the baseline does not know, and counts the others.

        `baseline` are the keys of the baseline, None without one. Returns whether any is added.
        """
        before = len(self.findings)
        item_keys = keys(items, raw) if items and baseline is not None else repeat(None)
        for item, key in zip(items, item_keys, strict=False):
            if key is not None:
                self.keys.add(key)
            if baseline is not None and key in baseline:
                self.summary.in_baseline += 1
            elif _is_once(item):
                hold(self.once_per_file, item)
            else:
                self.findings.append(item)
        mixed = any(item.finding.code in (MIXED, UNREAD) for item in items)
        return (mixed and baseline is None) or len(self.findings) > before

    def join(self, later: Chunk) -> None:
        """Adds the next chunk of the same file, and takes its position."""
        self.findings += later.findings
        self.summary.add(later.summary)
        self.keys |= later.keys
        self.position = later.position
        _join(self.once_per_file, later.once_per_file)

    def moved(self, rows: int) -> Chunk:
        """Moves rows that count from `FAR` to where they count after `rows`. Returns itself."""
        self.findings = [_moved(item, rows - FAR) for item in self.findings]
        for entry in self.once_per_file.values():
            entry.first = _moved(entry.first, rows - FAR)
        return self

    def counted(self, faulty: int) -> Chunk:
        """Counts its findings; of its units, `faulty` have some. Returns itself."""
        self.summary.faulty = faulty
        self.summary.clean = self.summary.units - faulty
        self.summary.tally(self.findings)
        return self


def _moved(item: Diagnostic, shift: int) -> Diagnostic:
    if item.row <= FAR:
        return item
    return item._replace(row=item.row + shift, end_row=item.end_row + shift)


def once(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks; the last one of each file has the findings that are shown once."""
    once_per_file: OncePerFile = {}
    lines = 0
    for chunk in chunks:
        _join(once_per_file, chunk.once_per_file)
        chunk.once_per_file = {}
        lines += chunk.summary.units
        if chunk.summary.files:
            if once_per_file:
                items = _once_findings(once_per_file, lines)
                chunk.summary.tally(items)
                chunk.findings = sorted([*chunk.findings, *items], key=lambda item: item.sort_key)
            once_per_file, lines = {}, 0
        yield chunk


def _is_once(item: Diagnostic) -> bool:
    code = item.finding.code
    if code in _MILD:
        return item.finding.severity in _MILD[code]
    return code in OF_THE_FILE or (code == _PROMPT_ONLY and item.dialect == "prompt")


def hold(findings: OncePerFile, item: Diagnostic, count: int = 1) -> None:
    """Counts a finding that is shown once for its file."""
    key = item.finding.code, _same(item.finding)
    findings.setdefault(key, Once(item, 0)).count += count


def _same(finding: Finding) -> str:
    """Returns what findings of one code have in common that are one for the file."""
    if finding.code == METADATA:  # the same key of any message is one
        return "/" * (finding.pointer.count("/") > 1) + finding.pointer.rpartition("/")[2]
    return finding.message if finding.code in _BY_MESSAGE else ""


def _join(findings: OncePerFile, later: OncePerFile) -> None:
    for entry in later.values():
        hold(findings, entry.first, entry.count)


def labels(data: bytes) -> Counter[str]:
    """Returns how often each label of KTO is in a block of records."""
    return Counter(label.decode() for label in _LABEL.findall(data))


def _once_findings(findings: OncePerFile, records: int) -> list[Diagnostic]:
    """Returns the findings of a file of `records` lines: for keys, other shapes, and labels."""
    out = [
        _saying(once.first, f"{once.first.finding.message}: in {_extent(once, key, records)}")
        for (code, key), once in findings.items()
        if code not in (MIXED, ONE_LABEL, FORMS)
    ]
    # Of each key that has two forms, the one that begins later is told.
    by_row = sorted([o.first for (code, _), o in findings.items() if code == FORMS], key=_place)
    for one, two in combinations(by_row, 2):
        text = two.finding.message
        if one.finding.message.partition(" ")[0] == text.partition(" ")[0]:
            text += f", on line {one.row} it is {one.finding.message.partition(' is ')[2]}"
            out.append(_saying(two, text))
    mixed = [once for (code, _), once in findings.items() if code == MIXED]
    if mixed:
        counts = ", ".join(f"{once.count} {_shape(once)}" for once in mixed)
        file = mixed[0].first.finding.message.partition("; ")[2]
        more = sum(once.count for once in mixed) - 1
        text = f"{file}, but here and on {counted(more, 'more line')}: {counts}"
        text = text if more else f"{file}; this is one of {_shape(mixed[0])}"
        out.append(_saying(mixed[0].first, text))
    labelled = [once for (code, _), once in findings.items() if code == ONE_LABEL]
    if len(labelled) == 1 and labelled[0].count >= _FEW:
        text = f"all {labelled[0].count} labels are {labelled[0].first.finding.message}"
        out.append(_saying(labelled[0].first, text))
    return out


def _extent(once: Once, key: str, records: int) -> str:
    if key.startswith("/"):  # a key of messages
        return counted(once.count, "message")
    return f"{once.count} of {records} records"


def _shape(once: Once) -> str:
    return once.first.finding.message.removeprefix("this is one of ").partition("; ")[0]


def _saying(item: Diagnostic, message: str) -> Diagnostic:
    finding = replace(item.finding, message=message)
    return item._replace(finding=regraded(finding, item.finding.severity))


def interleaved(chunks: Iterator[Chunk], others: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks of the first pass, with the findings of the second in their places.

    A line that only the second pass finds fault with was counted as clean: here it is faulty.
    """
    waiting: deque[Diagnostic] = deque()  # what was read of the second pass, and not yielded yet

    def before(place: _Place) -> Iterator[Chunk]:
        """Yields findings of the second pass, each counted; their lines are clean no more."""
        while True:
            out = Chunk()
            while waiting and _place(waiting[0]) < place:
                out.findings.append(waiting.popleft())
            fresh = None if waiting else next(others, None)
            if fresh is not None:
                waiting.extend(fresh.findings)
                out.keys, out.summary.in_baseline = fresh.keys, fresh.summary.in_baseline
            out.summary.tally(out.findings)
            lines = len({_place(item) for item in out.findings})
            out.summary.faulty, out.summary.clean = lines, -lines
            yield out
            if fresh is None:
                return

    for chunk in chunks:
        if chunk.findings:
            first, last = _place(chunk.findings[0]), _place(chunk.findings[-1])
            yield from before(first)
            for extra in before((last[0], last[1] + 1)):
                of_lines = (f for f in chunk.findings if f.finding.code not in _NOT_OF_A_LINE)
                lines = {_place(item) for item in of_lines} & set(map(_place, extra.findings))
                extra.summary.faulty -= len(lines)
                extra.summary.clean += len(lines)
                chunk.summary.add(extra.summary)
                chunk.keys |= extra.keys
                chunk.findings += extra.findings
            chunk.findings.sort(key=lambda item: item.sort_key)
        yield chunk
    yield from before(_END)


def _place(item: Diagnostic) -> _Place:
    return item.filename, item.number
