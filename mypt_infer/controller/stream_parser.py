"""Ids, one at a time, to tags and text: a tag as soon as it is whole, text as soon as it can belong
to no tag.

Cutting is done by the surface of the engine. What is new here is only how much must be held back:
half a character, and text that a tag may begin with. Text is let go a whole id at a time, so that
ids can be counted off exactly.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import Any, NamedTuple

import mypt_spec
from mypt_spec.episode import Event
from mypt_spec.lexer import lex_sentinels
from mypt_spec.table import STRAY, TEXT, TokenTable, pattern


class Piece(NamedTuple):
    """An event, and how many of the ids so far stand before its end;

    `exact` unless it ends inside of the next one.
    """

    event: Event
    end: int
    exact: bool = True


class StreamParser:
    """`push` ids;

    `position` is the number of ids that were let go, `pushed` of all. A fault is an id that can
    stand nowhere.
    """

    def __init__(self, dialect: mypt_spec.Dialect) -> None:
        self._d, self._table = dialect, dialect.table
        self._by_id = {i: self._table.sentinels[s] for s, i in self._table.special.items()}
        self._beginning = _beginning(dialect.name)
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""  # what is held back, single-id tags as sentinels
        self._ends: list[int] = []  # where in it the ids end that are held back
        self.position = 0

    @property
    def pushed(self) -> int:
        return self.position + len(self._ends)

    def push(self, token: int) -> list[Piece]:
        """What is certain now.

        Raises ValueError for an id that means nothing, or bytes that are no UTF-8: the id is not
        taken.
        """
        if token in self._by_id:
            if self._utf8.getstate()[0]:
                raise ValueError("a character is cut in half by a tag")
            piece = self._by_id[token]
        elif 0 <= token < self._d.tokenizer.ordinary:
            before = self._utf8.getstate()
            try:
                piece = self._utf8.decode(self._d.tokenizer.decode_bytes([token]))
            except UnicodeDecodeError:
                self._utf8.setstate(before)
                raise ValueError(f"id {token} makes bytes that are no UTF-8") from None
        else:
            raise ValueError(f"id {token} means nothing in {self._d.name}")
        self._text += piece
        half = bool(self._utf8.getstate()[0])  # of a character that will stand behind the text
        self._ends.append(len(self._text) + half)
        return self._settled(end=False)

    def flush(self) -> list[Piece]:
        """Everything that is held back but half a character: no tag is to follow."""
        return self._settled(end=True)

    def missing(self) -> str:
        """The white space that the format writes behind a tag that is whole but for it; "" where
        there is no such tag.
        """
        last = (
            next(reversed(list(lex_sentinels(self._text, self._table))), None)
            if self._ends
            else None
        )
        terminal = self._table.terminals.get(last.terminal) if last is not None else None
        if last is None or terminal is None or self._utf8.getstate()[0]:
            return ""
        space = terminal.spelling[-1]
        whole = self._text[slice(*(last.at.span or (0, 0)))]
        return (
            space.value
            if space.kind == "space"
            and self._text.endswith(whole)
            and not whole.endswith(space.value)
            else ""
        )

    def _settled(self, *, end: bool) -> list[Piece]:
        cut = self._free(end=end)
        if not cut:
            return []
        out: list[Piece] = []
        for event in lex_sentinels(self._text[:cut], self._table):
            stop = (event.at.span or (0, 0))[1]
            if event.terminal != TEXT:  # its spelling, not the sentinel
                event = event._replace(
                    text=self._table.terminals[event.terminal].spell(event.attrs)
                    if event.terminal != STRAY
                    else event.text
                )
            out.append(
                Piece(event, self.position + sum(e <= stop for e in self._ends), stop in self._ends)
            )
        gone = sum(e <= cut for e in self._ends)
        self.position += gone
        self._ends = [e - cut for e in self._ends[gone:]]
        self._text = self._text[cut:]
        return out

    def _free(self, *, end: bool) -> int:
        """How much of the text is certain: up to a tag that may yet become another, or a beginning
        of one; and then whole ids.
        """
        whole = len(self._text)
        if end or self._beginning is None:
            return self._ids_before(whole, tags=0)
        free, tags, at = whole, 0, 0
        while at < whole:
            match = self._beginning.search(self._text, at, whole, partial=True)
            if match is None:
                break
            if match.partial or (match.end() == whole and self._goes_on(match[0])):
                free = match.start()
                break
            at = tags = match.end()
        return self._ids_before(free, tags=tags)

    def _goes_on(self, tag: str) -> bool:
        """Whether white space that comes next would belong to the tag."""
        behind = {
            t.spelling[-1].value
            for t in self._table.terminals.values()
            if t.spelling[-1].kind == "space"
        }
        return any(not tag.endswith(v) and self._beginning.fullmatch(tag + v) for v in behind)

    def _ids_before(self, free: int, *, tags: int) -> int:
        """The last end of an id, or of a tag, that is not behind `free`."""
        return max([tags, *(e for e in self._ends if e <= free)])


@cache
def _beginning(name: str) -> Any:
    """Finds tags and beginnings of tags, or nothing where every tag is one id: there text is free
    at once.
    """
    table = mypt_spec.dialect(name).table
    if all(
        len(t.spelling) == 1 and t.spelling[0].kind == "special" for t in table.terminals.values()
    ):
        return None
    import regex

    return regex.compile("|".join(_whole(table, name) for name in table.terminals))


def _whole(table: TokenTable, name: str) -> str:
    """A tag with the white space that is written in front of it."""
    terminal = table.terminals[name]
    led = re.escape(terminal.spelling[0].value) if terminal.led else ""
    body = pattern(terminal, table.sentinels).replace("\\s*+", _after(table, name))
    return f"(?:{led}{body}|{body})" if led else body


def _after(table: TokenTable, name: str) -> str:
    """White space inside and behind a tag: only that which the format writes is waited for."""
    values = {p.value for p in table.terminals[name].spelling if p.kind == "space" and not p.exact}
    return f"(?:{'|'.join(re.escape(v) for v in sorted(values))}|)" if values else ""
