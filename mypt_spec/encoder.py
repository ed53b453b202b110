"""Encodes events as token ids and loss mask. The only mask (invariants 3 and 6).

Input are the events of an Episode, the token table and a tokenizer; output are two arrays of equal
length. Each text run is encoded by itself, so no id crosses a tag, unless the table has `glue`; it
says what is trained, and a `Mask` may say otherwise. Each token also has the number of the message
of the record that it comes from, which is computed when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mypt_spec.bodies.json_body import argument_spans
from mypt_spec.compiled.toml import load
from mypt_spec.episode import Event
from mypt_spec.masks.record import Cuts, message_numbers
from mypt_spec.states import Stack, after_tag, before_tag
from mypt_spec.table import CALLS, LISTS, TokenTable
from mypt_spec.tokenizer.runs import encode_run
from mypt_spec.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


MASKS: dict[str, str] = load(Path(__file__).with_name("policies.toml"))["masks"]
"""What each name of a mask trains. All but the first three may be added to another: `trl+last`."""

KINDS = frozenset({"call", "answer", "thought"})
"""The kinds of what a model writes. Each token is of one of them; see `_kinds`."""


class Mask(NamedTuple):
    """Which tokens of an episode are trained. `str(Mask.from_name(n)) == n` for a canonical name.

    - `blocks`: "model" trains what the token table says. "trl" trains all in the outermost blocks
      of the model, from after the opening tag to the end of the closing tag, white space after it
      included, but for masked blocks of the system inside, such as results; "all-assistant" also
      the opening tag. Marks are as the table says in each.
    - `last`: of these, only what comes after the last block that opens a turn.
    - `kinds`: of these, only what is of one of these `KINDS`.
    - `arguments`: whether arguments of calls are trained. A token that begins in them is theirs.
    - `failed_calls`: whether calls are trained that failed. `failed` has the numbers of the blocks
      of calls that did, as an episode says it.
    - `empty_thoughts`: whether blocks of the role "thought" are trained that have no text.
    - `prompted`: kinds of block that are the prompt's where they are empty: "model" does not train
      these. It is no part of a mask's name, as an episode says it.
    """

    blocks: str = "model"
    last: bool = False
    kinds: frozenset[str] = KINDS
    arguments: bool = True
    empty_thoughts: bool = True
    failed_calls: bool = True
    prompted: frozenset[str] = frozenset()
    failed: frozenset[int] = frozenset()

    @classmethod
    def from_name(cls, name: str) -> Mask:
        """Returns the mask of a name of `MASKS`, or of several with "+" or "," between them.

        Raises ValueError for any other name.
        """
        if name == "model":
            return MODEL
        names = re.split("[+,]", name)
        blocks = [n for n in names if n in ("model", "trl", "all-assistant")]
        if len(set(names)) < len(names) or len(blocks) > 1 or not set(names) <= set(MASKS):
            *some, final = list(MASKS)[3:]
            added = f"{', '.join(some)} and {final} may be added to one, such as trl+last"
            raise ValueError(f"no mask {name!r}; masks are {', '.join(MASKS)}, and {added}")
        kinds = frozenset(n.removesuffix("s") for n in names if n in ("calls", "answers")) or KINDS
        kinds -= {"thought"} if "no-think" in names else set()
        arguments = "no-arguments" not in names or "call" not in kinds
        empty = "no-empty-think" not in names or "thought" not in kinds
        failed = "no-failed-calls" not in names or "call" not in kinds
        block = blocks[0] if blocks else "model"
        return cls(block, "last" in names, kinds, arguments, empty, failed)

    def __str__(self) -> str:
        parts = [self.blocks] * (self.blocks != "model")
        parts += [f"{kind}s" for kind in self.kinds] if len(self.kinds) == 1 else []
        parts += ["last"] * self.last + ["no-think"] * (len(self.kinds) == 2)
        parts += ["no-arguments"] * (not self.arguments)
        parts += ["no-failed-calls"] * (not self.failed_calls)
        parts += ["no-empty-think"] * (not self.empty_thoughts)
        return "+".join(parts) or "model"


MODEL = Mask()


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids and loss mask: uint32 and uint8, both of shape (n,).

    `loss` is 1 where the token is trained. `weights` say how much, float32, (n,), 0 where it is
    not; None where each is 0 or 1. `origin` is what `message_indices` are computed from.
    """

    ids: npt.NDArray[np.uint32]
    loss: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.float32] | None = None
    origin: Origin | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def message_indices(self) -> npt.NDArray[np.int32] | None:
        """Returns the index of the message in the record that each token comes from, int32, (n,).

        It is -1 for none (see `message_numbers`). None if the Episode was not read from a record.
        """
        import numpy as np

        if self.origin is None or not any(s.event.at.pointer for s in self.origin.segments):
            return None
        events = [segment.event for segment in self.origin.segments]
        numbers = np.array(message_numbers(events, *self.origin[1:]), dtype=np.int32)
        return np.repeat(numbers, [len(segment.ids) for segment in self.origin.segments])


