"""Proves records clean by the skeleton that their adapter makes: no `SCHEMA` describes them.

Input and output are those of the pass of scan.py. An adapter's `skeleton` splits a record into the
rest, and what is free (`base.Split`): texts and values of which rules see only whether they are
clean, definitions of tools, and metadata. One record of each rest is put before the checker; if
that is clean, so is every other of which all that is free is clean. Its strings are counted, too:
but for those in free values, every other has as many. An adapter that divides records has a rest
for the head and for each turn; then turns are put before the checker, each in a record with the
same head, and the strings of head and turns are added up. A line whose outline (`base.Outlines`)
was seen in a clean one is not split at all; the texts of all such lines are looked at together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts
from mypt_lint.fast.clean_tools import CleanTools
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_records.names import OPT_OUT
from mypt_spec.adapters.base import Outlined, Outlines, Split
from mypt_spec.bodies.plain_schema import written
from mypt_spec.memo import Memo
from mypt_spec.record_schema import WEIGHT

_CR = ord("\r")
_ENDS = b"\r", b"\r\n"  # of a line that is read otherwise
_ENTRIES = 20_000  # rests, or outlines, that are remembered ...
_LONG = 200  # ... rests by digest, where they have more bytes
_LONGEST, _ROOM = 20_000, 16 << 20  # bytes of a line whose outline is remembered, and of all
_ESCAPED = re.compile(rb"\\u00[67]")  # a letter of ASCII, perhaps of a key
_AHEAD = 8  # blocks in which tools are expected to be new, where all of a block were

_NO_TOOLS = 0, None
# What is judged once: how many strings a record has besides metadata, and the keys of its rests.
Judged = tuple[int, tuple[bytes, ...]]
Taken = tuple[tuple[bytes, ...], bytes, list[str]]


class _Found(NamedTuple):
    """What is found in lines.

    - `outlined`: what of them is free. Lines that are split by themselves have all of it in `more`.
    - `judged`: what is judged of each line, None for one that is not clean.
    - `tools`: the strings in the tools of lines that have some, and the tools where they are new.
    """

    outlined: Outlined
    judged: list[Judged | None]
    tools: dict[int, tuple[int, Any]]

    def texts_of(self, i: int) -> list[str]:
        """Returns the free texts of a line."""
        if i in self.outlined.more and self.outlined.more[i].texts:
            return list(self.outlined.more[i].texts)
        ends = self.outlined.ends
        return self.outlined.texts[ends[i - 1] if i else 0 : ends[i]]


class AdapterScan:
    """The skeletons that one checker has judged."""

    def __init__(
        self, checker: Checker, texts: CleanTexts, longest: int, *, keep: bool = False
    ) -> None:
        self.checker, self.texts, self.longest = checker, texts, longest
        self.tools = CleanTools(checker, texts)
        self.known = Memo[bytes, int](_ENTRIES)  # strings of a record; -1: not clean
        self.adapter = checker.dialect.adapter
        self.outlines = self.adapter.outlines(weights=keep)  # which say nothing to rules
        self.outlined = Memo[Hashable, Judged](_ENTRIES, room=_ROOM)  # of clean records
        self.ahead = 0  # how many more blocks
        self.judge = self._in_pieces if self.adapter.divides else self._whole
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode

    def scan(
        self,
        lines: list[bytes],
        kept: list[Taken | None] | None = None,
        *,
        outlines: bool = True,
    ) -> tuple[list[int], int, list[Any]]:
        """Returns what the pass of scan.py returns.

        These are the lines that are not clean, the number of strings of the others without those in
        their metadata, and the metadata values. `kept` gets (keys of the rests, line, texts) of
        each line where records are judged in pieces, None for the others. Without `outlines`, each
        line is split.
        """
        if self.checker.limits.schemas:  # which bind values that a rest leaves out
            return list(range(len(lines))), 0, []
        found = self._split_all(lines) if not outlines else self._outlined(lines)
        for i, raw in enumerate(lines) if self.adapter.divides else ():
            if found.judged[i] is not None and self._trains_nothing(raw):
                found.judged[i] = None
        free = (
            self._free(found, found.outlined.more) if self._are_clean(found.outlined.texts) else -1
        )
        judged, more = found.judged, found.outlined.more
        if free < 0:
            for i in [i for i, one in enumerate(judged) if one is not None]:
                if i in found.tools and found.tools[i][1] is not None:
                    found.tools[i] = self.tools.of(more[i], again=True)  # by themselves
                known = i not in found.tools or found.tools[i][0] >= 0
                known = known and self._are_clean(found.texts_of(i))
                if not known or self._free(found, [i]) < 0:
                    judged[i] = None
            free = self._free(found, more, proved=True)
        if kept is not None:
            kept += [
                (one[1], raw, found.texts_of(i)) if one is not None and one[1] else None
                for i, (one, raw) in enumerate(zip(judged, lines, strict=True))
            ]
        clean = [i for i in more if judged[i] is not None]
        strings = sum([one[0] for one in judged if one is not None]) + free
        strings += sum([found.tools[i][0] for i in clean if i in found.tools])
        notes = [note for i in clean for note in more[i].notes]
        return [i for i, one in enumerate(judged) if one is None], strings, notes

    def _outlined(self, lines: list[bytes]) -> _Found:
        """Returns what is found in lines by outlines, and by skeletons where these are new."""
        if self.outlines is None:
            return self._split_all(lines)
        outlined, recall = self.outlines.of(lines), self.outlined.known.get
        found = _Found(outlined, list(map(recall, outlined.keys)), {})
        judged, untold = found.judged, list[bytes]()
        for i in [i for i, one in enumerate(judged) if one is None]:
            key = outlined.keys[i]
            judged[i] = recall(key)  # learnt from a line before
            if judged[i] is None:
                self._split(lines[i], i, found)
                known = judged[i]
                if known is None or key is None or len(lines[i]) >= _LONGEST:
                    continue
                if self.outlines.tells_all(lines[i]):
                    self.outlined.keep(key, known, len(lines[i]))
                else:
                    untold.append(lines[i])
        for raw in untold:  # not before: what is learnt shows in no outline of these lines
            self.learn(raw)
        for i, raw in enumerate(lines):
            if raw.endswith(_ENDS) or len(raw) > self.longest:
                judged[i] = None
        for i, split in outlined.more.items():
            needed = (split.tools is not None or split.called) and i not in found.tools
            if needed and judged[i] is not None:
                found.tools[i] = self.tools.of(split)
                if found.tools[i][0] < 0:
                    judged[i] = None
        self._expect(self.outlines, found)
        return found

    def _expect(self, outlines: Outlines, found: _Found) -> None:
        """Has tools decoded with their lines after a block in which all lists were new."""
        if self.ahead:
            self.ahead -= 1
            if not self.ahead:  # does any come again?
                outlines.expect(None)
            return
        new = None
        for i, split in found.outlined.more.items():
            strings, tools = found.tools.get(i, (-1, None))
            if split.tools is not None and strings >= 0:
                if tools is None:
                    return
                new = tools
        if new is not None:
            self.ahead = _AHEAD
            outlines.expect(type(new[0]))

    def _split_all(self, lines: list[bytes]) -> _Found:
        """Returns what is found in lines by skeletons alone."""
        found = _Found(Outlined([], [], [0] * len(lines), {}), [None] * len(lines), {})
        for i, raw in enumerate(lines):
            self._split(raw, i, found)
        return found

    def _free(self, found: _Found, lines: Iterable[int], *, proved: bool = False) -> int:
        """Returns the strings in the free values, and in the new tools, of clean lines.

        -1 where any of these is not clean, or arguments do not fit, unless that is proved already.
        """
        judged, more = found.judged, found.outlined.more
        values: list[Any] = []
        quoted: list[Any] = []
        tools: list[Any] = []
        calling: list[Split] = []
        for i in lines:
            if i in more and judged[i] is not None:
                split, (_, new) = more[i], found.tools.get(i, _NO_TOOLS)
                values += split.values
                quoted += split.quoted
                if new is not None:
                    tools.append(new)
                elif split.rest is None:  # others were proved to fit when they were split
                    calling.append(split)
        if not proved and not self.tools.fit(calling):
            return -1
        if not (values or quoted or tools):
            return 0
        in_values, in_tools = written(values), written(tools)
        if not proved:
            every = b"\n".join([in_values, in_tools, self.encode(quoted)])
            if not self.texts.in_json or not self.texts.are_clean_in(
                every, lambda: [values, quoted, self.decode(in_tools)]
            ):
                return -1
            if tools and not self.tools.come_back(in_tools):
                return -1
        return (unescaped_quotes(in_values) + unescaped_quotes(in_tools)) // 2

    def learn(self, raw: bytes) -> bool:
        """Expects the keys of a line in outlines; returns whether there were new ones."""
        if self.outlines is None:
            return False
        try:
            record = self.decode(raw)
            items = [record, *record["messages"]]
            return self.outlines.learn(key for item in items for key in item if key != OPT_OUT)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False

    def _are_clean(self, texts: Sequence[str]) -> bool:
        """Returns whether texts are clean: of one record, or of several."""
        if not all(texts) or any(map(str.isspace, texts)):
            return False
        content = "\n".join(texts)
        for first in self.texts.first:
            odd = [text for text in texts if first in text] if first in content else []
            if odd and not self.texts.are_clean(odd):
                return False
        return True

    def _split(self, raw: bytes, i: int, found: _Found) -> None:
        """Adds what is found in a line by its skeleton, where it is clean."""
        if _CR in raw[-2:] or len(raw) > self.longest:
            return
        try:
            record = self.decode(raw)
            opts_out = record.__class__ is not dict or OPT_OUT in record
            split = None if opts_out else self.adapter.skeleton(record)
            if split is None or not self._are_clean(split.texts):
                return
            tools = self.tools.of(split)  # which proves calls of new ones
            if tools[0] < 0 or (tools[1] is None and not self.tools.fit([split])):
                return
            judged = self.judge(raw, record, split.rest, split.notes)
        except (ValueError, RecursionError, OverflowError):
            return
        if judged is not None:
            found.judged[i], found.outlined.more[i], found.tools[i] = judged, split, tools

    def _whole(self, raw: bytes, record: Any, rest: Any, metadata: Sequence[Any]) -> Judged | None:
        """Returns what is judged of a record; None where records with this rest are not clean."""
        digest = blake2b(self.encode(rest), digest_size=20).digest()
        known = self.known.known.get(digest)
        if known is None:
            clean = not self.checker.line(raw.removesuffix(b"\n"), row=2, filename="")
            count = self._counted(record) - self._counted(metadata)
            known = self.known.keep(digest, count if clean else -1)
        return (known, ()) if known >= 0 else None

    def _in_pieces(
        self, raw: bytes, record: Any, rests: list[Any], _: Sequence[Any]
    ) -> Judged | None:
        """Returns what `_whole` does, for a record with a rest for its head and for each piece."""
        encode, known = self.encode, self.known.known
        head, *others = rests
        first = encode(head)
        if len(first) > _LONG:
            first = blake2b(first, digest_size=20).digest()
        total = 0
        keys = (first, *[first + encode(rest) for rest in others])
        # A head alone is judged as the whole record that it is.
        for i, key in enumerate(keys):
            if len(key) > _LONG:
                key = blake2b(key, digest_size=20).digest()
            count = known.get(key if others else key + b"!")
            if count is None:
                count = self._piece(record, i)
                self.known.keep(key if others else key + b"!", count)
            if count < 0:
                return None
            total += count
        return total, keys

    def _piece(self, record: dict[str, Any], number: int) -> int:
        """Returns the number of strings that a piece adds, -1 where it is not clean."""
        pieces = list(self.adapter.divided(record))
        judged, own = pieces[number]
        alone = number == 0 and len(pieces) > 1
        # As ASCII, so that the piece has no finding about the line itself.
        line = json.dumps(_weighed(judged)).encode()
        if not alone and self.checker.line(line, row=2, filename=""):
            return -1
        return self._counted(own)

    def _trains_nothing(self, raw: bytes) -> bool:
        """Returns whether no answer of a record is trained, which no outline and no piece tells."""
        if b'"weight"' not in raw and not _ESCAPED.search(raw):
            return False
        answers = [m for m in self.decode(raw)["messages"] if m["role"] == "assistant"]
        return bool(answers) and all(m.get(WEIGHT) == 0 for m in answers)

    def _counted(self, value: Any) -> int:
        return unescaped_quotes(self.encode(value)) // 2


def _weighed(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record in which answers that are not trained are: other pieces may train."""
    messages = [
        m | {WEIGHT: 1} if m.get(WEIGHT) == 0 and m[WEIGHT] is not False else m
        for m in record["messages"]
    ]
    return record | {"messages": messages}
