"""Sources for tests of the controller."""

from __future__ import annotations

from collections.abc import Sequence

import mypt_spec
from mypt_infer.controller import ScriptEnd
from mypt_spec.encoder import tag_ids


class Oracle:
    """Draws the next id of a list of ids that the context must be a beginning of."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = list(ids)
        self.context: list[int] = []
        self.drawn = 0

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
