"""The command `mypt-lint`, as people call it: exit status, streams, options, and the inputs that
break other linters.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main
from tests.support.build import assistant, chat, lines, user
from tests.support.children import child
from tests.support.examples import either
from tests.support.linting import GOOD, ROOT, TEXT, Linter, codes, places, rows
from tests.support.programs import memory_beyond, python

pytestmark = pytest.mark.usefixtures("folder")
USER, ANSWER = '{"role": "user", "content": "Hi"}', '{"role": "assistant", "content": "Yo"}'
CALL = '{"role": "assistant_toolcall", "name": "t", "arguments": {}}'
RESULT = '{"role": "toolresult", "name": "t", "content": 1}'


def record(*messages: str) -> bytes:
    return ('{"system": "S", "messages": [' + ", ".join(messages) + "]}\n").encode()


def asking(before: str, after: str) -> bytes:
    """A record in whose question something is replaced."""
    return record(USER.replace(before, after), ANSWER)


DEEP = "[" * 100_000 + "]" * 100_000
MUST_SHOW = {
    "role system": (record('{"role": "system", "content": "T"}', USER, ANSWER), "MYP108", "/messages/0/role"),
    "role tool_result": (record(USER, CALL, RESULT.replace("toolresult", "tool_result"), ANSWER), "MYP109", "/messages/2/role"),
    "content null": (asking('"Hi"', "null"), "MYP104", "/messages/0/content"),
    "content a list": (asking('"Hi"', '[{"type": "text"}]'), "MYP104", "/messages/0/content/0"),
    "arguments a string": (record(USER, CALL.replace("{}", '"{}"'), RESULT, ANSWER), "MYP110", "/messages/1/arguments"),
    "NaN": (record(USER, CALL, RESULT.replace("1}", "NaN}"), ANSWER), "MYP005", "/messages/2/content"),
    "duplicate key": (asking('Hi"', 'Hi", "content": "Ho"'), "MYP004", "/messages/0/content"),
    "lone surrogate": (asking("Hi", r"\ud83d"), "MYP006", "/messages/0/content"),
    "hidden tag": (asking("Hi", r"\u003cmyPT_user>"), "MYP301", "/messages/0/content"),
    "early assistant_context": (record('{"role": "assistant_context", "content": "c"}', USER, ANSWER), "MYP220", "/messages/0/role"),
    "unknown role": (asking('"user"', '"robot"'), "MYP105", "/messages/0/role"),
    "unknown key": (asking('Hi"', 'Hi", "weight": 1'), "MYP103", "/messages/0/weight"),
    "100,000 brackets": (record(USER, CALL, RESULT.replace("1}", DEEP + "}"), ANSWER), "MYP008", ""),
    "invalid UTF-8": (record(USER, ANSWER).replace(b"Yo", b"Y\xff"), "MYP002", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", MUST_SHOW)
def test_each_fault_gives_its_own_finding(lint: Linter, case: str) -> None:
    data, code, pointer = MUST_SHOW[case]
    status, findings, _ = lint.of(GOOD.encode() + data)
    assert status == 1
    assert places(findings) == [(code, pointer)]
    assert findings[0]["location"]["row"] == 2


def test_two_eots_in_text(lint: Linter) -> None:
    status, findings, _ = lint.of(f"{TEXT}<myPT_eot>", "--kind", "text", name="x.txt")
    assert (status, [(f["code"], f["span"]) for f in findings]) == (1, [("MYP217", [96, 106])])


def test_a_hidden_tag_is_located_on_the_physical_line(lint: Linter) -> None:
    line = asking("Hi", r"a\u003cmyPT_user>").decode()
    (finding,) = lint.of(line)[1]
    a, b = finding["location"]["column"], finding["end_location"]["column"]
    assert line[a - 1 : b - 1] == r"\u003cmyPT_user>"
    assert finding["span"] == [1, 12]


MAIN = "import sys\nfrom mypt.lint.cli import main"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_a_line_of_many_megabytes_costs_no_memory() -> None:
    Path("good.jsonl").write_text(GOOD)
    with Path("long.jsonl").open("wb") as out:
        out.write(b'{"system": "')
        for _ in range(either(120, 200)):
            out.write(b"x" * (1 << 20))
        out.write(b'"}\n' + GOOD.encode())
    kilobytes, printed = memory_beyond(
        MAIN, "main(['-q', sys.argv[1]])", "print(main(['--format', 'jsonl', sys.argv[2]]))",
        Path("good.jsonl").resolve(), Path("long.jsonl").resolve(),
    )  # fmt: skip
    finding, summary, status = map(json.loads, printed.splitlines())
    assert (finding["code"], finding["location"]["row"], status) == ("MYP007", 1, 1)
    assert (summary["lines"], summary["clean"], summary["faulty"]) == (2, 1, 1)
    assert kilobytes < 100 * 1024


def test_truncated_gz(lint: Linter) -> None:
    whole = gzip.compress(
        "".join(GOOD.replace("Hi", os.urandom(40).hex()) for _ in range(500)).encode()
    )
    status, findings, err = lint.of(whole[: len(whole) // 2], name="data.jsonl.gz")
    assert (status, codes(findings)) == (1, ["MYP003"])
    assert 0 < lint.summary["clean"] == lint.summary["lines"] < 500
    assert "about the file; " in err
    assert lint.of(whole, name="data.jsonl.gz")[0] == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xef\xbb\xbf" + GOOD.encode(), "MYP009"),
        (GOOD.replace("\n", "\r\n"), "MYP010"),
        (f"{GOOD}\n{GOOD}", "MYP011"),
        (b"", "MYP012"),
        (GOOD.rstrip(), "MYP013"),
        (b"[]\n", "MYP101"),
    ],
)
def test_file_family(lint: Linter, data: Any, code: str) -> None:
    assert codes(lint.of(data)[1]) == [code]


def test_what_ends_a_line_for_python_alone_is_content(lint: Linter) -> None:
    status, found, _ = lint.of(GOOD.replace("Hi", "a\u2028b\u0085c"))
    assert (status, [item["code"] for item in found]) == (0, ["MYP019"])
    assert lint.of(GOOD.replace("Hi", "a\\u2028b\\u0085c"))[:2] == (0, [])


@pytest.mark.parametrize(
    ("kind", "faulty"),
    [
        ("text", "<myPT_system>S.</myPT_system><myPT_user>Hi</myPT_user><myPT_eot>"),
        ("generation", "<myPT_assistant>Hi</myPT_assistant><myPT_user>"),
    ],
)
def test_a_text_after_a_byte_order_mark_is_checked(lint: Linter, kind: str, faulty: str) -> None:
    """Whether the mark is reported or ignored."""
    options, mark = ("--kind", kind), b"\xef\xbb\xbf"
    plain = lint.of(faulty, *options, name="a.txt")[1]
    assert plain
    status, findings, _ = lint.of(
        mark + faulty.encode(), *options, "--ignore", "MYP009", name="a.txt"
    )
    assert status == 1
    assert [(f["code"], f["span"]) for f in findings] == [
        (f["code"], [n + 1 for n in f["span"]]) for f in plain
    ]
    assert codes(lint(*options, "a.txt")[1]) == ["MYP009", *codes(plain)]
    status, findings, _ = lint.of(b"\xff", *options, "--ignore", "MYP002", name="a.txt")
    assert (status, codes(findings)) == (1, ["MYP906"]), "what cannot be read is not clean"


def test_exit_status(lint: Linter) -> None:
    assert lint.of(GOOD)[0] == 0
    warning = GOOD.replace("Yo", "  ")
    assert lint.of(warning)[0] == 0
    assert lint.of(warning, "--fail-on", "warning")[0] == 1
    assert lint.of(GOOD.rstrip(), "--fail-on", "info")[0] == 1
    with pytest.raises(SystemExit) as stop:
        main(["--no-such-option"])
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("none.jsonl", "none.jsonl: no such file"),
        ("--select MYP9999 x.jsonl", "MYP9999"),
        ("--dialect none x.jsonl", "no dialect 'none'"),
        ("--phase 9 x.jsonl", "phase"),
        ("", "nothing to check"),
        ("--format txt x.jsonl", "did you mean text?"),
        ("--format json --format text x.jsonl", "2 formats go to standard output"),
        ("-o x.jsonl x.jsonl", "is read from"),
        ("-o none/x x.jsonl", "cannot be written"),
        ("--baseline none x.jsonl", "none"),
        ("--prune-baseline x.jsonl", "--prune-baseline needs --baseline FILE"),
        ("--write-baseline x.jsonl --fix x.jsonl", "--write-baseline cannot be combined"),
        ("--write-baseline x.jsonl/y x.jsonl", "x.jsonl/y"),
        ("--kind text --baseline x.jsonl x.jsonl", "a baseline needs --kind record"),
        ("--watch -", "--watch cannot be used"),
        ("--watch --fix x.jsonl", "--watch cannot be used"),
        ("--unsafe-fixes x.jsonl", "--unsafe-fixes needs --fix"),
    ],
)
def test_usage(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.jsonl").write_text("{\n")
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert err.startswith("mypt-lint: error: ")
    assert message in err
    assert out == ""
    assert Path("x.jsonl").read_text() == "{\n"


def test_an_internal_error_is_status_2_and_no_traceback(
    lint: Linter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(mypt_spec.Dialect, "read", fail)
    status, findings, _ = lint.of(b'{"x": 1}\n')
    assert (status, findings[0]["code"]) == (2, "MYP901")
    assert "RuntimeError: boom" in findings[0]["message"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["MYP105", "MYP103"]),
        (["--select", "unknown-role"], ["MYP105"]),
        # Nothing can be trained on without a role.
        (["--select", "MYP1", "--ignore", "MYP105"], ["MYP906", "MYP103"]),
        (["--ignore", "MYP1"], ["MYP906"]),
    ],
)
def test_select_and_ignore(lint: Linter, options: list[str], expected: list[str]) -> None:
    data = asking('"user"', '"robot"') + asking('Hi"', 'Hi", "weight": 1')
    assert codes(lint.of(data, *options)[1]) == expected


GPT = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]


@pytest.mark.parametrize(
    ("record", "word"),
    [
        (chat(user(), assistant(None, tool_calls=[])), "mypt-convert --from openai"),
        ({"conversations": GPT}, "ShareGPT"),
        ({"instruction": "Greet.", "input": "", "output": "Hi!"}, "Alpaca"),
    ],
)
def test_records_of_other_formats_are_told_where_to_go(record: dict[str, Any], word: str) -> None:
    _, findings = mypt_spec.dialect("mypt").read(record)
    assert any(f.code == "MYP103" and word in f.help for f in findings)


TWO_TURNS, TOOL = record(USER, ANSWER, USER, ANSWER), record(USER, CALL, RESULT, ANSWER)


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (TWO_TURNS, ["--phase", "2"], {"MYP402"}),
        (TWO_TURNS, ["--phase", "3"], set()),
        (TOOL, ["--phase", "3"], {"MYP401"}),
        (TOOL, ["--phase", "4"], set()),
        (TOOL, ["--tool", "other"], {"MYP313"}),
        (TOOL, ["--tool", "t", "--tool", "other"], set()),
        (GOOD, ["--max-tokens", "9"], {"MYP502"}),
        (GOOD, ["--max-tokens", "10"], set()),
    ],
)
def test_phases_tools_and_tokens(
    lint: Linter, data: Any, options: list[str], expected: set[str]
) -> None:
    _, findings, _ = lint.of(data, *options)
    assert set(codes(findings)) == expected
    if "MYP502" in expected:
        assert findings[0]["message"] == "the episode has 10 tokens, the limit is 9"


def test_the_summary_adds_up(lint: Linter) -> None:
    _, _, err = lint.of(GOOD.encode() * 3 + b"{\n" + asking("Hi", " ") + b"\n")
    assert err == (
        "1 error, 2 warnings in 3 of 6 lines (3 clean, 3 faulty; 1 file)\n1 fixable with --fix.\n"
    )


def test_statistics_and_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.jsonl").write_text("{\n{\n[]\n")
    assert main(["-q", "--statistics", "x.jsonl"]) == 1
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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers inherit small ranges, of which a short file has many."""
    monkeypatch.setattr("mypt_lint.run.parallel.RANGE", either(1 << 14, 1 << 20))
    kinds = [
        GOOD, "{\n", "\n", asking("Hi", " ").decode(), GOOD.replace("Hi", "<myPT_user>" + "ä" * 900),
    ]  # fmt: skip
    data = "".join(kinds * either(120, 1800)).encode()
    Path("data").mkdir()
    Path("data/a.jsonl").write_bytes(data)
    Path("data/b.jsonl.gz").write_bytes(gzip.compress(data[:-1]))
    outputs = set()
    for jobs in ("1", "2", "5"):
        assert main(["-j", jobs, "--format", "jsonl", "data"]) == 1
        out = capsys.readouterr().out
        outputs.add(out)
        places = [
            (f["filename"], f["location"]["row"], f["location"]["column"])
            for f in map(json.loads, out.splitlines()[:-1])
        ]
        assert places == sorted(places)
    assert len(outputs) == 1


