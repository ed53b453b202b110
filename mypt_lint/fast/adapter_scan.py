"""Proves records clean by their skeletons.

Input: lines. Output: the indexes of lines that are not clean, and how many strings the others were
found to hold; on demand, what each line is made of. A splitter of the adapter's records
(mypt_spec/adapters/splitter.py) takes out of lines what any clean value can replace: texts,
arguments, definitions of tools, metadata. What remains is a skeleton. The pieces of each skeleton
are put before the checker once; if they are clean, so is every line with this skeleton whose other
values are clean. The strings of the pieces are counted, too, and every such line has as many. All
values of a block are looked at together; where something is in doubt, those of each line are.
"""

import json
from bisect import bisect_right
from collections.abc import Hashable, Iterable
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_texts import CleanTexts, text_filter
from mypt_lint.fast.clean_tools import CleanTools
from mypt_records.prefilter import TextBytes
from mypt_spec.adapters.message_splitter import unescaped_quotes
from mypt_spec.adapters.splitter import Piece, Split, Splits, Splitter
from mypt_spec.bodies.plain_schema import written
from mypt_spec.memo import Memo

_ENDS = b"\r", b"\r\n"  # of a line that is read otherwise
_ENTRIES = 20_000  # skeletons, or pieces, that are remembered ...
_LONG = 200  # ... pieces by digest, where they have more bytes
_LONGEST, _ROOM = 20_000, 16 << 20  # bytes of a line whose skeleton is remembered, and of all

_NO_TOOLS = 0, None
# What is judged once: how many strings a skeleton has, and the keys of its pieces.
Verdict = tuple[int, tuple[bytes, ...]]
_EMPTY = Split()


class LineParts(NamedTuple):
    """What a clean line is made of: the keys of its pieces, its texts, and its other values, or the
    record that a splitter of messages decoded.
    """

    keys: tuple[bytes, ...]
    texts: list[str]
    split: Split
    record: Any = None


class _Block(NamedTuple):
    """Lines and what is proved of them.

    `verdicts` has None for each line that is not clean. `tools` has, of lines with tools or calls,
    how many strings are in the tools, and the tools where they are new.
    """

    lines: list[bytes]
    splits: Splits
    verdicts: list[Verdict | None]
    tools: dict[int, tuple[int, Any]]


