"""Shortens a JSON value to a number of tokens.

White space is collapsed and texts are cut first, all at the same length; then items of lists are
dropped, from their ends. So a large result of a tool still fits into the context, the model sees as
many of its items as it can use, and the result says that it is not whole.
"""

import json
from bisect import bisect
from collections.abc import Callable
from typing import Any

from mypt_infer.run_format import Format

# The number of tokens that each result may have: enough to say that it is too large.
LEAST = 64
# The most characters of a token.
_TOKEN = 128
_MARK = "…"
# The characters of a text below which items are dropped instead: so many still say something.
_USEFUL = 100


def truncate_result(value: Any, most: int, count: Callable[[Any], int]) -> tuple[Any, bool]:
    """Returns (value, truncated): the value within `most` tokens, as `count` counts them.

    A shortened value is an object with `"truncated": true` and `"omitted"`, the number of items
    dropped; a value that was no object is under "result". Texts are cut to no less than 100
    characters while there are items to drop. If nothing of the value fits, the result is an error
    that says so. Raises ValueError if `most` is less than LEAST.

    >>> documents = ["a" * 200, "b" * 200, "c  c"]
    >>> value, _ = truncate_result({"documents": documents}, 300, lambda v: len(str(v)))
    >>> [len(text) for text in value["documents"]], value["omitted"]
    ([118, 118, 3], 0)
    >>> truncate_result({"documents": documents}, 64, lambda v: len(str(v)))
    ({'documents': ['aaaaaaaaaaa…'], 'truncated': True, 'omitted': 2}, True)
    """
    if most < LEAST:
        raise ValueError(f"a result must have room for {LEAST} tokens at least, got {most}")
    if len(json.dumps(value, ensure_ascii=False)) <= _TOKEN * most and count(value) <= most:
        return value, False
    document = dict(value) if isinstance(value, dict) else {"result": value}
    shape = _Shape(document)

    def fits(items: int, letters: int) -> bool:
        short = shape.short_copy(items, letters)
        return len(json.dumps(short, ensure_ascii=False)) <= _TOKEN * most and count(short) <= most

    longest = min(shape.longest_text, _TOKEN * most)
    useful = min(longest, _USEFUL)
    items = largest(shape.longest_list, lambda n: fits(n, useful), least=0)
    if items > 0 or (items == 0 and not shape.longest_list):
        least = useful
    else:  # not one item: less of the first, or only what is around the list
        least = 0
        items = next((n for n in (min(1, shape.longest_list), 0) if fits(n, least)), -1)
    if items < 0:
        large = {"type": "result_too_large", "message": "the result does not fit, not even in part"}
        return {"error": large, "truncated": True, "omitted": 1}, True
    letters = largest(longest, lambda n: fits(items, n), least + 1)
    return shape.short_copy(items, letters), True


def count_result(fmt: Format, value: Any) -> int:
    """Returns the number of ids of a result, without its tags."""
    return len(fmt.dialect.tokenizer.encode(fmt.result_body(value)))


def largest(most: int, fits: Callable[[int], bool], least: int = 1) -> int:
    """Returns the largest number from `least` to `most` that fits; `least - 1` if none does.

    Every number below one that fits must fit, too.
    """
    numbers = range(least, most + 1)
    return least - 1 + bisect(numbers, False, key=lambda number: not fits(number))


class _Shape:
    """An object whose texts have their white space collapsed; its longest list and text."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.longest_list = self.longest_text = 0
        self.document = {
            key: self._collapsed(inner)
            for key, inner in document.items()
            if key not in ("truncated", "omitted")
        }

    def _collapsed(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._collapsed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            self.longest_list = max(self.longest_list, len(value))
            return [self._collapsed(inner) for inner in value]
        if isinstance(value, str):
            text = " ".join(value.split())
            self.longest_text = max(self.longest_text, len(text))
            return text
        return value

    def short_copy(self, items: int, letters: int) -> dict[str, Any]:
        """Returns the object with at most `items` in each list and `letters` in each text."""
        omitted = 0

        def short(value: Any) -> Any:
            nonlocal omitted
            if isinstance(value, dict):
                return {key: short(inner) for key, inner in value.items()}
            if isinstance(value, list):
                omitted += max(0, len(value) - items)
                return [short(inner) for inner in value[:items]]
            if isinstance(value, str) and len(value) > letters:
                return value[:letters] + _MARK
            return value

        result: dict[str, Any] = short(self.document)
        return result | {"truncated": True, "omitted": omitted}
