"""Writes an array script for Slurm and submits it.

Input: a plan and numbers of units. Output: a script that anyone may submit again, and what `sbatch`
said. Each task of the array runs one unit, or a block of them where there are more units than an
array may have tasks. Where and how long tasks run is for Slurm's own variables to say, such as
SBATCH_PARTITION and SBATCH_TIMELIMIT.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_train.scale.launch.blocks import blocks, ranges

# The most tasks of an array: MaxArraySize is 1001 in Slurm as it comes.
MOST = 1000


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
