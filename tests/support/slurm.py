"""A cluster of Slurm on this machine: one node, which trusts everyone on loopback.

Debian's packages slurmctld, slurmd and slurm-client have all of it. It needs no munge, and its
files are in one folder.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.children import child

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "sinfo")


def can_start() -> bool:
    """Returns whether a cluster can be started here: slurmd wants to be root."""
    return os.name == "posix" and os.geteuid() == 0 and all(map(shutil.which, NEEDED))


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Starts a cluster, and ends it after use; yields the environment of its commands."""
    with ExitStack() as free:
        ports = [free.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        control, node = (port.getsockname()[1] for port in ports)
    user = getpass.getuser()
    settings = {
        "ClusterName": "tests",
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": control,
        "SlurmdPort": node,
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/none",
        "CredType": "cred/none",
        "ProctrackType": "proctrack/pgid",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "SlurmdSpoolDir": folder,
        "StateSaveLocation": folder,
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": folder / "slurmd.log",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerParameters": "sched_interval=1,batch_sched_delay=0",
        "NodeName": "localhost NodeAddr=127.0.0.1 CPUs=2",
        "PartitionName": "all Nodes=ALL Default=YES",
    }
    path = folder / "slurm.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    env = os.environ | {"SLURM_CONF": str(path)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as ends:
        running = [
            ends.enter_context(child(words, env=env, **quiet))
            for words in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "localhost"])
        ]
        try:
            wait(["sinfo", "-h", "-o", "%T"], env, "idle")
            yield env
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait(60)


def wait(words: list[str], env: dict[str, str], until: str) -> None:
    """Repeats a command until it prints a text. Raises TimeoutError after two minutes."""
    for _ in range(240):
        found = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip() == until:
            return
        time.sleep(0.5)
    raise TimeoutError(f"{words} said: {found.stdout}{found.stderr}")
