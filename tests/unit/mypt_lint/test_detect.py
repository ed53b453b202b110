"""--dialect auto: which dialect a file is in, and records of another one in it."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_cli.jsonl.blocks import Source
from mypt_convert.cli import main as convert
from mypt_lint.check.detect import candidates, detect, elsewhere, elsewhere_than, error_count
from mypt_lint.cli import main
from mypt_spec.dialect import told_by_records
from mypt_train.commands.prepare import main as prepare
from mypt_view.cli import main as view
from tests.support.conversion import FEATURES
from tests.support.strategies import DIALECTS, records


def guess(data: bytes, kind: str = "record") -> tuple[str, tuple[str, ...], bool]:
    found = detect(Source("x", stream=io.BytesIO(data)), kind, candidates("mypt", kind))
    assert found.source.open().read() == data[: 1 << 20], "what was looked at is read again"
    return found.dialect.name, found.others, found.sure


def jsonl(*values: Any) -> bytes:
    return b"".join(json.dumps(v).encode() + b"\n" for v in values)


@given(st.data())
def test_the_dialect_or_one_that_fits_as_well(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(told_by_records()))
    lines = data.draw(st.lists(records(name), min_size=1, max_size=3))
    found, others, sure = guess(jsonl(*lines))
    assert sure
    assert name == found or name in others
    for fitting in (found, *others):
        assert not any(error_count(line, mypt_spec.dialect(fitting)) for line in lines)


@given(st.data())
def test_the_dialect_of_a_text(data: st.DataObject) -> None:
    d = mypt_spec.dialect(data.draw(st.sampled_from(DIALECTS)))
    episode, _ = d.read(data.draw(records(d.name)))
    assert episode is not None
    found, others, _ = guess(d.serialize(episode).encode(), "text")
    assert d.name in (found, *others), "a chat of text alone is one of several formats"


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda t: json.dumps(t).encode()))
def test_any_bytes(data: bytes) -> None:
    """Whether it is right or not, nothing is raised, and `sure` means that a line is legal."""
    found, _, sure = guess(data)
    assert sure == any(
        not error_count(json.loads(line), mypt_spec.dialect(found))
        for line in data.split(b"\n")
        if is_json(line)
    )


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_a_few_errors_do_not_mislead() -> None:
    assert guess(Path("examples/broken.jsonl").read_bytes())[0] == "mypt"
    assert guess(Path("examples/phase5.jsonl").read_bytes()) == ("mypt", (), True)


def test_tags_in_the_data_are_a_sign() -> None:
    plain = FEATURES["question and answer"]["gabgpt"]
    tagged = {
        "messages": [
            {"role": "user", "content": "<|user|>"},
            {"role": "assistant", "content": "No."},
        ]
    }
    assert guess(jsonl(plain, tagged))[0] == "gabgpt"


def mentioning(tag: str) -> bytes:
    """A file of usf-omega in which every text mentions a tag of another dialect."""
    call = {"name": "find", "arguments": {"q": "x"}}
    messages = [
        {"role": "system", "content": f"Write {tag}."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": call}]},
        {"role": "tool", "name": "find", "content": "nothing"},
        {"role": "assistant", "content": f"It is {tag}."},
    ]
    return jsonl(*[{"messages": messages}] * 4)


@pytest.mark.parametrize("tag", ["<myPT_toolcall>", "<|user|>", "[BOS]"])
def test_a_mention_of_a_tag_is_no_sign_against_the_shape(tag: str) -> None:
    assert guess(mentioning(tag)) == ("usf-omega", (), True)


def test_a_mention_in_every_line_is_no_sign_where_another_dialect_explains_all() -> None:
    plain = FEATURES["question and answer"]["gabgpt"]
    lines = jsonl(*[plain]).replace(b'"content": "', b'"content": "<|user|> ')
    assert guess(lines * 5)[0] != "gabgpt"
    assert guess(lines * 5)[2]
    assert guess(lines * 5 + jsonl(plain))[0] == "gabgpt", "a legal line makes it a sign again"


def lint(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[Any]]:
    status = main([*options, "--format", "jsonl", str(path)])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()][:-1]


def test_a_file_of_another_dialect_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In place of the faults of each line, which would send its reader looking for faults that are
    not there.
    """
    path = tmp_path / "x.jsonl"
    path.write_bytes(mentioning("<myPT_toolcall>"))
    as_mypt = ("--dialect", "mypt", "--records", "native")
    status, found = lint(path, capsys, *as_mypt)
    assert status == 1
    assert {(f["code"], f["fix"]) for f in found} == {("MYP014", None)}
    assert found[0]["message"] == "this record is usf-omega, as is the file; it is checked as mypt"
    assert main(["--fix-only", *as_mypt, str(path)]) == 0
    assert path.read_bytes() == mentioning("<myPT_toolcall>"), "nothing to fix in it"
    capsys.readouterr()
    assert main([*as_mypt, str(path)]) == 1
    said = capsys.readouterr().out
    assert "--dialect usf-omega, or make it mypt with mypt-convert --from usf-omega" in said
    assert "as mypt it has missing-key (MYP102)" in said
    assert {f["code"] for f in lint(path, capsys, "--ignore", "MYP014", *as_mypt)[1]} > {"MYP102"}
    assert lint(path, capsys, "--dialect", "usf-omega") == (0, [])


