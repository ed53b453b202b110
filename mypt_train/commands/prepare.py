"""Runs `mypt-prepare`: JSONL becomes training shards.

The summary goes to stdout, progress to stderr. Subcommands for several machines are in `scale`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.parser import Parser
from mypt_cli.run import saying
from mypt_cli.words import counted
from mypt_lint.options import add_dialect, add_ignore, add_records, add_settings, add_system
from mypt_train.data.formats import FORMATS, trainer_of

if TYPE_CHECKING:
    from mypt_cli.jsonl.blocks import Source
    from mypt_lint.settings.settings import Settings
    from mypt_train.data.options import Options

DONE, REFUSED = 0, 1
GPT2 = "gpt2"  # for --vocab: the vocabulary of formats that name none

PROG = "mypt-prepare"
EPILOG = """\
examples:
  mypt-prepare data/*.jsonl --out sft --context-length 2048 --val-fraction 0.01
  mypt-prepare data/ --out sft --on-error reject --long split-turns --jobs 4
  mypt-prepare 's3://logs/*.jsonl.zst' --out sft           objects, by the extra store
  mypt-prepare sharegpt.json --dialect gabgpt --out sft    records of other tools
  mypt-prepare data/ --out sft --vocab small.tiktoken      on another vocabulary
  mypt-prepare data/ --out rows --format trl               rows for TRL's SFTTrainer
  mypt-prepare data/ --out sft --resume                    go on after a kill, with the same options

For several machines and stores: mypt-prepare plan, run, status, resume, commit (each has --help).
A file of such a name is written ./plan.

Every line is written, refused (rejects.jsonl says why), too long or a duplicate, and the sums add
up. docs/toolcall_sft.md describes the files byte by byte.
Exit status: 0 done, 1 lines were refused, 2 failure.
"""


def _options(out: Parser) -> None:
    add_inputs(out)
    add_output(out, "an empty folder, or a new one")
    add = out.group("output")
    add("--resume", "go on with what a run that was stopped has left")
    add_settings(out)
    add = out.group("performance")
    add(
        "-j --jobs N",
        "processes; 0 is one a core (default)",
        dest="workers",
        type=int,
        default=0,
        old=["--workers"],
    )


def add_inputs(out: Parser) -> None:
    """Adds what is read, and what becomes of it."""
    add = out.group("input")
    add("PATH", "files, folders and patterns; .gz and .zst too", dest="paths", nargs="+")
    add_dialect(add)
    add_records(add)
    add_system(add)
    add = out.group("what is checked")
    add("--phase N", "refuse what the curriculum has not introduced by phase N", type=int)
    add_ignore(add)
    add(
        "--on-error",
        "when a line is refused: make no data set, or go on without it",
        choices=("fail", "reject"),
        default="fail",
    )
    add = out.group("tokens and rows")
    add(
        "--vocab PATH",
        "a vocabulary in the place of GPT-2's: ranks as tiktoken writes them, tokenizer.json, "
        "tekken.json, or a folder with one of these; formats of models need it, or gpt2",
        dest="vocabulary",
    )
    add("--context-length N", "tokens of a row", type=int, default=2048)
    add(
        "--pack",
        "whole episodes side by side in rows (default: yes, but no for trl and axolotl)",
        action=argparse.BooleanOptionalAction,
        default=None,
    )
    add(
        "--mask NAME",
        "what is trained: model (default), trl or all-assistant, and last or no-think, which may "
        "be added: trl+last",
        default="model",
    )
    add(
        "--history",
        "what becomes of thoughts of earlier turns: keep all (default); official, as the chat "
        "template writes a conversation; per-turn, as it writes each turn, in its own episode "
        "that trains this turn alone",
        choices=("keep", "official", "per-turn"),
        default="keep",
    )
    add(
        "--long",
        "what becomes of episodes that no row can hold",
        choices=("error", "drop", "split-turns"),
        default="error",
    )
    add("--dedup", "leave out episodes that were there before")
    add("--preferences", "keep rejected answers and labels, for DPO, ORPO and KTO")
    add(
        "--val-fraction F",
        "share of the episodes, by their hash, for val (default: 0.0)",
        type=float,
        default=0.0,
    )
    add("--seed SEED", "of the order of rows (default: 0)", type=int, default=0)


def add_output(out: Parser, where: str) -> None:
    """Adds where the data set goes, and its format."""
    add = out.group("output")
    add("-o --out DIR", where, required=True)
    add(
        "--tokens-per-shard N",
        "tokens of a shard (default: 10_000_000)",
        type=int,
        default=10_000_000,
    )
    add(
        "--format",
        "of the shards (default: %(default)s); trl and axolotl are rows of JSONL for these "
        "trainers; parquet needs pyarrow",
        choices=FORMATS,
        default="bin",
    )


class Asked(NamedTuple):
    """What a command line asks for: sources with the settings of each, and options."""

    sources: list[Source]
    rules: list[Settings]
    options: Options


def asked(chosen: argparse.Namespace, say: Callable[[str], None]) -> Asked:
    """Returns what a command line asks for; `say` is told what is found out. Raises UsageError."""
    from mypt_cli.progress import waiting
    from mypt_lint.run.plan import checker, planned
    from mypt_records.names import NAMES, TEXTS
    from mypt_train.data.options import Options

    plan = planned(chosen)
    pack = not trainer_of(chosen.format) if chosen.pack is None else chosen.pack
    names = (
        "context_length",
        "val_fraction",
        "tokens_per_shard",
        "seed",
        "long",
        "on_error",
        "dedup",
        "format",
        "vocabulary",
        "preferences",
        "mask",
        "history",
    )
    with waiting("listing inputs", quiet=chosen.quiet):
        found = sorted(plan.files(chosen.paths, say=say), key=lambda source: source.path)
        dialect, rules, sources = plan.one_dialect(found, say, what="a data set")
    for source, own in zip(sources, rules, strict=True):
        shape = own["records"]
        if shape in NAMES and shape != TEXTS and own.origin("dialect") == "default":
            raise UsageError(
                f"{source.path}: records of the shape {shape} can be prepared in several formats: "
                f"name one with --dialect, such as {dialect.name}"
            )
    models = dialect.table.models if dialect.vocabulary is None else ""
    if models and chosen.vocabulary is None:
        raise UsageError(
            f"{dialect.name}: token ids of {models} need the vocabulary of the model: add --vocab "
            "with its folder or tokenizer.json; --vocab gpt2 makes ids of GPT-2, for a new model"
        )
    values = {name: getattr(chosen, name) for name in names}
    if values["vocabulary"] == GPT2:
        values["vocabulary"] = None
    options = Options(dialect=dialect.spec, phase=plan.top["phase"], pack=pack, **values)
    for own in dict.fromkeys(rules):
        checker(own, options.loaded_dialect)  # raises for bad settings, before anything is written
    return Asked(sources, rules, options)


def _run(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.data.prepare import prepare

    workers = chosen.workers or os.cpu_count() or 1
    _refuse_url(chosen.out, workers)
    say = saying(PROG, quiet=chosen.quiet)
    sources, rules, options = asked(chosen, say)
    with Bar(sources, quiet=chosen.quiet) as bar:
        manifest = prepare(
            sources,
            Path(chosen.out),
            options,
            rules=rules,
            workers=workers,
            resume=chosen.resume,
            progress=bar.show,
        )
    if not chosen.quiet:
        summary(manifest, chosen.out, options, say)
    return REFUSED if manifest["lines"]["refused"] else DONE


def _refuse_url(out: str, workers: int) -> None:
    """Raises UsageError for a data set that is to be made in a store, and says what makes it."""
    from mypt_cli.store import is_url, redacted
    from mypt_train.scale.plan import refuse_web_server

    if is_url(out):
        refuse_web_server(out)
        shown = redacted(out)
        plan = shlex.quote(shown)
        raise UsageError(
            f"{shown}: a data set in a store is made by a plan; plan it with the same words after "
            "mypt-prepare plan, but without --jobs and --resume, then\n"
            f"  mypt-prepare resume --plan {plan} --jobs {workers}\n"
            f"  mypt-prepare commit --plan {plan}"
        )


def summary(
    manifest: dict[str, Any], out: str, options: Options, say: Callable[[str], None]
) -> None:
    """Prints what a data set holds."""
    from mypt_train.data.histories import said

    lines = manifest["lines"]
    print(
        f"{out}: {counted(lines['lines'], 'line')}: {lines['written']} written, "
        f"{lines['refused']} refused, {lines['long']} too long, {lines['duplicate']} duplicate"
    )
    for name, split in manifest["splits"].items():
        if split["episodes"]:
            padding = 1 - split["episode_tokens"] / split["tokens"]
            print(
                f"  {name}: {counted(split['episodes'], 'episode')} in "
                f"{counted(split['rows'], 'row')}, {counted(len(split['shards']), 'shard')}, "
                f"{counted(split['tokens'], 'token')}, "
                f"{split['trained_tokens']} trained, {padding:.2%} padding"
            )

    from mypt_spec.findings import RULES

    for code, count in manifest.get("warnings", {}).items():
        say(f"{code} {RULES[code].name}: {counted(count, 'warning')} in lines that were written")
    for line in said(options, manifest):
        say(line)


def _subcommand(words: Sequence[str]) -> int | None:
    """Runs what the first word names; returns its exit status, or None where it names nothing.

    A file of such a name is read as ./plan.
    """
    from mypt_train.commands.scale import ABOUT, subcommand

    first = words[0] if words else ""
    return subcommand(first)(words[1:]) if first in ABOUT else None


main = Command(
    PROG,
    "Make training shards with exact loss masks from checked JSONL.",
    EPILOG,
    _options,
    _run,
    before=_subcommand,
    errors=(ValueError,),
    interrupted="interrupted; go on with --resume",
)

if __name__ == "__main__":
    sys.exit(main())
