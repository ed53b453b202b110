"""Makes strings of users printable: every character is shown, and no terminal obeys any."""

import codecs
import re
from typing import TextIO

# Control characters, line separators, bidi controls, invisible format characters, tag characters
# and lone surrogates. The joiners U+200C and U+200D stay as they are: emoji and several scripts are
# wrong without them.
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def escape(char: str) -> str:
    r"""Returns one character, spelled out: `\n`, `\x1b`, `\u202e`, `\U000e0041`."""
    return char.encode("unicode_escape").decode("ascii")


def encoding_of(stream: TextIO) -> str:
    """Returns the normalised name of the stream's encoding.

    It is UTF-8 when the stream has none, ASCII when Python does not know it.
    """
    try:
        return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name
    except LookupError:
        return "ascii"


class Display:
    """Spells strings in characters that one stream can print, so that writing them never fails."""

    def __init__(self, stream: TextIO) -> None:
        self.encoding = encoding_of(stream)
        self.newline = self._or("↵", "\\n")
        self.tab = self._or("→", "\\t")
        self.ellipsis = self._or("…", "...")

    def line(self, text: str, *, keep: str = "") -> str:
        """Returns the text on one line, hidden characters spelled out, except those in `keep`."""
        return self.printable(HIDDEN.sub(lambda m: m[0] if m[0] in keep else escape(m[0]), text))

    def printable(self, text: str) -> str:
        """Returns the text with characters that the stream's encoding lacks spelled out."""
        if self.encoding == "utf-8" or text.isascii():
            return text
        return "".join(map(self._or, text, map(escape, text)))

    def _or(self, glyph: str, substitute: str) -> str:
        try:
            glyph.encode(self.encoding)
        except UnicodeError:
            return substitute
        return glyph
