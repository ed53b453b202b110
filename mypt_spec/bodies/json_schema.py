"""Checks JSON values against JSON Schemas, with a bound on the work and without network.

Input are a value and a schema as read from JSON; output are the places where they disagree. A
reference to another document is a fault of the schema. The library `jsonschema_rs` does the work;
it is loaded when a schema is first met.

Theory of operation. A schema is data, and data must not be able to stop the linter. The library
cannot be interrupted, so the work is bounded before it begins. Without references, each part of a
schema looks at each part of a value at most once: the product of both counts is a bound, and most
are far below the limit. With references, 25 small schemas can mean 2 ** 25 steps; so `_Walk` takes
the steps one by one, without judging, until there are too many. Only after `is_valid` says no are
errors asked for, because the library makes all of them, each with a copy of what it is about.

The library's own texts quote values as JSON, and whole ones; those here are as short as Python
writes them, and the same as those of the library `jsonschema`, which many users know.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from mypt_spec.bodies.strict_json import escape, shortened, value_at
from mypt_spec.bodies.type_names import KEYWORDS, SCHEMAS, objects, standard_types
from mypt_spec.compiled.toml import load

MAX_MISFITS = 5  # named for one value
_STEPS = 50_000_000  # of the library, for one check: at most a second or so
_WALKED = 200_000  # of the walk
_EXPANDED = 4_000  # by "unevaluated..." when a schema is compiled: the time grows with the square
_NAMED = 100_000  # steps up to which all errors are made: each takes as long as 500 steps
_COPIED = 10_000  # characters of a value that an error copies in no time
_PARTS = 200_000  # values in a schema
_PER_CHARACTER = 100  # steps of a pattern
_PER_LARGE = 20  # steps to compare two integers of more than 64 bits
_ALTOGETHER = 4.0  # seconds of processor time for all checks of one record
_DEPTH = 300  # of the walk
_FEW = 500  # values in a schema that takes no time, however large what is checked
_SMALL = 20_000  # bytes of a schema that many are kept of
_NOWHERE = {"$ref": None}  # no value: what has it for a "const" fits nothing
_TOO_LONG = "checking it takes too many steps"
_LATEST = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS = {
    **{f"http://json-schema.org/draft-0{n}/schema": f"Draft{n}Validator" for n in (4, 6, 7)},
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    _LATEST: "Draft202012Validator",
}
_ENDLESS = "it refers to itself without end, or nests too deep"
# Keywords that may name properties beside "properties".
_NAMING = frozenset({
    "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "not",
})  # fmt: skip
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_BY_KEY = ("dependentSchemas", "dependencies", "patternProperties")  # schemas by key
# Keywords whose schemas look at what is in the value, and those that look at the value itself, too.
_INSIDE = KEYWORDS["inside"] | {"patternProperties"}
_ABOUT = SCHEMAS | {*_BY_KEY}
# Formats that the library knows, and that are not checked, or not so strictly.
_FORMATS: dict[str, Callable[[str], bool]] = dict.fromkeys((
    "date-time", "duration", "hostname", "idn-hostname", "iri", "iri-reference", "json-pointer",
    "relative-json-pointer", "time", "uri", "uri-reference", "uri-template",
), lambda _: True)  # fmt: skip
_FORMATS |= dict.fromkeys(("email", "idn-email"), lambda text: "@" in text)


class SchemaError(ValueError):
    """Why a schema cannot be used.

    `pointer` is the place in the schema. `in_use`: only a value showed it. `unchecked`: a limit was
    met before anything wrong was.
    """

    def __init__(
        self, message: str, pointer: str = "", *, in_use: bool = False, unchecked: bool = False
    ) -> None:
        super().__init__(message)
        self.pointer, self.in_use, self.unchecked = pointer, in_use, unchecked


class Patience:
    """Bounds the time of all checks of one record; when it is up, each check raises SchemaError.

    The first half is counted by the wall clock, which is cheap to read; the second half in
    processor time, so that a busy machine alone does not use up the budget.
    """

    def __init__(self) -> None:
        self.spent = 0.0

    def check_schema(self, schema: Any) -> None:
        """Checks a schema as the function `check_schema` does."""
        self._timed(check_schema, schema)

    def misfits(self, value: Any, schema: Any) -> list[tuple[str, str]]:
        """Returns misfits as the function `misfits` does."""
        pairs: list[tuple[str, str]] = self._timed(misfits, value, schema)
        return pairs

    def _timed(self, check: Callable[..., Any], *what: Any) -> Any:
        if self.spent > _ALTOGETHER:
            spent = f"those of this record take more than {_ALTOGETHER:g} seconds together"
            raise SchemaError(spent, in_use=True, unchecked=True)
        half = _ALTOGETHER / 2
        clock = time.perf_counter if self.spent < half else time.thread_time
        began = clock()
        try:
            return check(*what)
        finally:
            self.spent += min(clock() - began, half)


class _Compiled(NamedTuple):
    """A schema with its validator, or with the reason why there is none."""

    source: bytes
    validator: Any = None
    fault: tuple[str, str] | None = None
    in_use: bool = False
    unchecked: bool = False
    parts: int = 0
    patterns: int = 0
    walks: bool = False  # whether the product of parts is no bound
    nowhere: str = ""  # why a reference in it leads nowhere

    def usable(self) -> Any:
        """Returns the validator. Raises SchemaError where there is none."""
        if self.fault is not None:
            raise SchemaError(*self.fault, in_use=self.in_use, unchecked=self.unchecked)
        return self.validator

    def steps(self, value: Any) -> int:
        """Returns a bound on the steps of a check, which are more where errors copy long texts.

        Raises SchemaError for too many.
        """
        parts, characters, in_keys, large = _extent(value)
        steps = _Walk(json.loads(self.source)).steps(value) if self.walks else self.parts * parts
        patterns = self.patterns * (characters + in_keys) * _PER_CHARACTER
        if steps + patterns + _PER_LARGE * large * large > _STEPS:
            raise SchemaError(_TOO_LONG, in_use=True)
        return steps * (1 + characters // _COPIED)


def check_schema(schema: Any) -> None:
    """Raises SchemaError for a value that is no JSON Schema, or takes too long to tell."""
    compiled = _compiled(schema)
    if not compiled.in_use:
        compiled.usable()


def misfits(value: Any, schema: Any) -> list[tuple[str, str]]:
    """Returns (pointer, message) of each place where a value does not fit a schema.

    There are at most MAX_MISFITS, sorted. Raises SchemaError for a schema that cannot be used.

    >>> misfits({"top": "3"}, {"type": "object", "properties": {"top": {"type": "integer"}}})
    [('/top', "'3' is not of type 'integer'")]
    """
    compiled = _compiled(schema)
    validator = compiled.usable()
    try:
        steps = compiled.steps(value)
        if validator.is_valid(value):
            return []
        if steps > _NAMED:
            return [("", "the value does not fit; it is too large to tell where")]
        errors = [*validator.iter_errors(value)]
        if any(error.kind.name == "backtrackLimitExceeded" for error in errors):
            raise SchemaError(_TOO_LONG, in_use=True)
        if compiled.nowhere and any(map(_may_be_nowhere, errors)):
            raise SchemaError(compiled.nowhere, in_use=True)
        pairs = [*islice(misfit_texts(errors, value, schema), MAX_MISFITS)]
    except SchemaError:
        raise
    except Exception as error:  # such as a text that no UTF-8 can hold
        raise SchemaError(shortened(str(error)), in_use=True) from None
    return sorted(pairs)


def fit(values: Iterable[Any], schema: Any) -> bool:
    """Returns whether values fit a small schema; False where `misfits` has to look at each."""
    compiled = _compiled(schema)
    if compiled.fault or compiled.walks or compiled.patterns or compiled.parts > _FEW:
        return False
    try:
        return all(map(compiled.validator.is_valid, values))
    except ValueError:  # such as a text that no UTF-8 can hold
        return False


def unnamed(value: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Returns the arguments that a schema does not name; none where parts of it may name more."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _NAMING.isdisjoint(schema):
        return []
    if isinstance(schema.get("additionalProperties"), dict):
        return []
    return [key for key in value if key not in properties]


def undeclared(value: Any, schema: Any) -> list[str]:
    """Returns the arguments, not null, that a schema neither names, allows nor forbids."""
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return []
    silent = "additionalProperties" not in schema
    return [key for key in unnamed(value, schema) if value[key] is not None] if silent else []


def _compiled(schema: Any) -> _Compiled:
    import msgspec

    try:
        source = msgspec.json.encode(schema)
    except RecursionError:
        return _Compiled(b"", None, ("it nests too deep", ""), unchecked=True)
    except (ValueError, TypeError, OverflowError):  # such as an integer of more than 64 bits
        source = json.dumps(schema).encode()
    return (_remembered if len(source) <= _SMALL else _remembered_large)(source)


def _compile(source: bytes) -> _Compiled:
    from jsonschema_rs import ValidationError

    parts = 1 + source.count(b",") + source.count(b"{") + source.count(b"[")
    if parts > _PARTS:
        return _Compiled(source, None, (_TOO_LONG, ""), unchecked=True)
    evaluates = b'"unevaluated' in source
    refers = any(f'"{word}"'.encode() in source for word in _REFERENCES)
    draft, meta = _draft(json.loads(source) if b'"$schema"' in source else True)
    nowhere = ""
    try:
        if evaluates:
            _Walk(json.loads(source)).expand()
        try:
            validator = _validator(draft, source)
        except ValidationError as error:
            schema, renamed = standard_types(json.loads(source))
            if renamed:
                return _compile(json.dumps(schema).encode())
            for pointer, message in misfit_texts(meta.iter_errors(schema), schema, None):
                return _Compiled(source, None, (message, pointer))
            nowhere = shortened(error.message)
            validator = _validator(draft, _without_dangling(schema))
    except (SchemaError, ValidationError) as error:
        return _Compiled(source, None, (nowhere or str(error), ""), in_use=True)
    except (ValueError, RecursionError):
        return _Compiled(source, None, ("it nests too deep", ""), unchecked=True)
    patterns, walks = source.count(b'"pattern'), evaluates or refers
    return _Compiled(source, validator, None, False, False, parts, patterns, walks, nowhere)


def _validator(draft: Any, source: bytes) -> Any:
    return draft(source.decode(), offline=True, validate_formats=True, mask="_", formats=_FORMATS)


def _without_dangling(schema: Any) -> bytes:
    """Returns a schema whose references to nowhere are values that nothing is."""
    for inner in [*objects(schema)]:
        reference = inner.get("$ref")
        local = isinstance(reference, str) and reference.startswith("#")
        if isinstance(reference, str) and not (local and _Walk(schema).targets(reference)):
            del inner["$ref"]
            inner["const"] = _NOWHERE
    return json.dumps(schema).encode()


def _may_be_nowhere(error: Any) -> bool:
    """Returns whether an error may be that of a reference to nowhere."""
    if error.kind.name == "const":
        return bool(error.kind.expected_value == _NOWHERE)
    return error.kind.name in ("anyOf", "oneOf", "not", "contains", "propertyNames")


_remembered = lru_cache(maxsize=512)(_compile)
_remembered_large = lru_cache(maxsize=4)(_compile)


def _draft(schema: Any) -> tuple[Any, Any]:
    """Returns the class of validators for the language of a schema, and its schema of schemas."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    uri = name.rstrip("#") if isinstance(name, str) else ""
    return _validators(uri if uri in _DRAFTS else _LATEST)


