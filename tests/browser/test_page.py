"""The page of `mypt-view --html` in headless Chromium: it fits, it can be read and steered, and
data stays data.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.view import main

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


HEBREW = "\u05e9\u05dc\u05d5\u05dd"
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
    record(f"{HEBREW} 1") | {"_metadata": {"a": ["word"] * 20, HOSTILE: 1}, "language": HOSTILE},
    {
        "system": "S",
        "messages": [
            {"role": "user", "content": "Look"},
            {"role": "assistant_toolcall", "name": HOSTILE, "arguments": {"q": "x" * 60}},
            {"role": "tool_result", "name": HOSTILE, "content": {"long": [HOSTILE, "y" * 60]}},
            {"role": "assistant", "content": "Done.", "think": "\u0130stanbul, STANBUL"},
        ],
    },
]
ALL = len(RECORDS) + 16  # and the examples


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

    def start(width: int = 1400, scheme: str = "light", number: int | str = 1) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        context.set_default_timeout(10_000)
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
                if request.url.startswith(page_file.parent.as_uri())
                else faults.append(f"request {request.url}")
            ),
        )
        page.goto(f"{page_file.as_uri()}#{number}")
        settled(page)
        return page

    yield start
    for context in contexts:
        context.close()
    assert not faults


def settled(page: Any) -> None:
    """Wait until the episode that was asked for is there."""
    page.wait_for_selector("#main:not([aria-busy])")


def current(page: Any) -> int:
    settled(page)
    return int(page.inner_text("#position").split()[0].replace(",", ""))


def search(page: Any, text: str) -> None:
    page.fill("#search", text)
    page.wait_for_selector("#count >> text=/episode/")
    settled(page)


def test_records_without_a_format(browser: Any, tmp_path: Path) -> None:
    """No episode has ids, so neither tokens nor turns are counted."""
    line = json.dumps({"messages": RECORDS[0]["messages"][:1]})
    (tmp_path / "chats.jsonl").write_text(f"{line}\n{line}\n")
    out = tmp_path / "view.html"
    options = ["--records", "openai", "--all", "--html", str(out)]
    assert main(["-q", str(tmp_path / "chats.jsonl"), *options]) == 0
    page = browser.new_page()
    page.goto(out.as_uri(), timeout=10_000)
    settled(page)
    page.keyboard.press("o")
    page.wait_for_selector("#sums >> text=/^2 episodes \u00b7 no token ids/", timeout=10_000)
    assert "Findings" in page.inner_text("#facets")
    assert not {"Tokens", "Turns"} & set(page.inner_text("#facets").split())
    assert page.inner_text("#totals") == ""
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(opened: Open, width: int, scheme: str) -> None:
    page = opened(width, scheme)
    for key in ("", "t"):
        page.keyboard.press(key or "Escape")
        for number in range(len(RECORDS) + 4):
            if not number:
                page.keyboard.press("o")
                assert page.is_visible("#overview")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                continue
            page.evaluate("n => { location.hash = `#${n}`; }", number)
            page.wait_for_selector(f"#position >> text=/^{number} /")
            settled(page)
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
    for _ in range(ALL - 1):
        assert page.evaluate(CONTRAST) == []
        page.keyboard.press("j")
        settled(page)
    search(page, "yes")
    page.click("#all")
    page.click(".line:not(:disabled) >> nth=0")
    assert page.evaluate(CONTRAST) == []
    page.keyboard.press("?")
    assert page.evaluate(CONTRAST) == []


def test_data_is_inert(opened: Open) -> None:
    page = opened(number=2)
    assert page.evaluate(
        "[document.scripts.length, document.images.length, document.querySelectorAll('#chat script, #chat img, #list script').length]"
    ) == [3, 0, 0]
    shown = page.inner_text("#chat .bubble.user .content")
    assert (
        shown
        == '</script><script>alert(1)</script><img src=x onerror="alert(2)"> \\u202e \\x1b[31m'
    )
    page.keyboard.press("j")
    page.keyboard.press("j")
    settled(page)
    assert "<b>: " in page.inner_text("#chat")
    search(page, HOSTILE[:30])
    assert page.evaluate("CSS.highlights.get('found').size") > 0
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    tools = page.locator(".card", has_text="Tools called").locator(".name").all_inner_texts()
    escaped = HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert escaped in tools
    for title in ("Tools called", "Language"):
        page.locator(".card", has_text=title).locator(".line", has_text="<img").first.click()
        assert escaped in page.inner_text("#chosen")
        page.click("#chosen button")
    assert page.evaluate("[document.scripts.length, document.images.length]") == [3, 0]


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
    search(page, "near-miss")
    assert current(page) == 5
    assert page.inner_text("#count") == f"2 hits in 2 of {ALL} episodes"
    assert page.inner_text("#position") == f"5 of {ALL} \u00b7 hit 1 of 1"
    assert page.evaluate("CSS.highlights.get('found').size") == 1
    assert "1 hit" in page.inner_text("#list li >> nth=0")
    page.keyboard.press("Enter")
    assert current(page) == 20
    page.keyboard.press("Shift+Enter")
    assert current(page) == 5
    page.keyboard.press("Escape")
    assert page.input_value("#search") == ""
    assert page.inner_text("#count") == f"{ALL} episodes"
    search(page, "nothing has this")
    assert page.inner_text("#count") == f"0 hits in 0 of {ALL} episodes"
    assert page.is_disabled("#next")


@pytest.mark.parametrize("text", ["e", "you are", "mypt", "\\n", "\\u202e", "help: ", "stanbul", ":1", "{", HEBREW])  # fmt: skip
def test_the_search_counts_what_it_shows(opened: Open, text: str) -> None:
    page = opened()
    search(page, text)
    total, episodes = 0, 0
    for number in range(1, ALL + 1):
        page.evaluate("n => show(n - 1)", number)
        settled(page)
        hits = page.evaluate("CSS.highlights.get('found').size")
        assert hits == page.evaluate("hits[shown]")
        total, episodes = total + hits, episodes + bool(hits)
    assert total > 0
    plural = "" if total == 1 else "s"
    some = f"{episodes} of {ALL}" if episodes < ALL else str(ALL)
    assert page.inner_text("#count") == f"{total} hit{plural} in {some} episodes"


def test_hits_are_walked_through(opened: Open) -> None:
    page = opened()
    search(page, "yes")
    page.focus("#search")
    seen = []
    while len(seen) < 5:
        seen.append(page.inner_text("#position"))
        page.keyboard.press("Enter")
        settled(page)
    assert seen[0] == f"1 of {ALL} \u00b7 hit 1 of 1"
    assert len(set(seen)) == 5


def test_the_place_in_the_address(opened: Open) -> None:
    page = opened(number="")
    assert page.is_visible("#overview")
    page.evaluate("location.hash = '#3'")
    page.wait_for_selector("#position >> text=/^3 /")
    assert current(page) == 3
    page.evaluate("location.hash = '#999'")
    page.wait_for_selector(f"#position >> text=/^{ALL} /")
    page.go_back()
    page.wait_for_selector("#position >> text=/^3 /")
    page.evaluate("location.hash = '#none'")
    page.wait_for_selector("#overview >> visible=true")
    page.keyboard.press("j")
    assert current(page) == 1
    page.go_back()
    page.wait_for_selector("#overview >> visible=true")


def test_the_title_names_the_file(opened: Open, page_file: Path) -> None:
    page = opened()
    name = next(page_file.parent.glob("*.jsonl")).name
    assert page.title() == f"{name}:1 \u2013 mypt-view"
    page.keyboard.press("j")
    assert page.title() == f"{name}:2 \u2013 mypt-view"
    page.keyboard.press("o")
    assert page.title() == f"{name} \u2013 mypt-view"
    assert page.inner_text("#name") == name


def test_the_overview(opened: Open) -> None:
    page = opened(number="")
    titles = ["Tokens", "Trained share", "Turns", "Findings", "Phase", "Tools called", "Language"]
    assert page.locator(".card h2").all_inner_texts() == titles
    held = json.loads(page.evaluate("document.getElementById('data').textContent"))
    counts = "[...document.querySelectorAll('.card')].map(c => [...c.querySelectorAll('.bin, .line')].map(b => Number(b.title.match(/: ([0-9,]+) episode/)[1])))"
    of = dict(zip(titles, page.evaluate(counts), strict=True))
    for title in ("Tokens", "Trained share", "Turns", "Phase", "Language"):
        assert sum(of[title]) == ALL, "each episode once"
    rules = Counter(code for row in held["rows"] for code in row["rules"] or [None])
    wrong = sorted((n for code, n in rules.items() if code), reverse=True)
    assert of["Findings"] == [*wrong, rules[None]]
    page.locator(".line", has_text="MYP303").click()
    assert page.inner_text("#count") == f"{rules['MYP303']} of {ALL} episodes"
    assert page.inner_text("#sums").startswith(f"{rules['MYP303']} of {ALL} episodes")
    assert "Findings: MYP303 near-miss-tag" in page.inner_text("#chosen")
    assert sum(page.evaluate(counts)[0]) == rules["MYP303"], "the histograms follow"
    assert page.evaluate(counts)[3] == of["Findings"], "its own counts stay, for a second choice"
    found = [n for n, row in enumerate(held["rows"], 1) if "MYP303" in row["rules"]]
    page.keyboard.press("j")
    assert current(page) == found[0]
    page.keyboard.press("j")
    assert current(page) == found[1]
    page.click("#chosen button")
    assert page.inner_text("#count") == f"{ALL} episodes"
    page.keyboard.press("o")
    page.locator(".bin:not(:disabled)").first.click()
    assert page.inner_text("#count") == f"{of['Tokens'][0]} of {ALL} episodes"


def test_one_episode_needs_no_overview(opened: Open, page_file: Path, tmp_path: Path) -> None:
    out = page_file.with_name("one.html")
    assert main([str(ROOT / "examples/phase5.jsonl"), "--html", str(out)]) == 0
    page = opened()
    page.goto(out.as_uri())
    settled(page)
    assert not page.is_visible("#overview")
    assert not page.is_visible("#all")
    assert page.is_visible("#totals table")
    page.keyboard.press("o")
    page.keyboard.press("j")
    assert page.inner_text(".bubble.user .content") == "May I paint my boat in the harbour?"


def test_text_from_right_to_left(opened: Open) -> None:
    page = opened(number=6)
    direction = "e => getComputedStyle(e).direction"
    assert page.locator(".bubble.user .content").evaluate(direction) == "rtl"
    assert page.locator(".bubble.system .content").evaluate(direction) == "ltr"
    page.keyboard.press("t")
    assert page.locator(".bubble.user .content").evaluate(direction) == "rtl", "tags do not count"
    assert page.locator("#list [aria-current] .headline").evaluate(direction) == "rtl"


def test_metadata_json_and_fixes(opened: Open) -> None:
    page = opened(number=6)
    shown = page.inner_text("#head .bubble.meta .content")
    assert shown.startswith('_metadata: {\n"a": [\n"word", \n"word"')
    assert "\nlanguage: </script><script>alert(1)" in shown
    page.keyboard.press("j")
    settled(page)
    call = page.locator(".bubble.call .content")
    assert call.inner_text().split("\n")[0] == "{"
    at = "n => document.querySelectorAll('.bubble.tool .indent')[n].getBoundingClientRect().width"
    assert page.evaluate(at, 1) == pytest.approx(2 * page.evaluate(at, 0), abs=0.1)
    assert re.search(r"fix: .* \(safe\)", page.inner_text("#main"))


def test_many_episodes(opened: Open, page_file: Path) -> None:
    """More than a part holds: each is unpacked when it is shown, and the list holds a window of
    them.
    """
    source, out = page_file.with_name("many.jsonl"), page_file.with_name("many.html")
    lines = (json.dumps(record(f"Question {n} " + "word " * 50)) + "\n" for n in range(1, 2501))
    source.write_text("".join(lines))
    assert main([str(source), "--all", "--html", str(out)]) == 0
    page = opened()
    page.goto(out.as_uri())
    assert page.evaluate("data.starts.length") > 3
    assert page.inner_text("#count") == "2,500 episodes"
    assert page.locator("#list li").count() < 40
    page.evaluate("location.hash = '#2500'")
    page.wait_for_selector(".bubble.user >> text=Question 2500")
    assert page.locator("#list li", has_text="Question 2500").is_visible()
    for _ in range(30):
        page.keyboard.press("k")
    assert current(page) == 2470
    assert "Question 2470 " in page.inner_text(".bubble.user .content")
    search(page, "question 77 ")
    assert page.inner_text("#count") == "1 hit in 1 of 2,500 episodes"
    assert current(page) == 77
    page.evaluate("document.getElementById('list').scrollTop = 0")
    search(page, "")
    page.evaluate("document.getElementById('list').scrollTop = 76 * 1000")
    page.wait_for_selector("#list >> text=Question 1001 ")
    page.locator("#list button", has_text="Question 1003 ").click()
    assert current(page) == 1003


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
    page = opened(number="")
    held = json.loads(page.evaluate("document.getElementById('data').textContent"))
    rows = page.locator("#totals section").first.locator("tbody tr:not(.plot)").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == [t["tag"] for t in held["tags"]]
    assert [int(row.split("\t")[2].replace(",", "")) for row in rows] == [
        t["tokens"] for t in held["tags"]
    ]
    assert page.locator("#totals svg").count() == len(held["tags"])
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
