"""The formats of shards: what `mypt-prepare --format` writes.

"bin" and "parquet" are read by this package; all others are for a trainer of elsewhere: rows, and
for Megatron its indexed data set.
"""

# The formats that trainers of elsewhere read -> the columns of a row. Each may also be Parquet.
TRAINERS = {
    "trl": ("input_ids", "labels"),
    "axolotl": ("input_ids", "attention_mask", "labels"),
    "skyrl": ("input_ids", "attention_mask", "num_actions", "loss_mask"),
    "verl": ("input_ids", "attention_mask", "position_ids", "loss_mask"),
}
MEGATRON = "megatron"
MESSAGES = "message_indices"  # a column that rows have if it is asked for
FORMATS = (
    "bin",
    "parquet",
    *(name + end for name in TRAINERS for end in ("", "-parquet")),
    MEGATRON,
)


def trainer_of(form: str) -> str:
    """Returns the trainer that a format is for; empty for a format of this package."""
    name = form.removesuffix("-parquet")
    return name if name in (*TRAINERS, MEGATRON) else ""


def packs(form: str) -> bool:
    """Returns whether a row of a format may hold several episodes."""
    return trainer_of(form) in ("", "trl")


def in_parquet(form: str) -> bool:
    return form.endswith("parquet")
