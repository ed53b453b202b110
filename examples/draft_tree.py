"""Says of a tree of drafted tokens which of them hold, and what may follow each, in one call.

Input: a decoder's state, and drafted ids with their parents. Output: a DraftTree. Speculative
decoding drafts several ways on, which the model reads in one pass. What the model chooses after
each id has to be legal as if the ids before it had been taken one by one, budgets included.

In dialect gabgpt, three ids after the prompt "<|user|>Hi", with 3 tokens left: `<|assistant|>`,
after it " Yo", and in another branch " Yo" at once, which is not allowed.

>>> from mypt_infer.decode import Decoder
>>> decoder = Decoder("gabgpt")
>>> yo = decoder.dialect.tokenizer.encode(" Yo")[0]
>>> state = decoder.start([50257, *decoder.dialect.tokenizer.encode("Hi")], max_new_tokens=3)
>>> tree = draft_tree(decoder, state, [-1, 0, -1], [50259, yo, yo])
>>> tree.legal.tolist(), [0 if s is None else decoder.left(s) for s in tree.states]
([True, True, False], [2, 1, 0])

The model chooses `<|assistant|>`, " Yo" and `<|end|>`, and anything after what is refused:

>>> tree.taken([50259, yo, 50260, 0])
[0, 1]
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mypt_infer.decode import Decoder


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Drafted ids, the states after them, and what may follow.

    - `parents`, `ids`: as they were given.
    - `states`: the state after each id; None if the id, or one before it, is refused.
    - `bitmask`: a bit for each id that may follow, as `Decoder.bitmask` has them: int32, shape
      (1 + ids, vocabulary / 32). Row 0 is for the state itself, row i + 1 for what follows
      `ids[i]`; it is 0 where that is refused or the end.
    """

    parents: tuple[int, ...]
    ids: tuple[int, ...]
    states: tuple[int | None, ...]
    bitmask: npt.NDArray[np.int32]

    @property
    def legal(self) -> npt.NDArray[np.bool_]:
        """Returns whether each id holds, with all before it: bool, shape (ids,)."""
        return np.array([state is not None for state in self.states], dtype=bool)

    def taken(self, chosen: Sequence[int]) -> list[int]:
        """Returns the drafted ids that the model has chosen, too, as numbers, from the root on.

        `chosen` has the model's id for each row of `bitmask`. The next id of the answer is
        `chosen[taken[-1] + 1]`, or `chosen[0]` if none was taken, unless the answer is over.
        """
        out: list[int] = []
        below: dict[tuple[int, int], int] = {}
        for node, key in enumerate(zip(self.parents, self.ids, strict=True)):
            if self.states[node] is not None:
                below.setdefault(key, node)
        at: int | None = -1
        while at is not None:
            at = below.get((at, int(chosen[at + 1])))
            out += [] if at is None else [at]
        return out


def draft_tree(
    decoder: Decoder, state: int, parents: Sequence[int], ids: Sequence[int]
) -> DraftTree:
    """Returns what holds of a tree of drafted ids after a state, and what may follow each.

    `parents` has the number of the id before each, -1 for the state itself; parents come first.
    With the engine "llguidance", what the bitmask allows is proved when it is taken, as everywhere.
    Raises ValueError for what is no tree.
    """
    if len(parents) != len(ids):
        raise ValueError(f"{len(parents)} parents for {len(ids)} ids")
    states: list[int | None] = []
    for node, (parent, token) in enumerate(zip(parents, ids, strict=True)):
        if not -1 <= parent < node:
            raise ValueError(f"node {node} has parent {parent}, which does not come before it")
        before, after = state if parent < 0 else states[parent], None
        if before is not None:
            with suppress(ValueError):
                after = decoder.next(before, int(token))
        states.append(after)
    rows = [state, *states]
    going = sorted({s for s in rows if s is not None and not decoder.final(s)})
    filled = np.zeros((len(going) + 1, -(-decoder.tables.vocabulary // 32)), dtype="<i4")
    filled[1:] = decoder.bitmask(going)
    row_of = {s: row for row, s in enumerate(going, 1)}
    bitmask = filled[[0 if s is None else row_of.get(s, 0) for s in rows]]
    return DraftTree(tuple(map(int, parents)), tuple(map(int, ids)), tuple(states), bitmask)
