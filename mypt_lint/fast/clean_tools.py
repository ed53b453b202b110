"""Tells which definitions of tools are clean by themselves, whatever a record says besides.

Input: the definitions of a record, as JSON. Output: how many strings they have, if they are clean.
In many files each record has tools that no other has, so most definitions are proved right by their
types alone (`mypt_spec.bodies.plain_schema`); all others are put before the checker, once, beside
the shortest chat that there is.
"""

from __future__ import annotations

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec.bodies.plain_schema import plain_tools
from mypt_spec.memo import Memo

_LISTS, _ROOM = 2000, 8 << 20  # lists that are remembered; bytes of all
LOST = "MYP360"  # what the text of tools does not say
_CHAT = b'{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x"}],"tools":'


class CleanTools:
    """The definitions that one checker has judged; belongs to one thread."""

    def __init__(self, checker: Checker, texts: CleanTexts) -> None:
        self.checker, self.texts = checker, texts
        self.plain = checker.dialect.adapter.plain_tools
        self.known = Memo[bytes, int](_LISTS, room=_ROOM)  # strings; -1: not clean; -2: seen
        self.decode = msgspec.json.Decoder().decode

    def of(self, raw: bytes) -> tuple[int, bytes]:
        """Returns how many strings clean definitions have in their line, -1 for others.

        Where they are seen for the first time: 0, and their JSON, which is clean if no string in it
        holds a tag.
        """
        if not self.texts.in_json:
            return -1, b""
        found = self.known.known.get(raw)
        if found is not None and found >= -1:
            return found, b""
        proved = plain_tools(raw)
        if proved is not None and found is None and self.plain:
            self.known.keep(raw, -2, len(raw))
            return 0, proved
        if proved is not None and not self.plain:
            clean = self._comes_back(raw, proved)
        elif proved is None:
            clean = not self.checker.line(_CHAT + raw + b"}", row=2, filename="")
        else:
            clean = self.texts.are_clean_in(proved, lambda: self.decode(raw))
        strings = unescaped_quotes(raw if proved is None else proved) // 2 if clean else -1
        return self.known.keep(raw, strings, len(raw)), b""

    def _comes_back(self, raw: bytes, proved: bytes) -> bool:
        """Returns whether plain tools are clean where a format writes them as no JSON."""
        adapter, tools = self.checker.dialect.adapter, self.decode(raw)
        text = adapter.tools_text(tools)
        return (
            self.texts.are_clean([text])
            and self.texts.are_clean_in(proved, lambda: tools)
            and adapter.tools_come_back(tools, text, whole=self.checker.selects(LOST))
        )
