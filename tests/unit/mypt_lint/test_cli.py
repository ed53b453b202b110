"""The command `mypt-lint`, as people call it: exit status, streams, options, and the inputs that
break other linters.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_lint.cli import main
from tests.support.children import child

ROOT = Path(__file__).parents[3]
GOOD = '{"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}\n'


def record(*messages: str) -> bytes:
    return ('{"system": "S", "messages": [' + ", ".join(messages) + "]}\n").encode()


USER, ANSWER = '{"role": "user", "content": "Hi"}', '{"role": "assistant", "content": "Yo"}'
CALL, RESULT = (
    '{"role": "assistant_toolcall", "name": "t", "arguments": {}}',
    '{"role": "toolresult", "name": "t", "content": 1}',
)


@pytest.fixture
def lint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Write bytes to a file, lint it, return exit status, the findings as JSON, and stderr."""

    def run(
        data: bytes, *options: str, name: str = "data.jsonl"
    ) -> tuple[int, list[dict[str, Any]], str]:
        path = tmp_path / name
        path.write_bytes(data)
        status = main([*options, "--format", "json", str(path)])
        captured = capsys.readouterr()
        return status, json.loads(captured.out), captured.err

    return run


MUST_SHOW = {
    "role system": (
        record('{"role": "system", "content": "T"}', USER, ANSWER),
        "MYP108",
        "/messages/0/role",
    ),
    "role tool_result": (
        record(USER, CALL, RESULT.replace("toolresult", "tool_result"), ANSWER),
        "MYP109",
        "/messages/2/role",
    ),
    "content null": (record(USER.replace('"Hi"', "null"), ANSWER), "MYP104", "/messages/0/content"),
    "content a list": (
        record(USER.replace('"Hi"', '[{"type": "text"}]'), ANSWER),
        "MYP104",
        "/messages/0/content",
    ),
    "arguments a string": (
        record(USER, CALL.replace("{}", '"{}"'), RESULT, ANSWER),
        "MYP110",
        "/messages/1/arguments",
    ),
    "NaN": (
        record(USER, CALL, RESULT.replace("1}", "NaN}"), ANSWER),
        "MYP005",
        "/messages/2/content",
    ),
    "duplicate key": (
        record(USER[:-1] + ', "content": "Ho"}', ANSWER),
        "MYP004",
        "/messages/0/content",
    ),
    "lone surrogate": (
        record(USER.replace("Hi", r"\ud83d"), ANSWER),
        "MYP006",
        "/messages/0/content",
    ),
    "hidden tag": (
        record(USER.replace("Hi", r"\u003cmyPT_user>"), ANSWER),
        "MYP301",
        "/messages/0/content",
    ),
    "early assistant_context": (
        record('{"role": "assistant_context", "content": "c"}', USER, ANSWER),
        "MYP220",
        "/messages/0/role",
    ),
    "unknown role": (
        record(USER.replace('"user"', '"robot"'), ANSWER),
        "MYP105",
        "/messages/0/role",
    ),
    "unknown key": (record(USER[:-1] + ', "weight": 1}', ANSWER), "MYP103", "/messages/0/weight"),
    "100,000 brackets": (
        record(USER, CALL, RESULT.replace("1}", "[" * 100_000 + "]" * 100_000 + "}"), ANSWER),
        "MYP008",
        "",
    ),
    "invalid UTF-8": (record(USER, ANSWER).replace(b"Yo", b"Y\xff"), "MYP002", ""),
}


@pytest.mark.parametrize("case", MUST_SHOW)
def test_each_fault_gives_its_own_finding(lint: Any, case: str) -> None:
    data, code, pointer = MUST_SHOW[case]
    status, found, _ = lint(GOOD.encode() + data)
    assert status == 1
    assert [(f["code"], f["pointer"]) for f in found] == [(code, pointer)]
    assert found[0]["location"]["row"] == 2


def test_two_eots_in_text(lint: Any) -> None:
    text = b"<myPT_system>S</myPT_system><myPT_user>Q</myPT_user><myPT_assistant>A</myPT_assistant><myPT_eot><myPT_eot>"
    status, found, _ = lint(text, "--kind", "text", name="x.txt")
    assert (status, [(f["code"], f["span"]) for f in found]) == (1, [("MYP217", [96, 106])])


