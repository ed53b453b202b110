"""Finds the place of a value that is inside of a JSON text, such as arguments written as a string.

Input are values of a chat and pointers into them; output are findings at these. A pointer of the
record leads to the text and no further: inside it, the place is a span of its code points, which
the linter finds again among the escapes of the file.
"""

from __future__ import annotations

from mypt_records.chat import JsonText, JsonValue, Text
from mypt_spec.bodies.members import Members
from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding


def located(
    code: str,
    message: str,
    value: JsonValue | Text,
    pointer: str = "",
    *,
    hint: str = "",
    on_key: bool = False,
) -> Finding:
    """Returns a finding about a part of a value, or about the key of that part.

    >>> arguments = JsonValue('{"a": {"b": 1}}', "/arguments")
    >>> found = located("MYP353", "1 is no string", arguments, "/a/b")
    >>> found.pointer, found.span
    ('/arguments', (12, 13))
    """
    outer, text = value.outer, value.value if isinstance(value, JsonValue) else None
    if outer is None and isinstance(text, str):
        outer = JsonText(text, "")
    elif outer is not None and isinstance(text, str):
        pointer = ""  # a text in a text
    if outer is None:
        return Finding(code, message, value.at + pointer, help=hint, on_key=on_key)
    return Finding(code, message, value.at, _span(outer, pointer, on_key=on_key), help=hint)


def _span(outer: JsonText, pointer: str, *, on_key: bool) -> tuple[int, int] | None:
    tokens = [unescape(token) for token in (outer.pointer + pointer).split("/")[1:]]
    result = Members(outer.text).find(tokens)
    if result is None:
        return None
    member, exact = result
    start, end = member.key if on_key and exact and member.key else (member.start, member.end)
    return outer.start + start, outer.start + end
