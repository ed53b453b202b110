"""One mistake is one finding, with its code and its place; reading goes on after it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec import Event
from mypt_spec.table import TEXT, Terminal
from tests.support.broken_records import FAULTS, broken_in_each_way
from tests.support.examples import either, examples
from tests.support.strategies import records

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


def tags_of(base: str) -> Iterator[tuple[list[Event], int, Terminal]]:
    """Yields the tags of a text: its events, the index of the tag, and what it is."""
    events = EVENTS[base]
    for at, event in enumerate(events):
        if event.terminal != TEXT:
            yield events, at, D.table.terminals[event.terminal]


def find(events: list[Event]) -> list[mypt_spec.Finding]:
    return D.parse("".join(e.text for e in events))[1]


def is_near(finding: mypt_spec.Finding, events: list[Event], at: int) -> bool:
    """Returns whether a finding points between the fault at event `at` and the end of the first tag
    after it.
    """
    lengths = [len(e.text) for e in events]
    tags = (i for i in range(at + 1, len(events)) if events[i].terminal != TEXT)
    last = next(tags, len(events) - 1)
    assert finding.span is not None
    return sum(lengths[:at]) <= finding.span[0] <= sum(lengths[: last + 1])


@pytest.mark.parametrize("base", EVENTS)
def test_a_missing_tag(base: str) -> None:
    for events, at, terminal in tags_of(base):
        left = events[:at] + events[at + 1 :]
        findings = find(left)
        codes = tuple(f.code for f in findings)
        case = (at, terminal.name, codes)
        assert len(codes) == 1 or (codes in TWO and terminal.opens in ("toolcall", "think")), case
        assert is_near(findings[0], left, at), case
        if terminal.closes:
            later = [e.terminal for e in left[at:] if e.terminal != TEXT]
            named = {
                ("think", "CITE_OPEN"): "MYP207",
                ("user", "ASSISTANT_CONTEXT_OPEN"): "MYP204",
                ("assistant", "TOOLRESULT_OPEN"): "MYP202",
            }.get((terminal.closes, later[0] if later else ""))
            assert codes[0] in ("MYP211", named, "MYP203"), case


@pytest.mark.parametrize("base", EVENTS)
def test_a_doubled_tag(base: str) -> None:
    for events, at, terminal in tags_of(base):
        doubled = events[: at + 1] + events[at:]
        (finding,) = find(doubled)
        assert is_near(finding, doubled, at), (at, terminal.name)
        opens = {"MYP206", "MYP207", "MYP209", "MYP220"}
        expected = {"MYP212"} if terminal.closes else opens if terminal.opens else {"MYP217"}
        assert finding.code in expected, (at, terminal.name)


@pytest.mark.parametrize("base", EVENTS)
def test_a_misspelt_tag(base: str) -> None:
    for events, at, _ in tags_of(base):
        tag = events[at].text
        for wrong in (tag.upper(), tag.replace("myPT_", "myPT "), tag.replace("_", "-")):
            changed = [*events[:at], events[at]._replace(text=wrong), *events[at + 1 :]]
            start = sum(len(e.text) for e in events[:at])
            found = [(f.code, f.span) for f in find(changed)]
            assert found == [("MYP303", (start, start + len(wrong)))], (at, wrong)


@pytest.mark.parametrize("base", EVENTS)
def test_another_closing_tag(base: str) -> None:
    for events, at, terminal in tags_of(base):
        for other in D.table.closers.values() if terminal.closes else ():
            if other.name != terminal.name:
                changed = [*events[:at], Event(other.name, other.shown), *events[at + 1 :]]
                findings = find(changed)
                assert len(findings) == 1, (at, other.name, [f.code for f in findings])
                assert is_near(findings[0], changed, at), (at, other.name)


def test_closing_tags_missing_in_two_turns() -> None:
    events = EVENTS["full"]
    ends = [i for i, e in enumerate(events) if e.terminal == "EOT"]
    closers = [at for _, at, terminal in tags_of("full") if terminal.closes]
    pairs = [p for p in combinations(closers, 2) if any(p[0] < end < p[1] for end in ends)]
    for pair in pairs[:: either(4, 1)]:
        found = find([e for i, e in enumerate(events) if i not in pair])
        assert len(found) == 2, (pair, [f.code for f in found])


@pytest.mark.parametrize("name", sorted(FAULTS))
@given(st.data())
@settings(max_examples=examples(50))
def test_one_fault_in_a_record(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    for record, (what, code, pointer) in broken_in_each_way(name, data.draw(records(name))):
        episode, findings = d.read(record)
        findings = findings + (d.validate(episode) if episode is not None else [])
        assert [(f.code, f.pointer) for f in findings] == [(code, pointer)], what
        assert (episode is None or any(f.severity == "error" for f in findings)) == (
            findings[0].severity == "error" or episode is None
        ), what
