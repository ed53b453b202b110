"""Makes digests of 64 bits, by which the rules of the data set compare episodes.

Texts are compared as they are, or made plain: without what people do not see in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import groupby
from unicodedata import combining, normalize

from mypt_spec.episode import Episode, Message, events_of
from mypt_spec.table import TokenTable

_SPACE = re.compile(r"\s+")
_MARKS = re.compile(r"[^\w\s\x00-\u02ff]{32,}")  # long runs that may be accents


def digest(text: str) -> int:
    """Returns 64 bits that identify a text."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def plain(text: str) -> str:
    """Returns the text made plain: case folded, accents composed, white space as one space."""
    return _SPACE.sub(" ", nfc(text)).strip().casefold()


def nfc(text: str) -> str:
    """Returns a text in NFC, in linear time.

    Python alone sorts many accents on one letter by insertion, which is quadratic.
    """
    return normalize("NFC", text if text.isascii() else _MARKS.sub(_in_order, text))


def _in_order(run: re.Match[str]) -> str:
    chars = [part for char in run[0] for part in normalize("NFD", char)]
    groups = groupby(chars, key=lambda char: combining(char) > 0)
    return "".join(
        [
            char
            for marks, group in groups
            for char in (sorted(group, key=combining) if marks else group)
        ]
    )


def last_answer(episode: Episode, table: TokenTable) -> Message | None:
    """Returns the last message that the model writes and that is no mark; None without one."""
    openers = table.openers
    return next(
        (
            m
            for m in reversed(episode.messages)
            if m.role in openers and openers[m.role].by_model and m.text.strip()
        ),
        None,
    )


def whole(messages: Sequence[Message], table: TokenTable) -> int:
    """Returns the digest of messages, character for character."""
    return digest("\0".join(e.text for e in events_of(messages, table)))


def prompt(episode: Episode, answer: Message, table: TokenTable) -> int:
    """Returns the digest of all messages before an answer of the episode."""
    return whole(
        episode.messages[: next(i for i, m in enumerate(episode.messages) if m is answer)], table
    )
