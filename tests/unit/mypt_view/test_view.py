"""The command `mypt-view` on a terminal and in a pipe: every option, every error."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.view import main
from mypt_cli.jsonl.blocks import Source
from mypt_infer import gabgpt
from mypt_lint.check.checker import Checker
from mypt_spec.tokenizer.tokenizer import Tokenizer, VocabularyError
from mypt_view.blocks import Block, blocks_of, inline_kinds
from mypt_view.items import read_items, record
from mypt_view.terminal import Terminal, summary
from tests.support import vocabulary
from tests.support.build import assistant, chat, lines, read, user, write
from tests.support.children import child

ROOT = Path(__file__).parents[3]
PHASE5, BROKEN = (str(ROOT / "examples" / f"{name}.jsonl") for name in ("phase5", "broken"))
RECORDS = read(PHASE5)
D = mypt_spec.dialect("mypt")


def good(**more: Any) -> bytes:
    """Returns the line of a record without findings, with other keys."""
    return lines({"system": "You are MyPT.", **chat()} | more)[0] + b"\n"


def talk(question: str, answer: str = "Hello.") -> bytes:
    return lines({"system": "S", **chat(user(question), assistant(answer))})[0] + b"\n"


@pytest.fixture
def view(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command; returns its exit status, stdout and stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        status = main(args)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes bytes to a file in the current folder; returns its path."""
    monkeypatch.chdir(tmp_path)

    def put(content: bytes, name: str = "data.jsonl") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return put


def test_the_first_episode_as_a_chat(view: Any) -> None:
    status, out, err = view(PHASE5)
    assert (status, err) == (0, "")
    head, *rest = out.splitlines()
    assert head == f"{PHASE5}:1: mypt phase 5; 259 tokens, 86 trained (33 %); 1 turn; no findings"
    titles = re.findall(r"^ *[╭][─┄] (\w+) ", out, re.MULTILINE)
    order = "system user think toolcall toolresult toolcall toolresult assistant not"
    assert titles == order.split()
    assert re.search(r"╭─ not in the text ─*╮\n│ language: en +│\n", out)
    assert "<myPT_" not in out, "tags are not displayed"
    assert "\x1b" not in out
    assert len({len(row) for row in rest}) > 1, "a bubble is as wide as its text"
    assert max(map(len, out.splitlines()[1:])) <= 100


def test_thinking_is_styled_differently(view: Any) -> None:
    _, out, _ = view(PHASE5)
    think = next(row for row in out.splitlines() if "Rules about painting" in row)
    answer = next(row for row in out.splitlines() if "Only on land" in row)
    assert "┊" in think
    assert "┊" not in answer


@pytest.mark.parametrize(("arguments", "shown"), [
    ([], [1]), ([":3"], [3]), ([":2", "-n", "2"], [2, 3]), ([":4", "--all"], [4, 5]), (["--all"], [1, 2, 3, 4, 5]), (["-n", "99"], [1, 2, 3, 4, 5]),
])  # fmt: skip
def test_which_episodes(view: Any, arguments: list[str], shown: list[int]) -> None:
    place = arguments.pop(0) if arguments and arguments[0].startswith(":") else ""
    status, out, _ = view(PHASE5 + place, *arguments)
    assert status == 0
    assert [int(n) for n in re.findall(r"phase5\.jsonl:(\d+): ", out)] == shown


