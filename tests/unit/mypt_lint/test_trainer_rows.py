"""Rows of tokens for a trainer, held against the grammar and the loss mask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.trainer_rows import IGNORED, check_row
from mypt_lint.cli import main
from tests.support.strategies import episodes
from tests.support.vocabulary import path, small

MYPT = mypt_spec.dialect("mypt")
RECORD = {
    "system": "S",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello you"}],
}


def row(*records: dict[str, Any], dialect: mypt_spec.Dialect = MYPT) -> dict[str, Any]:
    """The row of some records, packed, with lengths if they are several."""
    ids: list[int] = []
    labels: list[int] = []
    lengths: list[int] = []
    for record in records:
        episode = dialect.read(record)[0]
        assert episode is not None
        encoded = dialect.encode(episode)
        ids += encoded.ids.tolist()
        labels += [
            i if loss else IGNORED for i, loss in zip(encoded.ids, encoded.loss, strict=True)
        ]
        lengths.append(len(encoded))
    out: dict[str, Any] = {"input_ids": ids, "labels": [int(label) for label in labels]}
    return out | ({"seq_lengths": lengths} if len(records) > 1 else {})


def found(value: Any) -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in check_row(MYPT, value)]


def test_a_right_row_in_all_its_forms() -> None:
    one, two = row(RECORD), row(RECORD, RECORD)
    n = len(one["input_ids"])
    pad = MYPT.tokenizer.pad
    assert found(one) == []
    assert found(one | {"attention_mask": [1] * n, "position_ids": list(range(n))}) == []
    assert found(two) == []
    del two["seq_lengths"]
    assert found(two | {"position_ids": [*range(n), *range(n)]}) == []
    assert found(two | {"attention_mask": [1] * n + [2] * n}) == []
    padded = {"input_ids": [*one["input_ids"], pad, pad], "labels": [*one["labels"], -100, -100]}
    assert found(padded) == []
    assert found(padded | {"attention_mask": [1] * n + [0, 0]}) == []
    # The first token is predicted from nothing, so its label does not matter.
    assert found(one | {"labels": [one["input_ids"][0], *one["labels"][1:]]}) == []


def test_episodes_that_see_one_another() -> None:
    two = row(RECORD, RECORD)
    n = two["seq_lengths"][0]
    assert found(two | {"seq_lengths": None}) == [("MYP512", f"/input_ids/{n}")]
    assert found(two | {"seq_lengths": [2 * n]}) == [("MYP512", f"/input_ids/{n}")]
    assert found(two | {"seq_lengths": [n, n + 1]}) == [("MYP512", "/seq_lengths")]
    wrong = [*range(n), *range(1, n + 1)]
    assert found(two | {"seq_lengths": None, "position_ids": wrong}) == [
        ("MYP512", f"/position_ids/{n}")
    ]


def test_labels_that_are_not_the_mask() -> None:
    one = row(RECORD)
    ids, labels = one["input_ids"], one["labels"]
    last = len(ids) - 1
    (finding,) = check_row(MYPT, one | {"labels": [*labels[:-1], IGNORED]})
    assert (finding.code, finding.pointer) == ("MYP506", f"/labels/{last}")
    assert "<myPT_eot>" in finding.message
    assert "does not stop" in finding.help
    (finding,) = check_row(MYPT, one | {"labels": ids})
    assert (finding.code, finding.pointer) == ("MYP506", "/labels/1")
    assert "does not write it" in finding.message
    (finding,) = check_row(MYPT, one | {"labels": [*labels[1:], IGNORED]})
    assert finding.code == "MYP511"
    assert "not shifted" in finding.help
    padded = {"input_ids": [*ids, MYPT.tokenizer.pad], "labels": [*labels, MYPT.tokenizer.pad]}
    assert found(padded) == [("MYP511", f"/labels/{last + 1}")]


def test_ids_that_are_not_legal() -> None:
    one = row(RECORD)
    cut = {key: value[:-1] for key, value in one.items()}
    assert {code for code, _ in found(cut)} == {"MYP216"}
    odd = one | {
        "input_ids": [*one["input_ids"][:-1], 60000],
        "labels": [*one["labels"][:-1], -100],
    }
    assert ("MYP503", f"/input_ids/{len(one['input_ids']) - 1}") in found(odd)


@pytest.mark.parametrize(
    ("value", "code", "at"),
    [
        ([], "MYP101", ""),
        ({"labels": []}, "MYP510", ""),
        ({"input_ids": [1], "labels": [1, 2]}, "MYP510", "/labels"),
        ({"input_ids": [1, "2"], "labels": [1, 2]}, "MYP510", "/input_ids/1"),
        ({"input_ids": [1, True], "labels": [1, 2]}, "MYP510", "/input_ids/1"),
        ({"input_ids": 7, "labels": [1, 2]}, "MYP510", "/input_ids"),
        ({"input_ids": [], "labels": []}, "MYP510", "/input_ids"),
        ({"input_ids": [1], "labels": [1], "seq_lengths": [0, 1]}, "MYP512", "/seq_lengths"),
    ],
)
def test_rows_of_another_shape(value: Any, code: str, at: str) -> None:
    assert (code, at) in found(value)


@given(st.data())
def test_rows_of_any_episodes_are_right_and_one_wrong_label_is_found(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(mypt_spec.dialects()))
    dialect = mypt_spec.dialect(name)
    encoded = dialect.encode(data.draw(episodes(name)))
    ids = encoded.ids.tolist()
    labels = [i if loss else IGNORED for i, loss in zip(ids, encoded.loss.tolist(), strict=True)]
    shown = list(check_row(dialect, {"input_ids": ids, "labels": labels}))
    assert not {f.code for f in shown} & {"MYP506", "MYP510", "MYP511", "MYP512"}
    at = data.draw(st.integers(1, len(ids) - 1))
    labels[at] = ids[at] if labels[at] == IGNORED else IGNORED
    wrong = [f.pointer for f in check_row(dialect, {"input_ids": ids, "labels": labels})
             if f.code == "MYP506"]  # fmt: skip
    assert wrong == [f"/labels/{at}"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3),
                    lambda x: st.lists(x, max_size=4) | st.dictionaries(
                        st.sampled_from(["input_ids", "labels", "seq_lengths", "position_ids",
                                         "attention_mask", "x"]), x, max_size=5), max_leaves=20))  # fmt: skip
def test_no_value_raises(value: Any) -> None:
    assert all(f.code for f in check_row(MYPT, value))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    good = row(RECORD)
    bad = good | {"labels": [*good["labels"][:-1], IGNORED]}
    path.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    run = ["--no-config", "--dialect", "mypt", "--trainer-rows", str(path)]
    assert main([*run, "--format", "concise"]) == 1
    out, err = capsys.readouterr()
    column = json.dumps(bad).rindex("-100") + 1
    assert out.startswith(f"{path}:2:{column}: MYP506 ")
    assert "1 of 2 rows" in err
    path.write_text(json.dumps([good, bad], indent=1))
    assert main([*run, "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["location"]["row"] > 20
    assert main([*run, "--fix"]) == 2
    assert "not fixed" in capsys.readouterr().err


def test_another_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dialect = small("mypt")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row(RECORD, dialect=dialect)) + "\n")
    run = ["--no-config", "--dialect", "mypt", "-q"]
    assert main([*run, "--trainer-rows", str(rows), "--vocab", str(path())]) == 0
    assert main([*run, "--trainer-rows", str(rows)]) == 1
    records = tmp_path / "records.jsonl"
    records.write_text(json.dumps(RECORD) + "\n")
    size = len(row(RECORD, dialect=dialect)["input_ids"])
    assert size > len(row(RECORD)["input_ids"])
    limit = [*run, "--max-tokens", str(size - 1), str(records)]
    assert main([*limit, "--fail-on", "warning"]) == 0
    assert main([*limit, "--vocab", str(path())]) == 1
    capsys.readouterr()
    assert main([*run, str(records), "--vocab", str(rows)]) == 2
    assert "rows.jsonl" in capsys.readouterr().err
