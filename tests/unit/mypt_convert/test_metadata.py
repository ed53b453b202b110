"""mypt-convert: unknown keys of a record are metadata of the new one, or lost, and it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_convert import Converter
from mypt_convert.cli import main
from tests.support.conversion import FEATURES

USER, SAID = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}


def openai(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def mypt(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"system": "S", "messages": list(messages or (USER, SAID)), **more}


def run(tmp_path: Path, source: str, target: str, *records: Any) -> tuple[int, dict[str, Any]]:
    """Returns the exit status of mypt-convert, and its report."""
    given, out, report = (str(tmp_path / name) for name in ("in.jsonl", "o.jsonl", "report"))
    Path(given).write_text("".join(json.dumps(r) + "\n" for r in records))
    status = main([given, "-o", out, "--from", source, "--to", target, "--report", report])
    return status, json.loads(Path(report).read_text())


@pytest.mark.parametrize("name", mypt_spec.dialects())
def test_unknown_keys_are_kept_as_metadata(name: str) -> None:
    record = FEATURES["question and answer"][name]
    message = record["messages"][0]
    rest = record["messages"][1:]
    given = record | {"a/b": 1, "messages": [message | {"note": 2}, *rest]}
    out = Converter(name, name).record(given)
    assert out.record is not None, out.findings
    assert (out.record["_a/b"], out.record["messages"][0]["_note"]) == (1, 2)
    assert (set(out.kept), out.losses) == ({"/a~1b", "/messages/0/note"}, ())
    assert "a/b" in given, "converting changes nothing"
    clash = Converter(name, name).record(given | {"_a/b": 3})
    assert clash.record is None
    assert [(f.code, f.pointer) for f in clash.findings] == [("MYP103", "/a~1b")]
    assert 'cannot be kept as "_a/b", which is there' in clash.findings[0].message


def test_kept_keys_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = run(tmp_path, "mypt", "praxis", mypt(note=1), mypt(note=2), mypt())
    assert (status, report["written"], report["kept_as_metadata"]) == (0, 3, {"note": 2})
    said = capsys.readouterr().err
    assert said.splitlines()[1:] == [
        '  key "note" kept as "_note" in 2 records: metadata, which has no effect'
    ]


def test_an_unknown_key_that_no_metadata_holds_is_a_loss() -> None:
    item = {"type": "text", "text": "a", "x": 1}
    record = openai(USER, {"role": "assistant", "contents": [item]})
    out = Converter("praxis", "praxis").record(record)
    assert [(loss.field, loss.pointer) for loss in out.losses] == [
        ("x", "/messages/1/contents/0/x")
    ]
    assert out.kept == ()


def test_an_unknown_key_that_holds_values_is_lost_with_all_of_them() -> None:
    item = {"type": "text", "text": "a", "x": {"y": [1, 2]}}
    record = openai(USER, {"role": "assistant", "contents": [item]})
    out = Converter("praxis", "praxis").record(record)
    assert [loss.pointer for loss in out.losses] == [
        "/messages/1/contents/0/x/y/0",
        "/messages/1/contents/0/x/y/1",
    ]
    assert out.kept == ()


def test_metadata_beside_what_is_lost_is_not_said_to_be_kept() -> None:
    record = mypt(USER | {"context": "c", "note": 1}, SAID | {"note": 2}, source="x")
    out = Converter("mypt", "praxis").record(record)
    assert [(loss.field, loss.pointer) for loss in out.losses] == [
        ("context", "/messages/0/context"),
        ("note", "/messages/0/note"),
    ]
    assert set(out.kept) == {"/source", "/messages/1/note"}


CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "s", "arguments": "{}"}}],
}
WEATHER = openai(
    {"role": "system", "content": "S"},
    USER | {"name": "ann"},
    CALL | {"weight": 1, "logprobs": None, "refusal": None},
    {"role": "tool", "tool_call_id": "1", "content": "x"},
    SAID | {"weight": 1, "logprobs": {"content": [{"token": "a", "logprob": -0.5}]}},
    parallel_tool_calls=False,
    source={"crm": [17, None]},
    id=None,
)


@pytest.mark.parametrize("target", mypt_spec.dialects())
def test_keys_that_a_dialect_has_none_for_are_metadata_of_it(target: str) -> None:
    out = Converter("openai", target).record(WEATHER)
    assert out.record is not None, out.findings
    of_record = {"_parallel_tool_calls": False, "_source": {"crm": [17, None]}, "_id": None}
    assert of_record.items() <= out.record.items()
    found = [message.get("_name") for message in out.record["messages"]]
    assert [name for name in found if name is not None] == ["ann"]
    lost = {loss.pointer for loss in out.losses}
    places = {
        "/messages/1/name",
        "/messages/4/logprobs",
    }
    assert set(out.kept) == {"/parallel_tool_calls", "/source", "/id"} | places - lost
    if target == "usf-omega":
        messages = out.record["messages"]
        assert (messages[2]["weight"], messages[4]["weight"]) == (1, 1)
        assert messages[4]["_logprobs"] == WEATHER["messages"][4]["logprobs"]
        assert not lost
    again = Converter(target, target).record(out.record)
    assert (again.record, again.losses, again.kept) == (out.record, (), ())


def test_an_answer_that_is_not_to_be_trained_stays_so() -> None:
    out = Converter("openai", "mypt").record(
        openai({"role": "system", "content": "S"}, USER, SAID | {"weight": 0})
    )
    assert out.record is not None
    assert out.record["messages"][-1]["weight"] == 0
    assert (out.losses, out.kept) == ((), ())


def test_metadata_is_never_written_over() -> None:
    taken = Converter("openai", "gabgpt").record(openai(USER, SAID | {"name": "a", "_name": 5}))
    assert taken.record is None
    assert [(f.code, f.pointer) for f in taken.findings] == [("MYP103", "/messages/1/name")]
    assert 'cannot be kept as "_name", which is there' in taken.findings[0].message


@pytest.mark.parametrize("key", ["mypt_lint", "tool_call_ids", "unnamed_results"])
@pytest.mark.parametrize("source", ["openai", "gabgpt"])
def test_no_unknown_key_becomes_metadata_that_means_something(source: str, key: str) -> None:
    out = Converter(source, "usf-omega").record(openai(USER, SAID) | {key: {"ignore": ["MYP301"]}})
    assert out.record is None
    assert [(f.code, f.pointer) for f in out.findings] == [("MYP103", f"/{key}")]
    assert f'cannot be kept as "_{key}", which has a meaning of its own' in out.findings[0].message


def test_metadata_of_null_is_kept() -> None:
    out = Converter("openai", "gabgpt").record(openai(USER | {"_n": None}, SAID, _m=None, k=None))
    assert out.record == openai(USER | {"_n": None}, SAID, _m=None, _k=None)


def test_keys_of_openai_are_counted_by_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [openai(USER, SAID | {"name": "a"}), openai(USER, SAID)]
    status, report = run(tmp_path, "openai", "gabgpt", *records)
    assert (status, report["written"], report["with_losses"]) == (0, 2, 0)
    assert report["kept_as_metadata"] == {"name": 1}
    said = capsys.readouterr().err
    assert said.splitlines()[1:] == [
        '  key "name" kept as "_name" in 1 record: metadata, which has no effect'
    ]


def test_calls_without_ids_get_some_where_the_format_needs_them() -> None:
    """Mistral's have nine characters. They are the same each time, and differ within a record."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "u"}]
    for number in range(2):
        call = {"role": "assistant_toolcall", "name": "f", "arguments": {"n": number}}
        said += [call, {"role": "toolresult", "name": "f", "content": number}]
    record = {"system": "S", "messages": [*said, {"role": "assistant", "content": "a"}]}
    converter = Converter("mypt", "mistral")
    out = converter.record(record)
    assert out.record is not None
    assert out.losses == ()
    assert out.named == 2
    calls = [c["id"] for m in out.record["messages"] for c in m.get("tool_calls", ())]
    assert calls == ["call00000", "call00001"]
    results = [m["tool_call_id"] for m in out.record["messages"] if m["role"] == "tool"]
    assert results == calls
    assert converter.record(record) == out
    back = Converter("mistral", "mypt").record(out.record)
    assert back.record is not None
    assert back.record["messages"] == record["messages"]


def test_calls_keep_the_ids_that_they_have() -> None:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": "call00000", "function": function}, {"function": function}]
    asked = {"role": "assistant", "tool_calls": [{"type": "function"} | c for c in calls]}
    results = [{"role": "tool", "tool_call_id": "call00000", "content": "1"}, {"role": "tool", "name": "f", "content": "2"}]  # fmt: skip
    messages = [{"role": "user", "content": "u"}, asked, *results, {"role": "assistant", "content": "a"}]  # fmt: skip
    out = Converter("openai", "mistral").record({"messages": messages})
    assert out.record is not None, out.findings
    ids = [m["tool_call_id"] for m in out.record["messages"] if m["role"] == "tool"]
    assert ids == ["call00000", "call00001"]
    assert out.named == 1