GENERATED_CALL = '<myPT_assistant><myPT_toolcall>{"name": "t"}</myPT_toolcall></myPT_assistant>'


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("Hello.</myPT_assistant><myPT_eot>", 0, []),
        ("<myPT_assistant>Hello.</myPT_assistant><myPT_eot>", 0, []),
        (GENERATED_CALL, 0, []),
        ("Hel", 0, ["MYP701"]),
        ("<myPT_assistant><myPT_think>hm", 0, ["MYP701"]),
        (f"{GENERATED_CALL}<myPT_toolresult>1</myPT_toolresult>", 1, ["MYP702"]),
        ("Hi</myPT_assistant><myPT_eot><myPT_user>more", 1, ["MYP703"]),
        ("Hi<myPT_user>", 1, ["MYP201"]),
        ('<myPT_toolcall>{"nam</myPT_toolcall>', 1, ["MYP304"]),
    ],
)
def test_generations(lint: Linter, text: str, status: int, expected: list[str]) -> None:
    done = lint.of(text, "-q", "--kind", "generation", name="g.txt")
    assert (done[0], codes(done[1])) == (status, expected)


def test_a_fault_in_a_call_is_no_sign_of_another_place(lint: Linter) -> None:
    """The text is read from where its tags may be, however much is wrong inside of them."""
    text = '<tool_call>\n{"name": "a", "params": {}}\n</tool_call><|im_end|>\n'
    done = lint.of(text, "-q", "--kind", "generation", "--dialect", "qwen3", name="g.txt")
    assert (done[0], codes(done[1])) == (1, ["MYP332", "MYP333"])