@cache
def _validators(uri: str) -> tuple[Any, Any]:
    import jsonschema_rs as library

    kind = getattr(library, _DRAFTS[uri])
    return kind, kind({"$ref": uri}, offline=True, validate_formats=False, mask="_")


def _extent(value: Any) -> tuple[int, int, int, int]:
    """Returns how many are in a value: values, characters in texts and in keys, large integers."""
    parts, characters, in_keys, large, stack = 0, 0, 0, 0, [value]
    while stack:
        item = stack.pop()
        parts += 1
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, dict):
            in_keys += sum(map(len, item))
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, int) and item.bit_length() > 63:
            large += 1
    return parts, characters, in_keys, large


class _Walk:
    """Takes the steps of a check without judging: all that any value may lead to."""

    def __init__(self, schema: Any) -> None:
        self.root, self.remaining = schema, 0
        self.named: list[Any] | None = None

    def steps(self, value: Any) -> int:
        """Returns how many steps there are. Raises SchemaError for too many."""
        self.remaining = _WALKED
        self._step(self.root, value, 0)
        return _WALKED - self.remaining

    def expand(self) -> None:
        """Raises SchemaError for a schema that the library takes too long to compile."""
        self.remaining = _EXPANDED
        for inner in objects(self.root):
            if not inner.keys().isdisjoint(("unevaluatedItems", "unevaluatedProperties")):
                self._step(inner, None, 0)

    def _step(self, schema: Any, value: Any, depth: int) -> None:
        self.remaining -= 1
        if self.remaining < 0 or depth > _DEPTH:
            raise SchemaError(_TOO_LONG if self.remaining < 0 else _ENDLESS, in_use=True)
        if not isinstance(schema, dict):
            return
        inside: Iterable[Any] = value.values() if isinstance(value, dict) else ()
        inside = value if isinstance(value, list) else inside
        several: Iterable[Any]
        at: Iterable[Any]
        twice = 1 + any(word.startswith("unevaluated") for word in schema)
        for word, inner in [*schema.items()] * twice:
            if word in _REFERENCES:
                several, at = self.targets(inner), (value,)
            elif word in _ABOUT:
                several = inner if isinstance(inner, list) else [inner]
                several = inner.values() if word in _BY_KEY and isinstance(inner, dict) else several
                at = inside if word in _INSIDE else (value,)
            elif word == "properties" and isinstance(value, dict):
                for key in value.keys() & inner.keys():
                    self._step(inner[key], value[key], depth + 1)
                continue
            else:
                continue
            for below in several:
                for item in at:
                    self._step(below, item, depth + 1)

    def targets(self, reference: Any) -> Iterable[Any]:
        """Returns the schemas that a reference may mean: of a name, all that have one."""
        place, _, pointer = str(reference).partition("#")
        if not place and pointer[:1] in ("", "/"):
            target = value_at(self.root, unquote(pointer))
            return [] if target is None else [target]
        if self.named is None:
            names = ("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
            self.named = [s for s in objects(self.root) if not s.keys().isdisjoint(names)]
        return self.named


_TEXTS = load(Path(__file__).with_name("messages.toml"))[
    "misfits"
]  # _SHORT where a keyword says 0 or 1
_SHORT = {("min", 1): "{0!r} should be non-empty", ("max", 0): "{0!r} is expected to be empty"}
_SIZES = ("Length", "Items", "Properties")
_AS_IS = ("const", "contains", "enum", "not")  # the library sorts their keys
_ANY = "{0!r} does not fit"
_OTHER = "{!r} is a property that the schema does not have"


def misfit_texts(errors: Iterable[Any], value: Any, schema: Any) -> Iterator[tuple[str, str]]:
    """Yields (pointer, message) of each error of a value."""
    for error in errors:
        pointer = "".join("/" + escape(str(step)) for step in error.instance_path)
        item, operand = _at(value, error.instance_path), _at(schema, error.schema_path)
        if error.kind.name == "unevaluatedProperties" and operand is not False:
            for key in error.kind.unexpected:
                yield f"{pointer}/{escape(key)}", f"{key!r} does not fit 'unevaluatedProperties'"
            continue
        for text in _texts(error, item, operand):
            yield pointer, shortened(text)


def _texts(error: Any, item: Any, operand: Any) -> Iterator[str]:
    """Yields the messages of an error. `operand` is what the schema says there, None if unknown."""
    word, kind = str(error.schema_path[-1]) if error.schema_path else "", error.kind
    if kind.name == "propertyNames":
        kind, item = kind.error.kind, kind.error.instance
    name: str = kind.name
    limit: Any = next(iter(kind.as_dict().values()), None)
    if name in ("additionalProperties", "unevaluatedProperties"):
        yield from map(_OTHER.format, limit)
    elif name == "falseSchema" and word == "additionalProperties":
        yield from map(_OTHER.format, item)  # it names no properties
    elif name == "unevaluatedItems":
        yield from (f"{one} is an item that the schema does not have" for one in limit)
    elif name == "oneOf" and [] in limit and isinstance(operand, list):
        first, *more = [one for one, faults in zip(operand, limit, strict=True) if not faults]
        yield f"{item!r} is valid under each of {', '.join(map(repr, [*more, first]))}"
    elif name == "type":
        kinds = operand if isinstance(operand, list) else [operand] if operand else limit[::-1]
        yield f"{item!r} is not of type {', '.join(map(repr, kinds))}"
    elif name == "required" and word != "required" and isinstance(operand, dict):
        key = next((key for key, some in operand.items() if key in item and limit in some), "")
        yield f"{limit!r} is a dependency of {key!r}"
    else:
        few = _SHORT.get((name[:3], limit)) if name[3:] in _SIZES else None
        text = few or _TEXTS.get(word if name == "contains" else name, _ANY)
        yield text.format(item, operand if name in _AS_IS and operand is not None else limit)


def _at(value: Any, path: list[str | int]) -> Any:
    """Returns the value at a path, None where it leads nowhere."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value
