"""mypt-convert: unknown keys of a record are metadata of the new one, or lost, and it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.convert import main
from mypt_convert import Converter
from tests.support.build import assistant, call, calls, chat, system, tool, user, write
from tests.support.conversion import FEATURES

USER, ANSWER = user("u"), assistant("a")


def mypt(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"system": "S", **chat(*(messages or (USER, ANSWER)), **more)}


def run(tmp_path: Path, source: str, target: str, *records: Any) -> tuple[int, dict[str, Any]]:
    """Returns the exit status of mypt-convert, and its report."""
    report, out = tmp_path / "report", str(tmp_path / "o.jsonl")
    path = write(tmp_path / "in.jsonl", *records)
    options = ["-o", out, "--from", source, "--to", target, "--report", str(report)]
    return main([path, *options]), json.loads(report.read_text())


def lost(source: str, target: str, record: Any) -> tuple[list[str], set[str]]:
    """Returns the pointers of what is lost, and of what is kept."""
    out = Converter(source, target).record(record)
    return [loss.pointer for loss in out.losses], set(out.metadata)


@pytest.mark.parametrize("name", mypt_spec.dialects())
def test_unknown_keys_are_kept_as_metadata(name: str) -> None:
    record = FEATURES["question and answer"][name]
    message = record["messages"][0]
    rest = record["messages"][1:]
    changed = record | {"a/b": 1, "messages": [message | {"note": 2}, *rest]}
    out = Converter(name, name).record(changed)
    assert out.record is not None, out.findings
    assert (out.record["_a/b"], out.record["messages"][0]["_note"]) == (1, 2)
    assert (set(out.metadata), out.losses) == ({"/a~1b", "/messages/0/note"}, ())
    assert "a/b" in changed, "converting changes nothing"
    clash = Converter(name, name).record(changed | {"_a/b": 3})
    assert clash.record is None
    assert [(f.code, f.pointer) for f in clash.findings] == [("MYP103", "/a~1b")]
    assert 'cannot be kept as "_a/b", which is there' in clash.findings[0].message


@pytest.mark.parametrize(
    ("source", "target", "records", "kept"),
    [
        ("mypt", "praxis", [mypt(note=1), mypt(note=2), mypt()], {"note": 2}),
        ("openai", "gabgpt", [chat(USER, assistant("a", name="a")), chat()], {"name": 1}),
    ],
)
def test_kept_keys_are_counted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    target: str,
    records: list[Any],
    kept: dict[str, int],
) -> None:
    status, report = run(tmp_path, source, target, *records)
    assert (status, report["written"], report["with_losses"]) == (0, len(records), 0)
    assert report["kept_as_metadata"] == kept
    ((key, count),) = kept.items()
    of = f'key "{key}" kept as "_{key}" in {count} record{"s" * (count > 1)}'
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [f"  {of}: metadata, which has no effect"]


@pytest.mark.parametrize(("value", "below"), [(1, [""]), ({"y": [1, 2]}, ["/y/0", "/y/1"])])
def test_an_unknown_key_that_no_metadata_holds_is_lost_with_all_its_values(
    value: Any, below: list[str]
) -> None:
    item = {"type": "text", "text": "a", "x": value}
    record = chat(USER, {"role": "assistant", "contents": [item]})
    pointers = [f"/messages/1/contents/0/x{path}" for path in below]
    assert lost("praxis", "praxis", record) == (pointers, set())


def test_metadata_beside_what_is_lost_is_not_said_to_be_kept() -> None:
    record = mypt(user("u", context="c", note=1), assistant("a", note=2), source="x")
    pointers = ["/messages/0/context", "/messages/0/note"]
    assert lost("mypt", "praxis", record) == (pointers, {"/source", "/messages/1/note"})


WEATHER = chat(
    system(),
    user("u", name="ann"),
    calls(call("s", "{}", id="1"), content=None, weight=1, logprobs=None, refusal=None),
    tool("x", tool_call_id="1"),
    assistant("a", weight=1, logprobs={"content": [{"token": "a", "logprob": -0.5}]}),
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
    names = [message.get("_name") for message in out.record["messages"]]
    assert [name for name in names if name is not None] == ["ann"]
    losses = {loss.pointer for loss in out.losses}
    places = {"/messages/1/name", "/messages/4/logprobs"}
    assert set(out.metadata) == {"/parallel_tool_calls", "/source", "/id"} | places - losses
    if target == "usf-omega":
        messages = out.record["messages"]
        assert (messages[2]["weight"], messages[4]["weight"]) == (1, 1)
        assert messages[4]["_logprobs"] == WEATHER["messages"][4]["logprobs"]
        assert not losses
    again = Converter(target, target).record(out.record)
    assert (again.record, again.losses, again.metadata) == (out.record, (), ())


def test_an_answer_that_is_not_to_be_trained_stays_so() -> None:
    said = (system(), USER, assistant("a"), USER, assistant("b", weight=0))
    out = Converter("openai", "mypt").record(chat(*said))
    assert out.record is not None
    assert [m.get("weight") for m in out.record["messages"]] == [None, None, None, 0]
    assert (out.losses, out.metadata) == ((), ())


def test_metadata_is_never_written_over() -> None:
    taken = Converter("openai", "gabgpt").record(chat(USER, assistant("a", name="a", _name=5)))
    assert taken.record is None
    assert [(f.code, f.pointer) for f in taken.findings] == [("MYP103", "/messages/1/name")]
    assert 'cannot be kept as "_name", which is there' in taken.findings[0].message


@pytest.mark.parametrize("key", ["mypt_lint", "tool_call_ids", "unnamed_results"])
@pytest.mark.parametrize("source", ["openai", "gabgpt"])
def test_no_unknown_key_becomes_metadata_that_means_something(source: str, key: str) -> None:
    out = Converter(source, "usf-omega").record(chat(USER, ANSWER) | {key: {"ignore": ["MYP301"]}})
    assert out.record is None
    assert [(f.code, f.pointer) for f in out.findings] == [("MYP103", f"/{key}")]
    assert f'cannot be kept as "_{key}", which has a meaning of its own' in out.findings[0].message


def test_metadata_of_null_is_kept() -> None:
    out = Converter("openai", "gabgpt").record(chat(user("u", _n=None), ANSWER, _m=None, k=None))
    assert out.record == chat(user("u", _n=None), ANSWER, _m=None, _k=None)


def test_calls_without_ids_get_some_where_the_format_needs_them() -> None:
    """Mistral's have nine characters. They are the same each time, and differ within a record."""
    rounds = [
        {"role": "assistant_toolcall", "name": "f", "arguments": {"n": 0}},
        {"role": "toolresult", "name": "f", "content": 0},
    ]
    record = mypt(USER, *rounds, *rounds, ANSWER)
    converter = Converter("mypt", "mistral")
    out = converter.record(record)
    assert out.record is not None
    assert out.losses == ()
    assert out.named == 2
    idents = [c["id"] for m in out.record["messages"] for c in m.get("tool_calls", ())]
    assert idents == ["call00000", "call00001"]
    assert [m["tool_call_id"] for m in out.record["messages"] if m["role"] == "tool"] == idents
    assert converter.record(record) == out
    back = Converter("mistral", "mypt").record(out.record)
    assert back.record is not None
    assert back.record["messages"] == record["messages"]


def test_calls_keep_the_ids_that_they_have() -> None:
    calling = calls(call("f", "{}", id="call00000"), call("f", "{}"), content=None)
    results = tool("1", tool_call_id="call00000"), tool("2", name="f")
    out = Converter("openai", "mistral").record(chat(USER, calling, *results, ANSWER))
    assert out.record is not None, out.findings
    idents = [m["tool_call_id"] for m in out.record["messages"] if m["role"] == "tool"]
    assert idents == ["call00000", "call00001"]
    assert out.named == 1
