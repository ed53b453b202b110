"""Sets of expectations as English."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORDS = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")


def quoted(spelling: str) -> str:
    """A spelling in backticks; plain words such as "text" or "the end" as they are."""
    return spelling if _WORDS.fullmatch(spelling) else f"`{spelling}`"


def one_of(expected: Sequence[str]) -> str:
    """The set as prose, in the order given.

    >>> one_of(["text", "<myPT_cite>", "</myPT_assistant>"])
    'text, `<myPT_cite>` or `</myPT_assistant>`'
    """
    items = [quoted(spelling) for spelling in expected]
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} or {items[-1]}"
