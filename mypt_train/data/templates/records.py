"""Encodes only the texts of a record: records with one skeleton share all other tokens.

Input: the parts of a clean line, as the linter's pass keeps them (mypt_lint/fast/scan.py): its
skeleton, its names, its texts and JSON values. Output: a template, and the values for its slots.

Theory of operation. The first record of a skeleton is encoded as a whole; for the second one a
template is learnt. `read` and `segments` are run on the smallest record of the shape, with a mark
in each free place; where a mark comes out, a value will be. A skeleton whose marks do not all come
out once, whole, in the text of one segment never gets a template. A property test compares both
ways.

In dialect mypt, `{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role":
"assistant", "content": "Yo"}]}` is read with the marks 0, 1 and 2 instead of "S", "Hi" and "Yo".
Its segments are `<myPT_system>`, mark 0, `</myPT_system>`, `<myPT_user>` and so on: the template
has the ids of the tags, three slots, and what is trained of them.

Only records that the linter's fast path proves clean have a skeleton: in these no string holds a
tag but the inline tags that its field allows.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mypt_lint.fast.layout import Layout, size_of, smallest
from mypt_spec.dialect import Dialect
from mypt_spec.encoder import EncodedAlone, Segment, runs
from mypt_spec.memo import Memo
from mypt_spec.record_schema import JSON, LANGUAGE, NAME, OBJECT, STRING, Field
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
# and of the numbers of all shapes.
_ENTRIES, _LONGEST, _ROOM = 5000, 4000, 8 << 20


class _Marks:
    """Fills a smallest record with marks; `kinds` has the kind of value for each mark."""

    def __init__(self, names: int, fixed: Iterator[Any]) -> None:
        self.kinds, self.fixed = [NAME] * names, fixed

    def name(self, index: int) -> str:
        """Returns the mark of a name."""
        return MARK.format(index)

    def value(self, spec: Field, note: Any) -> Any:
        """Returns the next mark, or what belongs to the skeleton as it is."""
        if spec.kind == LANGUAGE:
            return "en"
        if spec.kind not in (STRING, OBJECT, JSON):
            value = next(self.fixed)
            return value if spec.kind == NAME else json.loads(value)
        if (spec.inline or note) and (value := next(self.fixed)) is not None:
            return value
        self.kinds.append(spec.kind)
        mark = self.name(len(self.kinds) - 1)
        return {mark: 0} if spec.kind == OBJECT else mark


class Templates:
    """The templates of one dialect's records, with the loss of one mask."""

    def __init__(self, dialect: Dialect, mask: str = "model") -> None:
        self.dialect, self.mask = dialect, mask
        self.layout = Layout.of(dialect.adapter.SCHEMA)
        # None: seen, and not learnt yet or never to be.
        self.memo = Memo[tuple[Any, ...], Template | None](_ENTRIES, room=_ROOM)

    def find_template(
        self, skeleton: tuple[Any, ...], names: list[str], free: list[Any]
    ) -> tuple[Template, list[Any]] | None:
        """Returns the template of a clean record and the values for its slots.

        None where the record must be encoded as a whole.
        """
        template = self.memo.entries.get(skeleton)
        if template is not None:
            return template, names + free
        size = sum(len(part) for part in skeleton[1:] if part is not None)
        if size > _LONGEST:
            return None
        is_second = skeleton in self.memo.entries
        template = self._learn(skeleton, len(names)) if is_second else None
        self.memo.keep(skeleton, template, size + size_of(skeleton[0]))
        return (template, names + free) if template is not None else None

    def _learn(self, skeleton: tuple[Any, ...], names: int) -> Template | None:
        """Returns the template of a skeleton, None if it can have none."""
        shape, *fixed = skeleton
        marks = _Marks(names, iter(fixed))
        episode, _ = self.dialect.read(smallest(self.layout, shape, marks))
        if episode is None or any(part is not None and MARKS.search(part) for part in fixed):
            return None
        segments = self.dialect.segments(episode, mask=self.mask)

        def around(run: EncodedAlone, number: int, _: int) -> tuple[int, tuple[str, str]]:
            return self._around(segments[run.first], marks.kinds[number])

        return template_of(
            runs(segments, self.dialect.table, self.dialect.tokenizer),
            {number: number for number in range(len(marks.kinds))},
            around,
            needed=range(names, len(marks.kinds)),
            tags=Counter(s.event.terminal for s in segments if s.event.terminal != TEXT),
            tokenizer=self.dialect.tokenizer,
        )

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
