"""Finds texts that look like others and are spelled otherwise (family 6).

That is white space at an end, and characters that Unicode composes. A text is a string of the
record, with all that is typed into it; bodies of calls and results are not looked at.
"""

from collections.abc import Iterator
from typing import Any
from unicodedata import combining, normalize

from mypt_lint.dataset.fingerprints import nfc
from mypt_records.chat import Chat
from mypt_records.fixes import replaced
from mypt_spec.bodies.strict_json import value_at
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding
from mypt_spec.patch import in_common
from mypt_spec.table import TokenTable

CODES = frozenset({"MYP608", "MYP609"})
_MOST_CHARACTERS = 8  # characters that a message shows


def untidy(record: Any, episode: Episode, table: TokenTable) -> Iterator[Finding]:
    """Yields the findings of an episode's texts, each with a fix that changes this text alone."""
    for pointer in _texts(episode, table):
        text = value_at(record, pointer)
        if isinstance(text, str) and text.strip():
            yield from _spaced(text, pointer)
            yield from _composed(text, pointer)


def untidy_answers(chat: Chat) -> Iterator[Finding]:
    """Yields answers with white space around them."""
    for message in chat.messages:
        for text in message.content or () if message.role == "assistant" else ():
            if text.text.strip() and text.outer is None and not text.start:
                yield from _spaced(text.text, text.at)


def _texts(episode: Episode, table: TokenTable) -> dict[str, None]:
    openers = table.openers
    return {
        part.at.pointer: None
        for message in episode.messages
        for part in message.parts
        if openers[message.role if part.kind == "text" else part.kind].body == "text"
    }


def _spaced(text: str, pointer: str) -> Iterator[Finding]:
    first = len(text) - len(text.lstrip())
    last = len(text.rstrip())
    if first and combining(text[first]):
        first -= 1  # an accent on a space stays on it
    if last - first == len(text):
        return
    ends = [
        f"{verb} {_hex(part)}"
        for verb, part in (("begins with", text[:first]), ("ends in", text[last:]))
        if part
    ]
    span = (0, first) if first else (last, len(text))
    fix = replaced(pointer, text[first:last], "take the white space away", safe=False)
    message, hint = f"the text {' and '.join(ends)}", "take it away, unless it is meant"
    yield Finding("MYP608", message, pointer, span, help=hint, fix=fix)


def _composed(text: str, pointer: str) -> Iterator[Finding]:
    new = nfc(text)
    if new == text:
        return
    at = in_common(text, new)
    end = at + 1
    while end < min(len(text), at + _MOST_CHARACTERS):
        before, after = (len(normalize("NFC", text[at:stop])) for stop in (end, end + 1))
        if not combining(text[end]) and after != before:
            break
        end += 1
    part = text[at:end]
    message = f'"{part}" is spelled {_hex(part)}; in NFC it is {_hex(normalize("NFC", part))}'
    fix = replaced(pointer, new, "write the text in NFC", safe=False)
    yield Finding("MYP609", message, pointer, (at, end), fix=fix)


def _hex(text: str) -> str:
    """Returns characters by their numbers, which also shows those that nobody sees."""
    beyond = f" and {len(text) - _MOST_CHARACTERS} more" if len(text) > _MOST_CHARACTERS else ""
    return " ".join(f"U+{ord(c):04X}" for c in text[:_MOST_CHARACTERS]) + beyond
