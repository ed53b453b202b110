"""Prepare data sets from files, and read what they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, ShardReader, prepare

ROOT = Path(__file__).parents[2]
PHASES = sorted(str(path) for path in (ROOT / "examples").glob("phase*.jsonl"))


def prepare_files(
    paths: list[str], out: Path, *, unit_size: int = 2000, **options: Any
) -> dict[str, Any]:
    """Prepares files in small units, and returns the manifest.

    `options` are those of `prepare`, or fields of its Options.
    """
    how = {k: options.pop(k) for k in ("workers", "resume", "progress") if k in options}
    chosen = Options(**{"context_length": 1024, **options})
    return prepare(expand(paths), out, chosen, unit_size=unit_size, **how)


def manifest_of(folder: Path | str) -> dict[str, Any]:
    """Returns the manifest of a data set, or the counts of `mypt-prepare` for rows of trainers."""
    manifest: dict[str, Any] = json.loads((Path(folder) / MANIFEST).read_bytes())
    return manifest


def episodes_of(folder: Path) -> dict[tuple[str, int, int], tuple[bytes, bytes]]:
    """Returns the ids and mask of each episode, by its split, file and line; each is there once."""
    episodes: dict[tuple[str, int, int], tuple[bytes, bytes]] = {}
    reader = ShardReader(folder, verify=True)
    for split in ("train", "val"):
        for shard in reader.shards(split):
            for entry, (ids, mask) in zip(shard.index, shard.episodes(), strict=True):
                key = split, int(entry["file"]), int(entry["line"])
                assert key not in episodes
                episodes[key] = ids.tobytes(), mask.tobytes()
    return episodes
