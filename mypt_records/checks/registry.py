"""Registers the functions that check a chat, each under its rule's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

from mypt_records.chat import Chat
from mypt_spec.findings import Finding, registers

_T = TypeVar("_T")
Check = Callable[[Chat], Iterable[Finding]]
CHECKS: dict[str, Check] = {}
check = registers(CHECKS)


def once_per_chat(function: Callable[[Chat], _T]) -> Callable[[Chat], _T]:
    """Makes a function keep its result in the chat: several checks need it."""
    name = function.__qualname__

    @wraps(function)
    def cached(chat: Chat) -> _T:
        if name not in chat.facts:
            chat.facts[name] = function(chat)
        result: _T = chat.facts[name]
        return result

    return cached
