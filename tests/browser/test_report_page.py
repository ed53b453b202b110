"""The page of `mypt-lint --format html` in headless Chromium: it fits, it filters, and data stays
data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from tests.support.build import assistant, chat, native, user

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> \u202e \x1b[31m'


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    records = [
        native(answer="x" * 400 + "</myPT_user>" + "漢" * 90),
        native(answer=HOSTILE + "</myPT_user>", **{HOSTILE: 1}),
        native(answer=" "),
        *[native("q" * n, "a" * n * n) for n in range(1, 30)],
    ]
    others = [chat(user(HOSTILE), assistant("Yes.<|im_end|>"))] * 2
    for name, content in (("<img src=x>", records), ("b" * 90, others)):
        lines = "".join(json.dumps(record) + "\n" for record in content)
        (folder / f"{name}.jsonl").write_text(lines)
    out = folder / "report.html"
    assert main(["-q", "--no-config", str(folder), "--format", f"html={out}"]) == 1
    return out


@pytest.fixture(params=[(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def page(browser: Any, page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The opened page; fails at the end for anything the page should not do."""
    faults: list[str] = []
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    opened = context.new_page()
    opened.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
    opened.on("pageerror", lambda error: faults.append(f"error {error}"))
    opened.on("console", lambda message: faults.append(f"console {message.text}"))
    opened.goto(page_file.as_uri())
    yield opened
    context.close()
    assert not faults


def test_it_fits_and_says_the_verdict(page: Any) -> None:
    assert page.locator("#top h2").inner_text() == "Failed"
    wide, has = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= has
    assert page.locator("#facets svg rect").count() > 5
    titles = page.locator("#facets h2").all_inner_texts()
    assert titles[:2] == ["Rules", "Files"]
    assert titles[-1] == "Not checked"


def test_data_is_text(page: Any) -> None:
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "<img src=x onerror=" in page.locator("#findings").inner_text()


def test_filters(page: Any) -> None:
    findings = page.locator("#findings .finding")
    total = findings.count()
    page.locator("#facets .line", has_text="MYP314").click()
    assert 0 < findings.count() < total
    assert page.locator("#chosen .chip").inner_text().startswith("rule: MYP314")
    page.locator("#chosen .chip").click()
    assert findings.count() == total
    page.locator("#severities button").first.click()
    assert findings.count() == page.locator("#findings .finding.error").count() < total
    page.locator("#search").fill("no such text")
    assert page.locator("#findings").inner_text() == "No example matches the filters."
