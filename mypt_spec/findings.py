"""Holds findings about data, their fixes, and the rows of the rules.

A rule is a row of `rules/rules.toml`. Code that meets a fault names the rule's code and the place;
name and severity come from the row, so a code means the same wherever it is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mypt_spec.compiled.toml import load

SEVERITIES = ("info", "warning", "error")
SEES = ("structure", "text", "episode", "none")
_C = TypeVar("_C")


class Fix(NamedTuple):
    """A change of the data that takes a finding away.

    It is `safe` if the serialised bytes stay identical; or if the record had no legal form, exactly
    one legal placement exists, and no content character is added or removed. `patch` holds RFC 6902
    operations on the record; `edits` holds `(start, end, replacement)` in code points of serialised
    text, or, for faults of the file, of the physical line.
    """

    title: str
    safe: bool
    patch: tuple[dict[str, Any], ...] = ()
    edits: tuple[tuple[int, int, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the fix as JSON values, with the keys that ruff uses where it has them."""
        applicability = "safe" if self.safe else "unsafe"
        out: dict[str, Any] = {"message": self.title, "applicability": applicability}
        if self.patch:
            out["patch"] = list(self.patch)
        if self.edits:
            out["edits"] = [{"span": [a, b], "content": text} for a, b, text in self.edits]
        return out


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnostic.

    `pointer` is an RFC 6901 pointer into the record ("" is the whole record, or the text when there
    is no record); `span` counts code points `[start, end)` inside the string that the pointer
    names, or inside the text; for token ids it counts tokens. `expected` is the exact set of what
    would have been legal there, as spellings in a fixed order. `on_key` says that the pointer means
    the key and not its value. `name` is that of the rule, and so are a `severity` and a `help` that
    are not given.
    """

    code: str
    message: str
    pointer: str = ""
    span: tuple[int, int] | None = None
    expected: tuple[str, ...] = ()
    help: str = ""
    fix: Fix | None = None
    on_key: bool = False
    name: str = field(default="", compare=False)
    severity: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        rule = RULES[self.code]
        object.__setattr__(self, "name", rule.name)
        object.__setattr__(self, "severity", self.severity or rule.severity)
        object.__setattr__(self, "help", self.help or rule.help)


def regraded(finding: Finding, severity: str) -> Finding:
    """Returns the finding with another severity than its rule's."""
    return replace(finding, severity=severity)


def with_help(finding: Finding) -> Finding:
    """Returns the finding with its help in its message, for reports that show no more."""
    hint = f" ({finding.help})" if finding.help else ""
    return replace(finding, message=finding.message + hint)


class Rule(NamedTuple):
    """A row of `rules/rules.toml`, whose head says what the columns mean.

    `sees` is one of SEES. A rule whose row does not have it may look at anything. With `fast`, the
    fast ways of the linter know where it finds nothing. `group` is a word that selects all rules
    with it. A rule with `off` is reported only where it is selected.
    """

    code: str
    name: str
    severity: str
    fix: str = "none"
    sees: str = "episode"
    fast: str = ""
    group: str = ""
    off: bool = False
    help: str = ""

    @property
    def doc(self) -> str:
        """Returns the rule's page, `rules/pages/<code>.md`, as Markdown without its heading."""
        page = _FOLDER / "pages" / f"{self.code}.md"
        return page.read_text(encoding="utf-8").strip() if page.exists() else ""

    @property
    def summary(self) -> str:
        """Returns the first line of the rule's page."""
        return self.doc.partition("\n")[0]


_FOLDER = Path(__file__).parent / "rules"
RULES = {code: Rule(code, **row) for code, row in load(_FOLDER / "rules.toml").items()}


def default_codes() -> frozenset[str]:
    """Returns the codes of the rules that are reported where nothing is selected."""
    return frozenset(code for code, rule in RULES.items() if not rule.off)


def registers(checks: dict[str, _C]) -> Callable[[str], Callable[[_C], _C]]:
    """Returns what registers functions in `checks`, as a decorator that takes a rule's code.

    It raises ValueError for an unknown or taken code.
    """

    def check(code: str) -> Callable[[_C], _C]:
        if code not in RULES:
            raise ValueError(f"{code} is not in rules.toml")
        if code in checks:
            raise ValueError(f"two functions check {code}")

        def register(function: _C) -> _C:
            checks[code] = function
            return function

        return register

    return check


@lru_cache(maxsize=1000)  # the same mistake is made on many lines
def closest(word: str, words: tuple[str, ...], cutoff: float) -> str:
    """Returns the word that is most like another, empty where none is as much as `cutoff`."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, words, n=1, cutoff=cutoff)), "")
