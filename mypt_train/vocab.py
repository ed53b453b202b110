"""The command `mypt-vocab`: a small vocabulary, learnt from the texts of records. A summary goes to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mypt_spec import __version__

DONE, FAILED, INTERRUPTED = 0, 2, 130

EPILOG = """\
examples:
  mypt-vocab data/*.jsonl --size 1000 -o small.tiktoken
  mypt-prepare data/*.jsonl --vocab small.tiktoken --out sft

The file holds ranks, as tiktoken writes them. What is not text, the tags, gets ids behind it: of a format with 19 tags and 1000
ids of text, a model has 1024. Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-vocab",
        description="Learn a byte-pair encoding for a small model.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files, folders and patterns of JSONL; .gz and .zst too",
    )
    add("-o", "--output", required=True, metavar="FILE", help="the file of ranks")
    add("--size", type=int, default=1000, metavar="N", help="ids of text (default: %(default)s)")
    add(
        "--dialect",
        default="mypt",
        metavar="NAME",
        help="the format of the data (default: %(default)s)",
    )
    add("-q", "--quiet", action="store_true", help="no summary")
    add("--version", action="version", version=f"mypt-vocab {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    from mypt_spec.lint.errors import UsageError
    from mypt_train.bpe import BpeError

    chosen = parser().parse_args(argv)
    try:
        return _run(chosen)
    except (UsageError, BpeError) as error:
        print(f"mypt-vocab: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("mypt-vocab: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED


def texts(paths: Sequence[str], dialect: str) -> Iterator[str]:
    """The text runs of all records. Raises UsageError for a line that is none, naming it."""
    import mypt_spec
    from mypt_spec.convert.stream import lines
    from mypt_spec.episode import events_of
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.files import expand
    from mypt_spec.tokens import TEXT

    if dialect not in mypt_spec.dialects():
        raise UsageError(f"no dialect {dialect!r}; known are {', '.join(mypt_spec.dialects())}")
    d = mypt_spec.dialect(dialect)
    for source in expand(paths):
        for line in lines(source):
            episode, findings = d.read(line.value) if line.fault is None else (None, [line.fault])
            if episode is None:
                first = next(f for f in findings if f.severity == "error")
                raise UsageError(
                    f"{line.path}:{line.row}: {first.code} {first.message}; mypt-lint says more"
                )
            yield from (
                event.text
                for event in events_of(episode.messages, d.table)
                if event.terminal == TEXT
            )


def _run(chosen: argparse.Namespace) -> int:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.ranks import write_ranks
    from mypt_train import durable
    from mypt_train.bpe import learn

    read = [0, 0]  # texts, bytes

    def counted() -> Iterator[str]:
        for text in texts(chosen.paths, chosen.dialect):
            read[0] += 1
            read[1] += len(text.encode())
            yield text

    ranks = learn(counted(), chosen.size)
    try:
        durable.write(Path(chosen.output), [write_ranks(ranks)])
    except OSError as error:
        raise UsageError(f"{chosen.output}: cannot be written: {error.strerror or error}") from None
    if not chosen.quiet:
        print(
            f"{chosen.output}: {len(ranks)} ids of text, learnt from {read[0]} texts of {read[1]} bytes",
            file=sys.stderr,
        )
    return DONE


if __name__ == "__main__":
    sys.exit(main())
