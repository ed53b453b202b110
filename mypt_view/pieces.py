"""Shows ids as text: which ids make which characters, and the text of one id by itself."""

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache

from mypt_cli.terminal import Display
from mypt_spec.encoder import Segment
from mypt_spec.tokenizer.tokenizer import Tokenizer

_HALVES = re.compile("([\udc80-\udcff])")  # bytes that are no text
_LATIN = re.compile("[\x80-\xff]")


def pieces(segment: Segment, tokenizer: Tokenizer) -> Iterator[tuple[list[int], str]]:
    """Yields ids with their text, which join to the event's; ids that share a character are one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ids: list[int] = []
    text = ""
    for number in segment.ids:
        if not ids and (alone := _alone(tokenizer, number)) is not None:
            yield [number], alone
            continue
        ids.append(number)
        text += decoder.decode(tokenizer.decode_bytes([number]))
        if not decoder.getstate()[0]:
            yield ids, text
            ids, text = [], ""
    if ids:  # ids from elsewhere may stop inside a character
        yield ids, text + decoder.decode(b"", final=True)


@lru_cache(1 << 17)
def _alone(tokenizer: Tokenizer, number: int) -> str | None:
    """Returns the text of an id; None where it is part of a character."""
    try:
        return tokenizer.decode_bytes([number]).decode()
    except UnicodeDecodeError:
        return None


def quoted(raw: bytes, display: Display) -> str:
    r"""Returns bytes on one line, in quotes: text as it is, all that cannot be seen spelled out.

    `\x..` is one byte.

    >>> import io
    >>> display = Display(io.StringIO())
    >>> print(quoted("a\n".encode(), display), quoted("é".encode()[:1], display))
    "a\n" "\xc3"
    """
    text = raw.decode("utf-8", "surrogateescape").replace("\\", "\\\\").replace('"', '\\"')
    text = _LATIN.sub(
        lambda m: (
            m[0] if display.line(m[0]) == m[0] else m[0].encode().decode("ascii", "surrogateescape")
        ),
        text,
    )
    out = ""
    for part in _HALVES.split(text):
        half = _HALVES.fullmatch(part)
        out += f"\\x{ord(part) - 0xDC00:02x}" if half else display.line(part)
    return f'"{out}"'
