"""The page of `mypt-view --html` in headless Chromium: it fits, it can be read and steered, and data stays data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec.view.cli import main

ROOT = Path(__file__).parents[2]
D = mypt_spec.dialect("mypt")
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> \u202e \x1b[31m'
WIDTHS = (390, 800, 1400)
Open = Callable[..., Any]


def record(user: str, **answer: str) -> dict[str, Any]:
    return {
        "system": "You are MyPT.",
        "messages": [
            {"role": "user", "content": user},
            {"role": "assistant", "content": "Yes.", **answer},
        ],
    }


RECORDS: list[Any] = [
    record("Which colour?", think="Blue.", cite="Sky"),
    record(HOSTILE, think=HOSTILE),
    record("x" * 500 + " " + "漢" * 300),
    {
        "system": "S",
        "messages": [
            {"role": "user", "content": "A\U0001f469\u200d\U0001f4bb"},
            {"role": "assistant", "content": None, "<b>": HOSTILE},
        ],
    },
    record("Hi <MyPT_user> there"),
]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    source = folder / "</title><script>alert(3)</script>.jsonl".replace("/", "_")
    examples = [(ROOT / "examples" / f"{name}.jsonl").read_bytes() for name in ("phase5", "broken")]
    source.write_bytes(
        b"".join(json.dumps(r).encode() + b"\n" for r in RECORDS) + b"".join(examples)
    )
    out = folder / "view.html"
    assert main([str(source), "--all", "--dialect", "mypt", "--html", str(out)]) == 1
    return out


@pytest.fixture
def opened(browser: Any, page_file: Path) -> Iterator[Open]:
    """Open the page at a width; fails at the end for anything the page should not do."""
    contexts, faults = [], list[str]()

    def start(width: int = 1400, scheme: str = "light", number: int = 1) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on(
            "dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        page.on("pageerror", lambda error: faults.append(f"error {error}"))
        page.on("console", lambda message: faults.append(f"console {message.text}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(page_file.as_uri())
                else faults.append(f"request {request.url}")
            ),
        )
        page.goto(f"{page_file.as_uri()}#{number}")
        return page

    yield start
    for context in contexts:
        context.close()
    assert not faults


def current(page: Any) -> int:
    return int(page.inner_text("#position").split()[0])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(opened: Open, width: int, scheme: str) -> None:
    page = opened(width, scheme)
    for key in ("", "t"):
        page.keyboard.press(key or "Escape")
        for number in range(1, len(RECORDS) + 4):
            page.evaluate("n => document.querySelectorAll('#list button')[n - 1].click()", number)
            assert current(page) == number
            wide = page.evaluate("""() => [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length && !e.closest('.unseen')
                && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 200))""")
            assert not wide
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


CONTRAST = """() => {
  const parse = c => { const [r, g, b, a = 1] = c.match(/[\\d.]+/g).map(Number); return {r, g, b, a}; };
  const light = ({r, g, b}) => { const [x, y, z] = [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * x + .7152 * y + .0722 * z; };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a === 1) return c; } return parse('rgb(255,255,255)'); };
  const out = [];
  for (const e of document.querySelectorAll('body *')) {
    if (!e.getClientRects().length || e.closest('svg') || e.closest(':disabled') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) out.push([ratio, e.outerHTML.slice(0, 160)]);
  }
  return out;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened: Open, scheme: str) -> None:
    page = opened(1400, scheme)
    page.keyboard.press("t")
    page.keyboard.press("l")
    for _ in range(20):
        assert page.evaluate(CONTRAST) == []
        page.keyboard.press("j")
    page.keyboard.press("?")
    assert page.evaluate(CONTRAST) == []


def test_data_is_inert(opened: Open) -> None:
    page = opened(number=2)
    assert page.evaluate(
        "[document.scripts.length, document.images.length, document.querySelectorAll('#chat script, #chat img, #list script').length]"
    ) == [2, 0, 0]
    shown = page.inner_text("#chat .bubble.user .content")
    assert (
        shown
        == '</script><script>alert(1)</script><img src=x onerror="alert(2)"> \\u202e \\x1b[31m'
    )
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert "<b>: " in page.inner_text("#chat")


