"""Reads one line of JSONL: its JSON value, and the faults of the line itself.

The only reader of a line.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.findings import Finding, Fix
from mypt_spec.memo import lazy_re
from mypt_spec.record_schema import HELP

BOM = b"\xef\xbb\xbf"


class Spot(NamedTuple):
    """A finding about the characters `text[start:end]` of a line."""

    finding: Finding
    text: str
    start: int
    end: int


# Legal inside of a JSON string; many readers of lines cut there all the same.
_SEPARATOR = lazy_re("[\u2028\u2029\x85]")
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|\0?[\t -~]\0(?:[\t -~]\0?|\Z)|\0\Z")
IS_UTF16 = "the line is UTF-16, expected UTF-8"
FROM_UTF16 = (
    "convert the file: iconv -f UTF-16 -t UTF-8 (in PowerShell, > writes UTF-16; use Set-Content "
    "-Encoding utf8)"
)


class Line(NamedTuple):
    """A line without its LF.

    `fault` says why it holds no JSON value, and `spots` are other findings about the line; `text`
    is what places in the value count in.
    """

    text: str
    value: Any = None
    fault: Spot | None = None
    spots: tuple[Spot, ...] = ()


def read_line(raw: bytes, *, first: bool = False) -> Line:
    """Returns the value of a line, or why it has none.

    `first`: it is the first of its file, where a byte order mark may be.
    """
    text = raw.decode("utf-8", "replace")
    marked = first and raw.startswith(BOM)
    spots = tuple(_ends(text, raw, marked=marked))
    body = text.removesuffix("\r")
    # The mark is one character of the physical line: white space replaces it, so that columns stay
    # right.
    if marked:
        body = " " + body[1:]
    try:
        fault = _unreadable(text, body, raw)
        if fault:
            return Line(body, None, fault, spots)
        return Line(body, loads(body), None, (*spots, *_separators(text, raw)))
    except Fault as wrong:
        has_offset = wrong.offset is not None
        start = min(wrong.offset or 0, len(body))
        end = min(start + 1, len(body)) if has_offset else len(body)
        finding = Finding(wrong.code, wrong.message, help=HELP.get(wrong.code, ""))
        return Line(body, None, Spot(finding, body, start, end), spots)


def _ends(text: str, raw: bytes, *, marked: bool) -> Iterator[Spot]:
    if marked:
        fix = _without("remove it", text, 0, 1)
        yield Spot(Finding("MYP009", "the file begins with a byte order mark", fix=fix), text, 0, 1)
    if raw.endswith(b"\r"):
        last = len(text) - 1
        fix = _without("end it with LF", text, last, last + 1)
        spot = Finding("MYP010", "the line ends in CR LF", help="end lines with LF alone", fix=fix)
        yield Spot(spot, text, last, last + 1)


# Bytes are searched for at a third of the speed of their pattern, and this of that of its first.
_SEPARATOR_BYTES = re.compile(b"\xe2(?=\x80[\xa8\xa9])"), re.compile(b"\xc2(?=\x85)")


def has_separator(raw: bytes) -> bool:
    """Returns whether lines have characters in them at which some readers cut."""
    return any(p.pattern[:1] in raw and p.search(raw) for p in _SEPARATOR_BYTES)


def _separators(text: str, raw: bytes) -> Iterator[Spot]:
    """Yields a finding about the first such character of a line that is JSON: inside a string."""
    if not has_separator(raw):
        return
    places = [match.start() for match in _SEPARATOR.finditer(text)]
    at, code = places[0], f"{ord(text[places[0]]):04x}"
    edits = tuple([(i, i + 1, f"\\u{ord(text[i]):04x}") for i in places])
    hint = f"write it as \\u{code}, which means the same"
    message = f"U+{code.upper()} in the line, at which some readers of JSONL cut"
    fix = Fix("write line separators as escapes", True, edits=edits)
    yield Spot(Finding("MYP019", message, help=hint, fix=fix), text, at, at + 1)


def _unreadable(text: str, body: str, raw: bytes) -> Spot | None:
    if not body.strip():
        fix = Fix("delete the line", True, edits=((0, len(text), ""),))
        return Spot(Finding("MYP011", "the line is empty", fix=fix), text, 0, len(text))
    if is_utf16(raw):
        finding = Finding("MYP002", IS_UTF16, help=FROM_UTF16)
        return Spot(finding, text, 0, len(text))
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        start = len(raw[: error.start].decode("utf-8"))
        place = f"byte {error.start + 1} of the line (0x{raw[error.start]:02x})"
        message = f"{place} is not UTF-8: {error.reason}"
        finding = Finding("MYP002", message, help="convert the file to UTF-8")
        return Spot(finding, text, start, start + 1)
    return None


def is_utf16(raw: bytes) -> bool:
    r"""Returns whether a line, cut at bytes 0x0a, begins as ASCII in UTF-16, of either byte order.

    >>> lines = '{"a": 1}\n{"b": 2}\n'.encode("utf-16").split(b"\n")
    >>> [is_utf16(line) for line in lines], is_utf16(b'{"a": 1}'), is_utf16(b"")
    ([True, True, True], False, False)
    """
    return _UTF16.match(raw) is not None


def _without(title: str, text: str, start: int, end: int) -> Fix | None:
    """Returns a fix that cuts out of the physical line.

    None where the bytes of the line are no text, so that places in it are a guess.
    """
    return None if "\ufffd" in text else Fix(title, True, edits=((start, end, ""),))