class Origin(NamedTuple):
    """The segments that tokens come from, and the key of the messages in records."""

    segments: list[Segment]
    table: TokenTable
    messages: str


class Segment(NamedTuple):
    """The ids of one event, all of one `loss`, but for the last `trailing` ones.

    The system writes these after a tag, or after the first id of a tag at which a model stops, and
    they are not trained. `inside` are the blocks around it, outermost first; a tag is inside the
    block that it opens or closes. `weight` is that of its message. `shares` say how much of it each
    id has: none if it begins in arguments that the mask does not train, else the weight of its part
    of the text; empty if all have 1.
    """

    event: Event
    ids: list[int]
    loss: int
    inside: Stack
    trailing: int = 0
    weight: float = 1.0
    shares: tuple[float, ...] = ()

    @property
    def losses(self) -> list[int]:
        """Returns the loss of each id."""
        if self.shares:
            return [self.loss if share else 0 for share in self.shares]
        return [self.loss] * (len(self.ids) - self.trailing) + [0] * self.trailing

    @property
    def weights(self) -> list[float]:
        """Returns the weight of each id, whether it is trained or not."""
        return [self.weight * share for share in self.shares] or [self.weight] * len(self.ids)


def segments(
    events: Iterable[Event],
    table: TokenTable,
    tokenizer: Tokenizer,
    mask: Mask = MODEL,
    weights: Sequence[float] | None = None,
    cuts: Cuts = MappingProxyType({}),
) -> Iterator[Segment]:
    """Yields every event with its ids and loss.

    `weights` has that of each event, `cuts` has the parts of texts with weights of their own; what
    has weight 0 is not trained.

    By the mask "model" a token is trained exactly when every block around it is trained, so an
    outer block that is masked masks all within it. Implements "Loss" of each grammar/*/SPEC.md.
    Raises ValueError for a mask that the table cannot say.
    """
    less = mask.last or mask.kinds != KINDS or mask.failed or not mask.empty_thoughts
    if not (less or weights):
        return _segments(events, table, tokenizer, mask, cuts)
    events = list(events)
    masked = _less(_segments(events, table, tokenizer, mask, cuts), events, table, mask)
    if not weights:
        return masked
    both = zip(masked, weights, strict=True)
    return (s._replace(loss=s.loss if w else 0, weight=w) for s, w in both)


