"""`--format html`: one page of bounded size, in which texts of users are never markup."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from mypt_lint.check.diagnostic import Diagnostic, Snippet, Summary
from mypt_lint.report.formats import html
from mypt_lint.report.overview import Overview
from mypt_spec.findings import Finding
from tests.support.build import assistant, chat, native, user, write
from tests.support.rendering import rendered

pytestmark = pytest.mark.usefixtures("folder")
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">\u202e\x1b[31m'


def data_of(page: str) -> Any:
    """The data of a page, whose element ends where its JSON does."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)


def page_of(*arguments: str) -> tuple[int, str]:
    status = main(["-q", "--format", "html=page.html", *arguments])
    return status, Path("page.html").read_text(encoding="utf-8")


def test_texts_are_no_markup() -> None:
    name = "<img src=x onerror=alert(3)>.jsonl"
    hostile = chat(user(HOSTILE), assistant(f"{HOSTILE}<|im_end|>"), key=HOSTILE)
    status, page = page_of(write(name, {**hostile, HOSTILE: 1}, hostile, native(answer=HOSTILE)))
    assert page.count("<script") == page.count("</script>") == 2
    assert not re.findall(r"<img|onerror=a", re.sub(r"<script.*?</script>", "", page, flags=re.S))
    assert "<img" not in page.partition('id="data">')[2].partition("</script>")[0]
    assert not re.search("[\u202e\x1b]", page)
    data = data_of(page)
    assert data["files"][0][0].endswith("<img src=x onerror=alert(3)>.jsonl")
    assert (status, data["status"]) == (1, 1)
    assert any("<img src=x" in "".join(f["source"]) for f in data["findings"])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert re.fullmatch(r"default-src 'none'; (style|script)-src '.*", policy[1])


def test_findings_have_their_context() -> None:
    record = native(answer="before </myPT_user> after")
    status, page = page_of(write("a.jsonl", native(), record))
    (finding,) = data_of(page)["findings"]
    assert finding["source"] == ["before ", "</myPT_user>", " after"]
    assert (finding["file"], finding["at"], finding["pointer"]) == (
        "a.jsonl", "2:106", "/messages/1/content",
    )  # fmt: skip
    data = data_of(page)
    assert (status, data["verdict"], data["rules"]) == (
        1, "failed", [["MYP301", "tag-in-content", "error", 1, 1]],
    )  # fmt: skip
    assert data["line"].startswith("1 error in 1 of 2 lines")


def test_the_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MOST", 30)
    long = Snippet("x" * 300, (100, 200))
    items = [
        Diagnostic(Finding(code, "m" * 5000), f"{n % 7}.jsonl", n, 1, n, 2, "mypt", long)
        for n in range(2000)
        for code in ("MYP301", "MYP304", "MYP001")
    ]
    total = Summary(files=7, units=2000)
    total.tally(items)
    data = data_of(rendered("html", items, summary=total))
    assert len(data["findings"]) == 30
    counts = [sum(f["code"] == code for f in data["findings"]) for code, *_ in data["rules"]]
    assert max(counts) <= html.OF_RULE
    assert data["rules"][0][3] == 2000, "all are counted"
    assert len(json.dumps(data)) < 60_000


def test_many_files_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_FILES", 2)
    by = [Counter(error=n) for n in range(5)]
    files = [(f"{n}.jsonl", "mypt records", Summary(by_severity=by[n])) for n in range(5)]
    overview = Overview(1, "failed", [], files)
    data = data_of(rendered("html", [], overview=overview))
    assert ([name for name, *_ in data["files"]], data["more"]) == (["4.jsonl", "3.jsonl"], 3)
