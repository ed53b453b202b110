"""Compares two conversations step by step: what came back, what did not, and what was moved.

Input are the steps that were given, and those that were read back; output are pairs of them. The
engine makes losses of these.
"""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from mypt_convert.bridges.steps import Step
from mypt_spec.bodies.strict_json import escape

_MOST = 2000  # steps that are compared in any order, in time that grows with their square


class Loss(NamedTuple):
    """A part for which the target has no place: the field, its pointer in the source, and why."""

    field: str
    pointer: str
    reason: str


class Alignment(NamedTuple):
    """Each given step with the one that it came back as, if any.

    `moved` are the given steps that came back elsewhere, and `invented` those that were never
    given.
    """

    pairs: list[tuple[Step, Step | None]]
    moved: list[Step]
    invented: list[Step]


def align(before: Sequence[Step], back: Sequence[Step]) -> Alignment:
    """Returns the steps in pairs, by content: in order, or in any order if some are left over."""
    alignment = _greedy(before, back)
    if alignment.invented and max(len(before), len(back)) <= _MOST:
        alignment = _in_any_order(before, back)
    return alignment


def _greedy(before: Sequence[Step], back: Sequence[Step]) -> Alignment:
    pairs: list[tuple[Step, Step | None]] = []
    at = 0
    for step in before:
        same = at < len(back) and back[at].key == step.key
        pairs.append((step, back[at] if same else None))
        at += same
    return Alignment(pairs, [], list(back[at:]))


def _in_any_order(before: Sequence[Step], back: Sequence[Step]) -> Alignment:
    partner: dict[int, Step] = {}
    used: set[int] = set()
    matcher = SequenceMatcher(None, [s.key for s in before], [s.key for s in back], autojunk=False)
    for mine, theirs, size in matcher.get_matching_blocks():
        partner |= {mine + i: back[theirs + i] for i in range(size)}
        used |= set(range(theirs, theirs + size))
    unmatched: dict[tuple[str, ...], deque[int]] = {}
    for i, step in enumerate(back):
        if i not in used:
            unmatched.setdefault(step.key, deque()).append(i)
    moved = []
    for i, step in enumerate(before):
        if i not in partner and unmatched.get(step.key):
            at = unmatched[step.key].popleft()
            partner[i] = back[at]
            used.add(at)
            moved.append(step)
    return Alignment(
        [(step, partner.get(i)) for i, step in enumerate(before)],
        moved,
        [s for i, s in enumerate(back) if i not in used],
    )


def same(where: dict[str, Any], key: str, value: Any) -> bool:
    """Returns whether an object has this value under this key."""
    return key in where and json.dumps(where[key], sort_keys=True) == json.dumps(
        value, sort_keys=True
    )


def beside(step: Step, key: str) -> str:
    """Returns the pointer to another key of the step's message."""
    head = step.at.split("/")[:3]
    head = head if len(head) == 3 and head[2].isdigit() else [""]
    return "/".join([*head, escape(key)])


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yields the values in a value that hold no other, as JSON, with their pointers.

    An empty list or object is one of them.
    """
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{at}/{escape(key)}")
    elif isinstance(value, list) and value:
        for i, item in enumerate(value):
            yield from leaves(item, f"{at}/{i}")
    else:
        yield at, json.dumps(value)