def _segments(
    events: Iterable[Event], table: TokenTable, tokenizer: Tokenizer, mask: Mask, cuts: Cuts
) -> Iterator[Segment]:
    if table.glue:
        events = list(events)
        # Ids are those of any mask.
        usual = list(_losses(events, table, Mask(prompted=mask.prompted)))
        cut = {**cuts}
        if not mask.arguments:
            cut |= {
                n: _cut(e, blocks, table) for n, (e, _, blocks) in enumerate(usual) if n not in cut
            }
        encoded = iter(_glued(events, [loss for _, loss, _ in usual], table, tokenizer, cut))
    ended: Stack = ()
    for number, (event, loss, blocks) in enumerate(_losses(events, table, mask)):
        trail = tokenizer.encode(_trail(event, table))
        trailing = len(trail) if mask.blocks == "model" else 0
        if table.glue:
            event_ids, shares = next(encoded)
            event_ids += trail
        elif pieces := cuts.get(number) or ([] if mask.arguments else _cut(event, blocks, table)):
            event_ids, shares = [], []
            for share, ids in encode_run(pieces, tokenizer):
                event_ids += ids
                shares += [share] * len(ids)
        else:
            event_ids, shares = tag_ids(event, table, tokenizer), []
        if event.terminal in table.stops and {*ended} & table.stops[event.terminal]:
            loss, trailing = 1, len(event_ids) - 1
        tag = table.terminals.get(event.terminal)  # after a block of the system, all go on
        ended = () if tag is not None and tag.closes and not tag.by_model else blocks
        uneven = tuple(shares) if {*shares} - {1} else ()
        yield Segment(event, event_ids, loss, blocks, trailing, shares=uneven)


def _cut(event: Event, inside: Stack, table: TokenTable) -> list[tuple[float, str]]:
    """Returns the text of a call in pieces, arguments with 0, others with 1; [] if it is none."""
    kind = table.openers[inside[-1]].body if inside else ""
    quoted = any(table.openers[block].quotes for block in inside)
    if event.terminal in table.terminals or kind not in (*CALLS, *LISTS) or quoted:
        return []
    pieces: list[tuple[float, str]] = []
    at = 0
    for begin, end in argument_spans(event.text, kind):
        pieces += [(1, event.text[at:begin]), (0, event.text[begin:end])]
        at = end
    return [(share, text) for share, text in [*pieces, (1, event.text[at:])] if text]


def _losses(
    events: Iterable[Event], table: TokenTable, mask: Mask, inside: Stack = ()
) -> Iterator[tuple[Event, int, Stack]]:
    """Yields (event, loss, blocks around it) of events that come `inside` of some blocks."""
    uniform, headers = mask.blocks != "model", int(mask.blocks == "all-assistant")
    within: dict[Stack, int] = {(): 1}  # the loss of content in these blocks
    for kind in inside:
        stack = next(reversed(within))
        within[*stack, kind] = within[stack] & table.openers[kind].body_loss
    events = list(events) if mask.prompted else events
    prompted = _prompted(events, table, mask) if isinstance(events, list) and not uniform else ()
    for number, event in enumerate(events):
        terminal = table.terminals.get(event.terminal)
        if terminal is None:
            yield event, within[inside], inside
            continue
        around = before_tag(inside, table, terminal)
        outer = within[around]
        inside = after_tag(inside, terminal, table)
        loss, body = outer & terminal.loss, outer & terminal.body_loss
        if uniform and around:  # all in a block is as the block is, but for what the system puts in
            opener = terminal if terminal.opens else table.openers[around[-1]]
            loss = body = outer & int(opener.by_model or opener.body_loss)
        elif uniform and terminal.opens:
            loss = body & headers
        elif number in prompted:
            loss = 0
        if terminal.opens:
            within[inside] = body
        yield event, loss, inside if terminal.opens else around


def _prompted(events: Sequence[Event], table: TokenTable, mask: Mask) -> set[int]:
    """Returns the numbers of the tags of empty blocks that are the prompt's."""
    out: set[int] = set()
    for number, both in enumerate(pairwise(events) if mask.prompted else ()):
        opener, closer = (table.terminals.get(event.terminal) for event in both)
        if opener and closer and opener.opens in mask.prompted and opener.opens in closer.ends:
            out |= {number, number + 1}
    return out


