"""The commands of training in their surroundings: without torch, killed from outside, on a
terminal.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from mypt.main import main as mypt
from mypt_cli import progress
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, prepare
from tests.support.build import native, write
from tests.support.children import child
from tests.support.programs import ROOT, python

# Runs commands where torch cannot be imported; prints how each has ended.
WITHOUT_TORCH = """
import contextlib, importlib, io, json, os, sys
sys.modules["torch"] = None
ends = []
for module, words, level in json.loads(sys.argv[1]):
    os.environ.pop("TORCH_CPP_LOG_LEVEL", None)
    os.environ |= {"TORCH_CPP_LOG_LEVEL": level} if level else {}
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = importlib.import_module(module).main(words)
    ends.append([status, errors.getvalue(), os.environ.get("TORCH_CPP_LOG_LEVEL")])
print(json.dumps(ends))
"""


def test_only_what_runs_a_model_needs_torch_and_says_so_in_one_line(tmp_path: Path) -> None:
    """And torch will print no stacks of connections that are lost, unless it is asked to."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 50304}))
    (run / "model.safetensors").write_bytes(b"weights")
    training = ["--data", "x", "--config", "tiny", "--out", "y"]
    commands = [
        ("mypt.export", [str(run), str(tmp_path / "out")], ""),
        ("mypt.train", training, ""),
        ("mypt.train", training, "INFO"),
        ("mypt.chat", ["--model", "x"], ""),
        ("mypt.generate", ["--model", "x", "--prompt", "y"], ""),
    ]
    done = python(WITHOUT_TORCH, json.dumps(commands), check=True)
    exported, *others = json.loads(done.stdout)
    assert exported[:2] == [0, ""]
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == b"weights"
    for (module, *_), (status, errors, _) in zip(commands[1:], others, strict=True):
        assert status == 2, module
        assert errors.count("\n") == 1, errors
        assert "pip install" in errors
    assert [level for *_, level in others[:2]] == ["ERROR", "INFO"]


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
    path = write(tmp_path / "in.jsonl", *[native("a question, " * 100, "an answer, " * 100)] * 8000)
    command = [sys.executable, "-m", "mypt.prepare.cli", path, "--workers", "2"]
    with child([*command, "--out", str(tmp_path / "out")], cwd=ROOT) as lead:
        workers: list[int] = []
        until = time.monotonic() + 300
        while len(workers) < 2 and lead.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
            workers = children(lead.pid)
        while not any((tmp_path / "out").glob(".work/units/*")) and time.monotonic() < until:
            time.sleep(0.01)  # until they are in the midst of their work
        assert lead.poll() is None
        lead.send_signal(signal.SIGKILL)
    try:
        assert len(workers) >= 2
        until = time.monotonic() + 300
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
    from mypt_train.training.parts.distributed import World, use_threads

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
    torch = pytest.importorskip("torch")
    from mypt.train import main
    from tests.support.training import config, data

    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    chosen = ["--config", write(tmp_path / "c.json", config(steps=1))]
    arguments = ["--data", str(data(tmp_path / "sft")), *chosen]
    assert main([*arguments, "--out", str(tmp_path / "r"), "--threads", "2"]) == 0
    assert "1 process on 2 threads\n" in capsys.readouterr().err
    assert threads == [2]
    assert main([*arguments, "--out", str(tmp_path / "s"), "--threads", "0"]) == 2
    assert "train.threads is 0, expected 1 or more" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Puts stderr on a terminal, where bars are shown without a delay."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_PATIENCE", -1)
    monkeypatch.setattr(progress, "_PAUSE", -1)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return stream


def records(path: Path, count: int = 40) -> str:
    some = [native(f"a question {i} " * 20, f"an answer {i} " * 20) for i in range(count)]
    return write(path, *some)


