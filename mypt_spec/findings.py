"""Findings, fixes, and the registry of rules. Everything that can be said about data is one `Finding`.

A rule registers itself once (see `rules/`); code that meets a fault names the rule's code and the place, and the name and
severity come from the registry, so a code means the same thing wherever it is raised. Design section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair.

    `safe`: the serialised bytes stay identical; or the record had no legal form, exactly one legal placement exists, and no
    content character is added or removed.

    `patch` holds RFC 6902 operations on the record; `edits` holds `(start, end, replacement)` in code points of serialised
    text, or, for faults of the file, of the physical line.
    """

    title: str
    safe: bool
    patch: tuple[dict[str, Any], ...] = ()
    edits: tuple[tuple[int, int, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "message": self.title,
            "applicability": "safe" if self.safe else "unsafe",
        }
        if self.patch:
            out["patch"] = list(self.patch)
        if self.edits:
            out["edits"] = [{"span": [a, b], "content": text} for a, b, text in self.edits]
        return out


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnostic.

    `pointer` is an RFC 6901 pointer into the record ("" is the whole record, or the text when there is no record);
    `span` counts code points `[start, end)` inside the string that the pointer names, or inside the text; for token ids
    it counts tokens. `expected` is the exact set of what could have stood there, as spellings, in a fixed order.
    `on_key` says that the pointer means the key and not its value.
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
        object.__setattr__(self, "severity", rule.severity)


def regraded(finding: Finding, severity: str) -> Finding:
    """The finding with another severity than its rule's."""
    out = replace(finding)
    object.__setattr__(out, "severity", severity)
    return out


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as the registry knows it. `check` is None when the engine itself raises the code."""

    code: str
    name: str
    severity: str
    doc: str
    check: Callable[..., Iterable[Finding]] | None = None

    @property
    def summary(self) -> str:
        return self.doc.strip().splitlines()[0] if self.doc else ""


RULES: dict[str, Rule] = {}
_T = TypeVar("_T", bound=Callable[..., Any])


def rule(code: str, name: str, severity: str = "error") -> Callable[[_T], _T]:
    """Register a rule; the decorated function's docstring is its explain page.

    A decorated *class* registers a code that the engine raises by itself (the grammar finds it, not a check).
    """
    if severity not in SEVERITIES:
        raise ValueError(f"severity of {code} is {severity!r}, expected one of {SEVERITIES}")

    def register(target: _T) -> _T:
        if code in RULES:
            raise ValueError(f"two rules are called {code}: {RULES[code].name} and {name}")
        check = None if isinstance(target, type) else target
        RULES[code] = Rule(code, name, severity, (target.__doc__ or "").strip(), check)
        return target

    return register
