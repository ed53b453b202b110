"""The command `mypt-view`. What is shown goes to stdout, notes to stderr."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mypt_spec import __version__
from mypt_spec.lint.cli import positive

if TYPE_CHECKING:
    from mypt_spec.lint.check import Checker
    from mypt_spec.lint.sources import Source
    from mypt_spec.view.items import Item

CLEAN, FOUND, FAILED, INTERRUPTED = 0, 1, 2, 130
AUTO, _FIRST = "auto", "mypt"
_VIEWS = {
    "mask": "the serialised text, trained against masked",
    "ids": "one token a line: position, id, loss, block, text",
    "tree": "the blocks and parts of the episode",
    "text": "the serialised text as it is",
}

EPILOG = """\
examples:
  mypt-view data.jsonl                   the first episode, as a chat
  mypt-view data.jsonl:118 --mask        line 118: what is trained, and what is not
  mypt-view data.jsonl.gz:118 -n 3 --ids
  mypt-view data.jsonl --all --html view.html
  mypt-view sft:3 --mask                 the third episode of a folder that mypt-prepare has made
  mypt-view --kind text episode.txt      serialised text instead of JSONL
  mypt-view data.jsonl:7 --text | mypt-lint --kind text -

Exit status: 0 nothing wrong with what was shown, 1 an error in it, 2 failure.
"""


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="mypt-view",
        description="Show episodes of chat training data as a chat, with their loss mask, their token ids and their findings.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = out.add_argument
    add(
        "file",
        metavar="FILE[:LINE]",
        help="JSONL or text, .gz and .zst too, or - for standard input; from its first line, or LINE",
    )
    views = out.add_mutually_exclusive_group()
    for view, text in _VIEWS.items():
        views.add_argument(f"--{view}", dest="view", action="store_const", const=view, help=text)
    views.add_argument(
        "--html", metavar="OUT.html", help="write one page with everything in it; needs no network"
    )
    some = out.add_mutually_exclusive_group()
    some.add_argument(
        "-n", "--number", type=positive, metavar="N", help="show N episodes (default: 1)"
    )
    some.add_argument("--all", action="store_true", help="show all episodes to the end of the file")
    add(
        "--dialect",
        default=AUTO,
        metavar="NAME",
        help="the format of the data, or auto to find out (default: %(default)s)",
    )
    add(
        "--kind",
        choices=("record", "text"),
        default="record",
        help="JSONL records, or serialised text (default: %(default)s)",
    )
    add(
        "--layout",
        metavar="NAME",
        help="of --text: one of the dialect's layouts (default: compact, or the text as it was read)",
    )
    add("--version", action="version", version=f"mypt-view {__version__}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.ranks import VocabularyError

    # A word with a space in it is no option: `-:3` is line 3 of standard input.
    words = [
        f" {word}" if re.fullmatch(r"-:[0-9]+", word) else word
        for word in (sys.argv[1:] if argv is None else argv)
    ]
    options = parser().parse_args(words)
    options.file = (
        options.file.removeprefix(" ") if options.file.startswith(" -:") else options.file
    )
    try:
        status = _run(options)
        sys.stdout.flush()
    except (UsageError, VocabularyError) as error:
        print(f"mypt-view: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("mypt-view: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`); what is still in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
    return status


def split_line(name: str) -> tuple[str, int | None]:
    """`FILE:LINE` as both; a file that has literally that name is a file.

    >>> split_line("data.jsonl:118"), split_line("-:2"), split_line("a:b")
    (('data.jsonl', 118), ('-', 2), ('a:b', None))
    """
    from mypt_spec.lint.errors import UsageError

    match = re.fullmatch(r"(.+):([0-9]{1,18})", name, re.DOTALL)
    if match is None or os.path.lexists(name):
        return name, None
    if int(match[2]) == 0:
        raise UsageError(f"{name}: lines count from 1")
    return match[1], int(match[2])


def _run(options: argparse.Namespace) -> int:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.files import is_prepared
    from mypt_spec.view.items import first

    if options.layout is not None and options.view != "text":
        raise UsageError("--layout is of --text: give both")
    path, line = split_line(options.file)
    if path != "-" and is_prepared(path):
        from mypt_train.view import shard_items

        items = first(shard_items(path, line or 1), None if options.all else options.number or 1)
        if options.html is not None:
            return _page(items, path, options.html)
        return (
            _text(items, options.layout)
            if options.view == "text"
            else _terminal(items, options.view or "chat")
        )
    source, line = _source(options.file)
    checker, source, doubt = _checker(source, options)
    layouts = checker.dialect.table.layouts
    if options.layout is not None and options.layout not in layouts:
        raise UsageError(
            f"--layout {options.layout}: {checker.dialect.name} has {', '.join(layouts)}"
        )
    items = _items(checker, source, line, doubt, options)
    if options.html is not None:
        return _page(items, source.path, options.html)
    return (
        _text(items, options.layout)
        if options.view == "text"
        else _terminal(items, options.view or "chat")
    )


def _source(name: str) -> tuple[Source, int | None]:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.lint.files import expand

    path, line = split_line(name)
    if path != "-" and os.path.isdir(path):
        raise UsageError(f"{path}: is a folder; name a file in it")
    sources = expand([path])
    if len(sources) > 1:
        raise UsageError(f"{path}: matches {len(sources)} files; name one of them")
    return sources[0], line


def _checker(source: Source, options: argparse.Namespace) -> tuple[Checker, Source, str]:
    """The checker for the dialect, what to read from now on (a pipe gives its bytes once), and any doubt about the dialect."""
    import mypt_spec
    from mypt_spec.lint.check import Checker
    from mypt_spec.lint.detect import candidates, detect
    from mypt_spec.lint.errors import UsageError

    if options.dialect != AUTO:
        if options.dialect not in mypt_spec.dialects():
            raise UsageError(
                f"no dialect {options.dialect!r}; known are {AUTO}, {', '.join(mypt_spec.dialects())}"
            )
        return Checker(mypt_spec.dialect(options.dialect)), source, ""
    known = candidates(_FIRST)
    guess = detect(source, options.kind, known)
    doubt = (
        ""
        if guess.sure
        else f"{guess.dialect.name} is taken for it: nothing at its beginning is legal in any dialect; choose with --dialect"
    )
    return Checker(guess.dialect), guess.source, doubt


def _items(
    checker: Checker, source: Source, line: int | None, doubt: str, options: argparse.Namespace
) -> Iterator[Item]:
    from mypt_spec.lint.errors import UsageError
    from mypt_spec.view.items import first, read_items

    for at, item in enumerate(
        first(
            read_items(checker, source, options.kind, line),
            None if options.all else options.number or 1,
        )
    ):
        if at == 0 and line is not None and not item.raw.strip():
            raise UsageError(f"{source.path}:{line}: the line is empty, there is nothing to show")
        if at == 0 and doubt:
            print(f"mypt-view: {doubt}", file=sys.stderr)
        yield item


def _terminal(items: Iterator[Item], view: str) -> int:
    from mypt_spec.lint.outputs import utf8
    from mypt_spec.view.terminal import Terminal

    terminal = Terminal(utf8(sys.stdout))
    status = CLEAN
    for at, item in enumerate(items):
        if at:
            print()
        terminal.show(item, view)
        status = max(status, _status(item))
    return status


def _text(items: Iterator[Item], layout: str | None) -> int:
    """The texts alone on stdout; on a terminal made visible, elsewhere byte for byte. All else goes to stderr."""
    from mypt_spec.lint.outputs import utf8
    from mypt_spec.lint.render.visible import Display
    from mypt_spec.view.terminal import Terminal

    notes = Terminal(sys.stderr)
    display = Display(utf8(sys.stdout))
    status = CLEAN
    for item in items:
        status = max(status, _status(item))
        text = None if item.text is None or layout is not None else item.text
        if text is None and item.segments is not None and item.episode is not None:
            text = item.dialect.serialize(
                item.episode, layout=layout or next(iter(item.dialect.table.layouts))
            )
        notes.note(item, lacks="" if text is not None else "text")
        if text is not None:
            print(display.line(text, keep="\n\t") if sys.stdout.isatty() else text)
    return status


def _page(items: Iterator[Item], source: str, path: str) -> int:
    from mypt_spec.convert.stream import Output
    from mypt_spec.lint.render.totals import counted
    from mypt_spec.view.page import collect, page

    held = collect(items)
    with Output(path, [source]) as output:
        output.write_bytes(page(held))
    if path != "-":
        print(
            f"mypt-view: wrote {path}: {counted(len(held), 'episode')} of {source}", file=sys.stderr
        )
    return max(map(_status, held), default=CLEAN)


def _status(item: Item) -> int:
    return FOUND if any(f.severity == "error" for f in item.findings) else CLEAN


if __name__ == "__main__":
    sys.exit(main())
