"""Stands in for a model: searches for what the user says, and answers with what was found.

For demonstrations and tests: all but the model is real.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from mypt_infer.controller.source import Script
from mypt_infer.decode.compile.call_graph import body_of
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import error_type
from mypt_infer.workspace.index.terms import STOP, concepts, terms_of
from mypt_spec import Dialect
from mypt_spec.bodies.call_tags import ALONE
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event, Message, Part, events_of
from mypt_spec.table import TEXT
from mypt_spec.validator import Run

_SENTENCE = re.compile(r"[^.!?]+[.!?]?")
# The most characters of a document that are quoted.
_LETTERS = 200
# The most words of a question that are looked for.
_WORDS = 48


class Demo(Script):
    """A source of ids that thinks and cites if the dialect can; with `calls`, it calls a tool."""

    def __init__(self, dialect: str | Dialect, *, calls: bool = True) -> None:
        super().__init__([])
        self._format, self._calls = format_of(dialect), calls
        self._coming: list[int] = []
        # The text that the last call searches for.
        self._query = ""
        self._forbidden: frozenset[str] = frozenset()

    def forbid(self, kinds: frozenset[str]) -> None:
        self._forbidden = kinds

    def append(self, ids: Sequence[int]) -> None:
        super().append(ids)
        same = self._coming[: len(ids)] == list(ids)
        self._coming = self._coming[len(ids) :] if same else []

    def truncate(self, length: int) -> None:
        super().truncate(length)
        self._coming = []

    def next(self, left: int = 0) -> int:
        self._coming = self._coming or self._write()
        self.context.append(self._coming.pop(0))
        return self.context[-1]

    def _write(self) -> list[int]:
        """Returns what a model would write: a call after a question, an answer after a result."""
        d = self._format.dialect
        events, _ = d.lex_ids(self.context)
        state = Run(d.table, d.automaton, spaces=False, complete=False).check(events).state
        inside, text = [("", ""), *self._format.texts_in(events)][-1]
        if self._format.result is not None and inside == self._format.result.opens:
            return self._ids_of(self._answer(json.loads(text)), state)
        if not self._calls:
            return self._ids_of([Part("text", "There is no workspace that I could search.")], state)
        self._query = text.rpartition("\n\n")[2]  # definitions of tools may be before a question
        arguments = {"query": " ".join(self._query.split())[:_LETTERS] or "documents", "top_k": 3}
        thought = Part("think", "The workspace may know. I search it.")
        name, kind = "workspace.search", min(self._format.calls)
        body = d.table.openers[kind].body
        attrs = (("name", name),) if body in ALONE else ()
        call = Part(kind, body_of(body, name, arguments, d.table.literals), attrs)
        return self._ids_of([thought, call], state)

    def _answer(self, result: Any) -> list[Part]:
        documents = result.get("documents") if isinstance(result, dict) else None
        fitting = (d for d in documents or () if _fits(d, self._query))
        first = None if error_type(result) else next(fitting, None)
        if first is None:
            return [Part("text", "Nothing found: the workspace says nothing about that.")]
        title, text = str(first.get("title", "")), " ".join(str(first.get("text", "")).split())
        text = text.lstrip("# ").removeprefix(title).strip() or "nothing more."
        sentences = (m[0].strip() for m in _SENTENCE.finditer(text[: 4 * _LETTERS]))
        sentence = max(sentences, key=len, default="")[:_LETTERS]
        quote = Part("text", f'"{title}" says: {sentence} ')
        return [quote, Part("cite", str(first.get("chunk_id", "")))]

    def _ids_of(self, parts: list[Part], state: int) -> list[int]:
        """Returns the ids of an assistant block and, after an answer, of the turn's end."""
        d, table = self._format.dialect, self._format.dialect.table
        events: list[Event] = []
        opener = table.openers.get("assistant")
        if opener is not None and opener.name in d.automaton.allowed(state):
            events.append(Event(opener.name, opener.spell()))
            state = d.automaton.step(state, opener.name)
        for part in self._fitting(parts):
            written = self._written(part, state)
            for event in written:
                state = d.automaton.step(state, event.terminal)
            events += written
        if parts[-1].kind not in self._format.calls:
            ways = self._format.ending(state)
        else:
            ways = self._closing(state)
        events += [Event(name, table.terminals[name].spell()) for name in ways]
        out: list[int] = []
        for event in events:
            if event.terminal == TEXT:
                out += d.tokenizer.encode(event.text)
            else:
                out += tag_ids(event, table, d.tokenizer, trail=False)
        return out

    def _closing(self, state: int) -> list[str]:
        """Returns the tag that ends the assistant's block, if the result of a call comes next."""
        machine = self._format.dialect.automaton
        closer = self._format.dialect.table.closers.get("assistant")
        if closer is None or closer.name not in machine.allowed(state):
            return []
        return [closer.name] if self._format.awaits(machine.step(state, closer.name)) else []

    def _fitting(self, parts: list[Part]) -> list[Part]:
        """Returns the parts, with references as text if the format has no block for them."""
        if "cite" in self._format.dialect.table.openers:
            return parts
        spellings = {"text": "{}", "cite": "({})"}
        text = "".join(spellings[p.kind].format(p.text) for p in parts if p.kind in spellings)
        others = [p for p in parts if p.kind not in spellings]
        return [*others, Part("text", text)] if text else others

    def _written(self, part: Part, state: int) -> list[Event]:
        """Returns the events of a part: its block, or text, in a block if the format wants one."""
        d, table = self._format.dialect, self._format.dialect.table
        allowed = d.automaton.allowed(state)
        text = self._format.harmless(part.text) if part.kind == "text" else part.text
        if part.kind == "text" and TEXT in allowed:
            return [Event(TEXT, text)]
        kinds = {"text": self._speaking, "think": self._format.thinking}.get(part.kind, {part.kind})
        for kind in sorted(kinds & set(table.openers) - self._forbidden):
            if table.openers[kind].name in allowed:
                written = list(events_of([Message(kind, (Part("text", text),), part.attrs)], table))
                return written[:-1] if kind in self._last else written
        return []

    @property
    def _last(self) -> tuple[str, ...]:
        """Returns the kinds of block that the end of a conversation closes."""
        mark = self._format.dialect.table.terminals.get(self._format.final)
        return () if mark is None else mark.ends

    @property
    def _speaking(self) -> set[str]:
        """Returns the kinds of block that hold the model's answer."""
        mine = (t for t in self._format.dialect.table.openers.values() if t.by_model)
        kinds = {t.opens for t in mine if t.body == "text"} - self._format.thinking
        return kinds & set(self._last) or kinds


def _fits(document: Any, question: str) -> bool:
    """Returns whether a document has a word of the question: searches always find something."""
    text = f"{document.get('title', '')} {document.get('text', '')}"
    here = {term for language in STOP for term in terms_of(text, language, stop=False)}
    return any(here.intersection(terms) for _, terms in concepts(question, [*STOP], _WORDS))
