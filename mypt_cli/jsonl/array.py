r"""Cuts one JSON array into its records, in constant memory; or takes one object for a record.

Input are bytes in any pieces; output are blocks as of JSONL: each record is one line, and keeps its
place in the file.

Theory of operation. Only brackets, quotes and line ends are looked at, so a record is found whether
it is valid or not, and the reader of lines says what is wrong in it. White space between tokens
includes `\n`, so a space in its place changes neither the value nor any offset: the record
`{\n "a": 1}` at line 5, column 3, becomes the line `{  "a": 1}`. The offset 3, of `"a"`, is after
one line end of the original bytes, so it is line 6, column 2.

No string of JSON goes over a line end. One that does is taken to end there, so that in an array
with line ends a missing quote spoils one record, and not all that follow.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mypt_cli.jsonl.blocks import HEAD, Block, Origin, Unfinished
from mypt_cli.jsonl.compression import BrokenDataError, FileReader
from mypt_cli.jsonl.line import BOM, read_line
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding

_SPACE = re.compile(rb"[ \t\r\n]*+")
_JUNK = re.compile(rb"[^,\]\[{]*+")
_WORD = re.compile(rb'[^,\]\[{}" \t\r\n]*+')
# All up to the next bracket outside of strings, or to a string without its end.
_INSIDE = re.compile(rb'(?:[^"{}\[\]]++|(?>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"))*+')
_STRING = re.compile(rb'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+')
_BYTES_OF_ONE = bytes(range(0x80, 0xC0))  # all but the first byte of a character
BEGIN, FIRST, NEXT, AFTER, END, ALONE = "begin", "first", "next", "after", "end", "alone"

_HELP = load(Path(__file__).with_suffix(".toml"))


def cut_array(
    pieces: Iterator[bytes], reader: FileReader, *, max_line: int, alone: bool = False
) -> Iterator[Block]:
    """Yields the records in pieces of decompressed bytes that `reader` has read.

    Holds one piece and one record of at most `max_line` bytes. What is wrong between records is a
    block with a `fault`, at its place.
    """
    cutter = _Cutter(max_line, ALONE if alone else BEGIN)
    try:
        for data in pieces:
            cutter.feed(data)
            yield from cutter.complete_blocks(reader.offset)
        cutter.end()
    except BrokenDataError as error:
        at = (Origin(cutter.row, cutter.column, b""),)
        cutter.flush()
        cutter.out.append(Block(b"", cutter.number, 0, broken=str(error), kind="array", origins=at))
    yield from cutter.complete_blocks(reader.offset)


class _Cutter:
    """The state between two pieces: where in the array they meet.

    `number` is that of the next record, `row` and `column` are the place of the next byte.
    """

    def __init__(self, max_line: int, state: str) -> None:
        self.max_line = max_line
        self.state = state
        self.number = self.row = self.column = 1
        self.out: list[Block] = []
        self.ready: list[Origin] = []
        self.again = False  # whether it was said that the array is not alone in its file
        self.is_reported = False  # whether something wrong is just before the next byte
        self.unfinished: Unfinished | None = None
        self.junk = False  # whether that is no record
        self.start = (1, 1)
        self.depth = 0
        self.in_string = self.escaped = False

    def complete_blocks(self, position: int) -> Iterator[Block]:
        self.flush()
        yield from [block._replace(position=position, kind="array") for block in self.out]
        self.out = []

    def flush(self) -> None:
        """Makes a block of the records that are complete."""
        if self.ready:
            data = b"".join([_one_line(origin.raw) for origin in self.ready])
            first = self.number - len(self.ready)
            self.out.append(Block(data, first, 0, origins=tuple(self.ready)))
            self.ready = []

    def feed(self, data: bytes) -> None:
        at = 0
        if self.state in (BEGIN, ALONE) and self.row == self.column == 1 and data.startswith(BOM):
            self._fault_of(read_line(BOM, first=True).spots[0].finding, b"")
            self.column, at = 2, len(BOM)
        while at < len(data):
            if self.unfinished is not None:
                at = self._go_on(data, at, self.unfinished)
                continue
            begin, at = at, _end(_SPACE, data, at)
            self._move(data[begin:at])
            if at < len(data):
                at = self._between(data, at)

    def end(self) -> None:
        """Notes what the end of the file shows."""
        if self.unfinished is not None and (self.junk or self.depth + self.in_string == 0):
            self._finish(self.unfinished)
        if self.unfinished is not None:
            message = f"the file ends in record {self.number}, which begins here"
            self._fault("open", message, self.unfinished.complete(), self.start)
            self.unfinished = None
        elif self.state not in (END, ALONE):
            self._fault("cut", f"the array has no end: the file ends {self._where()}")
        if self.number == 1 and not self.out:
            self.out.append(Block(b"", 1, 0))

    def _where(self) -> str:
        """Returns a place between records, in words."""
        comma = " and its comma" if self.state is NEXT else ""
        return f"after record {self.number - 1}{comma}" if self.number > 1 else "before any record"

    def _between(self, data: bytes, at: int) -> int:
        """Takes a byte of what is between records, or begins one. Returns where to go on."""
        char, state, was_reported = data[at : at + 1], self.state, self.is_reported
        self.is_reported = False
        if char == b"[" and state in (BEGIN, END):
            if state is END:
                self._once("array", "the array has ended, and another begins")
            self.state = FIRST
        elif char == b"]" and state in (FIRST, NEXT, AFTER):
            if state is NEXT:
                self._fault("trailing", "a comma before the end of the array")
            self.state = END
        elif char == b"," and state is AFTER:
            self.state = NEXT
        elif char == b"," and state in (FIRST, NEXT):
            self._fault("double", f"a comma without a record before it, {self._where()}", char)
            self.state = NEXT
        elif char in b"[{" or (char not in b",]}" and state in (FIRST, NEXT)):
            if state is AFTER and not was_reported:
                between = f"between records {self.number - 1} and {self.number}"
                self._fault("comma", f"no comma {between}")
            elif state is ALONE and self.number > 1:
                self._once("alone", "the record has ended, and more follow")
            elif state is END:
                self._once("after", "the array has ended, and more records follow")
            self._begin(junk=False)
            return at
        else:
            self._begin(junk=True).add(char)
            self._move(char)
            return at + 1
        self.column += 1
        return at + 1

    def _begin(self, *, junk: bool) -> Unfinished:
        self.junk, self.depth, self.start = junk, 0, (self.row, self.column)
        self.in_string = self.escaped = False
        self.unfinished = Unfinished(self.max_line)
        return self.unfinished

    def _go_on(self, data: bytes, at: int, unfinished: Unfinished) -> int:
        """Takes more of what is begun. Returns where to go on."""
        begin = at
        if self.junk:
            at = _end(_JUNK, data, at)
            is_complete = at < len(data)
        else:
            at, is_complete = self._record(data, at, is_empty=not unfinished.length)
        unfinished.add(data[begin:at])
        self._move(data[begin:at])
        if is_complete:
            self._finish(unfinished)
        return at

    def _record(self, data: bytes, at: int, *, is_empty: bool) -> tuple[int, bool]:
        """Returns the end of what belongs to the record that is begun, and whether that ends it."""
        while at < len(data):
            if self.in_string:
                at = self._string(data, at)
                if not self.in_string and not self.depth:
                    return at, True
                continue
            if not self.depth and (not is_empty or data[at : at + 1] not in b'"[{'):
                at = _end(_WORD, data, at)  # a number, or a word, or more of it
                return at, at < len(data)
            at = _end(_INSIDE, data, at) if self.depth else at
            char = data[at : at + 1]
            if not char:
                break
            at += 1
            if char == b'"':
                self.in_string = True
            elif char in b"[{":
                self.depth += 1
            else:
                self.depth -= 1
                if not self.depth:
                    return at, True
        return at, False

    def _string(self, data: bytes, at: int) -> int:
        if self.escaped:
            self.escaped = False
            at += data[at : at + 1] != b"\n"
        at = _end(_STRING, data, at)
        char = data[at : at + 1]
        if char == b"\\" and at + 1 == len(data):
            self.escaped = True
            return at + 1
        if char == b"\\":  # before a line end
            at += 1
        if char:
            self.in_string = False
            return at + 1
        return at

    def _finish(self, unfinished: Unfinished) -> None:
        raw, self.unfinished = unfinished.complete(), None
        if self.junk:
            raw = raw.rstrip(b" \t\r\n")
            beginning = raw[:40].decode("utf-8", "replace")
            message = f"{beginning!r} {self._where()} is not part of it"
            self._fault("junk", message, raw, self.start)
            self.is_reported = True
            return
        origin = Origin(*self.start, raw)
        if unfinished.too_long:
            self.flush()
            line = raw.replace(b"\n", b" ")
            self.out.append(Block(line, self.number, 0, unfinished.too_long, origins=(origin,)))
        else:
            self.ready.append(origin)
        self.number += 1
        self.state = self.state if self.state in (END, ALONE) else AFTER

    def _once(self, name: str, message: str) -> None:
        if not self.again:
            self._fault(name, message, b"[")
        self.again = True

    def _fault(
        self, name: str, message: str, raw: bytes = b"", at: tuple[int, int] | None = None
    ) -> None:
        self._fault_of(Finding("MYP015", message, help=_HELP[name]), raw, at)

    def _fault_of(self, fault: Finding, raw: bytes, at: tuple[int, int] | None = None) -> None:
        """Adds what is wrong at a place, by default that of the next byte."""
        self.flush()
        origin = Origin(*(at or (self.row, self.column)), raw[:HEAD])
        message = fault.message
        self.out.append(Block(b"", self.number, 0, 0, message, origins=(origin,), fault=fault))

    def _move(self, piece: bytes) -> None:
        """Moves the place of the next byte; columns count characters."""
        last = piece.rfind(b"\n") + 1
        if last:
            self.row += piece.count(b"\n")
            self.column = 1
        tail = piece[last:] if last else piece
        self.column += len(tail if tail.isascii() else tail.translate(None, _BYTES_OF_ONE))


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    run = pattern.match(data, at)
    return run.end() if run else at


def _one_line(raw: bytes) -> bytes:
    r"""Returns a record as a line: a space in the place of each line end.

    In a string, where no line end can be, it becomes another character that cannot be there.
    """
    if b"\n" not in raw:
        return raw + b"\n"
    if _COMPLETE.fullmatch(raw):
        return raw.replace(b"\n", b" ") + b"\n"
    return (
        _LINE_END.sub(lambda run: b" " if run[0] == b"\n" else run[0].replace(b"\n", b"\v"), raw)
        + b"\n"
    )


# Text in which every string has its end.
_COMPLETE = re.compile(rb'(?:[^"]++|(?>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"))*+')
_LINE_END = re.compile(rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+(?:"|\\?\n)?|\n')
