"""What a state means: open blocks, and who writes there; and that no other code reads that off a table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mypt_spec
from mypt_spec.episode import top_level
from mypt_spec.states import (
    after_tag,
    awaits_result,
    before_tag,
    model_writes,
    model_writes_in,
    open_blocks,
)

ROOT = Path(mypt_spec.__file__).parents[1]
PACKAGES = (
    "mypt",
    "mypt_spec",
    "mypt_lint",
    "mypt_convert",
    "mypt_view",
    "mypt_train",
    "mypt_infer",
)


def test_a_block_without_a_closing_tag_ends_at_the_next_tag() -> None:
    table = mypt_spec.dialect("gabgpt").table
    user, think = table.openers["user"], table.openers["think"]
    assert "user" not in table.closers
    assert before_tag(("user",), table) == ()
    assert after_tag(("user",), think, table) == ("think",)
    assert after_tag((), user, table) == ("user",)


def test_blocks_without_closing_tags_are_grouped_one_by_one() -> None:
    d = mypt_spec.dialect("gabgpt")
    groups = top_level(d.lex("<|user|>Hi<|think|>Hm<|assistant|>Yo<|end|><|user|>Bye"), d.table)
    assert ["".join(event.text for event in group) for group in groups] == [
        "<|user|>Hi", "<|think|>Hm", "<|assistant|>Yo", "<|end|>", "<|user|>Bye",
    ]  # fmt: skip


def test_a_stray_closing_tag_closes_nothing() -> None:
    table = mypt_spec.dialect("mypt").table
    assert after_tag((), table.closers["user"], table) == ()
    assert after_tag(("system", "toolcall"), table.closers["toolcall"], table) == ("system",)


def test_open_blocks_of_all_states() -> None:
    d = mypt_spec.dialect("mypt")
    blocks = open_blocks(d.automaton, d.table)
    assert set(blocks) == set(d.automaton.states)
    assert blocks[d.automaton.start] == ()
    assert ("assistant", "think") in blocks.values()
    assert open_blocks(d.automaton, d.table) is blocks


def test_a_quotation_in_the_system_block_is_not_the_models() -> None:
    table = mypt_spec.dialect("mypt").table
    assert model_writes_in(("assistant", "toolcall"), table)
    assert not model_writes_in(("system", "toolcall"), table)


@pytest.mark.parametrize(
    ("name", "thoughts", "citations"),
    [
        ("mypt", {"think"}, {"cite"}),
        ("gabgpt", {"think"}, set()),
        ("usf-omega", {"reasoning", "self_reflection"}, set()),
        ("praxis", set(), set()),
    ],
)
def test_roles(name: str, thoughts: set[str], citations: set[str]) -> None:
    table = mypt_spec.dialect(name).table
    assert table.kinds("thought") == thoughts
    assert table.kinds("citation") == citations


def test_nobody_else_reads_open_blocks_or_writers_off_a_table() -> None:
    """`not in ... closers` in a loop, and comparisons with `origin`, are in one place each."""
    allowed = {"mypt_spec/states.py", "mypt_spec/table.py", "mypt_spec/table_file.py"}
    doubtful = re.compile(r"while .*\bclosers\b|\.origin [!=]= ")
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            assert name in allowed or not doubtful.search(path.read_text("utf-8")), name


def after(d: mypt_spec.Dialect, text: str) -> int:
    """The state after a text."""
    state = d.automaton.start
    for event in d.lex(text):
        state = d.automaton.step(state, event.terminal)
    return state


def test_what_the_model_may_write() -> None:
    d = mypt_spec.dialect("mypt")
    own = model_writes(d.automaton, d.table)
    assert own[d.automaton.start] == frozenset()
    assert own[after(d, "<myPT_system>S")] == frozenset(), "a call there is a quotation"
    user = "<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user>"
    assert own[after(d, user)] == {"ASSISTANT_OPEN"}
    assert {"TEXT", "THINK_OPEN", "TOOLCALL_OPEN"} <= own[after(d, user + "<myPT_assistant>")]
    gabgpt = mypt_spec.dialect("gabgpt")
    terminals = model_writes(gabgpt.automaton, gabgpt.table)[after(gabgpt, "<|user|>Hi")]
    assert terminals == {"ASSISTANT", "THINK"}, "the user's block has no closing tag"


@pytest.mark.parametrize(
    ("name", "call", "waits"),
    [
        ("mypt", '<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user><myPT_assistant><myPT_toolcall>{"name": "f"}</myPT_toolcall></myPT_assistant>', True),
        ("praxis", '[BOS]user\nHi\n[SEP]\n[BOS]assistant\n<tin>\n{"name": "f", "arguments": {}}\n</tin>', True),
        ("mypt", "", False),
        ("mypt", "<myPT_system>", False),
        ("mypt", "<myPT_system>S</myPT_system><myPT_user>", False),
        ("praxis", "", False), ("mypt-3b", "", False), ("gabgpt", "", False), ("usf-omega", "", False),
    ],
)  # fmt: skip
def test_a_result_comes_after_a_call_alone(name: str, call: str, waits: bool) -> None:
    """The system may write other blocks elsewhere, such as its prompt, for which nobody waits."""
    d = mypt_spec.dialect(name)
    assert awaits_result(after(d, call), d.automaton, d.table) == waits
