"""Packs episodes into rows, and writes them as shards: the files of a prepared data set.

Input: episodes with their places in units. Output: the shards of each split, as files that a
trainer can map into memory. `shard_00000.bin` holds ids (uint16 or uint32), `shard_00000_mask.bin`
a uint8 for each id, 1 where the token is a target, `shard_00000_idx.npy` an array of INDEX, one
entry for each episode, and `shard_00000_kinds.npy`, in data with preferences, an array of KINDS
likewise. Rows follow one another without a gap; tokens of no episode are padding.
`docs/toolcall_sft.md` describes the bytes. `shard_00000_weights.bin`, where messages have weights,
is a float32 for each id. Other formats, of one file each, are in `formats`.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_cli import atomic
from mypt_train.data.collection import Collection
from mypt_train.data.formats import MEGATRON, in_parquet, indexed, parquet, trainer_of
from mypt_train.data.formats import rows as trainer_rows
from mypt_train.data.formats.manifest import KINDS, TokenIds, dtype_of, files_of
from mypt_train.data.formats.options import Options
from mypt_train.data.packing import pack
from mypt_train.data.shard import INDEX
from mypt_train.data.unit_files import Placed, UnitFiles

# The number of tokens that are written at a time.
_AT_ONCE = 1 << 16


def write_splits(
    collection: Collection,
    out: Path,
    options: Options,
    wrote: Callable[[int], None],
    *,
    weights: bool,
) -> dict[str, list[dict[str, Any]]]:
    """Writes the shards of all splits into the folder `out`; returns their manifest entries.

    `weights` says that targets have weights. Older files of such names are removed. `wrote` is
    called with the tokens of each shard. Raises OSError.
    """
    # Trainers of elsewhere pad a batch to its longest row.
    row_length = options.context_length if options.pack and not trainer_of(options.format) else 0
    splits: dict[str, list[dict[str, Any]]] = {}
    with UnitFiles(collection.parts) as units:
        for split, items in collection.placed.items():
            rows = [[item] for item in items]
            if options.pack:
                lengths = ((item.length, i) for i, item in enumerate(items))
                packed = pack(lengths, options.context_length)
                rows = [[items[i] for i in row] for row in packed]
            order = np.random.Generator(np.random.PCG64(options.seed)).permutation(len(rows))
            shuffled = [rows[i] for i in order.tolist()]
            folder = out / split
            folder.mkdir(exist_ok=True)
            for stale in folder.glob("shard_*"):  # of a run that stopped here
                stale.unlink()
            splits[split] = []
            shards = _shards_of(shuffled, row_length, options.tokens_per_shard)
            for number, shard in enumerate(shards):
                path = folder / f"shard_{number:05}"
                entry = _write_shard(path, shard, row_length, units, options, weights=weights)
                wrote(entry["episode_tokens"])
                splits[split].append(entry)
    return splits


def _write_shard(
    path: Path,
    rows: list[list[Placed]],
    row_length: int,
    units: UnitFiles,
    options: Options,
    *,
    weights: bool,
) -> dict[str, Any]:
    """Writes the files of a shard; returns the shard's entry in the manifest.

    They begin with `path`. `row_length` 0 puts episodes one after another, without padding.
    `weights` says that targets have weights. Raises OSError if a file cannot be written.
    """
    index, kinds, starts, at = _laid_out(rows, row_length)
    trained = 0
    form, tokenizer = options.format, options.loaded_dialect.tokenizer

    def ids() -> Iterator[TokenIds]:
        dtype = np.dtype(dtype_of(tokenizer.vocab_size)).newbyteorder("<")
        return _filled(rows, row_length, dtype, tokenizer.pad, units.ids)

    def masks() -> Iterator[npt.NDArray[np.uint8]]:
        nonlocal trained
        for mask in _filled(rows, row_length, np.dtype("u1"), 0, units.masks):
            trained += int(np.count_nonzero(mask))
            yield mask

    def messages() -> Iterator[npt.NDArray[np.int32]]:
        return _filled(rows, row_length, np.dtype("<i4"), -1, units.messages)

    pieces: list[Iterable[memoryview]]
    if form == MEGATRON:
        width = np.dtype(dtype_of(tokenizer.vocab_size)).itemsize
        indices = [[indexed.index_of(index["length"], size)] for size in (width, 1)]
        pieces = [(a.data.cast("B") for a in ids()), indices[0], (a.data for a in masks())]
        pieces.append(indices[1])
    elif trainer_of(form):
        arrays: list[Iterator[npt.NDArray[Any]]] = [ids(), masks()]
        arrays += [messages()] if options.message_indices else []
        pieces = [_for_trainer(form, arrays, rows, packed=options.pack)]
    elif form == "parquet":
        pieces = [[parquet.dump(_join(ids()), _join(masks()), index, starts)]]
    else:
        pieces = [(a.data.cast("B") for a in ids()), (a.data for a in masks()), [_saved(index)]]
        pieces += [[_saved(kinds)]] * options.preferences
        if weights:
            filled = _filled(rows, row_length, np.dtype("<f4"), 0, units.weights)
            pieces.append(a.data.cast("B") for a in filled)
    name = f"{path.parent.name}/{path.name}"
    files = zip(files_of(name, form, options.preferences, weights), pieces, strict=True)
    written = {file: _write(path.parents[1] / file, parts) for file, parts in files}
    return {
        "name": name,
        "tokens": at,
        "episodes": len(index),
        "rows": len(rows),
        "episode_tokens": int(index["length"].sum()),
        "trained_tokens": trained,
        "files": written,
    }


def _shards_of(
    rows: list[list[Placed]], row_length: int, most: int
) -> Iterator[list[list[Placed]]]:
    """Yields rows in lists of at most `most` tokens, at least one row each."""
    shard: list[list[Placed]] = []
    size = 0
    for row in rows:
        length = row_length or sum(p.length for p in row)
        if shard and size + length > most:
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += length
    if shard:
        yield shard


def _laid_out(
    rows: list[list[Placed]], row_length: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void], npt.NDArray[np.int64], int]:
    """Returns INDEX and KINDS of each episode, where each row begins, and tokens in all."""
    placed = [placed for row in rows for placed in row]
    index, kinds = np.zeros(len(placed), INDEX), np.zeros(len(placed), KINDS)
    length = np.array([p.length for p in placed], np.int64)
    index["file"], index["line"] = [p.file for p in placed], [p.line for p in placed]
    kinds["kind"], kinds["pair"] = [p.kind for p in placed], [p.pair for p in placed]
    episodes = np.array([len(row) for row in rows], np.int64)
    index["length"], index["row"] = length, np.repeat(np.arange(len(rows)), episodes)
    ends = np.append(0, np.cumsum(length))  # as if there were no padding
    first = ends[np.cumsum(episodes) - episodes]  # where the first episode of each row begins so
    starts = np.arange(len(rows)) * row_length if row_length else first
    index["start"] = ends[:-1] + np.repeat(starts - first, episodes)
    return index, kinds, starts, len(rows) * row_length or int(ends[-1])


def _for_trainer(
    form: str, arrays: list[Iterator[npt.NDArray[Any]]], rows: list[list[Placed]], *, packed: bool
) -> Iterator[memoryview]:
    """Yields the bytes of a file of rows that have no padding: JSONL a few rows at a time.

    `arrays` are ids, targets and, if they are asked for, the messages of tokens.
    """
    trainer, of = trainer_of(form), [[placed.length for placed in row] for row in rows]
    if in_parquet(form):
        yield trainer_rows.parquet(trainer, list(map(_join, arrays)), of, packed=packed)
        return
    at = 0
    for some in zip(*arrays, strict=True):
        end, remaining = at, len(some[0])
        while remaining:
            remaining -= sum(of[end])
            end += 1
        yield from trainer_rows.lines(trainer, some, of[at:end], packed=packed)
        at = end


def _filled(
    rows: list[list[Placed]],
    row_length: int,
    dtype: np.dtype[Any],
    pad: int,
    read: Callable[[list[Placed], Any], None],
) -> Iterator[npt.NDArray[Any]]:
    """Yields the ids or targets of rows with their padding, a few rows at a time.

    So a shard never has to fit into memory. Each is valid until the next is asked for.
    """
    buffer = np.empty(0, dtype)
    for some in _shards_of(rows, row_length, _AT_ONCE):
        sizes = [sum(placed.length for placed in row) for row in some]
        total = row_length * len(some) or sum(sizes)
        if total > len(buffer):
            buffer = np.empty(total, dtype)
        out, at = buffer[:total], 0
        for row, size in zip(some, sizes, strict=True):
            read(row, out[at : at + size])
            end = at + (row_length or size)
            out[at + size : end] = pad
            at = end
        yield out


def _join(pieces: Iterator[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Returns pieces joined, each of which is valid until the next."""
    return np.concatenate([piece.copy() for piece in pieces])


def _write(path: Path, pieces: Iterable[memoryview]) -> dict[str, Any]:
    """Writes a file; returns its size and SHA-256, as the manifest has them."""
    digest, size = hashlib.sha256(), 0

    def with_digest() -> Iterator[memoryview]:
        nonlocal size
        for piece in pieces:
            digest.update(piece)
            size += piece.nbytes
            yield piece

    atomic.write(path, with_digest())
    return {"bytes": size, "sha256": digest.hexdigest()}


def _saved(array: npt.NDArray[np.void]) -> memoryview:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getbuffer()
