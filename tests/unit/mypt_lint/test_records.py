"""The linter on records of other tools: what is found out, where findings are, what is said once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.cli import main
from tests.support.conversion import FEATURES
from tests.unit.mypt_records.test_shapes import RECORDS

USER, SAID = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}
OPENAI = {"messages": [USER, SAID]}
GPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}
NATIVE = {"system": "S", "messages": [USER, SAID]}
PLAIN = "checked without a format, --dialect NAME checks them as one"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*records: Any, name: str = "x.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return name


def lint(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[str], list[str]]:
    """Returns (status, findings, what is said)."""
    status = main([*args, "--format", "concise"])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err.splitlines()


@pytest.mark.parametrize(("shape", "record", "_said"), RECORDS)
def test_good_records_of_every_shape_have_no_findings(
    shape: str, record: Any, _said: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(*[record] * 4)
    for args in ((path,), (path, "--records", shape), (path, "--dialect", "usf-omega")):
        status, found, _ = lint(capsys, *args)
        assert (status, found) == (0, []), args


def test_the_first_line_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, said = lint(capsys, write(OPENAI, OPENAI))
    assert said == [f"x.jsonl: OpenAI records (messages); {PLAIN}", "2 lines clean (1 file)"]
    _, _, said = lint(capsys, write(GPT), "--dialect", "praxis")
    assert (
        said[0]
        == "x.jsonl: ShareGPT records (conversations); checked as praxis, --records sharegpt says so"
    )
    assert len(lint(capsys, write(GPT), "--records", "sharegpt")[2]) == 1, "who says it knows it"
    assert len(lint(capsys, write(GPT), "-q")[2]) == 0


@pytest.mark.parametrize("cell", ["system prompt", "call and result", "citation", "thinking"])
def test_records_of_the_default_dialect_are_left_alone(
    cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "mypt" not in FEATURES.get(cell, {}):
        pytest.skip("no such record")
    status, found, said = lint(capsys, write(*[FEATURES[cell]["mypt"]] * 3))
    assert (status, found, said) == (0, [], ["3 lines clean (1 file)"])


def test_another_dialect_is_found_out(capsys: pytest.CaptureFixture[str]) -> None:
    thinking = (
        FEATURES["thinking"]["gabgpt"]
        if "thinking" in FEATURES
        else {"messages": [USER, SAID | {"think": "t"}]}
    )
    status, found, said = lint(capsys, write(*[thinking] * 3))
    assert (status, found) == (0, [])
    assert said[0].startswith("x.jsonl: gabgpt")
    assert "--dialect gabgpt says so" in said[0]


def test_a_record_that_only_the_named_dialect_can_read_is_read_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As it was before: a plain chat is a record of gabgpt, and nothing is said."""
    _, _, said = lint(capsys, write(OPENAI), "--dialect", "gabgpt")
    assert said == ["1 line clean (1 file)"]


def test_what_a_dialect_cannot_say_is_a_finding_in_the_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = {"conversations": [{"from": "system", "value": "S"}, *GPT["conversations"]]}
    path = write(record)
    status, found, _ = lint(capsys, path, "--dialect", "gabgpt")
    column = Path(path).read_text().index('"S"') + 1
    assert status == 1
    assert found == [
        f"x.jsonl:1:{column}: MYP114 not-in-the-format: system: gabgpt has no place for it"
    ]


