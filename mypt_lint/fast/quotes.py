"""Counts the quotes that begin or end a string in JSON."""

import re

_ESCAPES, _ESCAPED_QUOTE = re.compile(rb'\\["\\]'), re.compile(rb'\\"')
_ODD = re.compile(rb'\\\\"')  # without these, each backslash before a quote escapes it


def unescaped_quotes(data: bytes | bytearray) -> int:
    """Returns how many quotes follow an even number of backslashes: two a string in valid JSON."""
    count = data.count(b'"')
    if b"\\" not in data:
        return count
    pattern = _ESCAPES if _ODD.search(data) else _ESCAPED_QUOTE
    return count - pattern.findall(data).count(b'\\"')
