"""Counts what records hold, by a checker, for the profile of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any
from zlib import crc32

from mypt_cli.jsonl.line import read_line
from mypt_lint.check.checker import Checker, convert_in
from mypt_lint.check.profile import Profile
from mypt_records.chat import Chat
from mypt_spec.episode import Episode
from mypt_spec.history import turn_starts

_BYTES_A_TOKEN = 4  # of UTF-8, where no vocabulary counts
_DIGITS = 3  # of lengths, which are rounded: so there are few of them


class Profiler:
    """Reads the records of one checker; belongs to one thread."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def block(self, lines: Iterable[bytes]) -> Profile:
        """Returns the counts of lines."""
        every = self._checker.profiled
        out = Profile(every)
        for line in lines:
            raw = line.strip()
            if not raw:
                continue
            out.digests.frombytes(blake2b(raw, digest_size=8).digest())
            if every == 1 or not crc32(raw) % every:
                out.records += 1
                try:
                    self._count(read_line(raw).value, out)
                except Exception:  # the check of the line says what is wrong with it
                    out.unread += 1
        return out

    def _count(self, record: Any, out: Profile) -> None:
        """Adds a record. Raises ValueError where it holds no conversation, or anything else."""
        from mypt_records.shapes import read

        checker, chat, episode = self._checker, None, None
        if checker.shape:
            chat = read(record, checker.shape)
            if not checker.formatless:
                episode = convert_in(checker)(record, chat)[0]
        else:
            episode = checker.dialect.read(record)[0]
        texts = [*(_of_chat(chat) if chat and chat.messages else self._of_episode(episode))]
        if not texts:
            raise ValueError("no conversation")
        if chat:
            turns = sum(role == "user" for role, _ in texts)
        else:
            turns = len(turn_starts(episode.messages, checker.dialect.table)) if episode else 0
        tools = [tool.value for tool in (chat and chat.tools) or ()]
        sizes = self._sizes(chat, episode)
        spelled = "".join([*(text for _, text in texts), *map(_json, tools)])
        size = len(spelled.encode("utf-8", "replace"))
        tokens = sizes[0] if sizes else size // _BYTES_A_TOKEN
        for role, text in texts:
            out.messages[role] += 1
            out.characters[role] += len(text)
        out.turns[turns] += 1
        out.lengths[round(tokens, min(0, _DIGITS - len(str(tokens))))] += 1
        out.tokens += tokens
        if sizes:
            out.counted += sizes[0]
            out.trained += sizes[1]

    def _of_episode(self, episode: Episode | None) -> Iterable[tuple[str, str]]:
        openers = self._checker.dialect.table.openers
        for message in episode.messages if episode else ():
            if message.role in openers:
                yield message.role, "".join([part.text for part in message.parts])

    def _sizes(self, chat: Chat | None, episode: Episode | None) -> tuple[int, int] | None:
        """Returns the number of tokens and of trained ones; None where only an estimate helps."""
        sizes = getattr(self._checker.by_model, "sizes", None)
        if sizes is not None:
            return sizes(chat) if chat else None
        if episode is None:
            return None
        try:
            encoded = self._checker.dialect.encode(episode)
        except (ValueError, RuntimeError):  # it is not legal; there is no vocabulary
            return None
        return len(encoded), int(encoded.loss.sum())


def _of_chat(chat: Chat) -> Iterable[tuple[str, str]]:
    """Yields the role of each message, and all that it says."""
    for message in (*chat.messages, *chat.rejected):
        texts = [text.text for text in (*(message.content or ()), *message.thoughts)]
        calls = [f"{c.name.text}{_json(c.arguments and c.arguments.value)}" for c in message.calls]
        yield message.role, "".join(texts + calls)


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
