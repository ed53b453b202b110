"""Files that `mypt-lint .` does not read: its own, excluded ones, those that git ignores.

And that it says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from mypt.main import main as umbrella
from mypt_cli.jsonl.left_out import LeftOut
from tests.support.linting import GOOD, ROOT, Linter, files, write_texts

BAD = GOOD.replace('"user"', '"usr"')


@pytest.fixture
def lint(folder: Path, lint: Linter) -> Any:
    """Writes files and lints; returns the exit status, the files with findings, and stderr."""

    def run(texts: dict[str, str], *arguments: str) -> tuple[int, list[str], str]:
        write_texts(texts)
        status, findings, err = lint(*arguments)
        return status, files(findings), err

    return run


def test_own_files_are_known_by_what_is_in_them(
    lint: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each as its command writes it, under another name than usual."""
    from mypt.prepare.cli import main as prepare
    from mypt_train.training.parts.log import Log

    write_texts({"bad.txt": GOOD + BAD})
    assert main(["--write-baseline", "known.jsonl", "bad.txt"]) == 0
    assert main(["--format", "jsonl", "-o", "found.jsonl", "bad.txt"]) == 1
    ignored = ["--ignore", "MYP9,MYP1"]
    assert main(["--format", "jsonl", "-o", "nothing.jsonl", *ignored, "bad.txt"]) in (0, 1)
    assert prepare(["bad.txt", "--out", "set", "-q", "--on-error", "reject"]) == 1
    (folder / "why.jsonl").write_bytes((folder / "set/rejects.jsonl").read_bytes())
    (folder / "run").mkdir()
    with Log(folder / "run", step=0, steps=1, writes=True, quiet=True) as log:
        log.record_event("step", 1, loss=0.5)
    capsys.readouterr()
    status, names, err = lint({"data.jsonl": GOOD}, ".")
    assert (status, names) == (0, [])
    assert "1 line clean (1 file)" in err
    for why in (
        "1 baseline of mypt-lint",
        "2 report of mypt-lint",
        "1 rejects of mypt-prepare",
        "1 log of mypt-train",
        "1 prepared data set",
    ):
        assert why in err
    assert "5 files and 1 folder left out (" in err
    assert lint({}, "found.jsonl")[:2] == (1, ["found.jsonl"]), "what is named is read"
    assert main(["--show-settings", "."]) == 0
    assert "# left out: ./why.jsonl (rejects of mypt-prepare)\n" in capsys.readouterr().out


def test_exclude(lint: Any) -> None:
    texts = {
        "mypt-lint.toml": 'exclude = ["drafts/", "*.old.jsonl", "!keep.old.jsonl"]\n',
        "a.jsonl": GOOD,
        "sub/drafts/b.jsonl": BAD,
        "c.old.jsonl": BAD,
        "keep.old.jsonl": GOOD,
        "sub/d.jsonl": BAD,
    }
    assert lint(texts, ".")[1] == ["sub/d.jsonl"]
    status, names, err = lint({}, "--exclude", "/sub", ".")
    assert (status, names) == (0, [])
    assert "1 file and 1 folder left out (2 excluded)" in err
    assert lint({}, "sub/**/*.jsonl")[1] == ["sub/d.jsonl"], "in patterns too"
    assert lint({}, "sub/drafts")[1] == ["sub/drafts/b.jsonl"], "a folder that is named is read"
    assert lint({}, "c.old.jsonl")[1] == ["c.old.jsonl"]
    status, _, err = lint({}, "--exclude", "*.jsonl", ".")
    assert status == 2
    assert ".: nothing to read; " in err


def test_gitignore(lint: Any, folder: Path) -> None:
    texts = {
        ".gitignore": "/build/\n*.tmp.jsonl\n",
        "sub/.gitignore": "!b.tmp.jsonl\nc.jsonl\n",
        "a.jsonl": GOOD,
        "build/a.jsonl": BAD,
        "a.tmp.jsonl": BAD,
        "sub/b.tmp.jsonl": BAD,
        "sub/c.jsonl": BAD,
        "sub/build/d.jsonl": BAD,
    }
    (folder / ".git").mkdir()
    read = ["sub/b.tmp.jsonl", "sub/build/d.jsonl"]
    status, names, err = lint(texts, ".")
    assert (status, names) == (1, read)
    assert "2 files and 1 folder left out (3 ignored by git)" in err
    assert lint({}, "sub")[1] == read, "from above too"
    assert lint({}, "build")[1] == ["build/a.jsonl"], "a folder that is named is read"
    assert len(lint({}, "--no-respect-gitignore", ".")[1]) == 5
    assert len(lint({"mypt-lint.toml": "respect-gitignore = false\n"}, ".")[1]) == 5


def test_data_is_no_file_of_ours(tmp_path: Path) -> None:
    for path in [*ROOT.glob("examples/*.jsonl"), *ROOT.glob("tests/**/*.jsonl")]:
        assert not LeftOut().below(str(path.parent)).leaves_out(str(path), folder=False), path
    for text in ("", "[]\n", "nope\n", '{"line": 1}\n', "[" * 100_000):
        (tmp_path / "x.jsonl").write_text(text)
        judge = LeftOut().below(str(tmp_path))
        assert not judge.leaves_out(str(tmp_path / "x.jsonl"), folder=False)


def test_exit_zero(lint: Any) -> None:
    assert lint({"a.jsonl": BAD}, "--exit-zero", ".")[:2] == (0, ["a.jsonl"])
    assert lint({}, "--exit-zero", "--diff", ".")[0] == 0
    assert lint({}, "--exit-zero", "none.jsonl")[0] == 2


@pytest.mark.parametrize("command", ["prepare", "convert", "vocab"])
def test_other_commands_leave_the_same_files_out(
    command: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = {"a.jsonl": GOOD, "old.jsonl": "no JSON\n", ".gitignore": "old.jsonl\n"}
    write_texts({f"data/{name}": text for name, text in texts.items()})
    more = {"prepare": [], "convert": ["--to", "mypt-3b"], "vocab": ["--size", "256"]}[command]
    assert umbrella([command, "data", "--out", "made", *more]) == 0
    err = capfd.readouterr().err
    assert "1 file left out (1 " in err
    assert "--show-settings" not in err


def test_a_baseline_that_is_named_is_no_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hook of git names every file that was changed."""
    Path("x.jsonl").write_text('{"messages": [{"role": "user", "content": ""}]}\n')
    assert main(["x.jsonl", "--write-baseline", "known.jsonl"]) == 0
    assert main(["x.jsonl", "known.jsonl", "--baseline", "known.jsonl"]) == 0
    assert "1 file left out (1 baseline of mypt-lint)" in capsys.readouterr().err
    assert main(["known.jsonl"]) == 0
