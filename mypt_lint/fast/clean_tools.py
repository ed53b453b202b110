"""Tells which definitions of tools are clean by themselves, whatever a record says besides.

Input: the definitions of a record, as JSON. Output: how many strings they have, if they are clean,
and the names of the tools. In many files each record has tools that no other has, so most
definitions are proved right by their types alone (`mypt_spec.bodies.plain_schema`); all others are
put before the checker, once, beside the shortest chat that there is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec
from msgspec import UNSET

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.plain_tool_tags import SIGNS as IN_TAGS
from mypt_lint.fast.plain_tool_tags import apart_from, whole_tools
from mypt_records.chat import TOOL_NAME
from mypt_spec.adapters.message_splitter import unescaped_quotes
from mypt_spec.adapters.splitter import Split, Splitter
from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.definitions import come_back, parameters_of
from mypt_spec.bodies.json_schema import SchemaError, fit, misfits, undeclared
from mypt_spec.bodies.plain_schema import Definitions, plain_tools, written
from mypt_spec.bodies.plain_signatures import SIGNS, readable, signed_tools
from mypt_spec.bodies.strict_json import JSON_TYPES
from mypt_spec.bodies.tagged import KINDS, STRING
from mypt_spec.memo import Memo
from mypt_spec.table import TOOL_TAGS

_LISTS, _ROOM = 2000, 8 << 20  # lists that are remembered; bytes of all
_HASHES = 50_000  # of lists that came once
_NONE = frozenset[str]()
LOST = "MYP360"  # what the text of tools does not say
MISFIT = "MYP353"  # arguments that do not fit their tool
_MANY = 8  # calls of a tool for which its schema is compiled at once
_JSON = "tfnNITF"  # letters with which a text may begin that is JSON, or a word of Python
Arguments = Sequence[dict[str, Any]]
CHAT = b'{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x"}],"tools":'


class CleanTools:
    """The definitions that one checker has judged; belongs to one thread."""

    def __init__(self, checker: Checker, splitter: Splitter, texts: CleanTexts) -> None:
        self.checker, self.splitter, self.texts = checker, splitter, texts
        self.plain, self.lossless = splitter.tools_as_json, checker.selects(LOST)
        first, body = texts.first, splitter.tools_body
        tags = body in TOOL_TAGS and apart_from(checker.dialect.table)
        self.tags = tags and IN_TAGS.isdisjoint(first)
        # What takes definitions whose text need not be read, if any.
        self.takes = plain_tools if self.plain else None
        if body == "signatures" and not self.lossless and SIGNS.isdisjoint(first):
            self.takes = signed_tools
        elif self.tags:
            self.takes = whole_tools if self.lossless else plain_tools
        # Strings of definitions, and names; -1: not clean.
        self.verdicts = Memo[bytes, tuple[int, frozenset[str]]](_LISTS, room=_ROOM)
        self.proved_hashes = Memo[int, None](_HASHES)
        self.declared = Memo[bytes, Declared](_LISTS, room=_ROOM)
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode
        self.tagged = None if checker.formatless else checker.dialect.table.tagged
        self.binds = checker.selects(MISFIT) or checker.selects("MYP128") or self.tagged

    def of(self, split: Split, *, again: bool = False) -> tuple[int, Any]:
        """Returns how many strings the clean tools of a line have, -1 for others; and None.

        Also -1 where a name is called that no tool has. Where tools are seen for the first time,
        and not `again`: 0, and the definitions for `plain_schema.written`, clean if `come_back`
        says so and no string in them holds a tag; that the calls fit them is proved.
        """
        tools, called = split.tools, split.called
        declared = _NONE if self.checker.shape else self.checker.limits.tools
        strings, plain = 0, None
        names: Container[str] = _NONE
        if tools is not None:
            verdict = self.verdicts.entries.get(tools)
            if verdict is None and self.texts.in_json:
                plain = None if again else self._new(tools)
                verdict = self._judge(tools) if plain is None else None
            if plain is None:
                strings, names = verdict or (-1, _NONE)
            else:
                names, known = plain[1], Declared(tools, plain[1])
                if called and self.binds and not self._prove(called, split.values, known):
                    return -1, None
        if tools is not None or declared:
            for name in called:
                if name not in names and name not in declared:
                    return -1, None
        return strings, None if plain is None else plain[0]

    def judged(self, tools: bytes) -> tuple[int, frozenset[str]]:
        """Returns the strings of definitions, -1 where they are not clean, and the names."""
        return self.verdicts.entries.get(tools) or self._judge(tools)

    def _new(self, raw: bytes) -> Definitions | None:
        """Returns definitions that are seen for the first time, and proved to be clean.

        That no string in them spells what ends it is for `come_back` to say. Most lists never come
        again, so only the hash is kept.
        """
        if self.takes is None or hash(raw) in self.proved_hashes.entries:
            return None
        self.proved_hashes.keep(hash(raw), None)
        return self._usual(self.takes(raw))

    def _usual(self, plain: Definitions | None) -> Definitions | None:
        """Returns plain definitions that no check of third-party records minds."""
        return plain if plain is None or not self.checker.shape or are_usual(*plain) else None

    def _judge(self, raw: bytes) -> tuple[int, frozenset[str]]:
        """Returns the strings of definitions, -1 where they are not clean, and the names."""
        plain = self._usual(plain_tools(raw))
        names = self._names(raw) if plain is None else frozenset(plain[1])
        self.declared.keep(raw, Declared(raw, {} if plain is None else plain[1]), len(raw))
        again = None if plain is None else written(plain[0])
        strings = unescaped_quotes(raw if again is None else again) // 2
        verdict = (strings, names) if self._are_clean(raw, again) else (-1, _NONE)
        return self.verdicts.keep(raw, verdict, len(raw))

    def fit(self, splits: Iterable[Split]) -> bool:
        """Returns whether the calls of lines whose tools are not new are proved to fit these.

        Those of many lines are proved together.
        """
        groups: dict[bytes, tuple[list[str], list[dict[str, Any]]]] = {}
        for split in splits if self.binds else ():
            if split.called and split.tools is not None:
                names, every = groups.setdefault(split.tools, ([], []))
                names += split.called
                every += split.values
                if len(names) != len(every):
                    return False
            elif split.called and self.tagged:
                return False  # nothing says how values are read
        return all(self.take(raw, *both) for raw, both in groups.items())

    def take(self, tools: bytes, called: Sequence[str], arguments: Arguments) -> bool:
        """Returns whether calls are proved to fit definitions that were judged."""
        declared = self.declared.entries.get(tools) or Declared(tools, {})
        return not self.binds or self._prove(called, arguments, declared)

    def _prove(self, called: Sequence[str], arguments: Arguments, tools: Declared) -> bool:
        """Returns whether the arguments of calls fit their tools, and come back from tags."""
        if self.checker.shape and any(None in one.values() for one in arguments):
            return False  # null may pad arguments
        if len(called) != len(arguments) or (
            self.tagged and self.tagged.pattern.search(self.encode(arguments).decode())
        ):
            return False
        return all(
            tools.fit(name, some)
            and (not self.tagged or _come_back(some, tools.plain.get(name), self.tagged))
            for name, some in _by_tool(called, arguments).items()
        )

    def come_back(self, encoded: bytes) -> bool:
        """Returns whether definitions seen for the first time can be read from their text.

        `encoded` is their JSON. Text that is no JSON has no first character of a tag, either.
        """
        firsts = [first.encode() for first in self.texts.first]
        lines = self.plain or self.tags or readable(encoded)
        return lines and (self.plain or not any(one in encoded for one in firsts))

    def _are_clean(self, raw: bytes, plain: bytes | None) -> bool:
        """Returns whether definitions are clean; `plain` ones are proved but for their text."""
        if plain is None or not (self.plain or self.splitter.tools_body):
            return not self.checker.line(CHAT + raw + b"}", row=2, filename="")
        if not self.plain:
            return self._comes_back(raw, plain)
        return self.texts.are_clean_in(plain, lambda: self.decode(raw))

    def _names(self, raw: bytes) -> frozenset[str]:
        """Returns the names in definitions that are JSON, or the text of JSON; none if unknown."""
        try:
            return frozenset([tool.get("function", tool)["name"] for tool in _listed(raw)])
        except (TypeError, KeyError, AttributeError):
            return _NONE

    def _comes_back(self, raw: bytes, proved: bytes) -> bool:
        """Returns whether plain tools are clean where a format writes them as no JSON."""
        tools = self.decode(raw)
        text = self.splitter.tools_text(tools)
        return (
            self.texts.are_clean([text])
            and self.texts.are_clean_in(proved, lambda: tools)
            and come_back(tools, self.splitter.tools_body, text, self.lossless)
        )


def are_usual(tools: Any, parameters: Mapping[str, Any]) -> bool:
    """Returns whether no check of third-party records minds plain definitions."""
    schemas = [schema for schema in parameters.values() if schema is not UNSET]
    about = {getattr(tool, "function", tool).description for tool in tools}
    return (
        all(map(TOOL_NAME.fullmatch, parameters))
        and len({tool.type is UNSET for tool in tools if hasattr(tool, "type")}) < 2
        and (about == {UNSET} or about.isdisjoint({UNSET, ""}))
        and all(schema.type is not UNSET for schema in schemas)
        and all(
            UNSET in (schema.properties, schema.required) or schema.required <= {*schema.properties}
            for schema in schemas
        )
    )


class Declared:
    """The parameters of a list of tools, as JSON or as `plain_tools` returns them.

    `plain` are those that it returns by their names, if any.
    """

    __slots__ = ("_schemas", "plain", "tools")  # many are kept

    def __init__(self, tools: Any, plain: Mapping[str, Any]) -> None:
        self.tools, self.plain = tools, plain
        self._schemas: dict[str, Any] | None = None

    def _schema(self, name: str) -> Any:
        if self._schemas is None:
            raw = self.tools if isinstance(self.tools, bytes) else written(self.tools)
            self._schemas = parameters_of(_listed(raw))
        return self._schemas.get(name)

    def fit(self, name: str, arguments: Arguments) -> bool:
        """Returns whether the arguments of calls fit their tool; those of an unknown one do.

        To compile a schema takes longer than to look at a few arguments.
        """
        plain = self.plain.get(name, False)
        if len(arguments) < _MANY and all(map(_fits_declared, arguments, repeat(plain))):
            return True
        schema = self._schema(name)
        try:
            if schema is None or fit(arguments, {"additionalProperties": False} | schema):
                return True
            return not any(misfits(one, schema) or undeclared(one, schema) for one in arguments)
        except SchemaError:  # the checker says why
            return False


def _fits_declared(arguments: dict[str, Any], schema: Any) -> bool:
    """Returns whether arguments are proved to fit a plain schema, and none is `undeclared`."""
    properties = getattr(schema, "properties", UNSET)  # a schema may be a bool
    if properties is not UNSET and schema.additionalProperties is UNSET:
        return arguments.keys() <= properties.keys() and _fits(arguments, schema)
    return _fits(arguments, schema)


def _fits(value: Any, schema: Any) -> bool:
    """Returns whether a value is proved to fit a plain schema, or one that is UNSET or a bool."""
    if schema is UNSET or schema.__class__ is bool:
        return schema is not False
    kind, expected = JSON_TYPES.get(value.__class__, ""), schema.type
    if expected != kind and expected is not UNSET:
        some = (expected,) if expected.__class__ is str else expected
        if kind not in some and not (kind == "integer" and "number" in some):
            return False
    if not (
        schema.format is schema.anyOf is schema.oneOf is schema.allOf is schema.uniqueItems
        is schema.minLength is schema.maxLength is schema.minItems is schema.maxItems
        is schema.minimum is schema.maximum is schema.exclusiveMinimum is schema.exclusiveMaximum
        is UNSET
    ):  # fmt: skip
        return False
    if schema.enum is not UNSET and (kind != "string" or value not in schema.enum):
        return False
    if kind == "array":
        return all(map(_fits, value, repeat(schema.items)))
    if kind == "object":
        properties = {} if schema.properties is UNSET else schema.properties
        needed, other = schema.required, schema.additionalProperties
        of = map(properties.get, value, repeat(other))
        return (needed is UNSET or needed <= value.keys()) and all(map(_fits, value.values(), of))
    return bool(kind)


def _come_back(arguments: Arguments, schema: Any, tags: Tags) -> bool:
    """Returns whether arguments are proved to come back from tags, where no string spells one."""
    properties = {} if schema is None or schema is UNSET else schema.properties
    named = {} if properties is UNSET else properties
    kinds = {key: _kinds(inner) for key, inner in named.items()}
    for one in arguments:
        for key, value in one.items():
            some, kind = kinds.get(key, KINDS), JSON_TYPES.get(value.__class__, "")
            if len(some) == 1 or "string" not in some:
                fine = bool(some) and (kind == "string") == (some == STRING)
            elif kind == "string":
                fine = value[:1].isalpha() and value[0] not in _JSON
            else:
                fine = kind in ("integer", "boolean") and kind in some
            if not fine or not tags.names.fullmatch(key):
                return False
    return True


def _kinds(schema: Any) -> frozenset[str]:
    """Returns the types that a plain schema takes; none where it is not said by "type" alone."""
    if schema.type is UNSET or not schema.anyOf is schema.oneOf is schema.allOf is UNSET:
        return _NONE
    some = frozenset((schema.type,) if schema.type.__class__ is str else schema.type)
    return some if schema.enum is UNSET or some == STRING else _NONE


def _by_tool(called: Sequence[str], arguments: Arguments) -> Mapping[str, Arguments]:
    """Returns the arguments of calls by the names of their tools."""
    if len({*called}) == 1:
        return {called[0]: arguments}
    groups: dict[str, list[dict[str, Any]]] = {name: [] for name in called}
    for name, one in zip(called, arguments, strict=True):
        groups[name].append(one)
    return groups


def _listed(raw: bytes) -> list[Any]:
    """Returns the definitions in JSON, or in JSON of a text that is JSON; none if it is no list."""
    try:
        tools = msgspec.json.decode(raw)
        tools = msgspec.json.decode(tools) if isinstance(tools, str) else tools
    except (ValueError, RecursionError):
        return []
    return tools if isinstance(tools, list) else []
