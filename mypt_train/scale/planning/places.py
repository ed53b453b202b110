"""Names the objects that preparing leaves in the folder of a data set until it is committed.

plan.json                    what is prepared; .work/plan.json, where one process does all
.work/units/00000.bin        the units, encoded; and .json, what each holds
.work/units/00000.parts      what a process that is alone has made of a long unit, until its report
.work/failed/00000-1.json    why a unit failed, one object for each try
.work/sealed.json            which units the data set is made of
.work/digests/00000.bin      the digests of each group, divided by bucket
.work/repeats/00000.bin      which samples of a bucket are repeated, divided by group
.work/groups/00000.json      the shards of each group
"""

from __future__ import annotations

import re

from mypt_cli.jsonl.names import PLAN, WORK

UNITS, FAILED, GROUPS = f"{WORK}/units", f"{WORK}/failed", f"{WORK}/groups"
SEALED = f"{WORK}/sealed.json"
# The plan of a run that nobody else takes part in.
ALONE = f"{WORK}/{PLAN}"
_NUMBER = re.compile(r"(\d+)(?:-\d+)?\.json\Z")


def unit(number: int) -> str:
    """Returns the key of an encoded unit."""
    return f"{UNITS}/{number:05}.bin"


def report(number: int) -> str:
    """Returns the key of the report of a unit. It is written after the unit."""
    return f"{UNITS}/{number:05}.json"


def parts(number: int) -> str:
    """Returns the key of the notes of a unit that is being made by a process that is alone."""
    return f"{UNITS}/{number:05}.parts"


def failed(number: int, tried: int) -> str:
    """Returns the key of the log of the n-th failure of a unit, from 1."""
    return f"{FAILED}/{number:05}-{tried}.json"


def digests(number: int) -> str:
    """Returns the key of the digests of a group."""
    return f"{WORK}/digests/{number:05}.bin"


def repeats(number: int) -> str:
    """Returns the key of the repeats of a bucket."""
    return f"{WORK}/repeats/{number:05}.bin"


def group(number: int) -> str:
    """Returns the key of the report of a group. It is written after its shards."""
    return f"{GROUPS}/{number:05}.json"


def rejects(number: int) -> str:
    """Returns the key of the rejects of a group, where there are several groups."""
    return f"rejects/group_{number:05}.jsonl"


def number_of(key: str) -> int | None:
    """Returns the number of the unit or group that a report or log is about; None of others."""
    match = _NUMBER.search(key.rpartition("/")[2])
    return int(match[1]) if match else None
