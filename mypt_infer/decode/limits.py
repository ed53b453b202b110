"""Checks the options of a decoder: blocks that are forbidden, and budgets of blocks.

Input: options as a caller has them, tables and tools. Output: options as the decoder needs them, or
an error that says what would do.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.allow import BudgetError
from mypt_infer.decode.base.tools import ToolSpec
from mypt_infer.decode.compile.grammar_graph import kinds_of
from mypt_infer.decode.compile.nfa import CALLING, NO_BLOCK, THINKING
from mypt_infer.decode.compile.tables import DEAD_STATE, Tables
from mypt_infer.decode.compile.token_table import FAR
from mypt_infer.decode.engine import Engine
from mypt_spec import Dialect
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event
from mypt_spec.states import empty_kinds

# A state is its machine's, and the tokens left in all and in the open block, in so many bits.
_LEFT_BITS, BLOCK_BITS = 20, 18
ENDLESS = (1 << _LEFT_BITS) - 1  # no budget
UNBOUNDED = (1 << BLOCK_BITS) - 1  # no budget for the open block
BUDGET_BITS = _LEFT_BITS + BLOCK_BITS
NO_BUDGETS = (1 << BUDGET_BITS) - 1


def packed(machine: int, remaining: int, inside: int) -> int:
    return machine << BUDGET_BITS | remaining << BLOCK_BITS | inside


def unpacked(state: int) -> tuple[int, int, int]:
    """Returns (machine, left, inside) of a state of the decoder."""
    return state >> BUDGET_BITS, state >> BLOCK_BITS & ENDLESS, state & UNBOUNDED


def forbidden_kinds(dialect: Dialect, kinds: Iterable[str], *, calls: bool) -> frozenset[str]:
    """Returns those of the kinds that the model could open at all, or would find open but empty.

    Raises ValueError for a kind that the dialect does not have.
    """
    if isinstance(kinds, str):
        raise ValueError(f"forbidden_blocks is a list of kinds of block, got {kinds!r}")
    openers, callers = dialect.table.openers, kinds_of(dialect, CALLING)
    for kind in (names := frozenset(kinds)):
        if kind not in openers:
            raise ValueError(
                f"forbidden_blocks has {kind!r}, which is not a block of {dialect.name}: "
                f"{', '.join(openers)}"
            )
    mine = {k for k in openers if openers[k].by_model and (calls or k not in callers)}
    return names & (mine | empty_kinds(dialect.table))


def check_ways(tables: Tables, forbidden_blocks: frozenset[str], *, require_call: bool) -> None:
    """Raises ValueError if a turn could not be ended without the forbidden blocks."""
    # After an answer, no other one can be ended; and not everywhere can a call begin.
    ways = all if tables.answers or require_call else any
    if forbidden_blocks and ways(not tables.alive(s) for s in tables.start.values()):
        raise ValueError(
            f"no turn can be ended without {' and '.join(sorted(forbidden_blocks))}, "
            "which is forbidden"
        )


def caps_of(
    dialect: Dialect, engine: Engine, tools: Sequence[ToolSpec], think: int | None, call: int | None
) -> npt.NDArray[np.int64]:
    """Returns the budget of each kind of block, closing tag included; UNBOUNDED without one.

    `think` and `call` bound the content of thoughts and of calls. Raises BudgetError for one that
    no such block fits in.
    """
    caps = np.full(3, UNBOUNDED, dtype=np.int64)
    for block, cap, what in (
        (THINKING, think, "max_think_tokens"),
        (CALLING, call, "max_toolcall_tokens"),
    ):
        if cap is not None:
            caps[block] = count_of(cap, what, UNBOUNDED - 64) + closing_tokens(dialect, block)
    tables = engine.tables
    if think is not None:
        for state in entries_of(tables, THINKING):
            least = int(tables.to_close[state])
            _check("max_think_tokens", think, int(caps[THINKING]), least, "a thought")
    if call is not None:
        entries = entries_of(tables, CALLING)
        for i, tool in enumerate(tools):
            alone = engine.only(i)
            others = (alone.owner != i) & (alone.owner >= 0)
            closing = alone.measure(alone.outside, others)
            for state in entries:
                if closing[state] < FAR:
                    least = int(closing[state])
                    what = f"a call of {tool.name!r}"
                    _check("max_toolcall_tokens", call, int(caps[CALLING]), least, what)
    return caps


def needs_of(engine: Engine, machine: int) -> tuple[int, int]:
    """Returns how many tokens, in all and in the block, must be exceeded for budgets to be free."""
    tables, inside = engine.tables, engine.state_facts(machine).block != NO_BLOCK
    if machine >= tables.size:
        _, block, distance, to_close = engine.allow(machine)
    else:
        states = tables.following(machine) if tables.frame[machine] else tables.listed(machine)[1]
        states = states[states != DEAD_STATE]
        block, distance, to_close = tables.facts(states)
    closing = to_close[block != NO_BLOCK] if inside else to_close[:0]
    return int(distance.max(initial=0)), int(closing.max(initial=0))


def count_of(value: int, what: str, most: int) -> int:
    """Returns a number of tokens. Raises BudgetError, naming the option, for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise BudgetError(f"{what} must be a number of tokens, 0 or more; got {value!r}", 0)
    if value > most:
        raise BudgetError(
            f"{what} is {value}; at most {most} are counted. Leave it out for no budget", 0
        )
    return int(value)


def closing_tokens(dialect: Dialect, block: int) -> int:
    """Returns the tokens of the tag that closes a block: they do not count as its content."""
    table, longest = dialect.table, 1
    for kind in kinds_of(dialect, block):
        closer = table.closers.get(kind)
        if closer is not None:
            ids = tag_ids(Event(closer.name, closer.spell()), table, dialect.tokenizer, trail=False)
            longest = max(longest, len(ids))
    return longest


def _check(name: str, value: int, cap: int, least: int, what: str) -> None:
    if least > cap:
        least -= cap - value
        raise BudgetError(f"{name} is {value}; {what} takes at least {least} tokens", least)


def entries_of(tables: Tables, block: int) -> list[int]:
    """Returns the states right after an opening tag of such a block."""
    outside = {*tables.start.values(), *tables.spine[0].tolist()}
    after = np.concatenate([tables.following(s) for s in outside if tables.block[s] == NO_BLOCK])
    return sorted(set(after[tables.block[after] == block].tolist()))
