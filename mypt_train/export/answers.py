"""Says what a model may write after a prompt, as rules from which grammars for servers are written.

Input: a dialect, and the tags at which a server stops. Output: `Answers`, one rule for each state
of the automaton in which the model writes. A server stops at the id that ends a turn and closes its
grammar, so the rules end before that id; what only the system writes is not in them.
"""

import json
from collections.abc import Collection
from typing import NamedTuple

from mypt_spec import Dialect
from mypt_spec.bodies.call_tags import BareKeys
from mypt_spec.states import awaits_result, model_writes, stop_tags
from mypt_spec.table import CALLS, LISTS, TEXT, Terminal
from mypt_train.export.chat_facts import first_text, openings
from mypt_train.export.tokenizer_file import ExportError

_BODIES = (*CALLS, *LISTS)

# ("text", ""), ("id", tag), ("plain", text), ("attr", pattern) or ("body", kind).
Item = tuple[str, str]


class Way(NamedTuple):
    """What may be written in a state: items in order, then the rule of a state, or the end."""

    items: tuple[Item, ...]
    then: int | None


class Answers(NamedTuple):
    """The rules by state; `starts` are the states in which an answer may begin.

    A state n after the whole body of a call, where no more text may come, is -1 - n. `forbidden`
    are the spellings that no text and no string in JSON may have.
    """

    rules: dict[int, tuple[Way, ...]]
    starts: tuple[int, ...]
    forbidden: tuple[str, ...]

    @property
    def bodies(self) -> set[str]:
        items = (item for ways in self.rules.values() for way in ways for item in way.items)
        return {value for kind, value in items if kind == "body"}


def rule(state: int) -> str:
    return f"s{state}" if state >= 0 else f"called{-1 - state}"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def shortest(words: Collection[str]) -> tuple[str, ...]:
    """Returns words without those that hold another, sorted."""
    return tuple(sorted(w for w in words if not any(o in w and o != w for o in words)))


def answers(dialect: Dialect, ends: Collection[str], *, reserved: tuple[str, ...] = ()) -> Answers:
    """Returns what a model may write in a dialect; `ends` are the tags at which a server stops.

    `reserved` are spellings of other special ids. Raises ExportError where no grammar can say it.
    """
    return _Reader(dialect, ends).read(reserved)


class _Reader:
    def __init__(self, dialect: Dialect, ends: Collection[str]) -> None:
        self.table, self.machine = dialect.table, dialect.automaton
        self.ends = {("id", tag) for tag in ends}
        self.dialect = dialect
        self.writes = model_writes(self.machine, self.table)
        self.stops = stop_tags(self.machine, self.table)

    def read(self, reserved: tuple[str, ...]) -> Answers:
        if isinstance(body := self.table.tagged, BareKeys):
            raise ExportError(f"{self.table.name}: no grammar of a server has such calls ({body})")
        starts = sorted({state for _, state in openings(self.dialect)})
        rules: dict[int, tuple[Way, ...]] = {}
        queue = [*starts]
        for state in queue:
            rules[state] = tuple(dict.fromkeys(self._ways(state, first=state in starts)))
            following = [w.then for w in rules[state] if w.then is not None]
            queue += [s for s in dict.fromkeys(following) if s not in queue]
        special = [] if self.dialect.vocabulary is None else [*self.dialect.vocabulary.special]
        plain = map(first_text, self.table.plain_tags)
        every = {*self.table.special, *special, *reserved, *plain} - {""}
        return Answers(rules, tuple(starts), shortest(every))

    def _ends(self, state: int) -> bool:
        """Returns whether an answer may end in a state, which a tag of the model led to."""
        awaits = awaits_result(state, self.machine, self.table)
        return not self.stops[state] and (awaits or not self.writes[state])

    def _ways(self, state: int, *, first: bool) -> list[Way]:
        out: list[Way] = []
        called = state < 0
        state = -1 - state if called else state
        for text in (False, True):
            if text and (called or TEXT not in self.writes[state]):
                continue
            at = self.machine.steps[state][TEXT] if text else state
            for name in sorted(self.writes[at] - {TEXT}, key=self.table.order.__getitem__):
                items, then = self._tag(at, self.table.terminals[name])
                end = next((item for item in items if item in self.ends), None)
                if end is not None:
                    if not self._ends(then):
                        raise ExportError(
                            f"{self.table.name}: `{end[1]}` ends generation, and more of the "
                            "answer may follow it; a server's grammar cannot say that"
                        )
                    items = items[: items.index(end)]
                before = [("text", "")] * text
                out.append(Way((*before, *items), then if end is None else None))
            for stop in self.stops[at].values():
                items = () if ("id", stop) in self.ends else (("id", stop),)
                out.append(Way((*[("text", "")] * text, *items), None))
        if not (first or called) and self._ends(state):
            out.append(Way((), None))
        return out

    def _tag(self, state: int, terminal: Terminal) -> tuple[tuple[Item, ...], int]:
        """Returns what is written for a tag, with the body of a call, and the state after."""
        then = self.machine.steps[state][terminal.name]
        items = _spelled(terminal)
        if terminal.opens and terminal.body in _BODIES:
            items = (*items, ("body", terminal.body))
            then = -1 - self.machine.steps[then][TEXT]
        elif any(kind == "attr" for kind, _ in items):
            raise ExportError(
                f"{self.table.name}: nothing says which attributes a model may write in "
                f"`{terminal.shown}`"
            )
        return items, then


def _spelled(terminal: Terminal) -> tuple[Item, ...]:
    out: list[Item] = []
    for piece in terminal.stem:
        if piece.kind == "special":
            out.append(("id", piece.value))
        elif piece.kind == "attr":
            out.append(("attr", piece.pattern))
        elif out and out[-1][0] == "plain":
            out[-1] = ("plain", out[-1][1] + piece.value)
        else:
            out.append(("plain", piece.value))
    return tuple(out)
