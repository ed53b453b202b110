"""Finds texts that were escaped once more than they are read: line ends, quotes and entities."""

import re
from collections.abc import Iterator

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.patterns import first
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding
from mypt_spec.memo import lazy_re

_CODE = lazy_re(r"[`{}<>;]|\w\([\"']|\\[a-mo-z]|[A-Z]:\\")
# "\nabla" and "\nu" are commands of LaTeX, so no small letter follows.
_LINE_END = lazy_re(r"(?<=[\w.,:;!?)*])(?:\\r)?(?:\\n)+(?=[\sA-Z0-9*#-]|\Z)")
_ENTITY = lazy_re(r"&(?:quot|amp|#39|#x27);|&amp;(?:amp|quot|lt|gt|#39);")
_TWICE = lazy_re("&amp;(?:amp|quot|lt|gt|#39);")  # "&lt;" is how HTML writes a sign
_ANY = lazy_re(r"&(?:amp;)?#?\w+;")
_NEXT = "".join(map(chr, range(128)))


def _escape(text: str) -> re.Match[str] | None:
    """Returns the first of the escapes of a text that has no other reason for them."""
    if "\\n" in text and "\n" not in text and len(_LINE_END.findall(text)) > 1:
        return None if _CODE.search(text) else _LINE_END.search(text)
    quotes = text.count('\\"')
    if quotes > 1 and quotes == text.count('"') and not _CODE.search(text):
        return re.search(r'\\"', text)
    if text.count("&") > 1 or "&amp;" in text:
        entities = _ENTITY.findall(text)
        if (len(entities) > 1 or _TWICE.search(text)) and "<" not in text:
            match = _TWICE.search(text) or _ENTITY.search(text)
            twice = match and _TWICE.match(match[0])
            return match if twice or not _CODE.search(_ANY.sub("", text)) else None
    return None


@prefilter(
    "MYP459",
    needles=lambda: [("\\", "n", _NEXT), ("\\", '"', _NEXT), "&quo", "&amp", "&#39", "&#x2"],
)
def _may_be_escaped(text: str) -> bool:
    return _escape(text) is not None


@check("MYP459")
def escaped_text(chat: Chat) -> Iterator[Finding]:
    r"""Finds texts with `\n`, `\"` or `&quot;` in place of what these stand for."""
    for message, text in chat.texts("MYP459"):
        match = _escape(text.text) if message.role in ("user", "assistant") else None
        topic = "escaping" if match and _TWICE.match(match[0]) else "markup"
        if match and not any(first(topic, t.text) for _, t in chat.texts()):
            why = f"`{match[0]}` in the {message.alias} message is an escape, in a plain text"
            yield Finding("MYP459", why, text.at, match.span())