def test_keys(opened: Open) -> None:
    page = opened()
    for key, number in [("j", 2), ("ArrowRight", 3), ("k", 2), ("ArrowLeft", 1), ("k", 1)]:
        page.keyboard.press(key)
        assert current(page) == number
    assert page.evaluate("location.hash") == "#1"
    assert page.is_disabled("#previous")
    page.keyboard.press("?")
    assert page.is_visible("dialog")
    page.keyboard.press("j")
    assert current(page) == 1, "the help is in front"
    page.keyboard.press("Escape")
    assert not page.is_visible("dialog")
    assert not page.is_visible(".tag")
    page.keyboard.press("t")
    assert page.get_attribute("#tags", "aria-pressed") == "true"
    assert page.inner_text("#chat .tag >> nth=0") == "<myPT_system>"
    page.keyboard.press("m")
    assert page.get_attribute("#loss", "aria-pressed") == "false"


def test_search(opened: Open) -> None:
    page = opened()
    page.keyboard.press("/")
    page.keyboard.type("near-miss")
    assert current(page) == 5
    assert page.inner_text("#count") == "2 of 21 episodes"
    assert page.evaluate("CSS.highlights.get('found').size") > 0
    page.keyboard.press("Enter")
    assert current(page) == 18
    page.keyboard.press("Escape")
    assert page.input_value("#search") == ""
    assert page.inner_text("#count") == "21 episodes"
    page.keyboard.press("/")
    page.keyboard.type("nothing has this")
    assert page.inner_text("#count") == "0 of 21 episodes"
    assert page.is_disabled("#next")


def test_tokens_are_those_of_encode(opened: Open) -> None:
    page = opened()
    episode, _ = D.read(RECORDS[0])
    assert episode is not None
    encoded = D.encode(episode)
    tokens = page.evaluate(
        "[...document.querySelectorAll('#chat .token')].map(e => [e.token.id, e.classList.contains('trained'), e.textContent])"
    )
    assert [t[0] for t in tokens] == encoded.ids.tolist()
    assert [int(t[1]) for t in tokens] == encoded.loss.tolist()
    assert "".join(t[2] for t in tokens) == D.serialize(episode)
    token = page.locator("#chat .token.trained:not(.tag *)").first
    token.hover()
    assert page.inner_text("#tip").split("\n") == [
        "id",
        str(D.tokenizer.encode("Blue.")[0]),
        "text",
        '"Blue"',
        "loss",
        "1, trained",
        "tag",
        "assistant/think",
    ]
    page.mouse.move(5, 5)
    assert not page.is_visible("#tip")


def test_tokens_by_key_and_tap(opened: Open) -> None:
    page = opened(390)
    page.keyboard.press("l")
    first = page.inner_text("#tip")
    assert '"You"' in first
    page.keyboard.press("l")
    assert page.inner_text("#tip") != first
    page.keyboard.press("h")
    assert page.inner_text("#tip") == first
    page.locator("#chat .token", has_text="colour").click()
    assert '" colour"' in page.inner_text("#tip")
    box = page.locator("#tip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def test_ids_that_share_a_character(opened: Open) -> None:
    page = opened(number=4)
    assert page.locator("#chat .token").count() == 0, "what cannot be read has no ids"
    assert "No token ids" in page.inner_text("#head")


def test_findings_stand_in_their_bubble(opened: Open) -> None:
    page = opened(number=5)
    assert "error[MYP303]" in page.inner_text(".bubble.user .finding")
    assert "".join(page.locator(".bubble.user .marked").all_inner_texts()) == "<MyPT_user>"


def test_totals(opened: Open, page_file: Path) -> None:
    page = opened()
    held = json.loads(page.evaluate("document.getElementById('data').textContent"))
    rows = page.locator("#totals section").first.locator("tbody tr:not(.plot)").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == [t["tag"] for t in held["tags"]]
    assert [int(row.split("\t")[2].replace(",", "")) for row in rows] == [
        t["tokens"] for t in held["tags"]
    ]
    assert page.locator("#totals svg").count() == len(held["tags"]) + len(held["phases"])
    trained = (
        page.locator("#totals svg")
        .nth(2)
        .evaluate("s => s.querySelector('.bar-trained').width.baseVal.value")
    )
    assert trained > 0


def test_the_list(opened: Open) -> None:
    page = opened(390)
    assert not page.is_visible("#list")
    page.click("#count")
    page.click("#list button >> nth=2")
    assert current(page) == 3
    assert not page.is_visible("#list"), "it makes room for the episode"
    assert opened(1400).is_visible("#list")
