"""Names the files that preparing leaves in the folder of a data set until it is done.

.work/plan.json              what is prepared
.work/units/00000.bin        the units, encoded
"""

from pathlib import Path

from mypt_cli.jsonl.names import PLAN, WORK


def plan_file(out: Path) -> Path:
    return out / WORK / PLAN


def unit(out: Path, number: int) -> Path:
    return out / WORK / "units" / f"{number:05}.bin"
