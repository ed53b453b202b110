"""`grammar/mistakes.toml`: names for what the grammars of chats refuse."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.own_format.begin import begin
from mypt_spec import Dialect
from mypt_spec.dialect import grammar_root, load
from mypt_spec.findings import RULES
from mypt_spec.rules.shared_mistakes import Chat, shared_mistakes
from mypt_spec.table_file import load_table
from tests.support.build import assistant, call, calls, chat, system, tool, user

SOURCE = (grammar_root() / "mistakes.toml").read_text(encoding="utf-8")
RECORDS = json.loads((grammar_root() / "records.schema.json").read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = tomllib.loads(SOURCE)["mistake"]
CHATS = [
    mypt_spec.dialect(path.parent)
    for root in (grammar_root(), grammar_root() / "families")
    for path in sorted(root.glob("*/records.toml"))
    if path.parent.name != "gabgpt"  # whose own rows name all its faults
]
S, U, A = system("x"), user("x"), assistant("x")


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
    return [finding.code for finding in load(folder).check(chat(*messages))[1]]


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
    _, findings = load(folder).check(chat(S, S, U, A))
    assert [(finding.code, finding.help) for finding in findings] == [("MYP255", "one")]
    text = load(folder).serialize(load(folder).read(chat(U, assistant("x", think="t")))[0])
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


def test_rows_name_rules_pieces_and_columns_that_exist() -> None:
    blocks = RECORDS["$defs"]["messages"]["properties"]["blocks"]["properties"]
    pieces = {*blocks, "begin", "finish"}
    for row in ROWS:
        assert set(row) <= {"code", "terminal", "inside", "after", "expected", "help", "where"}
        assert RULES[row["code"]].severity == "error"
        tags = {row[key] for key in ("terminal", "expected") if key in row} - {"TEXT", "$END"}
        tags |= {*re.findall(r"\{([^\"}]+)\}", row["help"])} - {"tools_before"}
        assert {tag.removeprefix("/") for tag in tags} <= pieces, row
        around = {*row.get("inside", ()), *row.get("after", ()), *row.get("where", "").split("/")}
        assert around <= {"", *pieces}, row
        assert {"terminal", "expected", "after"} & set(row), "it would name whatever is refused"


def test_each_row_is_of_some_format() -> None:
    pairs: list[tuple[str, str]] = []
    for d in CHATS:
        shared = shared_mistakes(SOURCE, d.adapter.chat or Chat({}), d.table)
        assert d.table.mistakes[-len(shared) :] == shared
        pairs += [(row.code, row.help) for row in shared]
    for row in ROWS:
        help_ = re.sub(r"\\{/?[a-z_]+\\}", ".+", re.escape(row["help"]))
        assert any(code == row["code"] and re.fullmatch(help_, text) for code, text in pairs), row


@pytest.mark.parametrize("d", CHATS, ids=lambda d: d.name)
def test_they_are_in_the_words_of_the_format(d: Dialect) -> None:
    system = {"MYP209"} if "system" in d.table.openers else set()
    assert {"MYP210", "MYP218", "MYP219", "MYP242"} | system <= {m.code for m in d.table.mistakes}
    tags = {tag.shown for tag in d.table.terminals.values()}
    for row in d.table.mistakes:
        assert {row.terminal, row.expected} <= {"", "TEXT", "$END", *d.table.terminals}
        assert {*(row.inside or ()), *(row.after or ())} <= {"", *d.table.openers, *d.table.marks}
        assert {*re.findall(r"`([^`]+)`", row.help)} <= tags, row.help


def test_rows_about_what_a_format_lacks_are_left_out() -> None:
    few = Chat({"user": ("user",), "answer": ("assistant",)})
    rows = shared_mistakes(SOURCE, few, mypt_spec.dialect("chatml").table)
    assert [row.code for row in rows] == ["MYP210", "MYP242", "MYP218", "MYP219"]


def test_a_place_is_a_block_by_itself_or_in_another() -> None:
    chat = Chat({"user": ("user",), "tools": ("tools",), "result": ("user", "response")})
    assert [chat.has(place) for place in ("tools", "user/result")] == [True, True]
    places = ("result", "answer/result", "answer/tools", "user/tools", "answer", "answer/user")
    assert not any(chat.has(place) for place in places)


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("mistral", "[AVAILABLE_TOOLS][]", "MYP256", "begin with `<s>`"),
        ("mistral", "<s>[INST]q[AVAILABLE_TOOLS][", "MYP255", "before the last question"),
        ("mistral-v13", "<s>[INST]q[AVAILABLE_TOOLS][", "MYP255", "before the first question"),
        ("mistral", "<s>[INST]q[INST]", "MYP218", "after `[/INST]`; in a record"),
        (
            "llama3",
            "<|start_header_id|>system<|end_header_id|>\n\n",
            "MYP256",
            "`<|begin_of_text|>`",
        ),
    ],
)
def test_helps_say_the_tags_of_the_format(name: str, text: str, code: str, words: str) -> None:
    findings = mypt_spec.dialect(name).parse(text)[1]
    assert any(words in finding.help and finding.code == code for finding in findings)


def test_a_result_without_a_call_is_told_of_the_call() -> None:
    """Where results are in the block of a user, the block alone would look like a question."""
    (finding,) = mypt_spec.dialect("qwen3").check(chat(U, tool("r"), A))[1]
    assert finding.code == "MYP218"
    assert "a result needs a call before it" in finding.help


def test_calls_at_once_are_told_that_one_is_allowed() -> None:
    findings = mypt_spec.dialect("harmony").check(chat(U, calls(call("f", {}), call("f", {}))))[1]
    assert any(f.code == "MYP311" and "one call at a time" in f.help for f in findings)


def test_a_closing_tag_is_written_by_who_writes_the_opening_one(tmp_path: Path) -> None:
    folder = own(tmp_path / "my_format")
    table = folder / "tokens.toml"
    text = table.read_text(encoding="utf-8")
    assert load(folder).table.terminals["THINK_END"].origin == "model"
    assert load(folder).table.terminals["THINK_END"].loss == 1
    named = text.replace('closes = "think"\n', 'closes = "think"\norigin = "system"\n')
    assert load_table(named).terminals["THINK_END"].origin == "system"
    several = text.replace('"assistant"]\norigin = "model"\n', '"assistant"]\n')
    assert several != text
    assert load_table(several).terminals["END"].origin == "system"


@pytest.mark.parametrize("text", ["", "I look."])
@pytest.mark.parametrize("more", [[], [A], [U, A]])
def test_calls_whose_results_must_be_in_the_answer(text: str, more: list[dict[str, Any]]) -> None:
    """With text beside calls, it is the call that is refused; its cause is the missing result."""
    fault = mypt_spec.dialect("gemma4").check(chat(U, calls(call(), content=text), *more))[1][0]
    assert fault.code == "MYP311"
    assert "right after" in fault.help
    assert "leave its calls open" not in fault.help
