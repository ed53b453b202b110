"""Finds where names first occur in a text, in time linear in the text and the names.

The search is that of Aho and Corasick: one walk over the text, through a tree of all names. Names
that are long are few, so each of them is looked for by itself, and so are a few names of any
length.
"""

from __future__ import annotations

from collections.abc import Collection

_FEW = 20  # names that are looked for one by one
_LONG = 200  # characters of a name that is no part of the tree


def first_ends(text: str, names: Collection[str]) -> dict[str, int]:
    """Returns where each name that occurs in a text first ends there."""
    short = [name for name in names if len(name) <= _LONG]
    ends = _walked(text, short) if len(short) > _FEW else {}
    for name in names if len(short) <= _FEW else [name for name in names if len(name) > _LONG]:
        at = text.find(name)
        if at >= 0:
            ends[name] = at + len(name)
    return ends


def _walked(text: str, names: list[str]) -> dict[str, int]:
    steps: list[dict[str, int]] = [{}]
    ends: list[str | None] = [None]  # the name that ends at a node
    for name in names:
        node = 0
        for char in name:
            if char not in steps[node]:
                steps[node][char] = len(steps)
                steps.append({})
                ends.append(None)
            node = steps[node][char]
        ends[node] = name
    back = [0] * len(steps)  # the node of the longest end of a node that is a beginning as well
    shorter = [0] * len(steps)  # the nearest node on the way back at which a name ends
    queue = list(steps[0].values())
    for node in queue:
        for char, inner in steps[node].items():
            at = back[node]
            while at and char not in steps[at]:
                at = back[at]
            back[inner] = steps[at].get(char, 0)
            queue.append(inner)
        shorter[node] = back[node] if ends[back[node]] is not None else shorter[back[node]]
    ends_by_name: dict[str, int] = {}
    node = 0
    for end, char in enumerate(text, 1):
        while node and char not in steps[node]:
            node = back[node]
        node = at = steps[node].get(char, 0)
        while at:
            name_here = ends[at]
            if name_here is not None:
                if name_here in ends_by_name:
                    break  # then the shorter ones are, too
                ends_by_name[name_here] = end
            at = shorter[at]
    return ends_by_name
