"""Turns the ids of an answer into what the API has names for: texts, thoughts, calls, citations.

Input: ids, as they are drawn. Output: a `Delta` as soon as it is certain. A call begins with its
name, and its arguments come in pieces; where the id of a call is its last member, calls come when
their block is closed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mypt_infer.run_format import Format, ToolCall
from mypt_infer.serve.call_stream import (
    CallListStream,
    CallPiece,
    CallStream,
    TaggedStream,
    pieces_of,
)
from mypt_infer.stream_parser import Piece, StreamParser
from mypt_spec.bodies.call_tags import Tags
from mypt_spec.damage.cut_tags import Blocks
from mypt_spec.episode import Event
from mypt_spec.table import LISTS, TEXT

IDS_FIRST = "calls"  # lists in which each call begins with its id
CONTENT, THOUGHT, CITED, CALLED = "content", "reasoning_content", "citations", "tool_calls"


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer: its kind, its text, and how many ids there are up to it.

    `begin` is the number of ids before it. Of calls, the text is a piece of the arguments; `name`
    begins a call, and `id` is what the model has written as its id, `calls` are whole ones, and
    `ended` is said of the last piece.
    """

    kind: str
    text: str
    begin: int
    end: int
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    ended: bool = False
    id: str = ""


class DeltaReader:
    """Reads the ids of one answer. `prompt` tells which blocks are open where it begins."""

    def __init__(self, form: Format, prompt: Sequence[int]) -> None:
        self.format, self._parser = form, StreamParser(form.dialect)
        self._blocks = Blocks(form.dialect.table)
        self._opener: Event | None = None  # of the block of a call
        self._stream: Callable[[str], list[CallPiece]] | None = None  # reads the body of the block
        self._buffer: list[str] = []  # the text of a call, or of a citation
        self._last, self._is_begin = 0, True  # of a text
        events, _ = form.dialect.lex_ids(prompt)
        for event in events:
            self._blocks.read(event.terminal)
        self._types = form.types_in(events)

    def push(self, token: int) -> list[Delta]:
        """Reads an id; returns what is certain now."""
        return [d for piece in self._parser.push(token) for d in self._read(piece)]

    def end(self) -> list[Delta]:
        """Returns what was held back, because no further id comes."""
        return [d for piece in self._parser.flush() for d in self._read(piece)]

    def _read(self, piece: Piece) -> Iterator[Delta]:
        begin, self._last = self._last, piece.end
        event = piece.event
        kind = self._blocks.open[-1] if self._blocks.open else ""
        if event.terminal == TEXT:
            if kind in self.format.calls or kind in self.format.citing:
                self._buffer.append(event.text)
                for part in self._stream(event.text) if self._stream is not None else ():
                    yield Delta(CALLED, begin=begin, end=piece.end, **part._asdict())
            else:
                opener = self.format.dialect.table.openers.get(kind)
                prefix = opener.prefix if opener is not None and self._is_begin else ""
                name = THOUGHT if kind in self.format.thinking else CONTENT
                yield Delta(name, event.text.removeprefix(prefix), begin, piece.end)
            self._is_begin = False
            return
        terminal = self.format.dialect.table.terminals.get(event.terminal)
        if terminal is not None and kind in terminal.ends:
            body, self._buffer = "".join(self._buffer), []
            if kind in self.format.citing:
                yield Delta(CITED, body, begin, piece.end)
            elif self._stream is not None:
                yield Delta(CALLED, "", begin, piece.end, ended=True)
            elif kind in self.format.calls and self._opener is not None:
                raw = (self._opener.text + body + event.text).strip()
                calls, _ = self.format.read_calls(self._opener, body, raw, self._types)
                yield Delta(CALLED, "", begin, piece.end, tuple(calls), ended=True)
            self._stream = None
        self._blocks.read(event.terminal)
        self._is_begin = True
        if terminal is not None and terminal.opens in self.format.calls:
            self._opener, self._buffer = event, []
            if terminal.body == IDS_FIRST:
                self._stream = CallListStream().push
            elif isinstance(terminal.body, Tags):
                if all(terminal.body.function):  # or nothing says where the name or the call ends
                    self._stream = partial(pieces_of, TaggedStream(self._types, terminal.body))
            elif terminal.body not in LISTS and terminal.body != "bare_keys":
                name = dict(event.attrs).get("name", "")
                self._stream = partial(pieces_of, CallStream(terminal.body, name))
                if name:
                    yield Delta(CALLED, "", begin, piece.end, name=name)


class Stopper:
    """Cuts a text at the first of some others; holds back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._buffer = list(stops), ""
        self.stopped = False

    def push(self, text: str, *, last: bool = False) -> str:
        """Returns what of a text may be said now; nothing after the place to stop at."""
        if self.stopped:
            return ""
        text = self._buffer + text
        at = min((i for i in (text.find(s) for s in self._stops) if i >= 0), default=-1)
        if at >= 0:
            self.stopped, self._buffer = True, ""
            return text[:at]
        keep = 0 if last else self._unsure(text)
        self._buffer = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _unsure(self, text: str) -> int:
        """Returns the length of the longest end of a text that a stop begins with."""
        longest = max(map(len, self._stops), default=0)
        for size in range(min(len(text), longest - 1), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