def test_generations_with_their_prompts(lint: Linter) -> None:
    prompt = "<myPT_system>S</myPT_system><myPT_user>Q</myPT_user>"
    records = [
        {"prompt": prompt, "completion": "<myPT_assistant>A</myPT_assistant><myPT_eot>"},
        {"prompt": prompt, "completion": "A"},
        {"prompt": prompt + "<myPT_assistant>", "completion": "A"},
        {"prompt": "Q", "completion": "A"},
        {"prompt": prompt},
    ]
    _, findings, _ = lint.of(b"\n".join(lines(*records)) + b"\n", "--kind", "generation")
    assert [(f["location"]["row"], f["code"], f["pointer"]) for f in findings] == [
        (2, "MYP210", "/completion"), (3, "MYP701", "/completion"), (4, "MYP210", "/prompt"), (5, "MYP104", ""),
    ]  # fmt: skip


def test_texts_hold_several_episodes(lint: Linter) -> None:
    one = TEXT.replace("><myPT_", ">\n<myPT_") + "\n"
    assert lint.of(one * 3, "--kind", "text", name="x.txt") == (
        0,
        [],
        "3 episodes clean (1 file)\n",
    )
    cut = one + one.replace("<myPT_eot>\n", "") + one
    _, findings, err = lint.of(cut, "--kind", "text", name="x.txt")
    assert rows(findings) == [(7, "MYP216")]
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
        options = ["-q", "--fail-on", "info", "--phase", str(phase)]
        assert main([*options, f"examples/phase{phase}.jsonl"]) == 0
    assert capsys.readouterr().out == ""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Example findings")
    fences = section[1].split("```")
    for name, shown in (("openai", fences[1]), ("broken", fences[3])):
        assert main([f"examples/{name}.jsonl"]) == 1
        assert shown.strip() in capsys.readouterr().out
    assert main(["-q", "examples/sharegpt.json", "examples/alpaca.jsonl"]) == 0


