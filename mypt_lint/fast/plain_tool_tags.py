"""Proves that definitions written as nested tags can be read back, without writing or reading it.

Input: JSON. Output: the definitions, if they are of the types below; they are plain
(plain_schema.py), too. To write and read the text takes twenty times as long.

Theory of operation. `read_tool_tags` finds the end of each element by `</key>`, a line end and `<`.
In plain definitions all keys but names of properties are words of JSON Schema. So where no string
has a `<`, each `<` in the text begins one of `ELEMENTS`, and reading never goes astray. That all of
a definition comes back needs more: a description without white space around it, and no text that
is a number, a word of Python, or JSON. `tests/property/test_ever_new_tools.py` holds both to
`read_tool_tags`.

>>> tool = '[{"name": "f", "parameters": {"type": "object", "properties": {"n": {"title": "%s"}}}}]'
>>> [whole_tools((tool % title).encode()) is not None for title in ("Number", "5", "None")]
[True, False, False]
"""

from functools import cache
from typing import Annotated, Any, Literal

from msgspec import Meta

from mypt_spec.bodies.plain_schema import Decoders, Definitions, decoded, decoders, parts, struct
from mypt_spec.damage.near_miss import near_miss
from mypt_spec.table import TokenTable

# Texts that are no other value, and those that have no white space around them.
_Text = Annotated[str, Meta(pattern=r"\A(?!(?:True|False|None)\Z)[A-Za-z_]")]
_Stripped = Annotated[str, Meta(pattern=r"\A(?:\S(?s:.*\S)?)?\Z")]
_FAR = 1 << 53
# Python writes numbers nearer to 0, or farther from it, with an exponent.
_Integer = Annotated[int, Meta(gt=-_FAR, lt=_FAR)]
_Number = _Integer | Annotated[float, Meta(gt=0.001, lt=_FAR)]
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
# All signs, but for `<`, that the text has besides the strings of definitions, and more.
SIGNS = frozenset("/>{}[]:,.+-\"\\' \n0123456789abcdefghijklmnopqrstuvwxyzEFINTOPUA")


@cache
def elements() -> tuple[str, ...]:
    """Returns all tags that the text of plain definitions may have."""
    keys = ("function", "name", "description", "parameters", "parameter", "strict", *parts())
    return tuple(f"<{end}{key}>" for key in keys for end in ("", "/"))


def apart_from(table: TokenTable) -> bool:
    """Returns whether no such tag is one of a format, begins one, or is almost one."""
    return not table.attributed and not any(
        tag.startswith(element) or element.startswith(tag) or near_miss(element, table)
        for element in elements()
        for tag in table.tags
    )


@cache
def _decoders() -> Decoders:
    """Returns decoders of lists of definitions of which nothing is lost."""
    fields = parts() | dict.fromkeys(("title", "format"), _Text)
    fields |= dict.fromkeys(_NUMBERS, _Number) | {"default": _Text | _Number | bool | None}
    field = struct("Field", fields | {"description": _Stripped})
    some: Any = Annotated[dict.__class_getitem__((str, field)), Meta(min_length=1)]
    more = {"type": Literal["object"], "properties": some}
    parameters = struct("Parameters", fields | {"description": str} | more, ("type", "properties"))
    return decoders(str, _Stripped, parameters)


def whole_tools(raw: bytes) -> Definitions | None:
    """Returns definitions as `plain_tools` does, where their text says all; None for any others.

    That no string in them has a `<` is for the caller to know.
    """
    return decoded(raw, _decoders())
