"""Run a few lines of Python in a process of its own, for what a process has: modules and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds, which only a program that hangs reaches


def python(
    code: str, *arguments: Any, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a program in the root of the checkout; `options` are those of `subprocess.run`."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    options = {"cwd": ROOT, "timeout": LIMIT} | options
    return subprocess.run(command, check=check, capture_output=True, text=True, **options)


def modules_after(code: str, **options: Any) -> set[str]:
    """Returns the modules that are loaded when a program has ended."""
    done = python(f"{code}\nimport sys\nprint()\nprint(*sys.modules)", check=True, **options)
    return set(done.stdout.splitlines()[-1].split())


# Not ru_maxrss of the process itself: it begins with that of the process that started it.
_PEAK = """
import re, resource, sys
from pathlib import Path

def peak():
    own = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
    return max(int(own), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)

"""


def memory_beyond(setup: str, first: str, second: str, *arguments: Any) -> tuple[int, str]:
    """Returns how many kilobytes `second` needs beyond what `first` did, and what is printed."""
    code = f"{_PEAK}{setup}\n{first}\nbefore = peak()\n{second}\nprint()\nprint(peak() - before)"
    done = python(code, *arguments, check=True)
    printed, _, kilobytes = done.stdout.rstrip("\n").rpartition("\n")
    return int(kilobytes), printed
