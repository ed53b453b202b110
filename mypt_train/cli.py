"""The command `mypt-prepare`. The summary goes to stdout, progress to stderr."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mypt_spec import __version__

DONE, REFUSED, FAILED, INTERRUPTED = 0, 1, 2, 130

EPILOG = """\
examples:
  mypt-prepare data/*.jsonl --out sft --context-length 2048 --val-fraction 0.01
  mypt-prepare data/ --out sft --on-error reject --long split-turns --workers 4
  mypt-prepare data/ --out sft --vocab small.tiktoken        on another vocabulary
  mypt-prepare data/ --out sft --resume                      go on after a kill, with the same options

Every line is written, refused (rejects.jsonl says why), too long or a duplicate, and the sums add up. docs/toolcall_sft.md
describes the files byte by byte. Exit status: 0 done, 1 lines were refused, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-prepare",
        description="Make training shards with exact loss masks from checked JSONL.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add("paths", nargs="+", metavar="PATH", help="files, folders and patterns; .gz and .zst too")
    add("--out", required=True, metavar="DIR", help="an empty folder, or a new one")
    add(
        "--dialect",
        default="mypt",
        metavar="NAME",
        help="the format of the data (default: %(default)s)",
    )
    add(
        "--vocab",
        metavar="FILE",
        dest="vocabulary",
        help="a vocabulary in the place of GPT-2's: ranks, as tiktoken writes them",
    )
    add(
        "--phase",
        type=int,
        metavar="N",
        help="refuse what the curriculum has not introduced by phase N",
    )
    add(
        "--context-length",
        type=int,
        default=2048,
        metavar="N",
        help="tokens of a row (default: %(default)s)",
    )
    add(
        "--pack",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whole episodes side by side in rows (default: yes)",
    )
    add(
        "--val-fraction",
        type=float,
        default=0.0,
        metavar="F",
        help="share of the episodes, by their hash, for val (default: %(default)s)",
    )
    add("--tokens-per-shard", type=int, default=10_000_000, metavar="N", help="default: 10_000_000")
    add("--seed", type=int, default=0, help="of the order of rows (default: %(default)s)")
    add(
        "--long",
        choices=("error", "drop", "split-turns"),
        default="error",
        help="what becomes of episodes that no row can hold (default: %(default)s)",
    )
    add(
        "--on-error",
        choices=("fail", "reject"),
        default="fail",
        help="when a line is refused: make no data set, or go on without it (default: %(default)s)",
    )
    add("--dedup", action="store_true", help="leave out episodes that were there before")
    add(
        "--format",
        choices=("bin", "parquet"),
        default="bin",
        help="of the shards (default: %(default)s); parquet needs pyarrow",
    )
    add(
        "--preferences",
        action="store_true",
        help="keep rejected answers and labels, for DPO, ORPO and KTO",
    )
    add("--workers", type=int, default=0, metavar="N", help="processes; 0 is one a core (default)")
    add("--resume", action="store_true", help="go on with what a run that was stopped has left")
    add("-q", "--quiet", action="store_true", help="no progress, no summary")
    add("--version", action="version", version=f"mypt-prepare {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    chosen = parser().parse_args(argv)
    try:
        return _run(chosen)
    except KeyboardInterrupt:
        print("mypt-prepare: interrupted; go on with --resume", file=sys.stderr)
        return INTERRUPTED


def _run(chosen: argparse.Namespace) -> int:
    import mypt_spec
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.files import expand
    from mypt_spec.lint.progress import Bar
    from mypt_train.options import Options
    from mypt_train.prepare import PrepareError, prepare

    try:
        if chosen.dialect not in mypt_spec.dialects():
            raise PrepareError(
                f"no dialect {chosen.dialect!r}; known are {', '.join(mypt_spec.dialects())}"
            )
        phases = len(mypt_spec.dialect(chosen.dialect).table.phases)
        if chosen.phase is not None and not 1 <= chosen.phase <= phases:
            raise PrepareError(f"--phase {chosen.phase}: {chosen.dialect} has {phases} phases")
        names = (
            "dialect",
            "phase",
            "context_length",
            "pack",
            "val_fraction",
            "tokens_per_shard",
            "seed",
            "long",
            "on_error",
            "dedup",
            "format",
            "vocabulary",
            "preferences",
        )
        options = Options(**{name: getattr(chosen, name) for name in names})
        sources = sorted(expand(chosen.paths), key=lambda source: source.path)
        done = 0
        with Bar(sources, quiet=chosen.quiet) as bar:

            def read(size: int) -> None:
                nonlocal done
                done += size
                bar.at(done)

            workers = chosen.workers or os.cpu_count() or 1
            manifest = prepare(
                sources,
                Path(chosen.out),
                options,
                workers=workers,
                resume=chosen.resume,
                progress=read,
            )
    except (PrepareError, UsageError, ValueError) as error:
        print(f"mypt-prepare: error: {error}", file=sys.stderr)
        return FAILED
    if not chosen.quiet:
        _summary(manifest, chosen.out)
    return REFUSED if manifest["lines"]["refused"] else DONE


def _summary(manifest: dict[str, Any], out: str) -> None:
    lines = manifest["lines"]
    print(
        f"{out}: {lines['lines']} lines: {lines['written']} written, {lines['refused']} refused, {lines['long']} too long, {lines['duplicate']} duplicate"
    )
    for name, split in manifest["splits"].items():
        if split["episodes"]:
            padding = 1 - split["episode_tokens"] / split["tokens"]
            print(
                f"  {name}: {split['episodes']} episodes in {split['rows']} rows, {len(split['shards'])} shards, {split['tokens']} tokens, "
                f"{split['trained_tokens']} trained, {padding:.2%} padding"
            )


if __name__ == "__main__":
    sys.exit(main())
