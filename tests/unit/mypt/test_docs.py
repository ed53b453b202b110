"""README and docs promise nothing that is not there: links, commands, options, releases."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from mypt.lint.commands import ABOUT
from mypt.table import MODULES
from mypt_cli.command import Command
from mypt_spec import __version__
from mypt_spec.dialect import families
from tests.support.pages import blocks

ROOT = Path(__file__).parents[3]
GENERATED = ("rules.md", "conversion.md")
OTHERS = [
    "README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "bench/RESULTS", "editors/vscode/README",
    "skills/mypt-tags/SKILL", "tests/README",
]  # fmt: skip
PAGES = [*(ROOT / f"{name}.md" for name in OTHERS), *sorted((ROOT / "docs").glob("*.md"))]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
WRITTEN = [p for p in PAGES if p.name not in GENERATED and not p.name.startswith("automaton")]
README, LINTER = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/linting.md")
)
COLUMNS = 120


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields each command of this package in some lines of a shell, with its words."""
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>()")
        lexer.whitespace_split = True
        words = list(lexer)
        for begin, word in enumerate(words):
            if re.fullmatch(r"mypt-[a-z]+", word):
                rest = words[begin + 1 :]
                ends = (i for i, w in enumerate(rest) if re.fullmatch(r"[;|&<>()]+", w))
                rest = rest[: next(ends, len(rest))]
                if not (word == "mypt-lint" and rest and rest[0] in ABOUT):
                    yield word, rest


def lines_of(page: Path) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").split("\n")]


def parser(name: str) -> ArgumentParser:
    command: Command = import_module(MODULES[name.removeprefix("mypt-")]).main
    return command.parser()


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_commands_are_accepted(page: Path) -> None:
    own = ["./tutor"]  # made by the page itself, whose commands are run in test_own_dialect.py
    refused = []
    for name, words in commands(lines_of(page)):
        try:
            parser(name).parse_args(["mypt" if word in own else word for word in words])
        except SystemExit:
            refused.append((name, words))
    assert refused == []


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_options_that_are_mentioned_exist(page: Path) -> None:
    spans = re.findall(r"`(mypt-[a-z]+ [^`\n]+)`", page.read_text(encoding="utf-8"))
    for name, words in commands(spans):
        options = {o for action in parser(name)._actions for o in action.option_strings}
        shown = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert shown <= options, f"{name} has no {sorted(shown - options)}"


def test_the_readme_shows_each_command() -> None:
    assert {f"mypt-{name}" for name in MODULES} <= set(re.findall(r"mypt-[a-z]+", README))


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        name, _, heading = target.partition("#")
        if "://" in target:
            continue
        there = page.parent / name if name else page
        assert there.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles]
            assert heading in slugs, target


def test_the_index_names_each_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {p.name for p in (ROOT / "docs").glob("*.md")} - {"README.md"}
    links = set(re.findall(r"\]\(([\w.-]+)\)", index))
    assert {p for p in pages if not p.startswith("automaton")} <= links


def prose(page: Path) -> list[str]:
    """Lines of a page without code, tables and links' targets."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.DOTALL)
    return [line for line in text.split("\n") if not line.startswith("|")]


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_lines_fit_on_a_screen(page: Path) -> None:
    assert [line for line in prose(page) if len(line) > COLUMNS] == []


def test_the_readme_says_what_and_why_in_thirty_lines_and_then_the_two_commands() -> None:
    lines = README.split("\n")
    assert lines.index("## Installation") <= 30
    section = README.split("## ")[1]
    first, second = blocks(section, "sh")
    assert "pip install" in first
    assert "mypt-lint" in first
    assert "pytest" in second


def test_the_changelog_has_this_version_and_one_line_for_each_change() -> None:
    versions = re.findall(r"^## (\S+)$", CHANGELOG, re.MULTILINE)
    assert versions[0] == __version__
    entries = CHANGELOG[CHANGELOG.index("\n## ") :].split("\n")
    assert [line for line in entries if line and not line.startswith(("- ", "## ", "### "))] == []
    assert [line for line in entries if len(line) > COLUMNS + 20] == []


def test_no_repository_or_release_is_named_that_does_not_exist() -> None:
    assert not re.search(r"<owner>|github\.com/[<{]|@v\d|rev: v", README + LINTER)


def test_each_editor_starts_the_server_within_three_lines() -> None:
    shown = {kind: blocks(ROOT / "docs/linting.md", kind) for kind in ("json", "lua", "toml")}
    run = ["mypt-lint", "server"]
    editor = json.loads("{{{}}}".format(next(b for b in shown["json"] if "glspc" in b)))
    assert [editor["glspc.server.command"], *editor["glspc.server.commandArguments"]] == run
    helix = tomllib.loads(next(b for b in shown["toml"] if "language-server" in b))
    server = helix["language-server"]["mypt"]
    assert [server["command"], *server["args"]] == run
    assert '"mypt-lint", "server"' in shown["lua"][0]
    every = [b for each in shown.values() for b in each]
    assert all(b.count("\n") <= 3 for b in every if "mypt-lint" in b and "server" in b)


def test_torch_can_be_had_without_gigabytes() -> None:
    line = re.search(r"`(pip install torch [^`]+)`", README)
    assert line is not None
    assert shlex.split(line[1])[-1] == "https://download.pytorch.org/whl/cpu"


def test_the_readme_counts_the_formats() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {int(n) for n in re.findall(r"one of (\d+) \[families\]", text)} == {len(families())}
