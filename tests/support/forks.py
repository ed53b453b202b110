"""Runs commands of Python in forks of one process, which has imported torch once for all of them.

Importing torch, transformers and peft takes a new process four to ten seconds of processor time,
more than most tests of several processes do with it. Each command runs in a fresh fork, so nothing
that one changes is seen by another; it ends as a process of its own, by an exit status or a signal.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen
from typing import Any

from tests.support.children import end, start

ROOT = Path(__file__).parents[2]
MODULES = ("mypt.train", "mypt_train.training.trainer", "torch.distributed.fsdp")
PATIENCE = 300  # seconds; only a command that hangs takes as long


def run(
    commands: Sequence[tuple[Sequence[str], dict[str, str]]], *, modules: Sequence[str] = ()
) -> list[CompletedProcess[str]]:
    """Runs commands at the same time; returns their ends in the same order.

    A command is the arguments of Python, of which the first is `-c` or `-m`, and its environment.
    `modules` are imported before the forks, if they are installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            {"words": list(words), "env": env, "out": f"{folder}/{n}.out", "err": f"{folder}/{n}.err"}
            for n, (words, env) in enumerate(commands)
        ]  # fmt: skip
        parent = _parent()
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps({"modules": [*MODULES, *modules], "jobs": jobs}) + "\n")
        parent.stdin.flush()
        if not select.select([parent.stdout], [], [], PATIENCE)[0] or not (
            answer := parent.stdout.readline()
        ):
            end(parent)
            _parent.cache_clear()
            raise TimeoutError(f"after {PATIENCE} s there is no end of {commands}")
        return [
            CompletedProcess(
                job["words"], status, Path(job["out"]).read_text(), Path(job["err"]).read_text()
            )
            for job, status in zip(jobs, json.loads(answer), strict=True)
        ]


@cache
def _parent() -> Popen[str]:
    """Starts the process that is forked; it ends with this one."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.support.forks"]
    parent = start(
        command, stdin=PIPE, stdout=PIPE, text=True, env=environment, start_new_session=True
    )
    atexit.register(end, parent)
    return parent


def serve() -> dict[str, Any] | None:
    """Forks a process for each command that comes, and waits for all; returns None at the end.

    In a fork it returns the command, so that the fork ends as any other program does.
    """
    for line in sys.stdin:
        asked = json.loads(line)
        for name in asked["modules"]:
            try:
                __import__(name)
            except ImportError:
                continue
        gc.collect()
        gc.freeze()  # so that forks share what is imported
        children = []
        for job in asked["jobs"]:
            child = os.fork()
            if not child:
                return job
            children.append(child)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(ends), flush=True)
    return None


def become(job: dict[str, Any]) -> None:
    """Makes this process that of a command, and runs it."""
    for name, number in (("out", 1), ("err", 2)):
        opened = os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(job["env"])
    how, what, *words = job["words"]
    sys.argv = [what if how == "-m" else "-c", *words]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    mine = serve()
    if mine is not None:
        become(mine)
