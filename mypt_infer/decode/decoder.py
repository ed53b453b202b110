"""Says which token may come next. The whole state of a row is one integer.

NumPy only; `mypt_infer.generate.device` does the same for torch.

Theory of operation. An engine (engine.py) knows the *machine*: its states, which ids may follow
each, and from each the least number of tokens to a legal ending (`distance`) and to the end of the
open block (`to_close`). The decoder adds budgets. A state packs three numbers:

    machine << 38 | tokens left in all (20 bits) << 18 | tokens left in the open block (18 bits)

All ones mean "no budget". A token is allowed when the machine takes it and the state after it can
still end in time: `distance` fits in the tokens that remain in all, `to_close` in those of the
block. So a turn can always be ended legally (invariant 7). Where more tokens remain than any
ending after this state takes, budgets refuse nothing and the allow set depends on the machine alone
(`free`); most steps take this path, and reuse the set.

In dialect gabgpt, the state after the prompt "<|user|>Hi" with max_new_tokens=3 is 274878955519:
machine 1, 3 tokens left, no budget of a block. `<|assistant|>` leads to machine 2 with 2 left: of
50,304 ids 49,913 are allowed, but none that stops within a character, whose rest would have to come
before `<|end|>`. `" Yo"` leads to machine 3 with 1 left: only `<|end|>` is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

import mypt_spec
from mypt_infer.decode.base.allow import (
    AllowSet,
    BudgetError,
    Holder,
    Holders,
    Refused,
    Rows,
    States,
)
from mypt_infer.decode.base.tools import Declaration
from mypt_infer.decode.base.vocab import Ints
from mypt_infer.decode.compile.free_sets import FreeSets
from mypt_infer.decode.compile.nfa import CALLING, NO_BLOCK, THINKING
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.engine import StateFacts
from mypt_infer.decode.limits import (
    BLOCK_BITS,
    BUDGET_BITS,
    ENDLESS,
    NO_BUDGETS,
    UNBOUNDED,
    caps_of,
    check_ways,
    count_of,
    forbidden_kinds,
    needs_of,
    packed,
    unpacked,
)  # fmt: skip
from mypt_infer.decode.llguidance.response import Response
from mypt_infer.decode.one_way import OneWay
from mypt_infer.decode.prompt import prompt_ids, start_state
from mypt_infer.decode.readable import readable
from mypt_spec import Dialect, Episode
from mypt_spec.memo import Memo

# The number of allow sets that are kept.
_REMEMBERED = 4096
# The most bytes of these, and of steps, in each memo.
_ROOM = 16 << 20
# After so many refusals for a budget in one state, only ids with a proven ending are allowed.
_TRIED = 8
# So many classes are gathered one by one; of more, all ids are looked at, which takes 50 us.
_FEW_CLASSES = 64
# The most steps that are kept, and the bytes that one takes in a dict (Python's integers and its
# slot). Keys are numbers, not pairs: of a dict of tuples, the collector of garbage looks at each.
_JUMPS, _JUMP = 1 << 16, 176
# More bits than an id of any vocabulary needs.
_ID_BITS = 20

__all__ = ["AllowSet", "BudgetError", "Decoder", "Refused", "machine"]


class Decoder(Rows):
    """Says which token the model may write next in a dialect, with some tools, within budgets.

    `max_think_tokens` and `max_toolcall_tokens` bound the content of each such block. `tools` are
    JSON schemas, functions or ToolSpecs; without tools there are no calls. `forbidden_blocks` are
    kinds of block that the model may not write, as the grammar names them: "think", for example.
    A state is an int: keep one to go back to it, use it twice to fork. `engine` reads the bodies
    of calls: "table"; "llguidance", for schemas that no table holds; "auto", the first if it can.
    `strict` refuses keywords that JSON Schema does not define, which are else read as nothing, and
    types of other languages, which are else read as JSON Schema's, with one warning.
    `skip_unreadable` leaves out tools that cannot be read: `skipped` has their reasons.
    `response` says what the text of the answer has to be. With `require_call`, each answer calls
    a tool: the model may think before, and writes no other text.

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
        forbidden_blocks: Iterable[str] = (),
        response: Response | None = None,
        require_call: bool = False,
        strict: bool = False,
        skip_unreadable: bool = False,
    ) -> None:
        self.dialect = mypt_spec.dialect(dialect) if isinstance(dialect, str) else dialect
        plain = callable(tools) or isinstance(tools, str | bytes | dict)
        declarations: Any = tools if plain else tuple(tools)
        self.forbidden_blocks = forbidden_kinds(
            self.dialect, forbidden_blocks, calls=bool(declarations)
        )
        self.tools, self.engine, self.skipped = readable(
            self.dialect, declarations, engine, self.forbidden_blocks,
            strict=strict, skip_unreadable=skip_unreadable, response=response,
            require_call=require_call,
        )  # fmt: skip
        if require_call and (response is not None or not self.tools):
            raise ValueError("require_call needs tools, and no response beside them")
        self.response, self.require_call = response, require_call
        self.tables: Tables = self.engine.tables
        self._limits = max_think_tokens, max_toolcall_tokens
        self._engine_name = engine
        check_ways(self.tables, self.forbidden_blocks, require_call=require_call)
        self.caps = caps_of(self.dialect, self.engine, self.tools, *self._limits)
        self._order, self._bounds = self.tables.members
        # Of the machine's states, how many ids were refused there that had been allowed.
        self.refusals: dict[int, int] = {}
        self._one_way = OneWay(self.dialect, self.engine)
        self._size = self.tables.size
        self._block, self._distance, self._to_close, self._final = self.tables.lists
        # What is known of the engine's own states: StateFacts as plain tuples of numbers, at which
        # the collector of garbage looks once, not each time.
        self._facts: dict[int, tuple[int, bool, int, int]] = {}
        self._reset_caches()
        self._holders = Holders()
        self.engine.hold_used(self._used)

    def _reset_caches(self) -> None:
        """Sets up the caches that depend on the budgets of blocks."""
        self._unbudgeted = FreeSets(self.tables, self.caps, UNBOUNDED)
        self._sets = Memo[int, AllowSet](_REMEMBERED, room=_ROOM)
        self._free = Memo[int, tuple[int, int, AllowSet]](_REMEMBERED, room=_ROOM)
        # Of states, how many ids were refused there because no ending fits into the budget.
        self._too_long = Memo[int, int](_REMEMBERED)
        # Of a state without budgets and a token, the state after it.
        self._jumps = Memo[int, int](_JUMPS, room=_ROOM, each=_JUMP)
        self._caps = self.caps.tolist()
        self.epoch = 0  # counts how often the engine has forgotten states
        self.engine.on_forgetting(self._forget)

    def capping_thoughts(self, cap: int) -> Decoder:
        """Returns a decoder with the same states, in which `cap` tokens end each thought.

        These include its closing tags, for which `cap` must leave room (`max_think_tokens` does).
        """
        out = copy(self)
        out.caps = self.caps.copy()
        out.caps[THINKING] = cap
        out._reset_caches()
        return out

    def forbidding(self, kinds: Iterable[str]) -> Decoder:
        """Returns a decoder with the same tools and limits that forbids exactly these blocks.

        States of one decoder mean nothing to the other.
        """
        return Decoder(
            self.dialect, self.tools, max_think_tokens=self._limits[0],
            max_toolcall_tokens=self._limits[1], engine=self._engine_name, forbidden_blocks=kinds,
            response=self.response, require_call=self.require_call,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the tables, and of what is kept of states now, about."""
        memos = (self._sets, self._free, self._jumps)
        return self.engine.nbytes + self._one_way.nbytes + sum(memo.nbytes for memo in memos)

    # Beginning.

    def start(
        self, prompt: Episode | Sequence[int], *,
        max_new_tokens: int | None = None, called: Iterable[str] = (),
    ) -> int:  # fmt: skip
        """Returns the state after a prompt: a legal beginning, as ids or as a partial Episode.

        `called` are further tools that the prompt may have called. Raises PromptError for an
        illegal beginning, or one after which the model may not write; BudgetError when no legal
        ending fits into the budget.
        """
        names = frozenset([*(t.name for t in self.tools), *called])
        state = start_state(
            self.dialect, self.tables, names, self.ids_of(prompt), step=self.engine.next,
            begin=self.engine.begin, final=lambda machine: self._facts_of(machine).final,
        )  # fmt: skip
        return self.at(state, max_new_tokens=max_new_tokens)

    def ids_of(self, prompt: Episode | Sequence[int]) -> list[int]:
        """Returns the ids of a prompt; an Episode gets the header that the model writes after."""
        if isinstance(prompt, Episode):
            return prompt_ids(self.dialect, prompt)
        return [int(i) for i in prompt]

    def at(self, machine: int, *, max_new_tokens: int | None = None) -> int:
        """Returns a state of the machine with fresh budgets."""
        remaining = ENDLESS
        if max_new_tokens is not None:
            remaining = count_of(max_new_tokens, "max_new_tokens", ENDLESS - 1)
        block, _, least, _ = self._facts_of(machine)
        if remaining < least:
            raise BudgetError(
                f"max_new_tokens is {remaining}; the shortest legal ending from here takes {least} "
                "tokens",
                least,
            )
        return packed(machine, remaining, self._caps[block] if block else UNBOUNDED)

    # What may come next.

    def allow(self, state: int) -> AllowSet:
        """Returns the allow set of a state."""
        least, inside, free = self._free.entries.get(state >> BUDGET_BITS) or self.free(int(state))
        if state >> BLOCK_BITS & ENDLESS > least and state & UNBOUNDED > inside:
            return free
        state = int(state)
        allow_set = self._sets.entries.get(state)
        if allow_set is None:
            allow_set = self._make(*unpacked(state))
            self._sets.keep(state, allow_set, allow_set.size)
        return allow_set

    def free(self, state: int) -> tuple[int, int, AllowSet]:
        """Returns (left, block_left, allow_set): the allow set without budgets.

        It is valid while more than these many tokens remain, in all and in the block.
        """
        machine = state >> BUDGET_BITS
        needs = self._free.entries.get(machine)
        if needs is not None:
            return needs
        free = self._unbudgeted.free(machine) if machine < self._size else self.engine.free(machine)
        if free is not None:
            return self._free.keep(machine, free, free[2].size)
        free_set = self._make(machine, ENDLESS, UNBOUNDED)
        return self._free.keep(machine, (*needs_of(self.engine, machine), free_set), free_set.size)

    @property
    def vocab_size(self) -> int:
        return self.tables.vocabulary

    def allow_each(self, states: Sequence[int] | States) -> list[AllowSet]:
        each = states.tolist() if isinstance(states, np.ndarray) else states
        return list(map(self.allow, each))

    def ids(self, state: int) -> Ints:
        """Returns the allowed ids, sorted, int32."""
        only = self.allow(state).only
        return np.flatnonzero(self.allowed(state)).astype(np.int32) if only is None else only

    def allowed(self, state: int) -> npt.NDArray[np.bool_]:
        """Returns whether each id may come next: bool, shape (vocabulary,)."""
        machine, remaining, inside = unpacked(state)
        if machine < self._size:
            return self._allowed_classes(machine, remaining, inside)[self.tables.classes]
        out = np.zeros(self.tables.vocabulary, bool)
        out[self._allowed_ids(machine, remaining, inside)] = True
        return out

    def forced(self, state: int, before: Sequence[int] | None = None) -> list[int]:
        """Returns the ids that must come next, up to a final state: while only one is allowed.

        With `before`, the last ids that led to the state: also while only one text may follow, the
        ids that the encoder has for it, as far as it is known and the budgets allow.
        """
        out: list[int] = []
        while not self.final(state):
            only_way: list[int] = []
            if before is not None:
                only_way = self._one_way.ids(state >> BUDGET_BITS, [*before, *out])
            for token in only_way:
                try:
                    state = self.next(state, token)
                except ValueError:  # the budget is too small for these tokens
                    return out
                out.append(token)
            if self.final(state):
                break
            allow_set = self.allow(state)
            if allow_set.count != 1 or allow_set.only is None:
                break
            out.append(int(allow_set.only[0]))
            state = self.next(state, out[-1])
        return out

    # Steps.

    def next(self, state: int, token: int) -> int:
        """Returns the state after one token. Raises ValueError when it is not allowed."""
        if token >> _ID_BITS:
            raise ValueError(
                f"id {token} is outside the vocabulary of {self.tables.vocabulary} ids"
            )
        jump = self._jumps.entries.get(state >> BUDGET_BITS << _ID_BITS | token)
        if jump is not None:
            if state & NO_BUDGETS == NO_BUDGETS:
                return jump
            budget = (state >> BLOCK_BITS & ENDLESS) - 1
            there = jump >> BUDGET_BITS
            least = self._distance[there] if there < self._size else self._facts_of(there).distance
            if least <= budget:
                return jump ^ (ENDLESS ^ budget) << BLOCK_BITS
        machine, remaining, inside = unpacked(state)
        before = self.allow(state) if machine >= self._size and remaining else None
        begun = self._open(machine)  # known before the step: states may be forgotten in it
        then = self.engine.next(machine, token)
        if then == DEAD_STATE or remaining < 1:
            self._refuse(state, token, before)
            raise ValueError(f"id {token} is not allowed in state {state}")
        budget = remaining if remaining == ENDLESS else remaining - 1
        if then < self._size:  # a tuple of facts would take longer than all else
            block, distance = self._block[then], self._distance[then]
            to_close = self._to_close[then]
        else:
            block, _, distance, to_close = self._facts_of(then)
        if block == NO_BLOCK:
            within = UNBOUNDED
        elif begun == NO_BLOCK:
            within = self._caps[block]
        else:
            within = inside if inside == UNBOUNDED else inside - 1
        if distance > budget or (block and to_close > within):
            self._too_long.keep(state, self._too_long.entries.get(state, 0) + 1)
            self._refuse(state, token, before)
            raise ValueError(
                f"id {token} is not allowed in state {state}: no legal ending would fit into the "
                "budget"
            )
        after = then << BUDGET_BITS | budget << BLOCK_BITS | within
        # Without a budget of a block, only the tokens left in all can refuse this step next time.
        if inside == within == UNBOUNDED and (not block or self._caps[block] == UNBOUNDED):
            self._jumps.keep(int(machine << _ID_BITS | token), after | NO_BUDGETS)
        return after

    def endless(self, state: int) -> int:
        """Returns the same state without budgets."""
        return state | NO_BUDGETS

    def respelled(self, state: int, token: int, before: Sequence[int]) -> list[int]:
        """Returns the ids of the one text that a drawn id begins, if the budgets allow them."""
        ids = self._one_way.respelled(state >> BUDGET_BITS, token, before)
        return ids if self.accepts(state, ids) == len(ids) else [token]

    def takes(self, state: int, token: int) -> bool:
        """Returns whether a token is taken that was allowed; if not, it is not allowed any more.

        Where tables read calls, every allowed token is. Elsewhere, a refusal may take others along.
        """
        if state >> BUDGET_BITS < self._size:
            return True
        try:
            self.next(state, token)
        except ValueError:  # refused now, or since it was allowed
            return False
        return True

    def unproved(self, state: int) -> bool:
        """Returns whether `takes` may refuse an id that is allowed, for all that is known."""
        machine = state >> BUDGET_BITS
        if machine < self._size or (self.unbound(state) and self.engine.is_certain(machine)):
            return False
        certain = self.engine.is_certain(machine)
        return not certain or self.allow(state).count > len(self.near_ids(state))

    def unbound(self, state: int) -> bool:
        """Returns whether the budgets of a state refuse nothing."""
        least, inside, _ = self.free(state)
        return state >> BLOCK_BITS & ENDLESS > least and state & UNBOUNDED > inside

    def near_ids(self, state: int) -> Ints:
        """Returns allowed ids that are taken for sure: all, or those that are proved."""
        machine, remaining, inside = unpacked(state)
        ids, *places = self.engine.proved_options(machine)
        return ids[self._fits(machine, remaining, inside, *places)]

    def accepts(self, state: int, ids: Iterable[int]) -> int:
        """Returns how many of some drafted tokens hold, one after another.

        The state after them is `run(state, ids[:count])`. A draft ends at the end of a turn.
        """
        count = 0
        for token in ids:
            try:
                state = self.next(state, int(token))
            except ValueError:
                break
            count += 1
        return count

    def _refuse(self, state: int, token: int, before: AllowSet | None) -> None:
        """Raises Refused for an id that was among `before`, the allow set of a state, until now."""
        if before is not None and before.has(token):
            self._free.forget(state >> BUDGET_BITS)
            self._sets.forget(state)
            self.refusals[state >> BUDGET_BITS] = self.refusals.get(state >> BUDGET_BITS, 0) + 1
            raise Refused(f"no ending was found that fits after id {token} in state {state}")

    def _open(self, machine: int) -> int:
        return self._block[machine] if machine < self._size else self._facts_of(machine).block

    def _facts_of(self, machine: int) -> StateFacts:
        if machine < self._size:
            return self.engine.state_facts(machine)
        facts = self._facts.get(machine)
        if facts is None:
            facts = self._facts[machine] = (*self.engine.state_facts(machine),)
        return StateFacts._make(facts)

    def hold(self, states: Sequence[int | None] | Holder) -> Holder:
        """Returns an object that keeps the states of a list from being forgotten while it lives.

        Inside bodies that llguidance reads, states are kept within a bound of bytes. Rows that wait
        while others go on hold theirs: what is put into the list later is held, too.
        """
        return self._holders.add(states)

    def _used(self) -> list[int]:
        return [machine(int(state)) for state in self._holders.states]

    def _forget(self, machines: set[int]) -> None:
        """Forgets states that the engine has forgotten, with all that leads to them."""
        self.epoch += 1
        for machine in machines:
            self._facts.pop(machine, None)
            self.refusals.pop(machine, None)
            self._free.forget(machine)
        for memo in (self._jumps, self._sets, self._too_long):
            memo.clear()

    def step(
        self, states: Sequence[int] | States, ids: Sequence[int] | npt.NDArray[np.integer]
    ) -> States:
        """Returns the states after one token for each row, int64, shape (rows,).

        Raises ValueError naming the row whose token is refused.
        """
        out = np.empty(len(states), dtype=np.int64)
        for row, (state, token) in enumerate(zip(states, ids, strict=True)):
            try:
                out[row] = self.next(int(state), int(token))
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
        return out

    def run(self, state: int, ids: Iterable[int]) -> int:
        """Returns the state after several tokens. Raises ValueError when one is refused."""
        for token in ids:
            state = self.next(state, int(token))
        return state

    # Looking at a state.

    def final(self, state: int) -> bool:
        """Returns whether generation may end: the turn is over, or a tool's result has to come."""
        machine = state >> BUDGET_BITS
        return self._final[machine] if machine < self._size else self._facts_of(machine).final

    def left(self, state: int) -> int | None:
        """Returns the tokens left of max_new_tokens; None without a budget."""
        remaining = unpacked(state)[1]
        return None if remaining == ENDLESS else remaining

    def minimum(self, state: int) -> int:
        """Returns the least number of tokens to a legal ending.

        Inside a body that llguidance reads, the least number that is known.
        """
        return self._facts_of(state >> BUDGET_BITS).distance

    def calling(self, state: int) -> bool:
        """Returns whether the body of a call is open."""
        return self._open(state >> BUDGET_BITS) == CALLING

    def thinking(self, state: int) -> bool:
        """Returns whether a thought is open."""
        return self._open(state >> BUDGET_BITS) == THINKING

    def minimum_of_block(self, state: int) -> int:
        """Returns the least number of tokens to the end of the open block."""
        return self._facts_of(state >> BUDGET_BITS).to_close

    # Inside.

    def _allowed_classes(self, machine: int, remaining: int, inside: int) -> npt.NDArray[np.bool_]:
        tables = self.tables
        states = tables.following(machine)
        alive: npt.NDArray[np.bool_] = states != DEAD_STATE
        return alive & self._fits(machine, remaining, inside, *tables.facts(states))

    def _fits(
        self, machine: int, remaining: int, inside: int, block: Ints, distance: Ints, to_close: Ints
    ) -> npt.NDArray[np.bool_]:
        """Returns whether the budgets of a state are enough for each state after it."""
        budget = remaining if remaining == ENDLESS else remaining - 1
        within: npt.NDArray[np.int64] | int = inside if inside == UNBOUNDED else inside - 1
        if self._open(machine) == NO_BLOCK:
            within = self.caps[block]
        ok: npt.NDArray[np.bool_] = block == NO_BLOCK
        ok |= to_close <= within
        ok &= distance <= budget
        return ok

    def _allowed_ids(self, machine: int, remaining: int, inside: int) -> Ints:
        ids, *places = self.engine.allow(machine)
        fits = self._fits(machine, remaining, inside, *places)
        if fits.all():
            return ids
        state = packed(machine, remaining, inside)
        if self._too_long.entries.get(state, 0) >= _TRIED:
            return self.near_ids(state)
        ids, *places = self.engine.proved_options(machine, proved=False)
        return ids[self._fits(machine, remaining, inside, *places)]

    def _make(self, machine: int, remaining: int, inside: int) -> AllowSet:
        if machine >= self._size:
            return AllowSet.of_flags(self.allowed(packed(machine, remaining, inside)))
        tables = self.tables
        if not tables.frame[machine]:
            ids, states = tables.listed(machine)
            ids = ids[self._fits(machine, remaining, inside, *tables.facts(states))]
            return AllowSet(len(ids), ids, None)
        ok = self._allowed_classes(machine, remaining, inside)
        count = int(np.diff(self._bounds)[ok].sum())
        if count * 2 > self.tables.vocabulary:
            return AllowSet(count, None, self._members(~ok))
        return AllowSet(count, self._members(ok), None)

    def _members(self, classes: npt.NDArray[np.bool_]) -> Ints:
        if np.count_nonzero(classes) > _FEW_CLASSES:
            return np.flatnonzero(classes[self.tables.classes]).astype(np.int32)
        order, bounds = self._order, self._bounds
        parts = [order[bounds[c] : bounds[c + 1]] for c in np.flatnonzero(classes)]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int32)


def machine(state: int) -> int:
    """Returns the state of the machine, without the budgets."""
    return state >> BUDGET_BITS
