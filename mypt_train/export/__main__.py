"""The command `mypt-export`, or `python -m mypt_train.export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mypt_spec import __version__
from mypt_train.export.folder import export
from mypt_train.export.tokenizer_file import ExportError

DONE, FAILED = 0, 2

EPILOG = """\
examples:
  mypt-export runs/tiny exported
  python -c "import transformers; transformers.pipeline('text-generation', 'exported')"

The folder loads offline in transformers, and gives the same ids and masks as mypt-prepare. Its chat template refuses content that
spells a tag. Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-export",
        description="Write a checkpoint as a Hugging Face folder.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add(
        "checkpoint",
        metavar="CHECKPOINT",
        help="config.json and model.safetensors, or what mypt-train has written to",
    )
    add("out", metavar="OUT", help="an empty folder, or a new one")
    add("--dialect", default="mypt", metavar="NAME", help="the format (default: %(default)s)")
    add(
        "--vocab",
        metavar="FILE",
        help="the vocabulary, as ranks (default: the one in the checkpoint, or GPT-2's)",
    )
    add("--version", action="version", version=f"mypt-export {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    chosen = parser().parse_args(argv)
    try:
        print(
            export(chosen.checkpoint, chosen.out, dialect=chosen.dialect, vocabulary=chosen.vocab)
        )
    except ExportError as error:
        print(f"mypt-export: error: {error}", file=sys.stderr)
        return FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main())
