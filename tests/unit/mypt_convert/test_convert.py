"""mypt-convert: the matrix of docs/conversion.md, and the command."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_convert import Converter
from mypt_convert.cli import main
from mypt_lint.cli import main as lint
from tests.property.test_convert import without_ids
from tests.support.conversion import FEATURES, outcome, sources, table

CELLS = [
    (f, s, t) for f in FEATURES for s in sources() if s in FEATURES[f] for t in mypt_spec.dialects()
]


@pytest.mark.parametrize(("feature", "source", "target"), CELLS)
def test_cell(feature: str, source: str, target: str) -> None:
    cell = outcome(feature, source, target)
    assert cell is not None
    converted = cell.converted
    if cell.word.startswith("refused"):
        assert converted.record is None
        assert all(f.message for f in converted.findings)
        return
    d = mypt_spec.dialect(target)
    episode, findings = d.read(converted.record)
    assert episode is not None
    assert not [f for f in [*findings, *d.validate(episode)] if f.severity == "error"]
    if cell.word == "kept" and source in mypt_spec.dialects():
        one = mypt_spec.dialect(source)
        first, _ = one.read(cell.source)
        assert first is not None
        back = Converter(target, source).record(converted.record).record
        # A format that needs ids of calls has made some.
        plain = without_ids if converted.named else dict
        assert plain(back) == plain(one.write(first))
    if cell.word.startswith("loses"):
        assert all(loss.field and loss.reason for loss in converted.losses)


def test_the_matrix_has_all_kinds_of_cells() -> None:
    words = {cell.word.split()[0] for cells in table().values() for cell in cells.values()}
    assert words == {"kept", "loses", "refused:"}
    assert all(
        cell.word == "kept"
        for cells in table().values()
        for (s, t), cell in cells.items()
        if s == t
    )


OPENAI: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]},
    {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "weight": 1}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, {"role": "assistant", "content": "Hello."}]},
]  # fmt: skip


def write(path: Path, *records: Any, tail: bytes = b"") -> str:
    path.write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in records) + tail)
    return str(path)


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def run(*args: str, report: Path) -> tuple[int, dict[str, Any]]:
    status = main([*args, "--report", str(report)])
    return status, json.loads(report.read_text())


@pytest.mark.parametrize(
    ("on_loss", "written", "with_losses"), [("error", 0, 0), ("warn", 2, 2), ("drop", 2, 2)]
)
def test_losses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], on_loss: str, written: int, with_losses: int
) -> None:
    source = write(tmp_path / "in.jsonl", OPENAI[1], OPENAI[1], OPENAI[2])
    out = tmp_path / "out.jsonl"
    status, report = run(
        source,
        "-o",
        str(out),
        "--from",
        "openai",
        "--to",
        "gabgpt",
        "--on-loss",
        on_loss,
        report=tmp_path / "r",
    )
    assert status == 1
    assert (report["read"], report["written"], report["with_losses"]) == (3, written, with_losses)
    assert (
        report["read"]
        == report["written"] + report["refused"]
        == report["written"] + sum(report["refused_by"].values())
    )
    assert len(read(out)) == written
    err = capsys.readouterr().err
    assert "in.jsonl:3: refused MYP104 /messages/0/content/0: expected a part" in err
    assert ("in.jsonl:1: lost system /messages/0/content: gabgpt has no place for it" in err) == (
        on_loss == "warn"
    )
    assert (
        "in.jsonl:2: refused /messages/0/content: would lose system: gabgpt has no place for it"
        in err
    ) == (on_loss == "error")
    if written or on_loss == "error":
        assert report["lost"] == {"system": {"records": 2, "values": 2}}
    assert report["kept_as_metadata"] == {}


def test_a_system_prompt_for_those_without(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", OPENAI[0], OPENAI[1])
    out = tmp_path / "out.jsonl"
    assert main([source, "-o", str(out), "--from", "openai", "--to", "mypt"]) == 1
    assert (
        main(
            [
                source,
                "-o",
                str(out),
                "--from",
                "openai",
                "--to",
                "mypt",
                "--system",
                "Mine",
                "--on-loss",
                "drop",
            ]
        )
        == 0
    )
    assert [r["system"] for r in read(out)] == ["Mine", "S"]


def test_every_line_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(
        tmp_path / "in.jsonl",
        OPENAI[0],
        tail=b'\nnope\n{"a": 1, "a": 2}\n\xff\n{}\n[]\n{"messages": []}',
    )
    out = tmp_path / "out.jsonl"
    status, report = run(
        source,
        "-o",
        str(out),
        "--from",
        "openai",
        "--to",
        "praxis" if "praxis" in mypt_spec.dialects() else "gabgpt",
        report=tmp_path / "r",
    )
    assert status == 1
    assert (report["read"], report["written"], report["refused"]) == (8, 1, 7)
    err = capsys.readouterr().err
    for row, code in [
        (2, "MYP011"),
        (3, "MYP001"),
        (4, "MYP004"),
        (5, "MYP002"),
        (6, "MYP104"),
        (7, "MYP101"),
        (8, "MYP104"),
    ]:
        assert f"in.jsonl:{row}: refused {code}" in err


def test_compressed(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl.gz"
    source.write_bytes(gzip.compress(json.dumps(OPENAI[0]).encode() + b"\n"))
    out = tmp_path / "out.jsonl.gz"
    assert main([str(source), "-o", str(out), "--from", "openai", "--to", "gabgpt"]) == 0
    first = out.read_bytes()
    assert json.loads(gzip.decompress(first)) == OPENAI[0]
    assert main([str(source), "-o", str(out), "--from", "openai", "--to", "gabgpt"]) == 0
    assert out.read_bytes() == first, "equal data gives equal bytes"


def test_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl.gz"
    source.write_bytes(
        gzip.compress(
            b"".join(json.dumps(OPENAI[0] | {"_n": n}).encode() + b"\n" for n in range(9999))
        )[:-4000]
    )
    status, report = run(
        str(source),
        "-o",
        str(tmp_path / "o"),
        "--from",
        "openai",
        "--to",
        "gabgpt",
        report=tmp_path / "r",
    )
    assert status == 1
    assert report["refused_by"] == {"MYP003": 1}
    assert 0 < report["written"] < 9999
    assert "refused MYP003" in capsys.readouterr().err


def test_streams(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(OPENAI[0]).encode())))
    assert main(["-", "-o", "-", "--from", "openai", "--to", "gabgpt"]) == 0
    out = capfdbinary.readouterr()
    assert json.loads(out.out) == OPENAI[0]
    assert out.err.endswith(b"1 record read: 1 written, 0 refused\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["in.jsonl", "-o", "in.jsonl", "--to", "mypt"], "in.jsonl: is read from"),
        (
            ["in.jsonl", "-o", "no/such/out.jsonl", "--to", "mypt"],
            "no/such/out.jsonl: cannot be written",
        ),
        (["in.jsonl", "-o", ".", "--to", "mypt"], ".: cannot be written: is a folder"),
        (["missing.jsonl", "-o", "out.jsonl", "--to", "mypt"], "missing.jsonl: no such file"),
        (["in.jsonl", "-o", "out.jsonl.zst", "--to", "mypt"], ".zst is read, not written"),
        (["in.jsonl", "-o", "out.jsonl", "--to", "openai"], "no dialect 'openai'; known are"),
        (
            ["in.jsonl", "-o", "out.jsonl", "--to", "mypt", "--from", "other"],
            "no format 'other'; known are openai,",
        ),
    ],
)
def test_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", OPENAI[0])
    before = sorted(tmp_path.iterdir())
    assert main(args) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before, "nothing is left behind"


def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "in.jsonl", *OPENAI)
    (tmp_path / "out.jsonl").write_text("old\n")

    def interrupt(self: Converter, value: Any, about: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Converter, "record", interrupt)
    assert (
        main([source, "-o", str(tmp_path / "out.jsonl"), "--from", "openai", "--to", "gabgpt"])
        == 130
    )
    assert (tmp_path / "out.jsonl").read_text() == "old\n"
    assert len(list(tmp_path.iterdir())) == 2
    assert "interrupted" in capsys.readouterr().err


def openai(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


USER, SAID = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}


def call(ident: str = "1", arguments: str = '{"q": 1}', **more: Any) -> dict[str, Any]:
    return {
        "id": ident,
        "type": "function",
        "function": {"name": "s", "arguments": arguments},
        **more,
    }


def asked(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def answer(text: str, ident: str = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def losses(
    source: str, target: str, record: Any, system: str | None = None
) -> list[tuple[str, str]]:
    out = Converter(source, target, system=system).record(record)
    assert out.record is not None, out.findings
    return [(loss.field, loss.pointer) for loss in out.losses]


SYSTEM = {"role": "system", "content": "S"}


@pytest.mark.parametrize(
    ("source", "target", "record", "want"),
    [
        # what stands beside something lost is lost with it, and said
        ("mypt", "praxis", {"system": "S", "messages": [USER | {"context": "c", "_id": 1}, SAID]}, [("context", "/messages/0/context"), ("_id", "/messages/0/_id")]),
        ("openai", "mypt", openai(SYSTEM, USER, asked(call()) | {"content": "hm", "weight": 0}, answer("x"), SAID), [("text", "/messages/2/content"), ("weight", "/messages/2/weight")]),
        # thinking before a call that is lost is not the answer's
        ("mypt", "gabgpt", {"system": "S", "messages": [USER, {"role": "assistant_toolcall", "name": "s", "arguments": {}, "think": "t"}, {"role": "toolresult", "name": "s", "content": 1}, SAID]},
         [("system", "/system"), ("think", "/messages/1/think"), ("call", "/messages/1/arguments"), ("result", "/messages/2/content")]),
        # keys inside calls, functions and parts
        ("openai", "usf-omega", openai(USER, asked(call(index=0)), answer("x"), SAID), [("tool_calls.index", "/messages/1/tool_calls.index")]),
        ("openai", "gabgpt", openai({"role": "user", "content": [{"type": "text", "text": "u", "cache_control": {}}]}, SAID), [("content.cache_control", "/messages/0/content.cache_control")]),
        # two messages of the assistant are not one
        ("openai", "usf-omega", openai(USER, SAID, {"role": "assistant", "content": "b"}), [("message boundary", "/messages/2/message boundary")]),
        # what stands elsewhere there
        ("openai", "usf-omega", openai(USER, SAID, {"role": "developer", "content": "d"}, USER | {"content": "v"}, SAID | {"content": "b"}), [("order", "/messages/2/content")]),
        ("openai", "mypt", openai(USER, SAID, SYSTEM, USER | {"content": "v"}, SAID | {"content": "b"}), [("order", "/messages/2/content")]),
        # reserved metadata that is the user's own
        ("openai", "mypt", openai(SYSTEM, USER, asked(call()), answer("x"), SAID, _tool_call_ids="mine"), [("id", "/_tool_call_ids")]),
        ("openai", "usf-omega", openai(USER, asked(call()), answer("x"), SAID, _unnamed_results="mine"), []),
        # what a dialect has a key for is no metadata of another; null says nothing
        ("openai", "mypt-3b", openai(USER, SAID, functions=[], tools=None), [("functions", "/functions")]),
        # what a message says is no metadata
        ("openai", "gabgpt", openai(USER, SAID | {"refusal": "no", "audio": {"id": "x"}}), [("refusal", "/messages/1/refusal"), ("audio", "/messages/1/audio")]),
        ("openai", "gabgpt", openai(USER, SAID | {"function_call": {"name": "f"}}), [("function_call", "/messages/1/function_call")]),
        # a system prompt of mypt is a string, which holds no metadata; pointers are escaped
        ("openai", "mypt", openai(SYSTEM | {"a/b~": 1}, USER, SAID), [("a/b~", "/messages/0/a~1b~0")]),
        # what reading leaves out, with a warning of the linter
        ("usf-omega", "usf-omega", openai(USER, {"role": "assistant", "contents": [{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "a"}], "reasoning": "GONE"}), [("reasoning", "/messages/1/reasoning")]),
    ],
)  # fmt: skip
def test_what_is_lost(source: str, target: str, record: Any, want: list[tuple[str, str]]) -> None:
    assert losses(source, target, record) == want


def test_a_cite_typed_in_content_is_no_loss() -> None:
    cited = "A.<myPT_cite>d1</myPT_cite> <myPT_cite>d2</myPT_cite>"
    record = {
        "system": "S.",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": cited}],
    }
    out = Converter("mypt", "mypt").record(record)
    assert out.record is not None
    assert out.losses == ()
    assert out.record["messages"][1] == {
        "role": "assistant",
        "content": "A.<myPT_cite>d1</myPT_cite>",
        "cite": "d2",
    }


@pytest.mark.parametrize(
    "text", ["72", "true", "1.0", '{"t":20}', '{"a": "\\u00fc"}', "sunny", '"quoted"', ""]
)
@pytest.mark.parametrize("target", ["usf-omega", "praxis"])
def test_results_that_are_text_stay_as_they_are(target: str, text: str) -> None:
    out = Converter("openai", target).record(openai(USER, asked(call()), answer(text), SAID))
    if text or target == "praxis":
        assert out.record is not None
        assert text in [s for s in strings(out.record) if s == text]


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [found for item in items for found in strings(item)]


@pytest.mark.parametrize(
    ("record", "code", "pointer"),
    [
        (
            openai(USER, asked(call(type="custom")), answer("x"), SAID),
            "MYP104",
            "/messages/1/tool_calls/0/type",
        ),
        (
            openai(USER, asked(call(arguments="{")), answer("x"), SAID),
            "MYP304",
            "/messages/1/tool_calls/0/function/arguments",
        ),
        (openai(USER, asked(call()), SAID), "MYP311", "/messages/2/content"),
        (openai(USER, SAID, language=5), "MYP104", "/language"),
    ],
)
def test_refusals_have_a_place(record: Any, code: str, pointer: str) -> None:
    out = Converter("openai", "praxis").record(record)
    assert [(f.code, f.pointer) for f in out.findings] == [(code, pointer)]


def test_an_output_stays_what_it_is(tmp_path: Path) -> None:
    """A link stays a link, a mode stays, and what is no file is written, not replaced."""
    source = write(tmp_path / "in.jsonl", OPENAI[0])
    args = ["--from", "openai", "--to", "gabgpt", "-q"]
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    assert main([source, "-o", str(link), *args]) == 0
    assert link.is_symlink()
    assert read(real) == [OPENAI[0]]
    assert real.stat().st_mode & 0o777 == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    assert main([source, "-o", str(pipe), *args]) == 0
    reader.join()
    assert json.loads(found[0]) == OPENAI[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("report", ["in.jsonl", "out.jsonl"])
def test_the_report_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], report: str
) -> None:
    source = write(tmp_path / "in.jsonl", OPENAI[0])
    before = Path(source).read_bytes()
    out = tmp_path / "out.jsonl"
    assert (
        main(
            [
                source,
                "-o",
                str(out),
                "--from",
                "openai",
                "--to",
                "gabgpt",
                "--report",
                str(tmp_path / report),
            ]
        )
        == 2
    )
    assert "is read from, or written twice" in capsys.readouterr().err
    assert Path(source).read_bytes() == before
    assert not out.exists()


def test_a_file_of_another_format_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, out = FEATURES["call and result"], str(tmp_path / "out.jsonl")
    openai = write(tmp_path / "openai.jsonl", *[FEATURES["definitions of tools"]["openai"]] * 3)
    omega = write(tmp_path / "omega.jsonl", *[calls["usf-omega"]] * 3)
    assert main([openai, omega, "-o", out, "--from", "mypt", "--to", "praxis"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-3] == "6 records read: 0 written, 6 refused"
    assert said[-2] == f"{openai} is openai, not mypt: --from openai converts it"
    assert re.fullmatch(
        f"{re.escape(omega)} is .*usf-omega.*, not mypt: --from .* converts it", said[-1]
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(openai).read_bytes())))
    assert main(["-", "-o", out, "--from", "mypt", "--to", "praxis"]) == 1
    assert "<stdin> is openai, not mypt" in capsys.readouterr().err
    keys = [FEATURES["system prompt"]["mypt"] | {"tools": [], "id": i} for i in range(3)]
    more = write(tmp_path / "more.jsonl", *keys)  # readable as mypt, but for a key of OpenAI's
    assert main([more, "-o", out, "--from", "mypt", "--to", "mypt-3b"]) == 0
    assert "more.jsonl is openai, not mypt" in capsys.readouterr().err
    own = [FEATURES["system prompt"]["mypt"] | {"id": i} for i in range(3)]
    assert (
        main([write(tmp_path / "own.jsonl", *own), "-o", out, "--from", "mypt", "--to", "mypt-3b"])
        == 0
    )
    assert ", not mypt" not in capsys.readouterr().err
    one = write(tmp_path / "one.jsonl", calls["usf-omega"], calls["mypt"])
    assert main([one, "-o", out, "--from", "mypt", "--to", "mypt"]) == 1
    assert "converts it" not in capsys.readouterr().err, "a record of it is mypt"


def test_records_of_other_tools_are_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpt = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]}
    source, out = write(tmp_path / "in.jsonl", gpt, gpt | {"id": 1}), tmp_path / "out.jsonl"
    for options in ((), ("--from", "auto"), ("--from", "sharegpt")):
        assert main([source, "-o", str(out), "--to", "gabgpt", *options]) == 0
        assert read(out)[0] == {
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
        }
        said = capsys.readouterr().err
        about = "ShareGPT records (conversations); --from sharegpt says so"
        assert (about in said) == (options != ("--from", "sharegpt"))


def mypt(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"system": "S", "messages": list(messages or (USER, SAID)), **more}


TAGGED = mypt({"role": "user", "content": "Hi <myPT_user>"}, SAID)
ROBOT = mypt({"role": "robot", "content": "Hi"})


@pytest.mark.parametrize(
    ("settings", "record", "options", "status"),
    [
        ("", TAGGED, (), 1),
        ('ignore = ["MYP301"]', TAGGED, (), 0),
        ('ignore = ["MYP301"]', TAGGED, ("--no-config",), 1),
        ("", TAGGED, ("--ignore", "MYP301"), 0),
        ("", TAGGED | {"_mypt_lint": {"ignore": ["MYP301"]}}, (), 0),
        ('[severity]\nMYP301 = "warning"', TAGGED, (), 0),
        ('[files."in.jsonl"]\nignore = ["MYP301"]', TAGGED, (), 0),
        ('[files."other.jsonl"]\nignore = ["MYP301"]', TAGGED, (), 1),
        ('ignore = ["MYP105"]', ROBOT, (), 1),
        ("max-tokens = 4", mypt(), (), 1),
        ('fail-on = "warning"', mypt({"role": "user", "content": " "}, SAID), (), 1),
    ],
)
def test_what_lints_clean_is_converted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    record: Any,
    options: tuple[str, ...],
    status: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mypt-lint.toml").write_text(settings)
    write(tmp_path / "in.jsonl", record)
    assert lint(["in.jsonl", "-q", *options]) == status
    assert main(["in.jsonl", "-o", "out.jsonl", "--to", "mypt", *options]) == status
    if status == 0:
        assert read(tmp_path / "out.jsonl") == [record]


@pytest.mark.parametrize(
    ("settings", "options", "marked", "carriage"),
    [
        ("", (), 1, 0),
        ("", ("--ignore", "MYP009"), 0, 0),
        ('ignore = ["byte-order-mark"]', (), 0, 0),
        ('ignore = ["MYP009"]', ("--no-config",), 1, 0),
        ('severity.MYP009 = "warning"', (), 0, 0),
        ('severity.MYP010 = "error"', (), 1, 1),
        ('fail-on = "warning"', (), 1, 1),
        ('fail-on = "warning"\nignore = ["MYP010"]', (), 1, 0),
        ('[files."in.jsonl"]\nseverity.MYP010 = "error"\nignore = ["MYP009"]', (), 0, 1),
        ('select = ["MYP1"]\nfail-on = "info"', (), 0, 0),
    ],
)
def test_findings_about_the_line_itself_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: str,
    options: tuple[str, ...],
    marked: int,
    carriage: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mypt-lint.toml").write_text(settings)
    line = json.dumps(mypt()).encode()
    for raw, status, code in [
        (b"\xef\xbb\xbf" + line + b"\n", marked, "MYP009"),
        (line + b"\n" + line + b"\r\n", carriage, "MYP010"),
    ]:
        (tmp_path / "in.jsonl").write_bytes(raw)
        assert lint(["in.jsonl", "-q", *options]) == status
        for source in ("mypt", "openai"):
            there = ["in.jsonl", "-o", "out.jsonl", "--from", source, "--to", "mypt", *options]
            capsys.readouterr()
            assert main(there) == status
            assert (f"refused {code}" in capsys.readouterr().err) == bool(status)
            if status == 0:
                assert read(tmp_path / "out.jsonl") == [mypt()] * raw.count(b"\n")


def test_each_file_has_its_own_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mypt-lint.toml").write_text('[files."g.jsonl"]\ndialect = "gabgpt"')
    write(tmp_path / "g.jsonl", openai(USER, SAID | {"think": "t"}))
    write(tmp_path / "m.jsonl", mypt())
    assert main(["g.jsonl", "m.jsonl", "-o", "o.jsonl", "--to", "usf-omega"]) == 0
    assert main(["g.jsonl", "-o", "o.jsonl", "--to", "usf-omega", "--from", "auto"]) == 0
    assert "reasoning" in (tmp_path / "o.jsonl").read_text()


def test_a_missing_system_prompt_is_told_of_the_option() -> None:
    bare = openai(USER, SAID)
    for source in ("openai", "gabgpt"):
        first = Converter(source, "mypt").record(bare).findings[0]
        assert first.message.endswith("; --system gives it one")
    assert Converter("openai", "mypt", system="S").record(bare).record is not None
    empty = Converter("openai", "mypt").record(openai(SYSTEM, USER, SAID | {"content": ""}))
    assert "--system" not in empty.findings[0].message


@pytest.mark.parametrize("prompt", ["S", [{"type": "text", "text": "S"}]])
def test_a_system_prompt_beside_the_messages_is_read(prompt: Any) -> None:
    out = Converter("openai", "mypt").record(openai(USER, SAID, system=prompt))
    assert (out.record, out.losses) == (mypt(), ())
    assert Converter("openai", "mypt").record(openai(USER, SAID, system=5)).findings[0].pointer == (
        "/system"
    )
