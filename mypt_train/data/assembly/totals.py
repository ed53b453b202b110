"""Counts what became of the lines of units, so that every line is accounted for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mypt_train.data.encode_line import LONG, REFUSED

_OUTCOMES = ("written", REFUSED, LONG, "duplicate")


@dataclass(slots=True)
class Totals:
    """What some units hold: accounts of their inputs, by number, and counts for the manifest.

    An account counts the `lines` of an input, and what became of them.
    """

    accounts: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tags: Counter[str] = field(default_factory=Counter)
    history: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    weighed: int = 0
    weights: bool = False

    def account_of(self, *files: int) -> dict[str, int]:
        """Returns the account of inputs together, as the manifest has it."""
        return {
            name: sum(self.accounts[file][name] for file in files) for name in ("lines", *_OUTCOMES)
        }

    @property
    def all(self) -> dict[str, int]:
        """Returns the account of all inputs together."""
        return self.account_of(*self.accounts)

    def take(self, file: int, head: Mapping[str, Any]) -> Counter[str]:
        """Adds what the header of a unit file says; returns the account of its input.

        Lines that were written are not among it: they may be duplicates.
        """
        counts = {name: head["statuses"].get(name, 0) for name in (REFUSED, LONG)}
        self.add({**head, "accounts": {file: counts | {"lines": head["lines"]}}})
        return self.accounts[file]

    @property
    def add_up(self) -> bool:
        """Returns whether every line of every input is accounted for."""
        return all(
            account["lines"] == sum(account[name] for name in _OUTCOMES)
            for account in self.accounts.values()
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the counts as JSON."""
        return {
            "accounts": {file: self.account_of(file) for file in self.accounts},
            "tags": dict(self.tags),
            "history": dict(self.history),
            "warnings": dict(self.warnings),
            "weighed": self.weighed,
            "weights": self.weights,
        }

    def add(self, counts: Mapping[str, Any]) -> None:
        """Adds the counts of other units, as `as_dict` returns them."""
        for file, account in counts["accounts"].items():
            self.accounts[int(file)].update(account)
        self.tags.update(counts["tags"])
        self.history.update(counts.get("history", {}))
        self.warnings.update(counts.get("warnings", {}))
        self.weighed += counts.get("weighed", 0)
        self.weights |= counts.get("weights", False)
