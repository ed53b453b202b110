"""Tells which definitions of tools are clean by themselves, whatever a record says besides.

Input: the definitions of a record, as JSON. Output: how many strings they have, if they are clean,
and the names of the tools. In many files each record has tools that no other has, so most
definitions are proved right by their types alone (`mypt_spec.bodies.plain_schema`); all others are
put before the checker, once, beside the shortest chat that there is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import product
from typing import Any

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.plain_tool_tags import SIGNS as IN_TAGS
from mypt_lint.fast.plain_tool_tags import apart_from, whole_tools
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec.adapters.splitter import Split, Splitter
from mypt_spec.bodies.fitting import Fitting, Given, by_tool, come_back, listed
from mypt_spec.bodies.plain_schema import Definitions, plain_tools, written
from mypt_spec.bodies.plain_signatures import SIGNS, readable, signed_tools
from mypt_spec.bodies.tagged import TAGS
from mypt_spec.memo import Memo

_LISTS, _ROOM = 2000, 8 << 20  # lists that are remembered; bytes of all
_HASHES = 50_000  # of lists that came once
_NONE = frozenset[str]()
_TAGS = [tag.encode() for tag in TAGS]
LOST = "MYP360"  # what the text of tools does not say
MISFIT = "MYP353"  # arguments that do not fit their tool
_CHAT = b'{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x"}],"tools":'


class CleanTools:
    """The definitions that one checker has judged; belongs to one thread."""

    def __init__(self, checker: Checker, splitter: Splitter, texts: CleanTexts) -> None:
        self.checker, self.splitter, self.texts = checker, splitter, texts
        self.plain, self.whole = splitter.tools_as_json, checker.selects(LOST)
        first, body = texts.first, splitter.tools_body
        tags = body == "tool_tags" and apart_from(checker.dialect.table)
        self.tags = tags and IN_TAGS.isdisjoint(first)
        # What takes definitions whose text need not be read, if any.
        self.takes = plain_tools if self.plain else None
        if body == "signatures" and not self.whole and SIGNS.isdisjoint(first):
            self.takes = signed_tools
        elif self.tags:
            self.takes = whole_tools if self.whole else plain_tools
        # Strings of definitions, and names; -1: not clean.
        self.known = Memo[bytes, tuple[int, frozenset[str]]](_LISTS, room=_ROOM)
        self.seen = Memo[int, None](_HASHES)
        self.fitting = Memo[bytes, Fitting](_LISTS, room=_ROOM)
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode
        self.tagged = checker.dialect.table.tagged
        self.binds = checker.selects(MISFIT) or self.tagged

    def of(self, split: Split, *, again: bool = False) -> tuple[int, Any]:
        """Returns how many strings the clean tools of a line have, -1 for others; and None.

        Also -1 where a name is called that no tool has. Where tools are seen for the first time,
        and not `again`: 0, and the definitions for `plain_schema.written`, clean if `come_back`
        says so and no string in them holds a tag; that the calls fit them is proved.
        """
        tools, called, declared = split.tools, split.called, self.checker.limits.tools
        strings, plain = 0, None
        own: Container[str] = _NONE
        if tools is not None:
            known = self.known.known.get(tools)
            if known is None and self.texts.in_json:
                plain = None if again else self._new(tools)
                known = self._judged(tools) if plain is None else None
            if plain is None:
                strings, own = known or (-1, _NONE)
            else:
                own = plain[1]
                bound = called and self.binds
                if bound and not self._prove(*_paired(split), Fitting(tools, own)):
                    return -1, None
        if tools is not None or declared:
            for name in called:
                if name not in own and name not in declared:
                    return -1, None
        return strings, None if plain is None else plain[0]

    def _new(self, raw: bytes) -> Definitions | None:
        """Returns definitions that are seen for the first time, and proved to be clean.

        That no string in them spells what ends it is for `come_back` to say. Most lists never come
        again, so only the hash is kept.
        """
        if self.takes is None or hash(raw) in self.seen.known:
            return None
        self.seen.keep(hash(raw), None)
        return self.takes(raw)

    def _judged(self, raw: bytes) -> tuple[int, frozenset[str]]:
        """Returns the strings of definitions, -1 where they are not clean, and the names."""
        plain = plain_tools(raw)
        names = self._names(raw) if plain is None else frozenset(plain[1])
        self.fitting.keep(raw, Fitting(raw, {} if plain is None else plain[1]), len(raw))
        again = None if plain is None else written(plain[0])
        strings = unescaped_quotes(raw if again is None else again) // 2
        found = (strings, names) if self._are_clean(raw, again) else (-1, _NONE)
        return self.known.keep(raw, found, len(raw))

    def fit(self, splits: Iterable[Split]) -> bool:
        """Returns whether the calls of lines whose tools are not new are proved to fit these.

        Those of many lines are proved together.
        """
        groups: dict[bytes, tuple[list[str], list[dict[str, Any]]]] = {}
        for split in splits if self.binds else ():
            if split.called and split.tools is not None:
                called, given = _paired(split)
                names, every = groups.setdefault(split.tools, ([], []))
                names += called
                every += given
                if len(names) != len(every):
                    return False
            elif split.called and self.tagged:
                return False  # nothing says how values are read
        return all(
            self._prove(*both, self.fitting.known.get(raw) or Fitting(raw, {}))
            for raw, both in groups.items()
        )

    def _prove(self, called: Sequence[str], given: Given, fitting: Fitting) -> bool:
        """Returns whether the arguments of calls fit their tools, and come back from tags."""
        if len(called) != len(given) or (
            self.tagged and not self._are_back(called, given, fitting)
        ):
            return False
        return fitting.proves(called, given)

    def _are_back(self, called: Sequence[str], given: Given, fitting: Fitting) -> bool:
        """Returns whether arguments that are written as tags are proved to come back."""
        encoded = self.encode(given)
        return not any(tag in encoded for tag in _TAGS) and all(
            come_back(some, fitting.plain.get(name))
            for name, some in by_tool(called, given).items()
        )

    def come_back(self, encoded: bytes) -> bool:
        """Returns whether definitions seen for the first time can be read from their text.

        `encoded` is their JSON. Text that is no JSON has no first character of a tag, either.
        """
        firsts = [first.encode() for first in self.texts.first]
        lines = self.plain or self.tags or readable(encoded)
        return lines and (self.plain or not any(one in encoded for one in firsts))

    def _are_clean(self, raw: bytes, plain: bytes | None) -> bool:
        """Returns whether definitions are clean; `plain` ones are proved but for their text."""
        if plain is None:
            return not self.checker.line(_CHAT + raw + b"}", row=2, filename="")
        if not self.plain:
            return self._comes_back(raw, plain)
        return self.texts.are_clean_in(plain, lambda: self.decode(raw))

    def _names(self, raw: bytes) -> frozenset[str]:
        """Returns the names in definitions that are JSON, or the text of JSON; none if unknown."""
        try:
            return frozenset([tool.get("function", tool)["name"] for tool in listed(raw)])
        except (TypeError, KeyError, AttributeError):
            return _NONE

    def _comes_back(self, raw: bytes, proved: bytes) -> bool:
        """Returns whether plain tools are clean where a format writes them as no JSON."""
        tools = self.decode(raw)
        text = self.splitter.tools_text(tools)
        return (
            self.texts.are_clean([text])
            and self.texts.are_clean_in(proved, lambda: tools)
            and self.splitter.tools_come_back(tools, text, whole=self.whole)
        )


def _paired(split: Split) -> tuple[Sequence[str], Given]:
    """Returns the name of the tool of each call of a line, and its arguments if all are known."""
    if split.values and split.quoted:  # which are whose is not known
        pairs = [*product({*split.called}, [*split.values, *split.quoted])]
        return [name for name, _ in pairs], [given for _, given in pairs]
    return split.called, split.values or split.quoted
