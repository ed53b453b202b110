"""One mistake is one finding, with its code and its place; reading goes on after it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Event
from mypt_spec.table import TEXT
from tests.support.broken_records import FAULTS
from tests.support.examples import examples
from tests.support.strategies import broken_records

D = mypt_spec.dialect("mypt")

# Without the opening tag of its call, or of the think before it, a block reads as an answer: then
# its result answers no call.
TWO = {("MYP212", "MYP310")}


def turn(i: int) -> str:
    call = f'<myPT_assistant><myPT_think>t{i}</myPT_think><myPT_toolcall>{{"name": "n{i}"}}</myPT_toolcall></myPT_assistant>'
    return (
        f"<myPT_user><myPT_user_context>c{i}</myPT_user_context>q{i}</myPT_user>"
        f"<myPT_assistant_context>w{i}</myPT_assistant_context>"
        f'{call}<myPT_toolresult>{{"r": {i}}}</myPT_toolresult>'
        f"<myPT_assistant><myPT_think>u{i}</myPT_think>a{i} <myPT_cite>s{i}</myPT_cite> b{i}</myPT_assistant><myPT_eot>"
    )


BASE = '<myPT_system>S <myPT_toolcall>{"name": "q"}</myPT_toolcall> T</myPT_system>' + "".join(
    map(turn, range(3))
)
PLAIN = "<myPT_system>S</myPT_system>" + "".join(
    f"<myPT_user>q{i}</myPT_user><myPT_assistant>a{i}</myPT_assistant><myPT_eot>" for i in range(3)
)
EVENTS = {"full": list(D.lex(BASE)), "plain": list(D.lex(PLAIN))}
CASES = [
    (base, at)
    for base, events in EVENTS.items()
    for at, e in enumerate(events)
    if e.terminal != TEXT
]


def find(events: list[Event]) -> list[mypt_spec.Finding]:
    return D.parse("".join(e.text for e in events))[1]


def near(finding: mypt_spec.Finding, events: list[Event], at: int) -> bool:
    """Whether a finding points between the fault at event `at` and the end of the first tag after
    it.
    """
    lengths = [len(e.text) for e in events]
    last = next(
        (i for i in range(at + 1, len(events)) if events[i].terminal != TEXT), len(events) - 1
    )
    assert finding.span is not None
    return sum(lengths[:at]) <= finding.span[0] <= sum(lengths[: last + 1])


def name_of(case: tuple[str, int]) -> str:
    return f"{case[0]}-{case[1]}-{EVENTS[case[0]][case[1]].terminal}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_missing_tag(case: tuple[str, int]) -> None:
    events, at = EVENTS[case[0]], case[1]
    left = events[:at] + events[at + 1 :]
    findings = find(left)
    codes = tuple(f.code for f in findings)
    terminal = D.table.terminals[events[at].terminal]
    assert len(codes) == 1 or (codes in TWO and terminal.opens in ("toolcall", "think"))
    assert near(findings[0], left, at)
    if terminal.closes:
        before = (
            events[at - 2].terminal if events[at - 1].terminal == TEXT else events[at - 1].terminal
        )
        named = {
            ("think", "CITE_OPEN"): "MYP207",
            ("user", "ASSISTANT_CONTEXT_OPEN"): "MYP204",
            ("assistant", "TOOLRESULT_OPEN"): "MYP202",
        }
        later = [e.terminal for e in left[at:] if e.terminal != TEXT]
        assert codes[0] in (
            "MYP211",
            named.get((terminal.closes, later[0] if later else "")),
            "MYP203",
        ), before


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_doubled_tag(case: tuple[str, int]) -> None:
    events, at = EVENTS[case[0]], case[1]
    doubled = events[: at + 1] + events[at:]
    findings = find(doubled)
    assert len(findings) == 1
    assert near(findings[0], doubled, at)
    terminal = D.table.terminals[events[at].terminal]
    expected = (
        {"MYP212"}
        if terminal.closes
        else {"MYP217"}
        if not terminal.opens
        else {"MYP206", "MYP207", "MYP209", "MYP220"}
    )
    assert findings[0].code in expected


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_misspelt_tag(case: tuple[str, int]) -> None:
    events, at = EVENTS[case[0]], case[1]
    for wrong in (
        events[at].text.upper(),
        events[at].text.replace("myPT_", "myPT "),
        events[at].text.replace("_", "-"),
    ):
        changed = [*events[:at], events[at]._replace(text=wrong), *events[at + 1 :]]
        findings = find(changed)
        assert [f.code for f in findings] == ["MYP303"]
        start = sum(len(e.text) for e in events[:at])
        assert findings[0].span == (start, start + len(wrong))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_another_closing_tag(case: tuple[str, int]) -> None:
    events, at = EVENTS[case[0]], case[1]
    if not D.table.terminals[events[at].terminal].closes:
        return
    for other in D.table.closers.values():
        if other.name != events[at].terminal:
            changed = [*events[:at], Event(other.name, other.shown), *events[at + 1 :]]
            findings = find(changed)
            assert len(findings) == 1, (other.name, [f.code for f in findings])
            assert near(findings[0], changed, at)


def test_closing_tags_missing_in_two_turns() -> None:
    events = EVENTS["full"]
    ends = [i for i, e in enumerate(events) if e.terminal == "EOT"]
    closers = [
        i
        for i, e in enumerate(events)
        if e.terminal != TEXT and D.table.terminals[e.terminal].closes
    ]
    for one, two in combinations(closers, 2):
        if any(one < end < two for end in ends):
            found = find([e for i, e in enumerate(events) if i not in (one, two)])
            assert len(found) == 2, (one, two, [f.code for f in found])


@pytest.mark.parametrize("name", sorted(FAULTS))
@given(st.data())
@settings(max_examples=examples(200))
def test_one_fault_in_a_record(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    record, (_, code, pointer) = data.draw(broken_records(name))
    episode, findings = d.read(record)
    findings = findings + (d.validate(episode) if episode is not None else [])
    assert [(f.code, f.pointer) for f in findings] == [(code, pointer)]
    assert (episode is None or any(f.severity == "error" for f in findings)) == (
        findings[0].severity == "error" or episode is None
    )
