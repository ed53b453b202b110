"""Counts what became of the lines of units, so that every line is accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mypt_train.data.encode_line import LONG, REFUSED


@dataclass(slots=True)
class Account:
    """Counts what became of the lines: `lines` is `written` + `refused` + `long` + `duplicate`."""

    lines: int = 0
    written: int = 0
    refused: int = 0
    long: int = 0
    duplicate: int = 0

    @property
    def adds_up(self) -> bool:
        return self.lines == self.written + self.refused + self.long + self.duplicate

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}

    def add(self, counts: Mapping[str, int]) -> None:
        """Adds the counts of another account."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + counts[name])


@dataclass(slots=True)
class Totals:
    """What some units hold: accounts of their inputs, by number, and counts for the manifest."""

    accounts: dict[int, Account] = field(default_factory=dict)
    tags: Counter[str] = field(default_factory=Counter)
    history: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    weighed: int = 0
    weights: bool = False

    def account_of(self, file: int) -> Account:
        """Returns the account of an input."""
        return self.accounts.setdefault(file, Account())

    def take(self, file: int, head: Mapping[str, Any]) -> Account:
        """Adds what the header of a unit file says; returns the account of its input.

        Lines that were written are not among it: they may be duplicates.
        """
        account = self.account_of(file)
        account.lines += head["lines"]
        account.refused += head["statuses"].get(REFUSED, 0)
        account.long += head["statuses"].get(LONG, 0)
        self.tags.update(head["tags"])
        self.history.update(head.get("history", {}))
        self.warnings.update(head.get("warnings", {}))
        self.weighed += head.get("weighed", 0)
        self.weights |= head.get("weights", False)
        return account

    @property
    def all(self) -> Account:
        """Returns the account of all inputs together."""
        out = Account()
        for account in self.accounts.values():
            out.add(account.as_dict())
        return out

    @property
    def add_up(self) -> bool:
        """Returns whether every line of every input is accounted for."""
        return all(account.adds_up for account in [*self.accounts.values(), self.all])

    def as_dict(self) -> dict[str, Any]:
        """Returns the counts as JSON."""
        return {
            "accounts": {str(n): account.as_dict() for n, account in self.accounts.items()},
            "tags": dict(self.tags),
            "history": dict(self.history),
            "warnings": dict(self.warnings),
            "weighed": self.weighed,
            "weights": self.weights,
        }

    def add(self, counts: Mapping[str, Any]) -> None:
        """Adds the counts of other units, as `as_dict` returns them."""
        for number, account in counts["accounts"].items():
            self.account_of(int(number)).add(account)
        self.tags.update(counts["tags"])
        self.history.update(counts["history"])
        self.warnings.update(counts["warnings"])
        self.weighed += counts["weighed"]
        self.weights |= counts["weights"]
