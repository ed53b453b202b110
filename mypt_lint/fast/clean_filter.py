"""Proves lines of JSONL clean without reading them into Episodes.

Input: lines. Output: those that are not proved clean, for the checker. `CleanFilter` may only call
a line clean when `Checker.line` finds nothing in it; `tests/property/test_fast.py` holds it to
that.

Theory of operation. What a rule sees (its column `sees`) is split off the line and judged once:

- The structure (adapter_scan.py): the roles, which optional keys are there, which names are equal,
  which inline tags. A splitter makes a skeleton of these, which is judged by running the checker on
  a record that has it.
- The texts (clean_texts.py), each by itself: one without the first character of any tag holds none.
- Every string is counted. Valid JSON has exactly two unescaped quotes a string, so a key that
  occurs twice, or one that msgspec skipped, shows as quotes that nobody accounts for. No count can
  be too high, so a block of lines is counted at once; where its sums differ, each line is.

A thousand lines like `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}`, with other words in each, so cost one run of the checker, a look
for `<` in each text, and one count of quotes.
"""

from io import BytesIO
from typing import Any

import msgspec

from mypt_lint.check.checker import Checker
from mypt_lint.fast.adapter_scan import AdapterScan, LineParts
from mypt_lint.fast.clean_texts import AnyTexts, CleanTexts, longest, told_apart
from mypt_lint.fast.schema_splitter import SchemaSplitter
from mypt_records.names import OPT_OUT
from mypt_records.splitter import chat_splitter
from mypt_spec.adapters.message_splitter import unescaped_quotes
from mypt_spec.adapters.splitter import splitter

_LONGEST_CHAT = 1 << 20  # bytes of a line of another shape


class CleanFilter:
    """Proves lines clean for one checker.

    Remembers skeletons, so it belongs to one thread. `with_parts`: it also tells what clean lines
    are made of.
    """

    def __init__(self, checker: Checker, *, with_parts: bool = False) -> None:
        self.checker, dialect = checker, checker.dialect
        self.texts = (
            AnyTexts(dialect.table)
            if checker.formatless
            else CleanTexts(dialect.table, dialect.automaton)
        )
        self.is_apart = told_apart(dialect.tokenizer.lacks)
        self.encoder = msgspec.json.Encoder()
        self.encoded = bytearray()
        self.by_adapter: AdapterScan | None = None
        most = longest(checker)
        if checker.shape:
            native = with_parts or checker.by_model
            split = chat_splitter(checker.shape, dialect, formatless=checker.formatless)
            split = None if native else split
            most = _LONGEST_CHAT if checker.formatless else min(most, _LONGEST_CHAT)
        else:
            split = splitter(dialect.adapter, OPT_OUT) or SchemaSplitter(checker, self.texts)
        if split is not None:
            self.by_adapter = AdapterScan(checker, split, self.texts, most)

    def unproved(self, data: bytes) -> tuple[int, list[tuple[int, bytes]]]:
        """Returns how many lines a block has, and each that is not proved clean with its index."""
        lines = BytesIO(data).readlines()  # by memchr: `split` takes five times as long
        doubtful = self._apart(lines, data, self._doubtful(lines, data))
        return len(lines), [(i, lines[i].removesuffix(b"\n")) for i in doubtful]

    def doubtful(
        self, lines: list[bytes], parts: list[LineParts | None] | None = None
    ) -> list[int]:
        """Returns the indexes of the lines (without line ends) that are not proved clean.

        `parts`, if given, gets what each line is made of, as `AdapterScan.scan` says.
        """
        data = b"\n".join(lines)
        return self._apart(lines, data, self._doubtful(lines, data, parts))

    def _doubtful(
        self, lines: list[bytes], data: bytes, parts: list[LineParts | None] | None = None
    ) -> list[int]:
        """Returns the indexes of the lines that are not proved clean. `data` is all of them."""
        scan = self.by_adapter
        if scan is None:  # records of another shape are read
            return list(range(len(lines)))
        bad, exact = self._scanned(scan, lines, data, parts)
        if exact:
            return bad
        if len(lines) > 1:
            for i in sorted(set(range(len(lines))).difference(bad)):
                alone: list[LineParts | None] | None = None if parts is None else []
                bad += [i] if self._doubtful([lines[i]], lines[i], alone) else []
                if parts is not None:
                    parts[i] = alone[0] if alone else None
            return sorted(bad)
        if not scan.splitter.learn(lines[0]):
            return [0]
        if parts is not None:
            parts.clear()
        bad, exact = self._scanned(scan, lines, data, parts)
        return bad if exact else [0]

    def _scanned(
        self, scan: AdapterScan, lines: list[bytes], data: bytes,
        parts: list[LineParts | None] | None,
    ) -> tuple[list[int], bool]:  # fmt: skip
        """Returns (indexes of lines that are not clean, whether all strings of the others count).

        Where some strings do not, any of the others may not be clean either. Where texts have all
        escaped quotes, to count these there takes less time.
        """
        bad, strings, values = scan.scan(lines, parts)
        expected = 2 * strings + self._quotes(values)
        inner = -1 if bad else scan.quotes_in_texts
        if inner >= 0 and data.rfind(b"\\u0022") < 0 and data.count(b'"') - inner == expected:
            return bad, True
        quotes = unescaped_quotes(data) - sum([unescaped_quotes(lines[i]) for i in bad])
        return bad, quotes == expected

    def _quotes(self, values: list[Any]) -> int:
        """Returns the quotes of the strings in JSON values; an odd number where there is doubt."""
        if not values:
            return 0
        try:
            self.encoder.encode_into(values, self.encoded)
        except (OverflowError, RecursionError):  # an integer beyond 64 bits, for one
            return -1
        return unescaped_quotes(self.encoded)

    def _apart(self, lines: list[bytes], data: bytes, doubtful: list[int]) -> list[int]:
        """Returns the indexes of doubtful lines, with those that are told apart by a character."""
        if not self.is_apart(data):
            return doubtful
        return sorted({*doubtful, *(i for i, raw in enumerate(lines) if self.is_apart(raw))})
