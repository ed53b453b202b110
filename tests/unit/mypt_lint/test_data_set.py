"""Findings that only the whole data shows, in their places among the others, and in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from mypt_lint.dataset.compare import DataSet
from tests.support.build import Record, assistant, native, user, write
from tests.support.linting import Linter

pytestmark = pytest.mark.usefixtures("folder")


def chat(question: str, answer: str = "A", **more: Any) -> Record:
    return native(question, answer, **more)


@pytest.fixture
def lint(lint: Linter) -> Any:
    """Lints all of the folder; returns `file:row code`, and the summary."""

    def run(*options: str) -> tuple[list[str], dict[str, Any]]:
        findings = lint("--no-config", "--data-set", *options, ".")[1]
        return [
            f"{f['filename'].removeprefix('./')}:{f['location']['row']} {f['code']}"
            for f in findings
        ], lint.summary

    return run


def test_they_stand_in_their_places_and_lines_add_up(lint: Any) -> None:
    blank = chat("3", " ")
    write("a.jsonl", chat("1"), "{", chat("2"), chat("1"), blank, blank, "{")
    write("b.jsonl", chat("2", _id=1), chat("4"))
    write("c.jsonl", chat("5"), chat("4", "B"))
    findings, summary = lint()
    assert findings == [
        "a.jsonl:2 MYP001", "a.jsonl:4 MYP601", "a.jsonl:5 MYP314", "a.jsonl:6 MYP601", "a.jsonl:6 MYP314", "a.jsonl:7 MYP001",
        "b.jsonl:1 MYP601", "c.jsonl:2 MYP602",
    ]  # fmt: skip
    assert (summary["lines"], summary["clean"], summary["faulty"]) == (11, 4, 7)
    assert sum(summary["codes"].values()) == 8
    assert lint("-j", "3") == (findings, summary)
    assert lint("--ignore", "MYP6")[0] == [row for row in findings if "MYP6" not in row]


def test_nothing_of_it_without_the_option() -> None:
    path = write("a.jsonl", chat("1"), chat("1"))
    assert main(["--no-config", "-q", "--fail-on", "info", path]) == 0


def test_overlap_with_evaluation_data(lint: Any) -> None:
    write("train.jsonl", chat("What  is X?"), chat("Z?"))
    write("val.jsonl", chat("what is x?", "B"))
    assert lint()[0] == ["train.jsonl:1 MYP603"]
    assert lint("--eval", "train.jsonl")[0] == ["val.jsonl:1 MYP603"]
    assert lint("--eval", "*.jsonl")[0] == []
    Path("prompts.txt").write_text("Z?\n\n")
    assert lint("--eval", "none", "--eval-prompts", "prompts.txt")[0] == ["train.jsonl:2 MYP606"]
    assert main(["--data-set", "--eval-prompts", "none.txt", "."]) == 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data/eval.jsonl", True), ("data/x_test.jsonl.gz", True), ("val/a.jsonl", True), ("latest.jsonl", False),
        ("evaluate/deep/a.jsonl", False), ("my-dev.jsonl", True), ("valley.jsonl", False),
    ],
)  # fmt: skip
def test_names_of_evaluation_data(path: str, expected: bool) -> None:
    assert DataSet([]).is_eval(path) == expected


def test_sources(lint: Any) -> None:
    def calling(question: str, document: Any) -> Record:
        arguments = {"q": {"doc_id": document}}
        call = {"role": "assistant_toolcall", "name": "get", "arguments": arguments}
        result = {"role": "toolresult", "name": "get", "content": "x"}
        return {"system": "S", "messages": [user(question), call, result, assistant("A")]}

    pairs = [("see D-17", "d-17"), ("see D-18", "D-19"), ("id 5", 5), ("id 6", 7)]
    cited = chat("Q", "A <myPT_cite>Guide</myPT_cite>, b")
    write("a.jsonl", *(calling(*pair) for pair in pairs), cited)
    assert lint()[0] == ["a.jsonl:2 MYP604", "a.jsonl:4 MYP604", "a.jsonl:5 MYP604"]


def test_variety(lint: Any) -> None:
    """Half of the answers must differ, and in b.jsonl just half of them do."""
    for name, different in (("a", 29), ("b", 30)):
        records = (chat(f"{name}{i}", f"{min(i, different - 1)}") for i in range(60))
        write(f"{name}.jsonl", *records)
    assert lint()[0] == ["a.jsonl:60 MYP607"]


def test_opt_out_baseline_and_settings(lint: Any) -> None:
    ignored = {"ignore": ["MYP601"], "reason": "twice on purpose"}
    write("a.jsonl", chat("1"), chat("1", _mypt_lint=ignored), chat("1"))
    assert lint()[0] == ["a.jsonl:3 MYP601"]
    assert main(["-q", "--data-set", "--write-baseline", "known", "a.jsonl"]) == 0
    assert lint("--baseline", "known")[0] == []
    Path("mypt-lint.toml").write_text('data-set = true\nfail-on = "info"\n')
    assert main(["-q", "a.jsonl"]) == 1


def test_what_cannot_be_read_is_left_out(lint: Any) -> None:
    broken = chat("1") | {"messages": [{"role": "robot"}]}
    write("a.jsonl", broken, broken, "[]", "[]", "1", "", "")
    assert not any("MYP6" in row for row in lint()[0])


def test_duplicates_are_deleted_with_two_options(capsys: pytest.CaptureFixture[str]) -> None:
    """With --data-set and --unsafe-fixes only.

    The first of them stays, and so does all that is not one of them.
    """
    opted_out = {"_mypt_lint": {"ignore": ["MYP601"], "reason": "on purpose"}}
    rows = [chat("1"), chat("2"), "{", chat("1", _n=2), chat("3"), chat("2")]
    write("a.jsonl", *rows, chat("1", **opted_out))
    write("b.jsonl", chat("2", _n=3), chat("4"))

    def contents() -> list[list[str]]:
        return [Path(name).read_text().splitlines() for name in ("a.jsonl", "b.jsonl")]

    first, second = before = contents()
    assert main(["--no-config", "--data-set", "--fix-only", "."]) == 0
    assert main(["--no-config", "--unsafe-fixes", "--fix-only", "."]) == 0
    assert contents() == before
    capsys.readouterr()
    options = ["--no-config", "--data-set", "--unsafe-fixes"]
    assert main([*options, "--diff", "."]) == 1
    diff = capsys.readouterr().out
    assert diff.count("\n-{") == 3
    assert "\n+{" not in diff
    assert main([*options, "--fix-only", "."]) == 0
    assert "Fixed 3 findings in 2 files." in capsys.readouterr().err
    assert contents() == [[line for i, line in enumerate(first) if i not in (3, 5)], second[1:]]
    assert main([*options, "--fix-only", "."]) == 0
    assert "Nothing to fix." in capsys.readouterr().err
    assert main([*options, "--fix-only", "-o", "x", "-"]) == 2
    assert "read twice" in capsys.readouterr().err


def test_the_fix_of_a_duplicate_deletes_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.jsonl", chat("ü"), chat("ü"))
    (finding,) = Linter(capsys)("--no-config", "--data-set", "a.jsonl")[1]
    assert finding["fix"]["applicability"] == "unsafe"
    length = len(Path("a.jsonl").read_text().splitlines()[1])
    assert finding["fix"]["edits"] == [{"span": [0, length], "content": ""}]
