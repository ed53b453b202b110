"""The command `mypt`, and what all commands share: one main, one kind of parser."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mypt.complete import candidates
from mypt.lint.cli import main as lint
from mypt.main import main
from mypt.table import GROUPS, MODULES, command
from mypt_cli.command import Command
from mypt_cli.parser import Parser, visible_flags
from tests.support.build import native, write
from tests.support.children import child

ROOT = Path(__file__).parents[3]


def test_it_runs_every_command_that_is_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts.pop("mypt") == scripts.pop("mypt-tags") == "mypt.main:main"
    assert scripts == {f"mypt-{name}": f"{module}:main" for name, module in MODULES.items()}


def test_a_command_by_either_name_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.jsonl", native(), "{")
    assert main(["lint", "--format", "concise", path]) == 1
    out = capsys.readouterr().out
    assert lint(["--format", "concise", path]) == 1
    assert capsys.readouterr().out == out


def test_help_and_what_is_mistyped(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["help"], ["--help"], ["-h"]):
        assert main(given) == 0
        out = capsys.readouterr().out
        places = [out.index(f"{title}:") for title in GROUPS]
        assert places == sorted(places)
        assert all(f"\n  {name} " in out for name in MODULES)
    with pytest.raises(SystemExit) as stop:
        main(["help", "convert"])
    assert stop.value.code == 0
    assert "usage: mypt-convert" in capsys.readouterr().out
    assert main(["lnit"]) == 2
    assert "no command 'lnit'; did you mean lint?" in capsys.readouterr().err
    assert main(["help", "prepar"]) == 2
    assert "did you mean prepare?" in capsys.readouterr().err
    assert main(["--version"]) == 0
    with pytest.raises(SystemExit) as stop:
        main(["completion", "bahs"])
    assert stop.value.code == 2
    assert "did you mean bash?" in capsys.readouterr().err


def test_a_mistyped_option_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["lint", "--fromat=json", "x.jsonl"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "mypt-lint: error: unrecognized arguments: --fromat=json; did you mean --format?\n"
        "Try mypt-lint --help.\n"
    )


def test_old_names_are_read_but_not_shown() -> None:
    made = Parser("x", "")
    made.group("output")("-o --out FILE", "", required=True, old=["--output"])
    assert made.parse_args(["--output", "a"]).out == "a"
    assert "--output" not in made.format_help()
    assert "--output" not in visible_flags(made)


class OurError(Exception):
    """As the project's own: with a message for people."""


OurError.__module__ = "mypt_spec.anything"


def test_what_stops_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(error: BaseException) -> int:
        def body(_: object) -> int:
            raise error

        return Command(
            "mypt-x", "", lambda parser: None, body,
            errors=(ValueError,), interrupted="interrupted; go on",
        )([])  # fmt: skip

    for error, words in (
        (OurError("a.jsonl: too long"), "a.jsonl: too long"),
        (ValueError("no 99"), "no 99"),
        (FileNotFoundError(2, "No such file", "b.jsonl"), "b.jsonl: No such file"),
    ):
        assert stopped(error) == 2
        assert capsys.readouterr().err == f"mypt-x: error: {words}\n"
    assert stopped(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "mypt-x: interrupted; go on\n"
    assert stopped(TypeError("x")) == 2, "not 1, which says that there are findings"
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("please report it with the lines above\n")


@pytest.mark.parametrize("name", ["lint", "view", "synth"])
def test_a_reader_that_goes_is_no_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{\n" * 20_000)
    args = {"lint": ["--format", "concise", "--show-all", str(path)], "view": [str(path), "--all"]}
    given = args.get(name, ["--phase", "1", "--n", "5000", "-q"])
    command = [sys.executable, "-m", "mypt.main", name, *given]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        assert process.wait(timeout=60) == (1 if name == "lint" else 0), errors
    assert "Traceback" not in errors
    assert "Broken" not in errors


@pytest.mark.parametrize(
    ("words", "expected", "files"),
    [
        ("mypt pre", ["prepare"], False), ("mypt help ex", ["export"], False), ("mypt completion z", ["zsh"], False), ("mypt convert ", [], True),
        ("mypt prepare ", [], True), ("mypt prepare --long s", ["split-turns"], False),
        ("mypt-prepare --long = s", ["split-turns"], False), ("mypt-prepare --long=s", ["--long=split-turns"], False),
        ("mypt-prepare --seed ", [], False), ("mypt-prepare --vocab ", [], True), ("/bin/mypt-convert --from open", ["openai", "openhands"], False), ("mypt nothing ", [], True),
    ],
)  # fmt: skip
def test_candidates(words: str, expected: list[str], files: bool) -> None:
    offered, with_files = candidates(words.split(" "))
    assert ([*offered], with_files) == (expected, files)


def test_candidates_of_options_and_rules() -> None:
    for name in MODULES:
        assert [*candidates(["mypt", name, "-"])[0]] == visible_flags(command(name).parser())
    assert json.dumps(candidates(["mypt-lint", "--select", "MYP301,MYP31"])[0]).count("MYP301") > 3


OLD = {  # names that are still read, and those that are shown
    "lint": {"--output": "--out"},
    "convert": {"--output": "--out"},
    "vocab": {"--output": "--out"},
    "synth": {"--output": "--out", "--n": "--number"},
    "prepare": {"--workers": "--jobs"},
}


def test_options_have_the_same_names_everywhere() -> None:
    made = {name: command(name).parser() for name in MODULES}
    for name in ("lint", "view", "convert", "synth", "vocab", "prepare", "train", "export"):
        assert {"-o", "--out"} <= set(visible_flags(made[name])), name
    for name, names in OLD.items():
        for old, new in names.items():
            options = made[name]._option_string_actions
            assert options[old] is options[new]
            assert old not in visible_flags(made[name])


def test_export_takes_its_folder_either_way(capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["model"], ["model", "out", "--out", "out"]):
        assert main(["export", *given]) == 2
        assert "name the folder to write once, with --out DIR" in capsys.readouterr().err
