"""Counts the quotes that begin or end a string in JSON."""

import re

_ESCAPES, _ESCAPED = re.compile(rb'\\["\\]'), re.compile(rb'\\"')
_ODD = re.compile(rb'\\\\"')  # without these, each backslash before a quote escapes it


def unescaped_quotes(data: bytes | bytearray) -> int:
    """Returns how many quotes follow an even number of backslashes: two a string in valid JSON."""
    count = data.count(b'"')
    if b"\\" not in data:
        return count
    odd = _ODD.search(data)
    return count - (_ESCAPES.findall(data).count(b'\\"') if odd else len(_ESCAPED.findall(data)))