class AdapterScan:
    """The skeletons that one checker has judged."""

    def __init__(
        self, checker: Checker, splitter: Splitter, texts: CleanTexts, longest: int
    ) -> None:
        self.checker, self.splitter = checker, splitter
        self.texts, self.longest = texts, longest
        self.tools = CleanTools(checker, splitter, texts)
        self.chats = text_filter(checker) if checker.shape else None
        table = None if checker.formatless else checker.dialect.table
        # An Episode may hold a text without the white space at its ends: then both are looked at.
        self.strips = table is not None and any(t.strip for t in table.terminals.values())
        # What it holds may depend on the turn, where white space at its ends is stripped.
        rules = {table.history.strip, table.history.strip_before_calls} - {""} if table else set()
        self.lines, self.by_turn = rules == {"left lines"}, bool(rules)
        self.skeletons = Memo[Hashable, Verdict](_ENTRIES, room=_ROOM)  # that are clean
        self.pieces = Memo[bytes, int](_ENTRIES)  # strings of each; -1: not clean
        self.decode = msgspec.json.Decoder().decode
        self.encode = msgspec.json.Encoder().encode
        self.quotes_in_texts = -1  # of the last block, if texts have all escaped ones; else -1

    def scan(
        self, lines: list[bytes], parts: list[LineParts | None] | None = None
    ) -> tuple[list[int], int, list[Any]]:
        """Returns the indexes of lines that are not clean, and of the others how many strings there
        are without those in their metadata, and the metadata values.

        `parts` gets what each line is made of, None for one that is not clean.
        """
        if self.checker.limits.schemas:  # which bind values that a skeleton leaves out
            return list(range(len(lines))), 0, []
        block = self._judge_lines(lines)
        verdicts, more = block.verdicts, block.splits.more
        clean = [i for i in more if verdicts[i] is not None]
        free = self._free(block, clean)
        if free < 0:
            for i in clean:
                if not self._values_are_clean(block, i):
                    verdicts[i] = None
            clean = [i for i in more if verdicts[i] is not None]
            free = self._free(block, clean, proved=True)
        if parts is not None:
            texts, ends = block.splits.texts, block.splits.ends
            records = block.splits.records or verdicts
            rows = zip(verdicts, pairwise([0, *ends]), records, strict=True)
            parts += [
                verdict and LineParts(verdict[1], texts[begin:end], more.get(i, _EMPTY), record)
                for i, (verdict, (begin, end), record) in enumerate(rows)
            ]
        notes = [note for i in clean for note in more[i].notes]
        strings = sum([verdict[0] for verdict in verdicts if verdict]) + free + len(notes)
        strings += sum([block.tools[i][0] for i in clean if i in block.tools])
        return [i for i, verdict in enumerate(verdicts) if verdict is None], strings, notes

    def _judge_lines(self, lines: list[bytes]) -> _Block:
        """Returns lines whose skeletons and tools are judged."""
        splits, recall = self.splitter.split(lines), self.skeletons.entries.get
        for text in self._doubtful(splits):
            splits.keys[bisect_right(splits.ends, text)] = None
        block = _Block(lines, splits, list(map(recall, splits.keys)), {})
        verdicts, new = block.verdicts, set[int]()
        for i, (raw, key) in enumerate(zip(lines, splits.keys, strict=True)):
            if raw.endswith(_ENDS) or len(raw) > self.longest:
                verdicts[i] = None
            elif verdicts[i] is None and key is not None:
                new.add(i)
        for i, split in splits.more.items():
            if (split.tools is not None or split.called) and (verdicts[i] is not None or i in new):
                block.tools[i] = self.tools.of(split)
                if block.tools[i][0] < 0:
                    verdicts[i] = None
                    new.discard(i)
        for i in sorted(new):
            verdicts[i] = recall(splits.keys[i])  # learnt from a line before
            if verdicts[i] is None and self._values_are_clean(block, i):
                verdicts[i] = self._judge(lines[i], splits.keys[i])
        return block

    def _judge(self, raw: bytes, key: Hashable) -> Verdict | None:
        """Returns the verdict on a skeleton by its pieces; None if one of them is not clean.

        All other values of the line are clean, so whatever is found is in the skeleton.
        """
        keys = self.splitter.keys(key)
        total, pieces = 0, list[Piece]()
        for i, piece in enumerate(keys):
            if len(piece) > _LONG:
                piece = blake2b(piece, digest_size=20).digest()
            count = self.pieces.entries.get(piece)
            if count is None:
                try:
                    pieces = pieces or self.splitter.pieces(raw)
                    strings = self._strings(pieces[i])
                except (ValueError, RecursionError):  # of a member at which no splitter looks
                    return None
                count = self.pieces.keep(piece, strings)
            if count < 0:
                return None
            total += count
        verdict = total, tuple(keys)
        return verdict if len(raw) >= _LONGEST else self.skeletons.keep(key, verdict, len(raw))

    def _strings(self, piece: Piece) -> int:
        """Returns the number of strings that a piece adds, -1 where it is not clean."""
        if piece.record is not None:
            # As ASCII, so that the piece has no finding about the line itself.
            line = json.dumps(piece.record).encode()
            if self.checker.line(line, row=2, filename=""):
                return -1
        return unescaped_quotes(self.encode(piece.content)) // 2

    def _values_are_clean(self, block: _Block, i: int) -> bool:
        """Returns whether all values of a line, looked at by themselves, are clean."""
        if i not in block.splits.more or self._free(block, [i]) >= 0:
            return True
        if block.tools.get(i, _NO_TOOLS)[1] is None:
            return False
        block.tools[i] = self.tools.of(block.splits.more[i], again=True)  # not by their types
        return block.tools[i][0] >= 0 and self._free(block, [i]) >= 0

    def _free(self, block: _Block, lines: Iterable[int], *, proved: bool = False) -> int:
        """Returns the strings in the values, and in the new tools, of lines.

        -1 where any of these is not clean, or arguments do not fit, unless that is proved already.
        """
        more = block.splits.more
        values: list[Any] = []
        uncounted = 0  # quotes, in texts
        tools: list[Any] = []
        calling: list[Split] = []
        for i in lines:
            split, (_, new) = more[i], block.tools.get(i, _NO_TOOLS)
            values += split.values
            uncounted += split.quoted
            if new is not None:
                tools.append(new)
            else:
                calling.append(split)
        if not proved and not self.tools.fit(calling):
            return -1
        if not (values or tools):
            return 0
        in_values, in_tools = written(values), written(tools)
        if not proved and self.chats is not None:
            from mypt_records.checks.arguments import ODD_ARGUMENT

            if ODD_ARGUMENT.search(in_values):
                return -1
        if not proved:
            every = b"%b\n%b" % (in_values, in_tools)
            if not self.texts.are_clean_in(every, lambda: [values, self.decode(in_tools)]):
                return -1
            if tools and not self.tools.come_back(in_tools):
                return -1
        return (unescaped_quotes(in_values) + unescaped_quotes(in_tools) - uncounted) // 2

    def _doubtful(self, splits: Splits) -> list[int]:
        """Returns the numbers of texts that may not be clean."""
        doubtful, texts = list[int](), splits.texts
        if not all(texts) or any(map(str.isspace, texts)):
            doubtful += [i for i, text in enumerate(texts) if not text or text.isspace()]
        if self.by_turn:
            strip = (lambda text: text.lstrip("\n")) if self.lines else str.strip
            doubtful += [i for i, text in enumerate(texts) if text != strip(text)]
        joined = TextBytes(texts) if self.chats is not None else None
        self.quotes_in_texts = -1 if splits.more else "".join(texts).count('"')
        doubtful += self.texts.doubtful(texts, joined)
        if self.strips:
            cores = [(i, core) for i, text in enumerate(texts) if (core := text.strip()) != text]
            again = self.texts.doubtful([core for _, core in cores])
            doubtful += [cores[n][0] for n in again]
        return doubtful + self.chats.doubtful(texts, joined) if self.chats is not None else doubtful