def test_a_finding_of_the_dialect_has_its_place_in_the_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two <myPT_eot> three"}]
    record = {
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": parts}, SAID]
    }
    path = write(record)
    status, found, _ = lint(capsys, path, "--dialect", "mypt")
    assert status == 1
    at = Path(path).read_text().index("<myPT_eot>") + 1
    assert [line.split(": ")[0:2] for line in found] == [
        [f"x.jsonl:1:{at}", "MYP203 eot-after-user"]
    ]
    alpaca = write({"instruction": "one", "input": "two <myPT_eot>", "output": "x", "system": "S"})
    _, found, _ = lint(capsys, alpaca, "--dialect", "mypt")
    at = Path(alpaca).read_text().index("<myPT_eot>") + 1
    assert [line.split(": ")[0:2] for line in found] == [
        [f"x.jsonl:1:{at}", "MYP203 eot-after-user"]
    ]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_several_shapes_are_one_finding(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    alpaca = {"instruction": "Hi", "output": "Yo"}
    path = write(*[OPENAI] * 7, GPT, OPENAI, GPT, alpaca)
    status, found, said = lint(capsys, path, "-j", jobs)
    assert status == 1
    assert len(found) == 1
    assert found[0].startswith("x.jsonl:8:1: MYP113 mixed-shapes: the file has OpenAI records")
    assert "2 ShareGPT records (conversations), 1 Alpaca records" in found[0]
    assert said[-1] == "1 error in 3 of 11 lines (8 clean, 3 faulty; 1 file)"


def test_a_later_range_of_a_file_counts_its_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_lint.run.parallel.RANGE", 200)
    path = write(*[OPENAI] * 30, GPT, *[OPENAI] * 5, GPT)
    _, found, _ = lint(capsys, path, "-j", "2")
    assert [line.split(" ")[0] for line in found] == ["x.jsonl:31:1:"]


KEYS = {"id": "x", "source": "web"}


@pytest.mark.parametrize("record", [NATIVE, OPENAI, GPT | {"id": None}])
def test_metadata_is_one_warning_for_each_key(
    record: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(*[record | {"source": i, "category": "c"} for i in range(5)], record)
    status, found, _ = lint(capsys, path)
    assert status == 0
    assert [line.split(": ", 1)[1].split(" ")[0] for line in found] == ["MYP112", "MYP112"]
    assert all(": in 5 of 6 records" in line for line in found)
    Path("mypt-lint.toml").write_text(
        '[metadata]\nkeys = ["source"]\n[files."x.jsonl".metadata]\nkeys = ["category"]\n'
    )
    assert lint(capsys, path)[:2] == (0, [])
    Path("mypt-lint.toml").unlink()
    assert main(["-q", "--fix", path]) == 0
    made = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert made[0] == {k: v for k, v in record.items() if v is not None or k in made[0]} | {
        "_source": 0,
        "_category": "c",
    }
    assert lint(capsys, path)[:2] == (0, [])


@pytest.mark.parametrize("record", [NATIVE, OPENAI])
@pytest.mark.parametrize("key", ["thinking", "message", "mesages", "response"])
def test_a_key_that_would_say_something_is_an_error_a_record(
    key: str, record: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    status, found, _ = lint(capsys, write(*[record | {key: "x"}] * 4))
    assert status == 1
    assert len(found) == 4
    assert all("MYP103" in line for line in found)


def test_a_rare_key_and_a_key_inside_of_messages_stay_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inside = {"messages": [USER | {"id": 1}, SAID]}
    assert len(lint(capsys, write(*[inside] * 4))[1]) == 4
    assert len(lint(capsys, write(*[OPENAI] * 3, OPENAI | {"id": 1}))[1]) == 1


def test_settings_and_options_exclude_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    path = write(OPENAI)
    Path("mypt-lint.toml").write_text('records = "alpaca"\n')
    assert lint(capsys, path)[1], "it is no Alpaca record"
    assert lint(capsys, path, "--records", "openai")[:2] == (0, [])
    Path("mypt-lint.toml").write_text('records = "opanai"\n')
    assert main([path]) == 2
    assert "did you mean 'openai'?" in capsys.readouterr().err
    Path("mypt-lint.toml").write_text('[metadata]\nkey = ["id"]\n')
    assert main([path]) == 2
    assert 'metadata: no setting is called "key"; did you mean "keys"?' in capsys.readouterr().err


def test_opt_outs_and_the_baseline_hold(capsys: pytest.CaptureFixture[str]) -> None:
    bad = {"messages": [USER | {"contents": "x"}, SAID]}
    assert lint(capsys, write(bad | {"_mypt_lint": {"ignore": ["MYP103"]}}))[:2] == (0, [])
    path = write(bad, *[OPENAI | {"id": i} for i in range(5)], GPT)
    assert main([path, "--write-baseline", "known.jsonl"]) == 0
    assert lint(capsys, path, "--baseline", "known.jsonl")[:2] == (0, [])


def test_a_rule_that_holds_with_and_without_a_format_is_one_finding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tool = {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}
    call = {"id": "1", "type": "function", "function": {"name": "other", "arguments": "{}"}}
    asked = {"role": "assistant", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "1", "content": "4"}
    path = write({"tools": [tool], "messages": [USER, asked, result, SAID]})
    for args in ((), ("--dialect", "usf-omega", "--records", "openai")):
        status, found, _ = lint(capsys, path, *args)
        assert status == 0
        assert [line.split(": ")[1].split(" ")[0] for line in found] == ["MYP313"]


def test_texts_with_tags_are_checked_as_the_format_of_these(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = "<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user><myPT_assistant>Yo</myPT_assistant><myPT_eot>"
    path = write({"text": good}, {"text": good.replace("<myPT_eot>", "")})
    status, found, said = lint(capsys, path)
    assert status == 1
    assert [line.split(": ")[1].split(" ")[0] for line in found] == ["MYP216"]
    assert (
        said[0]
        == "x.jsonl: serialised texts (text); each is checked as the format of its tags, --dialect NAME checks them as one"
    )
    assert lint(capsys, write({"text": good}), "--dialect", "praxis")[0] == 0


def test_settings_to_begin_with_name_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    path = write(*[GPT] * 3)
    assert main(["init"]) == 0
    assert (
        capsys.readouterr().out == "mypt-lint.toml written, for ShareGPT records (conversations).\n"
    )
    assert 'records = "sharegpt"\n# dialect = ' in Path("mypt-lint.toml").read_text()
    status, found, said = lint(capsys, path)
    assert (status, found, said) == (0, [], ["3 lines clean (1 file)"])
