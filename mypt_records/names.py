"""Holds the names of the shapes, for options and completion, which load nothing else."""

NAMES = ("openai", "sharegpt", "alpaca", "completion", "preference", "kto", "text")
TEXTS = "text"  # texts that are serialised already
AUTO, NATIVE = "auto", "native"  # find out; the records of a dialect
