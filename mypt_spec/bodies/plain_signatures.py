"""Proves that the TypeScript of definitions can be read back, without writing or reading it.

Input: JSON. Output: the definitions, if they are of the types below; they are plain
(plain_schema.py), too. Most definitions are, and to write and read the text takes thirty times as
long.

Theory of operation. `read_signatures` refuses a text that can be read in several ways. A text has
several where a string in it spells what ends it: a description with a line end, a choice with a
quote, a name with a colon. Another is where two schemas have one text, as those of several types
have. Here names are words, texts of one line have no line end, choices have no quotes, and each
schema has one type; so a reader that goes from line to line never has a choice, and finds what
writes the same text again. `tests/property/test_ever_new_tools.py` holds that to `read_signatures`.

>>> tool = '[{"name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "%s"}}}}]'
>>> [signed_tools((tool % kind).encode()) is not None for kind in ("integer", "null", "any")]
[True, False, False]
"""

import re
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any

from msgspec import UNSET, Meta

from mypt_spec.bodies.plain_schema import Decoders, Definitions, decoded, decoders, parts, struct

_DEPTH = 5  # of schemas in schemas, as in plain_schema.py
_FAR = 10**15  # numbers from here on are no defaults
_Name = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_.-]*\Z")]
_Line = Annotated[str, Meta(pattern=r"\A[^\n\r]*\Z")]
# In JSON: a line of a text, after its first, with what may begin a type or a comment. To look for
# that in many definitions at once is faster than in each description.
_UNLIKE = re.compile(rb'\\(?:r|n[^"\\:/{]*+(?:\\[^nr][^"\\:/{]*+)*+[:/{])').search
_Choice = Annotated[str, Meta(pattern=r'\A[^\n\r"]*\Z')]
_Integer = Annotated[int, Meta(gt=-_FAR, lt=_FAR)]
_Number = _Integer | Annotated[float, Meta(gt=-_FAR, lt=_FAR)]
_Count = Annotated[int, Meta(ge=0, lt=_FAR)]
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
# All signs that the text has besides the strings of definitions, and more.
SIGNS = frozenset('// _=():>;{}[]|,?.+-"\n0123456789abcdefghijklmnopqrstuvwxyz')


@cache
def _decoders() -> Decoders:
    common: dict[str, Any] = {"title": _Line, "description": str}
    words: dict[str, Any] = {"enum": list[_Choice], "default": _Line, "format": str}
    numbers = dict.fromkeys(_NUMBERS, _Number)
    leaves = [
        _tagged("string", common | words | dict.fromkeys(("minLength", "maxLength"), _Count)),
        _tagged("number", common | numbers | {"default": _Number, "format": str}),
        _tagged("integer", common | numbers | {"default": _Integer, "format": str}),
        _tagged("boolean", common | {"default": bool}),
    ]
    field: Any = None
    parameters: Any = None
    for _ in range(_DEPTH):
        inner = common | {"required": set[str], "additionalProperties": bool}
        kinds = [*leaves]
        if field is not None:
            counts = dict.fromkeys(("minItems", "maxItems"), _Count) | {"uniqueItems": bool}
            kinds.append(_tagged("array", common | {"items": field} | counts, ("items",)))
            inner |= {"properties": dict.__class_getitem__((_Name, field))}
        parameters = _tagged("object", inner)
        field = reduce(or_, [*kinds, parameters])
    return decoders(_Name, str, parameters)


def _tagged(kind: str, fields: dict[str, Any], needed: tuple[str, ...] = ()) -> Any:
    """Returns the type of schemas of one type, with all attributes that plain ones have."""
    absent = dict.fromkeys(parts().keys() - fields, UNSET) | {"type": kind}
    return struct(kind, fields, needed, tag_field="type", tag=kind, namespace=absent)


def signed_tools(raw: bytes) -> Definitions | None:
    """Returns definitions as `plain_tools` does, which may be `readable`; None for any others."""
    return decoded(raw, _decoders())


def readable(encoded: bytes) -> bool:
    """Returns whether no text in the JSON of such definitions has a line like a field's."""
    return _UNLIKE(encoded) is None
