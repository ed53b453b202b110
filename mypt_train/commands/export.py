"""Runs `mypt-export`: a checkpoint becomes a Hugging Face folder."""

from __future__ import annotations

import argparse
import sys

from mypt_cli.command import Command
from mypt_cli.parser import Parser

DONE = 0

PROG = "mypt-export"
EPILOG = """\
examples:
  mypt-export runs/tiny --out exported
  python -c "import transformers; transformers.pipeline('text-generation', 'exported')"

The folder loads offline in transformers, and gives the same ids and masks as mypt-prepare. Its chat
template refuses content that spells a tag. Exit status: 0 done, 2 failure.
"""


def _options(out: Parser) -> None:
    add = out.group("input")
    add(
        "CHECKPOINT",
        "config.json and model.safetensors, or what mypt-train has written to",
        dest="checkpoint",
    )
    add.dialect("that of the checkpoint, or mypt")
    add(
        "--vocab PATH",
        "the vocabulary: ranks, tokenizer.json, tekken.json, or a folder with one (default: "
        "the one in the checkpoint, or GPT-2's)",
    )
    add = out.group("output")
    add("-o --out DIR", "an empty folder, or a new one; required")
    add("OUT", argparse.SUPPRESS, dest="old_out", nargs="?")  # the folder as a second word


def _run(chosen: argparse.Namespace) -> int:
    from mypt_train.export.folder import export
    from mypt_train.export.tokenizer_file import ExportError

    out = chosen.out or chosen.old_out
    if out is None or None not in (chosen.out, chosen.old_out):
        raise ExportError("name the folder to write once, with --out DIR")
    print(export(chosen.checkpoint, out, dialect=chosen.dialect, vocabulary=chosen.vocab))
    return DONE


main = Command(
    PROG, "Write a checkpoint as a Hugging Face folder.", EPILOG, _options, _run, quiet=""
)

if __name__ == "__main__":
    sys.exit(main())
