"""Check texts and bytes in memory with a checker, as a run checks files."""

from __future__ import annotations

import io

from mypt_cli.jsonl.blocks import Source
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.check.texts import generation, text_units
from mypt_lint.fast.fast_checker import FastChecker
from mypt_lint.run.chunk import once
from mypt_lint.run.runner import check_lines


def check_bytes(checker: Checker, data: bytes, filename: str = "<bytes>") -> list[Diagnostic]:
    """Returns all findings of data held in memory: JSONL, or an array of records.

    Raises UsageError for Parquet, which is read from files alone.
    """
    source = Source(filename, stream=io.BytesIO(data))
    return [i for chunk in once(check_lines(FastChecker(checker), source)) for i in chunk.findings]


def check_text(checker: Checker, text: str, filename: str = "<text>") -> list[Diagnostic]:
    """Returns all findings of serialised text."""
    return text_units(checker, text.encode("utf-8", "surrogatepass"), filename).findings


def check_generation(
    checker: Checker, text: str, filename: str = "<text>", *, prompt: str = ""
) -> list[Diagnostic]:
    """Returns all findings of what a model wrote, after `prompt` if one is given."""
    return checker.text(text, generation(checker, text, prompt), filename=filename)
