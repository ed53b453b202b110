"""Turns the ids of an answer into what the API has names for: texts, thoughts, calls, citations.

Input: ids, as they are drawn. Output: a `Delta` as soon as it is certain. A call begins with its
name, and its arguments come in pieces; where the id of a call is its last member, calls come when
their block is closed. What a model writes freely may be no legal call: `calls` says what became of
each, and a block without the name of a tool is content, as it was written.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import regex

from mypt_infer.run_format import Format
from mypt_infer.serve.call_stream import (
    CallListStream,
    CallPiece,
    CallStream,
    TaggedStream,
    pieces_of,
)
from mypt_infer.stream_parser import Piece, StreamParser
from mypt_spec.bodies.call_tags import BareKeys, Tags
from mypt_spec.bodies.json_body import Call, calls_in, read_body
from mypt_spec.bodies.tagged import Types
from mypt_spec.damage.cut_tags import Blocks
from mypt_spec.episode import Event, Place
from mypt_spec.states import before_tag
from mypt_spec.table import LISTS, TEXT

IDS_FIRST = "calls"  # lists in which each call begins with its id
CONTENT, THOUGHT, CITED, CALLED = "content", "reasoning_content", "citations", "tool_calls"
NO_CALL = "no call"  # what was to be a call, without the name of a tool: content, as it is written


class CallAttempt(NamedTuple):
    """A call as it was read: `raw` is its block, which is between the ids `begin` and `end`.

    `status` is `ok`, or why it is none: `invalid_json`, `malformed_structure`, `missing_name`, or
    `unclosed_block`. A block that holds several has one attempt for each.
    """

    raw: str
    begin: int
    end: int
    status: str = "ok"
    name: str = ""
    arguments: dict[str, Any] | None = None
    id: str = ""


class Delta(NamedTuple):
    """A piece of an answer: its kind, its text, and how many ids there are up to it.

    `begin` is the number of ids before it. Of calls, the text is a piece of the arguments; `name`
    begins a call, and `id` is what the model has written as its id, `calls` are whole ones, and
    `ended` is said of the last piece.
    """

    kind: str
    text: str
    begin: int
    end: int
    calls: tuple[CallAttempt, ...] = ()
    name: str = ""
    ended: bool = False
    id: str = ""


class DeltaReader:
    """Reads the ids of one answer. `prompt`, ids or text, tells which blocks are open there.

    `types` are those of the arguments of tools; by default, what the prompt defines. `calls` are
    all calls that have been read, `thoughts` where each thought begins and ends, tags included, and
    `thought_begin` where the last one begins. `position` is the number of ids, or characters, that
    have been read.
    """

    def __init__(
        self, form: Format, prompt: Sequence[int] | str, types: Types | None = None
    ) -> None:
        self.format = form
        self.calls: list[CallAttempt] = []
        self._opened, self._is_named = 0, False  # of the block of a call
        self.thoughts: list[tuple[int, int]] = []
        self.thought_begin = self.position = 0
        self._blocks = Blocks(form.dialect.table)
        self._opener: Event | None = None  # of the block of a call
        self._stream: Callable[[str], Iterable[CallPiece]] | None = None  # reads its body
        self._buffer: list[str] = []  # the text of a call, or of a citation
        self._is_begin = True  # of a text
        if isinstance(prompt, str):
            events = form.dialect.lex(prompt)
        else:
            events, _ = form.dialect.lex_ids(prompt)
        for event in events:
            self._blocks.read(event.terminal)
        last, inside = events[-1].terminal if events else "", tuple(self._blocks.open)
        self._parser = StreamParser(form.dialect, last, inside=inside, errors="replace")
        self._types = form.types_in(events) if types is None else types

    @property
    def open(self) -> list[str]:
        """Returns the blocks that are open, outermost first."""
        return self._blocks.open

    @property
    def is_thinking(self) -> bool:
        """Returns whether a thought is open."""
        return not self.format.thinking.isdisjoint(self._blocks.open)

    def push(self, token: int) -> list[Delta]:
        """Reads an id; returns what is certain now."""
        return [d for piece in self._parser.push(token) for d in self._read(piece)]

    def push_text(self, text: str) -> list[Delta]:
        """Reads text in which all tags are spelled; returns what is certain now."""
        return [d for piece in self._parser.push_text(text) for d in self._read(piece)]

    def end(self) -> list[Delta]:
        """Returns what was held back, because no further id comes."""
        out = [d for piece in self._parser.flush() for d in self._read(piece)]
        if self._opener is not None:
            out += self._closed("", self.position, cut=True)
        return out

    def _read(self, piece: Piece) -> Iterator[Delta]:
        begin, self.position = self.position, piece.end
        event = piece.event
        kind = self._blocks.open[-1] if self._blocks.open else ""
        if event.terminal == TEXT:
            if kind in self.format.calls or kind in self.format.citing:
                self._buffer.append(event.text)
                for part in self._parts(event.text):
                    self._is_named = self._is_named or bool(part.name)
                    yield Delta(CALLED, begin=begin, end=piece.end, **part._asdict())
            else:
                opener = self.format.dialect.table.openers.get(kind)
                prefix = opener.prefix if opener is not None and self._is_begin else ""
                name = THOUGHT if kind in self.format.thinking else CONTENT
                yield Delta(name, event.text.removeprefix(prefix), begin, piece.end)
            self._is_begin = False
            return
        table, inside = self.format.dialect.table, tuple(self._blocks.open)
        terminal = table.terminals.get(event.terminal)
        if terminal is not None and kind in terminal.ends:
            if kind in self.format.citing:
                yield Delta(CITED, "".join(self._buffer), begin, piece.end)
            elif self._opener is not None:
                yield from self._closed(event.text, piece.end)
            elif kind in self.format.thinking:
                self.thoughts.append((self.thought_begin, piece.end))
            self._buffer = []
        elif terminal is not None and terminal.closes and not {*terminal.ends} & {*inside}:
            yield Delta(CONTENT, event.text, begin, piece.end)  # it closes nothing
        elif len(before_tag(inside, table, terminal)) < len(inside):  # another block ends this
            if self._opener is not None:
                yield from self._closed("", begin)
            elif kind in self.format.thinking:
                self.thoughts.append((self.thought_begin, begin))
        self._blocks.read(event.terminal)
        self._is_begin = True
        if terminal is not None and terminal.opens in self.format.thinking:
            self.thought_begin = begin
        if terminal is not None and terminal.opens in self.format.calls:
            self._opener, self._buffer = event, []
            self._opened, self._is_named, self._stream = begin, False, None
            if terminal.body == IDS_FIRST:
                self._stream = CallListStream().push
            elif isinstance(terminal.body, Tags):
                if all(terminal.body.function):  # or nothing says where the name or the call ends
                    self._stream = partial(pieces_of, TaggedStream(self._types, terminal.body))
            elif terminal.body not in LISTS and terminal.body != "bare_keys":
                name, ident = (dict(event.attrs).get(key, "") for key in ("name", "id"))
                self._stream = partial(pieces_of, CallStream(terminal.body, name))
                if name:
                    self._is_named = True
                    yield Delta(CALLED, "", begin, piece.end, name=name, id=ident)

    def _parts(self, text: str) -> list[CallPiece]:
        """Returns what a piece of the body of a call tells, up to where it cannot be read."""
        out: list[CallPiece] = []
        try:
            out.extend(self._stream(text) if self._stream is not None else ())
        except (ValueError, TypeError, LookupError, RecursionError):
            self._stream = None
        return out

    def _closed(self, tag: str, end: int, *, cut: bool = False) -> list[Delta]:
        """Returns the end of the open call, whose closing tag is `tag`; "" if it has none."""
        assert self._opener is not None
        opener, body, self._opener, self._stream = self._opener, "".join(self._buffer), None, None
        table, calling = self._blocks.table, self.format.calls
        raw, kind = opener.text + body + tag, table.terminals[opener.terminal].body
        parsed = read_body(body, kind, table.literals, Place())
        if cut and parsed.text is not None:  # what ends the answer may end a call, and is not shown
            ends = [set(t.ends) for t in table.terminals.values() if not calling.isdisjoint(t.ends)]
            cut = all(calling >= kinds for kinds in ends)
        calls, status = list[Call](), "unclosed_block"
        if not cut and parsed.text is not None:
            calls = calls_in(parsed.value, kind, opener.attrs, self._types)
        elif not cut:
            codes = {f.code for f in parsed.findings if f.severity == "error"}
            status = "missing_name" if "MYP306" in codes else "malformed_structure"
            if parsed.value is None and not isinstance(kind, Tags | BareKeys):
                status = "invalid_json"
        at = raw, self._opened, end
        read = tuple(CallAttempt(*at, "ok", *call) for call in calls)
        self.calls += read or [CallAttempt(*at, status)]
        if self._is_named:
            return [Delta(CALLED, "", *at[1:], ended=True)]
        if not calls:
            return [Delta(NO_CALL, *at)]
        return [Delta(CALLED, "", *at[1:], read, ended=True)]


class Stopper:
    """Cuts a text at the first of some others; holds back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._pattern = regex.compile("|".join(map(re.escape, stops))) if stops else None
        self._buffer = ""
        self.stopped = False

    def push(self, text: str, *, last: bool = False) -> str:
        """Returns what of a text may be said now; nothing after the place to stop at."""
        if self.stopped:
            return ""
        text = self._buffer + text
        match = self._pattern.search(text, partial=not last) if self._pattern else None
        self.stopped = match is not None and not match.partial
        at = match.start() if match is not None else len(text)
        self._buffer = text[at:]
        return text[:at]
