"""The scripts for shells, each in its shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mypt.complete import SHELLS
from mypt.lint.cli import main
from mypt.lint.commands import ABOUT
from mypt.table import MODULES
from tests.support.children import default_signals
from tests.support.examples import either

ROOT = Path(__file__).parents[3]

CASES = {  # a line, and what it becomes where there is one way to go on
    "--fail-on w": "--fail-on warning",
    "--fix-": "--fix-only",
    "-q --dialect gab": "-q --dialect gabgpt",
    "--format sar": "--format sarif",
    "--select MYP301,blank-c": "--select MYP301,blank-content",
    "--baseline kn": "--baseline known.jsonl",
    "dat": "data.jsonl",
    "expl": "explain",
    "explain MYP314": "explain MYP314",
    "explain blank-c": "explain blank-content",
    "completion fi": "completion fish",
}


@pytest.fixture
def folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with two files of data, and next to it the scripts."""
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(f"mypt-{name}" in script for name in MODULES)
        (tmp_path / f"script.{shell}").write_text(script)
    program = tmp_path / "bin" / "mypt"  # a script asks `mypt`, which need not be installed here
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m mypt.main "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    data = tmp_path / "data"
    data.mkdir()
    for name in ("data.jsonl", "known.jsonl"):
        (data / name).touch()
    return data


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash(folder: Path) -> None:
    def complete(line: str, command: str = "mypt-lint") -> list[str]:
        words = [*command.split(" "), *line.split(" ")]
        listed = " ".join(f"'{word}'" for word in words)
        code = f'. ../script.bash\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _mypt; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return subprocess.run(
            ["bash", "-c", code], capture_output=True, text=True, check=True, cwd=folder
        ).stdout.split()

    for line, whole in [*CASES.items()][:: either(2, 1)]:
        assert complete(line) == [whole.split()[-1]], line
    assert complete("--select MYP31")[:2] == ["MYP310", "MYP311"]
    assert complete("--long spl", "mypt prepare") == ["split-turns"]
    assert complete("--format = sar") == ["sarif"]
    assert complete("") == [*ABOUT, "data.jsonl", "known.jsonl"]


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish(folder: Path) -> None:
    def complete(line: str) -> list[str]:
        code = f"source ../script.fish; complete -C 'mypt-lint {line}'"
        environment = {**os.environ, "HOME": str(folder.parent)}
        run = ["fish", "--no-config", "-c", code]
        done = subprocess.run(
            run, capture_output=True, text=True, check=True, cwd=folder, env=environment
        )
        assert not done.stderr
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    for line, whole in CASES.items():
        assert complete(line) == [whole.split()[-1]], line
    assert complete("--select MYP301,MYP31")[:2] == ["MYP301,MYP310", "MYP301,MYP311"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
@pytest.mark.parametrize(
    "before", ["", "autoload -U compinit && compinit -i\n"], ids=["bare", "with compinit"]
)
def test_zsh(folder: Path, before: str) -> None:
    """Typed into an interactive zsh, whose line is written to a file after each Tab."""
    import pty

    home, out = folder.parent, folder.parent / "lines"
    (home / ".zshrc").write_text(
        f"{before}source {home}/script.zsh\ndump() {{ print -r -- \"$BUFFER\" >> {out}; BUFFER='' }}\nzle -N dump\nbindkey '^Xd' dump\nprint ready > {out}\n"
    )
    with default_signals():
        shell, terminal = pty.fork()
        if shell == 0:
            os.chdir(folder)
            env = {**os.environ, "ZDOTDIR": str(home), "HOME": str(home), "TERM": "dumb"}
            os.execvpe("zsh", ["zsh", "-i"], env)
    os.set_blocking(terminal, False)
    screen = b""

    def written(count: int) -> list[str]:
        nonlocal screen
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                screen += os.read(terminal, 1 << 16)
            except (BlockingIOError, OSError):
                time.sleep(0.02)
            lines = out.read_text().splitlines() if out.exists() else []
            if len(lines) == count:
                return lines
        raise AssertionError(screen.decode(errors="replace"))

    try:
        written(1)
        for count, line in enumerate(CASES, 2):
            os.write(terminal, f"mypt-lint {line}\t\x18d".encode())
            written(count)
        # It leaves room for the next word, or a comma that the next key takes away.
        assert [line.rstrip(" ,") for line in written(1 + len(CASES))[1:]] == [
            f"mypt-lint {whole}" for whole in CASES.values()
        ]
        assert b"command not found" not in screen
    finally:
        os.kill(shell, 9)
        os.waitpid(shell, 0)
        os.close(terminal)
