"""Runs `mypt-export`: a checkpoint becomes a Hugging Face folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mypt_cli.parser import parser as command_line
from mypt_cli.run import run
from mypt_spec import __version__
from mypt_train.export.folder import export
from mypt_train.export.tokenizer_file import ExportError

DONE = 0

PROG = "mypt-export"
EPILOG = """\
examples:
  mypt-export runs/tiny --out exported
  python -c "import transformers; transformers.pipeline('text-generation', 'exported')"

The folder loads offline in transformers, and gives the same ids and masks as mypt-prepare. Its chat
template refuses content that spells a tag. Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = command_line(PROG, "Write a checkpoint as a Hugging Face folder.", EPILOG)
    add = out.add_argument
    add(
        "checkpoint",
        metavar="CHECKPOINT",
        help="config.json and model.safetensors, or what mypt-train has written to",
    )
    add("-o", "--out", metavar="DIR", help="an empty folder, or a new one; required")
    add("old_out", nargs="?", help=argparse.SUPPRESS)  # the folder as a second word
    add("--dialect", metavar="NAME", help="the format (default: that of the checkpoint, or mypt)")
    add(
        "--vocab",
        metavar="FILE",
        help="the vocabulary, as ranks (default: the one in the checkpoint, or GPT-2's)",
    )
    add("--version", action="version", version=f"{PROG} {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return run(PROG, lambda: _run(parser().parse_args(argv)))


def _run(chosen: argparse.Namespace) -> int:
    out = chosen.out or chosen.old_out
    if out is None or None not in (chosen.out, chosen.old_out):
        raise ExportError("name the folder to write once, with --out DIR")
    print(export(chosen.checkpoint, out, dialect=chosen.dialect, vocabulary=chosen.vocab))
    return DONE


if __name__ == "__main__":
    sys.exit(main())
