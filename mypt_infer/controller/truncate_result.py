"""Shortens a JSON value to a number of tokens.

Items of lists are dropped first, from their ends; then texts are shortened. So a large result of a
tool still fits into the context, and says that it is not whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mypt_infer.run_format import Format

# The number of tokens that each result may have: enough to say that it is too large.
LEAST = 64
# The most characters of a token.
_TOKEN = 128
_MARK = "…"
_DEEP = 200


def truncate_result(value: Any, most: int, count: Callable[[Any], int]) -> tuple[Any, bool]:
    """Returns (value, truncated): the value within `most` tokens, as `count` counts them.

    A shortened value is an object with `"truncated": true` and `"omitted"`, the number of items
    dropped; a value that was no object is under "result". If nothing of the value fits, the result
    is an error that says so. Raises ValueError if `most` is less than LEAST.

    >>> truncate_result({"documents": ["a" * 40, "b" * 40, "c"]}, 64, lambda v: len(str(v)))
    ({'documents': ['aaaaaaaaaaa…'], 'truncated': True, 'omitted': 2}, True)
    """
    if most < LEAST:
        raise ValueError(f"a result must have room for {LEAST} tokens at least, got {most}")
    if len(json.dumps(value, ensure_ascii=False)) <= _TOKEN * most and count(value) <= most:
        return value, False
    whole = dict(value) if isinstance(value, dict) else {"result": value}
    shape = _Shape(whole)

    def fits(items: int, letters: int) -> bool:
        made = shape.cut(items, letters)
        return len(json.dumps(made, ensure_ascii=False)) <= _TOKEN * most and count(made) <= most

    items = _largest(shape.longest_list, lambda n: fits(n, shape.longest_text))
    letters = shape.longest_text
    if items <= 0:
        items = min(1, shape.longest_list)
        letters = _largest(min(shape.longest_text, _TOKEN * most), lambda n: fits(items, n))
        if letters < 0:
            items, letters = (
                0,
                _largest(min(shape.longest_text, _TOKEN * most), lambda n: fits(0, n)),
            )
        if letters < 0:
            large = {
                "error": {
                    "type": "result_too_large",
                    "message": "the result does not fit, not even in part",
                }
            }
            return large | {"truncated": True, "omitted": 1}, True
    return shape.cut(items, letters), True


def count_result(fmt: Format, value: Any) -> int:
    """Returns the number of ids of a result, without its tags."""
    return len(fmt.dialect.tokenizer.encode(fmt.result_body(value)))


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """Returns the largest number from 0 to `most` that fits, by bisection; -1 if none does."""
    low, high = -1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


class _Shape:
    """An object, and the lengths of its longest list and text."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.whole = whole
        self.longest_list = self.longest_text = 0
        waiting: list[Any] = [whole]
        while waiting:
            item = waiting.pop()
            if isinstance(item, dict):
                waiting += item.values()
            elif isinstance(item, list):
                self.longest_list = max(self.longest_list, len(item))
                waiting += item
            elif isinstance(item, str):
                self.longest_text = max(self.longest_text, len(item))

    def cut(self, items: int, letters: int) -> dict[str, Any]:
        """Returns the object with at most `items` in each list and `letters` in each text."""
        omitted = 0

        def of(value: Any) -> Any:
            nonlocal omitted
            if isinstance(value, dict):
                return {key: of(inner) for key, inner in value.items()}
            if isinstance(value, list):
                omitted += max(0, len(value) - items)
                return [of(inner) for inner in value[:items]]
            if isinstance(value, str) and len(value) > letters:
                return value[:letters] + _MARK
            return value

        made = {
            key: of(inner)
            for key, inner in self.whole.items()
            if key not in ("truncated", "omitted")
        }
        return made | {"truncated": True, "omitted": omitted}
