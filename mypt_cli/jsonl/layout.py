r"""Finds how a file holds its records, from its first bytes.

Input are bytes; output is a `Layout`: a record a line, one JSON array, one JSON object around or
instead of the records, a table of Parquet, or something that is no JSON. A record of JSONL begins
with `{`, so `[` and an object after it is an array, whatever white space is between them.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mypt_cli.jsonl.line import BOM
from mypt_spec.compiled.toml import load
from mypt_spec.memo import lazy_re

Kind = Literal["lines", "array", "object", "parquet", "events", "other"]
HEAD = 1 << 16  # bytes looked at
_OTHER_HEAD = 1 << 12  # bytes that decide what else a file is
MAGIC = b"PAR1"  # of Parquet
ARROW_FILE = b"ARROW1"
TABLES = (MAGIC, ARROW_FILE, b"\xff\xff\xff\xff")  # the last begins a stream of Arrow
_TABLE = Path(__file__).with_name("other_files.toml")
_SPACE = b" \t\r\n"
_STRING = r'"(?:[^"\\\n]|\\["\\/bfnrt])*+"'
_WRAPPED = re.compile(  # the first key of an object that holds objects, after keys of plain values
    rf"\s*\{{\s*(?>{_STRING}\s*:\s*(?:{_STRING}|[-+.\w]++)\s*,\s*)*+({_STRING})\s*:\s*\[\s*(?=\{{)"
)
_MEMBER = lazy_re(r'\s*,?\s*("(?:[^"\\]|\\.)*")\s*:\s*')
# A line that ends at the opening of an object or array, or after a key: no record ends there.
_OPEN_LINE = lazy_re(r'\s*\{\s*(?:"(?:[^"\\]|\\.)*"\s*:\s*(?:[\[{]\s*)*)?\Z')
_JSON_LINE = lazy_re(rb"""^[ \t\0]*(?:\{\s*["'\n\0]|\[\s*[\["{\n])""", re.MULTILINE)
_AFTER = {"{": ('"',), "[": ("{", '"'), ":": ('"', "[", "{")}
# Keys of records as they are published, and the types of their values. A message has none of them.
_RECORD_KEYS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("messages", "conversations", "conversation", "dialogue", "dialog"), list),
    **dict.fromkeys(("instruction", "completion"), str),
    **dict.fromkeys(("prompt", "chosen", "rejected"), (str, list)),
}

# Keys of the first event of a trace, of which each line is an event and the file one record.
EVENT_KEYS = (
    *({"type", key} for key in ("sessionId", "leafUuid", "snapshot", "parentUuid", "payload")),
    *({"type", "id", key} for key in ("cwd", "harness")),
    {"id", "timestamp", "instructions", "git"},
    {"id", "timestamp", "source", "kind"},
)


class OtherFile(NamedTuple):
    """What a file is that holds no JSON, and how to get JSONL from it."""

    what: str
    advice: str


@cache
def _other_files() -> list[tuple[re.Pattern[bytes], OtherFile]]:
    """Returns how such files begin, and what they are."""
    rows = load(_TABLE)["file"]
    return [(re.compile(r["begins"].encode()), OtherFile(r["what"], r["advice"])) for r in rows]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file holds its records.

    `key` is that of the list of records in an object; "" where the object is itself a record, over
    several lines. `other` is what the file is instead of JSON.
    """

    kind: Kind
    key: str = ""
    other: OtherFile | None = field(default=None, repr=False)


LINES, ARRAY, EVENTS = Layout("lines"), Layout("array"), Layout("events")
RECORD = Layout("object")


def layout_of(head: bytes, *, ended: bool) -> Layout | None:
    r"""Returns the layout of a file that begins with `head`; None if more bytes are needed.

    `ended`: the file has no more bytes.

    >>> layout_of(b'{"a": 1}\n', ended=False), layout_of(b'\n[\n  {"a": 1', ended=False)
    (Layout(kind='lines', key=''), Layout(kind='array', key=''))
    >>> layout_of(b'{"data": [{"messages": []}]}', ended=True)
    Layout(kind='object', key='data')
    """
    ended = ended or len(head) >= HEAD
    if head.startswith(TABLES):
        return Layout("parquet")
    foreign = other_file(head)
    if foreign is not None:
        return Layout("other", other=foreign)
    if not ended and any(start.startswith(head) for start in (*TABLES, BOM)):
        return None
    body = head.removeprefix(BOM).lstrip(_SPACE)
    if body.startswith(b"["):
        return _array(body, ended=ended)
    if body.startswith(b"{"):
        return _object(head, ended=ended) if ended or b"\n" in body else None
    is_text = body.strip().count(b"\n") > max(1, 4 * len(_JSON_LINE.findall(body)))
    if ended and is_text and _loaded(body.partition(b"\n")[0]) is None:
        return Layout("other", other=OtherFile("text", "texts of a format: --kind text"))
    return LINES if ended else None


def other_file(head: bytes) -> OtherFile | None:
    r"""Returns what a file is that begins with `head`, and no JSON; None where it may be JSON.

    >>> other_file(b"<!DOCTYPE html><html>").what, other_file(b"question,answer\n2+2,4\n").what
    ('an HTML page', 'a table of text (CSV)')
    >>> other_file(b'{"a": 1}'), other_file(b"not JSON, but what?")
    (None, None)
    """
    head = head[:_OTHER_HEAD].removeprefix(BOM)
    return next((kind for pattern, kind in _other_files() if pattern.match(head)), None)


def _array(body: bytes, *, ended: bool) -> Layout | None:
    """Returns the layout of a file that begins with a bracket.

    A list of messages that is whole at the end of its line is a record.
    """
    items = body[1:].lstrip(_SPACE)
    if items and not items.startswith((b"{", b"[", b'"')):
        return LINES
    line, end, more = body.partition(b"\n")
    if not items or not (end or ended):
        return ARRAY if ended else None
    if not items.startswith(b"{"):  # no records, whichever they are; but each is found at its place
        return LINES if more.strip() and _loaded(line) is not None else ARRAY
    return LINES if line.rstrip().endswith(b"]") and _is_conversation(line) else ARRAY


def _is_conversation(line: bytes) -> bool:
    value = _loaded(line)
    return isinstance(value, list) and (
        _is_event(next(iter(value), None))
        or all(
            isinstance(m, dict) and not {"role", "from"}.isdisjoint(m) and not is_record(m)
            for m in value
        )
    )


def _is_event(value: Any) -> bool:
    """Returns whether a value is the first event of a trace."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("type", ""), str)
        and any(value.keys() >= keys for keys in EVENT_KEYS)
        and not {"messages", "text", "conversations", "contents"} & value.keys()
        and not is_record(value)
    )


def _loaded(line: str | bytes) -> Any:
    """Returns the value of a line of JSON; None where it is not valid."""
    with suppress(ValueError, RecursionError):
        return json.loads(line)
    return None


def _object(head: bytes, *, ended: bool) -> Layout:
    text = head[:HEAD].decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    first, _, after = text.partition("\n")
    first, after = first.rstrip(), after.lstrip()
    if _is_event(_first_value(first)):
        return EVENTS
    if first.endswith("}") and after.startswith("{") and isinstance(_loaded(first), dict):
        return LINES
    wrapped = _WRAPPED.match(text)
    if wrapped and is_record(_first_value(text[wrapped.end() :])):
        return Layout("object", str(json.loads(wrapped[1], strict=False)))
    goes_on = after.startswith(_AFTER.get(first[-1:], ()))
    if goes_on and _OPEN_LINE.match(first) and not is_record(_first_value(after)):
        return RECORD
    return LINES


def records_in_array(head: bytes) -> bool:
    """Returns whether a file begins as an array whose first object is a record."""
    if layout_of(head, ended=True) != ARRAY:
        return False
    text = head[:HEAD].decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    return is_record(_first_value(text[1:].lstrip()))


def is_record(value: Any) -> bool:
    """Returns whether a JSON value has a key that records have as they are published."""
    return (
        isinstance(value, dict)
        and any(isinstance(value.get(key), types) for key, types in _RECORD_KEYS.items())
        and not {"action", "observation"} <= value.keys()  # a step of SWE-agent
    )


def _first_value(text: str) -> Any:
    """Returns the JSON value at the beginning of a text, or as much of it as is there.

    An object that is cut off has the members before the cut, and an empty list for the one in
    which a list was cut.
    """
    with suppress(ValueError, RecursionError):
        return json.JSONDecoder().raw_decode(text)[0]
    values: dict[str, Any] = {}
    at = 1
    decoder = json.JSONDecoder(strict=False)
    while member := _MEMBER.match(text, at):
        try:
            key = str(decoder.decode(member[1]))
        except (ValueError, RecursionError):  # an escape that JSON does not have
            break
        try:
            values[key], at = decoder.raw_decode(text, member.end())
        except (ValueError, RecursionError):
            value_start = text[member.end() : member.end() + 1]
            values[key] = {"[": [], "{": {}, '"': ""}.get(value_start)
            break
    return values
