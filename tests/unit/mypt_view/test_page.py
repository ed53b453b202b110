"""`mypt-view --html`: the page as a file. tests/browser looks at it in a browser."""

from __future__ import annotations

import base64
import gc
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.view import main
from mypt_cli.errors import UsageError
from mypt_cli.terminal import HIDDEN
from mypt_lint.check.checker import Checker
from mypt_view import page as pages
from mypt_view.blocks import line_breaks
from mypt_view.items import Item, as_prepared, record, tools_called
from mypt_view.page import collect, page
from tests.support.build import assistant, call, chat, native, read, user, write
from tests.support.growth import in_proportion

ROOT = Path(__file__).parents[3]
PHASE5, BROKEN = (str(ROOT / "examples" / name) for name in ("phase5.jsonl", "broken.jsonl"))
D = mypt_spec.dialect("mypt")


def item_of(value: Any, name: str = "mypt") -> Item:
    """Returns an item as the command shows it: a record, or a line."""
    return record(Checker(mypt_spec.dialect(name)), json.dumps(value).encode(), 1, "f")


def item(content: str = "Hi", **more: Any) -> Item:
    return item_of({"system": "S", **chat(user(content), assistant("Yo", **more))})


def html_of(*items: Item) -> bytes:
    return page(collect(items), "some/f.jsonl")


def data(html: bytes) -> Any:
    """The contents of a page: the rows of its episodes, with those of their parts."""
    (rows,) = re.findall(
        rb'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL
    )
    held = json.loads(rows)
    parts = re.findall(rb'<script type="text/plain" id="part-(\d+)">([^<]*)</script>', html)
    assert [int(n) for n, _ in parts] == [*range(len(parts))]
    unpacked = [json.loads(zlib.decompress(base64.b64decode(part))) for _, part in parts]
    assert held["starts"] == [sum(map(len, unpacked[:n])) for n in range(len(parts))]
    episodes = [episode for part in unpacked for episode in part]
    held["episodes"] = [row | more for row, more in zip(held["rows"], episodes, strict=True)]
    return held


