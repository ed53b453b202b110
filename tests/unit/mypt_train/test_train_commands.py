"""The commands of training in their surroundings: without torch, killed from outside, on a
terminal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mypt_cli.main import main as mypt
from tests.support.children import child

ROOT = Path(__file__).parents[3]
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from {} import main; sys.exit(main(sys.argv[1:]))"  # fmt: skip


def without_torch(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH.format(module), *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def test_export_needs_no_torch(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 50304}))
    (run / "model.safetensors").write_bytes(b"weights")
    done = without_torch("mypt_train.commands.export", str(run), str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("mypt_train.commands.train", ["--data", "x", "--config", "tiny", "--out", "y"]),
        ("mypt_infer.chat.cli", ["--model", "x"]),
        ("mypt_infer.generate.cli", ["--model", "x", "--prompt", "y"]),
    ],
)
def test_what_needs_torch_says_so_in_one_line(module: str, arguments: list[str]) -> None:
    done = without_torch(module, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "pip install" in done.stderr


@pytest.mark.parametrize(
    ("mine", "want"), [({}, "ERROR"), ({"TORCH_CPP_LOG_LEVEL": "INFO"}, "INFO")]
)
def test_torch_prints_no_stacks_of_connections_that_are_lost(
    mine: dict[str, str], want: str
) -> None:
    code = """
import os, sys
sys.modules["torch"] = None
from mypt_train.commands.train import main
main(["--data", "x", "--config", "tiny", "--out", "y"])
print(os.environ["TORCH_CPP_LOG_LEVEL"])
"""
    env = {k: v for k, v in os.environ.items() if k != "TORCH_CPP_LOG_LEVEL"} | mine
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, env=env
    )
    assert done.stdout == f"{want}\n"


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """A kill that cannot be caught: the workers notice, between tasks and within one."""
    record = json.dumps(
        {
            "system": "S.",
            "messages": [
                {"role": "user", "content": "a question, " * 100},
                {"role": "assistant", "content": "an answer, " * 100},
            ],
        }
    )
    path = tmp_path / "in.jsonl"
    path.write_text(f"{record}\n" * 20_000)
    command = [sys.executable, "-m", "mypt_train.commands.prepare", str(path), "--workers", "2"]
    with child([*command, "--out", str(tmp_path / "out")], cwd=ROOT) as lead:
        workers: list[int] = []
        until = time.monotonic() + 60
        while len(workers) < 2 and lead.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
            workers = children(lead.pid)
        time.sleep(0.3)
        lead.send_signal(signal.SIGKILL)
    try:
        assert len(workers) >= 2
        until = time.monotonic() + 20
        while any(map(runs, workers)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(map(runs, workers))
    finally:
        for pid in filter(runs, workers):
            os.kill(pid, signal.SIGKILL)


def test_threads_by_the_size_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The threads of a model are the same whatever else runs.

    The number asked for wins, and that of torchrun.
    """
    torch = pytest.importorskip("torch")
    from mypt_train.training.distributed import World, use_threads

    cpu = World(0, 1, torch.device("cpu"))
    set_to: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", set_to.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [use_threads(None, size, cpu) for size in (16, 128, 256, 768)] == [1, 1, 4, 8]
    assert use_threads(3, 128, cpu) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert use_threads(None, 768, cpu) == 2
    assert set_to == [1, 1, 4, 8, 3, 2]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert use_threads(None, 768, cpu) == torch.get_num_threads()
    assert use_threads(None, 768, World(0, 1, torch.device("cuda"))) is None
    assert len(set_to) == 6


def test_training_says_how_many_threads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from mypt_train.commands.train import main
    from tests.support.training import config, data

    sft = data(tmp_path / "sft")
    made = tmp_path / "c.json"
    made.write_text(json.dumps(config(steps=1)))
    arguments = ["--data", str(sft), "--config", str(made)]
    assert main([*arguments, "--out", str(tmp_path / "r"), "--threads", "2"]) == 0
    assert "1 process on 2 threads\n" in capsys.readouterr().err
    assert main([*arguments, "--out", str(tmp_path / "s"), "--threads", "0"]) == 2
    assert "train.threads is 0, expected 1 or more" in capsys.readouterr().err


