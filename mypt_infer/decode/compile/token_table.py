"""Computes the effect of each token in each state of a leaf, and the distance to its exits.

Input: a byte automaton and a vocabulary. Output: Rows. This is the bridge from bytes to tokens, and
is computed once for each process and leaf.

Theory of operation. A token is a run of bytes, so it leads from a state to a state, to DEAD, or out
of the leaf: then the rest of its bytes is read by what follows the leaf, and the exit is (symbol,
rest). All tokens are walked together, one numpy step for each of their bytes, and once for each
state that their first byte leads to. Tokens that do the same in all
states are one *kind*; of 150,000 tokens some thousand kinds are left, so no array has a column for
each token. Distances are the shortest paths over tokens: how many tokens until each exit, which the
decoder needs for its budgets.

A leaf of texts that end at "</a>", and four tokens. From the start, "a" leads to state 1, "</" to 6
(both are whole texts so far), "a>" to 1, and "b</a>c" out of the leaf, with "c" left. In state 6,
"a>" completes the tag:

>>> from mypt_infer.decode.compile.byte_dfa import text_dfa
>>> leaf = text_dfa(["</a>"], ["</a>"], {}, {})
>>> rows = leaf_rows(leaf, Vocabulary((b"a", b"</", b"a>", b"b</a>c"), 4), ())
>>> rows.after[0, rows.kinds].tolist(), rows.after[6, rows.kinds].tolist()
([1, 6, 1, -4], [7, 3, -3, -4])
>>> rows.exits
((('tag', '</a>'), b''), (('first', '</a>'), b''), (('tag', '</a>'), b'c'))
>>> rows.away[0].tolist()
[3, 2, 1]
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode.base.vocab import Ints, Vocabulary
from mypt_infer.decode.compile.byte_dfa import DEAD, ByteDfa, Symbol

# A distance that no path has.
FAR = 1 << 24
# The symbol that ended the leaf, and the bytes of the token after it.
Exit = tuple[Symbol, bytes]


@dataclass(frozen=True, eq=False)
class Rows:
    """The effect of all tokens in a leaf.

    - `kinds`: int32, shape (vocabulary,): the kind of each token. Kind 0 is refused everywhere.
    - `after`: int32, shape (states, kinds): the next state, DEAD, or -2 - i for `exits[i]`.
    - `away`: int32, shape (states, exits): the least number of tokens up to this exit, the token
      with the exit included; FAR if the exit cannot be reached.
    """

    leaf: ByteDfa
    kinds: Ints
    after: Ints
    exits: tuple[Exit, ...]
    away: Ints


def leaf_rows(leaf: ByteDfa, vocabulary: Vocabulary, ids: Iterable[int]) -> Rows:
    """Returns the effect of all tokens in all states of a leaf.

    `ids` are the tags of one id, which may only follow a whole character.
    """
    exits: dict[Exit, int] = {}
    kinds = np.zeros(vocabulary.size, dtype=np.int32)
    columns = [np.full((leaf.states, 1), DEAD, dtype=np.int32)]
    count = 1
    blocks = []
    for byte, group in enumerate(vocabulary.by_first):
        reached, which = np.unique(leaf.step[:, byte], return_inverse=True)
        if len(group) and (reached != DEAD).any():
            blocks.append((group, reached, which))
    walked = _walk(leaf, vocabulary, [block[:2] for block in blocks], exits)
    for (group, reached, which), part in zip(blocks, walked, strict=True):
        alike, distinct = same_columns(part.reshape(len(reached), len(group)))
        kinds[group] = count + alike
        columns.append(distinct[which])
        count += distinct.shape[1]
    for token in ids:
        kinds[token] = count
        count += 1
        column = np.full((leaf.states, 1), DEAD, dtype=np.int32)
        for state in np.flatnonzero(leaf.whole).tolist():
            column[state] = -2 - exits.setdefault((leaf.at_id(state, token), b""), len(exits))
        columns.append(column)
    after = np.concatenate(columns, axis=1)
    return Rows(leaf, kinds, after, tuple(exits), _away(after, len(exits)))


def same_columns(rows: Ints) -> tuple[Ints, Ints]:
    """Returns the class of each column, and one column for each class.

    Equal columns are found by a hash and then compared.
    """
    bits = random.Random(0)  # that of NumPy would be 1,500 more objects in the process
    weights = np.array([bits.getrandbits(63) for _ in rows], dtype=np.uint64)
    keys = np.zeros(rows.shape[1], dtype=np.uint64)
    for weight, row in zip(weights, rows, strict=True):
        keys += weight * row.astype(np.uint64)
    _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    columns = np.ascontiguousarray(rows[:, first])
    if any((columns[i][classes] != row).any() for i, row in enumerate(rows)):
        raise AssertionError("two columns have one hash")
    return classes.astype(np.int32), columns


def _walk(
    leaf: ByteDfa, vocabulary: Vocabulary, blocks: list[tuple[Ints, Ints]], exits: dict[Exit, int]
) -> list[Ints]:
    """Returns the effect of groups of tokens from each of the states to which first bytes lead.

    A block is a group and these states, which may be DEAD or exits. The result has an array for
    each block, with a row after another for its states, in the order of the group.
    """
    data, begin = vocabulary.data, vocabulary.begin
    sizes = [len(group) * len(reached) for group, reached in blocks]
    rows = [np.repeat(reached, len(group)) for group, reached in blocks]
    current = np.concatenate([*rows, np.empty(0)]).astype(np.int32)
    tiles = [np.tile(group, len(reached)) for group, reached in blocks]
    tokens = np.concatenate([*tiles, np.empty(0)]).astype(np.int32)
    # Where the next byte of each token is.
    at = begin[tokens] + 1
    left = [np.flatnonzero(current < DEAD)]
    running = np.flatnonzero(current >= 0)
    while len(running := running[at[running] < begin[tokens[running] + 1]]):
        then = leaf.step[current[running], data[at[running]]]
        current[running] = then
        at[running] += 1
        left.append(running[then < DEAD])
        running = running[then >= 0]
    # Exits have numbers in the order of states, then of the bytes up to them.
    places, depths = np.concatenate(left), np.repeat(np.arange(len(left)), [*map(len, left)])
    lengths = [len(group) for group, reached in blocks for _ in reached]
    row = np.searchsorted(np.cumsum(lengths), places, side="right")
    for i in places[np.lexsort((places, depths, row))].tolist():
        tail = vocabulary.tokens[tokens[i]][at[i] - begin[tokens[i]] :]
        symbol = leaf.exits[-2 - int(current[i])]
        current[i] = -2 - exits.setdefault((symbol, tail), len(exits))
    return np.split(current, np.cumsum(sizes)[:-1])[: len(blocks)]


def _away(after: Ints, exits: int) -> Ints:
    states = len(after)
    follows: npt.NDArray[np.bool_] = np.zeros((states, states), dtype=bool)
    away = np.full((states, exits), FAR, dtype=np.int32)
    for state, row in enumerate(after):
        targets = np.unique(row)
        follows[state, targets[targets >= 0]] = True
        away[state, -2 - targets[targets < DEAD]] = 1
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
