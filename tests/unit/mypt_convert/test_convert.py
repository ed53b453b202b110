"""mypt-convert: the matrix of docs/conversion.md, and the command."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.convert import main
from mypt.lint.cli import main as lint
from mypt_convert import Converter
from tests.support import build, conversion
from tests.support.build import assistant, call, calls, chat, lines, read, system, tool, user, write
from tests.support.conversion import FEATURES, Outcome, converter
from tests.support.linting import ROOT, write_texts

PAGE = ROOT / "docs/conversion.md"


def check_cell(source: str, target: str, cell: Outcome) -> None:
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
        back = converter(target, source).record(converted.record).record
        # A format that needs ids of calls has made some.
        plain = conversion.without_ids if converted.named else dict
        assert plain(back) == plain(one.write(first))
    if cell.word.startswith("loses"):
        assert all(loss.field and loss.reason for loss in converted.losses)
    if source == target:
        assert cell.word == "kept"


@pytest.mark.parametrize("source", conversion.sources())
def test_the_matrix(source: str) -> None:
    """Each cell of docs/conversion.md is what it says."""
    outcomes = conversion.outcomes_from(source)
    cells = {(f, target): cell for f in outcomes for target, cell in outcomes[f].items()}
    for (feature, target), cell in cells.items():
        try:
            check_cell(source, target, cell)
        except AssertionError as error:
            error.add_note(f"{feature}, from {source} to {target}: {cell.word}")
            raise
    words = {cell.word.split()[0] for cell in cells.values()}
    assert words >= {"kept", "loses"}
    assert source != "openai" or words == {"kept", "loses", "refused:"}, "all kinds of cells"
    assert conversion.section(source, outcomes) in PAGE.read_text(encoding="utf-8"), (
        "python tools/regenerate.py writes it again"
    )


OPENAI = [
    chat(),
    chat(system(), user(), assistant(weight=1)),
    chat(user([{"type": "image_url"}]), assistant()),
]


def run(*args: str) -> tuple[int, dict[str, Any]]:
    """Converts in.jsonl to out.jsonl, from OpenAI's records to gabgpt unless that is said.

    Returns the exit status, and the report.
    """
    options = ["in.jsonl", "-o", "out.jsonl", "--from", "openai", "--to", "gabgpt"]
    status = main([*options, *args, "--report", "report.json"])
    return status, json.loads(Path("report.json").read_text())


@pytest.mark.parametrize(
    ("on_loss", "written", "with_losses"), [("error", 0, 0), ("warn", 2, 2), ("drop", 2, 2)]
)
@pytest.mark.usefixtures("folder")
def test_losses(
    capsys: pytest.CaptureFixture[str], on_loss: str, written: int, with_losses: int
) -> None:
    write("in.jsonl", OPENAI[1], OPENAI[1], OPENAI[2])
    status, report = run("--on-loss", on_loss)
    assert status == 1
    assert (report["read"], report["written"], report["with_losses"]) == (3, written, with_losses)
    assert report["read"] == report["written"] + report["refused"]
    assert report["refused"] == sum(report["refused_by"].values())
    assert len(read("out.jsonl")) == written
    err = capsys.readouterr().err
    assert "in.jsonl:3: refused MYP104 /messages/0/content/0: expected a part" in err
    reason = "gabgpt has no place for it"
    lost = f"in.jsonl:1: lost system /messages/0/content: {reason}"
    assert (lost in err) == (on_loss == "warn")
    refused = f"in.jsonl:2: refused /messages/0/content: would lose system: {reason}"
    assert (refused in err) == (on_loss == "error")
    if written or on_loss == "error":
        assert report["lost"] == {"system": {"records": 2, "values": 2}}
    assert report["kept_as_metadata"] == {}


@pytest.mark.usefixtures("folder")
def test_a_system_prompt_for_those_without() -> None:
    write("in.jsonl", OPENAI[0], OPENAI[1])
    assert run("--to", "mypt")[0] == 1
    assert run("--to", "mypt", "--system", "Mine", "--on-loss", "drop")[0] == 0
    assert [r["system"] for r in read("out.jsonl")] == ["Mine", "S"]


@pytest.mark.usefixtures("folder")
def test_every_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    tail = b'\nnope\n{"a": 1, "a": 2}\n\xff\n{}\n[]\n{"messages": []}'
    Path("in.jsonl").write_bytes(lines(OPENAI[0])[0] + b"\n" + tail)
    status, report = run("--to", "praxis")
    assert status == 1
    assert (report["read"], report["written"], report["refused"]) == (8, 1, 7)
    err = capsys.readouterr().err
    codes = ["MYP011", "MYP001", "MYP004", "MYP002", "MYP104", "MYP101", "MYP104"]
    for row, code in enumerate(codes, 2):
        assert f"in.jsonl:{row}: refused {code}" in err


@pytest.mark.usefixtures("folder")
def test_compressed() -> None:
    Path("in.jsonl.gz").write_bytes(gzip.compress(lines(OPENAI[0])[0] + b"\n"))
    command = ["in.jsonl.gz", "-o", "out.jsonl.gz", "--from", "openai", "--to", "gabgpt"]
    assert main(command) == 0
    first = Path("out.jsonl.gz").read_bytes()
    assert json.loads(gzip.decompress(first)) == OPENAI[0]
    assert main(command) == 0
    assert Path("out.jsonl.gz").read_bytes() == first, "equal data gives equal bytes"


@pytest.mark.usefixtures("folder")
def test_a_damaged_file(capsys: pytest.CaptureFixture[str]) -> None:
    source = random.Random(1)
    data = b"\n".join(lines(*(chat(_n=source.randbytes(100).hex()) for _ in range(500))))
    Path("in.jsonl").write_bytes(gzip.compress(data)[:-4000])
    Path("in.jsonl").rename("in.jsonl.gz")
    options = ["-o", "out.jsonl", "--from", "openai", "--to", "gabgpt", "--report", "r"]
    assert main(["in.jsonl.gz", *options]) == 1
    report = json.loads(Path("r").read_text())
    assert report["refused_by"] == {"MYP003": 1}
    assert 0 < report["written"] < 500
    assert "refused MYP003" in capsys.readouterr().err


def test_streams(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(*lines(OPENAI[0]))))
    assert main(["-", "-o", "-", "--from", "openai", "--to", "gabgpt"]) == 0
    out = capfdbinary.readouterr()
    assert json.loads(out.out) == OPENAI[0]
    assert out.err.endswith(b"1 record read: 1 written, 0 refused\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("in.jsonl -o in.jsonl --to mypt", "in.jsonl: is read from"),
        ("in.jsonl -o no/such/out.jsonl --to mypt", "no/such/out.jsonl: cannot be written"),
        ("in.jsonl -o . --to mypt", ".: cannot be written: is a folder"),
        ("missing.jsonl -o out.jsonl --to mypt", "missing.jsonl: no such file"),
        ("in.jsonl -o out.jsonl.zst --to mypt", ".zst is read, not written"),
        ("in.jsonl -o out.arrow --to mypt", ".arrow is read, not written"),
        ("in.jsonl -o out.jsonl --to openai", "no dialect 'openai'; known are"),
        ("in.jsonl -o out.jsonl --to mypt --from other", "no format 'other'; known are openai,"),
        ("in.jsonl -o out.jsonl --to mypt --report in.jsonl", "is read from, or written twice"),
        ("in.jsonl -o out.jsonl --to mypt --report out.jsonl", "is read from, or written twice"),
    ],
)
def test_usage(folder: Path, capsys: pytest.CaptureFixture[str], args: str, message: str) -> None:
    write("in.jsonl", OPENAI[0])
    before = build.contents(folder)
    assert main(args.split()) == 2
    assert message in capsys.readouterr().err
    assert build.contents(folder) == before, "nothing is left behind, or written over"


def test_an_interrupted_run_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("in.jsonl", *OPENAI)
    write("out.jsonl", "old")
    before = build.contents(folder)

    def interrupt(self: Converter, value: Any, about: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Converter, "record", interrupt)
    assert main(["in.jsonl", "-o", "out.jsonl", "--from", "openai", "--to", "gabgpt"]) == 130
    assert build.contents(folder) == before
    assert "interrupted" in capsys.readouterr().err


USER, ANSWER, SYSTEM = user("u"), assistant("a"), system()
CALL = call("s", id="1")
CALLED = {"role": "assistant_toolcall", "name": "s", "arguments": {}, "think": "t"}
RETURNED = {"role": "toolresult", "name": "s", "content": 1}


def calling(*some: Any, **more: Any) -> dict[str, Any]:
    return calls(*some, content=None) | more


def result(text: str) -> dict[str, Any]:
    return tool(text, tool_call_id="1")


def mypt(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"system": "S", **chat(*(messages or (USER, ANSWER)), **more)}


def losses(
    source: str, target: str, record: Any, system: str | None = None
) -> list[tuple[str, str]]:
    out = Converter(source, target, system=system).record(record)
    assert out.record is not None, out.findings
    return [(loss.field, loss.pointer) for loss in out.losses]


@pytest.mark.parametrize(
    ("source", "target", "record", "want"),
    [
        # what stands beside something lost is lost with it, and said
        ("mypt", "praxis", mypt(user("u", context="c", _id=1), ANSWER), [("context", "/messages/0/context"), ("_id", "/messages/0/_id")]),
        ("openai", "mypt", chat(SYSTEM, USER, calls(CALL, content="hm", weight=0), result("x"), ANSWER), [("text", "/messages/2/content"), ("weight", "/messages/2/weight")]),
        # thinking before a call that is lost is not the answer's
        ("mypt", "gabgpt", mypt(USER, CALLED, RETURNED, ANSWER),
         [("system", "/system"), ("think", "/messages/1/think"), ("call", "/messages/1/arguments"), ("result", "/messages/2/content")]),
        # keys inside calls, functions and parts
        ("openai", "usf-omega", chat(USER, calling(CALL | {"index": 0}), result("x"), ANSWER), [("tool_calls.index", "/messages/1/tool_calls.index")]),
        ("openai", "gabgpt", chat(user([{"type": "text", "text": "u", "cache_control": {}}]), ANSWER), [("content.cache_control", "/messages/0/content.cache_control")]),
        # two messages of the assistant are not one
        ("openai", "usf-omega", chat(USER, ANSWER, assistant("b")), [("message boundary", "/messages/2/message boundary")]),
        # what stands elsewhere there
        ("openai", "usf-omega", chat(USER, ANSWER, build.message("developer", "d"), user("v"), assistant("b")), [("order", "/messages/2/content")]),
        ("openai", "mypt", chat(USER, ANSWER, SYSTEM, user("v"), assistant("b")), [("order", "/messages/2/content")]),
        # reserved metadata that is the user's own
        ("openai", "mypt", chat(SYSTEM, USER, calling(CALL), result("x"), ANSWER, _tool_call_ids="mine"), [("id", "/_tool_call_ids")]),
        ("openai", "usf-omega", chat(USER, calling(CALL), result("x"), ANSWER, _unnamed_results="mine"), []),
        # what a dialect has a key for is no metadata of another; null says nothing
        ("openai", "mypt-3b", chat(USER, ANSWER, functions=[], tools=None), [("functions", "/functions")]),
        # what a message says is no metadata
        ("openai", "gabgpt", chat(USER, ANSWER | {"refusal": "no", "audio": {"id": "x"}}), [("refusal", "/messages/1/refusal"), ("audio", "/messages/1/audio")]),
        ("openai", "gabgpt", chat(USER, ANSWER | {"function_call": "f"}), [("function_call", "/messages/1/function_call")]),
        # a system prompt of mypt is a string, which holds no metadata; pointers are escaped
        ("openai", "mypt", chat(SYSTEM | {"a/b~": 1}, USER, ANSWER), [("a/b~", "/messages/0/a~1b~0")]),
        # what reading leaves out, with a warning of the linter
        ("usf-omega", "usf-omega", chat(USER, {"role": "assistant", "contents": [{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "a"}], "reasoning": "GONE"}), [("reasoning", "/messages/1/reasoning")]),
        # places that the canonical record has and this one lacks
        ("usf-omega", "llama3", chat(USER, calls(call("s", {}, id="1"), content="a", reasoning="r"), result("x"), ANSWER), [("think", "/messages/1"), ("text", "/messages/1")]),
    ],
)  # fmt: skip
def test_what_is_lost(source: str, target: str, record: Any, want: list[tuple[str, str]]) -> None:
    assert losses(source, target, record) == want


def test_a_cite_typed_in_content_is_no_loss() -> None:
    cited = "A.<myPT_cite>d1</myPT_cite> <myPT_cite>d2</myPT_cite>"
    out = Converter("mypt", "mypt").record(mypt(USER, assistant(cited)))
    assert out.record is not None
    assert out.losses == ()
    assert out.record["messages"][1] == assistant("A.<myPT_cite>d1</myPT_cite>", cite="d2")


@pytest.mark.parametrize(
    "text", ["72", "true", "1.0", '{"t":20}', '{"a": "\\u00fc"}', "sunny", '"quoted"', ""]
)
@pytest.mark.parametrize("target", ["usf-omega", "praxis"])
def test_results_that_are_text_stay_as_they_are(target: str, text: str) -> None:
    out = Converter("openai", target).record(chat(USER, calling(CALL), result(text), ANSWER))
    if text or target == "praxis":
        assert out.record is not None
        assert text in strings(out.record)


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in items for text in strings(item)]


@pytest.mark.parametrize(
    ("record", "code", "pointer"),
    [
        (chat(USER, calling(CALL | {"type": "custom"}), result("x"), ANSWER), "MYP104", "/messages/1/tool_calls/0/type"),
        (chat(USER, calling(call("s", "{", id="1")), result("x"), ANSWER), "MYP304", "/messages/1/tool_calls/0/function/arguments"),
        (chat(USER, calling(CALL), ANSWER), "MYP311", "/messages/2/content"),
        (chat(USER, ANSWER, language=5), "MYP104", "/language"),
    ],
)  # fmt: skip
def test_refusals_have_a_place(record: Any, code: str, pointer: str) -> None:
    out = Converter("openai", "praxis").record(record)
    assert [(f.code, f.pointer) for f in out.findings] == [(code, pointer)]


def test_an_output_stays_what_it_is(folder: Path) -> None:
    """A link stays a link, a mode stays, and what is no file is written, not replaced."""
    write("in.jsonl", OPENAI[0])
    real, link, pipe = Path("real.jsonl"), Path("link.jsonl"), Path("pipe")
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    command = ["in.jsonl", "--from", "openai", "--to", "gabgpt", "-q", "-o"]
    assert main([*command, str(link)]) == 0
    assert link.is_symlink()
    assert read(real) == [OPENAI[0]]
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    data: list[bytes] = []
    reader = threading.Thread(target=lambda: data.append(pipe.read_bytes()))
    reader.start()
    assert main([*command, str(pipe)]) == 0
    reader.join()
    assert json.loads(data[0]) == OPENAI[0]
    assert pipe.is_fifo()


@pytest.mark.usefixtures("folder")
def test_a_file_of_another_format_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both, keys = FEATURES["call and result"], FEATURES["system prompt"]["mypt"]

    def convert(*paths: str, to: str = "praxis") -> tuple[int, list[str]]:
        status = main([*paths, "-o", "out.jsonl", "--from", "mypt", "--to", to])
        return status, capsys.readouterr().err.splitlines()

    openai = write("openai.jsonl", *[FEATURES["tool definitions"]["openai"]] * 3)
    omega = write("omega.jsonl", *[both["usf-omega"]] * 3)
    status, err = convert(openai, omega)
    assert status == 1
    assert err[-3] == "6 records read: 0 written, 6 refused"
    assert err[-2] == "openai.jsonl is openai, not mypt: --from openai converts it"
    assert re.fullmatch(r"omega\.jsonl is .*usf-omega.*, not mypt: --from .* converts it", err[-1])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(openai).read_bytes())))
    status, err = convert("-")
    assert status == 1
    assert "<stdin> is openai, not mypt" in "\n".join(err)
    # Readable as mypt, but for a key of OpenAI's.
    write("more.jsonl", *(keys | {"tools": [], "id": i} for i in range(3)))
    status, err = convert("more.jsonl", to="mypt-3b")
    assert status == 0
    assert "more.jsonl is openai, not mypt" in "\n".join(err)
    write("own.jsonl", *(keys | {"id": i} for i in range(3)))
    status, err = convert("own.jsonl", to="mypt-3b")
    assert status == 0
    assert ", not mypt" not in "\n".join(err)
    write("one.jsonl", both["usf-omega"], both["mypt"])
    status, err = convert("one.jsonl", to="mypt")
    assert status == 1
    assert "converts it" not in "\n".join(err), "a record of it is mypt"


@pytest.mark.usefixtures("folder")
def test_records_of_other_tools_are_detected(capsys: pytest.CaptureFixture[str]) -> None:
    gpt = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]}
    write("in.jsonl", gpt, gpt | {"id": 1})
    for options in ((), ("--from", "auto"), ("--from", "sharegpt")):
        assert main(["in.jsonl", "-o", "out.jsonl", "--to", "gabgpt", *options]) == 0
        assert read("out.jsonl")[0] == chat(user(), assistant("Yo"))
        about = "ShareGPT records (conversations); use --from sharegpt to choose this shape"
        assert (about in capsys.readouterr().err) == (options != ("--from", "sharegpt"))


TAGGED, ROBOT = mypt(user("Hi <myPT_user>"), ANSWER), mypt(build.message("robot"))


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
        ('fail-on = "warning"', mypt(user(" "), ANSWER), (), 1),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_lints_clean_is_converted(
    settings: str, record: Any, options: tuple[str, ...], status: int
) -> None:
    write_texts({"mypt-lint.toml": settings})
    write("in.jsonl", record)
    assert lint(["in.jsonl", "-q", *options]) == status
    assert main(["in.jsonl", "-o", "out.jsonl", "--to", "mypt", *options]) == status
    if status == 0:
        assert read("out.jsonl") == [record]


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
@pytest.mark.usefixtures("folder")
def test_findings_about_the_line_itself_count(
    capsys: pytest.CaptureFixture[str],
    settings: str,
    options: tuple[str, ...],
    marked: int,
    carriage: int,
) -> None:
    (line,) = lines(mypt())
    for raw, status, code in [
        (b"\xef\xbb\xbf" + line + b"\n", marked, "MYP009"),
        (line + b"\n" + line + b"\r\n", carriage, "MYP010"),
    ]:
        write_texts({"mypt-lint.toml": settings, "in.jsonl": raw})
        assert lint(["in.jsonl", "-q", *options]) == status
        for source in ("mypt", "openai"):
            there = ["in.jsonl", "-o", "out.jsonl", "--from", source, "--to", "mypt", *options]
            capsys.readouterr()
            assert main(there) == status
            assert (f"refused {code}" in capsys.readouterr().err) == bool(status)
            if status == 0:
                assert read("out.jsonl") == [mypt()] * raw.count(b"\n")


@pytest.mark.usefixtures("folder")
def test_each_file_has_its_own_dialect() -> None:
    write_texts({"mypt-lint.toml": '[files."g.jsonl"]\ndialect = "gabgpt"'})
    write("g.jsonl", chat(USER, assistant("a", think="t")))
    write("m.jsonl", mypt())
    assert main(["g.jsonl", "m.jsonl", "-o", "o.jsonl", "--to", "usf-omega"]) == 0
    assert main(["g.jsonl", "-o", "o.jsonl", "--to", "usf-omega", "--from", "auto"]) == 0
    assert "reasoning" in Path("o.jsonl").read_text()


def test_a_missing_system_prompt_is_told_of_the_option() -> None:
    bare = chat(USER, ANSWER)
    for source in ("openai", "gabgpt"):
        first = Converter(source, "mypt").record(bare).findings[0]
        assert first.message.endswith("; --system gives it one")
    assert Converter("openai", "mypt", system="S").record(bare).record is not None
    empty = Converter("openai", "mypt").record(chat(SYSTEM, USER, assistant("")))
    assert "--system" not in empty.findings[0].message


@pytest.mark.parametrize("text", ["4", "null", '{"a": 1}', ' "4"'])
def test_a_text_that_is_json_stays_a_text(text: str) -> None:
    """Also where white space around texts is left out."""
    record = chat(user(text), assistant(text, reasoning_content=text))
    for target in ("gemma3", "glm4.5", "qwen3"):
        out = Converter("openai", target).record(record)
        assert out.record is not None, out.findings
        contents = [m["content"].strip() for m in out.record["messages"]]
        assert contents == [text.strip()] * 2


@pytest.mark.parametrize("prompt", ["S", [{"type": "text", "text": "S"}]])
def test_a_system_prompt_beside_the_messages_is_read(prompt: Any) -> None:
    out = Converter("openai", "mypt").record(chat(USER, ANSWER, system=prompt))
    assert (out.record, out.losses) == (mypt(), ())
    refused = Converter("openai", "mypt").record(chat(USER, ANSWER, system=5))
    assert refused.findings[0].pointer == "/system"


def test_results_without_ids_are_of_the_calls_in_order() -> None:
    """As a record of qwen3 itself is read; the linter warns of each (MYP352)."""
    both = [
        {"id": f"c{n}", "type": "function", "function": {"name": "get", "arguments": {"n": n}}}
        for n in (1, 2)
    ]
    record = {
        "messages": [
            {"role": "user", "content": "Q"},
            {"role": "assistant", "content": "", "tool_calls": both},
            {"role": "tool", "content": "one"},
            {"role": "tool", "content": "two"},
            {"role": "assistant", "content": "A"},
        ]
    }
    out = Converter("openai", "qwen3").record(record)
    assert out.record is not None, out.findings
    assert [m.get("content") for m in out.record["messages"]][2:4] == ["one", "two"]


def test_what_the_target_has_no_place_for_is_the_reason() -> None:
    """Not what the record lacks because of it: an answer would be invented."""
    ends_with_calls = chat(USER, calls(call("t", {"q": 1})))
    for record in (ends_with_calls, chat(*ends_with_calls["messages"], USER, ANSWER)):
        (finding,) = Converter("openai", "chatml").record(record).findings
        assert finding.code == "MYP114"
        assert finding.message == "tool_calls: chatml has no place for it"
        assert finding.pointer == "/messages/1/tool_calls/0/function/arguments"
    unanswered = chat(*ends_with_calls["messages"], USER, ANSWER, USER)
    out = Converter("openai", "chatml").record(unanswered)
    assert [f.code for f in out.findings] == ["MYP114", "MYP218"]
