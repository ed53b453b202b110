"""Writes and reads a shard as one Parquet file, for readers that expect columns. Needs pyarrow.

A row of the file is a row of the shard. Columns: `input_ids` (list of uint16 or uint32),
`loss_mask` (list of uint8); and for the episodes in the row `starts` and `lengths` (tokens, lists
of uint32), `files` (list of uint32) and `lines` (list of uint64), with the meaning that they have
in `shard.INDEX`, but that `starts` count from the beginning of the row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_train.data.formats.manifest import TokenIds

# The number of rows that are compressed together.
_GROUP = 1024
Column = tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]
"""The items of all rows, and where the list of each row begins; None if each row has one item."""


def missing() -> str:
    """Returns what to install to use Parquet; an empty string if nothing is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return 'Parquet needs pyarrow; install it with: pip install "mypt-tags[parquet]"'
    return ""


def dump(
    ids: TokenIds,
    mask: npt.NDArray[np.uint8],
    index: npt.NDArray[np.void],
    starts: npt.NDArray[np.int64],
) -> memoryview:
    """Returns the bytes of a file. `starts` are the first tokens of the rows, in order."""
    firsts = np.searchsorted(index["row"], np.arange(len(starts)))
    inside = (index["start"] - starts[index["row"]].astype(np.uint64)).astype(np.uint32)
    columns: dict[str, Column] = {
        "input_ids": (ids, starts),
        "loss_mask": (mask, starts),
        "starts": (inside, firsts),
    }
    for name in ("length", "file", "line"):
        columns[f"{name}s"] = np.ascontiguousarray(index[name]), firsts
    return of_lists(columns)


def of_lists(columns: Mapping[str, Column]) -> memoryview:
    """Returns the bytes of a file of columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {
        name: pa.array(items)
        if begins is None
        else pa.ListArray.from_arrays(
            pa.array(np.append(begins, len(items)).astype(np.int32)), pa.array(items)
        )
        for name, (items, begins) in columns.items()
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink, compression="zstd", row_group_size=_GROUP)
    return memoryview(sink.getvalue())


def load(
    path: Path, dtype: np.dtype[np.void]
) -> tuple[TokenIds, npt.NDArray[np.uint8], npt.NDArray[np.void]]:
    """Returns the ids, targets and index of a file.

    Raises ValueError, KeyError or an error of pyarrow for a file that `dump` has not made.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path).combine_chunks()

    def column(name: str) -> Any:
        column = table[name]
        return column.chunk(0) if column.num_chunks else None

    if not len(table):
        return np.zeros(0, np.uint16), np.zeros(0, np.uint8), np.zeros(0, dtype)
    ids, starts = column("input_ids"), column("starts")
    lengths = starts.value_lengths().to_numpy()
    rows = np.repeat(np.arange(len(table)), lengths)
    index = np.zeros(len(rows), dtype)
    index["row"] = rows
    index["start"] = ids.offsets.to_numpy()[rows] + starts.flatten().to_numpy()
    for name in ("length", "file", "line"):
        index[name] = column(f"{name}s").flatten().to_numpy()
    return ids.flatten().to_numpy(), column("loss_mask").flatten().to_numpy(), index