def on_terminal(*command: str) -> tuple[int, bytes]:
    """Runs Python with stderr on a terminal; returns the exit status and what it showed."""
    pty = pytest.importorskip("pty")
    here, there = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "TERM": "xterm"}
    shown = b""
    started = child(
        [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=there, env=environment
    )
    with started as run:
        os.close(there)
        while True:
            try:
                piece = os.read(here, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        status = run.wait(timeout=60)
    os.close(here)
    return status, shown


AT_ONCE = "import sys; from mypt_cli import progress; progress._PATIENCE = progress._PAUSE = -1; from {} import main; sys.exit(main(sys.argv[1:]))"  # fmt: skip


def records(path: Path, count: int = 40) -> str:
    lines = []
    for i in range(count):
        messages = [
            {"role": "user", "content": f"a question {i} " * 20},
            {"role": "assistant", "content": f"an answer {i} " * 20, "cite": "a"},
        ]
        lines.append(json.dumps({"messages": messages, "system": "S."}))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("module", "arguments", "shows"),
    [
        ("mypt_lint.cli", ["IN", "--fix-only", "-o", "OUT"], b"kB"),
        ("mypt_lint.cli", ["IN", "--diff"], b"kB"),
        ("mypt_train.commands.vocab", ["IN", "-o", "OUT", "--size", "270"], b"tokens"),
        ("mypt_train.commands.synth", ["--phase", "1", "--n", "30", "-o", "OUT"], b"episodes"),
        ("mypt_train.commands.prepare", ["IN", "--out", "OUT", "--workers", "1"], b"encoding"),
        ("mypt_train.commands.prepare", ["IN", "--out", "OUT", "--workers", "1"], b"writing"),
        ("mypt_train.commands.prepare", ["IN", "--out", "OUT", "--workers", "1"], b"listing"),
        ("mypt_train.commands.prepare", ["plan", "IN", "--out", "OUT", "--sample", "9"], b"inputs"),
    ],
)
def test_progress_on_a_terminal(
    tmp_path: Path, module: str, arguments: list[str], shows: bytes
) -> None:
    places = {"IN": records(tmp_path / "in.jsonl"), "OUT": str(tmp_path / "out")}
    chosen = [places.get(argument, argument) for argument in arguments]
    status, shown = on_terminal("-c", AT_ONCE.format(module), *chosen)
    assert status == 0, shown
    assert shows in shown
    again = [str(tmp_path / "other") if a == places["OUT"] else a for a in chosen]
    status, shown = on_terminal("-c", AT_ONCE.format(module), *again, "-q")
    assert (status, shown) == (0, b"")


def test_a_commit_shows_progress_on_a_terminal(tmp_path: Path) -> None:
    from mypt_train.commands.prepare import main

    asked = [records(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out"), "-q"]
    assert main(["plan", *asked]) == 0
    plan = ["--plan", str(tmp_path / "out")]
    assert main(["resume", *plan, "-q"]) == 0
    code = AT_ONCE.format("mypt_train.commands.prepare")
    status, shown = on_terminal("-c", code, "commit", *plan)
    assert status == 0, shown
    assert b"packing" in shown


def test_progress_after_a_stop_counts_what_was_done(tmp_path: Path) -> None:
    from mypt_cli.jsonl.paths import expand
    from mypt_train import Options, prepare

    path = records(tmp_path / "in.jsonl")
    size = os.path.getsize(path)

    class StoppedError(Exception):
        pass

    def stop(what: str, done: int, total: int) -> None:
        if what == "encoding" and done > total / 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        prepare(expand([path]), tmp_path / "out", Options(), unit_size=2000, progress=stop)
    told: list[tuple[str, int, int]] = []
    prepare(expand([path]), tmp_path / "out", Options(), unit_size=2000, resume=True,
        progress=lambda *step: told.append(step))  # fmt: skip
    encoding = [step for step in told if step[0] == "encoding"]
    writing = [step for step in told if step[0] == "writing"]
    assert encoding[0][1] > size / 2 - 2000  # all but the unit in which it was stopped
    assert encoding[-1] == ("encoding", size, size)
    assert writing
    assert writing[-1][1] == writing[-1][2] > 0


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--data", "sft", "--config", "tiny"],
        ["export", "--for", "vllm"],
        ["vocab", "a.jsonl"],
    ],
)
def test_an_output_that_is_a_url_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert mypt([*words, "--out", "s3://me:pw@bucket/run"]) == 2
    said = capsys.readouterr().err
    assert "s3://***@bucket/run: is a URL; name a" in said
    assert ("--mirror URL" in said) == (words[0] == "train")
    assert not [*tmp_path.iterdir()]
