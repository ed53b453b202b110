"""Registers the functions that check a chat, each under its rule's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from mypt_records.chat import Chat
from mypt_spec.findings import RULES, Finding

Check = Callable[[Chat], Iterable[Finding]]
CHECKS: dict[str, Check] = {}
_C = TypeVar("_C", bound=Check)


def check(code: str) -> Callable[[_C], _C]:
    """Registers a function as a rule's check. Raises ValueError for an unknown or taken code."""
    if code not in RULES:
        raise ValueError(f"{code} is not in rules.toml")
    if code in CHECKS:
        raise ValueError(f"two functions check {code}")

    def register(function: _C) -> _C:
        CHECKS[code] = function
        return function

    return register
