"""Reads title and text from the bytes of a file.

Text, Markdown and HTML need only the standard library; PDF needs the extra `pdf`. An encoding is
never guessed, because a wrong guess is a text of wrong letters that nobody notices.
"""

import codecs
import io
import logging
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mypt_spec.compiled.toml import load

MAX_TITLE = 200
# The most pages of a PDF.
MAX_PAGES = 2000
_HEADING = re.compile(
    r"^[ ]{0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$|^(\S.*)\n(?:=+|-{3,})[ \t]*$", re.MULTILINE
)
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title:[ \t]*(["']?)(.+)\1[ \t]*$""", re.MULTILINE)
_NOWHERE = logging.NullHandler()
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
# The first bytes, in which HTML has to declare its encoding.
_HEAD = 1024
_DECLARED = (
    re.compile(rb"""\A\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)"""),
    re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE),
    # Emacs and Python, in one of the first two lines.
    re.compile(rb"\A(?:[^\n]*\n)?[ \t]*(?:#|//|;|%|--|/\*|<!--)[^\n]*?coding[:=][ \t]*([\w.-]+)"),
)
_WIDER = load(Path(__file__).with_name("wider_encodings.toml"))
# The encodings that may be declared, by the names of Python's codecs.
_ALLOWED = re.compile(
    r"utf-8|utf-16-[lb]e|cp(125\d|932|949|874|866|437|850)|iso8859-\d+|koi8-[ru]|mac-roman|"
    r"gb18030|big5(hkscs)?|euc_jp|iso2022_jp"
)


class Unreadable(ValueError):
    """A file is no document; the message is a short reason."""


class Content(NamedTuple):
    r"""The content of a file. In `text`, lines end with `\n`."""

    title: str
    text: str


def read(path: str, data: bytes) -> Content:
    """Returns title and text of a file, read by the ending of its name.

    Any file of plain text is read, whatever its ending. Raises Unreadable for other files.
    """
    kind = PurePosixPath(path).suffix.lower()
    title, text = _READERS.get(kind, _plain)(data)
    if not text.strip():
        raise Unreadable("empty")
    return Content(one_line(title) or PurePosixPath(path).stem, text)


def one_line(text: str) -> str:
    """Returns a title on one line: white space becomes single, and the length at most MAX_TITLE."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_TITLE else text[: MAX_TITLE - 1] + "…"


def decode(data: bytes) -> str:
    """Returns the text of bytes, with lines that end with `\\n`. Raises Unreadable."""
    text = decoded(data)
    if "\0" in text:
        raise Unreadable("not text: it holds zero bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decoded(data: bytes) -> str:
    """Returns the text of bytes. Raises Unreadable.

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
            raise Unreadable(f"not text in UTF-8 (byte {error.start})") from None
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
        raise Unreadable(f"not text in {encoding}, as declared (byte {error.start})") from None


def _plain(data: bytes) -> tuple[str, str]:
    """Returns the first line as title, if a blank line and more follow it, and the text."""
    text = decode(data)
    return _first_line(text), text


def _first_line(text: str) -> str:
    """Returns the first line if a blank line and more follow it, else an empty string."""
    first, _, tail = text.lstrip().partition("\n")
    alone = tail.strip() and tail.lstrip(" \t").startswith("\n")
    return first if alone and len(first) <= MAX_TITLE else ""


def _markdown(data: bytes) -> tuple[str, str]:
    text = decode(data)
    front = _FRONT.match(text)
    title = _FRONT_TITLE.search(front[1]) if front else None
    if title:
        return title[2], text
    body = text[front.end() :] if front else text
    heading = _HEADING.search(_FENCED.sub("", body))
    return ((heading[1] or heading[2]) if heading else _first_line(body)), text


class _Html(HTMLParser):
    """Collects the visible text, the title, and the first heading. Lines end where blocks end."""

    HIDDEN = frozenset({"script", "style", "template", "noscript", "head"})
    BREAKS = frozenset({
        "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure",
        "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
        "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th",
        "tr", "ul",
    })  # fmt: skip

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.title: list[str] = []
        self.heading: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.BREAKS:
            self.text.append("\n")
        if tag in self.HIDDEN or tag in ("title", "h1"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]
        if tag in self.BREAKS:
            self.text.append("\n")

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "title":
            self.title.append(data)
        elif inside not in self.HIDDEN:
            self.text.append(data)
            if inside == "h1" and len(self.heading) < 20:
                self.heading.append(data)


def _html(data: bytes) -> tuple[str, str]:
    parser = _Html()
    parser.feed(decode(data))
    parser.close()
    lines = [" ".join(line.split()) for line in "".join(parser.text).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return "".join(parser.title) or "".join(parser.heading), text


def _pdf(data: bytes) -> tuple[str, str]:
    try:
        import pypdf
    except ImportError:
        raise Unreadable('PDF needs: pip install "mypt-tags[pdf]"') from None
    # What it warns of goes where a program sends its log, and not to stderr without one.
    logging.getLogger("pypdf").addHandler(_NOWHERE)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if len(reader.pages) > MAX_PAGES:
            raise Unreadable(f"a PDF of more than {MAX_PAGES} pages")
        text = "\n\n".join(page.extract_text() for page in reader.pages)
        title = str((reader.metadata.title if reader.metadata else "") or "")
    except Unreadable:
        raise
    except Exception as error:  # whatever a broken file makes the library raise
        raise Unreadable(f"a PDF that cannot be read ({type(error).__name__})") from None
    clean = text.encode("utf-8", "replace").decode().replace("\0", "")
    return title.encode("utf-8", "replace").decode(), clean


_READERS: dict[str, Callable[[bytes], tuple[str, str]]] = {
    ".md": _markdown, ".markdown": _markdown, ".html": _html, ".htm": _html, ".xhtml": _html,
    ".pdf": _pdf,
}  # fmt: skip
