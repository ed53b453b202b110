"""Family 0, file: bytes, lines and JSON, before any schema."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP001", "invalid-json")
class InvalidJson:
    """A line is not JSON."""


@rule("MYP002", "invalid-utf8")
class InvalidUtf8:
    """A line is not UTF-8."""


@rule("MYP003", "broken-compression")
class BrokenCompression:
    """A compressed file ends early or is damaged."""


@rule("MYP004", "duplicate-key")
class DuplicateKey:
    """A key stands twice in one JSON object."""


@rule("MYP005", "non-finite-number")
class NonFiniteNumber:
    """A number that JSON does not have: NaN, Infinity, or one too large to read."""


@rule("MYP006", "lone-surrogate")
class LoneSurrogate:
    """Half of a surrogate pair, which no UTF-8 can hold."""


@rule("MYP007", "line-too-long")
class LineTooLong:
    """A line is longer than is read at once."""


@rule("MYP008", "nested-too-deep")
class NestedTooDeep:
    """JSON nests deeper than is read."""


@rule("MYP009", "byte-order-mark")
class ByteOrderMark:
    """A byte order mark begins the file."""


@rule("MYP010", "carriage-return", "warning")
class CarriageReturn:
    """A line ends in CR LF."""


@rule("MYP011", "blank-line", "warning")
class BlankLine:
    """A line is empty."""


@rule("MYP012", "empty-file", "warning")
class EmptyFile:
    """A file holds nothing."""


@rule("MYP013", "no-final-newline", "info")
class NoFinalNewline:
    """The last line has no line end."""
