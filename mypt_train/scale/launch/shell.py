"""Prints the commands that run units, one for each machine or process, and runs none.

mypt-prepare run --plan P --launcher shell --jobs 100 | parallel --sshloginfile machines
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mypt_train.scale.launch.blocks import blocks, command, said


def commands(plan: str, units: Sequence[int], jobs: int) -> Iterator[str]:
    """Yields `jobs` commands that run all units together, or one for each unit if that is fewer."""
    for block in blocks(units, jobs):
        yield command(plan, said(block))