def test_modules_are_loaded_by_what_needs_them(folder: Path) -> None:
    """The version loads nothing heavy, a clean file nothing for findings, findings no console.

    A few lines need none of what makes many lines fast.
    """
    (folder / "good.jsonl").write_text(GOOD)
    (folder / "bad.jsonl").write_bytes(record(USER))
    native = lines(chat(user("Hi."), assistant("x" * 400)))[0] + b"\n"
    (folder / "native.jsonl").write_bytes(native * 2000)
    (folder / "chat.jsonl").write_bytes(native)
    code = f"""{MAIN}
try:
    main(["--version"])
except SystemExit:
    print(*sys.modules)
main(["good.jsonl"])
print(*sys.modules)
main(["native.jsonl", "--dialect", "qwen3"])
print(*sys.modules)
main(["bad.jsonl"])
print(*sys.modules)
"""
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    out = python(code, cwd=folder, env=plain, check=True).stdout.splitlines()
    assert out[0].startswith("mypt-lint ")
    version, clean, plain_chats, *shown, faulty = (line.split() for line in out[1:])
    assert not {"torch", "numpy", "lark", "rich", "tiktoken", "msgspec"} & {*version}
    needless = {"torch", "lark", "rich", "tiktoken", "mypt_records.shapes", "mypt_records.checks"}
    assert "mypt.lint.session" in clean
    assert not needless & {*clean}
    late = {"tomllib", "tempfile", "traceback", "mypt_cli.store", "mypt_spec.templates.sandbox"}
    late |= {"mypt_lint.check.texts", "mypt_lint.proposals.candidates", "mypt_lint.fix.files"}
    late |= {"shutil", "mypt_lint.check.profile"}
    many = {"msgspec", "mypt_lint.fast.clean_filter"}
    few = python(f"{MAIN}\nmain(['chat.jsonl'])\nprint(*sys.modules)", cwd=folder, check=True)
    for modules, most in (clean, 135), (few.stdout.split(), 170):
        assert not (late | many) & {*modules}, "a start is to take .2 s"
        assert sum(name.startswith("mypt") for name in modules) < most
    assert not needless & {*plain_chats}
    assert many <= {*plain_chats}
    assert any("error[MYP" in line[0] for line in shown if line)
    assert not {"rich.console", "numpy"} & {*faulty}


