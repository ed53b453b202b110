"""Finds characters that are no part of a text: of a wrong encoding, invisible, or controls."""

import re
from collections.abc import Iterator
from string import ascii_letters
from unicodedata import normalize

from mypt_records.chat import Chat, Text
from mypt_records.checks.registry import check
from mypt_records.fixes import replaced
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding, Fix, regraded
from mypt_spec.memo import lazy_re

# Patterns that are strings are compiled when a text has characters beyond ASCII.
# What the bytes 0x80 to 0xbf of UTF-8 become, read as Windows-1252 or Latin-1.
_TAIL = "\x80-\xbf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014"
_TAIL += "\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122"
# Those of them that follow no letter in any language.
_ODD = "\x80-\x9f\xa1-\xaa\xac-\xb1\xb4-\xb6\xb8\xba\xbc-\xbf"
_ODD += "\u0192\u02c6\u02dc\u201a\u2020\u2021\u2030\u20ac\u2122"
_BROKEN = (
    f"\ufffd|[\x80-\x84\x86-\x9f]|[\xc2-\xd6\xda-\xde][{_ODD}]"  # "Ã©", "Å¡"
    f"|(?<![A-Z\xc0-\xde])(?:\xc3[{_TAIL}]|\xc2[\xa0-\xbf](?![\xa0 ]?[»:;?!]))"  # no "NÃ”"
    f"|\xe2[\x80-\x8f\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6][{_TAIL}]"  # "â€™"
    f"|(?:[\xe3-\xe9][{_TAIL}]{{2}}){{2}}"  # "ä½\xa0å¥½"
    f"|\xf0\u0178[{_TAIL}]{{2}}|(?:[\xd0\xd1\xd7-\xdb][{_TAIL}]){{2}}|\xef\xbb\xbf"
)
_HIDDEN = "\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_PLAIN = "\\0-\u024f\u2010-\u2027\u2030-\u205e"  # Latin, and punctuation
_SMALL = "a-z\xdf-\xf6\xf8-\u017f"
_INVISIBLE = (
    f"(?:^|(?<=[{_PLAIN}]))[{_HIDDEN}]+(?=[{_PLAIN}]|$)"
    f"|(?<=[{_SMALL}])\xad+(?=[{_SMALL}])"
    "|(?<![\U0001f3f4\U000e0000-\U000e007f])[\U000e0000-\U000e007f]+"
)
CONTROL = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f]"
# An escape sequence of a terminal, or one control character.
_CONTROL = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|{CONTROL}")
# Of commands such as \frac, read as escapes.
_LETTERS = lazy_re("\a(?=lpha|pprox)|\b(?=eta|inom|oldsymbol)|\f(?=rac|orall)|\v(?=ec|arphi)")
# Sequences that have lost their first character, and characters that a font or a program has made
# up, such as those of Wingdings; the last of these is Apple's.
_STRAY = re.compile(
    r"(?<![\x1b\\])\[[0-9;]{1,8}m(?=[^\n]{1,200}?\[0m)"
    rf"|[\uf000-\uf8fe]|(?<=.)[\ue000-\uefff]|[\ue000-\uefff](?=.)|{_CONTROL.pattern}",
    re.DOTALL,  # a skeleton has a character of private use in place of a whole text
)
# Letters that look like Latin ones, in words of Latin letters.
_ALIKE = "аеорсухіѕјһԁАВЕКМНОРСТХІЅЈ"
_MIXED = (
    f"(?<!\\w)(?=[A-Za-z{_ALIKE}]*[{_ALIKE}][a-z])(?=[A-Za-z{_ALIKE}]*[A-Za-z])"
    f"[A-Za-z{_ALIKE}]{{3,}}(?!\\w)"
)
_ACCENT = lazy_re("[A-Za-z][\u0300-\u036f]")
_ACCENTS = lazy_re("[\u0300-\u036f]{9}")  # a text that plays with these is left as it is
_WORDS = 3  # of such words, at the least
_CP1252 = {i: bytes([i]).decode("cp1252", "ignore") for i in range(0x80, 0xA0)}
_BYTES = {chr(i): i for i in range(0x80, 0x100)} | {char: i for i, char in _CP1252.items() if char}
_RUN = lazy_re("[" + "".join(map(re.escape, _BYTES)) + "]{2,}")
_ROUNDS = 3  # times that a text was read in the wrong encoding
# Scripts that are written from right to left, or join letters, or do not part words.
_NEEDS = "[\u0590-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc]"


def _needles() -> Iterator[bytes]:
    """Yields the pairs that broken texts have, without their last byte, and other needles."""
    tail = re.compile(f"[{_TAIL}]")
    tails = {chr(c).encode()[:-1] for c in range(0x2200) if tail.match(chr(c))}
    for first in "\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xef\xf0" + "".join(map(chr, range(0xC2, 0xDF))):
        yield from (first.encode() + last for last in tails)
    yield from (c.encode() for c in map(chr, range(0x80, 0xA0)) if c != "\x85")
    # What is hidden, before what is plain, or at the end.
    after = [bytes([byte]) for byte in (*range(0x80), *range(0xC2, 0xCA), 0xE2)]
    hidden = [c.encode() for c in map(chr, range(0x2000, 0x2070)) if re.match(f"[{_HIDDEN}]", c)]
    yield from (c + byte for c in [*hidden, "\ufeff".encode()] for byte in after)
    yield from ("\ufffd".encode(), b"\xf3\xa0\x80", b"\xf3\xa0\x81", "\xad".encode())


