"""What every token does in every state of a leaf, and how many tokens an exit is away.

Computed once a process and leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.byte_dfa import DEAD, ByteDfa, Symbol
from mypt_infer.decode.compile.vocab import Ints, Vocabulary

FAR = 1 << 24  # a distance that no path has
Exit = tuple[Symbol, bytes]  # what ended the leaf, and the bytes of the token behind that


@dataclass(frozen=True, eq=False)
class Rows:
    """`after`: int32, shape (states, vocabulary): the next state of the leaf, DEAD, or -2 - i for
    `exits[i]`.

    `away`: int32, shape (states, exits): the least number of tokens that end with this exit, itself
    included; FAR if none.
    """

    leaf: ByteDfa
    after: Ints
    exits: tuple[Exit, ...]
    away: Ints


def leaf_rows(leaf: ByteDfa, vocabulary: Vocabulary, ids: Iterable[int]) -> Rows:
    """All tokens in all states of a leaf;

    `ids` are the tags of one id, which may only stand where a character is whole.
    """
    exits: dict[Exit, int] = {}
    after = np.full((leaf.states, vocabulary.size), DEAD, dtype=np.int32)
    walked: dict[tuple[int, int], Ints] = {}
    for state in range(leaf.states):
        for byte, group in enumerate(vocabulary.by_first):
            then = int(leaf.step[state, byte])
            if then == DEAD or not len(group):
                continue
            if (then, byte) not in walked:
                walked[then, byte] = _walk(leaf, vocabulary, byte, then, exits)
            after[state, group] = walked[then, byte]
        if leaf.whole[state]:
            for token in ids:
                after[state, token] = -2 - exits.setdefault(
                    (leaf.at_id(state, token), b""), len(exits)
                )
    return Rows(leaf, after, tuple(exits), _away(after, len(exits)))


def _walk(
    leaf: ByteDfa, vocabulary: Vocabulary, byte: int, start: int, exits: dict[Exit, int]
) -> Ints:
    """The tokens that begin with `byte`, from the state (or exit) `start` behind it."""
    group = vocabulary.by_first[byte]
    lengths, tails = vocabulary.tails[byte]
    current = np.full(len(group), start, dtype=np.int32)
    out = np.full(len(group), DEAD, dtype=np.int32)
    running = np.arange(len(group))
    if start < DEAD:
        symbol = leaf.exits[-2 - start]
        return np.array(
            [-2 - exits.setdefault((symbol, vocabulary.tokens[i][1:]), len(exits)) for i in group],
            dtype=np.int32,
        )
    for at in range(tails.shape[1] + 1):
        ended = lengths[running] == at
        out[running[ended]] = current[running[ended]]
        running = running[~ended]
        if not len(running):
            break
        current[running] = leaf.step[current[running], tails[running, at]]
        for i in running[current[running] < DEAD]:
            symbol = leaf.exits[-2 - current[i]]
            out[i] = -2 - exits.setdefault(
                (symbol, vocabulary.tokens[group[i]][at + 2 :]), len(exits)
            )
        running = running[current[running] >= 0]
    return out


def _away(after: Ints, exits: int) -> Ints:
    states = len(after)
    follows: npt.NDArray[np.bool_] = np.zeros((states, states), dtype=bool)
    away = np.full((states, exits), FAR, dtype=np.int32)
    for state, row in enumerate(after):
        seen = np.unique(row)
        follows[state, seen[seen >= 0]] = True
        away[state, -2 - seen[seen < DEAD]] = 1
    while True:
        better = away.copy()
        for state in range(states):
            np.minimum(
                better[state], away[follows[state]].min(axis=0, initial=FAR) + 1, out=better[state]
            )
        np.minimum(better, FAR, out=better)
        if (better == away).all():
            return away
        away = better
