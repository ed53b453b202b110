"""`grammar/mistakes.toml`: names for what the grammars of chats refuse."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_lint.own.begin import begin
from mypt_spec.adapters.messages import PIECES
from mypt_spec.dialect import grammar_root, load
from mypt_spec.findings import RULES
from mypt_spec.table_file import load_table

ROWS = tomllib.loads((grammar_root() / "mistakes.toml").read_text(encoding="utf-8"))["mistake"]
EXAMPLES = Path(__file__).parents[3] / "examples"
S, U, A = ({"role": r, "content": "x"} for r in ("system", "user", "assistant"))


def own(folder: Path, *, drop: bool = True) -> Path:
    """Returns a new format; without rows of mistakes, unless these are not to be dropped."""
    begin(folder)
    table = folder / "tokens.toml"
    text = table.read_text(encoding="utf-8")
    assert "[[mistake]]" in text
    if drop:
        table.write_text(text.partition("[[mistake]]")[0], encoding="utf-8")
    return folder


def codes(folder: Path, messages: list[dict[str, Any]]) -> list[str]:
    return [finding.code for finding in load(folder).check({"messages": messages})[1]]


@pytest.mark.parametrize(
    ("messages", "code"),
    [([S, S, U, A], "MYP209"), ([U, A, A], "MYP242"), ([U, U, A], "MYP218"), ([A], "MYP219")],
)
def test_a_format_has_names_without_a_row(
    tmp_path: Path, messages: list[dict[str, Any]], code: str
) -> None:
    assert codes(own(tmp_path / "my_format"), messages) == [code]


def test_text_between_blocks_has_a_name(tmp_path: Path) -> None:
    _, findings = load(own(tmp_path / "my_format")).parse("x<|user|>x<|end|><|assistant|>x<|end|>")
    assert [finding.code for finding in findings] == ["MYP210"]


def test_rows_of_the_format_come_first(tmp_path: Path) -> None:
    folder = own(tmp_path / "my_format", drop=False)
    with (folder / "tokens.toml").open("a", encoding="utf-8") as file:
        file.write('\n[[mistake]]\ncode = "MYP255"\nterminal = "SYSTEM"\nhelp = "one"\n')
    _, findings = load(folder).check({"messages": [S, S, U, A]})
    assert [(finding.code, finding.help) for finding in findings] == [("MYP255", "one")]
    think = {"role": "assistant", "think": "t", "content": "x"}
    text = load(folder).serialize(load(folder).read({"messages": [U, think]})[0])
    _, findings = load(folder).parse(text.replace("<|assistant|>", "<|assistant|>x"))
    assert [finding.code for finding in findings] == ["MYP206"]


def test_blocks_are_those_of_the_records(tmp_path: Path) -> None:
    """Where no role is called system, no block is one."""
    folder = own(tmp_path / "my_format")
    records = folder / "records.toml"
    text = records.read_text(encoding="utf-8")
    records.write_text(
        text.replace('role = "system"', 'role = "rules"\nblock = "system"'), encoding="utf-8"
    )
    rules = S | {"role": "rules"}
    assert codes(folder, [rules, rules, U, A]) == ["MYP219"]
    assert codes(folder, [U, A, A]) == ["MYP242"]


def test_an_adapter_names_no_block_unless_it_says_so() -> None:
    for name in ("mypt", "mypt-3b", "praxis", "gabgpt", "usf-omega"):
        d = mypt_spec.dialect(name)
        text = (grammar_root() / name.replace("-", "_") / "tokens.toml").read_text(encoding="utf-8")
        assert d.table.mistakes == load_table(text).mistakes


def test_each_row_names_a_rule_and_is_of_use() -> None:
    pieces = {"", "TEXT", "begin", *PIECES, *(f"answer/{piece}" for piece in PIECES)}
    folders = [path.parent for path in grammar_root().glob("*/records.toml")]
    folders += [path.parent for path in EXAMPLES.glob("*/records.toml")]
    helps = {row.help for folder in folders for row in load(folder).table.mistakes}
    for row in ROWS:
        named = [row.get("terminal", ""), row.get("expected", "")]
        assert {*named, *row.get("inside", []), *row.get("after", [])} <= pieces
        assert row["code"] in RULES
        assert row["help"] in helps


def test_a_closing_tag_is_written_by_who_writes_the_opening_one(tmp_path: Path) -> None:
    folder = own(tmp_path / "my_format")
    table = folder / "tokens.toml"
    text = table.read_text(encoding="utf-8")
    assert load(folder).table.terminals["THINK_END"].origin == "model"
    assert load(folder).table.terminals["THINK_END"].loss == 1
    said = text.replace('closes = "think"\n', 'closes = "think"\norigin = "system"\n')
    assert load_table(said).terminals["THINK_END"].origin == "system"
    several = text.replace('"assistant"]\norigin = "model"\n', '"assistant"]\n')
    assert several != text
    assert load_table(several).terminals["END"].origin == "system"
