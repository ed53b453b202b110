"""Finds what a template has left in a text: names that were to be replaced, and signs for nothing.

Braces are common in code and in texts about templates, so these are looked for only where nothing
in the conversation looks like either.
"""

import re
from collections.abc import Iterator
from string import ascii_letters

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.patterns import has
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding
from mypt_spec.memo import lazy_re

# A set in mathematics has letters in braces, and LaTeX the argument of a command.
_NAME = lazy_re(
    r"\{\{ ?[A-Za-z_]{2,30} ?\}\}|\$\{[a-z][A-Za-z_]{1,29}\}"
    r"|(?<![{$\w\\}\])^=/\"'])\{[a-z]{2,20}(?:_[a-z]{2,20}){0,3}\}(?![}{\[(^/\"'])"
)
# One of these in braces is certain; of other names, a text has two.
_SURE = re.compile(
    r"\{\{.*|\$.*|\{(?:instruction|input|question|query|prompt|response|context)\}", re.DOTALL
)
_NOTHING = {"noinput", "<noinput>", "<no input>", "<nooutput>", "<no output>", "nooutput"}
_LONGEST = 40  # characters of such a sign, with white space


@prefilter("MYP358", needles=lambda: ["{{", ("{", ascii_letters, ascii_letters), "input", "output"])
def _may_be_left(text: str) -> bool:
    if not _names(text):
        return _is_nothing(text)
    return not has("template_or_code", _NAME.sub("", text))


def _names(text: str) -> list[re.Match[str]]:
    """Returns the names in braces that a template has left in a text."""
    names = [*_NAME.finditer(text)] if "{" in text else []
    distinct = {match[0] for match in names}
    return names if len(distinct) > 1 or any(map(_SURE.fullmatch, distinct)) else []


def _is_nothing(text: str) -> bool:
    return len(text) < _LONGEST and text.strip().lower() in _NOTHING


@check("MYP358")
def template_leftover(chat: Chat) -> Iterator[Finding]:
    """Finds names in braces, and signs for an input or output that is not there."""
    messages = [*chat.messages, *chat.rejected]
    texts = [(m, text) for m in messages for text in m.content or () if m.role != "tool"]
    names = [(m, text, match) for m, text in texts for match in _names(text.text)]
    if names:
        outside = "\n".join([_NAME.sub("", text.text) for _, text in texts])
        for message, text, match in names if not has("template_or_code", outside) else ():
            fault = f"`{match[0]}` in the {message.alias} message: a template was not filled in"
            yield Finding("MYP358", fault, text.at, match.span())
    for _, text in texts:
        if _is_nothing(text.text):
            fault = f"{text.text.strip()!r} is a sign for nothing"
            yield Finding("MYP358", fault, text.at, help="leave it empty, or drop the record")
