"""Says which process is gone when several train together, so that none waits for it for ever.

Input: the store through which the processes have found each other. Output: a sentence for people.

Theory of operation. A thread of each process counts up a number in the store, about once a second.
The first process looks at the numbers of all; the others look at that of the first, and at the
verdict, which the first one writes once: a process said why it stopped, or its number has not
changed for `silent` seconds. Each also looks whether the process after it has ended, if both are on
one machine, and the first reads that, so that a kill is seen in about a second. A process whose
exchange with others has failed says so by the key "hurry", and then five seconds without a change
are enough: a closed connection is noticed at once, but does not say whose process died, since the
next ones to stop close theirs, too. If nobody is silent, the verdict names the processes whose step
is behind. A process that hears of a verdict and does not stop by itself, because it waits inside of
a library, is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

SILENT = 60.0
"""Seconds without a sign of life after which a process counts as gone."""
HURRIED, EVERY, GRACE = 5.0, 1.0, 10.0
_VERDICT, _HURRY = "verdict", "hurry"
_OVER = ("done", "stopped")
_ADVICE = "go on from the last whole checkpoint with --resume, with as many processes as there are"


def identity(process: int) -> dict[str, Any]:
    """Returns what tells a process of this machine from all others; {} where the system cannot.

    `machine` is one start of a system and one space of ids, `born` the start of the process in it.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {
            "id": process,
            "machine": f"{boot} {os.readlink('/proc/self/ns/pid')}",
            "born": _stat(process)[19],
        }
    except (OSError, IndexError):
        return {"id": process}


def ended(other: Mapping[str, Any]) -> bool:
    """Returns whether a process, as `identity` told of it, is known to have ended."""
    if "machine" not in other or other["machine"] != identity(os.getpid()).get("machine"):
        return False
    try:
        fields = _stat(other["id"])
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return fields[0] in "ZX" or fields[19] != other["born"]


