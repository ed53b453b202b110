"""Groups tokens that have the same effect in all leaves of a dialect into classes.

Input: the leaves of a dialect. Output: TokenClasses, one column for each class in place of one for
each token: 266 in place of 50,304 in dialect gabgpt. Computed once for each process and dialect.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mypt_infer.decode.base.vocab import Ints, Vocabulary, cached_by, vocabulary
from mypt_infer.decode.compile.byte_dfa import ByteDfa, ident_dfa
from mypt_infer.decode.compile.call_graph import call_leaves
from mypt_infer.decode.compile.grammar_graph import forbidden_texts
from mypt_infer.decode.compile.row_sets import RowSets
from mypt_infer.decode.compile.token_table import Exit, Rows, leaf_rows, same_columns
from mypt_spec.dialect import Dialect
from mypt_spec.table import IDS_LAST


@dataclass(frozen=True, eq=False)
class TokenClasses:
    """The rows of all leaves of a dialect, one below the other, by classes of tokens.

    - `columns`: int32, shape (rows, classes): the next state of the leaf, -1 if refused, -2 - i for
      `exits[i]`.
    - `classes`: int32, shape (vocabulary,): the class of each token.
    - `first_row`, `first_exit`: where the rows and exits of a leaf begin, by its name.
    - `rows`: the Rows of each leaf, by its name.
    """

    vocabulary: Vocabulary
    columns: Ints
    classes: Ints
    exits: tuple[Exit, ...]
    first_row: dict[str, int]
    rows: dict[str, Rows]
    first_exit: dict[str, int]

    @property
    def nbytes(self) -> int:
        rows = sum(r.kinds.nbytes + r.after.nbytes + r.away.nbytes for r in self.rows.values())
        return self.columns.nbytes + self.classes.nbytes + rows

    @cached_property
    def sets(self) -> RowSets:
        """Returns the rows as sets of ids."""
        return RowSets(self.columns, self.classes)


@cached_by(lambda dialect, *_: dialect.fingerprint)
def token_classes(dialect: Dialect, text: ByteDfa) -> TokenClasses:
    """Returns the classes of a dialect. `text` is its leaf of texts."""
    words = vocabulary(dialect.tokenizer, dialect.table.base_vocabulary)
    bodies = {t.body for t in dialect.table.terminals.values()}
    leaves = [text, *call_leaves(dialect.table.tagged or "", forbidden_texts(dialect))]
    if not bodies.isdisjoint(IDS_LAST):
        leaves.append(ident_dfa())
    ids = list(dialect.table.special.values())
    rows = {leaf.name: leaf_rows(leaf, words, ids) for leaf in leaves}
    exits: list[Exit] = []
    parts, first_row, first_exit, at = [], {}, {}, 0
    for name, row in rows.items():
        first_row[name], first_exit[name] = at, len(exits)
        parts.append(np.where(row.after < -1, row.after - len(exits), row.after))
        exits += row.exits
        at += row.leaf.states
    # Tokens of the same kind in each leaf are one class, and so are kinds that do the same.
    kinds, which = np.unique(
        np.stack([row.kinds for row in rows.values()]), axis=1, return_inverse=True
    )
    table = np.concatenate([part[:, k] for part, k in zip(parts, kinds, strict=True)])
    classes, columns = same_columns(table)
    classes = classes[which.ravel()]
    return TokenClasses(words, columns, classes, tuple(exits), first_row, rows, first_exit)
