"""Writes a finding as a JSON object, in text that any stream can carry."""

import json
from typing import Any, TextIO

from mypt_cli.terminal import HIDDEN, encoding_of
from mypt_lint.check.diagnostic import Diagnostic, Summary

_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_ASCII = json.JSONEncoder(ensure_ascii=True, allow_nan=False)


def record(diagnostic: Diagnostic) -> dict[str, Any]:
    """Returns the keys of `--format json`, with ruff's order and names where it has them."""
    finding = diagnostic.finding
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "filename": diagnostic.filename,
        "location": {"row": diagnostic.row, "column": diagnostic.column},
        "end_location": {"row": diagnostic.end_row, "column": diagnostic.end_column},
        "pointer": finding.pointer,
        "span": finding.span,
        "expected": finding.expected,
        "dialect": diagnostic.dialect,
        "fix": finding.fix.as_dict() if finding.fix else None,
    } | ({"record": diagnostic.record} if diagnostic.record else {})


class JsonText:
    """Writes JSON for one stream: readable where that is safe, all ASCII where it is not.

    Not safe are streams that are not UTF-8, lone surrogates, and characters that a terminal or a
    line reader would obey.
    """

    def __init__(self, stream: TextIO) -> None:
        self._readable = encoding_of(stream) == "utf-8"

    def __call__(self, value: Any) -> str:
        if self._readable:
            text = _READABLE.encode(value)
            if not HIDDEN.search(text):
                return text
        return _ASCII.encode(value)

    def finding(self, diagnostic: Diagnostic) -> str:
        value = record(diagnostic)
        try:
            return self(value)
        except (TypeError, ValueError, RecursionError):
            # A patch may hold a value of the data that JSON does not have, such as NaN. A fix
            # without its patch can be read but not applied, which is better than a wrong one.
            keys = ("message", "applicability")
            return self(value | {"fix": value["fix"] and {key: value["fix"][key] for key in keys}})


class JsonArray:
    """Writes an array as its values come, one a line; it opens at the first, or at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._text = stream, JsonText(stream)
        self._before = "[\n"

    def _write(self, value: str) -> None:
        self._stream.write(self._before + value)
        self._before = ",\n"

    def finish(self, summary: Summary) -> None:
        self._stream.write("\n]\n" if self._before == ",\n" else "[]\n")
