"""Restates bounds of numbers, because llguidance refuses some spellings of numbers that fit.

llguidance reads bounds as regular expressions of digits. Within `exclusiveMinimum`, and between -1
and 0, it lets no fraction end with a zero, and below `"maximum": 0.55` none end after `0.5`: after
these, another digit has to follow. So each range becomes ranges on one side of 0, exclusive
only away from it, and one for each fraction that the bound away from 0 begins with:

>>> with_ranges({"type": "number", "exclusiveMinimum": 0})
{'type': 'number', 'minimum': 0.0001}
>>> with_ranges({"type": "number", "minimum": 0, "maximum": 0.55})["anyOf"]
[{'minimum': 0, 'maximum': 0.55}, {'minimum': 0, 'maximum': 0.5}]
"""

import json
import math
from collections.abc import Iterator, Mapping
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from typing import Any

from mypt_infer.decode.compile.byte_dfa import DIGITS

_MIRRORED = {"minimum": "maximum", "exclusiveMinimum": "exclusiveMaximum"}
_MIRRORED |= {high: low for low, high in _MIRRORED.items()}
_rounded = partial(json.loads, parse_int=lambda digits: Decimal(str(float(digits))))
_LEAST = Decimal("0.0001")  # smaller numbers have an exponent, which none within bounds has


def with_ranges(schema: dict[str, Any], _: str = "") -> dict[str, Any]:
    """Returns a part of a schema whose numbers llguidance does not round, and always ends."""
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        held = [value for value in values if value == _rounded(json.dumps(value))]
        return schema if len(held) == len(values) else schema | {"enum": held}
    bounds = {word: Decimal(str(schema[word])) for word in _MIRRORED if word in schema}
    if large := {word: bound for word, bound in bounds.items() if abs(bound) >= 10**DIGITS}:
        return schema | {word: _held(word, bound) for word, bound in large.items()}
    if not bounds or "number" not in schema.get("type", ()) or "anyOf" in schema:
        return schema
    others = {word: part for word, part in schema.items() if word not in bounds}
    ranges = [*_ranges(bounds)] or [schema]  # where no number fits, llguidance reports it
    return others | (ranges[0] if len(ranges) == 1 else {"anyOf": ranges})


def _held(word: str, bound: Decimal) -> int:
    """Returns a large bound as a float, which llguidance also spells, that is not beyond it."""
    if word.endswith("inimum"):
        return -_held(_MIRRORED[word], -bound)
    if word.startswith("exclusive") and abs(bound) >= 2**53:  # where floats round a step of 1 away
        bound = bound.next_minus()
    value = float(min(bound, Decimal(2**63 - 1024)))  # larger ones it does not read
    while max(Decimal(value), Decimal(str(value))) > bound:
        value = math.nextafter(value, -math.inf)
    return int(value)


def _ranges(bounds: Mapping[str, Decimal]) -> Iterator[dict[str, float]]:
    """Yields ranges that together hold the numbers within some bounds."""
    mirrored = {_MIRRORED[word]: -bound for word, bound in bounds.items()}
    below = ({_MIRRORED[w]: -b for w, b in part.items()} for part in _above(mirrored, _LEAST))
    for numbers in (*_above(bounds, Decimal(0)), *below):
        yield {word: int(b) if b == int(b) else float(b) for word, b in numbers.items()}


def _above(bounds: Mapping[str, Decimal], low: Decimal) -> Iterator[dict[str, Decimal]]:
    """Yields ranges of the numbers from `low`, at least 0, that are within some bounds."""
    low = max(low, bounds.get("minimum", low))
    if (excluded := bounds.get("exclusiveMinimum", low - 1)) >= low:
        step = Decimal(1).scaleb(len(str(int(excluded))) - DIGITS)
        low = max(_LEAST, excluded.quantize(step, ROUND_FLOOR) + step)
    highs = [(bounds[word], word) for word in ("exclusiveMaximum", "maximum") if word in bounds]
    high, word = min(highs, default=(low, ""))
    if not word:
        yield {"minimum": low}
    elif high > low or (high == low and word == "maximum"):
        yield {"minimum": low, word: high}
        places = -int(high.normalize().as_tuple().exponent)
        tops = [high.quantize(Decimal(1).scaleb(-n), ROUND_FLOOR) for n in range(1, places)]
        yield from ({"minimum": low, "maximum": top} for top in dict.fromkeys(tops) if top >= low)
