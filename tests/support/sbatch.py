#!/usr/bin/env python3
"""A stand-in for Slurm's `sbatch`: runs each task of an array here, one after another.

It reads --array of the script, in the form that Slurm documents, and prints the number of the job.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys


def main() -> int:
    *options, script = sys.argv[1:]
    with open(script, encoding="utf-8") as lines:
        found = [re.fullmatch(r"#SBATCH --array=([\d,-]+)(?:%\d+)?\n", line) for line in lines]
    (array,) = [match[1] for match in found if match]
    for piece in array.split(","):
        first, _, last = piece.partition("-")
        for task in range(int(first), int(last or first) + 1):
            if task > 1000:
                print("sbatch: error: Invalid job array specification", file=sys.stderr)
                return 1
            own = os.environ | {"SLURM_ARRAY_TASK_ID": str(task)}
            with open(f"slurm-7_{task}.out", "wb") as out:
                subprocess.run(["sh", script], env=own, stdout=out, stderr=out, check=False)
    print("7" if "--parsable" in options else "Submitted batch job 7")
    return 0


if __name__ == "__main__":
    sys.exit(main())
