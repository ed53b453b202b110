r"""Reads JSON strictly, writes it canonically, and makes JSON pointers.

Input is JSON text, or a value from it; output is a value, canonical text, or faults with their
places. `json.loads` takes duplicate keys, NaN and lone surrogates in silence; each is a fault here,
because the model would read something else than the author wrote. Implements section 6 of
grammar/mypt/SPEC.md.

Canonical JSON is `json.dumps(value, ensure_ascii=False)`, with the first character of every tag
literal written as a `\u` escape: lossless, and no longer a tag.

>>> import mypt_spec
>>> canonical({"q": "Zürich <myPT_eot>"}, mypt_spec.dialect("mypt").table.literals)
'{"q": "Zürich \\u003cmyPT_eot>"}'
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

MAX_DEPTH = 200

_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGITS = 4300  # CPython refuses to read or write longer integers; no tool reads them alike
_TOO_LARGE = 10**_DIGITS
_MAX_POINTER = 4096


class Fault(ValueError):
    """Why a text is not strict JSON: the rule's code, a message, and the place.

    `offset` is where it shows in the text or string, None if unknown; `pointer` names the value.
    """

    def __init__(
        self, code: str, message: str, offset: int | None = None, pointer: str = ""
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.offset, self.pointer = code, message, offset, pointer


class DefinitionsError(ValueError):
    """Why a text holds no definitions of functions; `offset` is where it shows, None if unknown."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class _Object(dict[str, Any]):
    """A dict that remembers the first key that occurs twice."""

    duplicate: str | None = None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) == len(pairs):
        return out
    keys: set[str] = set()
    marked = _Object(out)
    marked.duplicate = next(k for k, _ in pairs if k in keys or keys.add(k))  # type: ignore[func-returns-value]
    return marked


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= _DIGITS else math.inf


NO_TAG = re.compile("(?!)")
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_integer)


