"""Counts the quotes that begin or end a string in JSON."""

import re

_ESCAPES = re.compile(rb'\\["\\]')


def unescaped_quotes(data: bytes | bytearray) -> int:
    """Returns how many quotes follow an even number of backslashes: two a string in valid JSON."""
    count = data.count(b'"')
    return count - _ESCAPES.findall(data).count(b'\\"') if b"\\" in data else count
