"""Compares what the commands of two commits write, and how long they take. Run by hand.

    python tools/compare.py BEFORE AFTER [--rounds 5] [--mb 10] [--only bytes|speed]

Each side is its own worktree, whose commands are found in its pyproject.toml, so that modules may
have moved between the two. Both run in this interpreter's environment, which must have what both
need (PYTHONPATH may hold what only one needs), on inputs that BEFORE makes. What may differ by its
nature (times, the random ids of a run, paths) is blanked. Speed is the median of the ratios
AFTER / BEFORE of interleaved runs, in processor time of one thread.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

FORMATS = ("text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit")
DECODE = """
import time, mypt_spec
from mypt_infer.decode import Decoder
tool = {"name": "t", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
d = mypt_spec.dialect("mypt")
decoder = Decoder(d, [tool])
prompt, _ = d.read({"system": "S", "messages": [{"role": "user", "content": "Hi"}]})
answer = d.tokenizer.encode("Forty words that a model may say. " * 400)
for _ in range(5):
    decoder.run(decoder.start(prompt), [d.tokenizer.special["<myPT_assistant>"], *answer])
"""
BLANK = [
    (rb'"(seconds|time|elapsed|started|created|tokens_per_second)": ?"?[^,}"]*"?', b""),
    (rb"\d+(\.\d+)? ?(ms|s|MB/s)\b", b""),
]


class Side:
    """One commit: its tree, its commands, and a folder that they run in."""

    def __init__(self, revision: str, folder: Path) -> None:
        self.tree, self.out = folder / "tree", folder / "out"
        self.out.mkdir(parents=True)
        add = ["git", "worktree", "add", "--detach", str(self.tree), revision]
        subprocess.run(add, check=True, capture_output=True)
        scripts = tomllib.loads((self.tree / "pyproject.toml").read_text("utf-8"))["project"]
        self.scripts: dict[str, str] = scripts["scripts"]
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.tree), os.environ.get("PYTHONPATH", "")]),
            # As where it is installed: no module is compiled anew at each start.
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, name: str, *arguments: str, text: str = "") -> bytes:
        """Returns what a command writes to standard output. Any status is taken as it is."""
        module, _, function = self.scripts[name].partition(":")
        code = (
            f"import sys; sys.argv[0] = {name!r}; from {module} import {function} as run; "
            "sys.exit(run())"
        )
        return self.python(code, *arguments, text=text)

    def python(self, code: str, *arguments: str, text: str = "") -> bytes:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=False,
            input=text.encode(),
            capture_output=True,
            cwd=self.out,
            env=self.environment,
        )
        if b"Traceback" in done.stderr or b"rror:" in done.stderr:
            raise SystemExit(f"{self.tree}: {done.stderr.decode()}")
        return done.stdout

    def close(self) -> None:
        remove = ["git", "worktree", "remove", "--force", str(self.tree)]
        subprocess.run(remove, check=True, capture_output=True)


def artefacts(side: Side, data: Path) -> dict[str, bytes]:
    """Returns name -> bytes of all that one side writes from the inputs."""
    found = {}
    for name in FORMATS:
        arguments = ["--no-config", "--format", name, str(data / "messy.jsonl")]
        found[f"mypt-lint --format {name}"] = side.run("mypt-lint", *arguments)
    inputs = sorted(str(path) for path in data.glob("phase*.jsonl"))
    side.run("mypt-prepare", *inputs, "--out", "sft", "--context-length", "512")
    train = ["--data", "sft", "--config", "tiny", "--out", "run", "--set", "train.steps=20"]
    side.run("mypt-train", *train)
    (side.out / "docs").mkdir()
    (side.out / "docs/crane.md").write_text("The crane is open from 8 to 16.\n", "utf-8")
    chat = [
        "--scripted",
        "--workspace",
        "docs",
        "--index-dir",
        "index",
        "--transcript",
        "chat.jsonl",
    ]
    side.run("mypt-chat", *chat, text="When is the crane open?\nAnd the ship?\n")
    for folder in ("sft", "run", "chat.jsonl"):
        root = side.out / folder
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and ".work" not in path.parts:
                found[str(path.relative_to(side.out))] = path.read_bytes()
    return {name: blanked(side, data) for name, data in found.items()}


def blanked(side: Side, data: bytes) -> bytes:
    """Returns the bytes without what may differ between two runs."""
    data = data.replace(str(side.out).encode(), b"OUT")
    for pattern, by in BLANK:
        data = re.sub(pattern, by, data)
    return data


def differing(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Prints a line for each artefact and returns the names of those that differ."""
    names = sorted(before.keys() | after.keys())
    wrong = [name for name in names if before.get(name) != after.get(name)]
    for name in names:
        digests = [hashlib.sha256(side.get(name, b"")).hexdigest()[:12] for side in (before, after)]
        print(f"{'DIFFERS' if name in wrong else 'same':8}{name:44}{' '.join(digests)}")
        if name in wrong:
            print(*first_difference(before.get(name, b""), after.get(name, b"")), sep="\n")
    return wrong


def first_difference(before: bytes, after: bytes) -> list[str]:
    """Returns what both sides have around the first byte in which they differ."""
    at = next(
        (i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None
    )
    start = max(0, (min(len(before), len(after)) if at is None else at) - 40)
    return [f"        {side[start : start + 100]!r}" for side in (before, after)]


def seconds(work: Callable[[Side], object], side: Side) -> float:
    """Returns the processor time of the processes that `work` starts."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    work(side)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def speed(sides: list[Side], data: Path, rounds: int) -> None:
    """Prints the median ratio of each workload."""
    clean, bad, few = (str(data / f"{name}.jsonl") for name in ("clean", "bad", "few"))
    works: dict[str, Callable[[Side], object]] = {
        "lint, 20 lines": lambda side: side.run("mypt-lint", "-q", "--no-config", few),
        "lint, clean": lambda side: side.run("mypt-lint", "-q", "--no-config", clean),
        "lint, findings": lambda side: side.run("mypt-lint", "-q", "--no-config", bad),
        # Some of the episodes do not fit a row.
        "prepare": lambda side: side.run(
            "mypt-prepare", clean, "--out", os.urandom(4).hex(), "--on-error", "reject"
        ),
        "decode": lambda side: side.python(DECODE),
    }
    for name, work in works.items():
        for side in sides:
            work(side)  # compiles modules
        pairs = [[seconds(work, side) for side in sides] for _ in range(rounds)]
        ratios = [after / before for before, after in pairs]
        spread = f"({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"{name:16}{statistics.median(ratios):6.3f}  {spread}")


def inputs(side: Side, data: Path, megabytes: int) -> None:
    """Writes the inputs: the examples, made-up episodes, and the same with a fault in each line."""
    data.mkdir()
    (data / "messy.jsonl").write_bytes((side.tree / "examples/messy.jsonl").read_bytes())
    for phase in "1234":  # episodes of phase 5 can be longer than the model sees
        arguments = ["--phase", phase, "--n", "200", "--seed", "1", "-o"]
        side.run("mypt-synth", *arguments, str(data / f"phase{phase}.jsonl"))
    code = (
        "import sys; from pathlib import Path; from bench.data import make; "
        "make(Path(sys.argv[1]), int(sys.argv[2]))"
    )
    side.python(code, str(data / "clean.jsonl"), str(megabytes << 20))
    with open(data / "bad.jsonl", "w") as out, open(data / "clean.jsonl") as lines:
        for line in lines:
            record = json.loads(line)
            record["messages"][0]["note"] = "x"
            out.write(json.dumps(record) + "\n")
    with open(data / "few.jsonl", "wb") as out, open(data / "clean.jsonl", "rb") as lines:
        out.writelines(islice(lines, 20))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mb", type=int, default=10)
    parser.add_argument("--only", choices=["bytes", "speed"])
    chosen = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        sides = [
            Side(rev, Path(folder) / str(i)) for i, rev in enumerate((chosen.before, chosen.after))
        ]
        try:
            data = Path(folder) / "data"
            inputs(sides[0], data, chosen.mb)
            if chosen.only != "speed":
                wrong = differing(*(artefacts(side, data) for side in sides))
            if chosen.only != "bytes":
                speed(sides, data, chosen.rounds)
        finally:
            for side in sides:
                side.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
