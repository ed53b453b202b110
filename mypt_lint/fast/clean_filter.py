"""Proves lines of JSONL clean without reading them into Episodes.

Input: lines. Output: those that are not proved clean, for the checker. `CleanFilter` may only call
a line clean when `Checker.line` finds nothing in it; `tests/property/test_fast.py` holds it to
that.

Theory of operation. What a rule sees (its column `sees`) is split off the line and judged once:

- The structure (clean_shapes.py): the roles, which optional keys are there, which names are equal,
  which inline tags. scan.py makes a shape of these, which is judged by running the checker on the
  smallest record that has it. So are head strings that many lines share, as the system prompt.
- The texts (clean_texts.py), each by itself: one without the first character of any tag holds none.
- Every string is counted. Valid JSON has exactly two unescaped quotes a string, so a key that
  occurs twice, or one that msgspec skipped, shows as quotes that nobody accounts for. No count can
  be too high, so a block of lines is counted at once; where its sums differ, each line is.

A thousand lines like the one at the head of scan.py, with other words in each, so cost one run of
the checker, on `{"system": "x", "messages": [{"role": "user", "content": "x"}, {"role":
"assistant", "content": "x"}]}`, a look for `<` in each text, and one count of quotes.

Records that no `SCHEMA` describes are split otherwise (adapter_scan.py).
"""

import re
from io import BytesIO
from typing import Any

import msgspec

from mypt_cli.jsonl.line import has_separator
from mypt_lint.check.checker import Checker
from mypt_lint.fast.adapter_scan import AdapterScan
from mypt_lint.fast.clean_shapes import CleanShapes
from mypt_lint.fast.clean_texts import AnyTexts, CleanTexts
from mypt_lint.fast.layout import Layout
from mypt_lint.fast.quotes import unescaped_quotes
from mypt_lint.fast.scan import LineParts, Scan, compile_scan
from mypt_records.names import OPT_OUT
from mypt_records.splitter import chat_splitter
from mypt_spec.adapters.splitter import splitter
from mypt_spec.record_schema import ROLE

_METADATA = 40  # keys
_LONGEST_CHAT = 1 << 20  # bytes of a line of another shape
_KEY = re.compile(r"_[\w.:-]{0,60}", re.ASCII)


