"""Registers the functions that check a chat, each under its rule's code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mypt_records.chat import Chat
from mypt_spec.findings import Finding
from mypt_spec.rules.registry import registers

Check = Callable[[Chat], Iterable[Finding]]
CHECKS: dict[str, Check] = {}
check = registers(CHECKS)