def test_linting_and_fixing_do_without_numpy(folder: Path) -> None:
    """The plain package does not install it."""
    (folder / "bad.jsonl").write_bytes(record(USER) + b"\n" + record(USER))
    (folder / "chat.jsonl").write_text('{"messages": [{"role": "user", "content": "Hi"}]}\n')
    (folder / "x.jinja").write_text("{% for m in messages %}{{ m.content }}</s>{% endfor %}")
    code = f"""{MAIN}
sys.modules["numpy"] = None
assert main(["--model", "x.jinja", "chat.jsonl"]) == 0 and main(["--template", "x.jinja"]) == 1
print(main(["--format", "html", "-o", "x.html", "bad.jsonl"]), main(["--fix", "bad.jsonl"]))
assert main(["--data-set", "bad.jsonl"]) == 2
"""
    run = python(code, cwd=folder, check=True)
    assert run.stdout.splitlines()[-1] == "1 1"
    assert run.stderr.splitlines()[-1] == (
        "mypt-lint: error: this needs numpy: pip install 'mypt-tags[numpy]'"
    )


def wait_until_it_reads(process: subprocess.Popen[bytes], pipe: Any) -> None:
    """Waits until a process has read all of a pipe, and sleeps until there is more."""
    stat = Path(f"/proc/{process.pid}/stat")
    unread = 1
    while unread or (stat.exists() and stat.read_text().rpartition(") ")[2][0] != "S"):
        time.sleep(0.01)
        unread = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_interrupt(folder: Path) -> None:
    fifo = folder / "slow.jsonl"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "mypt.lint.cli", str(fifo)]
    with (
        child(command, stderr=subprocess.PIPE, cwd=ROOT) as process,
        fifo.open("wb") as out,
    ):
        out.write(GOOD.encode())
        out.flush()
        wait_until_it_reads(process, out)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize(("option", "status"), [("--show-all", 1), ("--exit-zero", 0)])
