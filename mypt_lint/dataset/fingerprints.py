"""Makes digests of 64 bits, by which the rules of the data set compare episodes and chats.

Texts are compared as they are, or made plain: without what people do not see in them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple
from unicodedata import combining, is_normalized, normalize

from mypt_records.chat import Chat
from mypt_spec.episode import Episode
from mypt_spec.history import turn_starts
from mypt_spec.table import TokenTable

_MARKS = re.compile(r"[^\w\s\x00-\u02ff]{32,}")  # long runs that may be accents
_UNPROMPTED = ("system", "developer")  # texts that conversations have in common
_KINDS = {"assistant": "answer", "user": "question"}
_BETWEEN = " \0 "  # so that white space at the end of a text is that of the end of a message
_encode = json.JSONEncoder(sort_keys=True).encode


class Answer(NamedTuple):
    """An answer: digests of all before it and of itself, and its pointer."""

    context: int
    digest: int
    at: str


class _Turn(NamedTuple):
    """A message: its structure, all that it says, its plain text, what it is, and its pointer."""

    head: str
    text: str
    spoken: str
    kind: str
    at: str


class Fingerprint(NamedTuple):
    """What is compared of a conversation.

    `everything` is the digest of all of it, `toolless` that of all but the declared tools, `plain`
    that of all with its texts made plain. `answers` are the answers of the model that have a text,
    `final` is the text of the last one, made plain. What `is_judged`, with two answers or a label,
    has one of `answers`: the digest of what is judged, and that of the judgement. `questions` are
    the user's messages, made plain, with their pointers. `text` is what is said, made plain,
    without system prompts.
    """

    everything: int
    toolless: int
    plain: int
    answers: tuple[Answer, ...]
    final: str | None
    questions: tuple[tuple[str, str], ...]
    text: str
    is_judged: bool

    def question_digests(self) -> list[int]:
        """Returns the digest of each of the first questions, up to all of them."""
        return _running([text for text, _ in self.questions])[1:]


def of_episode(episode: Episode, table: TokenTable) -> Fingerprint:
    openers, starts = table.openers, set(turn_starts(episode.messages, table))
    turns = []
    for i, m in enumerate(episode.messages):
        by_model = m.role in openers and openers[m.role].body_by_model and m.text.strip()
        kind = "answer" if by_model else "question" if i in starts else m.role
        places = [p.at.pointer for p in m.parts if by_model or p.kind == "text"] or [""]
        head = repr((m.role, m.attrs, [(p.kind, p.attrs) for p in m.parts]))
        texts = _BETWEEN.join([p.text for p in m.parts])
        turns.append(_Turn(head, texts, m.text, kind, places[-1 if by_model else 0]))
    return _of_turns(turns, len(turns))


def of_chat(chat: Chat) -> Fingerprint:
    """Returns what is compared of a chat. Ids of calls do not count."""
    turns = []
    for m in (*chat.messages, *chat.rejected):
        spoken = text = m.text
        kind, at = _KINDS.get(m.role, m.role), m.at
        if kind == "answer":
            kind, at = kind if spoken.strip() else "", m.content[0].at if m.content else at
        if m.thoughts or m.calls or m.media:
            calls = [[c.name.text, c.arguments and c.arguments.value] for c in m.calls]
            thoughts = [thought.text for thought in m.thoughts]
            beside = _encode([thoughts, calls, [item.value for item in m.media]])
            text = f"{beside}{_BETWEEN}{spoken}"
        turns.append(_Turn(m.role, text, spoken, kind, at))
    label = "" if chat.label is None else repr(chat.label.value)
    tools = _encode([tool.value for tool in chat.tools]) if chat.tools else ""
    return _of_turns(turns, len(chat.messages), label, tools, chat.shared)


def _of_turns(
    turns: Sequence[_Turn], count: int, label: str = "", tools: str = "", shared: int = 0
) -> Fingerprint:
    """Returns what is compared of messages; those after the first `count` are the other answer."""
    exact = [f"{t.head}\0{t.text}" for t in turns]
    texts = [plain(t.text) for t in turns]
    spoken = [
        text if t.spoken is t.text else plain(t.spoken)
        for t, text in zip(turns, texts, strict=True)
    ]
    contexts = _running([tools, *exact[:count]])[1:]
    toolless_digest = digest("\0".join([label, str(count), *exact]))
    answers = tuple(
        Answer(contexts[i], digest(exact[i]), t.at)
        for i, t in enumerate(turns[:count])
        if t.kind == "answer"
    )
    final = [spoken[i] for i, t in enumerate(turns[:count]) if t.kind == "answer"][-1:]
    is_judged = bool(label) or count < len(turns)
    if is_judged:
        sides = ["\0".join(exact[shared:count]), "\0".join(exact[count:])]
        judged = "\0".join([tools, *exact[:shared], *sorted(sides)])
        answers = (Answer(digest(judged), digest(label or sides[0]), ""),)
    heads = [t.head for t in turns]
    return Fingerprint(
        digest(f"{tools}\0{toolless_digest}"),
        toolless_digest,
        digest("\0".join([tools, label, str(count), *heads, *texts])),
        answers,
        final[0] if final else None,
        tuple((spoken[i], t.at) for i, t in enumerate(turns[:count]) if t.kind == "question"),
        " ".join(text for text, t in zip(texts, turns, strict=True) if t.kind not in _UNPROMPTED),
        is_judged,
    )


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
    if text.isascii() or is_normalized("NFC", text):
        return text
    return normalize("NFC", _MARKS.sub(_in_order, text))


def _in_order(run: re.Match[str]) -> str:
    chars = [part for char in run[0] for part in normalize("NFD", char)]
    groups = groupby(chars, key=lambda char: combining(char) > 0)
    return "".join([char for _, group in groups for char in sorted(group, key=combining)])
