"""Says what is to be done between the last unit and the manifest, as tasks that anyone may make.

Input: a sealed plan. Output: stages of numbered tasks. A task is a function of the sealed plan and
its number, as a unit is of the plan, so engines run both alike. Tasks of a stage need no other of
that stage, but all of those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from mypt_train.scale import places
from mypt_train.scale.dedup import repeats
from mypt_train.scale.groups import make_group
from mypt_train.scale.launch.queue import MakeEngine, attempts
from mypt_train.scale.plan import Plan, PlanError, read_plan
from mypt_train.scale.state import Sealed, seal

Progress = Callable[[str, int, int], None]


_Named = tuple[str, int, Callable[[Plan, Sealed, int], object], Callable[[int], str]]


class Stage(NamedTuple):
    """A stage: its name, the numbers of its tasks, what makes a task, and the key that it leaves.

    `do` and `key` take the number of a task in its stage; `tasks` are numbered through all stages.
    """

    name: str
    tasks: range
    do: Callable[[Plan, Sealed, int], object]
    key: Callable[[int], str]


def stages(plan: Plan, sealed: Sealed) -> list[Stage]:
    """Returns the stages of a plan, in their order."""
    found: list[_Named] = [("packing", plan.groups, make_group, places.group)]
    if repeats.needed(plan):
        count = 1 << repeats.bits_of(sealed)
        found = [
            ("dividing", plan.groups, repeats.write_digests, places.digests),
            ("comparing", count, repeats.settle, places.repeats),
            *found,
        ]
    out, first = [], 0
    for name, count, do, key in found:
        out.append(Stage(name, range(first, first + count), do, key))
        first += count
    return out


def make_task(plan: Plan, sealed: Sealed, number: int) -> bool:
    """Makes a task unless it is there already; returns whether it did.

    Raises PlanError for a number that the plan does not have, StoreError and OSError.
    """
    every = stages(plan, sealed)
    for stage in every:
        if number in stage.tasks:
            own = number - stage.tasks.start
            if plan.store().exists(stage.key(own)):
                return False
            stage.do(plan, sealed, own)
            return True
    raise PlanError(f"task {number}: the plan has tasks 0 to {every[-1].tasks.stop - 1}")


def make_planned_task(path: str, number: int) -> bool:
    """Makes a task of the plan in a file, for engines that run a function of a number elsewhere."""
    return make_task(*_sealed(path), number)


@lru_cache(maxsize=1)
def _sealed(path: str) -> tuple[Plan, Sealed]:
    plan = read_plan(path)
    return plan, seal(plan)  # is sealed already, and only read


def make_tasks(
    plan: Plan, sealed: Sealed, path: str, engine: MakeEngine | None, progress: Progress
) -> None:
    """Makes all tasks that are missing: here one after another, or by an engine.

    `path` is where an engine reads the plan. Raises PlanError for a task that failed three times.
    """
    if engine is None:
        for stage in stages(plan, sealed):
            for number in stage.tasks:
                progress(stage.name, number - stage.tasks.start, len(stage.tasks))
                make_task(plan, sealed, number)
        return
    with engine(partial(make_planned_task, path)) as running:
        for stage in stages(plan, sealed):
            made = 0
            progress(stage.name, made, len(stage.tasks))
            for attempt in attempts(stage.tasks, running):
                if attempt.last and attempt.error:
                    raise PlanError(f"{stage.name}, task {attempt.unit}: {attempt.error}")
                made += not attempt.error
                progress(stage.name, made, len(stage.tasks))
