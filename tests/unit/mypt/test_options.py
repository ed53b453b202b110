"""The options of all commands: groups of the help, and what every command takes alike."""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from mypt.complete import candidates
from mypt.lint.commands import ABOUT, subcommand
from mypt.main import main
from mypt.table import MODULES, command
from mypt_cli.parser import Parser, visible_flags
from mypt_spec import __version__
from mypt_spec.dialect import registered
from mypt_train.data.formats.options import Options

ROOT = Path(__file__).parents[3]
WIDTH = 100  # cells that help takes at most
# Packages that no help needs.
HEAVY = {"lark", "msgspec", "numpy", "pathspec", "regex", "rich", "tiktoken", "torch", "zstandard"}
# Commands that load the engine with their modules.
ENGINE = {"chat", "convert", "generate", "index"}


def parsers() -> dict[str, Parser]:
    """Returns the parsers of all commands, by how they are called."""
    own = [name for name in ABOUT if name != "completion"]  # it takes a word and nothing else
    return {f"mypt-{name}": command(name).parser() for name in MODULES} | {
        f"mypt-lint {name}": subcommand(name).parser() for name in own
    }


PARSERS = parsers()


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_is_in_a_group_with_a_name(name: str) -> None:
    made = PARSERS[name]
    titles = [group.title for group in made._action_groups]
    assert len(set(titles)) == len(titles)
    grouped = {id(a): g.title for g in made._action_groups for a in g._group_actions}
    for action in made._actions:
        assert grouped[id(action)] not in (None, "options", "positional arguments"), action
    assert "  -h, --help " in made.format_help().partition("\nother:\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize("name", PARSERS)
def test_help_fits_and_shows_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("80", "100", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        text = PARSERS[name].format_help()
        assert max(map(len, text.splitlines())) <= WIDTH
        listed = text.partition("\n\n")[2]
        assert all(option in listed for option in visible_flags(PARSERS[name]))
        assert "{}" not in text
        assert "options:" not in text
        assert "positional arguments:" not in text


@pytest.mark.parametrize("name", MODULES)
def test_the_usage_names_what_must_be_given(name: str) -> None:
    made = PARSERS[f"mypt-{name}"]
    usage = made.format_usage()
    for action in made._actions:
        if action.required and action.option_strings:
            assert action.option_strings[0] in usage
        elif action.option_strings and not any(action in g._group_actions for g in made._mutually_exclusive_groups):  # fmt: skip
            assert action.option_strings[-1] not in usage
    assert usage.startswith(f"usage: mypt-{name} [OPTION ...]")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mypt-generate", "--raw --json"),
        ("mypt-generate", "--response-regex a --response-lark b"),
        ("mypt-prepare", "x --system a --system-file b"),
        ("mypt-view", "x --ids --text"),
        ("mypt-view", "x --all -n 2"),
    ],
)
def test_only_one_of_some_options_may_be_given(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        PARSERS[name].parse_args(words.split())
    assert "not allowed with argument" in capsys.readouterr().err


def test_defaults_of_mypt_prepare_are_those_of_its_options() -> None:
    chosen = vars(PARSERS["mypt-prepare"].parse_args(["x", "-o", "out"]))
    depends = {"dialect", "history", "pack", "template_options"}  # on other options
    usual = {k: v for k, v in asdict(Options()).items() if k in chosen.keys() - depends}
    assert {name: chosen[name] for name in usual} == usual


@pytest.mark.parametrize("name", MODULES)
def test_completion_knows_every_option(name: str) -> None:
    options = visible_flags(PARSERS[f"mypt-{name}"])
    assert [*candidates([f"mypt-{name}", "-"])[0]] == options
    assert {"-h", "--help", "--version"} <= set(options)


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_says_its_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        PARSERS[name].parse_args(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"{name} {__version__}\n"


def test_one_wording_for_the_dialect() -> None:
    wording = {
        name: action.help or ""
        for name, made in PARSERS.items()
        for action in made._actions
        if "--dialect" in action.option_strings
    }
    words = "the format, a folder of your own, or auto to detect it (default: "
    own = wording.pop("mypt-synth")  # has a curriculum for two formats only
    assert own == "the format: mypt or mypt-3b (default: mypt)"
    assert all(text.startswith(words) for text in wording.values()), wording
    without = {"mypt-convert", "mypt-index", "mypt-train", "mypt-lint explain", "mypt-lint rules"}
    without |= {"mypt-lint new-dialect", "mypt-lint check-dialect", "mypt-synth"}
    without |= {"mypt-lint derive", "mypt-diff"}
    assert set(PARSERS) - set(wording) == without


# Runs each command in a fork of a bare process, and prints which modules its help has loaded.
LOADED = """
import os, sys
for name in sys.argv[1:]:
    if not os.fork():
        out, sys.stdout = sys.stdout, open(os.devnull, "w")
        from mypt.main import main
        for option in ("--help", "--version"):
            try: main([name, option] if name else [option])
            except SystemExit as stop: assert not stop.code
            print(repr(name), option, *sys.modules, file=out, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def test_help_and_version_load_nothing_heavy() -> None:
    run = [sys.executable, "-c", LOADED, "", *MODULES]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 2 * (len(MODULES) + 1)
    for shown_name, option, *modules in lines:
        name = shown_name.strip("'")
        unwanted = set(HEAVY)
        if option == "--help":
            unwanted |= set() if name in ENGINE else {"mypt_spec.dialect", "mypt_spec.table"}
            unwanted |= set() if name else {"dataclasses", "mypt_cli.command"}
        assert not unwanted & set(modules), (name, option)


@pytest.mark.parametrize("name", ["mypt.main", "mypt_lint", *MODULES.values()])
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_a_module_runs_as_its_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    assert not stop.value.code
    names = {"mypt.main": "mypt", "mypt_lint": "mypt-lint"}
    command = names.get(name) or f"mypt-{next(n for n, m in MODULES.items() if m == name)}"
    assert capsys.readouterr().out.startswith(f"{command} ")


def test_an_option_is_written_as_the_help_shows_it() -> None:
    made = Parser("x", "About.")
    add = made.group("input")
    add("PATH", "files", dest="paths", nargs="*")
    add("-n --number N", "how many", type=int, default=3, old=["--n"])
    add("--kind", "of data", choices=("a", "b"))
    add("--all", "everything")
    add("--size N", "0 is any (default)", type=int, default=0)
    either = made.group("input").one_of()
    either("--this", "this")
    either("--that", "that")
    assert vars(made.parse_args(["p", "--n", "4", "--this"])) == {
        "paths": ["p"], "number": 4, "kind": None, "all": False, "size": 0, "this": True,
        "that": False,
    }  # fmt: skip
    text = made.format_help()
    assert "usage: x [OPTION ...] [PATH ...]\n" in text
    assert "-n, --number N" in text
    assert "how many (default: 3)" in text
    assert "0 is any (default)\n" in text
    assert "--n " not in text
    assert isinstance(made, argparse.ArgumentParser)


@pytest.mark.parametrize(
    "words",
    [
        ["lint", "-", "--dialect"], ["lint", "init", "--dialect"], ["view", "-", "--dialect"],
        ["convert", "-", "-o", "-", "--to", "mypt", "--from"], ["convert", "-", "-o", "-", "--to"], ["synth", "--phase", "1", "--dialect"],
        ["vocab", "-", "-o", "x", "--dialect"], ["prepare", "-", "-o", "x", "--dialect"], ["export", "x", "--dialect"],
        ["generate", "--model", "x", "--prompt", "-", "--dialect"], ["chat", "--scripted", "--dialect"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_unknown_dialect_is_named_alike(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "gabgtp"]) == 2
    what = "format" if words[-1] == "--from" else "dialect"
    assert capsys.readouterr().err.endswith(f"error: no {what} 'gabgtp'; did you mean gabgpt?\n")
    assert main([*words, "other"]) == 2
    said = capsys.readouterr().err
    assert f"error: no {what} 'other'; known are " in said
    assert ("auto, " in said) == (words[-1] != "--to")
    names = "chatml, gabgpt, harmony, llama3, mistral, mistral-v13, mypt, mypt-3b, praxis, qwen3, usf-omega"
    assert said.endswith(f"{names}, {', '.join(registered())}\n")
