"""Counts what a history policy makes of conversations, and says it to people.

Input: episodes before and after, and their tokens. Output: numbers that add up over lines, which
the manifest has under `history`, and a text of them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mypt_cli.words import counted
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode
from mypt_spec.history import by_model, count_dropped, official, turn_starts
from mypt_spec.record_schema import WEIGHT
from mypt_train.data.formats.options import Options

COUNTED = (
    "answers", "untrained_answers", "too_long_answers", "shortened_answers",
    "thoughts_left_out", "empty_thoughts",
    "tokens", "trained_tokens", "whole_tokens",
)  # fmt: skip
"""What is counted: answers that are trained, that train nothing, that no row holds, and that
no row holds with all turns before them; thoughts
left out of an episode, and empty ones put into it; tokens of all episodes, those that are trained,
and those of each conversation as one episode."""


def tally(before: Episode, dialect: Dialect) -> Counter[str]:
    """Returns what a policy makes of the thoughts of an episode."""
    old = count_dropped(before.messages, dialect.table)
    new = count_dropped(official(before, dialect.table).messages, dialect.table)
    return Counter(thoughts_left_out=old[0] - new[0], empty_thoughts=max(0, new[1] - old[1]))


def answers(episode: Episode, dialect: Dialect, *, last: bool) -> int:
    """Returns how many turns of an episode have an answer of another weight than 0.

    With `last`, only the last turn counts.
    """
    starts = turn_starts(episode.messages, dialect.table) or [0]
    ends = [*starts[1:], len(episode.messages)]
    has_answer = [
        any(
            by_model(message, dialect.table) and message.meta.get(WEIGHT, 1) != 0
            for message in episode.messages[begin:end]
        )
        for begin, end in zip(starts, ends, strict=True)
    ]
    return sum(has_answer[-1:] if last else has_answer)


def reported(counts: Mapping[str, int]) -> dict[str, Any]:
    return {name: counts.get(name, 0) for name in COUNTED} | {
        "context_tokens": counts.get("tokens", 0) - counts.get("trained_tokens", 0)
    }


def report_lines(options: Options, manifest: Mapping[str, Any]) -> list[str]:
    """Returns the report in a manifest as lines for people; none where all is kept."""
    counts = manifest.get("history")
    if counts is None:
        return []
    dialect, policy = options.loaded_dialect, options.history
    rule = bool(dialect.table.history.drops)
    lines = []
    if not rule:
        same = "official keeps all thoughts" if policy == "official" else "no thought is left out"
        lines.append(f"the format {dialect.name} says nothing of thoughts of earlier turns: {same}")
    context = f"{counts['context_tokens']:,} of {counts['tokens']:,} tokens are context only"
    each = f"{counted(counts['answers'], 'answer')}, each trained once"
    if policy == "per-turn":
        times = counts["tokens"] / max(1, counts["whole_tokens"])
        lines.append(f"{each}, in an episode of its own")
        lines.append(f"{context}; with them, conversations take {times:.2f} times their tokens")
    else:
        lines.append(f"{each}; {context}")
    if rule:
        left_out = "left out of later episodes"
        if policy == "official":
            left_out = "left out"
            if counts["thoughts_left_out"]:
                left_out += "; per-turn would train them, each before its answer"
        empty = counts["empty_thoughts"]
        lines.append(
            f"{counted(counts['thoughts_left_out'], 'thought')} of earlier turns {left_out}"
            + f"; {counted(empty, 'empty thought')} put before answers without one" * bool(empty)
        )
    for key, why in (
        ("untrained_answers", "left out: nothing of them is trained"),
        ("too_long_answers", "left out: no row holds them"),
        ("shortened_answers", "without the first turns: no row holds them with these"),
    ):
        if counts[key]:
            lines.append(f"{counted(counts[key], 'answer')} {why}")
    return lines