def _glued(
    events: Sequence[Event],
    losses: Iterable[int],
    table: TokenTable,
    tokenizer: Tokenizer,
    cut: Cuts = MappingProxyType({}),
) -> list[tuple[list[int], list[float]]]:
    """Returns the ids of each event, without the white space that the system writes after it, and
    the share of each. `cut` has the pieces of texts with their shares; all else has 1.

    What is between two special ids is one run, cut where the loss changes. These are the places
    where one side writes after the other: so no token is half trained, and none joins a prompt to
    what the model writes after it. That white space comes after a special id, so it cuts no run.
    """
    out: list[tuple[list[int], list[float]]] = [([], []) for _ in events]
    run: list[tuple[tuple[int, float], str]] = []
    last = -1

    def flush() -> None:
        for (number, share), ids in encode_run(run, tokenizer):
            out[number][0].extend(ids)
            if cut:
                out[number][1].extend([share] * len(ids))
        run.clear()

    for number, (event, loss) in enumerate(zip(events, losses, strict=True)):
        if loss != last:
            flush()
        last = loss
        if pieces := cut.get(number):
            run += [((number, share), text) for share, text in pieces]
            continue
        for piece in _pieces(event, table, tokenizer):
            if isinstance(piece, list):
                flush()
                out[number][0].extend(piece)
            else:
                run.append(((number, 1), piece))
    flush()
    return out


class EncodedAlone(NamedTuple):
    """A text that is encoded by itself, or ids; all of one `loss` and one `weight`.

    It comes of the events from number `first` to number `last`. Ids that begin in the `lead` with
    which a text begins have the other loss. `loss` is -1 where it, or the weight, changes otherwise
    within a text.
    """

    content: str | list[int]
    loss: int
    first: int
    last: int
    weight: float = 1.0
    lead: str = ""


def runs(
    segments: Sequence[Segment], table: TokenTable, tokenizer: Tokenizer, mask: Mask = MODEL
) -> list[EncodedAlone]:
    """Returns what is encoded by itself in the segments of whole messages.

    `mask` is that of the segments.
    """
    out: list[EncodedAlone] = []
    if not table.glue:
        for number, segment in enumerate(segments):
            terminal = table.terminals.get(segment.event.terminal)
            cut = len(segment.ids) - segment.trailing
            parts: list[str | list[int]] = [segment.ids[:cut]]
            if terminal is None or terminal.patterns:
                parts = _pieces(segment.event, table, tokenizer)
            # White space after a tag may be encoded with the tag's last text.
            loss = -1 if len(parts) > 1 and terminal and terminal.trail else segment.loss
            weight = segment.weight
            out += [EncodedAlone(part, loss, number, number, weight) for part in parts if part]
            if segment.trailing:
                out.append(EncodedAlone(segment.ids[cut:], 0, number, number))
        return out
    events, usually = [s.event for s in segments], Mask(prompted=mask.prompted)
    usual = [loss for _, loss, _ in _losses(events, table, usually)]
    text, last, begun, ended = "", -1, 0, 0
    changes: list[tuple[int, float, int]] = []  # a loss, a weight, and where in the text they begin

    def alone() -> EncodedAlone:
        loss, weight, at = changes[-1]
        one = len(changes) <= 2 and changes[0][1] == weight
        return EncodedAlone(text, loss if one else -1, begun, ended, weight, text[:at])

    for number, (segment, now) in enumerate(zip(segments, usual, strict=True)):
        terminal = table.terminals.get(segment.event.terminal)
        for part in _pieces(segment.event, table, tokenizer):
            if text and (now != last or isinstance(part, list)):
                out.append(alone())
                text, changes = "", []
            last = now
            if isinstance(part, list):
                out.append(EncodedAlone(part, segment.loss, number, number, segment.weight))
            elif part:
                begun, ended = number if not text else begun, number
                ends = segment.trailing and not (terminal and terminal.trail)  # a block before it
                loss = 0 if ends else segment.loss
                if not changes or changes[-1][:2] != (loss, segment.weight):
                    changes.append((loss, segment.weight, len(text)))
                text += part
        if trail := tokenizer.encode(_trail(segment.event, table)):  # after a special id
            loss = 0 if segment.trailing else segment.loss
            out.append(EncodedAlone(trail, loss, number, number, segment.weight))
    return [*out, alone()] if text else out


