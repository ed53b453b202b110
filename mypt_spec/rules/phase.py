"""Family 4, phase: finds what the curriculum has not introduced yet, if a phase is given."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.findings import Finding
from mypt_spec.rules.context import Context
from mypt_spec.rules.registry import check


@check("MYP401")
def tag_of_later_phase(context: Context) -> Iterator[Finding]:
    """Finds tags that belong to a later phase than the one given."""
    phase = context.limits.phase
    if phase is None:
        return
    for event in context.events:
        terminal = context.table.terminals.get(event.terminal)
        if terminal is not None and terminal.phase > phase and not terminal.closes:
            message = f"`{terminal.shown}` belongs to phase {terminal.phase}, this is phase {phase}"
            hint = (
                f"move the episode to phase {terminal.phase}, or lint with --phase {terminal.phase}"
            )
            yield Finding("MYP401", message, *event.at, help=hint)


@check("MYP402")
def turn_of_later_phase(context: Context) -> Iterator[Finding]:
    """Finds a second turn in a phase of single turns."""
    phase, first = context.limits.phase, context.table.multi_turn_phase
    if phase is None or phase >= first:
        return
    users = [m for m in context.episode.messages if m.role == context.table.turn_opener]
    for message in users[1:2]:
        text = f"a second turn belongs to phase {first}, this is phase {phase}"
        yield Finding(
            "MYP402", text, *message.at, help=f"one turn an episode here; {len(users)} are given"
        )
