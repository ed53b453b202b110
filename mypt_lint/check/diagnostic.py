"""Holds what reports print: findings with their place in a file, and the summary of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding

if TYPE_CHECKING:
    from mypt_lint.check.profile import Profile

MAX_KEYS = 1000
CONTEXT = 160  # code points of a line kept on either side of a finding, for the snippet


class Snippet(NamedTuple):
    """An excerpt to print under a finding: `text[mark[0]:mark[1]]` is the offending part.

    `text` is raw (it may hold newlines, control characters, markup); reports make it visible and
    safe. `cut_left` and `cut_right` say that the excerpt was shortened there.
    """

    text: str
    mark: tuple[int, int]
    cut_left: bool = False
    cut_right: bool = False

    @staticmethod
    def around(text: str, start: int, end: int) -> Snippet:
        """Returns the part of a text around a span.

        It has at most `CONTEXT` code points on either side, and as many inside.
        """
        first = max(0, start - CONTEXT)
        last = min(len(text), min(end, start + CONTEXT) + CONTEXT)
        mark = start - first, min(end, last) - first
        return Snippet(text[first:last], mark, first > 0, last < len(text))


class Diagnostic(NamedTuple):
    """A finding and its place.

    Rows and columns count from 1, columns in code points of the physical line; the end is
    exclusive. `edit` is the finding's fix as one replacement in its line: from column, to column,
    new text. `record` is the number of the record in a JSON array, from 1, and 0 elsewhere. In a
    `table`, the row is that of the table, and columns count in the row as a line of JSON.
    """

    finding: Finding
    filename: str
    row: int
    column: int
    end_row: int
    end_column: int
    dialect: str
    snippet: Snippet | None = None
    edit: tuple[int, int, str] | None = None
    record: int = 0
    table: bool = False

    @property
    def number(self) -> int:
        """Returns the number of the record in its file: line, row, or place in an array."""
        return self.record or self.row

    @property
    def at(self) -> str:
        """Returns the place in the file, to be shown after its name."""
        return f"row {self.row}" if self.table else f"{self.row}:{self.column}"

    @property
    def sort_key(self) -> tuple[str, int, int, str, int, str]:
        code, message = self.finding.code, self.finding.message
        return self.filename, self.row, self.column, code, self.end_column, message


@dataclass(slots=True)
class Summary:
    """Counts of a run.

    `units` are records, or episodes of text; every unit that is read is clean or faulty.
    `graded` counts findings by (code, severity), `keys` counts keys at fault by (code, key),
    `fixable` findings by "safe" and "unsafe", and `in_baseline` those of the baseline, which are
    counted nowhere else. `profile` is what the records hold, if that is wanted.
    """

    files: int = 0
    units: int = 0
    clean: int = 0
    faulty: int = 0
    bytes: int = 0
    unit_name: str = "line"
    by_severity: Counter[str] = field(default_factory=Counter)
    by_code: Counter[str] = field(default_factory=Counter)
    units_by_code: Counter[str] = field(default_factory=Counter)
    graded: Counter[tuple[str, str]] = field(default_factory=Counter)
    keys: Counter[tuple[str, str]] = field(default_factory=Counter)
    fixable: Counter[str] = field(default_factory=Counter)
    in_baseline: int = 0
    profile: Profile | None = None

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """Returns in which share of the units, from 0 to 1, each rule finds faults, by code."""
        units = self.units_by_code
        return tuple((code, min(1.0, n / max(1, self.units))) for code, n in sorted(units.items()))

    def count_key(self, key: tuple[str, str], count: int = 1) -> None:
        """Counts a key at fault, up to MAX_KEYS different ones."""
        if key in self.keys or len(self.keys) < MAX_KEYS:
            self.keys[key] += count

    def tally(self, findings: Iterable[Diagnostic]) -> None:
        """Counts findings, and the units that each code touches."""
        counted: set[tuple[str, int]] = set()
        for item in findings:
            code = item.finding.code
            self.by_severity[item.finding.severity] += 1
            self.by_code[code] += 1
            self.graded[code, item.finding.severity] += 1
            if item.finding.on_key:
                self.count_key((code, unescape(item.finding.pointer.rpartition("/")[2])))
            if item.finding.fix is not None:
                self.fixable["safe" if item.finding.fix.safe else "unsafe"] += 1
            if (code, item.number) not in counted:
                counted.add((code, item.number))
                self.units_by_code[code] += 1

    def add(self, other: Summary) -> None:
        """Adds the counts of a part of the run."""
        if other.unit_name == "record":  # where any is no line, all are called so
            self.unit_name = other.unit_name
        self.files += other.files
        self.units += other.units
        self.clean += other.clean
        self.faulty += other.faulty
        self.bytes += other.bytes
        self.by_severity += other.by_severity
        self.by_code += other.by_code
        self.units_by_code += other.units_by_code
        self.graded += other.graded
        self.fixable += other.fixable
        for key, count in other.keys.items():
            self.count_key(key, count)
        self.in_baseline += other.in_baseline
        if other.profile is None or self.profile is None:
            self.profile = self.profile or other.profile
        else:
            self.profile.add(other.profile)