def test_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "view.html"
    assert main([PHASE5, "--all", "--html", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"mypt-view: wrote {out}: 5 episodes of {PHASE5}\n"
    assert main([PHASE5, "--all", "-q", "--out", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    held = data(out.read_bytes())
    assert [e["label"] for e in held["episodes"]] == [f"{PHASE5}:{n}" for n in range(1, 6)]
    assert held["episodes"][0]["headline"] == "May I paint my boat in the harbour?"
    assert [p.name for p in tmp_path.iterdir()] == ["view.html"]


@pytest.mark.parametrize(("arguments", "count"), [([], 1), (["-n", "2"], 2), (["--all"], 11)])
def test_how_many(tmp_path: Path, arguments: list[str], count: int) -> None:
    out = tmp_path / "view.html"
    status = main([BROKEN, "--html", str(out), *arguments])
    assert status == int(count > 1), "an error in what is shown"
    assert len(data(out.read_bytes())["episodes"]) == count


def test_no_turns_are_counted_without_a_format(tmp_path: Path) -> None:
    out = tmp_path / "view.html"
    assert main([str(ROOT / "examples/openai.jsonl"), "--html", str(out)]) == 0
    (row,) = data(out.read_bytes())["episodes"]
    assert (row["tokens"], row["turns"]) == (None, None)


def test_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([PHASE5, "--html", "-"]) == 0
    captured = capsysbinary.readouterr()
    assert captured.out.startswith(b"<!doctype html>")
    assert captured.err == b""


@pytest.mark.parametrize("target", ["no/such/folder/o.html", "."])
def test_what_cannot_be_written(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([PHASE5, "--html", target]) == 2
    assert f"{target}: cannot be written" in capsys.readouterr().err


def test_the_source_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", native())
    before = Path(path).read_bytes()
    assert main([path, "--html", path]) == 2
    assert Path(path).read_bytes() == before


def test_a_page_has_the_loss_of_each_token_of_a_call() -> None:
    """By a mask that trains no arguments, one text is trained in part."""
    asked = {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}
    result = {"role": "toolresult", "name": "find", "content": 1}
    record = {"system": "S", **chat(user(), asked, result, assistant("b"))}
    (one,) = as_prepared([item_of(record)], "keep", "no-arguments")
    text = json.dumps(data(html_of(one)))
    assert '"losses": [1, 1, 1, 1, 1, 1, 0,' in text
    assert '"losses"' not in json.dumps(data(html_of(item_of(record))))


def test_a_failure_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "view.html"
    out.write_text("old")
    monkeypatch.setattr(pages, "MAX_EPISODES", 2)
    assert main([PHASE5, "--all", "--html", str(out)]) == 2
    assert out.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_EPISODES", 3)
    assert len(collect([item()] * 3).rows) == 3
    words = r"at most 3 episodes; show a part of the file with FILE:LINE and -n N"
    with pytest.raises(UsageError, match=words):
        collect(item() for _ in iter(int, 1))
    monkeypatch.setattr(pages, "MAX_TEXT", 400)
    words = r"at most 400 characters of text \(reached with episode 2\); show"
    with pytest.raises(UsageError, match=words):
        collect([item("x" * 200)] * 3)


HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--<script>", "]]>", "{{script}}", "&lt;b&gt;", "\u2028\u2029", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_data_is_no_markup(text: str) -> None:
    """Wherever it is: in texts, names of tools, languages, metadata, keys, places, the file's name."""
    messages = [
        user(text),
        {"role": "assistant_toolcall", "name": text, "arguments": {text: text}},
        {"role": "toolresult", "name": text, "content": {text: text}},
        assistant("x", think=text),
    ]
    hostile = {"system": text, "messages": messages, "language": text, "_" + text: {text: text}}
    line = json.dumps(hostile).encode()
    items = [
        record(Checker(D), raw, 1, text)
        for raw in (line, line[:-1], json.dumps({text: text}).encode())
    ]
    html = page(collect([*items, item(text, think=text)]), text)
    assert html.count(b"<script") == html.count(b"</script>") == 3
    assert b"<img" not in html
    held = data(html)
    readable = text.isprintable() or "\u2028" in text
    assert (held["source"], held["episodes"][0]["tools"]) == (text, [text] * readable)
    assert text in [chunk["text"] for chunk in held["episodes"][3]["blocks"][1]["chunks"]]


def test_the_policy_allows_the_pages_own_code_and_nothing_else() -> None:
    html = html_of(item()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    for name in ("style", "script"):
        code = re.findall(rf"<{name}>(.*?)</{name}>", html, re.DOTALL)
        assert len(code) == 1
        digest = base64.b64encode(hashlib.sha256(code[0].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert not re.search(r"""(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", html)
    assert "innerHTML" not in html
    assert "{{" not in html


def test_hidden_characters_are_those_of_the_linter() -> None:
    code = html_of(item()).decode()
    pattern = re.search(r"hidden = /(.*)/gu;", code)
    assert pattern is not None
    assert pattern[1].isascii()
    back = re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), pattern[1])
    assert back == HIDDEN.pattern


def test_tokens_totals_and_findings() -> None:
    held = data(html_of(item("\U0001f469 x", think="t"), item("Hi <MyPT_user>")))
    first, second = held["episodes"]
    assert first["tokens"] == len(D.encode(item("\U0001f469 x", think="t").episode))
    assert (first["phase"], second["phase"]) == (5, 1)
    text = first["blocks"][1]["chunks"][1]
    assert text["text"] == "\U0001f469 x"
    assert isinstance(text["ids"][0], list), "ids that share a character"
    assert sum(text["lengths"]) == len("\U0001f469 x") + 1, "in UTF-16 units"
    assert (text["loss"], text["inside"]) == (0, "user")
    assert second["blocks"][1]["chunks"][1]["marks"] == [[3, 14, "error"]]
    assert second["blocks"][1]["findings"][0]["code"] == "MYP303"
    assert second["counts"] == {"error": 1}
    assert sum(t["tokens"] for t in held["tags"]) == first["tokens"] + second["tokens"]
    tags = [f"<myPT_{name}>" for name in ("system", "user", "assistant", "think", "eot")]
    assert [t["tag"] for t in held["tags"]] == tags
    assert held["phases"] == list(D.table.phases)


def test_a_dialect_without_phases(tmp_path: Path) -> None:
    path, out = tmp_path / "e.txt", tmp_path / "o.html"
    path.write_text("<|user|>Hi<|assistant|>Yo<|end|>")
    assert main([str(path), "--kind", "text", "--html", str(out)]) == 0
    held = data(out.read_bytes())
    assert (held["dialect"], held["phases"], held["episodes"][0]["phase"]) == ("gabgpt", [], None)
    assert [t["tag"] for t in held["tags"]] == ["<|user|>", "<|assistant|>", "<|end|>"]


def test_a_long_headline_is_cut() -> None:
    assert data(html_of(item("word " * 100)))["episodes"][0]["headline"].endswith("…")


def test_what_the_overview_says() -> None:
    wrong = item("Hi <MyPT_user> <MyPT_user>", foo=1)
    held = data(html_of(item(language="en"), wrong, item_of(read(PHASE5)[0])))
    plain, faulty, calls = held["rows"]
    assert (plain["rules"], plain["tools"], plain["language"]) == (["MYP103"], [], None)
    assert faulty["rules"] == ["MYP103", "MYP303"]
    assert held["rules"]["MYP303"] == ["near-miss-tag", "error"]
    assert calls["tools"] == ["workspace.search", "workspace.get_doc"], "each once; quoted ones not"
    assert calls["language"] == "en"


@pytest.mark.parametrize(("name", "message"), [
    ("mypt-3b", {"role": "assistant_toolcall", "name": "a", "arguments": {}}),
    ("praxis", {"role": "assistant", "contents": [{"type": "toolcall", "name": "a", "arguments": {}}]}),
    ("usf-omega", {"role": "assistant", "tool_calls": [call("a", {}, id="1")]}),
    # Only in an array of calls does "function" hold the call.
    ("mypt", {"role": "assistant_toolcall", "name": "a", "arguments": {"function": {"name": "b"}}}),
])  # fmt: skip
def test_tools_of_every_dialect(name: str, message: Any) -> None:
    assert tools_called(item_of(chat(user(), message), name)) == ["a"]


def test_parts() -> None:
    """A long page is cut into parts, each unpacked by itself; no item is held."""

    def items() -> Iterator[Item]:
        for n in range(400):
            yield item(f"{n} " + "word " * 200)
        assert sum(type(held) is Item for held in gc.get_objects()) < 10

    html = page(collect(items()), "f")
    held = data(html)
    assert len(held["starts"]) > 2
    assert [e["blocks"][1]["chunks"][1]["text"].split()[0] for e in held["episodes"]] == [
        str(n) for n in range(400)
    ]
    assert len(html) < 500_000, "and packed"


def test_metadata_and_fixes_are_there() -> None:
    messages = [{"role": "system", "content": "S"}, user(_seen=[1]), assistant("Yo")]
    metadata = {"from": "here", "more": ["word"] * 20}
    value = {"messages": messages, "language": "de", "_metadata": metadata}
    held = data(html_of(item_of(value)))
    (episode,) = held["episodes"]
    (meta,) = [block for block in episode["blocks"] if block["look"] == "meta"]
    texts = [chunk["text"] for chunk in meta["chunks"]]
    assert texts[:3] == ["language: ", "de", "\n_metadata: "]
    assert json.loads(texts[3]) == metadata
    assert meta["chunks"][3]["breaks"][0] == [1, 1]
    assert texts[4:] == ["\nmessages/1/_seen: ", "[1]"]
    findings = [f for part in (episode, *episode["blocks"]) for f in part["findings"]]
    fixes = [note for f in findings for note in f["notes"] if note[0] == "fix"]
    assert fixes == [["fix", fixes[0][1]]]
    assert fixes[0][1].endswith("(safe)")


def test_json_is_laid_out() -> None:
    result = {"documents": [{"id": "\U0001f469" * 60, "n": [1, 2]}, {"id": "b" * 40}], "total": 2}
    text = json.dumps(result, ensure_ascii=False)
    breaks = line_breaks(text)
    places = itertools.pairwise([(0, 0), *breaks])
    laid = "".join(text[a:b] + "\n" + "  " * depth for (a, _), (b, depth) in places)
    laid += text[breaks[-1][0] :]
    rows = [row.strip() for row in laid.splitlines()]
    assert "".join(laid.split()) == "".join(text.split())
    assert rows[:3] == ["{", '"documents": [', "{"]
    assert '"n": [1, 2]' in rows
    assert '{"id": "' + "b" * 40 + '"}' in rows
    assert [depth for _, depth in breaks][-1] == 0
    spaced, long = text.replace(", ", ",\n"), "{" + "a," * 99 + "}"
    for other in ('{"a": 1}', text[:-1], text + text, "[words] " * 20, spaced, long):
        assert line_breaks(other) == []
    messages = [
        user("Hi " + text),
        {"role": "assistant_toolcall", "name": "t", "arguments": {}},
        {"role": "toolresult", "name": "t", "content": result},
        assistant(text),
    ]
    value = {"system": "S", "messages": messages}
    held = data(html_of(item_of(value)))
    with_breaks = [
        (block["kind"], chunk["breaks"])
        for block in held["episodes"][0]["blocks"]
        for chunk in block["chunks"]
        if "breaks" in chunk
    ]
    kinds, (shown,) = [kind for kind, _ in with_breaks], [places for _, places in with_breaks]
    assert kinds == ["toolresult"], "what a person writes stays as it is"
    units = [len(text[:at].encode("utf-16-le")) // 2 for at, _ in breaks]
    assert [at for at, _ in shown] == units


def test_the_time_of_a_page_grows_in_line() -> None:
    """A search for the place of each line break from the start of the text takes minutes."""
    items = {n: item_of({"system": "S", "messages": [user(), *answer_of(n)]}) for n in (2000, 8000)}
    assert len(line_breaks(json.dumps(["\U0001f469", 1] * 2000, ensure_ascii=False))) > 4000
    assert in_proportion(lambda n: html_of(items[n]), 2000)


def answer_of(n: int) -> list[dict[str, Any]]:
    call = {"role": "assistant_toolcall", "name": "t", "arguments": {}}
    result = {"role": "toolresult", "name": "t", "content": ["\U0001f469", 1] * n}
    return [call, result, assistant()]
