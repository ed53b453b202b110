"""Rows of tokens for a trainer, held against the grammar and the loss mask."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main
from mypt.prepare.cli import main as prepare
from mypt_lint.check.trainer_rows import IGNORED, check_row
from tests.support.build import assistant, call, calls, chat, native, tool, user, write
from tests.support.strategies import episodes
from tests.support.vocabulary import path, small

MYPT = mypt_spec.dialect("mypt")
RECORD = native("Hi", "Hello you")


def labels_of(encoded: Any) -> list[int]:
    """The labels that the loss mask asks for."""
    pairs = zip(encoded.ids.tolist(), encoded.loss.tolist(), strict=True)
    return [i if loss else IGNORED for i, loss in pairs]


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
        labels += labels_of(encoded)
        lengths.append(len(encoded))
    out: dict[str, Any] = {"input_ids": ids, "labels": labels}
    return out | ({"seq_lengths": lengths} if len(records) > 1 else {})


def findings_of(value: Any) -> list[tuple[str, str]]:
    return [(f.code, f.pointer) for f in check_row(MYPT, value)]


def test_a_right_row_in_all_its_forms() -> None:
    one, two = row(RECORD), row(RECORD, RECORD)
    n = len(one["input_ids"])
    pad = MYPT.tokenizer.pad
    assert findings_of(one) == []
    assert findings_of(one | {"attention_mask": [1] * n, "position_ids": list(range(n))}) == []
    assert findings_of(two) == []
    del two["seq_lengths"]
    assert findings_of(two | {"position_ids": [*range(n), *range(n)]}) == []
    assert findings_of(two | {"attention_mask": [1] * n + [2] * n}) == []
    padded = {"input_ids": [*one["input_ids"], pad, pad], "labels": [*one["labels"], -100, -100]}
    assert findings_of(padded) == []
    assert findings_of(padded | {"attention_mask": [1] * n + [0, 0]}) == []
    # The first token is predicted from nothing, so its label does not matter.
    assert findings_of(one | {"labels": [one["input_ids"][0], *one["labels"][1:]]}) == []


def test_episodes_that_see_one_another() -> None:
    two = row(RECORD, RECORD)
    n = two["seq_lengths"][0]
    assert findings_of(two | {"seq_lengths": None}) == [("MYP512", f"/input_ids/{n}")]
    assert findings_of(two | {"seq_lengths": [2 * n]}) == [("MYP512", f"/input_ids/{n}")]
    assert findings_of(two | {"seq_lengths": [n, n + 1]}) == [("MYP512", "/seq_lengths")]
    wrong = [*range(n), *range(1, n + 1)]
    joined = two | {"seq_lengths": None, "position_ids": wrong}
    assert findings_of(joined) == [("MYP512", f"/position_ids/{n}")]


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
    assert findings_of(padded) == [("MYP511", f"/labels/{last + 1}")]


def test_ids_that_are_not_legal() -> None:
    one = row(RECORD)
    cut = {key: value[:-1] for key, value in one.items()}
    assert {code for code, _ in findings_of(cut)} == {"MYP216"}
    ids, labels = one["input_ids"], one["labels"]
    odd = one | {"input_ids": [*ids[:-1], 60000], "labels": [*labels[:-1], IGNORED]}
    assert ("MYP503", f"/input_ids/{len(ids) - 1}") in findings_of(odd)


@pytest.mark.parametrize("answer", ["Hello.", " lead"])
def test_options_of_a_record_that_ids_do_not_say(answer: str) -> None:
    """An empty thought that the prompt ends with is not trained, and may be encoded otherwise."""
    qwen3 = mypt_spec.dialect("qwen3")
    calling = calls(call("f", {}), reasoning_content="Hm.")
    messages = (user(), calling, tool(), assistant(answer))
    one = row(chat(*messages, chat_template_kwargs={"enable_thinking": False}), dialect=qwen3)
    assert list(check_row(qwen3, one)) == []
    last = len(one["labels"]) - 1
    one["labels"][last] = one["input_ids"][last]
    (finding,) = check_row(qwen3, one)
    assert (finding.code, finding.pointer) == ("MYP506", f"/labels/{last}")


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
        ({"input_ids": [50257], "labels": [1], "seq_lengths": [0, 1]}, "MYP512", "/seq_lengths"),
    ],
)
def test_rows_of_another_shape(value: Any, code: str, at: str) -> None:
    assert (code, at) in findings_of(value)


def test_masks_in_the_place_of_labels() -> None:
    """As TRL keeps them: what each of them has as 1 is trained."""
    one = row(RECORD)
    labels = one.pop("labels")
    mask = [int(label != IGNORED) for label in labels]
    some = [1] * len(mask)
    assert findings_of(one | {"assistant_masks": mask}) == []
    assert findings_of(one | {"completion_mask": some, "assistant_masks": mask}) == []
    assert findings_of(one | {"completion_mask": some}) == [("MYP506", "/completion_mask/1")]
    odd = [*mask[:-1], 2]
    at = len(odd) - 1
    assert findings_of(one | {"assistant_masks": odd}) == [("MYP510", f"/assistant_masks/{at}")]
    assert findings_of(one | {"assistant_masks": mask[1:]}) == [("MYP510", "/assistant_masks")]
    assert findings_of(one) == [("MYP510", "")]


def test_rows_are_read_by_the_vocabulary_of_their_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Elsewhere, that their ids are another vocabulary's is said once."""
    data = write(tmp_path / "data.jsonl", *[native(f"Hi {i}", "Hello you") for i in range(20)])
    out = tmp_path / "out"
    made = [data, "--vocab", str(path()), "--format", "trl", "-o", str(out), "-q", "--no-config"]
    assert prepare(made) == 0
    (rows,) = out.glob("train*/**/*.jsonl")
    run = ["--no-config", "--dialect", "mypt", "--trainer-rows"]
    assert main([*run, str(rows)]) == 0
    alone = shutil.copy(rows, tmp_path / "rows.jsonl")
    capsys.readouterr()
    assert main([*run, str(alone), "--format", "concise"]) == 1
    text, err = capsys.readouterr()
    (line,) = text.splitlines()
    assert "MYP513" in line
    assert "in 20 of 20 records" in line
    assert "1 error" in err


