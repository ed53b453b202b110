"""Registers the functions that find what the grammar cannot, each under its rule's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from mypt_spec.findings import RULES, Finding
from mypt_spec.rules.context import Context

Check = Callable[[Context], Iterable[Finding]]
CHECKS: dict[str, Check] = {}
_C = TypeVar("_C")


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


check = registers(CHECKS)
