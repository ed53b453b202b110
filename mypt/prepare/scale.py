"""Runs the subcommands of `mypt-prepare` for several machines: plan, run, status, commit.

Reports go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from mypt.prepare.options import DONE, REFUSED, add_inputs, add_output, request_of, summary
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.parser import Parser, positive
from mypt_cli.run import saying
from mypt_cli.words import counted
from mypt_lint.settings.options import add_settings
from mypt_train.scale.planning import UNIT

if TYPE_CHECKING:
    from mypt_train.scale.planning.plan import Plan

PROG = "mypt-prepare "
_EPILOG = """\
examples:
  mypt-prepare plan data/*.jsonl.zst --out sft          writes sft/plan.json
  mypt-prepare run --plan sft/plan.json --units 0-99    on any machine, in any order
  mypt-prepare run --plan sft/plan.json --jobs 4        what is still missing
  mypt-prepare status --plan sft/plan.json
  mypt-prepare commit --plan sft/plan.json

A unit has the same bytes whoever makes it, and however often. docs/toolcall_sft.md describes the
plan; docs/scale.md says how to use many machines.
Exit status: 0 done, 1 lines were refused or units are missing, 2 failure.
"""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)


def _bytes(text: str) -> int:
    """Reads a size: 256M, 4GB, 1000000. Letters count in powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; expected 1000000 or 256M")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def _numbers(text: str) -> list[int]:
    """Reads numbers of units: 7, 0-99, 3,5,8-10."""
    out: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r} are not units; expected 7, 0-99, or 3,8-10")
        begin, end = int(match[1]), int(match[2] or match[1])
        if end < begin:
            raise argparse.ArgumentTypeError(f"{part!r} ends before it begins")
        out += range(begin, end + 1)
    return list(dict.fromkeys(out))


def _planning(out: Parser) -> None:
    add_inputs(out)
    add_output(out, "where the data set goes: an empty folder, a new one, or a URL")
    add = out.group("plan")
    add("--unit-size SIZE", f"input of a unit (default: {UNIT >> 20}M)", type=_bytes, default=UNIT)
    add_settings(out)


def _of_a_plan(out: Parser) -> None:
    out.group("input")("--plan FILE", "the plan, or its folder or URL", required=True)


def _jobs(out: Parser) -> None:
    add = out.group("performance")
    add("-j --jobs N", "processes of this machine (default: 1)", type=positive, default=1)


def _running(out: Parser) -> None:
    _of_a_plan(out)
    add = out.group("what is made")
    add("--units LIST", "numbers of units: 7, 0-99, 3,8-10 (default: all)", type=_numbers)
    _jobs(out)


def _committing(out: Parser) -> None:
    _of_a_plan(out)
    _jobs(out)


def _plan(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.planning.plan import make_plan, write_plan

    say = saying(PROG + "plan", quiet=chosen.quiet)
    sources, rules, options = request_of(chosen, say)
    with Bar(sources, quiet=chosen.quiet) as bar:
        plan = make_plan(
            sources,
            rules,
            options,
            chosen.out,
            unit=chosen.unit_size,
            progress=bar.at,
        )
    path = write_plan(plan)
    if not chosen.quiet:
        inputs, units = counted(len(plan.inputs), "input"), counted(len(plan.units), "unit")
        print(f"{path}: {inputs}, {units} in {counted(plan.groups, 'group')}")
        print(f"  next: mypt-prepare run --plan {path} --units 0-{len(plan.units) - 1}")
    return DONE


def _run(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_cli.run import message_of
    from mypt_cli.store import StoreError
    from mypt_train.scale.processes import KilledError, outcomes
    from mypt_train.scale.run import make
    from mypt_train.scale.state import ranges

    plan = _load(chosen.plan)
    units = range(len(plan.units)) if chosen.units is None else chosen.units
    beyond = [n for n in units if n >= len(plan.units)]
    if beyond:
        raise UsageError(
            f"unit {beyond[0]}: the plan has units 0 to {len(plan.units) - 1}; name some of these"
        )
    counts, faults = Counter[bool](), dict[str, list[int]]()
    with Bar(len(units), unit="units", quiet=chosen.quiet) as bar:
        try:
            for done, (unit, outcome) in enumerate(
                outcomes(plan, partial(make, plan), units, chosen.jobs), 1
            ):
                bar.at(done)
                if isinstance(outcome, UsageError | StoreError | OSError):
                    faults.setdefault(message_of(outcome), []).append(unit)
                elif isinstance(outcome, Exception):
                    raise outcome
                else:
                    counts[outcome] += 1
        except KilledError as error:
            raise UsageError(f"{error}; go on with the same command, with fewer --jobs") from None
    say = saying(PROG + "run", quiet=chosen.quiet)
    for message, numbers in faults.items():  # the others are made
        say(f"unit{'s' * (len(numbers) > 1)} {ranges(numbers)}: {message}")
    if not chosen.quiet:
        before = f", {counts[False]} there before" if counts[False] else ""
        failed = f", {sum(map(len, faults.values()))} failed" if faults else ""
        made = counted(counts[True], "unit")
        print(f"{plan.display_name}: {made} made{before}{failed}")
    return REFUSED if faults else DONE


def _status(chosen: argparse.Namespace) -> int:
    from mypt_cli.jsonl.names import MANIFEST, PLAN
    from mypt_train.scale.state import missing_units, ranges

    plan = _load(chosen.plan)
    store, number = plan.store(), len(plan.units)
    if store.exists(MANIFEST):
        print(f"{plan.display_name}: is committed")
        return DONE
    missing = missing_units(plan)
    print(f"{plan.display_name}: {number - len(missing)} of {number} units are made")
    if missing:
        print(f"  missing: {ranges(missing)}")
    print(f"  next: mypt-prepare {'run' if missing else 'commit'} --plan {store.name(PLAN)}")
    return REFUSED if missing else DONE


def _commit(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.commit import commit

    say = saying(PROG + "commit", quiet=chosen.quiet)
    plan = _load(chosen.plan)
    with Bar(0, unit="done", quiet=chosen.quiet) as bar:
        result = commit(plan, jobs=chosen.jobs, progress=bar.show)
    if not result.first:
        say(f"{plan.display_name}: was committed before, by the same plan; nothing was done")
    if not chosen.quiet:
        summary(result.manifest, plan.display_name, plan.options, say)
    return REFUSED if result.manifest["lines"]["refused"] else DONE


def _load(path: str) -> Plan:
    from mypt_train.scale.planning.plan import read_plan

    return read_plan(path)


_COMMANDS = {
    "plan": (
        "List inputs once, and cut them into units that any machine can make.",
        _planning,
        _plan,
    ),
    "run": ("Make the units of a plan that are missing, all or some.", _running, _run),
    "status": ("Say how far a plan is.", _of_a_plan, _status),
    "commit": ("Make the data set of the units of a plan, once.", _committing, _commit),
}
ABOUT = {name: about for name, (about, _, _) in _COMMANDS.items()}


def subcommand(name: str) -> Command:
    about, options, body = _COMMANDS[name]
    note = "interrupted; what is made is kept"
    return Command(
        PROG + name, about, _EPILOG, options, body, errors=(ValueError,), interrupted=note
    )
