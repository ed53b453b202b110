"""Names the objects that preparing leaves in the folder of a data set until it is committed.

plan.json                    what is prepared; .work/plan.json, where one process does all
.work/units/00000.bin        the units, encoded; and .json, what each holds, written after it
.work/failed/00000-1.json    why a unit failed, one object for each try, from 1
.work/sealed.json            which units the data set is made of
.work/repeats/00000.bin      which samples of a group repeat an earlier one
.work/groups/00000.json      the shards of each group, written after them
rejects/group_00000.jsonl    the rejects of a group, where there are several groups
"""

import re

from mypt_cli.jsonl.names import PLAN, WORK

UNITS, FAILED, GROUPS = f"{WORK}/units", f"{WORK}/failed", f"{WORK}/groups"
SEALED = f"{WORK}/sealed.json"
# The plan of a run that nobody else takes part in.
ALONE = f"{WORK}/{PLAN}"

# Each returns a key from the number of a unit, group or bucket; `failed` also takes that of a try.
unit = f"{UNITS}/{{:05}}.bin".format
report = f"{UNITS}/{{:05}}.json".format
failed = f"{FAILED}/{{:05}}-{{}}.json".format
repeats = f"{WORK}/repeats/{{:05}}.bin".format
group = f"{GROUPS}/{{:05}}.json".format
rejects = "rejects/group_{:05}.jsonl".format

_NUMBER = re.compile(r"(\d+)(?:-\d+)?\.json\Z")


def number_of(key: str) -> int | None:
    """Returns the number of the unit or group that a report or log is about; None of others."""
    match = _NUMBER.search(key.rpartition("/")[2])
    return int(match[1]) if match else None
