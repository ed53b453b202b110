"""Decodes the bytes of a text file: UTF-8, UTF-16 with a mark, or the encoding that it declares.

Input: bytes. Output: text. An encoding is never guessed, because a wrong guess is a text of wrong
letters that nobody notices.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

# The first bytes, in which HTML has to declare its encoding.
_HEAD = 1024
_DECLARED = (
    re.compile(rb"""\A\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)"""),
    re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE),
    # Emacs and Python, in one of the first two lines.
    re.compile(rb"\A(?:[^\n]*\n)?[ \t]*(?:#|//|;|%|--|/\*|<!--)[^\n]*?coding[:=][ \t]*([\w.-]+)"),
)
# The encodings that may be declared, by the names of Python's codecs. Browsers, and so most pages,
# mean the wider one of two (https://encoding.spec.whatwg.org).
_WIDER = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
_ALLOWED = re.compile(
    r"utf-8|utf-16-[lb]e|cp(125\d|932|949|874|866|437|850)|iso8859-\d+|koi8-[ru]|mac-roman|"
    r"gb18030|big5(hkscs)?|euc_jp|iso2022_jp"
)


class Undecodable(ValueError):
    """Bytes are no text in an encoding that is known; the message is a short reason."""


def decoded(data: bytes) -> str:
    """Returns the text of bytes. Raises Undecodable.

    They are UTF-8; or UTF-16, with a byte order mark; or in the encoding that an HTML or XML file
    declares, or a comment in one of the first two lines (`coding: latin-1`). UTF-8 comes first, as
    converted files often keep the old declaration.

    >>> decoded("<meta charset='shift_jis'>密码".encode("shift_jis", "ignore"))[-1]
    '密'
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _strictly(data, "utf-16")
    encodings = [*_declared(data[:_HEAD])]
    # Only shifts to other alphabets, all of it ASCII: valid UTF-8 that says nothing.
    if "iso2022_jp" in encodings and b"\x1b" in data:
        return _strictly(data, "iso2022_jp")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not encodings:
            raise Undecodable(f"not text in UTF-8 (byte {error.start})") from None
    return _strictly(data, encodings[0])


def _declared(head: bytes) -> Iterator[str]:
    for pattern in _DECLARED:
        match = pattern.search(head)
        if match:
            try:
                name = codecs.lookup(match[1].decode("ascii")).name
            except LookupError:
                continue
            name = _WIDER.get(name, name)
            if _ALLOWED.fullmatch(name):
                yield name


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Undecodable(f"not text in {encoding}, as declared (byte {error.start})") from None
