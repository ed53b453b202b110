"""Hands numbered work to the launcher that a user has chosen.

Input: the name of a launcher, and stages of work: commands that numbers follow, and the numbers.
Output: an engine that runs the work while this process waits, or lines that say what was handed to
whom: a job of Slurm, or commands for a shell.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from mypt_cli.words import counted
from mypt_train.scale.launch import slurm
from mypt_train.scale.launch.blocks import blocks, ranges
from mypt_train.scale.launch.local import Local
from mypt_train.scale.launch.queue import MakeEngine
from mypt_train.scale.launch.ray import Ray

Stage = tuple[str, Sequence[int]]
"""A command that numbers of units or tasks follow, and the numbers."""


def engine_of(launcher: str, jobs: int) -> MakeEngine:
    """Returns what makes an engine of `jobs` processes, of 0 as many as there are processors."""
    if launcher == "ray":
        return lambda do: Ray(do, jobs)
    return lambda do: Local(do, jobs or os.cpu_count() or 1)


def handed(launcher: str, stages: Sequence[Stage], jobs: int, name: str) -> Iterator[str]:
    """Hands stages of work on, each to begin after those before it; yields what to tell the user.

    `jobs` is the number of commands, or of tasks that run at a time; 0 is no limit. `name` is
    that of scripts, without its ending. Raises UsageError where Slurm refuses.
    """
    job = ""
    for number, (command, units) in enumerate(stages):
        if launcher == "shell":
            if number:
                yield "# when all of these are done:"
            yield from commands(command, units, jobs or len(units), os.getcwd())
            continue
        path = Path(f"{name}-{number}.sbatch" if number else f"{name}.sbatch")
        job = slurm.submit(command, units, path, jobs=jobs, after=job)
        which = f"{units[0]} to {units[-1]}" if len(units) > 1 else f"{units[0]}"
        kind = command.rpartition("--")[2].removesuffix("s")
        yield f"job {job}: {path}, {counted(len(units), kind)}: {which}"


def commands(command: str, units: Sequence[int], jobs: int, folder: str = "") -> Iterator[str]:
    """Yields `jobs` commands that run all units together, or one for each unit if that is fewer.

    `command` is what the numbers of units follow. The commands run in `folder`, if one is named.
    """
    where = f"cd {shlex.quote(folder)} && " if folder else ""
    for block in blocks(units, jobs):
        yield f"{where}{command} {ranges(block)}"
