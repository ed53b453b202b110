"""The decoder: which token may come next, as one integer a row. NumPy only; `mypt_infer.decode.device` has the same for torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import mypt_spec
from mypt_infer.decode.engine import Engine, engine_of
from mypt_infer.decode.model import kinds_of
from mypt_infer.decode.net import CALLING, NO_BLOCK, THINKING
from mypt_infer.decode.prompt import opening, start_state
from mypt_infer.decode.rows import FAR
from mypt_infer.decode.tables import DEAD_STATE, Tables
from mypt_infer.decode.tools import Declaration, ToolSpec, declare
from mypt_infer.decode.vocab import Ints
from mypt_spec import Dialect, Episode
from mypt_spec.encode import tag_ids
from mypt_spec.episode import Event

# A state as one integer: the machine's state, the tokens left in all, and those left in the open block.
_LEFT_BITS, _BLOCK_BITS = 20, 18
ENDLESS = (1 << _LEFT_BITS) - 1  # no budget
UNBOUNDED = (1 << _BLOCK_BITS) - 1  # no budget for the open block
_MASK, _SHIFT = (1 << _LEFT_BITS + _BLOCK_BITS) - 1, _LEFT_BITS + _BLOCK_BITS
_REMEMBERED = 4096  # allow sets
_ID_BITS = 20  # more than any vocabulary here needs

States = npt.NDArray[np.int64]


class BudgetError(ValueError):
    """A budget that no legal ending fits in; `minimum` is the least that would do."""

    def __init__(self, message: str, minimum: int) -> None:
        super().__init__(message)
        self.minimum = minimum


@dataclass(frozen=True, eq=False)
class AllowSet:
    """The ids that may come next. The shorter list is given, sorted: `only` those allowed, or all but `refused`.

    `places` is that list once more, as NumPy indexes best.
    """

    count: int
    only: Ints | None
    refused: Ints | None
    places: npt.NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "places",
            np.asarray(self.refused if self.only is None else self.only, dtype=np.intp),
        )


class Decoder:
    """What the model may write in a dialect, with some tools, within budgets.

    `max_think_tokens` and `max_toolcall_tokens` bound the content of each such block. `tools` are JSON schemas, functions or
    ToolSpecs; without tools there are no calls. `barred` are kinds of block that the model may not open, as the grammar names them:
    "think", say. A state is an int: keep one to go back to it, use it twice to fork.
    `engine` reads the bodies of calls: "table"; "llguidance", for schemas that no table holds; "auto", the first if it can.

    >>> decoder = Decoder("gabgpt")
    >>> tokenizer = decoder.dialect.tokenizer
    >>> state = decoder.start([50257, *tokenizer.encode("Hi")], max_new_tokens=3)
    >>> [tokenizer.decode([i]) for i in decoder.ids(state)]
    ['<|think|>', '<|assistant|>']
    """

    def __init__(
        self,
        dialect: Dialect | str,
        tools: Iterable[Declaration] = (),
        *,
        max_think_tokens: int | None = None,
        max_toolcall_tokens: int | None = None,
        engine: str = "table",
        barred: Iterable[str] = (),
    ) -> None:
        self.dialect = mypt_spec.dialect(dialect) if isinstance(dialect, str) else dialect
        self.tools: tuple[ToolSpec, ...] = declare(tools)
        self.barred = self._barred(barred)
        self.bodies: Engine = engine_of(self.dialect, self.tools, engine, self.barred)
        self.tables: Tables = self.bodies.tables
        self._limits = {
            "max_think_tokens": max_think_tokens,
            "max_toolcall_tokens": max_toolcall_tokens,
        }
        self._engine = engine
        self._check_ways()
        self.caps = np.full(3, UNBOUNDED, dtype=np.int64)
        for block, cap, what in (
            (THINKING, max_think_tokens, "max_think_tokens"),
            (CALLING, max_toolcall_tokens, "max_toolcall_tokens"),
        ):
            if cap is not None:
                self.caps[block] = _count(cap, what, UNBOUNDED - 64) + self._closing(block)
        self._check_caps(max_think_tokens, max_toolcall_tokens)
        self._order, self._bounds = self.tables.members
        self._sets: dict[int, AllowSet] = {}
        self._free: dict[int, tuple[int, int, AllowSet]] = {}
        self._steps: dict[int, int] = {}
        self._jumps: dict[tuple[int, int], int] = {}
        self._caps, self._size = self.caps.tolist(), self.tables.size
        self._block, self._distance, self._to_close = map(
            list, self.tables.lists
        )  # the engine's own states are added

    def barring(self, kinds: Iterable[str]) -> Decoder:
        """A decoder of the same tools and limits that has these kinds of block barred, and only these. Its states are others."""
        return Decoder(self.dialect, self.tools, engine=self._engine, barred=kinds, **self._limits)

    # Beginning.

    def start(self, prompt: Episode | Sequence[int], *, max_new_tokens: int | None = None) -> int:
        """The state behind a prompt: a legal beginning of a conversation, as ids or as a partial Episode.

        Raises PromptError when it is none, or not for the model to go on; BudgetError when no legal ending fits in.
        """
        state = start_state(
            self.dialect,
            self.tables,
            frozenset(t.name for t in self.tools),
            self.ids_of(prompt),
            self._step,
        )
        return self.at(state, max_new_tokens=max_new_tokens)

    def ids_of(self, prompt: Episode | Sequence[int]) -> list[int]:
        """The ids of a prompt, with the header that makes room for the model where an Episode lacks it."""
        if not isinstance(prompt, Episode):
            return [int(i) for i in prompt]
        ids = [int(i) for i in self.dialect.encode(prompt, partial=True).ids]
        return ids + opening(self.dialect, ids)

    def at(self, machine: int, *, max_new_tokens: int | None = None) -> int:
        """A state of the machine with fresh budgets."""
        left = (
            ENDLESS
            if max_new_tokens is None
            else _count(max_new_tokens, "max_new_tokens", ENDLESS - 1)
        )
        least = self._distance[machine]
        if left < least:
            raise BudgetError(
                f"max_new_tokens is {left}; the shortest legal ending from here takes {least} tokens",
                least,
            )
        block = self._block[machine]
        return _packed(machine, left, self._caps[block] if block else UNBOUNDED)

    # What may come next.

    def allow(self, state: int) -> AllowSet:
        """The allow set of a state, by the shorter list."""
        left, inside, found = self._free.get(state >> _SHIFT) or self.free(int(state))
        if state >> _BLOCK_BITS & ENDLESS > left and state & UNBOUNDED > inside:
            return found
        state = int(state)
        if state not in self._sets:
            if len(self._sets) >= _REMEMBERED:
                self._sets.clear()
            self._sets[state] = self._make(*_unpacked(state))
        return self._sets[state]

    def free(self, state: int) -> tuple[int, int, AllowSet]:
        """Of a state's place: the allow set without budgets, behind the tokens left, in all and in the block, above which it holds."""
        machine = state >> _SHIFT
        if machine not in self._free:
            if len(self._free) >= _REMEMBERED:
                self._free.clear()
            self._free[machine] = *self._needs(machine), self._make(machine, ENDLESS, UNBOUNDED)
        return self._free[machine]

    def ids(self, state: int) -> Ints:
        """The allowed ids, sorted, int32."""
        found = self.allow(state)
        return (
            np.flatnonzero(self.allowed(state)).astype(np.int32)
            if found.only is None
            else found.only
        )

    def allowed(self, state: int) -> npt.NDArray[np.bool_]:
        """Whether each id may come next; shape (vocabulary,)."""
        machine, left, inside = _unpacked(state)
        if machine < self._size:
            return self._allowed_classes(machine, left, inside)[self.tables.classes]
        out = np.zeros(self.tables.vocabulary, bool)
        out[self._allowed_ids(machine, left, inside)] = True
        return out

    def bias(self, states: Sequence[int] | States) -> npt.NDArray[np.float32]:
        """0 for allowed ids and -inf for all others, to be added to logits; shape (rows, vocabulary)."""
        out = np.full((len(states), self.tables.vocabulary), -np.inf, dtype=np.float32)
        for row, state in zip(out, states, strict=True):
            row[self.allowed(int(state))] = 0.0
        return out

    def packed(self, states: Sequence[int] | States) -> npt.NDArray[np.int32]:
        """One bit an id, 1 where it is allowed, lowest bit first; int32, shape (rows, vocabulary / 32 rounded up).

        The bitmask that the kernels of other libraries take, and a 32nd of `bias` to store.
        """
        words = -(-self.tables.vocabulary // 32)
        out = np.zeros((len(states), words * 4), dtype=np.uint8)
        for row, state in zip(out, states, strict=True):
            bits = np.packbits(self.allowed(int(state)), bitorder="little")
            row[: len(bits)] = bits
        return out.view("<i4")

    def mask(self, logits: npt.NDArray[np.floating], states: Sequence[int] | States) -> None:
        """Set the logits of refused ids to -inf, in place; shape (rows, vocabulary). Writes only what has to change."""
        for row, state in zip(logits, states, strict=True):
            found = self.allow(int(state))
            if found.refused is not None:
                row[found.places] = -np.inf
            else:
                kept = row[found.places]
                row[:] = -np.inf
                row[found.places] = kept

    def forced(self, state: int) -> list[int]:
        """The ids that must come next, as long as there is only one way; up to a state where generation may end."""
        out: list[int] = []
        while not self.final(state):
            found = self.allow(state)
            if found.count != 1 or found.only is None:
                break
            out.append(int(found.only[0]))
            state = self.next(state, out[-1])
        return out

    # Going on.

    def next(self, state: int, token: int) -> int:
        """The state behind one token. Raises ValueError when it is not allowed."""
        known = self._jumps.get((state | _MASK, token))
        if known is not None:
            if state & _MASK == _MASK:
                return known
            spent = (state >> _BLOCK_BITS & ENDLESS) - 1
            if self._distance[known >> _SHIFT] <= spent:
                return known ^ (ENDLESS ^ spent) << _BLOCK_BITS
        machine, left, inside = state >> _SHIFT, state >> _BLOCK_BITS & ENDLESS, state & UNBOUNDED
        if token >> _ID_BITS:
            raise ValueError(
                f"id {token} is outside the vocabulary of {self.tables.vocabulary} ids"
            )
        then = self._steps.get(machine << _ID_BITS | token) or self._step(machine, token)
        if then == DEAD_STATE or left < 1:
            raise ValueError(f"id {token} is not allowed in state {state}")
        spent = left if left == ENDLESS else left - 1
        block = self._block[then]
        if block == NO_BLOCK:
            within = UNBOUNDED
        elif self._block[machine] == NO_BLOCK:
            within = self._caps[block]
        else:
            within = inside if inside == UNBOUNDED else inside - 1
        if self._distance[then] > spent or (block and self._to_close[then] > within):
            raise ValueError(
                f"id {token} is not allowed in state {state}: no legal ending would fit into the budget"
            )
        after = then << _SHIFT | spent << _BLOCK_BITS | within
        if (
            inside == within == UNBOUNDED
        ):  # no block with a budget: only the tokens left in all can refuse it next time
            if len(self._jumps) >= 16 * _REMEMBERED:
                self._jumps.clear()
            self._jumps[int(state) | _MASK, int(token)] = after | _MASK
        return after

    def _step(self, machine: int, token: int) -> int:
        """The engine's answer, kept for next time if it is one."""
        then = self.bodies.next(machine, token)
        for state in range(len(self._block), then + 1):
            distance, to_close = self.bodies.about(state)
            self._block.append(CALLING)
            self._distance.append(distance)
            self._to_close.append(to_close)
        if then != DEAD_STATE:
            if len(self._steps) >= 16 * _REMEMBERED:
                self._steps.clear()
            self._steps[machine << _ID_BITS | token] = then
        return then

    def step(
        self, states: Sequence[int] | States, ids: Sequence[int] | npt.NDArray[np.integer]
    ) -> States:
        """The states behind one token a row, int64, shape (rows,). Raises ValueError naming the row whose token is refused."""
        out = np.empty(len(states), dtype=np.int64)
        for row, (state, token) in enumerate(zip(states, ids, strict=True)):
            try:
                out[row] = self.next(int(state), int(token))
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
        return out

    def run(self, state: int, ids: Iterable[int]) -> int:
        """The state behind several tokens. Raises ValueError when one is refused."""
        for token in ids:
            state = self.next(state, int(token))
        return state

    # Looking at a state.

    def final(self, state: int) -> bool:
        """Whether generation may end here: the turn is complete, or a tool's result has to come."""
        return state >> _SHIFT < self._size and bool(self.tables.final[state >> _SHIFT])

    def left(self, state: int) -> int | None:
        """Tokens left of max_new_tokens; None without a budget."""
        left = _unpacked(state)[1]
        return None if left == ENDLESS else left

    def minimum(self, state: int) -> int:
        """The least number of tokens to a legal ending; inside a body that llguidance reads, the least that is known."""
        return self._distance[state >> _SHIFT]

    def calling(self, state: int) -> bool:
        """Whether the body of a call is open."""
        return self._block[state >> _SHIFT] == CALLING

    # Inside.

    def _allowed_classes(self, machine: int, left: int, inside: int) -> npt.NDArray[np.bool_]:
        tables = self.tables
        found = tables.following(machine)
        spent = left if left == ENDLESS else left - 1
        block = tables.block[found]
        within = (
            self.caps[block]
            if tables.block[machine] == NO_BLOCK
            else np.int64(inside if inside == UNBOUNDED else inside - 1)
        )
        fits = (block == NO_BLOCK) | (tables.to_close[found] <= within)
        ok: npt.NDArray[np.bool_] = (found != DEAD_STATE) & (tables.distance[found] <= spent) & fits
        return ok

    def _needs(self, machine: int) -> tuple[int, int]:
        """More tokens left than this, in all and in the block, and budgets refuse nothing here."""
        if machine >= self._size:
            _, distance, to_close = self.bodies.allow(machine)
            return int(distance.max()), int(to_close.max())
        found = self.tables.following(machine)
        found = found[found != DEAD_STATE]
        inside = (
            self.tables.to_close[found[self.tables.block[found] != NO_BLOCK]]
            if self.tables.block[machine]
            else found[:0]
        )
        return int(self.tables.distance[found].max(initial=0)), int(inside.max(initial=0))

    def _allowed_ids(self, machine: int, left: int, inside: int) -> Ints:
        """As `_allowed_classes`, of the engine's own states and by ids."""
        ids, distance, to_close = self.bodies.allow(machine)
        return ids[(distance < left) & ((to_close < inside) | (inside == UNBOUNDED))]

    def _make(self, machine: int, left: int, inside: int) -> AllowSet:
        if machine >= self._size:
            ids = self._allowed_ids(machine, left, inside)
            if len(ids) * 2 <= self.tables.vocabulary:
                return AllowSet(len(ids), ids, None)
            return AllowSet(
                len(ids),
                None,
                np.setdiff1d(
                    np.arange(self.tables.vocabulary, dtype=np.int32), ids, assume_unique=True
                ),
            )
        ok = self._allowed_classes(machine, left, inside)
        count = int((self._bounds[1:] - self._bounds[:-1])[ok].sum())
        if count * 2 > self.tables.vocabulary:
            return AllowSet(count, None, self._members(~ok))
        return AllowSet(count, self._members(ok), None)

    def _members(self, classes: npt.NDArray[np.bool_]) -> Ints:
        parts = [
            self._order[self._bounds[c] : self._bounds[c + 1]] for c in np.flatnonzero(classes)
        ]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int32)

    def _closing(self, block: int) -> int:
        """Tokens of the tag that closes a block: they do not count as its content."""
        table, longest = self.dialect.table, 1
        for kind in kinds_of(self.dialect, block):
            closer = table.closers.get(kind)
            if closer is not None:
                longest = max(
                    longest,
                    len(tag_ids(Event(closer.name, closer.spell()), table, self.dialect.tokenizer)),
                )
        return longest

    def _barred(self, kinds: Iterable[str]) -> frozenset[str]:
        """Those of the kinds that make a difference. Raises ValueError for one that is none of the dialect's."""
        if isinstance(kinds, str):
            raise ValueError(f"barred is a list of kinds of block, got {kinds!r}")
        openers, calls = self.dialect.table.openers, kinds_of(self.dialect, CALLING)
        for kind in (found := frozenset(kinds)):
            if kind not in openers:
                raise ValueError(
                    f"barred has {kind!r}, which is no block of {self.dialect.name}: {', '.join(openers)}"
                )
        return frozenset(
            k for k in found if openers[k].origin == "model" and (self.tools or k not in calls)
        )

    def _check_ways(self) -> None:
        if self.barred and any(self.tables.distance[s] >= FAR for s in self.tables.start.values()):
            raise ValueError(
                f"no turn can be ended without {' and '.join(sorted(self.barred))}, which is barred"
            )

    def _check_caps(self, think: int | None, call: int | None) -> None:
        if think is not None:
            for state in self._entries(THINKING):
                self._check_cap(
                    "max_think_tokens",
                    think,
                    int(self.tables.to_close[state]),
                    THINKING,
                    "a thought",
                )
        if call is not None:
            entries = self._entries(CALLING)
            for i, tool in enumerate(self.tools):
                tables = self.bodies.only(i)
                barred = (tables.owner != i) & (tables.owner >= 0)
                closing = tables.measure(
                    (tables.block == NO_BLOCK) & (np.arange(tables.size) != DEAD_STATE),
                    barred=barred,
                )
                for state in entries:
                    if closing[state] < FAR:
                        self._check_cap(
                            "max_toolcall_tokens",
                            call,
                            int(closing[state]),
                            CALLING,
                            f"a call of {tool.name!r}",
                        )

    def _check_cap(self, name: str, cap: int, least: int, block: int, what: str) -> None:
        if least > self.caps[block]:
            least -= int(self.caps[block]) - cap
            raise BudgetError(f"{name} is {cap}; {what} takes at least {least} tokens", least)

    def _entries(self, block: int) -> list[int]:
        """The states right behind an opening tag of such a block."""
        tables = self.tables
        outside = {*tables.start.values(), *tables.spine[0].tolist()}
        behind = np.concatenate(
            [tables.following(s) for s in outside if tables.block[s] == NO_BLOCK]
        )
        return sorted(set(behind[tables.block[behind] == block].tolist()))


def _count(value: int, what: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise BudgetError(f"{what} must be a number of tokens, 0 or more; got {value!r}", 0)
    if value > most:
        raise BudgetError(
            f"{what} is {value}; at most {most} are counted. Leave it out for no budget", 0
        )
    return int(value)


def machine(state: int) -> int:
    """The state of the machine, without the budgets."""
    return state >> _SHIFT


def _packed(machine: int, left: int, inside: int) -> int:
    return machine << _SHIFT | left << _BLOCK_BITS | inside


def _unpacked(state: int) -> tuple[int, int, int]:
    return state >> _SHIFT, state >> _BLOCK_BITS & ENDLESS, state & UNBOUNDED
