"""Baselines: a known finding stays known however the data is arranged, and one of an edited episode
does not.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.cli import main
from mypt_lint.settings.baseline import keys
from tests.support.strategies import broken_records, lines_of


def lines(count: int) -> list[bytes]:
    """Lines of which every third has a fault of another kind, and every episode is another one."""
    out = []
    for i in range(count):
        record: dict[str, Any] = {
            "system": "S",
            "messages": [
                {"role": "user", "content": f"Q{i}"},
                {"role": "assistant", "content": "A"},
            ],
            "_id": i,
        }
        if i % 3 == 0:
            record["messages"][1]["content"] = [" ", "<myPT_user>", "A<myPT_eot>"][i // 3 % 3]
        if i % 7 == 0:
            record["messages"][0]["role"] = "robot"
        out.append(json.dumps(record).encode() + b"\n")
    return [*out, b'{"cut": \n', b'{"a": 1, "a": 2}\n', b"\n"]


@pytest.fixture
def known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    data, file = lines(60), tmp_path / "known.jsonl"
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.jsonl").write_bytes(b"".join(data))
    assert main(["--write-baseline", str(file), "--fail-on", "info", str(tmp_path / "data")]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "known from now on" in err

    def lint(*options: str) -> tuple[int, str, str]:
        status = main(
            [
                "--baseline",
                str(file),
                "--fail-on",
                "info",
                "--format",
                "concise",
                *options,
                str(tmp_path / "data"),
            ]
        )
        return status, *capsys.readouterr()

    return data, tmp_path / "data", file, lint


def test_nothing_new(known: Any) -> None:
    _, _, _, lint = known
    status, out, err = lint()
    assert (status, out) == (0, "")
    assert "findings known from" in err
    assert "no more" not in err


def test_shuffled_resharded_and_packed(known: Any) -> None:
    data, folder, _, lint = known
    (folder / "x.jsonl").unlink()
    data = [
        json.dumps(
            json.loads(raw) | {"_shard": 1}, ensure_ascii=False, separators=(",", ":")
        ).encode()
        + b"\n"
        if raw.startswith(b'{"system')
        else raw
        for raw in data
    ]
    random.Random(1).shuffle(data)
    (folder / "a.jsonl").write_bytes(b"".join(data[:20]))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(data[20:50])))
    (folder / "c.ndjson").write_bytes(b"".join(data[50:] + data[:7]))
    for jobs in ("1", "3"):
        assert lint("-j", jobs)[:2] == (0, "")


def test_an_edited_episode_is_known_no_more(known: Any) -> None:
    data, folder, file, lint = known
    edited = [raw.replace(b'"Q3"', b'"Q3!"') for raw in data]
    (folder / "x.jsonl").write_bytes(b"".join(edited))
    status, out, err = lint()
    assert status == 1
    assert [line.split(":")[1] for line in out.splitlines()] == ["4"]
    assert "1 entry" in err
    before = file.read_bytes()
    assert lint("--prune-baseline")[0] == 1
    assert len(file.read_bytes().splitlines()) == len(before.splitlines()) - 1
    assert "no more" not in lint()[2]
    (folder / "x.jsonl").write_bytes(b"".join(data))
    assert lint()[0] == 1, "what was pruned is new again"


def test_another_fault_of_a_known_episode_is_new(known: Any) -> None:
    data, folder, _, lint = known
    (folder / "x.jsonl").write_bytes(b"".join(data).replace(b'{"cut": \n', b'{"cut": ]\n'))
    assert lint()[0] == 1


def test_damage_is_never_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file = tmp_path / "x.jsonl.gz", tmp_path / "known.jsonl"
    path.write_bytes(gzip.compress(b"".join(lines(300)))[:-30])
    assert main(["-q", "--write-baseline", str(file), str(path)]) == 0
    assert main(["-q", "--baseline", str(file), "--format", "concise", str(path)]) == 1
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["MYP003"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]\n",
        '{"mypt-lint-baseline": 9}\n',
        '{"mypt-lint-baseline": 1}\n{"a": 1}\n',
        '{"mypt-lint-baseline": 1}\n["x", ["MYP001"',
    ],
)
def test_what_is_no_baseline_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "known.jsonl"
    file.write_text(text)
    assert main(["--baseline", str(file), str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_what_does_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = str(tmp_path / "x.jsonl")
    Path(x).write_bytes(b"\n")
    for options in (
        ["--baseline", x + "none"],
        ["--prune-baseline"],
        ["--write-baseline", x, "--fix"],
        ["--write-baseline", x + "/y"],
        ["--kind", "text", "--baseline", x],
    ):
        assert main([*options, x]) == 2
        assert capsys.readouterr().err.startswith("mypt-lint: error: ")


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_keys_do_not_depend_on_spelling(data: st.DataObject) -> None:
    """Nor on the row, nor on metadata."""
    checker = Checker(mypt_spec.dialect("mypt"))
    record = data.draw(broken_records("mypt"))[0]
    one, two = (
        data.draw(lines_of(record).filter(lambda line: b"\n" not in line)) for _ in range(2)
    )
    found = checker.line(one, row=2, filename=""), checker.line(two, row=900, filename="x")
    if not any(
        i.finding.code in ("MYP002", "MYP004", "MYP005", "MYP006", "MYP008")
        for side in found
        for i in side
    ):
        assert set(keys(found[0], one)) == set(keys(found[1], two))