@given(st.data())
def test_rows_of_any_episodes_are_right_and_one_wrong_label_is_found(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(mypt_spec.dialects()))
    dialect = mypt_spec.dialect(name)
    encoded = dialect.encode(data.draw(episodes(name)))
    ids = encoded.ids.tolist()
    labels = labels_of(encoded)
    findings = list(check_row(dialect, {"input_ids": ids, "labels": labels}))
    assert not {f.code for f in findings} & {"MYP506", "MYP510", "MYP511", "MYP512"}
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
    good = row(RECORD)
    bad = good | {"labels": [*good["labels"][:-1], IGNORED]}
    path = write(tmp_path / "rows.jsonl", good, bad)
    run = ["--no-config", "--dialect", "mypt", "--trainer-rows", path]
    assert main([*run, "--format", "concise"]) == 1
    out, err = capsys.readouterr()
    column = json.dumps(bad).rindex("-100") + 1
    assert out.startswith(f"{path}:2:{column}: MYP506 ")
    assert "1 of 2 rows" in err
    Path(path).write_text(json.dumps([good, bad], indent=1))
    assert main([*run, "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["location"]["row"] > 20
    assert main([*run, "--fix"]) == 2
    assert "not fixed" in capsys.readouterr().err


def test_another_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dialect = small("mypt")
    rows = write(tmp_path / "rows.jsonl", row(RECORD, dialect=dialect))
    run = ["--no-config", "--dialect", "mypt", "-q"]
    assert main([*run, "--trainer-rows", rows, "--vocab", str(path())]) == 0
    assert main([*run, "--trainer-rows", rows]) == 1
    records = write(tmp_path / "records.jsonl", RECORD)
    size = len(row(RECORD, dialect=dialect)["input_ids"])
    assert size > len(row(RECORD)["input_ids"])
    limit = [*run, "--max-tokens", str(size - 1), records]
    assert main([*limit, "--fail-on", "warning"]) == 0
    assert main([*limit, "--vocab", str(path())]) == 1
    capsys.readouterr()
    assert main([*run, records, "--vocab", rows]) == 2
    assert "rows.jsonl" in capsys.readouterr().err
