"""Finds the tags at which a model stops.

Input: a dialect. Output: tags that are single ids, or texts where a format has none.
"""

from __future__ import annotations

from mypt_spec import Dialect
from mypt_spec.states import awaits_result, open_blocks
from mypt_spec.table import TEXT


def endings(dialect: Dialect) -> list[str]:
    """Returns the tags after which the model writes no further; the end of the turn comes last.

    A tag counts if it is one id, and if in some state after it only the system may write, or the
    episode is over. Section "Generation" of each `grammar/*/SPEC.md` describes these tags.
    """
    table, tags = dialect.table, _last_tags(dialect)
    return sorted(
        (tag for tag in tags if tag in table.special),
        key=lambda tag: (tags[tag], table.special[tag]),
    )


def stop_strings(dialect: Dialect) -> list[str]:
    """Returns the texts of such tags that are no single id, for a format without `endings`."""
    return sorted(tag for tag in _last_tags(dialect) if tag not in dialect.table.special)


def _last_tags(dialect: Dialect) -> dict[str, tuple[bool, bool]]:
    """Returns the tags after which the model writes no further.

    With each, whether all may be over then, without a result to wait for, and whether another turn
    may begin.
    """
    table, machine = dialect.table, dialect.automaton
    blocks = open_blocks(machine, table)
    turn = table.openers[table.turn_opener].name if table.turn_opener else ""
    tags: dict[str, tuple[bool, bool]] = {}
    for before, row in enumerate(machine.steps):
        if any(not table.openers[kind].body_loss for kind in blocks[before]):
            continue  # what the system writes, quotations too
        for name, state in row.items():
            terminal = table.terminals.get(name)
            if (
                terminal is not None
                and terminal.by_model
                and not any(n == TEXT or table.terminals[n].by_model for n in machine.steps[state])
            ):
                over = state in machine.accepts and not awaits_result(state, machine, table)
                key = over, turn in machine.steps[state]
                tags[terminal.shown] = max(tags.get(terminal.shown, key), key)
    return tags
