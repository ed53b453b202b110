r"""Recognises tags of plain text that were cut short, or torn in two by a header put in between.

Input are events, or a piece of content; output are the cut tags with their spans. A model writes
`</tin>` token by token. Stopped too early, it leaves `<`; made to go on in a new block, it writes
the rest of the tag there. `cuts` finds this in a stream of events, `fragment` in a piece of
content. Nothing is repaired here: parsing names what it finds, and only a caller who asks for a
repair gets one. Implements section 6 of grammar/praxis/SPEC.md.

>>> import mypt_spec
>>> d = mypt_spec.dialect("praxis")
>>> text = "[BOS]assistant\n<tin>\n{}\n</ti\n[SEP]\n"
>>> [(cut.spelling, text[slice(*cut.span)]) for cut in cuts(d.lex(text), d.table, d.automaton)]
[('\n</tin>', '\n</ti')]
>>> fragment("Look at </tin now", ("<tin>", "</tin>"))
(8, 13, '</tin>')
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mypt_spec.automaton import Automaton
from mypt_spec.episode import Event, Place
from mypt_spec.memo import lazy_re
from mypt_spec.states import before_tag, open_blocks
from mypt_spec.table import TEXT, Terminal, TokenTable

_SHORTEST = 3  # letters of a cut tag that are enough to know it by
_DEPTH = 8  # deeper than blocks nest


class Blocks:
    """Follows which blocks are open while tags go by, even where these are not legal."""

    def __init__(self, table: TokenTable) -> None:
        self.table = table
        self.open: list[str] = []

    def read(self, name: str) -> None:
        """Passes one tag; a closing tag ends the innermost block that it can close."""
        terminal = self.table.terminals.get(name)
        if terminal is None:
            return
        if terminal.opens:
            stack = before_tag(tuple(self.open), self.table, terminal)
            self.open = [*stack[-_DEPTH:], terminal.opens]
            return
        at = max((i for i, kind in enumerate(self.open) if kind in terminal.ends), default=None)
        if at is not None:
            del self.open[at:]
            if terminal.both and self.open and self.open[-1] in terminal.ends:
                self.open.pop()


class Cut(NamedTuple):
    """A tag in pieces: events `first` to `last`, without `head` and `tail`, are meant to be `tag`.

    `spelling` is its spelling. `split` tells a tag in two pieces, with tags between them, from one
    that ends early. `span` counts code points.
    """

    first: int
    last: int
    head: str
    tail: str
    tag: Terminal
    spelling: str
    split: bool
    span: tuple[int, int]


def cuts(events: Sequence[Event], table: TokenTable, automaton: Automaton) -> list[Cut]:
    """Returns the cut closing tags in a text's events, in order."""
    if not table.plain_tags:
        return []
    nested = nestings(table, automaton)
    needed = _needed(table, automaton)
    blocks = Blocks(table)
    out: list[Cut] = []
    for i, event in enumerate(events):
        stack = tuple(blocks.open[-2:])
        if event.terminal != TEXT:
            blocks.read(event.terminal)
        if stack not in nested or (out and i <= out[-1].last):
            continue
        closer = table.closers.get(stack[1])
        if closer is None or closer not in table.plain_tags:
            continue
        then, find = needed.get(closer.name, ""), _in_text if event.terminal == TEXT else _behind
        if event.terminal in (TEXT, closer.name):
            cut = find(events, i, stack[0], closer, then, table)
            out += [] if cut is None else [cut]
    return out


def nestings(table: TokenTable, automaton: Automaton) -> set[tuple[str, ...]]:
    """Returns the pairs of a block and a block that may be directly inside of it."""
    return {stack[-2:] for stack in open_blocks(automaton, table).values() if len(stack) > 1}


def inner_tags(table: TokenTable, automaton: Automaton) -> tuple[str, ...]:
    """Returns plain-text tags in blocks, which a stop there can cut; none with attributes."""
    if not table.plain_tags:
        return ()
    kinds = sorted({inner for _, inner in nestings(table, automaton)})
    tags = [tag for kind in kinds for tag in (table.openers[kind], table.closers.get(kind))]
    return tuple(tag.shown for tag in tags if tag in table.plain_tags and not tag.patterns)


def repaired(text: str, cuts: Sequence[Cut]) -> str:
    """Returns a text with its cut tags written in full."""
    for cut in reversed(cuts):
        text = text[: cut.span[0]] + cut.spelling + text[cut.span[1] :]
    return text


