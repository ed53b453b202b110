"""Carries out a JSON Patch (the operations of `mypt_spec.patch`) on the source of a line.

What no operation names keeps its bytes, escapes and spacing, and text that moves (removed here,
added there) its spelling.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from mypt_lint.places.positions import Places, StringColumns
from mypt_spec.bodies.members import Member
from mypt_spec.bodies.strict_json import escape, faults, loads, unescape, value_at
from mypt_spec.findings import Fix
from mypt_spec.memo import lazy_re
from mypt_spec.patch import apply, in_common

_Edit = tuple[int, int, str]  # from column and to column, and the new text
_STRING = lazy_re(r'("(?:[^"\\]|\\.)*+")(\s*:)?')  # and what follows a key
_COMMA = lazy_re(r'[}\]"0-9el],( ?)[-"{\[0-9tfn]')
_COLON = lazy_re(r'":( ?)["{\[0-9tfn-]')


def edited(line: str, fix: Fix) -> str:
    """Returns the physical line with a fix carried out.

    That is its patch, or its edits, which count code points of the line. Raises ValueError where
    the fix was made for another line, and where a key that occurs twice makes places doubtful.
    """
    if fix.edits:
        return apply(line, fix) if not fix.patch else line
    removed: dict[str, str] = {}  # strings that were removed, and how they were spelled
    for operation in fix.patch:
        line = apply(line, Fix("", False, edits=(_Source(line, removed).edit(operation),)))
    return line


def edited_at_once(line: str, fixes: Sequence[Fix]) -> str:
    """Returns the physical line with fixes carried out in one pass, which were all made for it.

    Raises ValueError as `edited` does, where fixes touch one another or add items at one place, and
    where one moves the items that it names itself: make those one by one.
    """
    if len(fixes) == 1:
        return edited(line, fixes[0])
    edits = {edit for fix in fixes for edit in fix.edits}
    source, added = _Source(line, {}), dict[int, _Edit]()
    for fix in fixes:
        fix_edits, adds_items = _edits_at_once(source, fix)
        if adds_items and added.setdefault(fix_edits[-1][0], fix_edits[-1]) != fix_edits[-1]:
            raise ValueError("two fixes add items at one place")
        edits.update(fix_edits)
    return str(apply(line, Fix("", False, edits=tuple(edits))))


def _edits_at_once(source: _Source, fix: Fix) -> tuple[list[_Edit], bool]:
    """Returns a patch as edits of the line, and whether the last one adds items to an array.

    Raises ValueError where operations move the items that others name.
    """
    edits: list[_Edit] = []
    removed = ""  # the item of an array that was removed: those after it have moved up
    first, last = "", ""  # items that were added: all come before what was the first one's place
    for operation in fix.patch:
        path = _before(operation["path"], removed) if removed else operation["path"]
        if first:
            if operation["op"] != "add" or path != _next(last):
                raise ValueError("it moves items of arrays about")
            at, _, text = edits.pop()
            edits.append((at, at, text + source.edit({**operation, "path": first})[2]))
            last = path
            continue
        if operation["op"] != "replace" and source._is_item(path):
            if removed:
                raise ValueError("it moves items of arrays about")
            if operation["op"] == "add":
                first = last = path
            else:
                removed = path
        edits.append(source.edit({**operation, "path": path}))
    return edits, bool(first)


def _next(path: str) -> str:
    array, _, index = path.rpartition("/")
    return f"{array}/{int(index) + 1}"


def _before(path: str, removed: str) -> str:
    """Returns a path as it was before an item of an array was removed."""
    array, _, index = removed.rpartition("/")
    token, *deeper = path.removeprefix(f"{array}/").split("/")
    if not path.startswith(f"{array}/") or not token.isdecimal() or int(token) < int(index):
        return path
    return "/".join([array, str(int(token) + 1), *deeper])


def replacement(line: str, fix: Fix) -> tuple[int, int, str] | None:
    """Returns a fix as (from column, to column, new text), from 1; None if it does not fit."""
    try:
        new = edited(line, fix)
    except ValueError:
        return None
    start, end, text = difference(line, new)
    return start + 1, end + 1, text


class _Source:
    """The places of one line, and one operation on it."""

    def __init__(self, line: str, removed: dict[str, str]) -> None:
        self.line, self.removed_texts = line, removed
        self.record = loads(line.removeprefix("\ufeff"))
        if any(fault.code == "MYP004" for fault in faults(self.record)):
            raise ValueError("duplicate key: only the author can tell which of the two was meant")
        self.places = Places(line, unique=True)
        self.inner: dict[str, list[str]] = {}  # the paths of an array's or object's items, in order

    def edit(self, operation: dict[str, Any]) -> _Edit:
        """Returns an operation as one edit of the line: start, end, new text."""
        op, path = operation["op"], operation["path"]
        if op == "remove":
            return self._remove(path)
        if op == "replace" or (op == "add" and self._has(path) and not self._is_item(path)):
            return self._replace(path, operation["value"])
        return self._add(path, operation["value"])

    def _has(self, path: str) -> bool:
        place = self.places.member(path)
        return place is not None and place[1]

    def _value(self, path: str) -> Member:
        place = self.places.member(path)
        if place is None or not place[1]:
            raise ValueError(f"the fix does not fit: nothing at {path!r}")
        return place[0]

    def _is_item(self, path: str) -> bool:
        return self.line[self._value(path.rpartition("/")[0]).start] == "["

    def _start(self, path: str) -> int:
        member = self._value(path)
        return member.key[0] if member.key else member.start

    def _siblings(self, parent: str) -> list[str]:
        if parent not in self.inner:
            value = value_at(self.record, parent)
            keys = [*map(escape, value)] if isinstance(value, dict) else []
            keys += map(str, range(len(value))) if isinstance(value, list) else ()
            self.inner[parent] = [f"{parent}/{key}" for key in keys]
        return self.inner[parent]

    def _remove(self, path: str) -> _Edit:
        item = self._value(path)
        for source, key in _STRING.findall(self.line, item.start, item.end):
            if not key:
                self.removed_texts[json.loads(source, strict=False)] = source
        parent, _, token = path.rpartition("/")
        siblings = self._siblings(parent)
        at = int(token) if self.line[self._value(parent).start] == "[" else siblings.index(path)
        if at + 1 < len(siblings):
            return self._start(path), self._start(siblings[at + 1]), ""
        return self._value(siblings[at - 1]).end if at else self._start(path), item.end, ""

    def _replace(self, path: str, value: Any) -> _Edit:
        item = self._value(path)
        source = self.line[item.start : item.end]
        start, end, new = item.start, item.end, self._spelled(value)
        if isinstance(value, str) and source[0] == '"':  # of a string, only what differs
            old = json.loads(source, strict=False)
            first, last, text = difference(old, value)
            start, end = StringColumns(self.line, start, end).of((first, last))
            new = self._spelled(text)[1:-1]
        return start, end, new

    def _add(self, path: str, value: Any) -> _Edit:
        parent, _, token = path.rpartition("/")
        owner, siblings = self._value(parent), self._siblings(parent)
        was_removed = isinstance(value, str) and value in self.removed_texts
        new = self.removed_texts[value] if was_removed else self._spelled(value)
        if self.line[owner.start] == "{":
            new = f"{self._spelled(unescape(token))}{self._colon}{new}"
            # A key of the whole record comes before its messages.
            at = 0 if not parent else len(siblings)
        else:
            at = len(siblings) if token == "-" else int(token)
            if at > len(siblings):
                raise ValueError(f"the fix does not fit: nothing to add at {path!r}")
        if not siblings:
            place = owner.start + 1
        elif at < len(siblings):
            place, new = self._start(siblings[at]), new + self._comma
        else:
            place, new = self._value(siblings[-1]).end, self._comma + new
        return place, place, new

    @cached_property
    def _comma(self) -> str:
        match = _COMMA.search(self.line)
        return f",{match[1]}" if match else ", "  # with the white space that the line has there

    @cached_property
    def _colon(self) -> str:
        match = _COLON.search(self.line)
        return f":{match[1]}" if match else ": "

    def _spelled(self, value: Any) -> str:
        separators, is_ascii = (self._comma, self._colon), self.line.isascii()
        return json.dumps(value, ensure_ascii=is_ascii, separators=separators, allow_nan=False)


def difference(old: str, new: str) -> tuple[int, int, str]:
    """Returns where the old string differs from the new (start, end), and what to write there."""
    before = in_common(old, new)
    after = in_common(old[before:][::-1], new[before:][::-1])
    return before, len(old) - after, new[before : len(new) - after]
