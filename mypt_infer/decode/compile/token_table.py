"""Computes the effect of each token in each state of a leaf, and the distance to its exits.

Input: a byte automaton and a vocabulary. Output: Rows. This is the bridge from bytes to tokens, and
is computed once for each process and leaf.

Theory of operation. A token is a run of bytes, so it leads from a state to a state, to DEAD, or out
of the leaf: then the rest of its bytes is read by what follows the leaf, and the exit is (symbol,
rest). All tokens that begin with the same byte are walked together, one numpy step for each of
their bytes, and once for each state that the first byte leads to. Distances are the shortest paths
over tokens: how many tokens until each exit, which the decoder needs for its budgets.

A leaf of texts that end at "</a>", and four tokens. From the start, "a" leads to state 1, "</" to 6
(both are whole texts so far), "a>" to 1, and "b</a>c" out of the leaf, with "c" left. In state 6,
"a>" completes the tag:

>>> from mypt_infer.decode.compile.byte_dfa import text_dfa
>>> leaf = text_dfa(["</a>"], ["</a>"], {}, {})
>>> rows = leaf_rows(leaf, Vocabulary((b"a", b"</", b"a>", b"b</a>c"), 4), ())
>>> rows.after[0].tolist(), rows.after[6].tolist()
([1, 6, 1, -2], [7, 3, -4, -2])
>>> rows.exits
((('tag', '</a>'), b'c'), (('tag', '</a>'), b''), (('first', '</a>'), b''))
>>> rows.away[0].tolist()
[1, 3, 2]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.compile.byte_dfa import DEAD, ByteDfa, Symbol
from mypt_infer.decode.compile.vocab import Ints, Vocabulary

# A distance that no path has.
FAR = 1 << 24
# The symbol that ended the leaf, and the bytes of the token after it.
Exit = tuple[Symbol, bytes]


@dataclass(frozen=True, eq=False)
class Rows:
    """The effect of all tokens in a leaf.

    - `after`: int32, shape (states, vocabulary): the next state, DEAD, or -2 - i for `exits[i]`.
    - `away`: int32, shape (states, exits): the least number of tokens up to this exit, the token
      with the exit included; FAR if the exit cannot be reached.
    """

    leaf: ByteDfa
    after: Ints
    exits: tuple[Exit, ...]
    away: Ints


def leaf_rows(leaf: ByteDfa, vocabulary: Vocabulary, ids: Iterable[int]) -> Rows:
    """Returns the effect of all tokens in all states of a leaf.

    `ids` are the tags of one id, which may only follow a whole character.
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
    """Returns the effect of the tokens that begin with `byte`, if that byte leads to `start`.

    `start` is a state or an exit. The result is in the order of `vocabulary.by_first[byte]`.
    """
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
