"""Hands numbered work to Slurm or a shell.

Input: the name of a launcher, and stages of work: commands that numbers follow, and the numbers.
Output: lines that say what was handed to whom: a job of Slurm, or commands for a shell.

A script for Slurm is that of an array, and anyone may submit it again. Each of its tasks runs one
unit, or a block of them where there are more units than an array may have tasks. Where and how long
tasks run is for Slurm's own variables to say, such as SBATCH_PARTITION and SBATCH_TIMELIMIT.
"""

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_cli.words import counted
from mypt_train.scale.launch import blocks, ranges

Stage = tuple[str, Sequence[int]]
"""A command that numbers of units or tasks follow, and the numbers."""
# The most tasks of an array: MaxArraySize is 1001 in Slurm as it comes.
MOST = 1000


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
        job = submit(command, units, path, jobs=jobs, after=job)
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


def script(command: str, units: Sequence[int], jobs: int) -> str:
    """Returns a script of which at most `jobs` tasks run at a time; 0 is no limit.

    `command` is what the numbers of units follow.
    """
    if len(units) <= MOST and max(units) <= MOST:
        array, run = ranges(units), f'{command} "$SLURM_ARRAY_TASK_ID"'
    else:
        several = blocks(units, MOST)
        array = ranges(range(len(several)))
        cases = (f"{n}) units={ranges(block)} ;;" for n, block in enumerate(several))
        run = "\n".join(['case "$SLURM_ARRAY_TASK_ID" in', *cases, "esac", f'{command} "$units"'])
    limit = f"%{jobs}" if jobs else ""
    return f"""#!/bin/sh
#SBATCH --job-name=mypt-prepare
#SBATCH --array={array}{limit}
#SBATCH --cpus-per-task=1
#SBATCH --requeue
set -eu
{run}
"""


def submit(
    command: str, units: Sequence[int], path: Path, *, jobs: int = 0, after: str = ""
) -> str:
    """Writes the script to `path` and submits it; returns the number of the job.

    The job waits until all of the job `after` is done, if one is named, and ends if that failed.
    Raises UsageError if there is no `sbatch` here, or if it refuses the script.
    """
    atomic.write(path, [script(command, units, jobs).encode()])
    waits = [f"--dependency=afterok:{after}", "--kill-on-invalid-dep=yes"] if after else []
    try:
        run = subprocess.run(
            ["sbatch", "--parsable", *waits, str(path)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise UsageError(
            f"there is no sbatch here; submit it where there is one: sbatch {path}"
        ) from None
    if run.returncode:
        raise UsageError(f"sbatch refuses {path}: {run.stderr.strip()}")
    return run.stdout.strip()
