"""Remembers what is found in records of other tools, by what they are besides their texts.

Input is a line; output is what `Checker.line` finds in it, or None where it must be asked;
`tests/property/test_fast_chats.py` holds the two together. Most records of a file differ in their
texts alone, and most texts are clean: nothing in them is found by any rule, whatever is around
them. So the texts of a record are replaced by signs, a sign for each different text; the rest is
put before the checker once, and what is found in it is true of all records with this rest. A record
with calls, with parts, or with a text that is not clean is left to the checker.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec

from mypt_cli.jsonl.line import has_separator
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.fast.answered import longest
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_records.checks.characters import odd
from mypt_records.checks.control import known
from mypt_records.checks.leftovers import suspicious
from mypt_records.checks.media import LISTS
from mypt_records.checks.wording import worded
from mypt_records.names import OPT_OUT
from mypt_records.written import CALL
from mypt_spec.bodies.strict_json import unescape
from mypt_spec.extra_keys import METADATA
from mypt_spec.findings import Finding, Fix
from mypt_spec.memo import Memo

_SIGN = "\ue000"
_ROOM = 4 << 20  # bytes of all rests
_LONG = 8 << 10  # bytes of a rest that is remembered
_LONGEST = 1 << 20  # bytes of a line
_TEXTS = frozenset({"content", "value", "text", "reasoning_content", "thinking", "reasoning"})
_ROLE = frozenset({"from", "role"})
_KEPT = frozenset({"tools", "functions", "language"})  # of which the string itself says something
_LEFT = frozenset({OPT_OUT, "text", "history", "response_format"})  # for the checker
_SMALL = 1 << 53
_WRITTEN = (str, bool, type(None))


class _Left(Exception):
    """A record is left to the checker."""


class Chats:
    """The rests that one checker has judged; belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        limit = _LONGEST if checker.formatless else longest(checker)
        self.longest = min(limit, _LONGEST)
        self.plain = replace(checker, limits=replace(checker.limits, max_tokens=None))
        self.memo = Memo[bytes, tuple[Finding, ...] | None](1 << 20, room=_ROOM)
        d = checker.dialect
        self.texts = None if checker.formatless else CleanTexts(d.table, d.automaton)
        self.controls = [known(table).pattern for table in ("formats", "thoughts")]
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def line(self, raw: bytes, *, row: int, filename: str) -> list[Diagnostic] | None:
        """Returns what `Checker.line` returns, or None where that must be asked."""
        if len(raw) > self.longest or raw.endswith(b"\r") or b"\xee" in raw or b"\\ue" in raw:
            return None
        if has_separator(raw):
            return None
        try:
            record = self.decode(raw)
            if record.__class__ is not dict:
                return None
            findings = self._findings(record, raw)
        except (ValueError, RecursionError, OverflowError, _Left):
            return None
        if findings is None:
            return None
        if not findings:
            return []
        shown = [_of(record, finding) for finding in findings]
        found = self.checker.locate(shown, raw, row=row, filename=filename, unique=True)
        return found if len(found) < 2 else sorted(found, key=lambda item: item.sort_key)

    def _findings(self, record: dict[str, Any], raw: bytes) -> tuple[Finding, ...] | None:
        signs = _Signs()
        rest = {key: self._top(key, value, signs) for key, value in record.items()}
        if not self._clean(list(signs.known)):
            return None
        # A key that occurs twice shows as quotes of strings that the decoded record does not have.
        if 2 * (signs.strings + len(record)) != unescaped_quotes(raw) - signs.quotes:
            return None
        key = self.encode(rest)
        if key in self.memo.known:
            return self.memo.known[key]
        if len(key) > _LONG:
            return None
        found: tuple[Finding, ...] | None = tuple(self.plain.judged(rest))
        if not all(map(_general, found or ())):
            found = None
        return self.memo.keep(key, found, len(key) + 1000 * len(found or ()))

    def _top(self, key: str, value: Any, signs: _Signs) -> Any:
        """Returns a top-level value as it is in the rest."""
        if key in _LEFT or (key in LISTS and value):
            raise _Left
        kind = value.__class__
        if kind is str:
            signs.strings += 1
            return value if key in _KEPT else signs.of(value)
        if kind is list and value:
            said = [item for item in value if item.__class__ is dict]
            if not all(map(_ROLE.isdisjoint, said)):
                if len(said) < len(value):
                    raise _Left  # its texts have no signs, but others are compared with them
                return [_message(item, signs) for item in said]
        elif kind is dict and not _ROLE.isdisjoint(value):
            return _message(value, signs)
        elif kind is int:
            if not -_SMALL < value < _SMALL:
                raise _Left
            return 0
        elif kind is float:
            if not math.isfinite(value):
                raise _Left
            return 0.5
        elif kind in _WRITTEN:
            return value
        encoded = self.encode(value)
        signs.quotes += unescaped_quotes(encoded)
        return value if not key.startswith("_") else 0

    def _clean(self, texts: list[str]) -> bool:
        """Returns whether no rule finds anything in any of some texts."""
        if not texts:
            return True
        joined = "\n".join(texts)
        if any(pattern.search(joined) for pattern in self.controls) or suspicious(texts, joined):
            return False
        if CALL in joined or odd(joined) or worded(texts, joined):
            return False
        return self.texts is None or self.texts.are_clean(texts)


class _Signs:
    """The texts of a record with their signs, and the strings in it: `quotes` of some."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.strings = self.quotes = 0

    def of(self, text: str) -> str:
        """Returns the sign of a text. Raises _Left for a blank one."""
        if not text:
            return text
        sign = self.known.get(text)
        if sign is None:
            if not text[0].strip() and text.isspace():
                raise _Left
            sign = self.known[text] = f"{_SIGN}{len(self.known)}"
        return sign


def _message(message: dict[str, Any], signs: _Signs) -> dict[str, Any]:
    """Returns a message as it is in the rest. Raises _Left for one that is more than a text."""
    out: dict[str, Any] = {}
    for key, value in message.items():
        if value.__class__ is str:
            signs.strings += 2
            if key in _TEXTS:
                out[key] = signs.of(value)
                continue
        elif value is None or value.__class__ is bool or value == []:
            signs.strings += 1
        else:
            raise _Left
        out[key] = value
    return out


def _general(finding: Finding) -> bool:
    """Returns whether a finding about a rest is true of all records with it."""
    words = (finding.message, finding.help, finding.pointer, *finding.expected)
    moved = finding.fix is not None and finding.code != METADATA
    return finding.span is None and not moved and not any(_SIGN in word for word in words)


def _of(record: dict[str, Any], finding: Finding) -> Finding:
    """Returns a finding about a rest as one about a record that has it."""
    fix = finding.fix
    if fix is None:
        return finding
    value = record[unescape(finding.pointer[1:])]
    patch = tuple([{**op, "value": value} if "value" in op else op for op in fix.patch])
    return replace(finding, fix=Fix(fix.title, fix.safe, patch))
