"""Names the objects that preparing leaves in the folder of a data set until it is committed.

plan.json                    what is prepared; .work/plan.json, where one process does all
.work/units/00000.bin        the units, encoded; and .json, what each holds, written after it
.work/repeats/00000.bin      which samples of a group repeat an earlier one
.work/groups/00000.json      the shards of each group, written after them
rejects/group_00000.jsonl    the rejects of a group, where there are several groups
"""

import re

from mypt_cli.jsonl.names import PLAN, WORK

UNITS = f"{WORK}/units"
# The plan of a run that nobody else takes part in.
ALONE = f"{WORK}/{PLAN}"

# Each returns a key from the number of a unit or group.
unit = f"{UNITS}/{{:05}}.bin".format
report = f"{UNITS}/{{:05}}.json".format
repeats = f"{WORK}/repeats/{{:05}}.bin".format
group = f"{WORK}/groups/{{:05}}.json".format
rejects = "rejects/group_{:05}.jsonl".format

_NUMBER = re.compile(r"(\d+)\.json\Z")


def number_of(key: str) -> int | None:
    """Returns the number of the unit that a report is about; None of other objects."""
    match = _NUMBER.search(key.rpartition("/")[2])
    return int(match[1]) if match else None
