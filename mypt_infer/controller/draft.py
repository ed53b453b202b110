"""Holds what a turn has written so far: its blocks, and the points to which it can be cut back.

Input: ids as they are drawn or put in. Output: the events that are certain, and which block each
opens or closes. A turn that must end is cut back to such a point and completed from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mypt_infer.controller.history import History
from mypt_infer.stream_parser import Piece, StreamParser
from mypt_spec.episode import Event as Tag
from mypt_spec.table import TEXT


@dataclass(slots=True, eq=False)
class Block:
    """A block that was opened in this turn.

    `begin` is the index of its opening tag in the history, `content` that of what comes after this
    tag, `end` that after the tag that closes it, or None while it is open, and `before` the state
    before it.
    """

    kind: str
    tag: Tag
    begin: int
    content: int
    before: int
    end: int | None = None
    text: list[str] = field(default_factory=list)


class Change(NamedTuple):
    """What an event does to the blocks; it may do both."""

    opened: Block | None = None
    closed: Block | None = None


class Draft:
    """What a turn has added to a history; `begin` is the last point to which it can be cut back."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._blocks: list[Block] = []
        # The lengths to which the ids can be cut, the states there, and the terminals before.
        self._points = [(len(history.ids), history.state, "")]
        self._parser = StreamParser(history.dialect, inside=history.open)

    @property
    def open(self) -> list[Block]:
        """Returns the open blocks, outermost first."""
        return [block for block in self._blocks if block.end is None]

    @property
    def block(self) -> Block | None:
        """Returns the innermost open block."""
        return next((block for block in reversed(self._blocks) if block.end is None), None)

    @property
    def begin(self) -> int:
        return self._points[-1][0]

    @property
    def uncertain(self) -> int:
        """Returns the number of ids at the end whose events are not certain."""
        return self._parser.pushed - self._parser.position

    @property
    def held_state(self) -> int:
        """Returns the state after what is not certain, as it is now."""
        history, held = self.history, self._parser.held() if self.uncertain else []
        state = history.dialect.automaton.run([event.terminal for event in held], history.state)
        return history.state if state is None else state

    def length(self, block: Block) -> int:
        """Returns the number of ids of a block's content, without tags and what may become one."""
        return len(self.history.ids) - self.uncertain - block.content

    def missing(self) -> list[int]:
        """Returns the ids of the white space that a tag still needs to be whole."""
        space = self._parser.missing()
        return self.history.dialect.tokenizer.encode(space) if space else []

    def push(self, token: int, origin: str, *, stops: bool = False) -> list[Piece]:
        """Appends an id; returns what is now certain, with the index in the history after it.

        One at which the model `stops`, and which the next tag has, is noted as dropped. Raises
        ValueError, and notes the id as dropped, if it means nothing here.
        """
        history = self.history
        history.add([token], origin)
        try:
            pieces = self._parser.flush() if stops else self._parser.push(token)
            if history.trailing_ids:  # a whole tag: no id that the model draws belongs to it
                pieces += self._parser.flush()
        except ValueError:
            history.cut_back(len(history.ids) - 1, history.state)
            raise
        if stops:
            history.cut_back(len(history.ids) - 1, history.state)
        base = len(history.ids) - self._parser.pushed
        return [piece._replace(end=base + piece.end) for piece in pieces]

    def write_tag(self, tag: Tag, ids: Sequence[int], origin: str) -> Change:
        """Appends a tag that nobody draws."""
        self.history.add([*self.history.trailing_ids, *ids], origin)
        return self.step_event(tag, len(self.history.ids))

    def step_event(self, event: Tag, end: int) -> Change:
        """Steps by the next event, which ends at `end`. Raises ValueError if it may not occur."""
        history, begin, before = self.history, self.begin, self.history.state
        history.step(event, begin)
        self._parser.last, self._parser.inside = event.terminal, history.open
        terminal = history.dialect.table.terminals.get(event.terminal)
        if terminal is None or event.terminal == TEXT:
            if self.block is not None:
                self.block.text.append(event.text)
            return Change()
        opened, closed, blocks = None, None, self.open
        for block in blocks[len(history.open) - bool(terminal.opens) :]:
            closed = block  # the innermost, if a tag closes the one around it, too
            closed.end = end
        if terminal.opens:
            opened = Block(terminal.opens, event, begin, end, before)
            self._blocks.append(opened)
        return Change(opened, closed)

    def note(self, index: int | None = None) -> None:
        """Notes that the ids can be cut back to an index, which is by default their end."""
        end = len(self.history.ids) if index is None else index
        self._points.append((end, self.history.state, self._parser.last))

    def cut_back(self, index: int) -> list[Block]:
        """Cuts back to the last point at or before `index`; returns the blocks that are gone."""
        while self._points[-1][0] > index:
            self._points.pop()
        length, state, last = self._points[-1]
        self.history.cut_back(length, state)
        self._parser = StreamParser(self.history.dialect, last, inside=self.history.open)
        dropped = [block for block in self._blocks if block.begin >= length]
        self._blocks = [block for block in self._blocks if block.begin < length]
        for block in self._blocks:
            if block.end is not None and block.end > length:
                block.end = None
        return dropped

    def settle(self) -> list[Block]:
        """Cuts off what is not certain; returns the blocks that are gone."""
        return self.cut_back(len(self.history.ids) - self.uncertain)

    def unfinished(self) -> Block | None:
        """Returns the innermost block if it is open and cannot stay as it is.

        That is a call, a reference, or a block inside another one that has no text.
        """
        history, block = self.history, self.block
        if block is None or block.kind in (*history.format.calls, *history.format.citing):
            return block
        empty = history.state == history.dialect.automaton.step(block.before, block.tag.terminal)
        return block if empty and len(history.open) > 1 else None
