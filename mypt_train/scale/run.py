"""Makes one unit of a plan: reads its pieces, encodes them, and writes the result whole.

A unit is a function of the plan and its number: however often it is made, it has the same bytes
under the same name.

The unit is one file, of unit files one after another (`data.units`), each of a few megabytes of
input, and the SHA-256 of these. So one of them is in memory at a time.
"""

import hashlib
from collections.abc import Callable, Iterator

from mypt_cli import atomic
from mypt_cli.jsonl.blocks import Block
from mypt_train.data.units import BATCH, SIZE, Encoded, encoded
from mypt_train.scale.planning.pieces import Piece, piece_blocks
from mypt_train.scale.planning.plan import Plan
from mypt_train.scale.planning.proof import prove

Progress = Callable[[int], None]


def run_unit(plan: Plan, number: int, *, progress: Progress = lambda _: None) -> None:
    """Makes a unit, and writes it into the folder of the data set.

    `progress` is told the bytes of the inputs that are read. Raises ChangedError for an input that
    is not as it was planned; UsageError, StoreError and OSError for what cannot be read or written.
    """
    unit, path = plan.units[number], plan.unit_file(number)

    def reading(position: int) -> None:  # `before` and `piece` are those of the loop
        progress(before + min(position - piece.start, plan.bytes_of(piece)))

    path.parent.mkdir(parents=True, exist_ok=True)
    hashed, before = hashlib.sha256(), 0
    with atomic.replacing(path) as out:
        for piece in unit:
            for item in _encoded(plan, piece, reading):
                for data in item.pieces(item.head() | {"file": piece.file, "piece": piece.start}):
                    out.write(data)
                    hashed.update(data)
            before += plan.bytes_of(piece)
        out.write(hashed.digest())


def _encoded(plan: Plan, piece: Piece, progress: Progress) -> Iterator[Encoded]:
    """Yields a piece as unit files; `progress` is told where it is read.

    It is proved before and after it that the input is as it was planned.
    """
    source = plan.inputs[piece.file]
    prove(source)
    blocks = piece_blocks(source, piece, block_size=BATCH)
    yield from encoded(  # a unit file at a time
        _with_progress(blocks, progress), plan.options, source.rules,
        size=SIZE, begins=piece.start == 0,
    )  # fmt: skip
    prove(source)


def _with_progress(blocks: Iterator[Block], progress: Progress) -> Iterator[Block]:
    for block in blocks:
        yield block
        progress(block.position)
