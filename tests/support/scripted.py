"""Sources for tests of the controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import mypt_spec
from mypt_infer.controller import ScriptEnd
from mypt_infer.controller.events import (
    ArgumentsDelta,
    CallDropped,
    CallParsed,
    CallStart,
    Event,
    ToolResult,
)
from mypt_spec.encoder import tag_ids


class Oracle:
    """Draws the next id of a list of ids that the context must be a beginning of."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = list(ids)
        self.context: list[int] = []
        self.drawn = 0

    @property
    def held(self) -> int:
        return len(self.context)

    def append(self, ids: Sequence[int]) -> None:
        self.context += ids
        assert self.context == self.ids[: len(self.context)], (
            "what the model is given is not what was said"
        )

    def next(self, left: int = 0) -> int:
        if len(self.context) == len(self.ids):
            raise ScriptEnd
        self.drawn += 1
        self.append([self.ids[len(self.context)]])
        return self.context[-1]

    def truncate(self, length: int) -> None:
        del self.context[length:]


def ids_of(text: str, dialect: str = "mypt") -> list[int]:
    """The ids of a text that a model writes: tags by id, the text between them as ordinary tokens.

    White space after a tag is left out: the program that runs the model puts it in.
    """
    d = mypt_spec.dialect(dialect)
    out: list[int] = []
    for event in d.lex(text):
        terminal = d.table.terminals.get(event.terminal)
        ids = (
            tag_ids(event, d.table, d.tokenizer)
            if terminal is not None
            else d.tokenizer.encode(event.text)
        )
        space = terminal.spelling[-1] if terminal is not None else None
        if space is not None and space.kind == "space":
            behind = d.tokenizer.encode(space.value)
            assert ids[-len(behind) :] == behind
            ids = ids[: -len(behind)]
        out += ids
    return out


def ends_of_calls(events: Iterable[Event]) -> dict[int, str]:
    """Returns how each call ended, by its number: "result", "dropped" or "unanswered".

    Raises AssertionError unless every event of a call has its number, in order: it begins, it is
    written, it is complete, and it has a result; or it is dropped before it has one. A turn that
    ends may leave a complete call unanswered.
    """
    stages: dict[int, str] = {}
    names: dict[int, str] = {}
    for event in events:
        number, before = getattr(event, "call", None), ""
        if number is None:
            continue
        assert number > 0
        before = stages.get(number, "")
        if isinstance(event, CallStart):
            assert number > max(stages, default=0), "no number is given twice"
            stages[number] = "begun"
        elif isinstance(event, ArgumentsDelta):
            assert before == "begun"
        elif isinstance(event, CallParsed):
            # Further calls of a block follow its first one.
            assert before == "begun" or (not before and stages[number - 1] == "parsed")
            stages[number] = "parsed"
        elif isinstance(event, CallDropped):
            assert before in ("begun", "parsed")
            stages[number] = "dropped"
        elif isinstance(event, ToolResult):
            assert before == "parsed"
            stages[number] = "result"
        if not isinstance(event, ArgumentsDelta) and (event.name or before == "parsed"):
            assert names.setdefault(number, event.name) == event.name
    assert "begun" not in stages.values(), stages
    return {n: "unanswered" if s == "parsed" else s for n, s in stages.items()}