@pytest.mark.parametrize(("kind", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_packed_files(view: Any, data: Any, kind: str, pack: Any) -> None:
    path = data(pack(Path(PHASE5).read_bytes()), f"d.jsonl.{kind}")
    status, out, _ = view(f"{path}:2")
    assert status == 0
    assert f"{path}:2: mypt phase 5; 59 tokens" in out


def test_standard_input(view: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect in ("auto", "mypt"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(PHASE5).read_bytes())))
        status, out, _ = view("-:2", "--dialect", dialect)
        assert status == 0
        assert out.startswith("<stdin>:2: mypt phase 5; 59 tokens")


def test_a_file_whose_name_looks_like_a_line(view: Any, data: Any) -> None:
    path = data(good(), "data:7")
    assert view(path)[0] == view(f"{path}:1")[0] == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["missing.jsonl"], "no such file"),
    (["{}:7"], r"there is no line 7; the file has 2 lines"),
    (["{}:0"], "lines count from 1"),
    (["{}", "--dialect", "nope"], "no dialect 'nope'; known are auto, "),
    (["{}", "--layout", "lines"], "--layout is of --text"),
    (["{}", "--text", "--layout", "wide"], "mypt has compact, lines"),
    (["{dir}"], "is a folder; name a file in it"),
    (["{empty}"], "is empty, there is nothing to show"),
    (["{empty}", "--kind", "text"], "is empty, there is nothing to show"),
    (["{blank}:2"], "the line is empty"),
    (["{}:9", "--kind", "text"], "there is no line 9"),
    (["{dir}/*.jsonl"], "matches 3 files; name one of them"),
])  # fmt: skip
def test_failures(view: Any, data: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
    names = {
        "empty": data(b"", "empty.jsonl"),
        "blank": data(good() + b"\n" + good(), "blank.jsonl"),
        "dir": str(tmp_path),
    }
    path = data(good() * 2)
    status, out, err = view(*(a.format(path, **names) for a in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("mypt-view: error: ")
    assert re.search(message, err)


@pytest.mark.parametrize(
    "arguments",
    ["", "x -n 0", "x --mask --ids", "x --html o --text", "x -n 1 --all", "x --kind generation"],
)
def test_usage(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    assert "mypt-view" in capsys.readouterr().err


def test_a_missing_vocabulary(view: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise VocabularyError("GPT-2's vocabulary is not installed; install it")

    monkeypatch.setattr(Tokenizer, "encode", fail)
    status, _, err = view(PHASE5)
    assert status == 2
    assert err == "mypt-view: error: GPT-2's vocabulary is not installed; install it\n"


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "mypt-view data.jsonl:118 --mask" in capsys.readouterr().out


def test_the_mask_without_colour(view: Any) -> None:
    _, out, _ = view(PHASE5 + ":2", "--mask")
    assert "trained tokens are marked ^" in out
    rows = [row.strip() for row in out.splitlines()]
    answer = next(i for i, row in enumerate(rows) if "<myPT_assistant>" in row)
    cited = "│ <myPT_assistant>On weekdays from 8 to 16. <myPT_cite>Crane, chunk"
    assert rows[answer].rstrip("│ ") == cited
    assert re.fullmatch(r"╎ \^+", rows[answer + 1])
    user = next(i for i, row in enumerate(rows) if "<myPT_user>" in row)
    assert "^" not in rows[user + 1]


def test_a_finding_about_what_has_no_text_is_shown_with_the_mask(view: Any, data: Any) -> None:
    path = data(lines(chat(user("u"), assistant("a"), response_format={}))[0])
    status, out, _ = view(path, "--dialect", "usf-omega", "--mask")
    assert status == 1
    assert "error[MYP102]" in out


def test_ids(view: Any) -> None:
    status, out, _ = view(PHASE5 + ":2", "--ids")
    assert status == 0
    rows = [row.split(None, 4) for row in out.splitlines()[1:]]
    encoded = D.encode(D.read(RECORDS[1])[0])
    assert [int(row[0]) for row in rows] == list(range(len(encoded)))
    assert [int(row[1]) for row in rows] == encoded.ids.tolist()
    assert [int(row[2] == "trained") for row in rows] == encoded.loss.tolist()
    assert rows[8][3:] == ["user/user_context", '"<myPT_user_context>"']


def test_half_characters_are_bytes(view: Any, data: Any) -> None:
    path = data(talk("\U0001f469", 'a"\\b\x1b'))
    _, out, _ = view(path, "--ids")
    assert r'"\xf0\x9f\x91"' in out or r'"\xf0\x9f"' in out
    assert r'"\x1b"' in out
    assert '"\\\\"' in out or '"\\"\\\\"' in out or '\\\\b"' in out
    assert "\x1b" not in out


@pytest.mark.parametrize("layout", [None, "compact", "lines"])
def test_text_is_the_text_alone(view: Any, layout: str | None) -> None:
    arguments = ["--layout", layout] if layout else []
    status, out, err = view(PHASE5, "--text", "--all", *arguments)
    texts = [D.serialize(D.read(record)[0], layout=layout or "compact") for record in RECORDS]
    assert status == 0
    assert out == "".join(f"{text}\n" for text in texts)
    assert err.count("no findings") == 5


def test_text_of_a_record_that_has_none(view: Any) -> None:
    status, out, err = view(BROKEN + ":6", "--text")
    assert (status, out) == (1, "")
    assert "no text: MYP311" in err


@pytest.mark.parametrize("kind", ["--mask", "--ids"])
def test_no_ids_without_a_legal_episode(view: Any, kind: str) -> None:
    status, out, _ = view(BROKEN + ":7", kind)
    assert status == 1
    assert re.search(r"no (ids|loss mask): MYP218", out)
    assert "Anyone?" in out
    assert "error[MYP218]" in out


@pytest.mark.parametrize(
    ("settings", "options", "status"),
    [
        ("", (), 1),
        ("", ("--ignore", "MYP103"), 0),
        ('ignore = ["MYP103"]', (), 0),
        ('ignore = ["MYP103"]', ("--no-config",), 1),
        ('[severity]\nunknown-key = "warning"', (), 0),
        ('[files."data.jsonl"]\nignore = ["MYP103"]', (), 0),
        ('[files."other.jsonl"]\nignore = ["MYP103"]', (), 1),
    ],
)
def test_the_settings_of_the_linter_hold(
    view: Any, data: Any, settings: str, options: tuple[str, ...], status: int
) -> None:
    data(settings.encode(), "mypt-lint.toml")
    shown, out, _ = view(data(good(prompt=1)), *options)
    assert shown == status
    assert ("error[MYP103]" in out) == bool(status)


BLANK = {"system": "S.", **chat(user(" "), assistant())}
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("settings", "raw", "status"),
    [
        ("", lines(BLANK)[0], 0), ('fail-on = "warning"', lines(BLANK)[0], 1), ('fail-on = "warning"', good(), 0),
        ('fail-on = "warning"\nignore = ["MYP314"]', lines(BLANK)[0], 0), ("", MARK + good(), 1), ('ignore = ["MYP009"]', MARK + good(), 0),
        ("", good()[:-1] + b"\r", 0), ('fail-on = "warning"', good()[:-1] + b"\r", 1), ('severity.MYP010 = "error"', good()[:-1] + b"\r", 1),
    ],
)  # fmt: skip
def test_what_fails_the_linter_fails_what_is_shown(
    view: Any, data: Any, settings: str, raw: bytes, status: int
) -> None:
    data(settings.encode(), "mypt-lint.toml")
    path = data(raw.rstrip(b"\n") + b"\n")
    assert lint([path, "-q"]) == status
    for options in ([], ["--mask"], ["--text"], ["--html", "page.html"]):
        assert view(path, *options)[0] == status, options


@pytest.mark.parametrize(
    ("settings", "status", "shown"),
    [
        ("", 1, ["error[MYP009]", "warning[MYP314]"]),
        ('ignore = ["MYP009"]', 0, ["warning[MYP314]"]),
        ('severity.MYP009 = "info"', 0, ["info[MYP009]", "warning[MYP314]"]),
        ('ignore = ["MYP009"]\nfail-on = "warning"', 1, ["warning[MYP314]"]),
    ],
)
def test_a_text_behind_a_byte_order_mark_is_shown(
    view: Any, data: Any, settings: str, status: int, shown: list[str]
) -> None:
    data(settings.encode(), "mypt-lint.toml")
    text = D.serialize(D.read(BLANK)[0])
    path = data(MARK + text.encode(), "a.txt")
    found, out, _ = view(path, "--kind", "text")
    assert found == status == lint([path, "-q", "--kind", "text"])
    assert re.findall(r"\w+\[MYP...\]", out) == shown
    again = view(path, "--kind", "text", "--text")[1]
    assert again.endswith(f"\n{text}\n") or again == f"{text}\n"


def test_the_settings_say_dialect_and_kind(view: Any, data: Any) -> None:
    sections = '[files."*.txt"]\nkind = "text"\n[files."a.jsonl"]\ndialect = "gabgpt"'
    data(sections.encode(), "mypt-lint.toml")
    text = D.serialize(D.read(json.loads(good()))[0])
    assert view(data(text.encode(), "a.txt"), "--text")[:2] == (0, text + "\n")
    path = data(good(), "a.jsonl")
    assert "error[MYP014]" in view(path)[1], "as the linter says"
    assert view(path, "--dialect", "auto")[0] == 0


def test_findings_stand_where_they_belong(view: Any) -> None:
    status, out, _ = view(BROKEN + ":8")
    rows = out.splitlines()
    at = next(i for i, row in enumerate(rows) if "Was heißt" in row)
    assert status == 1
    assert rows[at + 1].index("~") == rows[at].index("<MyPT_user>")
    assert rows[at + 1].count("~") == len("<MyPT_user>")
    assert "error[MYP303] near-miss-tag" in rows[at + 3]


@pytest.mark.parametrize("number", range(1, 12))
def test_broken_records_are_shown_as_far_as_can_be(view: Any, number: int) -> None:
    raw = Path(BROKEN).read_bytes().splitlines()[number - 1]
    located = Checker(D).line(raw, row=number, filename=BROKEN)
    status, out, _ = view(f"{BROKEN}:{number}", "--dialect", "mypt")
    assert status == int(any(item.finding.severity == "error" for item in located))
    assert "You are MyPT." in out or "Du bist MyPT." in out
    for item in located:
        assert f"{item.finding.severity}[{item.finding.code}]" in out


@pytest.mark.parametrize(
    "raw",
    [
        b"{", b"[1]", b"null", b'"x"', b"\xff", b'{"messages": 1}', b'{"messages": [1, {"role": 2}, {}]}', b'{"a": "\\ud800"}', b"[" * 999,
        b'{"messages": [{"role": "[/INST]", "content": "[b]"}]}',
    ],
    ids=range(10),
)  # fmt: skip
def test_anything_can_be_viewed(view: Any, data: Any, raw: bytes) -> None:
    path = data(raw + b"\n")
    for option in ([], ["--mask"], ["--ids"], ["--text"]):
        status, out, err = view(path, "--dialect", "mypt", *option)
        assert status == 1, option
        assert "error[MYP" in out + err, option


def test_blank_lines_are_shown_and_not_counted(view: Any, data: Any) -> None:
    path = data((b"\n" + good()) * 2)
    _, out, _ = view(path)
    assert re.findall(r"data\.jsonl:(\d):", out) == ["1", "2"]
    assert "MYP011" in out
    assert "Hello." in out


def test_a_damaged_file(view: Any, data: Any) -> None:
    packed = gzip.compress(good() * 2000)
    path = data(packed[: len(packed) // 2], "d.jsonl.gz")
    status, out, _ = view(path)
    assert status == 0, "what is shown is whole"
    status, out, _ = view(path, "--all")
    assert status == 1
    assert "MYP003" in out


def test_a_line_that_is_too_long(view: Any, data: Any) -> None:
    path = data(b'{"x": "' + b"y" * (9 << 20) + b'"}\n' + good())
    status, out, _ = view(path, "--dialect", "mypt")
    assert status == 1
    assert "MYP007" in out
    assert view(f"{path}:2")[0] == 0


TEXTS = {
    "mypt": "<myPT_system>S</myPT_system>\n<myPT_user>Hi</myPT_user>\n<myPT_assistant>Yo</myPT_assistant>\n<myPT_eot>",
    "gabgpt": "<|user|>2+2?<|think|>Add.<|assistant|>4<|end|>",
    "praxis": '[BOS]user\n1+1?\n[SEP]\n[BOS]assistant\nSo: <tin>\n{"name": "calc", "arguments": {}}\n</tin><tout>2</tout>Two.\n[SEP]\n',
    "usf-omega": "<bos><start>system\nS\n<end>\n<start>user\nHi\n<end>\n<start>assistant\n<message_start>Yo<message_end>\n<end>\n<eos>",
    "mypt-3b": "<system>S</system><user>Hi</user><assistant>Yo</assistant>",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_of_every_dialect(view: Any, data: Any, name: str) -> None:
    path = data(TEXTS[name].encode() + b"\n", "e.txt")
    status, out, _ = view(path, "--kind", "text")
    assert status == 0
    assert f"{path}:1: {name}" in out
    assert not any(t.shown in out for t in mypt_spec.dialect(name).table.terminals.values())
    assert view(path, "--kind", "text", "--text")[1] == TEXTS[name] + "\n"


def test_bubbles_of_gabgpt(view: Any, data: Any) -> None:
    path = data(TEXTS["gabgpt"].encode(), "e.txt")
    item = next(read_items(Checker(mypt_spec.dialect("gabgpt")), Source(path), "text", None))
    blocks, _ = blocks_of(item)
    shown = [
        (b.kind, "".join(c.event.text for c in b.chunks if not c.is_tag))
        for b in blocks
        if b.visible
    ]
    assert shown == gabgpt.display(TEXTS["gabgpt"])


def test_calls_inside_an_answer_are_bubbles_of_their_own(view: Any, data: Any) -> None:
    _, out, _ = view(data(TEXTS["praxis"].encode(), "e.txt"), "--kind", "text")
    assert re.findall(r"╭─ ([\w ]+?) ─*╮", out) == ["user", "assistant", "tin", "tout", "assistant"]


def test_text_with_several_episodes(view: Any, data: Any) -> None:
    path = data(f"{TEXTS['mypt']}\n{TEXTS['mypt']}\n<myPT_system>x".encode(), "e.txt")
    assert re.findall(r"e\.txt:(\d+):", view(path, "--kind", "text", "--all")[1]) == ["1", "5", "9"]
    for row, first in ((4, "1"), (5, "5"), (9, "9")):
        assert re.findall(r"e\.txt:(\d+):", view(f"{path}:{row}", "--kind", "text")[1]) == [first]
    status, out, _ = view(f"{path}:9", "--kind", "text")
    assert status == 1
    assert "╭─ system" in out


def test_text_that_is_not_utf8(view: Any, data: Any) -> None:
    status, out, _ = view(data(b"<myPT_user>\xff", "e.txt"), "--kind", "text")
    assert status == 1
    assert "MYP002" in out


LOOKS = {
    "user": "user", "system": "system", "developer": "system", "functions": "system", "assistant": "model", "message": "model",
    "think": "think", "reasoning": "think", "self_reflection": "think", "toolcall": "call", "tool_calls": "call", "tin": "call",
    "toolresult": "tool", "tout": "tool", "tool": "tool", "tool_name": "tool", "line": "raw", "user_context": "other",
}  # fmt: skip


def test_how_blocks_look() -> None:
    others = ("user", "system", "tool", "raw", "other")
    looks = {kind: Block(kind, kind, model=LOOKS[kind] not in others).style_name for kind in LOOKS}
    assert looks == LOOKS


def test_what_may_stand_inside_text() -> None:
    assert inline_kinds(D) == {("assistant", "cite"), ("system", "toolcall")}
    assert not inline_kinds(mypt_spec.dialect("gabgpt"))


def test_nothing_is_markup_and_nothing_is_obeyed(view: Any, data: Any) -> None:
    path = data(talk("[/INST] [b] \x1b[31m \u202e [link=x]y[/link] :smile:", "[/]"))
    _, out, _ = view(path)
    assert r"[/INST] [b] \x1b[31m \u202e [link=x]y[/link] :smile:" in out
    assert "│ [/]" in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16", "shift_jis"])
def test_streams_that_lack_characters(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    item = record(Checker(D), talk("漢 \U0001f469", "ü").strip(), 1, "f")
    for name in ("chat", "mask", "ids"):
        Terminal(stream).show(item, name)
    stream.flush()
    assert raw.getvalue().decode(encoding)


def test_colour_shows_the_mask_by_more_than_colour() -> None:
    stream = io.StringIO()
    item = record(Checker(D), good().strip(), 1, "f")
    Terminal(stream, color=True, width=60).show(item, "mask")
    styles = re.findall(r"\x1b\[([\d;]+)m([^\x1b]*)", stream.getvalue())
    trained = [style for style, text in styles if "Hello." in text]
    masked = [style for style, text in styles if "Hi" in text]
    assert "4" in trained[0].split(";")
    assert "4" not in masked[0].split(";")
    assert "^" not in stream.getvalue()


def run_on_a_terminal(environment: dict[str, str]) -> bytes:
    leader, follower = pty.openpty()
    base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    command = [sys.executable, "-m", "mypt.view", PHASE5 + ":2"]
    env = base | {"TERM": "xterm"} | environment
    out = b""
    with child(command, stdout=follower, cwd=ROOT, env=env) as process:
        os.close(follower)
        with suppress(OSError):  # the other end is closed
            while piece := os.read(leader, 65536):
                out += piece
        assert process.wait(timeout=60) == 0
    os.close(leader)
    return out


def test_no_color() -> None:
    assert b"\x1b[" in run_on_a_terminal({})
    assert b"\x1b" not in run_on_a_terminal({"NO_COLOR": "1"})


def test_a_reader_that_goes_away() -> None:
    command = f"{sys.executable} -m mypt.view {BROKEN} --all | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_the_summary_of_an_episode() -> None:
    item = record(Checker(D), good().strip(), 3, "f")
    assert summary(item) == "f:3: mypt phase 1; 15 tokens, 5 trained (33 %); 1 turn; no findings"
    encoded = D.encode(item.episode)
    assert (item.ids, item.loss) == (encoded.ids.tolist(), encoded.loss.tolist())


@pytest.mark.parametrize("dialect", mypt_spec.dialects())
def test_the_text_of_what_has_none(dialect: str, view: Any, tmp_path: Path) -> None:
    """Content that spells a tag has ids, but no text: that is said, and raises nothing."""
    tags = "".join(mypt_spec.dialect(dialect).table.special)
    asked = chat(user(f"{tags}x"), assistant("a"))
    path = write(tmp_path / "x.jsonl", asked, {"system": "s", **asked})
    _, out, err = view("--dialect", dialect, "--text", "--all", path)
    if tags:
        assert out == ""
        assert err.count("no text: ") == 2


def test_records_of_other_tools_are_shown(view: Any, data: Any) -> None:
    path = data(b'{"instruction": "Add", "input": "1 and 2", "output": "3", "sauce": 1}\n')
    status, out, err = view(path)
    assert status == 0
    assert all(words in out for words in ("Add", "1 and 2", "warning[MYP112]"))
    assert "x.jsonl:1: Alpaca records" in out.replace("data.jsonl", "x.jsonl")
    assert "Alpaca records (instruction, input, output); checked without a format" in err
    assert "no loss mask: Alpaca records" in view(path, "--mask")[1]
    status, out, err = view(path, "--dialect", "praxis", "--records", "alpaca")
    assert status == 0
    assert "praxis" in out
    assert err == ""


def test_a_list_of_messages_is_shown_as_messages(view: Any, data: Any) -> None:
    out = view(data(b'[{"role": "user", "content": "Hi"}, {"role": "poet", "content": ""}]\n'))[1]
    assert " user " in out
    assert "MYP105" in out


def test_a_file_is_shown_as_what_the_linter_checks_it_as(
    view: Any, data: Any, tmp_path: Path
) -> None:
    """Its format, and what is found, with what is told once for a file."""
    tagged = {"system": "S", **chat(user("x<myPT_eot>y"), assistant("a"))}
    for one, shown, code in (
        (tagged, "mypt", "MYP203"),
        (chat(traj="x"), "OpenAI records (messages)", "MYP112"),
        ({"Query": "q", "Answer": "a"}, "records of a shape that is not read", "MYP018"),
    ):
        path = write(tmp_path / "x.jsonl", one, one)
        out = view(path, "--all")[1]
        assert f"x.jsonl:1: {shown}" in out
        lint(["--no-config", "--format", "concise", path, "-o", str(tmp_path / "out")])
        linted = (tmp_path / "out").read_text().splitlines()
        assert {line.split(": ")[1].split()[0] for line in linted} == {code}
        assert out.count(f"[{code}]") == len(linted)


def test_ids_of_another_vocabulary(view: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", chat(user("Hello there"), assistant("a")))
    ranks = str(vocabulary.path())
    plain, other = (
        view(path, "--dialect", "chatml", "--ids", *more)[1] for more in ([], ["--vocab", ranks])
    )
    assert "Hello" in plain
    assert len(other.splitlines()) > len(plain.splitlines()), "a small vocabulary has short tokens"


def test_a_trace_is_shown_as_the_chat_that_it_is(view: Any, tmp_path: Path) -> None:
    """Nobody has to name a format; thoughts, calls and results are blocks of their own."""
    events = [
        ("user", "Weather?"),
        ("assistant", [{"type": "thinking", "thinking": "Look."}]),
        ("assistant", [{"type": "tool_use", "id": "t", "name": "w", "input": {"city": "Rome"}}]),
        ("user", [{"type": "tool_result", "tool_use_id": "t", "content": "sun"}]),
        ("assistant", [{"type": "text", "text": "Sun."}]),
        ("novel", ""),
    ]
    message = [
        {"type": role, "sessionId": "s", "message": {"role": role, "content": content}}
        for role, content in events
    ]
    status, out, _ = view(write(tmp_path / "x.jsonl", message))
    shown = re.findall(r"[╭│] ?─? (.*?) +[─│]", out)
    assert (status, [line for line in shown if line]) == (
        0,
        ["user", "Weather?", "thoughts", "Look.", "call · w", '{"city": "Rome"}', "tool", "sun", "assistant", "Sun."],
    )  # fmt: skip
    assert "MYP280" in out
