"""Names the files that commands read and write, and says by its name what a file is."""

import os

from mypt_cli.jsonl.blocks import Packing
from mypt_cli.jsonl.compression import zstandard_module
from mypt_cli.jsonl.parquet import parquet_module

SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
JSON = ".json"  # of folders, only arrays of records: there are many other files of this name
TABLES = (".parquet", ".arrow")
MANIFEST = "dataset_metadata.json"  # the file that marks a prepared data set
# What preparing leaves until it is done: a folder, and a plan in it.
WORK, PLAN = ".work", "plan.json"
REJECTS = "rejects.jsonl"  # the lines that a preparation has refused
PACKED: dict[str, Packing] = {".gz": "gz", ".zst": "zst"}


def is_prepared(path: str) -> bool:
    """Returns whether a folder is a prepared data set, or was to be one."""
    return any(os.path.isfile(os.path.join(path, name)) for name in (MANIFEST, f"{WORK}/{PLAN}"))


def packing(path: str) -> Packing:
    """Returns how a file is packed, by its name. Raises UsageError if it cannot be read here."""
    compressed: Packing = PACKED.get(os.path.splitext(path)[1].lower(), "")
    if compressed == "zst":
        zstandard_module(path)
    if path.lower().endswith(TABLES):
        parquet_module(path)
    return compressed


def is_json(path: str, endings: str | tuple[str, ...] = JSON) -> bool:
    """Returns whether the name of a file, packed or not, has an ending, by default .json."""
    name, ending = os.path.splitext(path.lower())
    return (name if ending in PACKED else path.lower()).endswith(endings)
