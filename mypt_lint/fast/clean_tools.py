"""Tells which definitions of tools are clean by themselves, whatever a record says besides.

Input: the definitions of a record, as JSON. Output: how many strings they have, if they are clean,
and the names of the tools. In many files each record has tools that no other has, so most
definitions are proved right by their types alone (`mypt_spec.bodies.plain_schema`); all others are
put before the checker, once, beside the shortest chat that there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_spec.adapters.base import Split
from mypt_spec.bodies.fitting import Fitting, come_back, listed
from mypt_spec.bodies.plain_schema import plain_tools, written
from mypt_spec.bodies.plain_signatures import SIGNS, readable, signed_tools
from mypt_spec.bodies.plain_tool_tags import SIGNS as IN_TAGS
from mypt_spec.bodies.plain_tool_tags import apart_from, whole_tools
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

    def __init__(self, checker: Checker, texts: CleanTexts) -> None:
        self.checker, self.texts = checker, texts
        adapter = checker.dialect.adapter
        self.plain, self.whole = adapter.plain_tools, checker.selects(LOST)
        self.signed = (
            adapter.signed_tools and not self.whole and SIGNS.isdisjoint(texts.first)
        )  # whether the text of most definitions is proved to be clean, and need not be read
        self.tags = (
            adapter.tag_tools
            and IN_TAGS.isdisjoint(texts.first)
            and apart_from(checker.dialect.table)
        )  # the same of tags
        # Strings of definitions, and names; -1: not clean.
        self.known = Memo[bytes, tuple[int, frozenset[str]]](_LISTS, room=_ROOM)
        self.seen = Memo[int, None](_HASHES)
        self.fitting = Memo[bytes, Fitting](_LISTS, room=_ROOM)  # of those that came twice
        # Parameters of those in a block that did not yet; the caller forgets them after the block.
        self.fresh: dict[bytes, dict[str, Any]] = {}
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode
        self.tagged = checker.dialect.table.tagged
        self.binds = checker.selects(MISFIT) or self.tagged

    def fit(self, splits: Sequence[Split]) -> bool:
        """Returns whether the arguments of calls in some lines are proved to fit their tools."""
        groups: dict[bytes, dict[str, list[dict[str, Any]]]] = {}
        for split in splits if self.binds else ():
            called, given, tools = split.called, split.values or split.quoted, split.tools
            if called and self.tagged and tools is None:
                return False  # nothing says how values are read
            if called and tools is not None:
                if split.values and split.quoted:  # which are whose is not known
                    pairs = [*product({*called}, [*split.values, *split.quoted])]
                    called, given = [name for name, _ in pairs], [one for _, one in pairs]
                if len(called) != len(given):
                    return False
                raw = tools if isinstance(tools, bytes) else self.encode(tools)
                own = groups.setdefault(raw, {})
                for name, arguments in zip(called, given, strict=True):
                    if name in own:
                        own[name].append(arguments)
                    else:
                        own[name] = [arguments]
        for raw, own in groups.items():
            fitting = self.fitting.known.get(raw) or Fitting(raw, self.fresh.get(raw, {}))
            if self.tagged and not self._come_back(own, fitting.plain):
                return False
            if not all(map(fitting.proves, own, own.values())):
                return False
        return True

    def _come_back(self, calls: dict[str, list[dict[str, Any]]], plain: dict[str, Any]) -> bool:
        """Returns whether arguments that are written as tags are proved to come back."""
        encoded = self.encode(list(calls.values()))
        return not any(tag in encoded for tag in _TAGS) and all(
            come_back(given, plain.get(name)) for name, given in calls.items()
        )

    def of(self, raw: bytes) -> tuple[int, Any, frozenset[str]]:
        """Returns how many strings clean definitions have in their line, -1 for others; the names.

        Where they are seen for the first time: 0, and the definitions for `plain_schema.written`,
        clean if `come_back` says so, and no string in them holds a tag. Else None is there.
        """
        known = self.known.known.get(raw)
        if known is not None:
            return known[0], None, known[1]
        if not self.texts.in_json:
            return -1, None, _NONE
        plain, once = plain_tools(raw), hash(raw) not in self.seen.known
        names = self._names(raw) if plain is None else frozenset(plain[1])
        if once:  # most lists never come again, so only the hash is kept
            self.seen.keep(hash(raw), None)
            if plain is not None and (self.plain or self._is_readable(raw)):
                self.fresh[raw] = plain[1]
                return 0, plain[0], names
        self.fitting.keep(raw, Fitting(raw, {} if plain is None else plain[1]), len(raw))
        again = None if plain is None else written(plain[0])
        strings = unescaped_quotes(raw if again is None else again) // 2
        found = (strings, names) if self._are_clean(raw, again) else (-1, _NONE)
        self.known.keep(raw, found, len(raw))
        return found[0], None, found[1]

    def come_back(self, encoded: bytes) -> bool:
        """Returns whether definitions seen for the first time can be read from their text.

        `encoded` is their JSON. Text that is no JSON has no first character of a tag, either.
        """
        firsts = [first.encode() for first in self.texts.first]
        lines = self.plain or self.tags or readable(encoded)
        return lines and (self.plain or not any(one in encoded for one in firsts))

    def _is_readable(self, raw: bytes) -> bool:
        """Returns whether plain definitions are proved to be read from their text.

        That no string in them spells what ends it is for `come_back` to say.
        """
        if self.tags:
            return not self.whole or whole_tools(raw) is not None
        return self.signed and signed_tools(raw) is not None

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
        adapter, tools = self.checker.dialect.adapter, self.decode(raw)
        text = adapter.tools_text(tools)
        return (
            self.texts.are_clean([text])
            and self.texts.are_clean_in(proved, lambda: tools)
            and adapter.tools_come_back(tools, text, whole=self.whole)
        )
