"""`python -m bench.world` writes the page of public templates from rows, and shrinks conversations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.world import (
    PAGE,
    World,
    block_of,
    conversations,
    family,
    kind,
    oddities,
    rows_of,
    shrunk,
)

ENTRIES = [
    {"sha256": "a", "name": "x", "repo": "x/Qwen3-1B", "aliases": ["y/Qwen3-2B", "y/tiny-llama"]},
    {"sha256": "b", "name": "z", "repo": "z/DeepSeek-Distill-Qwen-7B", "aliases": []},
    {"sha256": "c", "name": "bare", "repo": None, "aliases": ["v/unknown"]},
]
LOST = 'the argument "Lyon" is not written; in 2 conversations, first in "two calls at once"'
FINDINGS = {
    "a": [["error", "MYP713", LOST], ["info", "MYP714", "x"]],
    "b": [["error", "MYP713", 'the answer "A" is not written, in "one question"']],
}
BASE = {"commit": "abc", "seed": 97}
FAULTS = {sha: BASE | {"sha256": sha, "findings": FINDINGS.get(sha, [])} for sha in "abc"}
FORMATS: dict[str, dict[str, Any]] = {
    "a": BASE | {"family": "qwen3", "present": ["chat", "tools"], "proved": {"chat": "yes"}},
    "b": BASE | {"family": "", "present": ["chat"], "proved": {"chat": "in part"}},
    "c": BASE | {"error": "UsageError: it cannot be read"},
}
EXAMPLE = {"template": "x", "name": "one question", "record": {"messages": [{"role": "user"}]}}


def headings(text: str) -> list[str]:
    """Returns the headings of a page but those of rules, and the first rows of its tables."""
    tables = re.findall(r"^(\|.+)\n\| ---", text, re.MULTILINE)
    return [*re.findall(r"^##? .+", text, re.MULTILINE), *tables]


def test_the_page_counts_templates_and_repositories() -> None:
    text = World(ENTRIES, FAULTS, FORMATS, {"MYP713": EXAMPLE}).page("1.0")
    for row in (
        "| chats | 2 (4) | 1 (3) | 1 (1) | 0 (0) |",
        "| tools and calls | 1 (3) | 0 (0) | 0 (0) | 1 (3) |",
        "| [MYP713](rules.md#template-loses-content-myp713) | error | A chat template loses what was said. | 2 | 4 |",
        "| qwen | 1 | 3 | 3 | 3 of 3 |  | 0 of 3 |  | MYP713 3 |",
        "| deepseek | 1 | 1 | 0 | 0 of 1 |  |  |  | MYP713 1 |",
        "| other | 1 | 2 | 0 |  |  |  |  |  |",
        '{"messages": [\n  {"role": "user"}\n]}',
    ):
        assert f"\n{row}\n" in text
    plain = " ".join(text.split())
    assert "1 templates (3 repositories) write a single call, but only the first" in plain
    assert "1 of 3 templates (2 repositories) have no finding of severity error" in plain
    assert "1 templates (2 repositories) could not be read" in plain
    assert "1 of 3 templates (3 of 6 repositories) are recognized" in plain


def test_the_committed_page_is_what_is_written() -> None:
    text = PAGE.read_text(encoding="utf-8")
    written = World(ENTRIES, FAULTS, FORMATS, {"MYP713": EXAMPLE}).page("1.0")
    assert headings(text) == headings(written)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a/DeepSeek-R1-Distill-Qwen-7B", "b/x"], "deepseek"),
        (["a/gpt-oss-20b", "b/Qwen3", "c/qwen2.5"], "qwen"),
        (["qwen/BetterGPT"], "other"),
    ],
)
def test_a_family_is_the_first_known_name(names: list[str], expected: str) -> None:
    assert family(names) == expected


def test_a_conversation_is_shrunk_while_it_shows_the_fault() -> None:
    record = conversations()["nested arguments"]
    small = shrunk(record, lambda one: "crimson" in json.dumps(one["messages"]))
    assert oddities(small) <= oddities(record)
    assert [message["role"] for message in small["messages"]] == ["user", "assistant", "tool"]
    (call,) = small["messages"][1]["tool_calls"]
    assert [*call["function"]["arguments"]] == ["query"]
    parameters = small["tools"][0]["function"]["parameters"]
    assert ([*parameters["properties"]], parameters["required"]) == (["query"], ["query"])
    assert shrunk(record, lambda _: True, trials=0) == record


def test_findings_are_of_one_kind_whatever_they_quote() -> None:
    texts = (
        'the answer "A \\" b" is lost, in "x"',
        'the answer "C" is lost; in 23 conversations, first in "y"',
    )
    assert {kind(text) for text in texts} == {"the answer … is lost"}


def test_half_a_row_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / "faults.jsonl").write_text('{"sha256": "a"}\n{"sha256": "b"')
    assert [*rows_of(tmp_path, "faults")] == ["a"]


def test_paragraphs_are_wrapped_and_tables_are_not() -> None:
    long = "word " * 40
    assert max(map(len, block_of(f"- {long}", {}).split("\n"))) <= 120
    assert block_of("{t}", {"t": f"{long}\n{long}"}) == f"{long}\n{long}"