PREPARE = ["mypt.prepare.cli", "IN", "--out", "OUT", "--workers", "1"]


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["mypt.lint.cli", "IN", "--fix-only", "-o", "OUT"], ["kB"]),
        (["mypt.lint.cli", "IN", "--diff"], ["kB"]),
        (["mypt.vocab", "IN", "-o", "OUT", "--size", "270"], ["tokens"]),
        (["mypt.synth", "--phase", "1", "--n", "30", "-o", "OUT"], ["episodes"]),
        (PREPARE, ["encoding", "writing", "listing"]),
    ],
    ids=lambda value: " ".join(value[:2]),
)
def test_progress_on_a_terminal(
    tmp_path: Path, words: list[str], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"IN": records(tmp_path / "in.jsonl"), "OUT": str(tmp_path / "out")}
    module, *arguments = [places.get(word, word) for word in words]
    main, stream = import_module(module).main, terminal(monkeypatch)
    assert main(arguments) == 0
    assert [text for text in texts if text not in stream.getvalue()] == []
    before = len(stream.getvalue())
    again = [str(tmp_path / "other") if word == places["OUT"] else word for word in arguments]
    assert main([*again, "-q"]) == 0
    assert stream.getvalue()[before:] == ""


def test_progress_on_a_real_terminal(tmp_path: Path) -> None:
    """A bar is drawn, in the width of the terminal, and nothing of it is left."""
    pty = pytest.importorskip("pty")
    here, there = pty.openpty()
    code = "import sys; from mypt_cli import progress; progress._PATIENCE = progress._PAUSE = -1; from mypt.synth import main; sys.exit(main(sys.argv[1:]))"  # fmt: skip
    words = ["--phase", "1", "--n", "30", "-o", str(tmp_path / "x.jsonl")]
    environment = os.environ | {"COLUMNS": "100", "TERM": "xterm"}
    shown = b""
    with child(
        [sys.executable, "-c", code, *words], cwd=ROOT, stderr=there, env=environment
    ) as run:
        os.close(there)
        with suppress(OSError):  # the other end is closed
            while piece := os.read(here, 1 << 16):
                shown += piece
        assert run.wait(timeout=300) == 0, shown
    os.close(here)
    assert b"episodes" in shown


def test_progress_after_a_stop_counts_what_was_done(tmp_path: Path) -> None:
    path = records(tmp_path / "in.jsonl")
    size = os.path.getsize(path)

    class StoppedError(Exception):
        pass

    def stop(what: str, done: int, total: int) -> None:
        if what == "encoding" and done > total / 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        prepare(expand([path]), tmp_path / "out", Options(), unit_size=2000, progress=stop)
    steps: list[tuple[str, int, int]] = []
    prepare(
        expand([path]), tmp_path / "out", Options(), unit_size=2000, resume=True,
        progress=lambda *step: steps.append(step),
    )  # fmt: skip
    encoding = [step for step in steps if step[0] == "encoding"]
    assert encoding[0][1] > size / 2 - 2000  # all but the unit in which it was stopped
    assert encoding[-1] == ("encoding", size, size)
    _, written, total = [step for step in steps if step[0] == "writing"][-1]
    assert written == total > 0


@pytest.mark.parametrize(
    "words", [["train", "--data", "sft", "--config", "tiny"], ["export", "--for", "vllm"], ["vocab", "a.jsonl"]]
)  # fmt: skip
def test_an_output_that_is_a_url_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert mypt([*words, "--out", "s3://me:pw@bucket/run"]) == 2
    errors = capsys.readouterr().err
    assert "s3://***@bucket/run: is a URL; name a" in errors
    assert not [*tmp_path.iterdir()]


def test_the_first_step_is_shown_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nobody sees a bar, the line of the first `log_every` steps may be minutes away.

    The third one says how long the rest will take.
    """
    pytest.importorskip("torch")
    from mypt.train import main
    from tests.support.training import config, data

    chosen = ["--config", write(tmp_path / "c.json", config(steps=5, log_every=5))]
    arguments = ["--data", str(data(tmp_path / "sft")), *chosen, "--out", str(tmp_path / "r")]
    assert main(arguments) == 0
    lines = [line.partition(": ") for line in capsys.readouterr().err.splitlines()]
    steps = [(step, text) for step, _, text in lines if step.startswith("step ")]
    assert [step for step, _ in steps][:3] == ["step 1", "step 3", "step 5"]
    assert steps[0][1].endswith("; a line every 5 steps")
    assert re.fullmatch(r"[\d.e-]+ s a step, 0:00:0\d to step 5", steps[1][1])
