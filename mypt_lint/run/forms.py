"""Finds forms of values that a file mixes, such as arguments that are JSON text or objects.

A column of a table has one type, so `datasets` and Parquet refuse such a file. In a block, the
bytes show where a form may be; only that line is decoded.
"""

import json
from collections.abc import Iterator
from typing import Any

from mypt_cli.jsonl.blocks import Block

_BEGINNING, _FIRST = 1 << 20, 1 << 13  # bytes of a file, and of a later block
_TRIES = 5  # lines of a block that only look so
_FORMS: tuple[tuple[str, dict[str, tuple[type, str]]], ...] = (
    ("tools", {"a list": (list, "[{"), "JSON text": (str, '"[')}),
    ("arguments", {"an object": (dict, "{"), "JSON text": (str, '"')}),
)


def forms(block: Block) -> Iterator[tuple[str, str, int]]:
    """Yields (key, form, line) for each form in a block, and the first line that has it.

    Beyond the beginning of a file, it looks at the first lines of each block: who mixes two forms
    mixes them everywhere, and to search all bytes would take a tenth of the time of a check.
    """
    data = block.data if block.position <= _BEGINNING else block.data[:_FIRST]
    for key, kinds in _FORMS:
        for form, (of_type, start) in kinds.items() if f'"{key}"'.encode() in data else ():
            line = min(_line(data, key, of_type, f'"{key}":{s}{start}') for s in ("", " "))
            if line < len(data):
                yield key, form, data.count(b"\n", 0, line)


def _line(data: bytes, key: str, of_type: type, spelling: str) -> int:
    """Returns where the first line begins that has a value of a type; len(data) for none."""
    at = -1
    for _ in range(_TRIES):
        at = data.find(spelling.encode(), at + 1)
        if at < 0:
            break
        start, at = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at) % (len(data) + 1)
        if any(isinstance(value, of_type) for value in _values(data[start:at], key)):
            return start
    return len(data)


def _values(line: bytes, key: str) -> list[Any]:
    """Returns the tools of a record, or the arguments of its calls; none where it has others."""
    try:
        record = json.loads(line)
        if key == "tools":
            return [record[key]]
        lists = [some for some in record.values() if isinstance(some, list)]
        messages = [m for some in lists for m in some if isinstance(m, dict)]
        return [c["function"][key] for m in messages for c in m.get("tool_calls") or ()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