@prefilter("MYP363", "MYP364", needles=_needles)
def odd(text: str) -> bool:
    """Returns whether anything may be found in a text."""
    return not text.isascii() and bool(re.search(_BROKEN, text) or re.search(_INVISIBLE, text))


@prefilter(
    "MYP452",
    needles=lambda: [
        "[0m",
        *filter(_STRAY.match, map(chr, range(1, 0x80))),
        *(bytes([0xEE + (last > 0xBF), 0x80 + last % 0x40]) for last in range(0x80, 0xE4)),
    ],
)
def _may_be_control(text: str) -> bool:
    return _STRAY.search(text) is not None


@prefilter("MYP462", needles=lambda: [(_ALIKE, ascii_letters)])
def _has_lookalikes(text: str) -> bool:
    return not text.isascii() and len(re.findall(_MIXED, text)) >= _WORDS


@check("MYP363")
def wrong_encoding(chat: Chat) -> Iterator[Finding]:
    """Finds texts that were decoded with the wrong encoding: the first place of each text."""
    for message, text in chat.texts("MYP363"):
        if not text.text.isascii() and (match := re.search(_BROKEN, text.text)):
            quoted = "U+FFFD" if match[0] == "\ufffd" else repr(match[0])
            fault = f"{quoted} in the {message.alias} message: it was read in the wrong encoding"
            fix = _fix(text, reread(text.text), "read it as UTF-8")
            yield Finding("MYP363", fault, text.at, match.span(), fix=fix)


@check("MYP364")
def invisible_character(chat: Chat) -> Iterator[Finding]:
    """Finds characters that nobody sees, in texts of scripts that do not need them."""
    for message, text in chat.texts("MYP364"):
        match = None if text.text.isascii() else re.search(_INVISIBLE, text.text)
        if match and not re.search(_NEEDS, text.text):
            fault = f"U+{ord(match[0][0]):04X} in the {message.alias} message is invisible"
            fix = _fix(text, re.sub(_INVISIBLE, "", text.text), "delete invisible characters")
            yield Finding("MYP364", fault, text.at, match.span(), fix=fix)


@check("MYP452")
def control_character(chat: Chat) -> Iterator[Finding]:
    """Finds control characters and escape sequences; results of tools may quote a terminal."""
    for message, text in chat.texts("MYP452"):
        if message.role != "tool" and (match := _CONTROL.search(text.text)):
            char = f"U+{ord(match[0][0]):04X}"
            fault = f"{char} in the {message.alias} message is a control character"
            spelt = _LETTERS.sub(lambda m: "\\" + "abvf"["\a\b\v\f".index(m[0])], text.text)
            fix = _fix(text, _CONTROL.sub("", spelt), "delete control characters")
            yield Finding("MYP452", fault, text.at, match.span(), fix=fix)
        elif message.role != "tool" and (match := _STRAY.search(text.text)):
            fault = f"{match[0]!r} in the {message.alias} message is for a terminal, or one font"
            yield Finding("MYP452", fault, text.at, match.span(), help="write what was meant")


@prefilter("MYP609", needles=lambda: [b"\xcc", b"\xcd"])
def _is_decomposed(text: str) -> bool:
    return not text.isascii() and _apart(text) is not None


def _apart(text: str) -> re.Match[str] | None:
    """Returns the first letter with an accent of its own that Unicode has as one character."""
    return next((m for m in _ACCENT.finditer(text) if len(normalize("NFC", m[0])) == 1), None)


@check("MYP609")
def text_not_nfc(chat: Chat) -> Iterator[Finding]:
    """Finds the first Latin letter with an accent that is a character of its own."""
    for message, text in chat.texts("MYP609"):
        if match := None if text.text.isascii() else _apart(text.text):
            whole = normalize("NFC", match[0])
            fault = f"{match[0]!r} in the {message.alias} message is two characters, in NFC one"
            hint = f"write {whole!r}: a tokenizer makes other tokens of the two"
            new = normalize("NFC", text.text) if _ACCENTS.search(text.text) is None else text.text
            fix = _fix(text, new, "write the text in NFC")
            finding = Finding("MYP609", fault, text.at, match.span(), help=hint, fix=fix)
            yield regraded(finding, "info")
            return


@check("MYP462")
def lookalike_letters(chat: Chat) -> Iterator[Finding]:
    """Finds words of Latin letters with some that only look like these."""
    for message, text in chat.texts("MYP462"):
        if _has_lookalikes(text.text):
            word = next(re.finditer(_MIXED, text.text))
            fault = f"{word[0]!a} in the {message.alias} message, and others, mix alphabets"
            yield Finding("MYP462", fault, text.at, word.span())


def reread(text: str) -> str:
    """Returns a text that was read as Windows-1252 or Latin-1 as it is in UTF-8.

    The same text where that is not certain for all of it.

    >>> reread("It\xe2\u20ac\u2122s a caf\xc3\xa9")
    'It\u2019s a café'
    """
    result = text
    for _ in range(_ROUNDS):
        if not re.search(_BROKEN, result):
            return result
        result = _RUN.sub(_decoded, result)
    result = result.translate({i: char for i, char in _CP1252.items() if char and i != 0x85})
    return text if re.search(_BROKEN, result) else result


def _decoded(match: re.Match[str]) -> str:
    try:
        return bytes(_BYTES[char] for char in match[0]).decode("utf-8")
    except UnicodeDecodeError:
        return match[0]


def _fix(text: Text, value: str, title: str) -> Fix | None:
    """Returns the fix that replaces a text; None where it is a part of another one."""
    if value == text.text or text.outer is not None or text.start:
        return None
    return replaced(text.at, value, title, safe=False)