def test_a_hidden_tag_is_located_on_the_physical_line(lint: Any) -> None:
    line = record(USER.replace("Hi", r"a\u003cmyPT_user>"), ANSWER).decode()
    _, found, _ = lint(line.encode())
    a, b = found[0]["location"]["column"], found[0]["end_location"]["column"]
    assert line[a - 1 : b - 1] == r"\u003cmyPT_user>"
    assert found[0]["span"] == [1, 12]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_a_line_of_200_mb_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as out:
        out.write(b'{"system": "')
        for _ in range(200):
            out.write(b"x" * (1 << 20))
        out.write(b'"}\n' + GOOD.encode())
    code = (  # VmHWM: ru_maxrss of a child begins at the peak of its parent
        "import re, sys\nfrom mypt_lint.cli import main\nstatus = main(['--format', 'json', sys.argv[1]])\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)\nsys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert [(f["code"], f["location"]["row"]) for f in json.loads(done.stdout)] == [("MYP007", 1)]
    summary, peak = done.stderr.strip().splitlines()
    assert summary == "1 error in 1 of 2 lines (1 clean, 1 faulty; 1 file)"
    assert int(peak) < 150 * 1024


def test_truncated_gz(lint: Any) -> None:
    whole = gzip.compress(
        "".join(GOOD.replace("Hi", os.urandom(40).hex()) for _ in range(500)).encode()
    )
    status, found, err = lint(whole[: len(whole) // 2], name="data.jsonl.gz")
    assert (status, [f["code"] for f in found]) == (1, ["MYP003"])
    units = int(re.search(r"about the file; (\d+) lines", err)[1])  # type: ignore[index]
    assert "clean" in err
    assert units >= 0
    assert lint(whole, name="data.jsonl.gz")[0] == 0


def test_file_family(lint: Any) -> None:
    bom = b"\xef\xbb\xbf" + GOOD.encode()
    assert [f["code"] for f in lint(bom)[1]] == ["MYP009"]
    assert [f["code"] for f in lint(GOOD.encode().replace(b"\n", b"\r\n"))[1]] == ["MYP010"]
    assert [f["code"] for f in lint(GOOD.encode() + b"\n" + GOOD.encode())[1]] == ["MYP011"]
    assert [f["code"] for f in lint(b"")[1]] == ["MYP012"]
    assert [f["code"] for f in lint(GOOD.encode().rstrip())[1]] == ["MYP013"]
    assert [f["code"] for f in lint(b"[]\n")[1]] == ["MYP101"]
    assert lint(GOOD.replace("Hi", "a\u2028b\u0085c").encode())[:2] == (0, [])


@pytest.mark.parametrize(
    ("kind", "faulty"),
    [
        ("text", "<myPT_system>S.</myPT_system><myPT_user>Hi</myPT_user><myPT_eot>"),
        ("generation", "<myPT_assistant>Hi</myPT_assistant><myPT_user>"),
    ],
)
def test_behind_a_byte_order_mark_a_text_is_read(lint: Any, kind: str, faulty: str) -> None:
    """The mark is said, or ignored; what comes after it is checked all the same."""
    plain = lint(faulty.encode(), "--kind", kind, name="a.txt")[1]
    assert plain
    marked = b"\xef\xbb\xbf" + faulty.encode()
    status, found, _ = lint(marked, "--kind", kind, "--ignore", "MYP009", name="a.txt")
    assert status == 1
    places = [(f["code"], f["span"]) for f in found]
    assert places == [(f["code"], [n + 1 for n in f["span"]]) for f in plain]
    codes = [f["code"] for f in lint(marked, "--kind", kind, name="a.txt")[1]]
    assert codes == ["MYP009", *(f["code"] for f in plain)]


@pytest.mark.parametrize("kind", ["text", "generation"])
def test_a_text_that_cannot_be_read_is_not_clean(lint: Any, kind: str) -> None:
    status, found, _ = lint(b"\xff", "--kind", kind, "--ignore", "MYP002", name="a.txt")
    assert (status, [f["code"] for f in found]) == (1, ["MYP906"])


def test_exit_status(lint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint(GOOD.encode())[0] == 0
    warning = GOOD.replace("Yo", "  ").encode()
    assert lint(warning)[0] == 0
    assert lint(warning, "--fail-on", "warning")[0] == 1
    assert lint(GOOD.rstrip().encode(), "--fail-on", "info")[0] == 1
    for arguments in (
        [str(tmp_path / "none.jsonl")], ["--select", "MYP9999", "x"], ["--dialect", "none", "x"], ["--phase", "9", "x"], [],
    ):  # fmt: skip
        assert main(arguments) == 2
        message = capsys.readouterr()
        assert message.err.startswith("mypt-lint: error: ")
        assert message.out == ""
    with pytest.raises(SystemExit) as stop:
        main(["--no-such-option"])
    assert stop.value.code == 2


def test_an_internal_error_is_status_2_and_no_traceback(
    lint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(mypt_spec.Dialect, "read", fail)
    status, found, _ = lint(b'{"x": 1}\n')
    assert (status, found[0]["code"]) == (2, "MYP901")
    assert "RuntimeError: boom" in found[0]["message"]


def test_select_and_ignore(lint: Any) -> None:
    data = record(USER.replace('"user"', '"robot"'), ANSWER) + record(
        USER[:-1] + ', "weight": 1}', ANSWER
    )
    assert [f["code"] for f in lint(data)[1]] == ["MYP105", "MYP103"]
    assert [f["code"] for f in lint(data, "--select", "unknown-role")[1]] == ["MYP105"]
    assert [f["code"] for f in lint(data, "--select", "MYP1", "--ignore", "MYP105")[1]] == [
        "MYP906",  # nothing can be trained on without a role
        "MYP103",
    ]
    assert [f["code"] for f in lint(data, "--ignore", "MYP1")[1]] == ["MYP906"]


@pytest.mark.parametrize(
    ("record", "word"),
    [
        (
            {
                "messages": [
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": None, "tool_calls": []},
                ]
            },
            "mypt-convert --from openai",
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": "Hi"},
                    {"from": "gpt", "value": "Hello!"},
                ]
            },
            "ShareGPT",
        ),
        ({"instruction": "Greet.", "input": "", "output": "Hi!"}, "Alpaca"),
    ],
)
def test_records_of_other_formats_are_told_where_to_go(record: dict[str, Any], word: str) -> None:
    _, found = mypt_spec.dialect("mypt").read(record)
    assert any(f.code == "MYP103" and word in f.help for f in found)


def test_phases(lint: Any) -> None:
    two_turns, tool = record(USER, ANSWER, USER, ANSWER), record(USER, CALL, RESULT, ANSWER)
    assert [f["code"] for f in lint(two_turns, "--phase", "2")[1]] == ["MYP402"]
    assert lint(two_turns, "--phase", "3")[1] == []
    assert {f["code"] for f in lint(tool, "--phase", "3")[1]} == {"MYP401"}
    assert lint(tool, "--phase", "4")[1] == []


def test_tools_and_tokens(lint: Any) -> None:
    tool = record(USER, CALL, RESULT, ANSWER)
    assert [f["code"] for f in lint(tool, "--tool", "other")[1]] == ["MYP313"]
    assert lint(tool, "--tool", "t", "--tool", "other")[1] == []
    assert [f["message"] for f in lint(GOOD.encode(), "--max-tokens", "9")[1]] == [
        "the episode has 10 tokens, the limit is 9"
    ]
    assert lint(GOOD.encode(), "--max-tokens", "10")[1] == []


def test_the_summary_adds_up(lint: Any) -> None:
    _, _, err = lint(GOOD.encode() * 3 + b"{\n" + record(USER.replace("Hi", " "), ANSWER) + b"\n")
    assert (
        err
        == "1 error, 2 warnings in 3 of 6 lines (3 clean, 3 faulty; 1 file)\n1 fixable with --fix.\n"
    )


def test_statistics_and_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("{\n{\n[]\n")
    assert main(["-q", "--statistics", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "2  MYP001  invalid-json          [2 lines, 66.7%]",
        "1  MYP101  record-not-an-object  [1 line, 33.3%]",
    ]
    assert captured.err == ""


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode() + b"{\n")))
    assert main(["--format", "concise", "-"]) == 1
    assert capsys.readouterr().out.startswith("<stdin>:2:2: MYP001")


def test_any_number_of_workers_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        GOOD,
        "{\n",
        "\n",
        record(USER.replace("Hi", " "), ANSWER).decode(),
        GOOD.replace("Hi", "<myPT_user>" + "ä" * 900),
    ]
    data = "".join(lines[i % 5] for i in range(9000)).encode()
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(data[:-1]))
    outputs = set()
    for jobs in ("1", "2", "5"):
        assert main(["-j", jobs, "--format", "jsonl", str(tmp_path)]) == 1
        captured = capsys.readouterr()
        outputs.add(captured.out)
        places = [
            (f["filename"], f["location"]["row"], f["location"]["column"])
            for f in map(json.loads, captured.out.splitlines()[:-1])
        ]
        assert places == sorted(places)
    assert len(outputs) == 1


