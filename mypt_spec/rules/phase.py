"""Family 4, phase: what the curriculum has not introduced yet. Only with a phase given."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_spec.findings import Finding, rule
from mypt_spec.rules.context import Context


@rule("MYP401", "tag-of-later-phase")
def tag_of_later_phase(context: Context) -> Iterator[Finding]:
    """A tag belongs to a later phase than the one given.

    ## What it finds
    With a phase given: a tag that the curriculum introduces later.

    ## Why it matters
    A phase is meant to add little new syntax. A tag that comes too early is learnt from few examples, and badly.

    ## Bad
    ```jsonl phase=1
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "think": "Greet back."}]}
    ```

    ## Good
    ```jsonl phase=1
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Phases
    """
    phase = context.limits.phase
    if phase is None:
        return
    for event in context.events:
        terminal = context.table.terminals.get(event.terminal)
        if terminal is not None and terminal.phase > phase and not terminal.closes:
            message = f"`{terminal.shown}` belongs to phase {terminal.phase}, this is phase {phase}"
            cure = (
                f"move the episode to phase {terminal.phase}, or lint with --phase {terminal.phase}"
            )
            yield Finding("MYP401", message, *event.at, help=cure)


@rule("MYP402", "turn-of-later-phase")
def turn_of_later_phase(context: Context) -> Iterator[Finding]:
    """A second turn, in a phase of single turns.

    ## What it finds
    With phase 1 or 2 given: a conversation of several turns.

    ## Why it matters
    These phases teach the form of a single turn; with several the model meets a context that it cannot use yet.

    ## Bad
    ```jsonl phase=2
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl phase=2
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Phases
    """
    phase, first = context.limits.phase, context.table.multi_turn_phase
    if phase is None or phase >= first:
        return
    users = [m for m in context.episode.messages if m.role == context.table.turn_opener]
    for message in users[1:2]:
        text = f"a second turn belongs to phase {first}, this is phase {phase}"
        yield Finding(
            "MYP402", text, *message.at, help=f"one turn an episode here; {len(users)} are given"
        )
