"""Turns ids, one at a time, or pieces of text into tags and text.

Input: ids as they are drawn, or text in which all tags are spelled. Output: a tag as soon as it is
whole, a text as soon as it can belong to no tag. The lexer of the engine does the cutting. This
module only decides how much must be held back: half a character, and text that may be the beginning
of a tag.

Theory of operation. `_text` is the text that is held back, `_ends` where each held id ends in it.
After each id, a partial match of all tags finds the first place that may still become a tag, or a
longer one. Everything before that place is certain, is lexed, and leaves in whole ids, so that the
caller can count how many ids belong to each piece. In dialects whose tags are all single ids,
nothing but half a character is ever held back.

In dialect praxis tags are text. " <", "t", "in" and ">" are held back, since they may be a call's
tag. The line break completes it. The space before the tag ends inside the first held id, so its
piece is not exact:

>>> parser = StreamParser(mypt_spec.dialect("praxis"))
>>> for token in (17250, 1279, 83, 259, 29, 198):  # "Hi", " <", "t", "in", ">", line break
...     print([(p.event.terminal, p.end, p.exact) for p in parser.push(token)])
[('TEXT', 1, True)]
[]
[]
[]
[]
[('TEXT', 1, False), ('TIN_OPEN', 6, True)]
"""

import codecs
import re
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import mypt_spec
from mypt_spec.episode import Event
from mypt_spec.lexer import lex_sentinels
from mypt_spec.states import Stack, after_tag
from mypt_spec.table import Terminal, TokenTable, pattern


class Piece(NamedTuple):
    """An event, and the number of ids up to its end; not `exact` if it ends inside the next id."""

    event: Event
    end: int
    exact: bool = True


class StreamParser:
    """Parses ids that are pushed one by one.

    `position` is the number of ids whose events were returned, `pushed` that of all ids. `last` is
    the terminal of the event before the next one, which decides how a tag is spelled there; "" at
    the beginning; `inside` are the blocks that are open there. With `errors="replace"`, bytes that
    are not UTF-8 become U+FFFD, as in `bytes`.
    """

    def __init__(
        self,
        dialect: mypt_spec.Dialect,
        last: str = "",
        *,
        inside: Stack = (),
        errors: str = "strict",
    ) -> None:
        self.last, self.inside = last, inside
        self._d, self._table = dialect, dialect.table
        self._by_id = {i: self._table.sentinels[s] for s, i in self._table.special.items()}
        self._beginning, self._around, self._special, self._longer = _patterns(dialect)
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors)
        # The end of the text that was pushed, which may begin a tag of one id.
        self._unread = ""
        # The text that is held back, with tags of one id as sentinels.
        self._text = ""
        # The ends in it of the ids that are held back.
        self._ends: list[int] = []
        self.position = 0

    @property
    def pushed(self) -> int:
        """Returns the number of ids that were pushed."""
        return self.position + len(self._ends)

    def push(self, token: int) -> list[Piece]:
        """Takes an id; returns the pieces that are now certain.

        Raises ValueError, and does not take the id, if it has no meaning or its bytes are no UTF-8.
        """
        if token in self._by_id:
            try:
                piece = self._utf8.decode(b"", True) + self._by_id[token]
            except UnicodeDecodeError:
                raise ValueError("a character is cut in half by a tag") from None
        elif token in self._d.tokenizer.ordinary:
            before = self._utf8.getstate()
            try:
                piece = self._utf8.decode(self._d.tokenizer.decode_bytes([token]))
            except UnicodeDecodeError:
                self._utf8.setstate(before)
                raise ValueError(f"id {token} makes bytes that are not UTF-8") from None
        else:
            raise ValueError(f"id {token} means nothing in {self._d.name}")
        self._text += piece
        half = bool(self._utf8.getstate()[0])  # of a character that comes after the text
        self._ends.append(len(self._text) + half)
        return self._settled(end=False)

    def push_text(self, text: str) -> list[Piece]:
        """Takes text instead of ids; returns the pieces that are now certain.

        Each character counts as an id, and a tag of one id is what spells it.
        """
        self._unread += text
        special = self._special
        while match := special.search(self._unread, partial=True) if special else None:
            if match.partial:
                break
            self._take(self._unread[: match.start()])
            self._text += self._table.sentinels[match[0]]
            self._ends += [len(self._text)] * len(match[0])
            self._unread = self._unread[match.end() :]
        held = len(self._unread) - match.start() if match else 0
        self._take(self._unread[: len(self._unread) - held])
        self._unread = self._unread[len(self._unread) - held :]
        return self._settled(end=False)

    def _take(self, text: str) -> None:
        self._ends += range(len(self._text) + 1, len(self._text) + len(text) + 1)
        self._text += text

    def flush(self) -> list[Piece]:
        """Returns all that is held back but half a character, because no tag will follow."""
        self._take(self._unread)
        self._unread = ""
        return self._settled(end=True)

    def held(self) -> list[Event]:
        """Returns the events of what is held back, as it is now."""
        return list(lex_sentinels(self._text, self._table, self.last, self.inside))

    def missing(self) -> str:
        """Returns the white space that a tag still needs after it to be whole; "" if none."""
        last = next(reversed(self.held()), None) if self._ends else None
        terminal = self._table.terminals.get(last.terminal) if last is not None else None
        if last is None or terminal is None or self._utf8.getstate()[0]:
            return ""
        space = terminal.spelling[-1]
        spelling = self._text[slice(*last.at.extent)]
        is_complete = space.kind != "space" or spelling.endswith(space.value)
        return space.value if self._text.endswith(spelling) and not is_complete else ""

    def _settled(self, *, end: bool) -> list[Piece]:
        length = self._free(end=end)
        if not length:
            return []
        out: list[Piece] = []
        events = list(lex_sentinels(self._text[:length], self._table, self.last, self.inside))
        before = events[-2].terminal if events[1:] else self.last
        if before in self._table.resumed and not (end or events[-1].text.strip()):
            length -= len(events.pop().text)  # what follows says whether a block goes on with it
        for event in events:
            self.last = event.terminal
            if terminal := self._table.terminals.get(event.terminal):
                self.inside = after_tag(self.inside, terminal, self._table)
                event = event._replace(text=terminal.spell(event.attrs))  # not the sentinel
            stop = event.at.extent[1]
            ended = sum(e <= stop for e in self._ends)
            out.append(Piece(event, self.position + ended, stop in self._ends))
        settled_ids = sum(e <= length for e in self._ends)
        self.position += settled_ids
        self._ends = [e - length for e in self._ends[settled_ids:]]
        self._text = self._text[length:]
        return out

    def _free(self, *, end: bool) -> int:
        """Returns how much of the text is certain, in characters, cut to whole ids."""
        length = len(self._text)
        if end or self._beginning is None:
            return self._ids_before(length, tags=0)
        free, tags, at = length, 0, 0
        while at < length:
            match = self._beginning.search(self._text, at, length, partial=True)
            if match is None:
                break
            wider = self._around and self._around.search(self._text, at, length, partial=True)
            if wider and wider.partial and wider.start() < match.start():
                free = wider.start()
                break
            after = self._text[match.end() :]
            tails = self._longer.get(match[0], ())
            block = self.inside[-1:] if not tags else ()
            longer = any(
                tail.fullmatch(after, partial=True)
                for terminal, tail in tails
                if not terminal.closes or not block or block[0] in terminal.ends
            )
            if match.partial or longer or self._goes_on(match[0], after):
                free = match.start()
                break
            at = tags = match.end()
        return self._ids_before(free, tags=tags)

    def _goes_on(self, tag: str, tail: str) -> bool:
        """Returns whether `tail`, all there is, is white space of the tag, or the tag may grow.

        A tag that ends with an attribute may grow: so it matches with its last character twice.
        """
        if not tail and self._beginning.fullmatch(tag + tag[-1]):
            return True
        ends = (terminal.spelling[-1] for terminal in self._table.spellings)
        return any(
            v.startswith(tail) and not tag.endswith(v) and self._beginning.fullmatch(tag + v)
            for v in {end.value for end in ends if end.kind == "space"}
        )

    def _ids_before(self, free: int, *, tags: int) -> int:
        """Returns the last end of an id, or of a tag, at or before `free`."""
        return max([tags, *(e for e in self._ends if e <= free)])


