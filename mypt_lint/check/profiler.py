"""Counts what records hold, by a checker: roles, turns, tokens, and digests of lines.

Much data is sampled: a record is read or not by its own bytes, so the counts are the same for any
number of processes.
"""

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
_json = json.JSONEncoder(ensure_ascii=False).encode
_DIGITS = 3  # of lengths, which are rounded: so there are few of them


def profiled(checker: Checker, lines: Iterable[bytes]) -> Profile:
    """Returns the profile of lines."""
    out = Profile(checker.profiled)
    for raw in filter(None, map(bytes.strip, lines)):
        out.digests.frombytes(blake2b(raw, digest_size=8).digest())
        if checker.profiled > 1 and crc32(raw) % checker.profiled:
            continue
        out.counts["all"]["records"] += 1
        try:
            _count(checker, read_line(raw).value, out)
        except Exception:  # the check of the line says what is wrong with it
            out.counts["all"]["unread"] += 1
    return out


def _count(checker: Checker, record: Any, out: Profile) -> None:
    """Adds a record. Raises ValueError where it holds no conversation, or anything else."""
    table, chat, tools = checker.dialect.table, None, list[Any]()
    if checker.shape:
        from mypt_records.shapes import read

        chat = read(record, checker.shape)
        tools = [tool.value for tool in chat.tools or ()]
    if chat is None:
        episode = checker.dialect.read(record)[0]
    else:
        episode = None if checker.formatless else convert_in(checker)(record, chat)[0]
    if chat is not None and chat.messages:
        texts = [(m.role, _text(m)) for m in (*chat.messages, *chat.rejected)]
        turns = sum(message.role == "user" for message in chat.messages)
    elif episode is not None:
        blocks = [m for m in episode.messages if m.role in table.openers]
        texts = [(m.role, "".join([part.text for part in m.parts])) for m in blocks]
        turns = len(turn_starts(episode.messages, table))
    else:
        raise ValueError("no conversation")
    exact = _exact(checker, chat, episode)
    if exact:
        out.counts["all"].update(counted=exact[0], trained=exact[1])
    bytes_ = "".join([*(text for _, text in texts), *map(_json, tools)]).encode("utf-8", "replace")
    tokens = exact[0] if exact else len(bytes_) // _BYTES_A_TOKEN
    out.counts["all"]["tokens"] += tokens
    out.counts["lengths"][round(tokens, min(0, _DIGITS - len(str(tokens))))] += 1
    out.counts["turns"][turns] += 1
    for role, text in texts:
        out.counts["messages"][role] += 1
        out.counts["characters"][role] += len(text)


def _exact(checker: Checker, chat: Chat | None, episode: Episode | None) -> tuple[int, int] | None:
    """Returns the number of tokens and of trained ones; None where only an estimate helps."""
    if chat is not None and (sizes := getattr(checker.by_model, "sizes", None)):
        counts: tuple[int, int] | None = sizes(chat)
        return counts
    try:
        encoded = checker.dialect.encode(episode) if episode is not None else None
    except (ValueError, RuntimeError):  # it is not legal; there is no vocabulary
        return None
    return (len(encoded), int(encoded.loss.sum())) if encoded is not None else None


def _text(message: Any) -> str:
    """Returns all that a message of a chat says."""
    calls = [c.name.text + _json(c.arguments and c.arguments.value) for c in message.calls]
    return "".join([*(t.text for t in (*(message.content or ()), *message.thoughts)), *calls])
