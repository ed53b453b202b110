"""Packs what was placed into rows, and writes the shards of a split.

Input: samples with their places in units. Output: shards, and their entries for the manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mypt_train.data.assembly.collection import Collection
from mypt_train.data.formats import trainer_of
from mypt_train.data.formats.manifest import dtype_of
from mypt_train.data.formats.options import Options
from mypt_train.data.packing import pack
from mypt_train.data.shards import shards_of, write_shard
from mypt_train.data.units import Placed, UnitFiles


def write_splits(
    collection: Collection,
    out: Path,
    options: Options,
    wrote: Callable[[int], None] = lambda _: None,
    *,
    weights: bool,
    prefix: str = "shard",
    seed: int | tuple[int, ...],
) -> dict[str, list[dict[str, Any]]]:
    """Writes the shards of all splits into the folder `out`; returns their manifest entries.

    `weights` says that targets have weights. The names of files begin with `prefix`, and older
    files of such names are removed. `seed` is that of the order of rows. `wrote` is called with
    the tokens of each shard. Raises OSError.
    """
    with UnitFiles(collection.parts) as units:
        return {
            name: _write_split(
                out / name, items, options, units, wrote, weights=weights, prefix=prefix, seed=seed
            )
            for name, items in collection.placed.items()
        }


def _write_split(
    folder: Path,
    items: list[Placed],
    options: Options,
    units: UnitFiles,
    wrote: Callable[[int], None],
    *,
    weights: bool,
    prefix: str,
    seed: int | tuple[int, ...],
) -> list[dict[str, Any]]:
    row_length = options.context_length if options.pack else 0
    tokenizer = options.loaded_dialect.tokenizer
    if row_length:
        rows = [
            [items[i] for i in row]
            for row in pack(((p.length, i) for i, p in enumerate(items)), row_length)
        ]
    else:
        rows = [[item] for item in items]
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(rows))
    folder.mkdir(exist_ok=True)
    for stale in folder.glob(f"{prefix}_*"):  # of a run that stopped here
        stale.unlink()
    shuffled = [rows[i] for i in order.tolist()]
    if trainer_of(options.format):
        row_length = 0  # these trainers pad a batch to its longest row
    out = []
    for number, shard in enumerate(shards_of(shuffled, row_length, options.tokens_per_shard)):
        entry = write_shard(
            folder,
            f"{prefix}_{number:05}",
            shard,
            row_length,
            units,
            tokenizer.pad,
            options.format,
            dtype=dtype_of(tokenizer.vocab_size),
            preferences=options.preferences,
            packed=options.pack,
            weights=weights,
        )
        wrote(entry["episode_tokens"])
        out.append(entry)
    return out
