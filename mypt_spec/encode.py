"""Episode -> token ids and loss mask. The only mask. Promises 3 and 6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mypt_spec.episode import Event
from mypt_spec.tokenizer import Tokenizer
from mypt_spec.tokens import TokenTable

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

    `inside` are the blocks around it, outermost first; a tag stands inside the block that it opens or closes.
    """

    event: Event
    ids: list[int]
    loss: int
    inside: tuple[str, ...]


def segments(events: Iterable[Event], table: TokenTable, tokenizer: Tokenizer) -> Iterator[Segment]:
    """Every event with its ids and loss. Every text run is encoded by itself, so no id crosses a tag.

    A token is trained exactly when every block around it is trained, so an outer block that is masked masks all within it.
    """
    around: list[tuple[tuple[str, ...], int]] = [
        ((), 1)
    ]  # the open blocks and their loss, outermost first
    for event in events:
        terminal = table.terminals.get(event.terminal)
        if terminal is None:
            inside, weight = around[-1]
            yield Segment(event, tokenizer.encode(event.text), weight, inside)
            continue
        while around[-1][0] and around[-1][0][-1] not in table.closers:
            around.pop()  # a block without a closing tag ends where the next tag stands
        inside, within = around[-1]
        if terminal.opens:
            inside = (*inside, terminal.opens)
            around.append((inside, within & terminal.body_loss))
        elif terminal.closes and len(around) > 1:  # a stray one closes nothing
            around.pop()
        yield Segment(event, tag_ids(event, table, tokenizer), within & terminal.loss, inside)


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
