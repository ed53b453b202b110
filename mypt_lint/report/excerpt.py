"""Makes the source line under a finding visible on any terminal, cut around the mark."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len

from mypt_cli.terminal import HIDDEN, Display, escape
from mypt_lint.check.diagnostic import Snippet

_JOINER = "\u200d"
_LEAST = 20


class Excerpt(NamedTuple):
    """The text to print, and where the carets go under it, counted in terminal cells.

    `mark` is the marked part in code points of the text.
    """

    text: str
    indent: int
    carets: int
    mark: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Cluster:
    """Characters that share their cells: a letter with accents, an emoji sequence, or an escape.

    A `solid` cluster is spelled out, so nothing may be joined to it.
    """

    start: int
    text: str
    solid: bool
    width: int = 0


def clusters(text: str, display: Display) -> list[Cluster]:
    """Returns the text cut into what must stay together; every character is shown."""
    special = {"\n": display.newline, "\t": display.tab}
    out: list[Cluster] = []
    for at, char in enumerate(text):
        last = out[-1] if out else None
        if HIDDEN.match(char):
            out.append(Cluster(at, special.get(char) or escape(char), True))
        elif char.isascii():
            out.append(Cluster(at, char, False))
        elif last and not last.solid and _joins(char, last.text):
            last.text += char
        elif cell_len(char) == 0:
            # It has no cell to share; spelled out, it can be seen and counted.
            out.append(Cluster(at, escape(char), True))
        else:
            out.append(Cluster(at, char, False))
    for cluster in out:
        cluster.text = display.printable(cluster.text)
        cluster.width = cell_len(cluster.text)
    return out


def _joins(char: str, before: str) -> bool:
    """Returns whether the character takes no new cells; a joiner joins wide ones only."""
    if cell_len(char) == 0:
        return True
    wide = cell_len(char) == 2 and cell_len(before[0]) == 2
    return wide and (before.endswith(_JOINER) or "\U0001f3fb" <= char <= "\U0001f3ff")


def excerpt(snippet: Snippet, display: Display, width: int) -> Excerpt:
    """Returns the snippet in `width` cells (at least a few), with as much of the mark as fits."""
    parts = clusters(snippet.text, display)
    starts, widths, count = [c.start for c in parts], [c.width for c in parts], len(parts)
    begin = min(max(snippet.mark[0], 0), len(snippet.text))
    end = min(max(snippet.mark[1], begin), len(snippet.text))
    # A mark inside a cluster is widened to the whole of it; an empty mark is on the next cluster.
    first = bisect_right(starts, begin) - 1 if begin < len(snippet.text) else count
    last = max(bisect_left(starts, end), min(first + 1, count))
    dots = display.ellipsis
    low, high, room = 0, count, max(width, _LEAST)
    if sum(widths) + len(dots) * (snippet.cut_left + snippet.cut_right) > room:
        low, high = _window(widths, first, last, room - 2 * len(dots))
    cut_left, cut_right = snippet.cut_left or low > 0, snippet.cut_right or high < count
    before, after = dots if cut_left else "", dots if cut_right else ""
    start = len(before) + sum(len(c.text) for c in parts[low:first])
    return Excerpt(
        before + "".join(c.text for c in parts[low:high]) + after,
        len(before) + sum(widths[low:first]),
        max(1, sum(widths[first : min(last, high)])) if end > begin else 1,
        (start, start + sum(len(c.text) for c in parts[first : min(last, high)])),
    )


def _window(widths: list[int], first: int, last: int, room: int) -> tuple[int, int]:
    """Returns which clusters to show: the mark from its start, then what fits on both sides."""
    low = high = first
    while high < last and widths[high] <= room:
        room -= widths[high]
        high += 1
    growing = True
    while growing:
        growing = False
        if last <= high < len(widths) and widths[high] <= room:
            room -= widths[high]
            high += 1
            growing = True
        if low > 0 and widths[low - 1] <= room:
            low -= 1
            room -= widths[low]
            growing = True
    return low, high
