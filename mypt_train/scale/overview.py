"""Describes a plan: its bytes, units and groups, and the inputs that cannot be cut."""

from rich.filesize import decimal

from mypt_cli.words import counted
from mypt_train.scale.planning.plan import Plan


def overview(plan: Plan) -> str:
    """Returns how large a plan is."""
    size = decimal(sum(source.bytes for source in plan.inputs))
    units, groups = counted(len(plan.units), "unit"), counted(plan.groups, "group")
    return f"{size} in {counted(len(plan.inputs), 'input')}, {units} in {groups}"


def indivisible(plan: Plan, size: int) -> list[str]:
    """Returns what to tell of inputs that are one unit, though they are larger than `size` bytes.

    A line for each reason why inputs cannot be cut.
    """
    large: dict[str, list[str]] = {}
    for source in plan.inputs:
        if source.cut == "whole" and source.bytes * source.expansion > size:
            large.setdefault("packed" if source.packing else "", []).append(source.path)
    out = []
    for kind, paths in large.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        one = "each is one unit" if others else "it is one unit"
        out.append(f"{paths[0]}{others}: {_INDIVISIBLE[kind].format(one)}")
    return out


_INDIVISIBLE = {
    "packed": "is read from its beginning, so {}; to cut it, unpack it, or pack several files",
    "": "is not JSONL, so {}; to cut it, write a record on each line",
}