def _trail(event: Event, table: TokenTable) -> str:
    """Returns the white space that the system writes after a tag, "" where none is written."""
    terminal = table.terminals.get(event.terminal)
    return terminal.trail if terminal and event.text.endswith(terminal.trail) else ""


def _pieces(
    event: Event, table: TokenTable, tokenizer: Tokenizer, *, trail: bool = False
) -> list[str | list[int]]:
    """Returns what is encoded of an event: texts, and special ids.

    Only with `trail`, white space is among it that the system writes after a tag.
    """
    terminal = table.terminals.get(event.terminal)
    if terminal is None:
        return [event.text]
    out: list[str | list[int]] = []
    values = dict(event.attrs)
    for piece in terminal.spelling if trail and _trail(event, table) else terminal.stem:
        if not (piece.prompts or event.text.startswith(piece.value)):
            continue
        if piece.kind == "special":
            out.append([tokenizer.special[piece.value]])
            continue
        text = values.get(piece.value, "") if piece.kind == "attr" else piece.value
        if out and isinstance(out[-1], str):
            out[-1] += text
        else:
            out.append(text)
    return out


def run_ids(
    events: Sequence[Event], inside: Stack, table: TokenTable, tokenizer: Tokenizer,
    mask: Mask = MODEL,
) -> list[list[int]]:  # fmt: skip
    """Returns the ids of each of some events that come `inside` of some blocks.

    White space that the system writes after them is left out.
    """
    if table.glue:
        losses = [loss for _, loss, _ in _losses(events, table, mask, inside)]
        return [ids for ids, _ in _glued(events, losses, table, tokenizer)]
    return [tag_ids(event, table, tokenizer, trail=False) for event in events]


def _less(
    segments: Iterable[Segment], events: Sequence[Event], table: TokenTable, mask: Mask
) -> Iterator[Segment]:
    segments = list(segments)
    begin = _last_turn(events, table) if mask.last else -1
    kinds = _kinds(segments, table) if mask.kinds != KINDS or mask.failed else []
    empty = set() if mask.empty_thoughts else _empty_thoughts(segments, table)
    off = {
        n for n, (kind, call) in enumerate(kinds) if kind not in mask.kinds or call in mask.failed
    }
    for number, segment in enumerate(segments):
        masked = number <= begin or number in empty or number in off
        yield segment._replace(loss=0) if masked else segment


def _kinds(segments: Sequence[Segment], table: TokenTable) -> list[tuple[str, int]]:
    """Returns for each segment which of `KINDS` it is, and the number of its block of calls or -1.

    Blocks of the role "thought" and of calls are thoughts and calls, tags included; all else is an
    answer. But a tag around them belongs to a call that comes right before it, if it closes a block
    or is a mark; if it opens a block, to a call that comes next, or next after thoughts.
    """
    thoughts = table.kinds("thought")
    calls = {kind for kind, opener in table.openers.items() if opener.body in (*CALLS, *LISTS)}
    quotes = {kind for kind, opener in table.openers.items() if opener.quotes}
    answer, kinds, call = ("answer", -1), list[tuple[str, int]](), -1
    for segment in segments:
        is_call = not calls.isdisjoint(segment.inside) and quotes.isdisjoint(segment.inside)
        tag = table.terminals.get(segment.event.terminal)
        call += is_call and tag is not None and tag.opens in calls
        kind = ("call", call) if is_call else answer
        ends = tag is not None and (not tag.opens or tag.name in table.stops)
        if ends and kinds and kinds[-1][0] == "call":
            kind = kinds[-1]
        kinds.append(kind if thoughts.isdisjoint(segment.inside) else ("thought", -1))
    following = answer
    for number in range(len(kinds) - 1, -1, -1):
        tag = table.terminals.get(segments[number].event.terminal)
        if tag is not None and tag.opens and following[0] == "call" and kinds[number] == answer:
            kinds[number] = following
        following = following if kinds[number][0] == "thought" else kinds[number]
    return kinds


