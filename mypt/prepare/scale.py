"""Runs the subcommands of `mypt-prepare` for several machines: plan, run, status, resume, commit.

Reports go to stdout, progress to stderr.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mypt.prepare.options import DONE, REFUSED, add_inputs, add_output, request_of, summary
from mypt_cli.command import Command
from mypt_cli.errors import UsageError
from mypt_cli.parser import Parser, not_negative, positive
from mypt_cli.run import saying
from mypt_cli.words import counted
from mypt_lint.settings.options import add_settings
from mypt_train.scale.launch import LAUNCHERS
from mypt_train.scale.planning import GROUP, UNIT

if TYPE_CHECKING:
    from mypt_train.scale.planning.plan import Plan

PROG = "mypt-prepare "
_EPILOG = """\
examples:
  mypt-prepare plan data/*.jsonl.zst --out sft          writes sft/plan.json
  mypt-prepare run --plan sft/plan.json --units 0-99    on any machine, in any order
  mypt-prepare status --plan sft/plan.json
  mypt-prepare resume --plan sft/plan.json --jobs 4     what is still missing
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
    add(
        "--group-size SIZE",
        f"input whose episodes are packed into rows together (default: {GROUP >> 30}G)",
        type=_bytes,
        default=GROUP,
    )
    add_settings(out)


def _of_a_plan(out: Parser) -> None:
    out.group("input")("--plan FILE", "the plan, or its folder or URL", required=True)


def _again(out: Parser) -> None:
    out.group("what is made")("--again", "try units again that were set aside after three failures")
    _launched(out)


def _launched(out: Parser) -> None:
    """Adds by whom the work is done."""
    add = out.group("by whom")
    add(
        "--launcher NAME",
        "local runs processes here (default); shell prints the commands that others run",
        choices=LAUNCHERS,
        default="local",
    )
    add(
        "-j --jobs N",
        "local processes at a time (default: 1), or commands of shell (default: one a unit)",
        type=positive,
    )


def _running(out: Parser) -> None:
    _of_a_plan(out)
    add = out.group("what is made")
    add("--units LIST", "numbers of units: 7, 0-99, 3,8-10 (default: all)", type=_numbers)
    _again(out)


def _resuming(out: Parser) -> None:
    _of_a_plan(out)
    _again(out)


def _committing(out: Parser) -> None:
    _of_a_plan(out)
    add = out.group("what is made")
    add(
        "--max-failed-units N",
        "units that may be missing because they are set aside; the manifest names them",
        type=not_negative,
        default=0,
    )
    add(
        "--tasks LIST",
        "only some tasks of packing, as the commands of shell run them, and no manifest",
        type=_numbers,
    )
    _launched(out)


def _plan(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.overview import indivisible, overview
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
            group=chosen.group_size,
            progress=bar.at,
        )
    path = write_plan(plan)
    for line in indivisible(plan, chosen.unit_size):
        say(line)
    if not chosen.quiet:
        print(f"{path}: {overview(plan)}")
        print(f"  next: mypt-prepare run --plan {path} --units 0-{len(plan.units) - 1}")
    return DONE


def _run(chosen: argparse.Namespace) -> int:
    plan = _load(chosen.plan)
    units = range(len(plan.units)) if chosen.units is None else chosen.units
    beyond = [n for n in units if n >= len(plan.units)]
    if beyond:
        raise UsageError(
            f"unit {beyond[0]}: the plan has units 0 to {len(plan.units) - 1}; name some of these"
        )
    if _is_committed(plan, chosen, "make"):
        return DONE
    return _make(plan, chosen, units)


def _resume(chosen: argparse.Namespace) -> int:
    from mypt_train.scale.state import status_of

    plan = _load(chosen.plan)
    if _is_committed(plan, chosen, "resume"):
        return DONE
    status = status_of(plan)
    aside = [] if chosen.again else sorted(status.aside)
    done = _make(plan, chosen, status.missing + sorted(set(status.aside) - set(aside)))
    if aside:
        say = saying(PROG + "resume", quiet=chosen.quiet)
        say(
            f"{counted(len(aside), 'unit')} set aside before; --again tries again, and "
            "mypt-prepare status shows why"
        )
    return REFUSED if aside else done


def _is_committed(plan: Plan, chosen: argparse.Namespace, work: str) -> bool:
    """Returns whether a plan is committed; says then that nothing is left to `work`."""
    from mypt_cli.jsonl.names import MANIFEST

    committed = plan.store().exists(MANIFEST)
    if committed and not chosen.quiet:
        print(f"{plan.display_name}: is committed; nothing to {work}")
    return committed


def _make(plan: Plan, chosen: argparse.Namespace, units: Sequence[int]) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.drive import drive

    if chosen.launcher == "shell" and units:
        _print_commands(chosen, "run --again" if chosen.again else "run", "units", [units])
        return DONE
    say = saying(PROG + "run", quiet=chosen.quiet)
    with Bar(len(units), unit="units", quiet=chosen.quiet) as bar:
        outcome = drive(
            plan,
            chosen.plan,
            units,
            jobs=chosen.jobs or 1,
            again=chosen.again,
            say=say,
            progress=bar.at,
        )
    if not chosen.quiet:
        print(f"{plan.display_name}: {outcome.summary()}")
    return REFUSED if outcome.aside else DONE


def _status(chosen: argparse.Namespace) -> int:
    from mypt_train.scale.state import status_of

    plan = _load(chosen.plan)
    status = status_of(plan)
    for line in status.lines(plan):
        print(line)
    return DONE if status.committed or not (status.missing or status.aside) else REFUSED


def _commit(chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.commit import commit
    from mypt_train.scale.launch.local import Local

    say = saying(PROG + "commit", quiet=chosen.quiet)
    plan = _load(chosen.plan)
    if chosen.tasks is not None or chosen.launcher == "shell":
        return _tasks(plan, chosen)
    jobs = chosen.jobs or 1
    with Bar(0, unit="done", quiet=chosen.quiet) as bar:
        result = commit(
            plan,
            max_failed=chosen.max_failed_units,
            path=chosen.plan,
            engine=(lambda do: Local(do, jobs)) if jobs > 1 else None,
            progress=bar.show,
        )
    if not result.first:
        say(f"{plan.display_name}: was committed before, by the same plan; nothing was done")
    if not chosen.quiet:
        summary(result.manifest, plan.display_name, plan.options, say)
        missing = [entry["unit"] for entry in result.manifest["plan"]["missing"]]
        if missing:
            which = f"unit{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
            print(f"  missing: {which}; the manifest says what they hold")
    return REFUSED if result.manifest["lines"]["refused"] else DONE


def _tasks(plan: Plan, chosen: argparse.Namespace) -> int:
    from mypt_cli.progress import Bar
    from mypt_train.scale.stages import make_task, stages
    from mypt_train.scale.state import seal

    if _is_committed(plan, chosen, "do"):
        return DONE
    sealed = seal(plan, max_failed=chosen.max_failed_units)
    if chosen.tasks is None:
        work = [stage.tasks for stage in stages(plan, sealed)]
        _print_commands(chosen, "commit", "tasks", work)
        return DONE
    outcomes: list[bool] = []
    with Bar(len(chosen.tasks), unit="tasks", quiet=chosen.quiet) as bar:
        for number in chosen.tasks:
            outcomes.append(make_task(plan, sealed, number, bar.at))
            bar.at(1)
            bar.next()
    if not chosen.quiet:
        before = f", {len(outcomes) - sum(outcomes)} were done before" if not all(outcomes) else ""
        print(f"{plan.display_name}: {counted(sum(outcomes), 'task')} done{before}")
    return DONE


def _print_commands(
    chosen: argparse.Namespace, command: str, option: str, stages: Sequence[Sequence[int]]
) -> None:
    """Prints commands for a shell, by stages: each has the numbers of its option."""
    from mypt_train.scale.launch import commands

    words = f"mypt-prepare {command} --plan {shlex.quote(chosen.plan)} --{option}"
    for number, numbers in enumerate(stages):
        if number:
            print("# when all of these are done:")
        for line in commands(words, numbers, chosen.jobs or len(numbers), os.getcwd()):
            print(line)


def _load(path: str) -> Plan:
    from mypt_train.scale.planning.plan import read_plan

    return read_plan(path)


_COMMANDS = {
    "plan": (
        "List inputs once, and cut them into units that any machine can make.",
        _planning,
        _plan,
    ),
    "run": ("Make units of a plan; those that are there are left as they are.", _running, _run),
    "status": ("Say how far a plan is.", _of_a_plan, _status),
    "resume": ("Make all units of a plan that are missing.", _resuming, _resume),
    "commit": ("Make the data set of the units of a plan, once.", _committing, _commit),
}
ABOUT = {name: about for name, (about, _, _) in _COMMANDS.items()}


def subcommand(name: str) -> Command:
    about, options, body = _COMMANDS[name]
    note = "interrupted; what is made is kept"
    return Command(
        PROG + name, about, _EPILOG, options, body, errors=(ValueError,), interrupted=note
    )
