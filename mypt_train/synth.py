"""The command `mypt-synth`: episodes of a phase of the curriculum, as JSONL. A summary goes to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mypt_spec import __version__

DONE, FAILED, INTERRUPTED = 0, 2, 130

EPILOG = """\
examples:
  mypt-synth --phase 3 --n 20000 --seed 1 -o phase3.jsonl
  mypt-synth --phase 3 --n 200 --split heldout -o phase3-heldout.jsonl && mypt-lint --phase 3 phase3*.jsonl

Phases: 1 format lock, 2 operators, 3 chat of several turns, 4 simple tool calls, 5 several calls with thoughts and citations.
English and German, none twice; equal options give equal bytes, and fewer episodes are the beginning of more. What a user says
in one split is never said in the other, whatever the seed. Exit status: 0 done, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-synth",
        description="Make up episodes of the five-phase curriculum of MyPT.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add("--phase", type=int, required=True, metavar="N", help="1 to 5")
    add("--n", type=int, default=1000, metavar="N", help="episodes (default: %(default)s)")
    add("--seed", type=int, default=0, help="other episodes (default: %(default)s)")
    add(
        "--split",
        choices=("train", "heldout"),
        default="train",
        help="whose prompts (default: %(default)s)",
    )
    add("-o", "--output", default="-", metavar="FILE", help="default: -, stdout; .gz is compressed")
    add("-q", "--quiet", action="store_true", help="no summary")
    add("--version", action="version", version=f"mypt-synth {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    from mypt_spec.convert.stream import Output
    from mypt_spec.lint.errors import UsageError
    from mypt_train.curriculum import CurriculumError, episodes

    chosen = parser().parse_args(argv)
    try:
        made = episodes(chosen.phase, chosen.n, seed=chosen.seed, split=chosen.split)
        with Output(chosen.output, ()) as out:
            for record in made:
                out.write(record)
    except (CurriculumError, UsageError) as error:
        print(f"mypt-synth: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("mypt-synth: interrupted; no file was written", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return DONE
    if not chosen.quiet:
        print(
            f"{chosen.output}: {chosen.n} episodes of phase {chosen.phase}, {chosen.split}, seed {chosen.seed}",
            file=sys.stderr,
        )
    return DONE


if __name__ == "__main__":
    sys.exit(main())