def mended(events: Sequence[Event], cuts: Sequence[Cut]) -> list[Event]:
    """Returns the events of a text with its cut tags read as the tags they were meant to be."""
    out: list[Event] = []
    at = 0
    for cut in cuts:
        out += events[at : cut.first]
        start, end = cut.span
        if cut.head:
            out.append(Event(TEXT, cut.head, Place("", (start - len(cut.head), start))))
        out.append(Event(cut.tag.name, cut.spelling, Place("", cut.span)))
        if cut.tail:
            out.append(Event(TEXT, cut.tail, Place("", (end, end + len(cut.tail)))))
        at = cut.last + 1
    return [*out, *events[at:]]


def _needed(table: TokenTable, automaton: Automaton) -> dict[str, str]:
    """Maps each tag after which only one terminal may come, an opening tag, to that one."""
    after: dict[str, set[str]] = {}
    for row in automaton.steps:
        for name, following in row.items():
            after.setdefault(name, set()).update(automaton.expected(following))
    openers = {t.name for t in table.terminals.values() if t.opens}
    one = {name: next(iter(names)) for name, names in after.items() if len(names) == 1}
    return {name: behind for name, behind in one.items() if behind in openers}


def _in_text(
    events: Sequence[Event], i: int, outer: str, closer: Terminal, needed: str, table: TokenTable
) -> Cut | None:
    """Returns the cut tag at the end of a block's content; `events[i]` is that text."""
    if i + 1 < len(events) and events[i + 1].terminal == closer.name:
        return None
    tag, text = closer.shown, events[i].text
    text_end = text.rstrip()
    begun = next((tag[:n] for n in range(len(tag) - 1, 0, -1) if text_end.endswith(tag[:n])), "")
    head = text_end[: len(text_end) - len(begun)] if begun else text
    if table.openers[closer.closes].body != "text" and in_string(head):
        return None  # what a string holds is content
    if _header(events, i + 1, outer, table) and i + 3 < len(events):
        third = events[i + 3]
        behind = third.text.lstrip()
        if third.terminal == TEXT and behind.startswith(tag[len(begun) :]):
            return _cut(events, i, i + 3, head, behind[len(tag) - len(begun) :], closer, split=True)
        if third.terminal == closer.name and not begun:
            return _cut(events, i, i + 3, head, "", closer, split=True)
        if begun and third.terminal == needed:
            return _cut(events, i, i + 2, head, "", closer, split=True)
    if begun:
        return _cut(events, i, i, head, "", closer)
    ends = (tag[n:] for n in range(1, len(tag) - _SHORTEST + 1))
    ended = next((end for end in ends if text_end.endswith(end)), "")
    return _cut(events, i, i, text_end[: -len(ended)], "", closer) if ended else None


def _behind(
    events: Sequence[Event], i: int, outer: str, closer: Terminal, needed: str, table: TokenTable
) -> Cut | None:
    """Returns the cut where a header was put in after the tag `events[i]`.

    The block that must follow the tag comes after the header, perhaps with the rest of the tag
    again before it.
    """
    if not needed or not _header(events, i + 1, outer, table):
        return None
    last = i + 2
    if last + 1 < len(events) and events[last + 1].terminal == TEXT:
        last += 1
        again = events[last].text.strip()
        if not again or not closer.shown.endswith(again):
            return None
    if last + 1 >= len(events) or events[last + 1].terminal != needed:
        return None
    span = events[i].at.extent[0], events[last].at.extent[1]
    return Cut(i, last, "", "", closer, events[i].text, True, span)


def _header(events: Sequence[Event], i: int, outer: str, table: TokenTable) -> bool:
    """Returns whether the block around ends at `events[i]`, and one of its kind opens at once."""
    if i + 1 >= len(events):
        return False
    first, second = (table.terminals.get(e.terminal) for e in events[i : i + 2])
    return bool(first and second and outer in first.ends and second.opens == outer)


def _cut(
    events: Sequence[Event],
    first: int,
    last: int,
    head: str,
    tail: str,
    closer: Terminal,
    *,
    split: bool = False,
) -> Cut:
    spelling = closer.shown
    full = closer.spell()
    margin = full.removesuffix(spelling)  # a line break before the tag is its own
    if head.endswith(margin):
        head, spelling = head[: len(head) - len(margin)], full
    elif head == events[first].text and split and events[first + 1].text.startswith(margin):
        spelling = full  # the tag that cut it in took the line break with it
    span = events[first].at.extent[0] + len(head), events[last].at.extent[1] - len(tail)
    return Cut(first, last, head, tail, closer, spelling, split, span)


