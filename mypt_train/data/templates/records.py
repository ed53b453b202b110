"""Encodes only the texts of a record: records with one skeleton share all other tokens.

Input: the parts of a clean line, as the linter's pass keeps them (mypt_lint/fast/adapter_scan.py),
and the line. Output: a template, and the values for its slots.

Theory of operation. The first record of a skeleton is encoded as a whole; for the second one a
template is learnt. `read` and `segments` are run on the record with a mark in the place of each
name, text and JSON value; where a mark comes out, a value will be. A skeleton whose marks do not
all come out once, whole, in the text of one segment never gets a template. A property test compares
both ways.

In dialect mypt, `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}` is read with the marks 1, 0 and 2 instead of "S", "Hi" and "Yo".
Its segments are `<myPT_system>`, mark 1, `</myPT_system>`, `<myPT_user>` and so on: the template
has the ids of the tags, three slots, and what is trained of them.

Only records that the linter's fast path proves clean have a skeleton: in these no string holds a
tag but the inline tags that its field allows. Texts with these are no slots.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import count
from typing import Any

from mypt_lint.fast.adapter_scan import LineParts
from mypt_lint.fast.schema_splitter import SchemaSplitter, Values
from mypt_spec.dialect import Dialect
from mypt_spec.encoder import EncodedAlone, Segment, runs
from mypt_spec.memo import Memo
from mypt_spec.record_schema import JSON, NAME, OBJECT, STRING
from mypt_spec.table import TEXT
from mypt_train.data.templates.marks import MARK
from mypt_train.data.templates.template import (
    MARKS,
    MEMBERS,
    PLAIN,
    QUOTED,
    VALUE,
    Template,
    template_of,
)

# Skeletons that are remembered, the code points that one may hold as they are, and the sum of these
# and of the lengths of all keys.
_ENTRIES, _LONGEST, _ROOM = 5000, 4000, 8 << 20


class Templates:
    """The templates of one dialect's records, with the loss of one mask."""

    def __init__(self, dialect: Dialect, splitter: SchemaSplitter, mask: str = "model") -> None:
        self.dialect, self.splitter, self.mask = dialect, splitter, mask
        # With how many texts are slots. None: seen, and not learnt yet or never to be.
        self.memo = Memo[Hashable, tuple[Template, int] | None](_ENTRIES, room=_ROOM)

    def find_template(self, parts: LineParts, line: bytes) -> tuple[Template, list[Any]] | None:
        """Returns the template of a clean record and the values for its slots.

        None where the record must be encoded as a whole.
        """
        key = parts.keys, *parts.split.tagged
        entry = self.memo.entries.get(key)
        if entry is None:
            size = sum(map(len, parts.split.tagged))
            if size > _LONGEST:
                return None
            entry = self._learn(line, parts.split.tagged) if key in self.memo.entries else None
            self.memo.keep(key, entry, size + sum(map(len, parts.keys)))
        if entry is None:
            return None
        template, texts = entry
        return template, [*parts.texts[:texts], *parts.split.values]

    def _learn(self, line: bytes, fixed: Iterable[str]) -> tuple[Template, int] | None:
        """Returns the template of a skeleton, None if it can have none."""
        values = Values()
        self.splitter.replaced(line, values.take)
        names, kinds = values.names, dict[int, str]()
        texts = len(names) + len(values.texts)
        numbers = {STRING: count(len(names)), OBJECT: (rest := count(texts)), JSON: rest}

        def mark(kind: str, value: Any) -> Any:
            number = names[value] if kind == NAME else next(numbers[kind])
            kinds[number] = kind
            return {MARK.format(number): 0} if kind == OBJECT else MARK.format(number)

        episode, _ = self.dialect.read(self.splitter.replaced(line, mark))
        if episode is None or any(map(MARKS.search, fixed)):
            return None
        segments = self.dialect.segments(episode, mask=self.mask)

        def around(run: EncodedAlone, number: int, _: int) -> tuple[int, tuple[str, str]]:
            return self._around(segments[run.first], kinds[number])

        template = template_of(
            runs(segments, self.dialect.table, self.dialect.tokenizer),
            {number: number for number in kinds},
            around,
            needed=range(len(names), len(kinds)),
            tags=Counter(s.event.terminal for s in segments if s.event.terminal != TEXT),
            tokenizer=self.dialect.tokenizer,
        )
        return template and (template, texts)

    def _around(self, segment: Segment, kind: str) -> tuple[int, tuple[str, str]]:
        """Returns how a value of this kind is written in a segment, and what is around its mark."""
        table = self.dialect.table
        is_tag = segment.event.terminal in table.terminals
        body = "text" if is_tag or not segment.inside else table.openers[segment.inside[-1]].body
        if kind == JSON:
            return VALUE, ('"', '"')
        if kind == OBJECT:
            return (MEMBERS, (', "', '": 0')) if body == "call" else (VALUE, ('{"', '": 0}'))
        return PLAIN if body == "text" else QUOTED, ("", "")
