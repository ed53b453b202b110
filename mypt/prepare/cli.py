"""Runs `mypt-prepare`: JSONL becomes training shards.

The summary goes to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypt.options import options
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.run import saying
from mypt_cli.words import counted
from mypt_lint.settings.options import template_options
from mypt_records.names import AUTO
from mypt_train.data.formats import FORMATS, trainer_of

if TYPE_CHECKING:
    from mypt_cli.jsonl.blocks import Source
    from mypt_lint.settings.settings import Settings
    from mypt_train.data.formats.options import Options

DONE, REFUSED = 0, 1
GPT2 = "gpt2"  # for --vocab: the vocabulary of formats that name none

PROG = "mypt-prepare"


def _run(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.prepare import prepare

    workers = chosen.workers or os.cpu_count() or 1
    _refuse_url(chosen.out)
    say = saying(PROG, quiet=chosen.quiet)
    sources, rules, options = _request_of(chosen, say)
    with Bar(sources, quiet=chosen.quiet) as bar:
        manifest = prepare(
            sources, Path(chosen.out), options, rules=rules, workers=workers, resume=chosen.resume,
            progress=bar.show,
        )  # fmt: skip
    if not chosen.quiet:
        _print_summary(manifest, chosen.out, options, say)
    return REFUSED if manifest["lines"]["refused"] else DONE


def _refuse_url(out: str) -> None:
    """Raises UsageError for a data set that is to be written into a store."""
    from mypt_cli.store import is_url, redacted

    if is_url(out):
        raise UsageError(
            f"--out is {redacted(out)}, expected a folder; write the data set into a local folder, "
            "and copy it with the client of the store"
        )


def _request_of(
    chosen: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Source], list[Settings], Options]:
    """Returns the sources that a command line asks for, the settings of each, and the options.

    `say` is told what is detected. Raises UsageError.
    """
    from mypt_cli.progress import waiting
    from mypt_lint.check.from_settings import checker
    from mypt_lint.run.plan import planned
    from mypt_lint.run.resolve import one_dialect, resolved
    from mypt_records.names import NAMES, TEXTS
    from mypt_train.data.formats.model import model_format
    from mypt_train.data.formats.options import Options

    plan = planned(chosen)
    pack = not trainer_of(chosen.format) if chosen.pack is None else chosen.pack
    with waiting("listing inputs", quiet=chosen.quiet):
        inputs = sorted(plan.files(chosen.paths, say=say), key=lambda source: source.path)
        values = {f.name: getattr(chosen, f.name) for f in fields(Options)} | {"pack": pack}
        values["template_options"] = template_options(chosen)
        if chosen.model is not None:
            for name, value in (("dialect", values.pop("dialect")), ("system", chosen.system)):
                if value not in (None, AUTO):
                    raise UsageError(
                        f"--{name} cannot be used with --model, which names no dialect"
                    )
            options = Options(**values | {"history": chosen.history or "keep"})
            model = model_format(chosen.model, options.template_options).model
            model.report(say)
            if not chosen.quiet:
                from mypt_lint.derive.of_model import report_family

                report_family(model, say)
            plan.by_model = model.read
            say(f"the chat template writes {model.thoughts}")
            results = [resolved(plan, source, say) for source in inputs]
            if any(result.settings["records"] == "preference" for result in results):
                hint = "for pairs, name a --dialect that keeps them, with --preferences"
                say(f"rejected answers are not trained, only the chosen ones; {hint}")
            return [x.source for x in results], [x.settings for x in results], options
        dialect, rules, sources = one_dialect(plan, inputs, say, what="a data set")
    for source, rule in zip(sources, rules, strict=True):
        shape = rule["records"]
        if shape in NAMES and shape != TEXTS and rule.origin("dialect") == "default":
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
    values |= {"dialect": dialect.spec, "phase": plan.top["phase"]}
    if chosen.history is None:
        values["history"] = "official" if dialect.table.history.drops else "keep"
        if dialect.table.history.drops:
            say(
                f"history official, as the template of {dialect.name} writes earlier turns; "
                "--history keep or per-turn trains all thoughts"
            )
    options = Options(**values | ({"vocabulary": None} if chosen.vocabulary == GPT2 else {}))
    loaded = options.loaded_dialect
    if loaded.vocabulary is not None and (new := sorted(loaded.new_tags)):
        rest = f"embeddings of {loaded.tokenizer.vocab_size} rows"
        say(f"not in the vocabulary: {', '.join(new)}; mypt-train adds them, others need {rest}")
    for rule in dict.fromkeys(rules):
        checker(rule, loaded)  # raises for bad settings, before anything is written
    return sources, rules, options


def _print_summary(
    manifest: dict[str, Any], out: str, options: Options, say: Callable[[str], None]
) -> None:
    """Prints what a data set holds."""
    from mypt_spec.findings import RULES
    from mypt_train.data.templates.histories import report_lines

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
    for code, count in manifest.get("warnings", {}).items():
        say(f"{code} {RULES[code].name}: {counted(count, 'warning')} in lines that were written")
    for line in report_lines(options, manifest):
        say(line)


main = Command(
    PROG,
    __file__,
    options(__file__, formats=FORMATS),
    _run,
    errors=(ValueError,),
    interrupted="interrupted; go on with --resume",
)

if __name__ == "__main__":
    sys.exit(main())
