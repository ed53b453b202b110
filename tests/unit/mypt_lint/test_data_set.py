"""Findings that only the whole data shows, in their places among the others, and in bounded memory."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.cli import main
from mypt_lint.dataset.compare import DataSet
from mypt_lint.dataset.seen import Seen


def chat(question: str, answer: str = "A", **more: Any) -> dict[str, Any]:
    return {
        "system": "S",
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ],
        **more,
    }


def write(path: Path, *records: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records),
        encoding="utf-8",
    )


@pytest.fixture
def lint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*options: str) -> tuple[list[str], dict[str, Any]]:
        main(["--no-config", "--data-set", "--format", "jsonl", *options, "."])
        *found, summary = map(json.loads, capsys.readouterr().out.splitlines())
        return [
            f"{f['filename'].removeprefix('./')}:{f['location']['row']} {f['code']}" for f in found
        ], summary

    return run


def test_they_stand_in_their_places_and_lines_add_up(lint: Any, tmp_path: Path) -> None:
    write(
        tmp_path / "a.jsonl",
        chat("1"),
        "{",
        chat("2"),
        chat("1"),
        chat("3", " "),
        chat("3", " "),
        "{",
    )
    write(tmp_path / "b.jsonl", chat("2", _id=1), chat("4"))
    write(tmp_path / "c.jsonl", chat("5"), chat("4", "B"))
    found, summary = lint()
    assert found == [
        "a.jsonl:2 MYP001", "a.jsonl:4 MYP601", "a.jsonl:5 MYP314", "a.jsonl:6 MYP601", "a.jsonl:6 MYP314", "a.jsonl:7 MYP001",
        "b.jsonl:1 MYP601", "c.jsonl:2 MYP602",
    ]  # fmt: skip
    assert (summary["lines"], summary["clean"], summary["faulty"]) == (11, 4, 7)
    assert sum(summary["codes"].values()) == 8
    assert lint("-j", "3") == (found, summary)
    assert lint("--ignore", "MYP6")[0] == [row for row in found if "MYP6" not in row]


def test_nothing_of_it_without_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.jsonl", chat("1"), chat("1"))
    assert main(["--no-config", "-q", "--fail-on", "info", str(tmp_path)]) == 0


def test_overlap_with_evaluation_data(lint: Any, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", chat("What  is X?"), chat("Z?"))
    write(tmp_path / "val.jsonl", chat("what is x?", "B"))
    assert lint()[0] == ["train.jsonl:1 MYP603"]
    assert lint("--eval", "train.jsonl")[0] == ["val.jsonl:1 MYP603"]
    assert lint("--eval", "*.jsonl")[0] == []
    (tmp_path / "prompts.txt").write_text("Z?\n\n")
    assert lint("--eval", "none", "--eval-prompts", "prompts.txt")[0] == ["train.jsonl:2 MYP606"]
    assert main(["--data-set", "--eval-prompts", "none.txt", "."]) == 2


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("data/eval.jsonl", True),
        ("data/x_test.jsonl.gz", True),
        ("val/a.jsonl", True),
        ("latest.jsonl", False),
        ("evaluate/deep/a.jsonl", False),
        ("my-dev.jsonl", True),
        ("valley.jsonl", False),
    ],
)
def test_names_of_evaluation_data(path: str, wanted: bool) -> None:
    assert DataSet([]).is_eval(path) == wanted


def test_sources(lint: Any, tmp_path: Path) -> None:
    def asks(seen: str, doc: Any) -> dict[str, Any]:
        call = {"role": "assistant_toolcall", "name": "get", "arguments": {"q": {"doc_id": doc}}}
        return chat(seen) | {
            "messages": [
                {"role": "user", "content": seen},
                call,
                {"role": "toolresult", "name": "get", "content": "x"},
                {"role": "assistant", "content": "A"},
            ]
        }

    write(
        tmp_path / "a.jsonl",
        asks("see D-17", "d-17"),
        asks("see D-18", "D-19"),
        asks("id 5", 5),
        asks("id 6", 7),
        chat("Q", "A <myPT_cite>Guide</myPT_cite>, b"),
    )
    assert lint()[0] == ["a.jsonl:2 MYP604", "a.jsonl:4 MYP604", "a.jsonl:5 MYP604"]


def test_variety(lint: Any, tmp_path: Path) -> None:
    """Half of the answers must differ, and in b.jsonl just half of them do."""
    for name, different in (("a", 29), ("b", 30)):
        answers = [f"{min(i, different - 1)}" for i in range(60)]
        records = (chat(f"{name}{i}", answer) for i, answer in enumerate(answers))
        write(tmp_path / f"{name}.jsonl", *records)
    assert lint()[0] == ["a.jsonl:60 MYP607"]


def test_opt_out_baseline_and_settings(
    lint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ignored = {"ignore": ["MYP601"], "reason": "twice on purpose"}
    write(tmp_path / "a.jsonl", chat("1"), chat("1", _mypt_lint=ignored), chat("1"))
    assert lint()[0] == ["a.jsonl:3 MYP601"]
    assert main(["-q", "--data-set", "--write-baseline", "known", "a.jsonl"]) == 0
    assert lint("--baseline", "known")[0] == []
    (tmp_path / "mypt-lint.toml").write_text('data-set = true\nfail-on = "info"\n')
    capsys.readouterr()
    assert main(["-q", "a.jsonl"]) == 1


def test_what_cannot_be_read_is_left_out(lint: Any, tmp_path: Path) -> None:
    broken = chat("1") | {"messages": [{"role": "robot"}]}
    write(tmp_path / "a.jsonl", broken, broken, "[]", "[]", "1", "", "")
    assert not any("MYP6" in row for row in lint()[0])


def test_a_table_of_what_was_seen() -> None:
    table, truth = Seen(1 << 10), {}
    random.seed(5)
    for i in range(5000):
        key = random.choice([0, 1, random.getrandbits(64), random.getrandbits(4) << 60])
        want = truth.get(key or 1)
        assert table.get(key) == want
        assert table.put(key, i) == want
        if want is None and len(truth) < (1 << 10) * 3 // 4:
            truth[key or 1] = i
    assert table.full
    assert table.count == len(truth)


def test_duplicates_are_deleted_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --data-set and --unsafe-fixes only.

    The first of them stays, and so does all that is not one of them.
    """
    monkeypatch.chdir(tmp_path)
    kept = {"_mypt_lint": {"ignore": ["MYP601"], "reason": "on purpose"}}
    rows = [chat("1"), chat("2"), "{", chat("1", _n=2), chat("3"), chat("2"), chat("1", **kept)]
    write(tmp_path / "a.jsonl", *rows)
    write(tmp_path / "b.jsonl", chat("2", _n=3), chat("4"))
    lines = [path.read_text().splitlines() for path in (tmp_path / "a.jsonl", tmp_path / "b.jsonl")]
    assert main(["--no-config", "--data-set", "--fix-only", "."]) == 0
    assert main(["--no-config", "--unsafe-fixes", "--fix-only", "."]) == 0
    assert [(tmp_path / name).read_text().splitlines() for name in ("a.jsonl", "b.jsonl")] == lines
    capsys.readouterr()
    options = ["--no-config", "--data-set", "--unsafe-fixes"]
    assert main([*options, "--diff", "."]) == 1
    diff = capsys.readouterr().out
    assert diff.count("\n-{") == 3
    assert "\n+{" not in diff
    assert main([*options, "--fix-only", "."]) == 0
    assert "Fixed 3 warnings in 2 files." in capsys.readouterr().err
    assert (tmp_path / "a.jsonl").read_text().splitlines() == [
        line for i, line in enumerate(lines[0]) if i not in (3, 5)
    ]
    assert (tmp_path / "b.jsonl").read_text().splitlines() == lines[1][1:]
    assert main([*options, "--fix-only", "."]) == 0
    assert "Nothing to fix." in capsys.readouterr().err
    assert main([*options, "--fix-only", "-o", "x", "-"]) == 2
    assert "read twice" in capsys.readouterr().err


def test_the_fix_of_a_duplicate_deletes_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.jsonl", chat("ü"), chat("ü"))
    main(["--no-config", "-q", "--data-set", "--format", "json", str(tmp_path / "a.jsonl")])
    (found,) = json.loads(capsys.readouterr().out)
    assert found["fix"]["applicability"] == "unsafe"
    assert found["fix"]["edits"] == [
        {"span": [0, len((tmp_path / "a.jsonl").read_text().splitlines()[1])], "content": ""}
    ]
