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
from mypt_train.data.formats.options import Options
from mypt_train.data.packing import pack
from mypt_train.data.shards import shards_of, write_shard
from mypt_train.data.unit_files import UnitFiles


def write_splits(
    collection: Collection,
    out: Path,
    options: Options,
    wrote: Callable[[int], None],
    *,
    weights: bool,
    prefix: str,
    seed: int | tuple[int, ...],
) -> dict[str, list[dict[str, Any]]]:
    """Writes the shards of all splits into the folder `out`; returns their manifest entries.

    `weights` says that targets have weights. The names of files begin with `prefix`, and older
    files of such names are removed. `seed` is that of the order of rows. `wrote` is called with
    the tokens of each shard. Raises OSError.
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
            order = np.random.Generator(np.random.PCG64(seed)).permutation(len(rows))
            shuffled = [rows[i] for i in order.tolist()]
            folder = out / split
            folder.mkdir(exist_ok=True)
            for stale in folder.glob(f"{prefix}_*"):  # of a run that stopped here
                stale.unlink()
            splits[split] = []
            shards = shards_of(shuffled, row_length, options.tokens_per_shard)
            for number, shard in enumerate(shards):
                path = folder / f"{prefix}_{number:05}"
                entry = write_shard(path, shard, row_length, units, options, weights=weights)
                wrote(entry["episode_tokens"])
                splits[split].append(entry)
    return splits
