"""Time grows with the data and not with its square: sizes for which quadratic code takes far longer
than these bounds.

`python -m fuzz.growth` looks for more, by doubling.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.cli import main
from mypt_lint.dataset.compare import episode_of, within
from mypt_lint.dataset.whitespace import untidy
from mypt_lint.fix.apply import Fixer, _apply_all
from mypt_lint.fix.candidates import candidates_of
from mypt_lint.fix.json_edit import edited, edited_at_once
from mypt_spec.dialect import Dialect
from mypt_spec.findings import Finding, Fix
from tests.support.growth import in_proportion, seconds

SECONDS = 20.0  # of processor time; each takes one or two, and took minutes
Messages = list[dict[str, Any]]
USER = {"role": "user", "content": "Q?"}
ANSWER = {"role": "assistant", "content": "A."}
RESULT = {"role": "toolresult", "name": "f", "content": 1}
CALL = {"role": "assistant_toolcall", "name": "f"}
LOOSE: Messages = [
    {"role": "context", "content": "D\u00e9j\\u00e0"},
    {"role": "human", "content": "Q?"},
    {"role": "toolcall", "name": "f", "arguments": '{"a": 1}'},
    {"role": "tool", "name": "f", "content": 1},
    {"role": "gpt", "content": "A."},
]
FIXED: Messages = [
    {"role": "user", "content": "Q?", "context": "D\u00e9j\\u00e0"},
    {**CALL, "arguments": {"a": 1}},
    RESULT,
    ANSWER,
]


def line_of(messages: Messages) -> bytes:
    return json.dumps({"system": "S", "messages": messages}, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "turn",
    [
        [{"role": "human", "content": "Q?"}, {"role": "gpt", "content": "A."}],
        [{"role": "context", "content": "D"}, USER, ANSWER],
        [USER, {**CALL, "arguments": '{"a": 1}'}, RESULT, ANSWER],
        LOOSE,
    ],
)
def test_fixes_of_one_record(turn: Messages) -> None:
    """Of 400 turns these took five minutes and more."""
    fixer, line = Fixer(Checker(mypt_spec.dialect("mypt"))), line_of(turn * 400)
    fixed: list[bytes | None] = []
    assert seconds(lambda: fixed.append(fixer.line(line, row=1)[0])) < SECONDS
    assert fixed[0] is not None
    assert Checker(mypt_spec.dialect("mypt")).line(fixed[0], row=1, filename="") == []


THOUGHT = "<myPT_think>T</myPT_think>"
ROUND = (
    '<myPT_toolcall>{"name": "f"}</myPT_toolcall></myPT_assistant>'
    "<myPT_toolresult>1</myPT_toolresult><myPT_assistant>A."
)
TYPED = {
    "a thought": (f"{THOUGHT}A.", [{**ANSWER, "think": "T"}]),
    "a late thought": (f"A.{THOUGHT}", [{**ANSWER, "think": "T"}]),
    "a misspelt thought": (f"{THOUGHT}A.".replace("my", "My"), [{**ANSWER, "think": "T"}]),
    "a thought and a tag": (f"{THOUGHT}A.<myPT_eot>", [{**ANSWER, "think": "T"}]),
    "a whole round": (ROUND, [{**CALL, "arguments": {}}, RESULT, ANSWER]),
}


@pytest.mark.parametrize("case", TYPED)
def test_tags_typed_in_each_turn(case: str) -> None:
    """Of 100 turns they took three seconds, four times those of 50; of 400 none was fixed."""
    content, written = TYPED[case]
    fixer = Fixer(Checker(mypt_spec.dialect("mypt")), unsafe=True)
    turn = [USER, {**ANSWER, "content": content}]
    fixed, _ = fixer.line(line_of(turn * 120), row=1)
    assert json.loads(fixed or b"")["messages"] == [USER, *written] * 120
    assert in_proportion(lambda n: fixer.line(line_of(turn * n), row=1), 30)


@pytest.mark.parametrize("part", ["<myPT_think>", "a </myPT_cite> ", "<MYPT_USER>"])
def test_one_text_with_many_tags(part: str) -> None:
    """The text is read once for all of its findings; 10,000 took a minute."""
    fixer, turn = Fixer(Checker(mypt_spec.dialect("mypt"))), [USER, {**ANSWER, "content": part}]
    turn[1]["content"] *= 10_000
    assert seconds(lambda: fixer.line(line_of(turn), row=1)) < SECONDS


def test_one_message_with_many_unknown_keys() -> None:
    """The message is not looked at again for each of them; 30,000 took a minute."""
    fixer = Fixer(Checker(mypt_spec.dialect("mypt")))
    line = line_of([{**USER, **{f"k{i}": 1 for i in range(30_000)}}, ANSWER])
    line = line.replace(b": 1,", b": NaN,")
    assert seconds(lambda: fixer.line(line, row=1)) < SECONDS


def test_places_in_one_text_with_many_escapes() -> None:
    """Each escape is read once, whatever the number of findings; 5,000 took half a minute."""
    content = '<myPT_user> "d" "e" \\ ' * 5_000
    line = line_of([{**USER, "content": content}, ANSWER])
    checker = Checker(mypt_spec.dialect("mypt"))
    assert seconds(lambda: checker.line(line, row=1, filename="")) < SECONDS


def test_a_record_with_long_head_and_many_turns_with_typed_tags() -> None:
    """Messages before all turns are looked at with some of them, not with each."""
    dialect, looked = mypt_spec.dialect("mypt"), []
    record = json.loads(line_of([USER, {**ANSWER, "content": f"{THOUGHT}A."}] * 400))

    def check(other: dict[str, Any]) -> list[Finding]:
        looked.append(len(json.dumps(other)))
        return dialect.check(other)[1]

    record["system"] = "S" * 40_000
    episode, found = dialect.check(record)
    found = candidates_of(dialect, record, episode, found, check, proposals=True)
    assert sum(f.fix is not None for f in found) > 20
    assert sum(looked) < 60 * len(json.dumps(record))


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

    fixed, _ = Fixer(Checker(mypt_spec.dialect("mypt"))).fixed(text, look, _apply_all)
    assert fixed == text.replace("a", "x")
    assert len(looks) < 40


def test_fixes_at_once_are_those_one_by_one() -> None:
    for turns in (1, 2, 5):
        fixed, codes = Fixer(Checker(mypt_spec.dialect("mypt"))).line(line_of(LOOSE * turns), row=1)
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
        patch = [
            {"op": "add", "path": f"/messages/{i + n}", "value": v} for n, v in enumerate(values)
        ]
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


@pytest.mark.parametrize(
    "messages",
    [
        [m for i in range(3000) for m in (USER, {**CALL, "arguments": {"doc_id": f"d{i}"}}, RESULT, ANSWER)],
        [USER, {**ANSWER, "content": "".join(f"x <myPT_cite>d{i}</myPT_cite> " for i in range(10000))}],
        [USER, {**CALL, "arguments": {"of": [{"doc_id": f"d{i}"} for i in range(20000)]}}, RESULT, ANSWER],
        [{**USER, "content": "e" + "\u0301\u0323" * 60000}, ANSWER],
    ],
)  # fmt: skip
def test_what_an_episode_shows_by_itself(messages: Messages) -> None:
    checker = Checker(mypt_spec.dialect("mypt"))

    def look() -> None:
        read = episode_of(checker, line_of(messages))
        assert read is not None
        list(within(read[1], checker))
        list(untidy(*read, checker.dialect.table))

    assert seconds(look) < SECONDS


def checks_of(
    monkeypatch: pytest.MonkeyPatch, folder: Path, messages: Messages, *options: str
) -> tuple[int, Messages]:
    """How often a record is checked while it is fixed, and its messages afterwards."""
    checks = []
    check = Dialect.check

    def counted(self: Dialect, record: Any, **options: Any) -> Any:
        checks.append(record)
        return check(self, record, **options)

    monkeypatch.setattr(Dialect, "check", counted)
    data, fixed = folder / "data.jsonl", folder / "fixed.jsonl"
    data.write_bytes(line_of(messages) + b"\n")
    assert main([str(data), "--fix", "-j", "1", "--no-config", "-o", str(fixed), *options]) == 0
    return len(checks), json.loads(fixed.read_bytes())["messages"]


def test_untidy_texts_of_one_record_are_fixed_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of 150 turns with two faults in a text each, every one took two checks."""
    turn = [USER, {**ANSWER, "content": "e\u0301\u00e9 \n"}]
    checks, messages = checks_of(monkeypatch, tmp_path, turn * 150, "--unsafe-fixes", "--data-set")
    assert messages == [USER, {**ANSWER, "content": "\u00e9\u00e9"}] * 150
    assert checks < 60


def test_tags_typed_in_answers_are_left_out_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of 60 turns, they took a check each, and more."""
    turn = [USER, {**ANSWER, "content": "A.<myPT_eot>"}]
    checks, messages = checks_of(monkeypatch, tmp_path, turn * 60)
    assert messages == [USER, ANSWER] * 60
    assert checks < 40