CHATS = [name for name in mypt_spec.dialects() if name not in told_by_records()]


@pytest.mark.parametrize("other", CHATS)
def test_a_file_of_another_dialect_than_a_chat_of_the_world(
    other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The linter and mypt-prepare say the same."""
    path = Path("examples/phase4.jsonl")
    assert {f["code"] for f in lint(path, capsys, "--dialect", other)[1]} == {"MYP014"}
    assert prepare([str(path), "--dialect", other, "--out", str(tmp_path / "sft")]) == 2
    assert "examples/phase4.jsonl is mypt: use --dialect mypt" in capsys.readouterr().err


def test_a_chat_of_other_tools_is_of_no_dialect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Although usf-omega happens to read it, mistral wants ids of calls."""
    path, call = (
        tmp_path / "x.jsonl",
        {"type": "function", "function": {"name": "f", "arguments": {}}},
    )
    path.write_bytes(
        jsonl({
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "name": "f", "content": "1"},
                {"role": "assistant", "content": "So."},
            ]
        })
    )  # fmt: skip
    assert "MYP014" not in {f["code"] for f in lint(path, capsys, "--dialect", "mistral")[1]}
    assert prepare([str(path), "--dialect", "mistral", "--out", str(tmp_path / "sft")]) == 2
    assert "usf-omega" not in capsys.readouterr().err


def test_a_chat_without_a_system_prompt_is_of_no_other_dialect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """mypt-prepare advises a system prompt, not a dialect that happens to need none."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(jsonl(FEATURES["question and answer"]["openai"]))
    assert prepare([str(path), "--dialect", "mypt", "--out", str(tmp_path / "sft")]) == 2
    said = capsys.readouterr().err
    assert "--system TEXT gives it one" in said
    assert "use --dialect" not in said


def test_what_a_safe_fix_repairs_makes_no_record_of_other_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They know no identity of the model; arguments as a text are theirs, and can be fixed."""
    path, record = tmp_path / "x.jsonl", deepcopy(FEATURES["calls at once"]["usf-omega"])
    for message in record["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    path.write_bytes(jsonl({"model_identity": "S", **record}))
    assert {f["code"] for f in lint(path, capsys, "--dialect", "usf-omega")[1]} == {"MYP110"}


@pytest.mark.parametrize("other", ["mypt", "mypt-3b", "gabgpt"])
def test_a_file_of_a_dialect_is_no_broken_file_of_other_tools(
    other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    assert convert(["examples/phase4.jsonl", "--to", "praxis", "-o", str(path)]) == 0
    capsys.readouterr()
    assert {f["code"] for f in lint(path, capsys, "--dialect", other)[1]} == {"MYP014"}


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (mentioning("x") + jsonl({"messages": []}), {"MYP107", "MYP102", "MYP103"}),
        (
            jsonl(FEATURES["question and answer"]["gabgpt"], FEATURES["system prompt"]["mypt"]),
            {"MYP208"},
        ),
        (
            jsonl(FEATURES["system prompt"]["mypt"]).replace(
                b'"content": "', b'"content": "[X] <myPT_user>'
            ),
            {"MYP301"},
        ),
        (jsonl(FEATURES["system prompt"]["praxis"]), {"MYP108"}),
    ],
    ids=["one line is legal nowhere", "one is legal", "a tag is a sign", "a safe fix repairs it"],
)
def test_a_file_is_not_told_so_in_doubt(
    lines: bytes, codes: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines)
    found = {f["code"] for f in lint(path, capsys, "--records", "native")[1]}
    assert "MYP014" not in found
    assert found >= codes


