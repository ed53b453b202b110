"""Says what an answer has to be: the text of a regular expression, a JSON Schema or a Lark grammar.

Input: one of the three, as a caller has it. Output: a Response, which `Decoder` takes. It binds the
text of the answer, between the tags of its block; thoughts, citations and calls are as they were.

>>> Response(regex="yes|no").grammar
'%llguidance {"no_forcing": true}\\nstart: /(yes|no)/'
>>> Response(schema={"enum": [1, 2]}).kind
'schema'
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mypt_infer.decode.base.schemas import plain_schema, warn_of
from mypt_infer.decode.llguidance.number_ranges import with_ranges
from mypt_spec.bodies.type_names import mapped

_ONE_LINE = {"\n": "\\n", "\r": "\\r"}
_HEAD = '%llguidance {"no_forcing": true}\n'
# The keyword that tells llguidance the spacing of canonical JSON.
GUIDANCE = "x-guidance"
SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class ResponseError(ValueError):
    """A response cannot be used: it is no regex, schema or grammar, or no text fits."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """What the text of an answer has to be; exactly one of three.

    - `regex`: the whole text matches it, in the syntax of Rust's regex crate (no look-around, no
      references). `^` at its beginning and `$` at its end mean nothing.
    - `schema`: the text is JSON that fits, with the spaces of `json.dumps` and no others. It is
      read to the letter: an object that leaves `additionalProperties` out may have any members.
    - `lark`: the text is what `start` of this grammar says, in llguidance's dialect of Lark.

    Keywords that JSON Schema does not define are read as nothing, and types of other languages as
    JSON Schema's, with a SchemaWarning; `strict` refuses both. Raises ResponseError unless one of
    the three is given, SchemaFault for a bad schema.
    """

    regex: str | None = None
    schema: Mapping[str, Any] | bool | None = None
    lark: str | None = None
    strict: bool = field(default=False, repr=False)
    grammar: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fields = [n for n in ("regex", "schema", "lark") if getattr(self, n) is not None]
        if len(fields) != 1:
            raise ResponseError("a response is a regex, a schema or a lark grammar: name one")
        if self.schema is not None:
            schema = json.dumps(mapped(self.plain, with_ranges), ensure_ascii=False)
            grammar = f"{_HEAD}start: %json {schema}"
            _, notes = plain_schema(self.schema, strict=self.strict)
            warn_of(notes, "the schema of the response")
        elif not isinstance(text := getattr(self, fields[0]), str):
            raise ResponseError(f"{fields[0]} is a text, got {type(text).__name__}")
        else:
            grammar = f"{_HEAD}start: /{_literal(text)}/" if self.lark is None else _HEAD + text
        object.__setattr__(self, "grammar", grammar)

    @property
    def kind(self) -> str:
        """Returns "regex", "schema" or "lark"."""
        return next(n for n in ("regex", "schema", "lark") if getattr(self, n) is not None)

    @property
    def plain(self) -> dict[str, Any]:
        """Returns the schema as llguidance reads it."""
        schema, _ = plain_schema(self.schema)
        schema = {} if schema is True else schema
        if not isinstance(schema, dict):
            raise ResponseError("no text fits the schema false")
        return {**schema, GUIDANCE: SPACING}


def _literal(regex: str) -> str:
    """Returns a regex as a Lark grammar writes it between slashes."""
    regex = regex.removeprefix("^")
    if regex.endswith("$") and (len(regex) - len(regex[:-1].rstrip("\\"))) % 2:
        regex = regex[:-1]
    escaped = re.sub(r"(\\.)|/", lambda m: m[1] or "\\/", regex, flags=re.DOTALL)
    return "(" + "".join(_ONE_LINE.get(c, c) for c in escaped) + ")"