class CleanFilter:
    """Proves lines clean for one checker.

    Remembers shapes and head strings, so it belongs to one thread. `with_parts`: it also tells what
    clean lines are made of.
    """

    def __init__(self, checker: Checker, *, with_parts: bool = False) -> None:
        self.checker, self.with_parts = checker, with_parts
        dialect = checker.dialect
        self.layout = Layout.of(dialect.adapter.SCHEMA)
        self.texts = (
            AnyTexts(dialect.table)
            if checker.formatless
            else CleanTexts(dialect.table, dialect.automaton)
        )
        self.shapes = CleanShapes(checker, self.texts, self.layout)
        self.encoder = msgspec.json.Encoder()
        self.encoded = bytearray()
        self.by_adapter: AdapterScan | None = None
        self.scan: Scan
        longest = self.shapes.longest
        if checker.shape:
            native = with_parts or checker.by_model
            split = chat_splitter(checker.shape, dialect, formatless=checker.formatless)
            split = None if native else split
            longest = _LONGEST_CHAT if checker.formatless else min(longest, _LONGEST_CHAT)
        else:
            split = splitter(dialect.adapter, OPT_OUT)
        if split is not None:
            self.by_adapter = AdapterScan(checker, split, self.texts, longest)
            self.scan = self.by_adapter.scan
        elif not checker.shape:
            self.scan = compile_scan(self.layout, self.shapes, with_parts=with_parts)

    def unproved(self, data: bytes) -> tuple[int, list[tuple[int, bytes]]]:
        """Returns how many lines a block has, and each that is not proved clean with its index."""
        lines = BytesIO(data).readlines()  # by memchr: `split` takes five times as long
        doubtful = _apart(lines, data, self._doubtful(lines, data))
        return len(lines), [(i, lines[i].removesuffix(b"\n")) for i in doubtful]

    def doubtful(
        self, lines: list[bytes], parts: list[LineParts | None] | None = None
    ) -> list[int]:
        """Returns the indexes of the lines (without line ends) that are not proved clean.

        `parts`, if given, gets what each line is made of, as `compile_scan` says.
        """
        data = b"\n".join(lines)
        return _apart(lines, data, self._doubtful(lines, data, parts))

    def _doubtful(
        self, lines: list[bytes], data: bytes, parts: list[LineParts | None] | None = None
    ) -> list[int]:
        """Returns the indexes of the lines that are not proved clean. `data` is all of them."""
        if self.checker.shape and self.by_adapter is None:  # it proves records of the dialect
            return list(range(len(lines)))
        bad, exact = self._scanned(lines, data, parts)
        if exact:
            return bad
        if len(lines) > 1:
            for i in sorted(set(range(len(lines))).difference(bad)):
                alone: list[LineParts | None] | None = None if parts is None else []
                bad += [i] if self._doubtful([lines[i]], lines[i], alone) else []
                if parts is not None:
                    parts[i] = alone[0] if alone else None
            return sorted(bad)
        if not self._learn(lines[0]):
            return [0]
        if parts is not None:
            parts.clear()
        bad, exact = self._scanned(lines, data, parts)
        return bad if exact else [0]

    def _scanned(
        self, lines: list[bytes], data: bytes, parts: list[LineParts | None] | None
    ) -> tuple[list[int], bool]:
        """Returns (indexes of lines that are not clean, whether all strings of the others count).

        Where some strings do not, any of the others may not be clean either. Where texts have all
        escaped quotes, to count these there takes less time.
        """
        bad, strings, values = self.scan(lines, parts)
        expected = 2 * strings + self._quotes(values)
        inner = self.by_adapter.quotes_in_texts if self.by_adapter and not bad else -1
        if inner >= 0 and data.rfind(b"\\u0022") < 0 and data.count(b'"') - inner == expected:
            return bad, True
        quotes = unescaped_quotes(data) - sum([unescaped_quotes(lines[i]) for i in bad])
        return bad, quotes == expected

    def _quotes(self, values: list[Any]) -> int:
        """Returns the quotes of the strings in JSON values.

        An odd number where there is doubt, such as a tag in a string.
        """
        if not values:
            return 0
        try:
            self.encoder.encode_into(values, self.encoded)
        except (OverflowError, RecursionError):  # an integer beyond 64 bits, for one
            return -1
        if not self.by_adapter and self.texts.tagged(values, self.encoded):
            return -1
        return unescaped_quotes(self.encoded)

    def _learn(self, raw: bytes) -> bool:
        """Expects the metadata keys of a line from now on; returns whether there were new ones."""
        if self.by_adapter is not None:
            return self.by_adapter.splitter.learn(raw)
        metadata = self.layout.metadata
        if sum(map(len, metadata.values())) >= _METADATA:
            return False
        try:
            record = msgspec.json.decode(raw)
            items = [("", record), *((m[ROLE], m) for m in record[self.layout.messages])]
            fresh = [
                (role, key)
                for role, item in items
                for key in item
                if _KEY.fullmatch(key) and key not in metadata[role] and key != OPT_OUT
            ]
        except (ValueError, TypeError, KeyError, RecursionError):
            return False  # a key that occurs twice can be anything
        for role, key in dict.fromkeys(fresh[:_METADATA]):
            metadata[role].append(key)
        if fresh:
            self.scan = compile_scan(self.layout, self.shapes, with_parts=self.with_parts)
        return bool(fresh)


def _apart(lines: list[bytes], data: bytes, doubtful: list[int]) -> list[int]:
    """Returns the indexes of doubtful lines, with those that have a line separator inside."""
    if not has_separator(data):
        return doubtful
    return sorted({*doubtful, *(i for i, raw in enumerate(lines) if has_separator(raw))})
