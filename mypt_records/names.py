"""Holds the names of the shapes, for options and completion, which load nothing else."""

NAMES = ("openai",)
AUTO, NATIVE = "auto", "native"  # find out; the records of a dialect
