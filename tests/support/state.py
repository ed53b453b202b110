"""Writes the state of a parser as text, so that two states can be compared."""

from __future__ import annotations

import re
from functools import partial
from types import FunctionType, MethodType
from typing import Any

# Never changed by reading: what a format is.
_FIXED = {"Dialect", "TokenTable", "Automaton", "Format", "Tokenizer", "Terminal", "Pattern"}


def state_of(value: Any) -> str:
    """Returns all that a value holds, without the random ids of calls and the places of events.

    A list of texts is its text: how it came in pieces is no part of a state.
    """
    text = repr(_plain(value, frozenset()))
    return re.sub(r"\['', \[\d+, \d+\]\]", "PLACE", re.sub(r"call_[0-9a-f]{24}", "ID", text))


def _plain(value: Any, outer: frozenset[int]) -> Any:
    if isinstance(value, str | bytes | int | float | None) or id(value) in outer:
        return None if id(value) in outer else value
    outer |= {id(value)}
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return "".join(value)
    if isinstance(value, list | tuple):
        return [_plain(item, outer) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, dict):
        return {str(key): _plain(item, outer) for key, item in value.items()}
    if isinstance(value, partial):
        return _plain([value.func, *value.args], outer)
    if isinstance(value, MethodType):
        return value.__func__.__qualname__, _plain(value.__self__, outer)
    kind = type(value)
    if isinstance(value, FunctionType | type) or kind.__name__ in _FIXED:
        return getattr(value, "__qualname__", kind.__name__)
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    names = [*filter(partial(hasattr, value), slots), *getattr(value, "__dict__", ())]
    return kind.__name__, {name: _plain(getattr(value, name), outer) for name in names}
