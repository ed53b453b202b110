"""Encodes events as token ids and loss mask. The only mask (invariants 3 and 6).

Input are the events of an Episode, the token table and a tokenizer; output are two arrays of equal
length. Each text run is encoded by itself, so no id crosses a tag; the token table says what is
trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mypt_spec.episode import Event
from mypt_spec.states import Stack, after_tag, before_tag
from mypt_spec.table import TokenTable
from mypt_spec.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids and loss mask: uint32 and uint8, both of shape (n,).

    `loss` is 1 where the token is trained.
    """

    ids: npt.NDArray[np.uint32]
    loss: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)


class Segment(NamedTuple):
    """The ids of one event, all of one `loss`, but for the last `trailing` ones.

    These are white space that the system writes after a tag, and never trained. `inside` are the
    blocks around it, outermost first; a tag is inside the block that it opens or closes.
    """

    event: Event
    ids: list[int]
    loss: int
    inside: Stack
    trailing: int = 0

    @property
    def losses(self) -> list[int]:
        """Returns the loss of each id."""
        return [self.loss] * (len(self.ids) - self.trailing) + [0] * self.trailing


def segments(events: Iterable[Event], table: TokenTable, tokenizer: Tokenizer) -> Iterator[Segment]:
    """Yields every event with its ids and loss. Every text run is encoded by itself.

    A token is trained exactly when every block around it is trained, so an outer block that is
    masked masks all within it. Implements "Loss" of each grammar/*/SPEC.md.
    """
    inside: Stack = ()
    within: dict[Stack, int] = {(): 1}  # the loss of content in these blocks
    for event in events:
        terminal = table.terminals.get(event.terminal)
        if terminal is None:
            yield Segment(event, tokenizer.encode(event.text), within[inside], inside)
            continue
        around = before_tag(inside, table)
        loss = within[around]
        inside = after_tag(around, terminal, table)
        if terminal.opens:
            within[inside] = loss & terminal.body_loss
        shown = inside if terminal.opens else around
        ids = tag_ids(event, table, tokenizer)
        trail = len(tokenizer.encode(terminal.trail)) if terminal.trail else 0
        yield Segment(event, ids, loss & terminal.loss, shown, trail)


def encode_events(events: Iterable[Event], table: TokenTable, tokenizer: Tokenizer) -> Encoded:
    """Returns ids and loss of events. Raises ValueError for a lone surrogate in a text."""
    import numpy as np

    ids: list[int] = []
    loss: list[int] = []
    for segment in segments(events, table, tokenizer):
        ids += segment.ids
        loss += segment.losses
    return Encoded(np.array(ids, dtype=np.uint32), np.array(loss, dtype=np.uint8))


def tag_ids(
    event: Event, table: TokenTable, tokenizer: Tokenizer, *, trail: bool = True
) -> list[int]:
    """Returns the ids of a tag: special pieces by id, the plain text between as ordinary tokens.

    Without `trail`, white space is left out that the system writes after it.
    """
    out: list[int] = []
    plain = ""
    values = dict(event.attrs)
    terminal = table.terminals[event.terminal]
    for piece in terminal.spelling if trail else terminal.said:
        if piece.kind == "special":
            if plain:
                out += tokenizer.encode(plain)
            out.append(tokenizer.special[piece.value])
            plain = ""
        else:
            plain += values.get(piece.value, "") if piece.kind == "attr" else piece.value
    return out + tokenizer.encode(plain) if plain else out


def trail_ids(last: int | None, table: TokenTable, tokenizer: Tokenizer) -> list[int]:
    """Returns the ids of the white space that the system writes after a tag with the `last` id."""
    for tag, space in table.trails.items():
        if tokenizer.special[tag] == last:
            return tokenizer.encode(space)
    return []
