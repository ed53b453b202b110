"""`mypt-view --html`: the page as a file. tests/browser looks at it in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec.lint.check import Checker
from mypt_spec.lint.errors import UsageError
from mypt_spec.lint.render.visible import HIDDEN
from mypt_spec.view import page as pages
from mypt_spec.view.cli import main
from mypt_spec.view.items import Item, record
from mypt_spec.view.page import collect, page

ROOT = Path(__file__).parents[2]
PHASE5, BROKEN = (str(ROOT / "examples" / name) for name in ("phase5.jsonl", "broken.jsonl"))
D = mypt_spec.dialect("mypt")


def item(content: str = "Hi", **more: Any) -> Item:
    value = {
        "system": "S",
        "messages": [
            {"role": "user", "content": content},
            {"role": "assistant", "content": "Yo", **more},
        ],
    }
    return record(Checker(D), json.dumps(value).encode(), 1, "f")


def data(html: bytes) -> Any:
    found = re.findall(
        rb'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL
    )
    assert len(found) == 1
    return json.loads(found[0])


def test_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "view.html"
    assert main([PHASE5, "--all", "--html", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"mypt-view: wrote {out}: 5 episodes of {PHASE5}\n"
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
    path = tmp_path / "d.jsonl"
    path.write_bytes(Path(PHASE5).read_bytes())
    assert main([str(path), "--html", str(path)]) == 2
    assert path.read_bytes() == Path(PHASE5).read_bytes()


def test_a_failure_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "view.html"
    out.write_text("old")
    monkeypatch.setattr(pages, "MAX_EPISODES", 2)
    assert main([PHASE5, "--all", "--html", str(out)]) == 2
    assert out.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_EPISODES", 3)
    assert len(collect([item()] * 3)) == 3
    with pytest.raises(
        UsageError, match=r"at most 3 episodes; show a part of the file with FILE:LINE and -n N"
    ):
        collect(item() for _ in iter(int, 1))
    monkeypatch.setattr(pages, "MAX_TEXT", 400)
    with pytest.raises(
        UsageError, match=r"at most 400 characters of text \(reached with episode 2\); show"
    ):
        collect([item("x" * 200)] * 3)


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>",
    "{{script}}",
    "&lt;b&gt;",
    "\u2028\u2029",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_data_is_no_markup(text: str) -> None:
    html = page([item(text, think=text), item("plain")])
    assert html.count(b"<script") == 2
    assert html.count(b"</script>") == 2
    assert b"<img" not in html
    held = data(html)
    assert text in [chunk["text"] for chunk in held["episodes"][0]["blocks"][1]["chunks"]]


def test_the_policy_allows_the_pages_own_code_and_nothing_else() -> None:
    html = page([item()]).decode()
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
    code = page([item()]).decode()
    pattern = re.search(r"hidden = /(.*)/gu;", code)
    assert pattern is not None
    assert pattern[1].isascii()
    back = re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), pattern[1])
    assert back == HIDDEN.pattern


def test_tokens_totals_and_findings() -> None:
    held = data(page([item("\U0001f469 x", think="t"), item("Hi <MyPT_user>")]))
    first, second = held["episodes"]
    assert (first["tokens"], first["phase"], second["phase"]) == (
        len(D.encode(item("\U0001f469 x", think="t").episode)),
        5,
        1,
    )
    user = first["blocks"][1]["chunks"][1]
    assert user["text"] == "\U0001f469 x"
    assert isinstance(user["ids"][0], list), "ids that share a character"
    assert sum(user["lengths"]) == len("\U0001f469 x") + 1, "in UTF-16 units"
    assert (user["loss"], user["inside"]) == (0, "user")
    assert second["blocks"][1]["chunks"][1]["marks"] == [[3, 14, "error"]]
    assert second["blocks"][1]["findings"][0]["code"] == "MYP303"
    assert second["counts"] == {"error": 1}
    assert sum(t["tokens"] for t in held["tags"]) == first["tokens"] + second["tokens"]
    assert [t["tag"] for t in held["tags"]] == [
        "<myPT_system>",
        "<myPT_user>",
        "<myPT_assistant>",
        "<myPT_think>",
        "<myPT_eot>",
    ]
    assert [p["episodes"] for p in held["phases"]] == [1, 0, 0, 0, 1]


def test_a_dialect_without_phases(tmp_path: Path) -> None:
    path, out = tmp_path / "e.txt", tmp_path / "o.html"
    path.write_text("<|user|>Hi<|assistant|>Yo<|end|>")
    assert main([str(path), "--kind", "text", "--html", str(out)]) == 0
    held = data(out.read_bytes())
    assert (held["dialect"], held["phases"], held["episodes"][0]["phase"]) == ("gabgpt", [], None)
    assert [t["tag"] for t in held["tags"]] == ["<|user|>", "<|assistant|>", "<|end|>"]


def test_a_long_headline_is_cut() -> None:
    assert data(page([item("word " * 100)]))["episodes"][0]["headline"].endswith("…")
