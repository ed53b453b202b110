"""Reads the command line of `mypt-view`. Items go to stdout, notes to stderr."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.parser import Parser
from mypt_cli.run import saying
from mypt_lint.settings.options import DEFAULTS, template_options

if TYPE_CHECKING:
    from mypt_cli.jsonl.blocks import Source
    from mypt_lint.check.checker import Checker
    from mypt_view.items import Item

CLEAN, FINDINGS = 0, 1
AUTO = "auto"
_LINE_OF_STDIN = re.compile(r"-:[0-9]+$")

PROG = "mypt-view"


def _options(out: Parser) -> None:
    options(__file__)(out)
    out._negative_number_matcher = _LINE_OF_STDIN  # a name, not an option


def split_line(name: str) -> tuple[str, int | None]:
    """Returns `FILE:LINE` as both; a file that has literally that name is a file.

    Raises UsageError for line 0.

    >>> split_line("data.jsonl:118"), split_line("-:2"), split_line("a:b")
    (('data.jsonl', 118), ('-', 2), ('a:b', None))
    """
    match = re.fullmatch(r"(.+):([0-9]{1,18})", name, re.DOTALL)
    if match is None or os.path.lexists(name):
        return name, None
    if int(match[2]) == 0:
        raise UsageError(f"{name}: lines count from 1")
    return match[1], int(match[2])


def _run(options: argparse.Namespace) -> int:
    from mypt_cli.jsonl.names import is_prepared
    from mypt_lint.settings.settings import NO_SETTINGS
    from mypt_view.items import as_prepared, first

    if options.layout is not None and options.view != "text":
        raise UsageError("--layout is of --text: give both")
    path, line = split_line(options.file)
    mask = options.mask_name
    if path != "-" and is_prepared(path):
        if options.history is not None:
            raise UsageError(f"--history: {path} holds output of mypt-prepare; remove the option")
        if mask != "model":
            raise UsageError(f"--mask-name: {path} has the mask of mypt-prepare; remove the option")
        items = first(_shard_items(path, line or 1), _count(options))
        return _show(items, path, NO_SETTINGS.counting, options)
    if options.model is not None:
        return _by_model(_source(path), line, options)
    checker, kind, source, doubt, counting = _checker(_source(path), options)
    layouts = checker.dialect.table.layouts
    if options.layout is not None and options.layout not in layouts:
        raise UsageError(
            f"--layout {options.layout}: {checker.dialect.name} has {', '.join(layouts)}"
        )
    items = _items(checker, source, kind, line, doubt, options)
    shows_loss = options.view in ("mask", "ids") or options.html
    usual = "official" if shows_loss and checker.dialect.table.history.drops else "keep"
    if (history := options.history or usual, mask) != ("keep", "model"):
        items = as_prepared(items, history, mask)
    return _show(items, source.path, counting, options)


def _by_model(source: Source, line: int | None, options: argparse.Namespace) -> int:
    """Shows what the chat template of a model makes of records; returns the exit status."""
    from functools import partial

    from mypt_lint.run.plan import planned
    from mypt_lint.run.resolve import resolved
    from mypt_train.data.formats.model import model_format
    from mypt_train.data.formats.options import Options
    from mypt_train.data.units import encoder_of
    from mypt_view.items import rendered

    for name in ("dialect", "vocab", "system", "layout"):
        if getattr(options, name) not in (None, AUTO):
            raise UsageError(f"--{name} cannot be used with --model, which names no dialect")
    plan = planned(options, usual=DEFAULTS)
    chosen_options = template_options(options)
    model = model_format(options.model, chosen_options).model
    model.report(saying(PROG, quiet=False))
    plan.by_model = model.read
    resolution = resolved(plan, source, lambda _: None)
    chosen = Options(
        model=options.model,
        pack=False,
        mask=options.mask_name,
        history=options.history or "keep",
        template_options=chosen_options,
    )
    encoder = encoder_of(chosen, resolution.settings)
    items = _items(encoder.checker, resolution.source, "record", line, "", options)
    counting = resolution.settings.counting
    return _show(map(partial(rendered, encoder), items), source.path, counting, options)


def _count(options: argparse.Namespace) -> int | None:
    return None if options.all else options.number or 1


def _show(
    items: Iterator[Item], path: str, counting: Sequence[str], options: argparse.Namespace
) -> int:
    """Shows items as the options say; returns the exit status.

    Findings of the severities `counting` decide it.
    """
    status = CLEAN

    def watch_status() -> Iterator[Item]:
        nonlocal status
        for item in items:
            if any(f.severity in counting for f in item.findings):
                status = FINDINGS
            yield item

    if options.html is not None:
        _page(watch_status(), path, options)
    elif options.view == "text":
        _text(watch_status(), options.layout)
    else:
        _terminal(watch_status(), options.view or "chat")
    return status


def _source(path: str) -> Source:
    from mypt_cli.jsonl.paths import expand

    if path != "-" and os.path.isdir(path):
        raise UsageError(f"{path}: is a folder; name a file in it")
    sources = expand([path])
    if len(sources) > 1:
        raise UsageError(f"{path}: matches {len(sources)} files; name one of them")
    return sources[0]


def _checker(
    source: Source, options: argparse.Namespace
) -> tuple[Checker, str, Source, str, tuple[str, ...]]:
    """Returns (checker, kind, source, doubt, counting) by the settings of the file.

    The source is to be read from now on, because a pipe can be read only once; `doubt` is about the
    dialect; findings of the severities `counting` fail.
    """
    from mypt_lint.check.detect import candidates, detect
    from mypt_lint.check.from_settings import checker, hidden
    from mypt_lint.run.plan import planned
    from mypt_lint.run.resolve import resolved
    from mypt_lint.run.shape import format_of_texts
    from mypt_records.names import TEXTS

    plan = planned(options, usual=DEFAULTS)
    settings = plan.of(source.path)
    kind = "text" if settings["kind"] == "text" else "record"
    if kind == "text" and (settings["dialect"] == AUTO or settings.origin("dialect") == "default"):
        guess = detect(source, kind, candidates(DEFAULTS["dialect"], kind), hidden(settings))
        doubt = f"{guess.dialect.name} is assumed: it does not begin with a tag of any dialect"
        doubt = "" if guess.sure else f"{doubt}; choose with --dialect"
        return checker(settings, guess.dialect), kind, guess.source, doubt, settings.counting
    doubts: list[str] = []
    resolution = resolved(plan, source, doubts.append)
    if resolution.formatless and resolution.settings["records"] == TEXTS:
        name, doubt, source = format_of_texts(resolution.source)
        doubts += [doubt] * bool(doubt)
        resolution = resolution._replace(
            dialect=name or resolution.dialect, source=source, formatless=False
        )
    judge = resolution.checker(options.vocab)
    return judge, kind, resolution.source, "; ".join(doubts), resolution.settings.counting


def _items(
    checker: Checker,
    source: Source,
    kind: str,
    line: int | None,
    doubt: str,
    options: argparse.Namespace,
) -> Iterator[Item]:
    from mypt_view.items import first, read_items

    for at, item in enumerate(first(read_items(checker, source, kind, line), _count(options))):
        if at == 0 and line is not None and not item.raw.strip():
            raise UsageError(f"{source.path}:{line}: the line is empty, there is nothing to show")
        if at == 0 and doubt and not options.quiet:
            print(f"mypt-view: {doubt}", file=sys.stderr)
        yield item


def _shard_items(folder: str, number: int) -> Iterator[Item]:
    """Yields the episodes of a prepared folder from `number` on.

    Episodes are counted from 1 through all shards, train before val. Raises UsageError for a folder
    that is no data set, or has no such episode.
    """
    from mypt_train.data.reader import ShardReader
    from mypt_train.data.shard import ShardError
    from mypt_train.data.verify import episodes
    from mypt_view.items import Item, encoded, masked

    try:
        reader = ShardReader(folder)
        dialect, splits = reader.dialect, reader.manifest["splits"]
        total = sum(split["episodes"] for split in splits.values())
        if number > total:
            raise UsageError(
                f"{folder}:{number}: there is no episode {number}; the data set has {total}"
            )
        at, weighed = 0, "weighed" in reader.manifest
        for shard in (s for split in splits for s in reader.shards(split, check=False)):
            if at + len(shard.index) < number:
                at += len(shard.index)
                continue
            for item in episodes(dialect, shard, reader.mask, weighed=weighed):
                at += 1
                if at >= number:
                    segments, lacks = encoded(dialect, item.episode, reader.mask)
                    label = f"{folder}:{at} ({shard.name}, episode {item.number})"
                    raw = "ids" if item.episode else dialect.tokenizer.decode(item.ids)
                    text = None
                    if not dialect.table.terminals:
                        mask = shard.mask[item.start : item.start + len(item.ids)]
                        segments, text = masked(dialect, item.ids, mask), raw
                    shown = label, dialect, item.episode, segments, item.findings, raw
                    yield Item(*shown, text=text, lacks=lacks)
    except ShardError as error:
        raise UsageError(str(error)) from None


def _terminal(items: Iterator[Item], view: str) -> None:
    from mypt_lint.report.outputs import utf8
    from mypt_view.terminal import Terminal

    terminal = Terminal(utf8(sys.stdout))
    for at, item in enumerate(items):
        if at:
            print()
        terminal.show(item, view)


def _text(items: Iterator[Item], layout: str | None) -> None:
    """Prints the texts alone on stdout; on a terminal made visible, elsewhere byte for byte.

    All else goes to stderr.
    """
    from mypt_cli.terminal import Display
    from mypt_lint.report.outputs import utf8
    from mypt_view.terminal import Terminal

    notes = Terminal(sys.stderr)
    display = Display(utf8(sys.stdout))
    for item in items:
        text = None if item.text is None or layout is not None else item.text
        if text is None and item.segments is not None and item.episode is not None:
            first = next(iter(item.dialect.table.layouts))
            try:
                text = item.dialect.serialize(item.episode, layout=layout or first)
            except ValueError as error:  # it has ids, as a content that spells a tag of one id
                item = item._replace(lacks=str(error))
        notes.note(item, lacks="" if text is not None else "text")
        if text is not None:
            print(display.line(text, keep="\n\t") if sys.stdout.isatty() else text)


def _page(items: Iterator[Item], source: str, options: argparse.Namespace) -> None:
    from mypt_cli.jsonl.output import Output
    from mypt_cli.words import counted
    from mypt_view.page import collect, page

    collection, path = collect(items), options.html
    with Output(path, [source]) as output:
        output.write_bytes(page(collection, source))
    if path != "-" and not options.quiet:
        episodes = counted(len(collection.rows), "episode")
        print(f"mypt-view: wrote {path}: {episodes} of {source}", file=sys.stderr)


main = Command(PROG, __file__, _options, _run, quiet="no doubt about the format, no summary")

if __name__ == "__main__":
    sys.exit(main())
