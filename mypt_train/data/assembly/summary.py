"""Lays out the manifest of a data set from what its units and shards say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mypt_train.data.assembly.totals import Totals
from mypt_train.data.formats.manifest import SCHEMA, VERSIONS, Counts, dtype_of
from mypt_train.data.formats.options import Options
from mypt_train.data.templates import histories

# The number of rejects that a refusal names.
_MAX_REJECTS = 3


def reasons(rejects: Sequence[bytes], path: str) -> str:
    """Returns the first findings of the rejects, a line each, and where all of them are."""
    lines = []
    for entry in map(json.loads, rejects[:_MAX_REJECTS]):
        first, others = entry["findings"][0], len(entry["findings"]) - 1
        tail = f" (and {others} more)" if others else ""
        lines.append(f"  {entry['file']}:{entry['line']}: {first['code']} {first['message']}{tail}")
    return "\n".join(["", *lines, f"all of them: {path}"]) if lines else ""


def dumped(manifest: Mapping[str, Any]) -> bytes:
    """Returns a manifest as the bytes of its file."""
    return json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"


def manifest(
    inputs: list[dict[str, Any]],
    options: Options,
    totals: Totals,
    splits: Mapping[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    """Returns the manifest; `splits` has the entries of the shards of each split, in order."""
    dialect = options.loaded_dialect
    dtype = dtype_of(dialect.tokenizer.vocab_size)
    masked = {"mask": options.episode_mask} if options.history == "per-turn" else {}
    out = {
        "schema": SCHEMA,
        "version": VERSIONS[dtype],
        "has_loss_mask": True,
        "dtype": dtype,
        "mask_dtype": "uint8",
        "byteorder": "little",
        "pad_id": dialect.tokenizer.pad,
        "vocab_size": dialect.tokenizer.vocab_size,
        "special_ids": dict(dialect.tokenizer.special),
        "spec_fingerprint": dialect.fingerprint,
        "vocabulary_sha256": dialect.tokenizer.files,
        "options": options.as_dict() | {"dialect": dialect.name} | masked,
        "inputs": [entry | totals.account_of(number) for number, entry in enumerate(inputs)],
        "lines": totals.all,
        "tags": dict(sorted(totals.tags.items())),
        "splits": {
            name: {key: sum(shard[key] for shard in shards) for key in Counts.__annotations__}
            | {"shards": shards}
            for name, shards in splits.items()
        },
    }
    if totals.warnings:
        out["warnings"] = dict(sorted(totals.warnings.items()))
    if totals.weighed:
        out["weighed"] = totals.weighed
    if totals.history:
        out["history"] = histories.reported(totals.history)
    if totals.weights:
        out["weights_dtype"] = "float32"
    return out
