"""Says what is to be done between the last unit and the manifest, as tasks that anyone may make.

Input: a sealed plan. Output: stages of numbered tasks. A task is a function of the sealed plan and
its number, as a unit is of the plan, so engines run both alike. Tasks of a stage need no other of
that stage, but all of those before it.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from mypt_train.scale import repeats
from mypt_train.scale.groups import make_group
from mypt_train.scale.launch.queue import MakeEngine, attempts
from mypt_train.scale.planning import places
from mypt_train.scale.planning.plan import Plan, PlanError, plan_with_hash
from mypt_train.scale.state import Progress, Sealed, seal

_Do = Callable[[Plan, Sealed, int, Progress], object]
_StageRow = tuple[str, int, _Do, Callable[[int], str]]


class Stage(NamedTuple):
    """A stage: its name, the numbers of its tasks, what makes a task, and the key that it leaves.

    `do` and `key` take the number of a task in its stage; `tasks` are numbered through all stages.
    `do` also takes what is told how far the task is, by its own steps.
    """

    name: str
    tasks: range
    do: _Do
    key: Callable[[int], str]


def stages(plan: Plan, sealed: Sealed) -> list[Stage]:
    """Returns the stages of a plan, in their order."""
    rows: list[_StageRow] = [("packing", plan.groups, make_group, places.group)]
    if repeats.needed(plan):
        last = places.repeats(plan.groups - 1)
        rows.insert(0, ("comparing", 1, repeats.find, lambda _: last))
    out, first = [], 0
    for name, count, do, key in rows:
        out.append(Stage(name, range(first, first + count), do, key))
        first += count
    return out


def make_task(
    plan: Plan, sealed: Sealed, number: int, progress: Callable[[float], None] = lambda _: None
) -> bool:
    """Makes a task unless it is there already; returns whether it did.

    `progress` is told which part of the task is done. Raises PlanError for a number that the plan
    does not have, StoreError and OSError.
    """
    every = stages(plan, sealed)
    for stage in every:
        if number in stage.tasks:
            index = number - stage.tasks.start
            if plan.store().exists(stage.key(index)):
                return False
            stage.do(plan, sealed, index, partial(_part, progress))
            return True
    raise PlanError(f"task {number}: the plan has tasks 0 to {every[-1].tasks.stop - 1}")


def _part(progress: Callable[[float], None], stage: str, done: float, total: int) -> None:
    """Tells which part of a task is done: reading is one half, and writing the other."""
    progress((done / max(total, 1) + (stage == "writing")) / 2)


def make_planned_task(path: str, sha256: str, number: int) -> bool:
    """Makes a task of the plan in a file, for engines that run a function of a number elsewhere."""
    return make_task(*_sealed(path, sha256), number)


@lru_cache(maxsize=1)
def _sealed(path: str, sha256: str) -> tuple[Plan, Sealed]:
    plan = plan_with_hash(path, sha256)
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
                at = number - stage.tasks.start
                report = partial(_within, progress, stage, at)
                report(0)
                make_task(plan, sealed, number, report)
                report(1)
        return
    with engine(partial(make_planned_task, path, plan.sha256)) as running:
        for stage in stages(plan, sealed):
            count = 0
            progress(stage.name, count, len(stage.tasks))
            for attempt in attempts(stage.tasks, running):
                if attempt.last and attempt.error:
                    raise PlanError(f"{stage.name}, task {attempt.unit}: {attempt.error}")
                count += not attempt.error
                progress(stage.name, count, len(stage.tasks))


def _within(progress: Progress, stage: Stage, number: int, part: float) -> None:
    progress(stage.name, number + part, len(stage.tasks))
