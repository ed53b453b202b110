"""A stand-in for a model: it searches for what the user says, and answers with what was found. For demonstrations and tests."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from mypt_infer.formats import of
from mypt_infer.tools import error_type
from mypt_spec.body import call_text
from mypt_spec.encode import tag_ids
from mypt_spec.episode import Event, Message, Part, events_of
from mypt_spec.surface import lex_ids
from mypt_spec.tokens import TEXT

_SENTENCE = re.compile(r"[^.!?]+[.!?]?")
_SHOWN = 200  # characters of a document that are quoted


class Demo:
    """A source for dialects whose assistant block holds a think, a call or text with references: see `Source`."""

    def __init__(self, dialect: str, *, calls: bool = True) -> None:
        self._format, self._calls = of(dialect), calls
        self._ids: list[int] = []
        self._coming: list[int] = []
        self._barred: frozenset[str] = frozenset()

    def bar(self, kinds: frozenset[str]) -> None:
        self._barred = kinds

    def append(self, ids: Sequence[int]) -> None:
        self._ids += ids

    def truncate(self, length: int) -> None:
        del self._ids[length:]
        self._coming = []

    def next(self, left: int) -> int:
        if not self._coming:
            self._coming = self._write()
        self._ids.append(self._coming.pop(0))
        return self._ids[-1]

    def _write(self) -> list[int]:
        """What a model would write now: a call if the user has just spoken, an answer if a tool has."""
        d = self._format.dialect
        events, _ = lex_ids(self._ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
        texts = [
            (events[i - 1].terminal, e.text)
            for i, e in enumerate(events)
            if e.terminal == TEXT and i
        ]
        opener, said = texts[-1] if texts else ("", "")
        if self._format.result is not None and opener == self._format.result.name:
            return self._ids_of(self._answer(json.loads(said)))
        if not self._calls:
            return self._ids_of([Part("text", "There is no workspace that I could search.")])
        body = call_text(
            "workspace.search",
            {"query": " ".join(said.split())[:_SHOWN] or "documents", "top_k": 3},
            d.table.literals,
        )
        return self._ids_of(
            [Part("think", "The workspace may know. I search it."), Part("toolcall", body)]
        )

    def _answer(self, result: Any) -> list[Part]:
        documents = result.get("documents") if isinstance(result, dict) else None
        if error_type(result) or not documents:
            return [Part("text", "The workspace says nothing about that.")]
        first = documents[0]
        text = (
            " ".join(str(first.get("text", "")).split())
            .lstrip("# ")
            .removeprefix(str(first.get("title", "")))
            .strip()
            or "nothing more."
        )
        sentence = max(
            (m[0].strip() for m in _SENTENCE.finditer(text[: 4 * _SHOWN])), key=len, default=""
        )[:_SHOWN]
        return [
            Part("text", f'"{first.get("title", "")}" says: {sentence} '),
            Part("cite", str(first.get("chunk_id", ""))),
        ]

    def _ids_of(self, parts: list[Part]) -> list[int]:
        """Parts of an assistant block, and its end where they are an answer; its beginning is written already."""
        d = self._format.dialect
        known = [
            p
            for p in parts
            if p.kind == "text" or (p.kind in d.table.openers and p.kind not in self._barred)
        ]
        events: list[Event] = list(events_of([Message("assistant", tuple(known))], d.table))[1:]
        if any(p.kind in self._format.calls for p in known):
            events = events[:-1]  # only one tag can follow, and it is put in
        out: list[int] = []
        for event in events:
            out += (
                d.tokenizer.encode(event.text)
                if event.terminal == TEXT
                else tag_ids(event, d.table, d.tokenizer)
            )
        return out