def _empty_thoughts(segments: Sequence[Segment], table: TokenTable) -> set[int]:
    """Returns the numbers of the segments of thoughts without text, or with white space alone."""
    thoughts = table.kinds("thought")
    out: set[int] = set()
    block: list[int] = []
    for number, segment in enumerate(segments):
        tag = table.terminals.get(segment.event.terminal)
        inside = not thoughts.isdisjoint(segment.inside)
        if inside and tag is not None and tag.opens in thoughts:
            out |= {*block}
            block = [number]
        elif inside and (tag is not None or segment.event.blank):
            block += [number] if block else []
        else:  # a text, or outside
            out |= set() if inside else {*block}
            block = []
    return out | {*block}


def _last_turn(events: Sequence[Event], table: TokenTable) -> int:
    """Returns the number of the event that opens the last turn; -1 if no event opens one."""
    if not table.turn_opener:
        message = f'the mask "last" needs to know where a turn of {table.name} begins'
        raise ValueError(f"{message}: set turn_opener in [dialect] of its tokens.toml")
    terminals = [table.terminals.get(event.terminal) for event in events]
    opened = [terminal.opens if terminal else "" for terminal in terminals] + [""]
    begin = -1
    inside: Stack = ()
    for number, terminal in enumerate(terminals):
        if terminal is not None:
            around = before_tag(inside, table, terminal)
            inside = after_tag(inside, terminal, table)
            if not around and table.begins_turn(terminal.opens, opened[number + 1]):
                begin = number
    return begin


def encode_events(
    events: Iterable[Event],
    table: TokenTable,
    tokenizer: Tokenizer,
    mask: Mask = MODEL,
    weights: Sequence[float] | None = None,
    cuts: Cuts = MappingProxyType({}),
    *,
    messages: str = "",
) -> Encoded:
    """Returns ids and loss of events, and what has `message_indices` if they were read from a
    record with its messages under the key `messages`. Raises ValueError for a lone surrogate in a
    text.
    """
    import numpy as np

    ids: list[int] = []
    loss: list[int] = []
    weighed: list[float] = []
    every = list(segments(events, table, tokenizer, mask, weights, cuts))
    for segment in every:
        ids += segment.ids
        loss += segment.losses
        if weights:
            weighed += segment.weights
    origin = Origin(every, table, messages) if messages else None
    encoded = Encoded(np.array(ids, np.uint32), np.array(loss, np.uint8), origin=origin)
    if {*weighed} <= {0.0, 1.0}:
        return encoded
    return replace(encoded, weights=np.array(weighed, dtype=np.float32) * encoded.loss)


def tag_ids(
    event: Event, table: TokenTable, tokenizer: Tokenizer, *, trail: bool = True
) -> list[int]:
    """Returns the ids of a tag or a text: special pieces by id, all else as ordinary tokens.

    Without `trail`, white space is left out that the system writes after a tag.
    """
    if event.terminal not in table.terminals:
        return tokenizer.encode(event.text)
    ids: list[int] = []
    for piece in _pieces(event, table, tokenizer, trail=trail):
        ids += piece if isinstance(piece, list) else tokenizer.encode(piece)
    return ids


def trail_ids(last: int | None, table: TokenTable, tokenizer: Tokenizer) -> list[int]:
    """Returns the ids of the white space that the system writes after a tag with the `last` id."""
    for tag, space in table.trails.items():
        if tokenizer.special[tag] == last:
            return tokenizer.encode(space)
    return []
