"""Reads the command line of `mypt-diff`: compares two formats on the records of some files."""

import argparse
import sys
from collections import Counter

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import UsageError

SAME, DIFFERENT = 0, 1

PROG = "mypt-diff"
_SIDE = "a template, model folder, .gguf file, dialect, custom format folder, or URL of a server"


def _run(options: argparse.Namespace) -> int:
    from mypt_cli.jsonl.paths import expand
    from mypt_cli.jsonl.values import lines
    from mypt_cli.words import counted
    from mypt_lint.template.compare import KINDS, compare, side_of
    from mypt_records.shapes import read, shape_of

    one, other = side_of(options.one), side_of(options.other)
    kinds, compared, unread = Counter[str](), 0, 0
    for source in expand(options.paths):
        for line in lines(source):
            shape = shape_of(line.value) if line.fault is None else ""
            chat = read(line.value, shape) if shape else None
            if chat is None or not chat.messages or not chat.is_readable:
                unread += 1
                continue
            compared += 1
            if (difference := compare(line.value, chat, one, other)) is not None:
                kinds[difference[0]] += 1
                print(f"{line.path}:{line.row}: {': '.join(difference)}")
    if not compared:
        raise UsageError(f"no record to compare; {unread} not read: mypt-lint says why")
    if not options.quiet:
        text = f"{counted(compared, 'record')} compared, {kinds.total()} differ"
        print(text + f"; {unread} not read: mypt-lint says why" * bool(unread), file=sys.stderr)
        for kind, count in kinds.most_common():
            print(f"  {count}  {kind}: {KINDS[kind]}", file=sys.stderr)
    return DIFFERENT if kinds else SAME


main = Command(PROG, __file__, options(__file__), _run)

if __name__ == "__main__":
    sys.exit(main())
