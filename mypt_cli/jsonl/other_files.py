"""Recognizes files that hold no JSON, such as archives and web pages, by their first bytes.

Without this, each line of such a file would be an error, and a fix that ends its last line would
damage it. `layout` asks for every file whose first character is neither `{` nor `[`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mypt_cli.jsonl.line import BOM

HEAD = 512  # bytes that decide


class OtherFile(NamedTuple):
    """What a file is, and how to get JSONL from it."""

    what: str
    advice: str


_UNPACK = "unpack it first"
_JSONL = "convert it to JSONL, one record a line"
_KINDS: tuple[tuple[bytes, OtherFile], ...] = (
    (rb"\x1f\x8b", OtherFile("gzip data", 'end its name with ".gz", and it is read packed')),
    (rb"\x28\xb5\x2f\xfd", OtherFile("zstandard data", 'end its name with ".zst", and it is read')),
    (rb"PK\x03\x04", OtherFile("a ZIP archive", _UNPACK)),
    (rb"BZh[1-9]", OtherFile("bzip2 data", f"{_UNPACK}: bunzip2")),
    (rb"\xfd7zXZ\0", OtherFile("xz data", f"{_UNPACK}: unxz")),
    (rb"ARROW1", OtherFile("an Arrow file", f"{_JSONL}, or save it as Parquet")),
    (
        rb"\xff\xfe\0\0|\0\0\xfe\xff|[\[{]\0\0\0|\0\0\0[\[{]",
        OtherFile("text in UTF-32", "convert the file: iconv -f UTF-32 -t UTF-8"),
    ),
    (
        rb"version https://git-lfs\.github\.com/spec/",
        OtherFile("a pointer of Git LFS", "fetch the data that it names: git lfs pull"),
    ),
    (
        rb"(?i:\s*(?:<!doctype\s+html|<html)[\s>])",
        OtherFile(
            "an HTML page", "download the data again: this is a login, an error or a file's page"
        ),
    ),
    (
        rb'"?[A-Za-z_][\w .-]*"?(?:[,;\t]"?[A-Za-z_][\w .-]*"?)+\r?\n',
        OtherFile("a table of text (CSV)", f"{_JSONL}: pandas.read_csv and to_json do"),
    ),
)
_PATTERNS = tuple((re.compile(pattern), kind) for pattern, kind in _KINDS)


def other_file(head: bytes) -> OtherFile | None:
    r"""Returns what a file is that begins with `head`, and no JSON; None where it may be JSON.

    >>> other_file(b"<!DOCTYPE html><html>").what, other_file(b"question,answer\n2+2,4\n").what
    ('an HTML page', 'a table of text (CSV)')
    >>> other_file(b'{"a": 1}'), other_file(b"not JSON, but what?")
    (None, None)
    """
    head = head[:HEAD].removeprefix(BOM)
    return next((kind for pattern, kind in _PATTERNS if pattern.match(head)), None)
