"""Encodes an Episode as token ids and loss mask. The only mask (invariants 3 and 6)."""

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
    """`ids`: uint32, shape (n,); `loss`: uint8, shape (n,), 1 where the token is trained."""

    ids: npt.NDArray[np.uint32]
    loss: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)


class Segment(NamedTuple):
    """The ids of one event, all of one `loss`.

    `inside` are the blocks around it, outermost first; a tag stands inside the block that it opens
    or closes.
    """

    event: Event
    ids: list[int]
    loss: int
    inside: tuple[str, ...]


def segments(events: Iterable[Event], table: TokenTable, tokenizer: Tokenizer) -> Iterator[Segment]:
    """Every event with its ids and loss. Every text run is encoded by itself, so no id crosses a
    tag.

    A token is trained exactly when every block around it is trained, so an outer block that is
    masked masks all within it.
    """
    inside: Stack = ()
    within: dict[Stack, int] = {(): 1}  # the loss of what stands in these blocks
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
        yield Segment(event, tag_ids(event, table, tokenizer), loss & terminal.loss, shown)


def encode_events(events: Iterable[Event], table: TokenTable, tokenizer: Tokenizer) -> Encoded:
    """Ids and loss of events."""
    import numpy as np

    ids: list[int] = []
    loss: list[int] = []
    for segment in segments(events, table, tokenizer):
        ids += segment.ids
        loss += [segment.loss] * len(segment.ids)
    return Encoded(np.array(ids, dtype=np.uint32), np.array(loss, dtype=np.uint8))


def tag_ids(event: Event, table: TokenTable, tokenizer: Tokenizer) -> list[int]:
    """The ids of a tag: special pieces by id, the plain text between them as ordinary tokens."""
    out: list[int] = []
    plain = ""
    values = dict(event.attrs)
    for piece in table.terminals[event.terminal].spelling:
        if piece.kind == "special":
            out += [*tokenizer.encode(plain), tokenizer.special[piece.value]]
            plain = ""
        else:
            plain += values.get(piece.value, "") if piece.kind == "attr" else piece.value
    return out + tokenizer.encode(plain)
