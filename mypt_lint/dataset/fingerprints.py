"""Makes digests of 64 bits, by which the rules of the data set compare episodes and chats.

Texts are compared as they are, or made plain: without what people do not see in them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple
from unicodedata import combining, normalize

from mypt_records import chat as chats
from mypt_records.chat import Chat
from mypt_spec.episode import Episode, Message, events_of
from mypt_spec.history import turn_starts
from mypt_spec.table import TokenTable

_MARKS = re.compile(r"[^\w\s\x00-\u02ff]{32,}")  # long runs that may be accents
_UNPROMPTED = ("system", "developer")  # texts that conversations have in common
_encode = json.JSONEncoder(sort_keys=True).encode


class Answer(NamedTuple):
    """An answer: digests of all before it and of itself, its text, and its pointer."""

    context: int
    digest: int
    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is compared of a conversation.

    `everything` is the digest of all of it, `toolless` that of all but the declared tools (None
    where none can be declared), `plain` that of all with its texts made plain. `answers` are the
    answers of the model that have a text; of chats with two answers, or with a label, there are
    none, as the same prompt is meant to have several there. `final` is the text of the last one.
    `questions` are the user's messages, made plain, with their pointers. `text` is what is said,
    made plain, without system prompts.
    """

    everything: int
    toolless: int | None
    plain: int
    answers: tuple[Answer, ...]
    final: str | None
    questions: tuple[tuple[str, str], ...]
    text: str

    def question_digests(self) -> list[int]:
        """Returns the digest of each of the first questions, up to all of them."""
        texts = [text for text, _ in self.questions]
        return _running(texts)[1:]


def of_episode(episode: Episode, table: TokenTable) -> Fingerprint:
    messages, openers = episode.messages, table.openers
    said = [(m.role, m.attrs, [(p.kind, p.attrs, p.text) for p in m.parts]) for m in messages]
    plain_parts = [[plain(p.text) for p in m.parts] for m in messages]
    contexts = _running(map(repr, said))
    answers = tuple(
        Answer(contexts[i], digest(repr(said[i][2])), m.text, m.parts[-1].at.pointer)
        for i, m in enumerate(messages)
        if m.role in openers and openers[m.role].body_by_model and m.text.strip()
    )
    return Fingerprint(
        _written(messages, table),
        None,
        digest(
            repr([(m.role, m.attrs, [p.kind for p in m.parts]) for m in messages] + plain_parts)
        ),
        answers,
        answers[-1].text if answers else None,
        tuple(
            (plain(m.text), next((p.at.pointer for p in m.parts if p.kind == "text"), ""))
            for m in (messages[i] for i in turn_starts(messages, table))
        ),
        " ".join(
            [
                text
                for m, texts in zip(messages, plain_parts, strict=True)
                for text in texts
                if m.role not in _UNPROMPTED
            ]
        ),
    )


def of_chat(chat: Chat) -> Fingerprint:
    """Returns what is compared of a chat. Ids of calls do not count."""
    everything = (*chat.messages, *chat.rejected)
    raw = [m.text for m in everything]
    texts = [plain(text) for text in raw]
    heads = [f"{m.role}\0{_beside(m)}\0" for m in everything]
    exact = list(map(str.__add__, heads, raw))
    label = "" if chat.label is None else repr(chat.label.value)
    tools = _encode([tool.value for tool in chat.tools]) if chat.tools else ""
    count = len(chat.messages)
    toolless = "\0".join([label, str(count), *exact])
    contexts = _running([tools, *exact[:count]])[1:]
    answers = [
        Answer(contexts[i], digest(exact[i]), raw[i], m.content[0].at if m.content else m.at)
        for i, m in enumerate(chat.messages)
        if m.role == "assistant" and raw[i].strip()
    ]
    return Fingerprint(
        digest(f"{tools}\0{toolless}"),
        digest(toolless),
        digest("\0".join([tools, label, str(count), *map(str.__add__, heads, texts)])),
        () if chat.rejected or label else tuple(answers),
        answers[-1].text if answers else None,
        tuple((texts[i], m.at) for i, m in enumerate(chat.messages) if m.role == "user"),
        " ".join(
            part
            for head, text, m in zip(heads, texts, everything, strict=True)
            if m.role not in _UNPROMPTED
            for part in (head[len(m.role) + 1 :], text)
        ),
    )


def _beside(message: chats.Message) -> str:
    """Returns what a message says beside its text, without pointers and ids."""
    if not (message.thoughts or message.calls or message.media):
        return ""
    calls = [
        [c.name.text, None if c.arguments is None else c.arguments.value] for c in message.calls
    ]
    thoughts = [thought.text for thought in message.thoughts]
    return _encode([thoughts, calls, [item.value for item in message.media]])


def _running(texts: Iterable[str]) -> list[int]:
    """Returns the digests of nothing, of the first text, of the first two, and so on."""
    state = blake2b(digest_size=8)
    out = [_number(state.digest())]
    for text in texts:
        state.update(b"%d " % len(text) + text.encode("utf-8", "surrogatepass"))
        out.append(_number(state.digest()))
    return out


def digest(text: str) -> int:
    """Returns 64 bits that identify a text."""
    return _number(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")


def plain(text: str) -> str:
    """Returns the text made plain: case folded, accents composed, white space as one space."""
    return " ".join(nfc(text).split()).casefold()


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
