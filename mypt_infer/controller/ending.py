"""Finds the shortest way to a legal end of a turn, for a turn that is stopped."""

from __future__ import annotations

from collections import deque

from mypt_infer.run_format import Format
from mypt_spec.table import TEXT


def ending(fmt: Format, state: int) -> list[str]:
    """Returns the terminals from a state to the next state in which a conversation may end.

    The way opens no call and no reference. If possible it leads to a state in which another turn
    may begin. Raises ValueError if there is no way.
    """
    table, machine = fmt.dialect.table, fmt.dialect.automaton
    avoided = {
        t.name
        for t in table.terminals.values()
        if t.opens and (t.opens in fmt.calls or t.opens in (*fmt.citing, table.turn_opener))
    }
    ways: dict[int, list[str]] = {state: []}
    waiting = deque([state])
    last: list[str] | None = None
    while waiting:
        here = waiting.popleft()
        if here in fmt.between:
            return ways[here] + [fmt.final] * (not machine.accepting(here))
        if machine.accepting(here) and not machine.steps[here]:
            last = ways[here] if last is None else last
        for name, following in sorted(
            machine.steps[here].items(), key=lambda item: item[0] == TEXT
        ):
            if following not in ways and name not in avoided:
                ways[following] = [*ways[here], name]
                waiting.append(following)
    if last is not None:
        return last
    raise ValueError(f"{fmt.dialect.name}: no legal end can be reached from state {state}")