STRINGS = lazy_re(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)


def in_string(text: str) -> bool:
    """Returns whether a string is still open at the end of this beginning of a JSON text."""
    return any(not match[1] for match in STRINGS.finditer(text))


def fragment(text: str, tags: tuple[str, ...], start: int = 0) -> tuple[int, int, str] | None:
    """Returns the first piece of content, at or after `start`, that looks like a cut tag of `tags`.

    It is (start, end, tag), or None.
    """
    if not tags:
        return None
    begun, ended = fragments(tags)
    matches = [
        match
        for sign, regex in (("<", begun), (">", ended))
        if sign in text and (match := regex.search(text, start))
    ]
    if not matches:
        return None
    first = min(matches, key=re.Match.start)
    return *first.span(), tags[int((first.lastgroup or "t0")[1:])]


def fragment_spots(text: str, tags: tuple[str, ...]) -> Iterator[int]:
    """Yields where joined texts have what is in each piece that `fragment` finds in one of them."""
    return (match.start() for regex in _spots(tags) for match in regex.finditer(text))


@lru_cache(maxsize=32)
def _spots(tags: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Returns patterns of the first and of the last character of cut tags, by what is beside it."""
    complete = [t for t in tags if t.startswith("<") and t.endswith(">")]
    begun = {re.escape(t[1 : min(_SHORTEST, len(t) - 1)]) for t in complete}
    ended = {re.escape(t[2:]) for t in complete if t.startswith("</")}
    return [re.compile(f"<(?={'|'.join(begun)})"), *(re.compile(f">(?<={e})") for e in ended)]


def signs(tags: tuple[str, ...]) -> frozenset[str]:
    """Returns characters without which `fragment` finds nothing in a text."""
    cut = any(tag.startswith("<") and tag.endswith(">") for tag in tags)
    return frozenset("<>" if cut else "")


class Pieces(NamedTuple):
    """What a text must not spell so that `fragment` finds nothing in it.

    `anywhere`: in no place. `words`: only as the beginning of a word in ASCII, or of the tag.
    `first`: not at its beginning. `last`: not at its end, nor with white space after it. A text
    without these is without cut tags; a few texts are among them, too, such as `a/tin>`.
    """

    anywhere: tuple[str, ...]
    words: tuple[str, ...]
    first: tuple[str, ...]
    last: tuple[str, ...]


def pieces(tags: tuple[str, ...]) -> Pieces:
    """Returns the pieces of tags that `fragment` takes for cut ones.

    >>> pieces(("</tin>",))
    Pieces(anywhere=('/tin>',), words=('</tin',), first=('tin>',), last=('</t', '</ti', '</tin'))
    """
    complete = [t for t in tags if t.startswith("<") and t.endswith(">")]
    closing = [t for t in complete if t.startswith("</")]
    last = {t[:n] for t in complete for n in range(_SHORTEST, len(t))}
    anywhere, first = tuple(t[1:] for t in closing), tuple(t[2:] for t in closing)
    return Pieces(anywhere, tuple(t[:-1] for t in complete), first, tuple(sorted(last)))


@lru_cache(maxsize=32)
def fragments(tags: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns patterns for tags without their end, and for tags without their beginning."""
    begun, ended = [], []
    for i, tag in enumerate(tags):
        if not (tag.startswith("<") and tag.endswith(">")):
            continue
        # All but its end, anywhere; or any beginning where the text ends.
        ways = [re.escape(tag[1:-1]) + r"(?![\w>-])"]
        ways += [re.escape(tag[1:n]) + r"(?=\s*\Z)" for n in range(len(tag) - 2, _SHORTEST - 1, -1)]
        begun.append(f"(?P<t{i}>{'|'.join(ways)})")
        if tag.startswith("</"):
            ended.append(rf"(?P<t{i}>(?<![<\w]){re.escape(tag[1:])}|\A{re.escape(tag[2:])})")
    beginnings = re.compile(f"<(?:{'|'.join(begun)})" if begun else r"(?!)")
    return beginnings, re.compile("|".join(ended) or r"(?!)")
