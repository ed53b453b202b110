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

    A line for each way in which an input cannot be cut.
    """
    large: dict[str, list[str]] = {}
    for source in plan.inputs:
        if source.cut == "whole" and source.bytes * source.expansion > size:
            large.setdefault(source.packing if source.local else "store", []).append(source.path)
    out = []
    for kind, paths in large.items():
        others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        one = "each is one unit" if others else "it is one unit"
        out.append(f"{paths[0]}{others}: {_INDIVISIBLE[kind].format(one)}")
    return out


_INDIVISIBLE = {
    "gz": "gzip is read from its beginning, so {}; to cut it, repack it: zcat OLD | bgzip > NEW",
    "zst": "has one frame of zstandard, so {}; to cut it, repack it: zstdcat OLD | pzstd > NEW",
    "": "is not JSONL, so {}; to cut it, write a record on each line",
    "store": "cannot be cut where it is, so {}; put several smaller objects there, or zstandard "
    "in its seekable format",
}
