"""Prints the commands that run units, one for each machine or process, and runs none.

mypt-prepare run --plan P --launcher shell --jobs 100 | parallel --sshloginfile machines
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from mypt_train.scale.launch.blocks import blocks, ranges


def commands(command: str, units: Sequence[int], jobs: int, folder: str = "") -> Iterator[str]:
    """Yields `jobs` commands that run all units together, or one for each unit if that is fewer.

    `command` is what the numbers of units follow. The commands run in `folder`, if one is named.
    """
    where = f"cd {shlex.quote(folder)} && " if folder else ""
    for block in blocks(units, jobs):
        yield f"{where}{command} {ranges(block)}"