def _stat(process: int) -> list[str]:
    """Returns what the system says of a process, from its state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


class Watch:
    """The signs of life of all processes. `store` is one of torch.distributed; `clock` in seconds.

    Without `start` there is no thread, and `beat` has to be called.
    """

    def __init__(
        self, store: Any, rank: int, size: int, *, silent: float = SILENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.store, self.rank, self.size, self.silent, self.clock = store, rank, size, silent, clock
        self.verdict = ""
        self.has_verdict = threading.Event()  # of the verdict
        self.mine: dict[str, Any] = {
            "beat": 0, "step": 0, "host": socket.gethostname(), "state": "runs",
        } | identity(os.getpid())  # fmt: skip
        self.others: dict[int, dict[str, Any]] = {}
        self.dead_ranks: list[int] = []
        now = clock()
        self.last_news, self.last, self.hurried = dict.fromkeys(range(size), now), now, 0.0
        self.wake, self.closed = threading.Event(), threading.Event()
        self.alone = threading.Lock()
        self.thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> Watch:
        """Begins to give and to look for signs of life; returns itself."""
        self.beat()
        self.thread.start()
        return self

    def note(self, step: int) -> None:
        """Says at which step this process is."""
        self.mine["step"] = step

    def beat(self) -> str:
        """Gives a sign of life, and looks for those of others; returns the verdict, or ""."""
        with self.alone:
            try:
                self._beat()
            except RuntimeError:  # the store is in the first process, or in its launcher
                if not self.closed.is_set() and self._state(0) != "done":
                    self._judge(f"process 0 of {self.size}{self._place(0)} cannot be reached")
            return self.verdict

    def blame(self) -> str:
        """Returns who is gone, after an exchange with other processes has failed."""
        with contextlib.suppress(RuntimeError):  # of the store: `beat` meets it, too
            self.store.set(_HURRY, b"1")
        self.wake.set()
        self.has_verdict.wait(8 * HURRIED)
        self._linger()
        return self.verdict or "the processes have lost one another; " + _ADVICE

    def leave(self, reason: str = "") -> None:
        """Says that this process ends, and why, if it ends too early.

        The first process, which has the store, waits a moment until the others know.
        """
        self.mine["state"], self.mine["said"] = ("stopped", reason) if reason else ("done", "")
        self.beat()
        if reason:
            self._linger()

    def close(self) -> None:
        self.closed.set()
        self.wake.set()
        # A thread that is inside of the store while Python ends would end the process by a signal.
        if self.thread.is_alive():
            self.thread.join(GRACE)

    def _linger(self) -> None:
        until = time.monotonic() + 3 * EVERY
        others = range(1, self.size)
        while self.rank == 0 and time.monotonic() < until:
            if all(self._state(r) != "runs" for r in others if r not in self.dead_ranks):
                break  # all know
            time.sleep(EVERY / 10)
            self.beat()

    def _run(self) -> None:
        while not self.closed.is_set():
            self.wake.wait(EVERY)
            self.wake.clear()
            if self.beat():
                break
        if self.closed.wait(GRACE):
            return
        print(f"mypt-train: error: {self.verdict}", file=sys.stderr, flush=True)
        os._exit(2)

    def _beat(self) -> None:
        self.mine["beat"] += 1
        self.store.set(str(self.rank), json.dumps(self.mine).encode())
        after = (self.rank + 1) % self.size
        ranks = range(self.size) if self.rank == 0 else sorted({0, after})
        self._read_states(ranks)
        if self.verdict:
            return
        if after != self.rank and ended(self.others.get(after, {})):
            self._read_states(ranks)  # what it said before it ended
            if self._state(after) not in _OVER and "ended" not in self.mine:
                self.mine["ended"] = after
                self.store.set(str(self.rank), json.dumps(self.mine).encode())
        if not self.hurried and self.store.check([_HURRY]):
            self.hurried = self.clock()
        if self.store.check([_VERDICT]):
            self._judge(self.store.get(_VERDICT).decode(), is_final=True)
        elif problem := self._find_lost():
            self._judge(problem)
            if self.rank == 0 or 0 in self.dead_ranks:
                self.store.set(_VERDICT, self.verdict.encode())
        if self.verdict and self.mine["state"] == "runs":
            self.mine["state"] = "knows"
            self.store.set(str(self.rank), json.dumps(self.mine).encode())

    def _read_states(self, ranks: Sequence[int]) -> None:
        now = self.clock()
        asleep, self.last = now - self.last > self.silent / 2, now
        keys = [str(rank) for rank in ranks]
        if not self.store.check(keys):
            keys = [key for key in keys if self.store.check([key])]
        for rank, text in zip(map(int, keys), self.store.multi_get(keys), strict=True):
            state = json.loads(text)
            if state != self.others.get(rank):
                self.others[rank], self.last_news[rank] = state, now
        if asleep:  # this process was not running itself, perhaps with all others
            self.last_news = dict.fromkeys(self.last_news, now)

    def _find_lost(self) -> str:
        """Returns who is gone, by what was read; "" if nobody is."""
        now = self.clock()
        ranks = range(1, self.size) if self.rank == 0 else (0,)
        running = [rank for rank in ranks if self._state(rank) not in _OVER]
        ended_ranks = {other.get("ended") for other in [self.mine, *self.others.values()]}
        if fallen := [rank for rank in running if rank in ended_ranks]:
            self.dead_ranks = fallen
            be, who = ("is", "it") if len(fallen) == 1 else ("are", "they")
            return f"{self._name(fallen)} {be} gone: {who} ended without saying why"
        for rank, other in self.others.items():
            if rank != self.rank and other["state"] == "stopped":
                return f"{self._name([rank])} stopped: {other['said']}"
        limit = min(HURRIED, self.silent) if self.hurried else self.silent
        if silent := [rank for rank in running if now - self.last_news[rank] > limit]:
            self.dead_ranks = silent
            quiet = (
                f"no sign of life for {max(now - self.last_news[rank] for rank in silent):.0f} s"
            )
            return f"{self._name(silent)} {'is' if len(silent) == 1 else 'are'} gone: {quiet}"
        if self.rank == 0 and self.hurried and now - self.hurried > 3 * HURRIED:
            steps = {rank: other["step"] for rank, other in self.others.items()}
            behind = [rank for rank, step in steps.items() if step < max(steps.values())]
            if behind:
                return f"{self._name(behind)} did not come to step {max(steps.values())} in time"
            return f"the {self.size} processes lost their connections at step {self.mine['step']}"
        return ""

    def _judge(self, text: str, *, is_final: bool = False) -> None:
        self.verdict = self.verdict or (text if is_final else f"{text}; {_ADVICE}")
        self.has_verdict.set()

    def _state(self, rank: int) -> str:
        return str(self.others.get(rank, {}).get("state", ""))

    def _place(self, rank: int) -> str:
        other = self.others.get(rank)
        return f" ({other['host']}, process id {other['id']})" if other else ""

    def _name(self, ranks: Sequence[int]) -> str:
        if len(ranks) == 1:
            return f"process {ranks[0]} of {self.size}{self._place(ranks[0])}"
        return f"processes {', '.join(map(str, ranks))} of {self.size}{self._place(ranks[0])}"
