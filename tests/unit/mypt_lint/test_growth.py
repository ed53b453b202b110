"""Time grows with the data and not with its square: the sizes are those for which quadratic code took
minutes, and a tenth of them in the quick suite.

`python -m fuzz.growth` looks for more, by doubling.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main
from mypt_lint.check.checker import Checker
from mypt_lint.dataset.compare import episode_of, within
from mypt_lint.dataset.whitespace import untidy
from mypt_lint.fix.apply import Fixer
from mypt_lint.places.json_edit import edited, edited_at_once
from mypt_lint.proposals.candidates import candidates_of
from mypt_spec.dialect import Dialect
from mypt_spec.findings import Finding, Fix
from tests.support.build import Record, assistant, chat, lines, message, read, user, write
from tests.support.examples import either
from tests.support.growth import in_proportion
from tests.support.linting import codes_of

Messages = list[Record]
USER, ANSWER = user("Q?"), assistant("A.")
RESULT = {"role": "toolresult", "name": "f", "content": 1}
CALL = {"role": "assistant_toolcall", "name": "f"}
CHECKER = Checker(mypt_spec.dialect("mypt"))
LOOSE: Messages = [
    message("context", "D\u00e9j\\u00e0"),
    message("human", "Q?"),
    {"role": "toolcall", "name": "f", "arguments": '{"a": 1}'},
    {"role": "tool", "name": "f", "content": 1},
    message("gpt", "A."),
]
FIXED: Messages = [
    user("Q?", context="D\u00e9j\\u00e0"), {**CALL, "arguments": {"a": 1}}, RESULT, ANSWER,
]  # fmt: skip


def line_of(messages: Messages) -> bytes:
    return lines({"system": "S"} | chat(*messages))[0]


def check_growth(do: Callable[[int], object], largest: int) -> None:
    """Checks that time grows in proportion up to a size, in the quick suite to less."""
    assert in_proportion(do, largest // either(40, 4))


@pytest.mark.parametrize(
    "turn",
    [
        [message("human", "Q?"), message("gpt", "A.")],
        [message("context", "D"), USER, ANSWER],
        [USER, {**CALL, "arguments": '{"a": 1}'}, RESULT, ANSWER],
        LOOSE,
    ],
)
def test_fixes_of_one_record(turn: Messages) -> None:
    """Of 400 turns these took five minutes and more."""
    fixer = Fixer(CHECKER)
    check_growth(lambda n: fixer.line(line_of(turn * n), row=1), 400)
    fixed, _ = fixer.line(line_of(turn * 100), row=1)
    assert codes_of(CHECKER, fixed) == []


THOUGHT = "<myPT_think>T</myPT_think>"
ROUND = (
    '<myPT_toolcall>{"name": "f"}</myPT_toolcall></myPT_assistant>'
    "<myPT_toolresult>1</myPT_toolresult><myPT_assistant>A."
)
AFTER = assistant("A.", think="T")
TYPED = {
    "a thought": (f"{THOUGHT}A.", [AFTER]),
    "a late thought": (f"A.{THOUGHT}", [AFTER]),
    "a misspelt thought": (f"{THOUGHT}A.".replace("my", "My"), [AFTER]),
    "a thought and a tag": (f"{THOUGHT}A.<myPT_eot>", [AFTER]),
    "a whole round": (ROUND, [{**CALL, "arguments": {}}, RESULT, ANSWER]),
}


@pytest.mark.parametrize("case", TYPED)
def test_tags_typed_in_each_turn(case: str) -> None:
    """Of 100 turns they took three seconds, four times those of 50; of 400 none was fixed."""
    content, after = TYPED[case]
    fixer, turn, most = Fixer(CHECKER, unsafe=True), [USER, assistant(content)], either(60, 120)
    fixed, _ = fixer.line(line_of(turn * most), row=1)
    assert json.loads(fixed or b"")["messages"] == [USER, *after] * most
    assert in_proportion(lambda n: fixer.line(line_of(turn * n), row=1), most // 4)


@pytest.mark.parametrize("part", ["<myPT_think>", "a </myPT_cite> ", "<MYPT_USER>"])
def test_one_text_with_many_tags(part: str) -> None:
    """The text is read once for all of its findings; 10,000 took a minute."""
    fixer = Fixer(CHECKER)
    check_growth(lambda n: fixer.line(line_of([USER, assistant(part * n)]), row=1), 10_000)


def test_one_message_with_many_unknown_keys() -> None:
    """The message is not looked at again for each of them; 30,000 took a minute."""

    def do(n: int) -> None:
        line = line_of([USER | {f"k{i}": 1 for i in range(n)}, ANSWER])
        Fixer(CHECKER).line(line.replace(b": 1,", b": NaN,"), row=1)

    check_growth(do, 30_000)


def test_places_in_one_text_with_many_escapes() -> None:
    """Each escape is read once, whatever the number of findings; 5,000 took half a minute."""
    content = '<myPT_user> "d" "e" \\ '
    check_growth(lambda n: codes_of(CHECKER, line_of([user(content * n), ANSWER])), 5_000)


def test_a_record_with_long_head_and_many_turns_with_typed_tags() -> None:
    """Messages before all turns are looked at with some of them, not with each."""
    dialect, sizes = mypt_spec.dialect("mypt"), []
    turn = [USER, assistant(f"{THOUGHT}A.")]
    record = json.loads(line_of(turn * either(200, 400)))

    def check(other: dict[str, Any]) -> list[Finding]:
        sizes.append(len(json.dumps(other)))
        return dialect.check(other)[1]

    record["system"] = "S" * 40_000
    episode, findings = dialect.check(record)
    findings = candidates_of(dialect, record, episode, findings, check, proposals=True)
    assert sum(f.fix is not None for f in findings) > 20
    assert sum(sizes) < 60 * len(json.dumps(record))


@pytest.mark.parametrize("now", ["c", "d"])
@pytest.mark.parametrize("bad", [0, 1, 2, 9])
def test_a_fix_that_is_refused_with_others_is_not_tried_alone_for_each_of_them(
    bad: int, now: str
) -> None:
    """The fix of every `bad`-th letter makes `now` of it: "c" has another finding, "d" the same."""
    text = "".join("b" if bad and i % bad == 0 else "a" for i in range(300))
    looks: list[str] = []

    def look(text: str) -> list[Finding]:
        looks.append(text)
        return [
            Finding("MYP301", "", f"/messages/{i}")
            if letter == "c"
            else Finding("MYP606", "", f"/messages/{i}", fix=Fix("", True, edits=((i, i + 1, now if letter in "bd" else "x"),)))
            for i, letter in enumerate(text)
            if letter != "x"
        ]  # fmt: skip

    def make(text: str, fixes: list[Fix]) -> str:
        letters = list(text)
        for fix in fixes:
            ((at, _, new),) = fix.edits
            letters[at] = new
        return "".join(letters)

    fixed, _ = Fixer(CHECKER).fixed(text, look, make)
    assert fixed == text.replace("a", "x")
    assert len(looks) < 40


def test_fixes_at_once_are_those_one_by_one() -> None:
    for turns in (1, 2, 5):
        fixed, codes = Fixer(CHECKER).line(line_of(LOOSE * turns), row=1)
        assert fixed == line_of(FIXED * turns)
        assert codes == {"MYP105": turns, "MYP109": 4 * turns, "MYP110": turns}


def test_fixes_that_touch_are_not_made_at_once() -> None:
    line = '{"messages": [{"a": 1}, {"a": 2}, {"a": 3}]}'

    def gone(i: int) -> Fix:
        return Fix("", True, patch=({"op": "remove", "path": f"/messages/{i}"},))

    assert edited_at_once(line, [gone(0), gone(1)]) == edited(edited(line, gone(1)), gone(0))
    with pytest.raises(ValueError, match="overlaps"):
        edited_at_once(line, [gone(1), gone(2)])

    def added(i: int, *values: Any) -> Fix:
        paths = (f"/messages/{i + n}" for n in range(len(values)))
        patch = ({"op": "add", "path": p, "value": v} for p, v in zip(paths, values, strict=True))
        return Fix("", True, patch=tuple(patch))

    for fix in (added(1, "b"), added(1, "b", "c"), added(3, "b", "c"), added(0, 0)):
        for other in (gone(0), gone(1), gone(2)):
            at_once = edited_at_once(line, [fix, other])
            index, removed = (int(f.patch[0]["path"][-1]) for f in (fix, other))
            later, sooner = (fix, other) if index > removed else (other, fix)
            assert at_once == edited(edited(line, later), sooner)
    with pytest.raises(ValueError, match="at one place"):
        edited_at_once(line, [added(1, "b"), added(1, "c")])
    apart = Fix("", True, patch=(*added(0, 0).patch, *added(2, 0).patch))
    with pytest.raises(ValueError, match="about"):
        edited_at_once(line, [apart, gone(2)])


def documents(n: int) -> Messages:
    """Calls of which each asks for a document of its own."""
    turns = ([USER, {**CALL, "arguments": {"doc_id": f"d{i}"}}, RESULT, ANSWER] for i in range(n))
    return [message for turn in turns for message in turn]


@pytest.mark.parametrize(
    ("messages", "largest"),
    [
        (documents, 3_000),
        (lambda n: [USER, assistant("".join(f"x <myPT_cite>d{i}</myPT_cite> " for i in range(n)))], 10_000),
        (lambda n: [USER, {**CALL, "arguments": {"of": [{"doc_id": f"d{i}"} for i in range(n)]}}, RESULT, ANSWER], 20_000),
        (lambda n: [user("e" + "\u0301\u0323" * n), ANSWER], 60_000),
    ],
)  # fmt: skip
def test_what_an_episode_shows_by_itself(messages: Callable[[int], Messages], largest: int) -> None:
    def look(n: int) -> None:
        episode = episode_of(CHECKER, line_of(messages(n)))
        assert episode is not None
        list(within(episode[1], CHECKER))
        list(untidy(*episode, CHECKER.dialect.table))

    check_growth(look, largest)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("content", "after", "turns", "most", "options"),
    [
        # Of 150 turns with two faults in a text each, every one took two checks.
        ("e\u0301\u00e9 \n", "\u00e9\u00e9", 150, 60, ["--unsafe-fixes", "--data-set"]),
        # Of 60 turns, they took a check each, and more.
        ("A.<myPT_eot>", "A.", 60, 40, []),
    ],
    ids=["untidy texts", "typed tags"],
)
def test_fixes_of_one_record_are_made_together(
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    after: str,
    turns: int,
    most: int,
    options: list[str],
) -> None:
    """The record is checked a few times, and not once or twice for each."""
    checks = 0
    check = Dialect.check

    def counted(self: Dialect, record: Any, **options: Any) -> Any:
        nonlocal checks
        checks += 1
        return check(self, record, **options)

    monkeypatch.setattr(Dialect, "check", counted)
    path = write("data.jsonl", {"system": "S"} | chat(*[USER, assistant(content)] * turns))
    assert main([path, "--fix", "-j", "1", "--no-config", "-o", "fixed.jsonl", *options]) == 0
    assert read("fixed.jsonl")[0]["messages"] == [USER, assistant(after)] * turns
    assert checks < most