@lru_cache(32)
def _patterns(
    dialect: mypt_spec.Dialect,
) -> tuple[Any, Any, Any, dict[str, list[tuple[Terminal, Any]]]]:
    """Returns what finds the tags of a dialect in a text that goes on.

    Patterns, for partial matches, are of all tags, None if each is one id; of tags that hold
    others, such as words that quote one; and of those that are one id. The dictionary maps each tag
    to longer tags and patterns of what makes it one, if it comes next; tags of one id are sentinels
    there.
    """
    import regex  # not loaded for the help of a command

    table, longer = dialect.table, dict[str, list[tuple[Terminal, Any]]]()
    rows = [
        (t, t.spell(tuple((a, "\0") for a in t.patterns), table.sentinels)) for t in table.spellings
    ]
    for (_, tag), (other, spelled) in product(rows, rows):
        tail = spelled[len(tag) :]
        if tag != spelled and spelled.startswith(tag) and not tail.isspace():
            values = iter([*other.patterns.values()][tag.count("\0") :])
            parts = (
                f"(?:{next(values)})" if p == "\0" else re.escape(p) for p in re.split("(\0)", tail)
            )
            longer.setdefault(tag, []).append((other, regex.compile("".join(parts))))
    kinds = [(t, [p.kind for p in t.spelling[t.led :]]) for t in table.spellings]
    # A search prefers the whole tag that is quoted to the beginning of the one around it.
    around = [t for t, row in kinds if "special" in row[1:]]
    is_plain = any([p.kind for p in t.spelling] != ["special"] for t in table.terminals.values())
    tags = sorted(table.spellings, key=lambda t: -len(t.shown)) if is_plain else []
    special = [re.escape(tag) for tag in sorted(table.special, key=lambda tag: -len(tag))]
    patterns = [[_tag_pattern(table, t) for t in each] for each in (tags, around)]
    first, second, third = (
        regex.compile("|".join(each)) if each else None for each in (*patterns, special)
    )
    return first, second, third, longer


def _tag_pattern(table: TokenTable, terminal: Terminal) -> str:
    """Returns the pattern of a tag with the white space that is written before it."""
    led = re.escape(terminal.spelling[0].value) if terminal.led else ""
    body = pattern(terminal, table.sentinels).replace("\\s*+", _after(terminal))
    return f"(?:{led}{body}|{body})" if led else body


def _after(terminal: Terminal) -> str:
    """Returns the pattern of the white space in and after a tag: only what the format writes."""
    values = {p.value for p in terminal.spelling if p.kind == "space" and not p.exact}
    return f"(?:{'|'.join(re.escape(v) for v in sorted(values))}|)" if values else ""