def test_a_reader_that_goes_away(folder: Path, option: str, status: int) -> None:
    """What is printed does not fit into the buffer of a pipe; what was found until then counts."""
    path = folder / "x.jsonl"
    path.write_text("{\n" * 3_000)
    command = [sys.executable, "-m", "mypt.lint.cli", "-q", "--show-all", option, str(path)]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"error[MYP001]")
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=120)
    assert (process.returncode, b"Traceback" in err) == (status, False)


def test_a_killed_worker_is_a_failure_and_no_hang(folder: Path) -> None:
    path = folder / "x.jsonl"
    path.write_text(GOOD * 40_000)
    code = """
import os, signal, sys
import mypt_lint.run.parallel as runner
from mypt.lint.cli import main

here, check = os.getpid(), runner.check_lines

def killed(*arguments, **options):
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return check(*arguments, **options)

runner.check_lines = killed
sys.exit(main(["-j", "2", sys.argv[1]]))
"""
    done = python(code, path)
    assert done.returncode == 2
    assert done.stderr.startswith("mypt-lint: error: a worker process was killed")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_called_so(lint: Linter, encoding: str) -> None:
    """On every line, with how to convert the file, and without a fix that would damage it."""
    path = Path("data.jsonl")
    data = (record(USER, ANSWER).decode() * 3 + '{"more": "名前"}\n').encode(encoding)
    status, findings, _ = lint.of(data)
    assert status == 1
    assert [(f["code"], f["message"]) for f in findings] == [
        ("MYP002", "the line is UTF-16, expected UTF-8")
    ] * 4, "the last byte of little-endian is no line"
    assert main(["--fix-only", str(path)]) == 0
    assert path.read_bytes() == data


@pytest.mark.parametrize(("word", "meant"), [("explian", "explain"), ("rule", "rules")])
def test_a_misspelt_command(word: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "MYP202"]) == 2
    assert f"did you mean mypt-lint {meant}?" in capsys.readouterr().err
    Path(word).write_bytes(record(USER, ANSWER))
    assert main([word]) == 0, "a file of that name is a file"
    assert main(["data"]) == 2
    assert "did you mean" not in capsys.readouterr().err
