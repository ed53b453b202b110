"""Defines the manifest of a prepared data set, and reads it.

A manifest may come from elsewhere, or be cut short by a bad disk. It is checked as a whole when it
is read, so that no other module has to doubt it. `docs/toolcall_sft.md` describes each key.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
from msgspec import Meta, ValidationError, convert

from mypt_spec.encoder import Mask
from mypt_train.data.formats import FORMATS, MEGATRON, in_parquet

SCHEMA = "toolcall_sft_v1"
# The type of ids -> the version of a manifest that has them.
VERSIONS = {"uint16": 1, "uint32": 2}
# What an episode is for, in a data set with preferences.
SFT, CHOSEN, REJECTED, GOOD, BAD = range(5)
KINDS = np.dtype([("kind", "u1"), ("pair", "<u4")])
"""One entry for each episode of a shard: one of the kinds above, and the number of its pair.

A chosen and a rejected answer have the same number, from 1 on. All other episodes have 0.
"""
# Ids of either type.
TokenIds = npt.NDArray[np.unsignedinteger[Any]]

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]+\Z")]
FormatName = Annotated[str, Meta(pattern=rf"^({'|'.join(FORMATS)})\Z")]
FileName = Annotated[str, Meta(pattern=r"^[\w.-]+\Z")]
Length = Annotated[int, Meta(ge=2, lt=1 << 31)]


class File(TypedDict):
    """A file of a shard: its size in bytes, and its SHA-256 in hexadecimal."""

    bytes: Count
    sha256: Digest


class Counts(TypedDict):
    """What is counted of a shard, and of a split, which has the sums over its shards."""

    tokens: Count
    episodes: Count
    rows: Count
    episode_tokens: Count
    trained_tokens: Count


class ShardEntry(Counts):
    """A shard. `name` is its split and number, with which the names of its files begin."""

    name: str
    files: dict[str, File]


class Split(Counts):
    """A split, "train" or "val"."""

    shards: list[ShardEntry]


Splits = Annotated[dict[Literal["train", "val"], Split], Meta(min_length=2)]


class ReaderOptions(TypedDict):
    """The options that a reader needs."""

    dialect: NotRequired[str]
    model: NotRequired[str]
    phase: int | None
    context_length: Length
    pack: bool
    format: NotRequired[FormatName]
    preferences: NotRequired[bool]
    mask: NotRequired[str]
    history: NotRequired[Literal["keep", "official", "per-turn"]]
    message_indices: NotRequired[bool]


class Input(TypedDict):
    """A file of the input."""

    path: str


class Manifest(TypedDict):
    """What every reader relies on. A manifest says more, which is for people."""

    schema: str
    version: int
    dtype: Literal["uint16", "uint32"]
    mask_dtype: Literal["uint8"]
    weights_dtype: NotRequired[Literal["float32"]]
    weighed: NotRequired[Count]
    byteorder: Literal["little"]
    pad_id: Count
    vocab_size: Count
    spec_fingerprint: Digest
    vocabulary_sha256: dict[FileName, Digest]
    options: ReaderOptions
    inputs: list[Input]
    splits: Splits


def dtype_of(vocab_size: int) -> str:
    """Returns the smallest type that holds the ids of a vocabulary of this size."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def read(path: Path) -> dict[str, Any]:
    """Returns the manifest in a file, as `Manifest` describes it.

    Raises OSError, and ValueError saying what was expected and where.
    """
    try:
        manifest = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot be read: {error}") from None
    versions = sorted({*VERSIONS.values()})  # what is read may have no hash
    if (
        not isinstance(manifest, dict)
        or manifest.get("schema") != SCHEMA
        or manifest.get("version") not in versions
    ):
        expected = " or ".join(map(str, versions))
        raise ValueError(f"is not a manifest of schema {SCHEMA}, version {expected}")
    try:
        convert(manifest, Manifest)
    except ValidationError as error:
        raise ValueError(f"is not a complete manifest: {error}") from None
    if VERSIONS[manifest["dtype"]] != manifest["version"]:
        raise ValueError(
            f"has ids of type {manifest['dtype']} in version {manifest['version']}, expected "
            f"version {VERSIONS[manifest['dtype']]}"
        )
    options = manifest["options"]
    Mask.from_name(options.get("mask", "model"))  # raises ValueError
    for split, entry in manifest["splits"].items():
        for number, shard in enumerate(entry["shards"]):
            name = f"{split}/shard_{number:05}"
            names = files_of(
                name,
                options.get("format", "bin"),
                options.get("preferences", False),
                "weights_dtype" in manifest,
            )
            if shard["name"] != name or sorted(shard["files"]) != sorted(names):
                raise ValueError(
                    f"describes shard {number} of {split} as {shard['name']!r} with "
                    f"{', '.join(map(repr, shard['files'])) or 'no files'}; "
                    f"expected {name!r} with {', '.join(names)}"
                )
    return manifest


def files_of(name: str, form: str, preferences: bool, weights: bool = False) -> list[str]:
    """Returns the names of the files of a shard.

    In the format "bin" they hold ids, targets, index and, with preferences, kinds, and weights if
    there are some; for Megatron, ids and targets, each with its index; in all others one file holds
    all.
    """
    if form == MEGATRON:
        return [name + end for end in (".bin", ".idx", "_mask.bin", "_mask.idx")]
    if form != "bin":
        return [f"{name}.parquet" if in_parquet(form) else f"{name}.jsonl"]
    ends = [".bin", "_mask.bin", "_idx.npy"] + ["_kinds.npy"] * preferences
    ends += ["_weights.bin"] * weights
    return [name + end for end in ends]