def test_generations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def codes(text: str) -> tuple[int, list[str]]:
        path = tmp_path / "g.txt"
        path.write_text(text)
        status = main(["-q", "--kind", "generation", "--format", "json", str(path)])
        return status, [f["code"] for f in json.loads(capsys.readouterr().out)]

    call = '<myPT_assistant><myPT_toolcall>{"name": "t"}</myPT_toolcall></myPT_assistant>'
    assert codes("Hello.</myPT_assistant><myPT_eot>") == (0, [])
    assert codes("<myPT_assistant>Hello.</myPT_assistant><myPT_eot>") == (0, [])
    assert codes(call) == (0, [])
    assert codes("Hel") == (0, ["MYP701"])
    assert codes("<myPT_assistant><myPT_think>hm") == (0, ["MYP701"])
    assert codes(call + "<myPT_toolresult>1</myPT_toolresult>") == (1, ["MYP702"])
    assert codes("Hi</myPT_assistant><myPT_eot><myPT_user>more") == (1, ["MYP703"])
    assert codes("Hi<myPT_user>") == (1, ["MYP201"])
    assert codes('<myPT_toolcall>{"nam</myPT_toolcall>') == (1, ["MYP304"])


def test_generations_with_their_prompts(lint: Any) -> None:
    prompt = "<myPT_system>S</myPT_system><myPT_user>Q</myPT_user>"
    lines = [
        {"prompt": prompt, "completion": "<myPT_assistant>A</myPT_assistant><myPT_eot>"},
        {"prompt": prompt, "completion": "A"},
        {"prompt": prompt + "<myPT_assistant>", "completion": "A"},
        {"prompt": "Q", "completion": "A"},
        {"prompt": prompt},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    _, found, _ = lint(data, "--kind", "generation")
    assert [(f["location"]["row"], f["code"], f["pointer"]) for f in found] == [
        (2, "MYP210", "/completion"), (3, "MYP701", "/completion"), (4, "MYP210", "/prompt"), (5, "MYP104", ""),
    ]  # fmt: skip


def test_texts_hold_several_episodes(lint: Any) -> None:
    one = "<myPT_system>S</myPT_system>\n<myPT_user>Q</myPT_user>\n<myPT_assistant>A</myPT_assistant>\n<myPT_eot>\n"
    status, found, err = lint((one * 3).encode(), "--kind", "text", name="x.txt")
    assert (status, found, err) == (0, [], "3 episodes clean (1 file)\n")
    cut = one + one.replace("<myPT_eot>\n", "") + one
    status, found, err = lint(cut.encode(), "--kind", "text", name="x.txt")
    assert [(f["code"], f["location"]["row"]) for f in found] == [("MYP216", 7)]
    assert err == "1 error in 1 of 3 episodes (2 clean, 1 faulty; 1 file)\n"


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--explain", "toolresult-inside-assistant"]) == 0
    by_name = capsys.readouterr().out
    assert main(["--explain", "MYP202"]) == 0
    assert capsys.readouterr().out == by_name
    assert by_name.startswith("# toolresult-inside-assistant (MYP202)\n")
    assert main(["--explain", "toolresult-in-assistant"]) == 2
    assert "did you mean toolresult-inside-assistant?" in capsys.readouterr().err


def test_examples_of_the_readme(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for phase in range(1, 6):
        assert (
            main(["-q", "--fail-on", "info", "--phase", str(phase), f"examples/phase{phase}.jsonl"])
            == 0
        )
    assert capsys.readouterr().out == ""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## What a finding looks like")
    fences = section[1].split("```")
    for name, shown in (("openai", fences[1]), ("broken", fences[3])):
        assert main([f"examples/{name}.jsonl"]) == 1
        assert shown.strip() in capsys.readouterr().out
    assert main(["-q", "examples/sharegpt.json", "examples/alpaca.jsonl"]) == 0


def test_nothing_heavy_is_imported_to_say_the_version() -> None:
    code = "import sys\nfrom mypt_lint.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    assert out.startswith("mypt-lint ")
    assert not {"torch", "numpy", "lark", "rich", "tiktoken", "msgspec"} & set(out.split())


def test_a_clean_file_loads_nothing_that_only_findings_need(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD)
    code = "import sys\nfrom mypt_lint.cli import main\nmain(['a.jsonl'])\nprint(*sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    needless = {"torch", "lark", "rich", "tiktoken", "mypt_records.shapes", "mypt_records.checks"}
    assert not needless & set(out.stdout.split())


def test_findings_in_plain_text_load_no_console(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(USER))
    code = "import sys\nfrom mypt_lint.cli import main\nmain(['a.jsonl'])\nprint(*sys.modules)"
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=plain, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "error[MYP" in done.stdout
    assert "rich.console" not in done.stdout.split()


def test_interrupt(tmp_path: Path) -> None:
    fifo = tmp_path / "slow.jsonl"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "mypt_lint.cli", str(fifo)]
    with (
        child(command, stderr=subprocess.PIPE, cwd=ROOT) as process,
        fifo.open("wb") as out,
    ):
        out.write(GOOD.encode())
        out.flush()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("{\n" * 20_000)
    command = f"{sys.executable} -m mypt_lint.cli -q {path} | head -1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout.startswith("error[MYP001]")
    assert "Traceback" not in done.stderr


def test_a_killed_worker_is_a_failure_and_no_hang(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(GOOD * 400_000)
    code = (
        "import os, signal, sys\nimport mypt_lint.run.parallel as runner\nfrom mypt_lint.cli import main\n"
        "here, check = os.getpid(), runner.check_lines\n"
        "runner.check_lines = lambda *a, **k: check(*a, **k) if os.getpid() == here else os.kill(os.getpid(), signal.SIGKILL)\nsys.exit(main(['-j', '2', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("mypt-lint: error: a worker process was killed")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_called_so(lint: Any, tmp_path: Path, encoding: str) -> None:
    """On every line, with how to convert the file, and without a fix that would damage it."""
    path = tmp_path / "x.jsonl"
    data = (record(USER, ANSWER).decode() * 3 + '{"more": "名前"}\n').encode(encoding)
    status, found, _ = lint(data)
    assert status == 1
    assert {(f["code"], f["message"]) for f in found} == {
        ("MYP002", "the line is UTF-16, expected UTF-8")
    }
    assert len(found) in (4, 5), "little-endian ends in half a line"
    path.write_bytes(data)
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == data


@pytest.mark.parametrize(("word", "meant"), [("explian", "explain"), ("rule", "rules")])
def test_a_misspelt_command(
    word: str,
    meant: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([word, "MYP202"]) == 2
    assert f"did you mean mypt-lint {meant}?" in capsys.readouterr().err
    Path(word).write_bytes(record(USER, ANSWER))
    assert main([word]) == 0, "a file of that name is a file"
    assert main(["data"]) == 2
    assert "did you mean" not in capsys.readouterr().err
