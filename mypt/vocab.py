"""Runs `mypt-vocab`: learns a small vocabulary from the texts of records.

A summary goes to stderr.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.run import saying

PROG = "mypt-vocab"


def _texts(chosen: argparse.Namespace, totals: Counter[str]) -> Iterator[str]:
    """Yields the texts of all records, without tags; adds up the `texts` and their `bytes`.

    Raises UsageError, naming the line, for a line that is no record without errors.
    """
    from mypt_cli.jsonl.values import lines
    from mypt_cli.progress import Bar
    from mypt_lint.check.from_settings import checker
    from mypt_lint.run.plan import planned
    from mypt_lint.run.resolve import one_dialect
    from mypt_records.names import NAMES
    from mypt_spec.episode import events_of
    from mypt_spec.table import TEXT

    plan, say = planned(chosen), saying(PROG, quiet=chosen.quiet)
    inputs = plan.files(chosen.paths, say=say)
    d, rules, sources = one_dialect(plan, inputs, say, what="a vocabulary")
    with Bar(sources, quiet=chosen.quiet) as bar:
        for source, settings in zip(sources, rules, strict=True):
            read = checker(settings, d).read if settings["records"] in NAMES else d.read
            for line in lines(source):
                bar.at(line.position)
                episode, findings = read(line.value) if line.fault is None else (None, [line.fault])
                if episode is None:
                    first = next(f for f in findings if f.severity == "error")
                    raise UsageError(
                        f"{line.path}:{line.row}: {first.code} {first.message}; see mypt-lint, or "
                        "name the format of the records with --dialect"
                    )
                for event in events_of(episode.messages, d.table):
                    if event.terminal == TEXT:
                        totals.update(texts=1, bytes=len(event.text.encode()))
                        yield event.text
            bar.next()


def _run(chosen: argparse.Namespace) -> None:
    from mypt_cli.jsonl.output import Output
    from mypt_cli.progress import Bar
    from mypt_spec.tokenizer.vocabulary import write_ranks
    from mypt_train.curriculum.bpe import learn

    totals = Counter[str]()
    with (
        Output(chosen.output, ()) as out,
        Bar(chosen.size, unit="tokens", quiet=chosen.quiet) as bar,
    ):
        ranks = learn(_texts(chosen, totals), chosen.size, progress=bar.at)
        out.write_bytes(write_ranks(ranks))
    if not chosen.quiet:
        print(
            f"{chosen.output}: {len(ranks)} ids of text, learnt from {totals['texts']} texts of "
            f"{totals['bytes']} bytes",
            file=sys.stderr,
        )


main = Command(
    PROG, __file__, options(__file__), _run, interrupted="interrupted; nothing was written"
)

if __name__ == "__main__":
    sys.exit(main())
