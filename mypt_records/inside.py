"""Finds the place of a value that is inside of a JSON text, such as arguments written as a string.

Input are values of a chat and pointers into them; output are findings at these. A pointer of the
record leads to the text and no further: inside it, the place is a span of its code points, which
the linter finds again among the escapes of the file.
"""

from __future__ import annotations

from mypt_records.chat import Given, Held, Text
from mypt_spec.bodies.members import Members
from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding


def located(
    code: str,
    message: str,
    value: Given | Text,
    pointer: str = "",
    *,
    hint: str = "",
    on_key: bool = False,
) -> Finding:
    """Returns a finding about a part of a value, or about the key of that part.

    >>> arguments = Given('{"a": {"b": 1}}', "/arguments")
    >>> found = located("MYP353", "1 is no string", arguments, "/a/b")
    >>> found.pointer, found.span
    ('/arguments', (12, 13))
    """
    held, text = value.held, value.value if isinstance(value, Given) else None
    if held is None and isinstance(text, str):
        held = Held(text, "")
    elif held is not None and isinstance(text, str):
        pointer = ""  # a text in a text
    if held is None:
        return Finding(code, message, value.at + pointer, help=hint, on_key=on_key)
    return Finding(code, message, value.at, _span(held, pointer, on_key=on_key), help=hint)


def _span(held: Held, pointer: str, *, on_key: bool) -> tuple[int, int] | None:
    tokens = [unescape(token) for token in (held.pointer + pointer).split("/")[1:]]
    found = Members(held.text).find(tokens)
    if found is None:
        return None
    member, exact = found
    start, end = member.key if on_key and exact and member.key else (member.start, member.end)
    return held.start + start, held.start + end
