"""Writes in English what messages have in common: lists, numbers, what a finding holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypt_spec.findings import Finding

_WORDS = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")


def quoted(spelling: str) -> str:
    """Returns a spelling in backticks; plain words such as "text" or "the end" as they are."""
    return spelling if _WORDS.fullmatch(spelling) else f"`{spelling}`"


def one_of(expected: Sequence[str]) -> str:
    """Returns the set as prose, in the order given.

    >>> one_of(["text", "<myPT_cite>", "</myPT_assistant>"])
    'text, `<myPT_cite>` or `</myPT_assistant>`'
    """
    return either([quoted(spelling) for spelling in expected])


def either(items: Sequence[str]) -> str:
    """Joins words with "or".

    >>> either(["a", "b", "c"])
    'a, b or c'
    """
    return " or ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural where it needs it.

    >>> counted(1, "line"), counted(2, "line"), counted(2, "entry")
    ('1 line', '2 lines', '2 entries')
    """
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun}"


def notes(finding: Finding) -> list[tuple[str, str]]:
    """Returns (label, text) for each line below a finding: what was expected, help, the fix."""
    out = []
    if finding.expected:
        out.append(("note", f"expected {one_of(finding.expected)}"))
    if finding.help:
        out.append(("help", finding.help))
    if finding.fix:
        out.append(("fix", f"{finding.fix.title} ({'safe' if finding.fix.safe else 'unsafe'})"))
    return out
