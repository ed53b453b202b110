"""Reads conversations of the past: out of files of transcripts, and turn by turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mypt_infer.chat.journal import Journal
from mypt_infer.controller.history import History
from mypt_infer.controller.transcript import KEY
from mypt_spec.lexer import lex_ids
from mypt_spec.states import Stack, after_tag
from mypt_spec.table import TEXT


class PastChat(NamedTuple):
    """A conversation of a file: its record, the file, and its line there."""

    record: dict[str, Any]
    path: Path
    line: bytes


def find(place: str) -> PastChat:
    """Returns a conversation: the last one of a file, or that of line N of it, for `FILE:N`.

    What a killed chat has left for the file is added to it first. Raises OSError, or ValueError
    saying where there is no conversation that can be continued.
    """
    name, _, number = place.rpartition(":")
    path, nth = Path(place).expanduser(), 0
    if name and number.isascii() and number.isdigit() and not path.exists():
        path, nth = Path(name).expanduser(), int(number)
    Journal(path).recover()
    match = None
    with path.open("rb") as file:
        for at, line in enumerate(file, 1):
            if at == nth or (not nth and f'"{KEY}"'.encode() in line):
                match = at, line
            if at == nth:
                break
    if match is None:
        none = f"no line {nth}" if number and nth else "no conversation of a chat"
        raise ValueError(f"{path}: it has {none}")
    at, line = match
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}:{at}: this is not valid JSON: {error}") from None
    if not isinstance(record, dict) or KEY not in record:
        raise ValueError(
            f'{path}:{at}: this record has no "{KEY}"; only what a chat has kept can be continued'
        )
    return PastChat(record, path, line)


def exchanges(record: dict[str, Any], history: History) -> list[tuple[str, str]]:
    """Returns what was said in each turn of a record: by the user, and as the answer."""
    answers: list[str] = []
    for kind, fields in record[KEY]["events"]:
        if kind == "TurnStart":
            answers.append("")
        elif kind == "TextDelta":
            answers[-1] += fields["text"]
    ends = [*history.turns[1:], len(history.ids)]
    turns = [history.ids[begin:end] for begin, end in zip(history.turns, ends, strict=True)]
    questions = [_first(history, ids, lambda kind: kind == "user") for ids in turns]
    return list(zip(questions, answers, strict=True))


def system(history: History) -> str:
    """Returns the system prompt of a conversation; "" if it has none."""
    return _first(history, history.ids[: history.head], bool)


def _first(history: History, ids: list[int], is_in: Callable[[str], bool]) -> str:
    """Returns the first text in a block of a kind that is wanted; "" if there is none."""
    d = history.dialect
    stack: Stack = ()
    events, _ = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    for event in events:
        if event.terminal != TEXT:
            stack = after_tag(stack, d.table.terminals[event.terminal], d.table)
        elif is_in(stack[-1] if stack else ""):
            return event.text
    return ""