def test_a_pipe_that_begins_well_is_not_kept_waiting() -> None:
    """Of a stream that goes on, only the first line is waited for."""
    line = Path("examples/phase1.jsonl").read_bytes().splitlines(keepends=True)[0]

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(len(line))

    stream = Slow(line * 100)
    first, *others = candidates("mypt")
    found, source = elsewhere_than(
        Source("x", stream=stream), first, [d.name for d in (first, *others)]
    )
    assert found == ()
    assert stream.tell() == len(line)
    assert source.open().read() == line
    assert source.open().read() == line


def test_the_command_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = tmp_path / "mixed.jsonl"
    thinking = FEATURES["thinking"]
    mixed.write_bytes(jsonl(thinking["gabgpt"], thinking["gabgpt"], thinking["mypt"]))
    assert (
        main(["--dialect", "auto", "--format", "jsonl", str(mixed), "examples/phase5.jsonl"]) == 1
    )
    out = capsys.readouterr()
    found = [json.loads(line) for line in out.out.splitlines()]
    assert [(f["code"], f["location"]["row"], f["dialect"]) for f in found[:-1]] == [
        ("MYP014", 3, "gabgpt")
    ]
    assert found[0]["message"] == "this record is mypt, the file is gabgpt"
    assert f"{mixed}: gabgpt\n" in out.err
    assert "examples/phase5.jsonl: mypt\n" in out.err
    assert main(["--dialect", "auto", "-q", str(mixed)]) == 1
    assert capsys.readouterr().err == ""


def test_nothing_legal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"nope\n{}\n")
    assert main(["--dialect", "auto", str(path)]) == 1
    out = capsys.readouterr()
    assert "nothing at its beginning is legal" in out.err
    assert "MYP001" in out.out
    assert "MYP014" not in out.out


def test_streams_and_compressed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = jsonl(*[FEATURES["thinking"]["gabgpt"]] * 9000)
    assert len(data) > 1 << 19, "more than is looked at"
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(data))
    assert main(["--dialect", "auto", str(packed)]) == 0
    assert "x.jsonl.gz: gabgpt\n9000 lines clean" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["--dialect", "auto", "-"]) == 0
    assert "<stdin>: gabgpt\n9000 lines clean" in capsys.readouterr().err


def test_a_record_is_judged_once_in_its_own_dialect() -> None:
    """A line of megabytes takes long, and may be the first and the last."""
    asked: list[object] = []

    def failures(record: object) -> frozenset[str]:
        asked.append(record)
        return frozenset({"MYP101"} if record != [2] else {"MYP101", "MYP102"})

    def found(*records: object) -> tuple[str, ...]:
        asked.clear()
        data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
        legal = {"a": lambda record: True, "b": lambda record: record != [1]}
        return elsewhere(Source("x", stream=io.BytesIO(data)), failures, legal)[0]

    assert found([1], [2]) == ("a",)
    assert asked == [[1], [2]]
    assert found([3]) == ("a", "b")
    assert asked == [[3]]


def test_a_dialect_is_loaded_only_for_records_of_its_shape(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi", "note": "x"}, {"role": "assistant", "content": "Yo"}]
    line = json.dumps({"system": "S", "messages": said})
    (tmp_path / "a.jsonl").write_text(f"{line}\n{line}\n")
    code = (
        "from mypt_lint.cli import main\nmain(['-q', 'a.jsonl'])\n"
        "from mypt_spec.dialect import _loaded\nprint(_loaded.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "1"


def test_what_settings_ignore_is_no_sign_of_another_dialect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tag of mypt, where tags may be: all commands take the records for what they are without."""
    said = [{"role": "user", "content": "<myPT_user> x"}, {"role": "assistant", "content": "Yo."}]
    (tmp_path / "a.jsonl").write_bytes(jsonl({"system": "S", "messages": said}))
    settings, path = tmp_path / "mypt-lint.toml", str(tmp_path / "a.jsonl")
    found = {}
    for text in ("", 'ignore = ["MYP301"]', 'severity = { MYP301 = "info" }'):
        settings.write_text(text)
        main([path, "--dialect", "auto", "--config", str(settings)])
        seen = capsys.readouterr().err.splitlines()[0].split(": ")[1]
        view([path, "--config", str(settings)])
        found[text] = seen.split()[0], capsys.readouterr().out.split()[1]
    assert found[""] == ("mypt-3b", "mypt-3b")
    assert {*found.values()} - {found[""]} == {("mypt", "mypt")}