def loads(text: str) -> Any:
    """Returns the value of a JSON text. Raises Fault for what is not JSON or nests too deep.

    The codes are MYP001 and MYP008. Values that JSON does not have or that would be lost (NaN,
    Infinity, duplicate keys, lone surrogates) are kept for `faults` to find.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH:
        depth = _depth(text)
        if depth > MAX_DEPTH:
            raise Fault("MYP008", f"nested {depth} deep; at most {MAX_DEPTH} levels are read")
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise Fault("MYP001", message, error.pos) from None


def strict_value(text: str, at: int) -> Any:
    """Returns the value of strict JSON at an offset of another text. Raises DefinitionsError."""
    try:
        value = loads(text)
    except Fault as fault:
        raise DefinitionsError(fault.message, at + (fault.offset or 0)) from None
    wrong = next(faults(value), None)
    if wrong is not None:
        raise DefinitionsError(wrong.message, at)
    return value


_NO_BRACKETS = re.compile(r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[^"\[\]{}]++)++', re.DOTALL)


def _depth(text: str) -> int:
    steps = (1 if bracket in "[{" else -1 for bracket in _NO_BRACKETS.sub("", text))
    return max(accumulate(steps, initial=0))


# A place in a value: the node of the value around it, and the key or index there. None: the whole.
Node = tuple[Any, str | int] | None


def pointer_to(node: Node) -> str:
    """Returns the RFC 6901 pointer to a value.

    A very long one is cut: it then names the innermost value around it that has a shorter one.
    Pointers are only made where they are shown, and are bounded, because those of all values below
    one long key take space quadratic in the line.
    """
    tokens = []
    while node is not None:
        node, token = node
        tokens.append(str(token))
    out: list[str] = []
    room = _MAX_POINTER
    for token in reversed(tokens):
        room -= len(token) + 1
        if room < 0:
            break
        out += ["/", escape(token)]
    return "".join(out)


def faults(value: Any) -> Iterator[Fault]:
    """Yields what strict JSON lacks in any Python value, with RFC 6901 pointers. Never raises."""
    if _is_strict(value):
        return
    stack: list[tuple[Any, Node, int]] = [(value, None, 0)]
    while stack:
        item, node, depth = stack.pop()
        if depth > MAX_DEPTH:
            yield Fault("MYP008", f"nested more than {MAX_DEPTH} deep", pointer=pointer_to(node))
        elif isinstance(item, str):
            match = _SURROGATE.search(item)
            if match:
                message = f"lone surrogate U+{ord(match[0]):04X}: no UTF-8 can hold it"
                yield Fault("MYP006", message, match.start(), pointer_to(node))
        elif isinstance(item, dict):
            if getattr(item, "duplicate", None) is not None:
                key = item.duplicate  # type: ignore[attr-defined]
                message = f"duplicate key {key!r}; only the last value would be read"
                yield Fault("MYP004", message, pointer=pointer_to((node, key)))
            for key in item:
                if not isinstance(key, str):
                    message = f"a key is {type(key).__name__}; JSON keys are strings"
                    yield Fault("MYP104", message, pointer=pointer_to(node))
                elif _SURROGATE.search(key):
                    message = f"lone surrogate in key {key!r}: no UTF-8 can hold it"
                    yield Fault("MYP006", message, pointer=pointer_to((node, key)))
            stack += [(v, (node, key_text(k)), depth + 1) for k, v in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(v, (node, i), depth + 1) for i, v in reversed(list(enumerate(item)))]
        elif isinstance(item, float):
            if not math.isfinite(item):
                number = "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
                message = f"{number} is not a JSON number (or one too large to read)"
                yield Fault("MYP005", message, pointer=pointer_to(node))
        elif isinstance(item, int):
            if not -_TOO_LARGE < item < _TOO_LARGE:
                message = f"an integer of more than {_DIGITS} digits: too large to read"
                yield Fault("MYP005", message, pointer=pointer_to(node))
        elif item is not None:
            message = f"{type(item).__name__} is not a JSON value"
            yield Fault("MYP104", message, pointer=pointer_to(node))


def _is_strict(value: Any) -> bool:
    """Returns whether a value certainly has no faults: most have none, and need no pointers."""
    strings: list[Any] = []
    level, depth = [value], 0  # all values at one depth
    while level and depth <= MAX_DEPTH:
        below: list[Any] = []
        for item in level:
            kind = item.__class__
            if kind is str:
                strings.append(item)
            elif kind is dict:
                strings += item
                below += item.values()
            elif kind is list:
                below += item
            elif kind is int or kind is float:
                if not -_TOO_LARGE < item < _TOO_LARGE:
                    return False
            elif item is not None and kind is not bool:
                return False
        level, depth = below, depth + 1
    try:
        return not level and not lone_surrogate("".join(strings))
    except TypeError:  # a key that is no string
        return False


def lone_surrogate(text: str) -> bool:
    """Returns whether a text holds half of a character."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def escape(key: str) -> str:
    """Returns a key as one reference token of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def key_text(key: Any) -> str:
    """Returns a key of a dict as text, also one that no JSON has and that cannot be written."""
    try:
        return str(key)
    except ValueError:  # Python writes no integer of thousands of digits
        return f"({type(key).__name__})"


def unescape(token: str) -> str:
    """Returns the key that a reference token of a JSON pointer names."""
    return token.replace("~1", "/").replace("~0", "~")


def value_at(record: Any, pointer: str) -> Any:
    """Returns the value that a JSON pointer names, None where it names nothing."""
    for token in pointer.split("/")[1:]:
        try:
            record = record[int(token) if isinstance(record, list) else unescape(token)]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return record


def canonical(value: Any, literals: re.Pattern[str], how: str = "") -> str:
    """Returns canonical JSON of a faultless value; `literals` matches the dialect's tags.

    `how` is "compact", without spaces, or a number, of spaces by which lines are indented.
    """
    text = json_text(value, how)
    if literals is NO_TAG:
        return text
    return literals.sub(lambda m: f"\\u{ord(m[0][0]):04x}{m[0][1:]}", text)


def json_text(value: Any, how: str = "") -> str:
    """Returns what `json.dumps` writes without needless escapes; `how` as in `canonical`.

    msgspec takes a tenth of the time, and differs only in floats with an exponent in one of both.
    """
    from msgspec import json as quick

    try:
        data = quick.encode(value)
        if b"0e" not in data.translate(_ALIKE) and b"0.0000" not in data:
            return (data if how == "compact" else quick.format(data, indent=int(how or 0))).decode()
    except (ValueError, TypeError, OverflowError):  # a lone surrogate, for one
        pass
    separators = (",", ":") if how == "compact" else None
    indent = int(how) if how.isdigit() else None
    return json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)


def shortened(text: str, most: int = 200) -> str:
    """Returns a text, or the beginning of a long one."""
    return text if len(text) <= most else text[:most] + "…"


def a_kind_of(value: Any) -> str:
    """Returns the JSON type of a value with its article, for messages."""
    kind = kind_of(value)
    return kind if kind == "null" else with_article(kind)


def with_article(noun: str) -> str:
    """Returns a noun with "a" or "an" before it."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


# JSON types by the class of a value; a subclass of dict is an object, too.
JSON_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def kind_of(value: Any) -> str:
    """Returns the JSON type of a value, for messages."""
    other = "object" if isinstance(value, dict) else type(value).__name__
    return JSON_TYPES.get(type(value), other)
