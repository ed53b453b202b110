"""Makes fixes of what has one meaning: a key, a role or a value that is spelled another way.

Output are fixes of records. Whoever makes one proves it first (`mypt_lint.fix`).
"""

import ast
import json
import warnings
from collections.abc import Iterable
from typing import Any

from mypt_records.chat import JsonValue
from mypt_spec.findings import Fix

_LONGEST = 1 << 16  # characters of arguments that are read as Python


def renamed(parent: str, old: str, new: str, value: Any) -> Fix:
    """Returns the fix that gives a value of the object at `parent` another key."""
    patch = (
        {"op": "remove", "path": f"{parent}/{old}"},
        {"op": "add", "path": f"{parent}/{new}", "value": value},
    )
    return Fix(f'rename it to "{new}"', True, patch=patch)


def replaced(at: str, value: Any, title: str, *, safe: bool = True) -> Fix:
    """Returns the fix that puts a value in the place of another."""
    return Fix(title, safe, patch=({"op": "replace", "path": at, "value": value},))


def within(source: JsonValue, values: Iterable[tuple[str, Any]], title: str) -> Fix | None:
    """Returns the fix that replaces values inside of a value, each by its pointer.

    In a JSON text such as `tools`, all else keeps its characters. None where a place is not known.
    """
    if source.outer is None:
        ops = [{"op": "replace", "path": source.at + at, "value": value} for at, value in values]
        return Fix(title, True, patch=tuple(ops))
    if source.outer.start or source.at.count("/") > 1:
        return None  # the JSON is a part of a text
    text, edits = source.outer.text, []
    for at, value in values:
        member = source.outer.member(at)
        if member is None or not member[1]:
            return None
        edits.append((member[0].start, member[0].end, json.dumps(value, ensure_ascii=False)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return replaced(source.at, text, title)


def from_python(item: JsonValue) -> Fix | None:
    """Returns the fix that writes arguments in Python's notation as JSON; None for no such text."""
    source = item.value if item.outer is None and isinstance(item.value, str) else ""
    if not source or len(source) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that Python does not have
            tree = ast.parse(source.strip(), mode="eval").body
        value = ast.literal_eval(tree)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if not isinstance(tree, ast.Dict) or value != json.loads(text):
            return None  # a tuple, or a key that is no string
        same = all(_keys(node) for node in ast.walk(tree) if isinstance(node, ast.Dict))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return replaced(item.at, text, "write it as JSON") if same else None


def _keys(node: ast.Dict) -> bool:
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    return len({*keys}) == len(keys) == len(node.keys)
