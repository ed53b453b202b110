"""Makes digests of 64 bits, by which the rules of the data set compare episodes and chats.

Texts are compared as they are, or made plain: without what people do not see in them.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from typing import Any
from unicodedata import combining, normalize

from mypt_records import chat as chats
from mypt_records.chat import Chat
from mypt_spec.episode import Episode, Message, events_of
from mypt_spec.history import turn_starts
from mypt_spec.table import TokenTable

_SPACE = re.compile(r"\s+")
_MARKS = re.compile(r"[^\w\s\x00-\u02ff]{32,}")  # long runs that may be accents


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is compared of a conversation.

    `everything` is the digest of all of it, `toolless` that of all but the declared tools, `prompt`
    that of all before the last answer. `answer` is the text of that answer, `answer_digest` its
    digest and `answer_at` its pointer. `user_texts` are the user's messages, made plain, with their
    pointers. None where it has none.
    """

    everything: int
    toolless: int | None = None
    prompt: int | None = None
    answer_digest: int = 0
    answer: str | None = None
    answer_at: str = ""
    user_texts: tuple[tuple[str, str], ...] = ()

    @property
    def questions(self) -> int:
        """Returns the digest of the user's messages."""
        return digest("\0".join([text for text, _ in self.user_texts]))


def of_episode(episode: Episode, table: TokenTable) -> Fingerprint:
    messages, openers = episode.messages, table.openers
    questions = tuple(
        (plain(m.text), next((p.at.pointer for p in m.parts if p.kind == "text"), ""))
        for m in (messages[i] for i in turn_starts(messages, table))
    )
    base = Fingerprint(_written(messages, table), user_texts=questions)
    for last in reversed(range(len(messages))):
        answer = messages[last]
        if answer.role in openers and openers[answer.role].body_by_model and answer.text.strip():
            break
    else:
        return base
    return replace(
        base,
        prompt=_written(messages[:last], table),
        answer_digest=digest(repr([(p.kind, p.text) for p in answer.parts])),
        answer=answer.text,
        answer_at=answer.parts[-1].at.pointer,
    )


def of_chat(chat: Chat) -> Fingerprint:
    """Returns what is compared of a chat.

    Ids of calls do not count. Chats with two answers, or with a label, have no prompt: the same
    prompt is meant to have several answers there.
    """
    messages = [_message_data(m) for m in chat.messages]
    tools = [tool.value for tool in chat.tools or ()]
    label = None if chat.label is None else chat.label.value
    toolless = [messages, [_message_data(m) for m in chat.rejected], label]
    questions = tuple((plain(m.text), m.at) for m in chat.messages if m.role == "user")
    answers = [m.role == "assistant" and bool(m.text.strip()) for m in chat.messages]
    last = next((i for i in reversed(range(len(messages))) if answers[i]), None)
    base = Fingerprint(_json([toolless, tools]), _json(toolless), user_texts=questions)
    if last is None or chat.rejected or label is not None:
        return base
    answer = chat.messages[last]
    return replace(
        base,
        prompt=_json([messages[:last], tools]),
        answer_digest=_json(messages[last]),
        answer=answer.text,
        answer_at=answer.content[0].at if answer.content else answer.at,
    )


def _message_data(message: chats.Message) -> list[Any]:
    """Returns what a message says, without pointers and ids."""
    calls = [
        [c.name.text, None if c.arguments is None else c.arguments.value] for c in message.calls
    ]
    thoughts = [text.text for text in message.thoughts]
    media = [item.value for item in message.media]
    return [message.role, message.text, thoughts, calls, media]


def _json(value: Any) -> int:
    return digest(json.dumps(value, sort_keys=True))


def digest(text: str) -> int:
    """Returns 64 bits that identify a text."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def plain(text: str) -> str:
    """Returns the text made plain: case folded, accents composed, white space as one space."""
    return _SPACE.sub(" ", nfc(text)).strip().casefold()


def nfc(text: str) -> str:
    """Returns a text in NFC, in linear time: Python sorts many accents on a letter in more."""
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


def _written(messages: Sequence[Message], table: TokenTable) -> int:
    """Returns the digest of messages, character for character."""
    return digest("\0".join(e.text for e in events_of(messages, table)))
