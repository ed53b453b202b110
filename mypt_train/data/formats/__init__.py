"""The formats of shards: what `mypt-prepare --format` writes.

"bin" and "parquet" are read by this package; all others are rows for a trainer of elsewhere.
"""

from __future__ import annotations

# The formats that trainers of elsewhere read -> the columns of a row. Each may also be Parquet.
TRAINERS = {
    "trl": ("input_ids", "labels"),
    "axolotl": ("input_ids", "attention_mask", "labels"),
}
FORMATS = ("bin", "parquet", *(name + end for name in TRAINERS for end in ("", "-parquet")))


def trainer_of(form: str) -> str:
    """Returns the trainer that a format is for; empty for a format of this package."""
    name = form.removesuffix("-parquet")
    return name if name in TRAINERS else ""


def in_parquet(form: str) -> bool:
    """Returns whether the files of a format are Parquet."""
    return form.endswith("parquet")
