"""Looks for fixes in one turn of a record at a time, and moves them to their places in the whole.

So a record of many turns takes time in proportion to their number. A turn is looked at as a record
by itself: what comes before all turns, then the turn's messages. A rule may see more than one turn,
so a fix from here is not proved for the whole record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mypt_spec.dialect import Dialect
from mypt_spec.findings import Finding, Fix

# How many times the size of the record all turns may have, each with what comes before them.
_SHARE = 16
_Key = tuple[str, str, tuple[int, int] | None]


@dataclass(frozen=True)
class Turns:
    """The turns of a record that its dialect can read.

    `look` returns the findings of a record, with fixes.
    """

    dialect: Dialect
    record: dict[str, Any]
    look: Callable[[dict[str, Any]], list[Finding]]
    _cache: dict[int, dict[_Key, Fix]] = field(default_factory=dict)

    def fix(self, finding: Finding, message: int) -> Fix | None:
        """Returns the fix that a finding in a message has in its turn, if any.

        A record of one turn has none.
        """
        turn = bisect_right(self._starts, message) - 1
        if turn < 0 or len(self._starts) < 2:
            return None
        if turn not in self._cache:
            self._cache[turn] = self._fixes(turn) if len(self._cache) < self._most else {}
        return self._cache[turn].get((finding.code, finding.pointer, finding.span))

    @property
    def _key(self) -> str:
        return self.dialect.adapter.SCHEMA.messages

    @cached_property
    def _starts(self) -> list[int]:
        schema, opener = self.dialect.adapter.SCHEMA, self.dialect.table.turn_opener
        roles = [str(message.get(schema.tag)) for message in self.record[self._key]]
        return [i for i, role in enumerate(roles) if schema.aliases.get(role, role) == opener]

    @cached_property
    def _most(self) -> int:
        head = {**self.record, self._key: self.record[self._key][: self._starts[0]]}
        return _SHARE * len(repr(self.record)) // len(repr(head))

    def _fixes(self, turn: int) -> dict[_Key, Fix]:
        messages, starts = self.record[self._key], [*self._starts, None]
        head = messages[: starts[0]]
        turn_messages = messages[starts[turn] : starts[turn + 1]]
        by = self._starts[turn] - len(head)
        fixes: dict[_Key, Fix] = {}
        for finding in self.look({**self.record, self._key: head + turn_messages}):
            if finding.fix is not None:
                patch = tuple(o | {"path": self._moved(o["path"], by)} for o in finding.fix.patch)
                key = finding.code, self._moved(finding.pointer, by), finding.span
                fixes.setdefault(key, Fix(finding.fix.title, finding.fix.safe, patch=patch))
        return fixes

    def _moved(self, pointer: str, by: int) -> str:
        """Returns a pointer into a message of a turn as one into the whole record."""
        owner, index, *deeper = pointer.removeprefix("/").split("/", 2)
        if owner != self._key or int(index) < self._starts[0]:
            return pointer
        return "/".join(["", owner, str(int(index) + by), *deeper])
