"""Restates bounds of numbers, because llguidance refuses some spellings of numbers that fit.

Input: a schema as `schemas.plain` reads it. Output: the same schema for llguidance, which reads
bounds as regular expressions of digits. Within `exclusiveMinimum`, and between -1 and 0, it lets no
fraction end with a zero, and below `"maximum": 0.55` it lets none end after `0.5`: a model that has
written `0.50` or `0.5` would have to write another digit, and the value would be wrong.

Each range becomes ranges on one side of 0 that are exclusive only away from it, and one more range
for each fraction that the bound away from 0 begins with:

>>> restated({"type": "number", "exclusiveMinimum": 0})
{'type': 'number', 'minimum': 0.0001}
>>> restated({"type": "number", "minimum": 0, "maximum": 0.55})["anyOf"]
[{'minimum': 0, 'maximum': 0.55}, {'minimum': 0, 'maximum': 0.5}]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from mypt_infer.decode.compile.byte_dfa import DIGITS

_MIRRORED = {
    "minimum": "maximum", "exclusiveMinimum": "exclusiveMaximum",
    "maximum": "minimum", "exclusiveMaximum": "exclusiveMinimum",
}  # fmt: skip
_MAPS = ("$defs", "definitions", "patternProperties", "properties")
# The least number above 0: canonical JSON writes smaller ones with an exponent, and llguidance
# writes none within bounds.
_LEAST = Decimal("0.0001")
# No fraction of DIGITS digits is as large.
_LARGE = 10**DIGITS


def restated(schema: Any, *, is_map: bool = False) -> Any:
    """Returns a schema of the same numbers, all of whose spellings llguidance lets end.

    `is_map`: it is no schema, but schemas by name.
    """
    if isinstance(schema, list):
        return [restated(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    if is_map:
        return {name: restated(part) for name, part in schema.items()}
    out = {
        word: part if word in ("const", "enum") else restated(part, is_map=word in _MAPS)
        for word, part in schema.items()
    }
    bounds = {word: Decimal(str(out[word])) for word in _MIRRORED if word in out}
    is_large = any(abs(bound) >= _LARGE for bound in bounds.values())
    if not bounds or is_large or "number" not in out.get("type", ()) or "anyOf" in out:
        return out
    ranges = [
        {word: int(b) if b == int(b) else float(b) for word, b in numbers.items()}
        for numbers in _ranges(bounds)
    ]
    if not ranges:  # no number fits, which llguidance reports
        return out
    others = {word: part for word, part in out.items() if word not in bounds}
    return others | (ranges[0] if len(ranges) == 1 else {"anyOf": ranges})


def _ranges(bounds: Mapping[str, Decimal]) -> Iterator[dict[str, Decimal]]:
    """Yields ranges that together hold the numbers within some bounds."""
    yield from _above(bounds, Decimal(0))
    for numbers in _above({_MIRRORED[word]: -bound for word, bound in bounds.items()}, _LEAST):
        yield {_MIRRORED[word]: -bound for word, bound in numbers.items()}


def _above(bounds: Mapping[str, Decimal], low: Decimal) -> Iterator[dict[str, Decimal]]:
    """Yields ranges of the numbers from `low`, at least 0, that are within some bounds."""
    low = max(low, bounds.get("minimum", low))
    if (excluded := bounds.get("exclusiveMinimum", low - 1)) >= low:
        step = Decimal(1).scaleb(len(str(int(excluded))) - DIGITS)
        low = max(_LEAST, excluded.quantize(step, ROUND_FLOOR) + step)
    highs = [(bounds[word], word) for word in ("exclusiveMaximum", "maximum") if word in bounds]
    if not highs:
        yield {"minimum": low}
        return
    high, word = min(highs)
    if high > low or (high == low and word == "maximum"):
        yield {"minimum": low, word: high}
        places = -int(high.normalize().as_tuple().exponent)
        tops = [high.quantize(Decimal(1).scaleb(-n), ROUND_FLOOR) for n in range(1, places)]
        yield from ({"minimum": low, "maximum": top} for top in dict.fromkeys(tops) if top >= low)
