"""Invariant 2: validator, Lark, automaton and parser accept the same language.

Shown for every state, then by enumeration.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.automaton import MAX_CONFIGURATIONS, Automaton, extract, minimise
from mypt_spec.episode import events_of
from mypt_spec.findings import Finding
from mypt_spec.rules import check_episode
from mypt_spec.states import open_blocks, split_states
from mypt_spec.table import END, TEXT, SpecError
from tests.support.canonical import assert_record
from tests.support.examples import either, examples
from tests.support.language import BODY, feed, grammar, parser, spelled, walk
from tests.support.strategies import DIALECTS, any_episodes

ALL = mypt_spec.dialects()
LENGTH = either(6, 8)
FEW = either(100, 800)


@pytest.mark.parametrize("name", ALL)
def test_every_configuration_and_every_terminal(name: str) -> None:
    """Walk Lark's parser and the automaton in lockstep through all that Lark can reach."""
    d = mypt_spec.dialect(name)
    terminals = [TEXT, *d.table.terminals]
    first = parser(name)
    seen = {tuple(first.parser_state.state_stack): d.automaton.start}
    queue = deque([first])
    edges, refused = set(), set()
    while queue:
        here = queue.popleft()
        state = seen[tuple(here.parser_state.state_stack)]
        assert (feed(here, END) is not None) == d.automaton.accepting(state)
        for terminal in terminals:
            following = feed(here, terminal)
            assert (following is not None) == (terminal in d.automaton.allowed(state)), (
                state,
                terminal,
            )
            if following is None:
                refused.add((state, terminal))
                continue
            step = d.automaton.step(state, terminal)
            edges.add((state, terminal))
            key = tuple(following.parser_state.state_stack)
            if key not in seen:
                seen[key] = step
                queue.append(following)
            assert seen[key] == step, "one configuration is one state"
    assert set(seen.values()) == set(d.automaton.states), "every state is reached"
    assert edges == {(s, t) for s in d.automaton.states for t in d.automaton.allowed(s)}
    for state, terminal in refused:
        with pytest.raises(ValueError, match="is not allowed"):
            d.automaton.step(state, terminal)
    assert len(seen) < MAX_CONFIGURATIONS


@pytest.mark.parametrize("name", ALL)
def test_all_strings_up_to_a_length(name: str) -> None:
    """All strings of at most `LENGTH` terminals, and longer ones while there are few enough.

    Where a prefix is refused, both sides refuse it, and so every string that goes on from it. While
    there are few, the parser of texts reads them, too.
    """
    d = mypt_spec.dialect(name)
    terminals = [TEXT, *d.table.terminals]
    level: list[tuple[list[str], int, Any]] = [([], d.automaton.start, parser(name))]
    length = 0
    while level and (length < LENGTH or len(level) < FEW):
        longer = []
        for prefix, state, here in level:
            assert d.automaton.accepting(state) == (feed(here, END) is not None)
            if len(level) < FEW:
                hold_as_text(d, prefix, state)
            for terminal in terminals:
                following = feed(here, terminal)
                step = d.automaton.run([*prefix, terminal])
                assert (following is None) == (step is None)
                if step is not None:
                    longer.append(([*prefix, terminal], step, following))
        level, length = longer, length + 1


def hold_as_text(d: mypt_spec.Dialect, string: list[str], state: int | None) -> None:
    """Asserts that a text of these terminals is read as the automaton reads them."""
    accepted = state is not None and d.automaton.accepting(state)
    text = spelled(d, string)
    episode, findings = d.parse(text)
    assert (episode is not None and not findings) == accepted
    assert episode is None or accepted or not any(f.severity == "error" for f in findings)
    assert bool(findings) != accepted
    prefix = d.check_prefix(text)
    # A tag that is refused where it is may be read as the one that belongs there, with other white
    # space than that has.
    events = d.lex(text)
    begun = d.automaton.run(e.terminal for e in events) if any(e.spaced for e in events) else state
    assert (not prefix.findings) == (begun is not None)
    if not accepted:
        return
    assert prefix.state == state
    assert not errors_of(d, episode)
    assert d.serialize(episode) == text
    assert d.parse_ids(d.encode(episode).ids) == (episode, [])
    assert_record(d, episode)


@pytest.mark.parametrize(
    ("name", "string"),
    [
        ("harmony", "USER_OPEN NEXT COMMENTARY_OPEN NEXT FINAL_OPEN RETURN"),
        ("harmony", "USER_OPEN NEXT ANALYSIS_OPEN NEXT ANALYSIS_OPEN NEXT FINAL_OPEN RETURN"),
        (
            "harmony",
            "USER_OPEN NEXT COMMENTARY_OPEN NEXT CALL_OPEN TEXT CALL RESULT_OPEN NEXT FINAL_OPEN RETURN",
        ),
        ("mistral", "BOS TOOLS_OPEN TEXT TOOLS_CLOSE" + " USER_OPEN ASSISTANT_OPEN TEXT END" * 2),
        ("qwen3", "SYSTEM_OPEN TEXT TOOLS_OPEN"),
        ("qwen3", "USER_OPEN END ASSISTANT_OPEN CALL_NEXT CALL_OPEN"),
    ],
)
def test_strings_that_were_read_otherwise(name: str, string: str) -> None:
    d = mypt_spec.dialect(name)
    hold_as_text(d, string.split(), d.automaton.run(string.split()))


def test_the_reference_read_by_hand() -> None:
    """MyPT as a regular expression, written from "Nesting Hierarchy" and "Key placement rules".

    One letter a terminal.
    """
    d = mypt_spec.dialect("mypt")
    letters = dict(zip([*d.table.terminals, TEXT], "SsUuAaXxYyCcRrTtQqEw", strict=True))
    think, cite, call = "(Tw+t)?", "Qw+q", "Cw+c"
    answer = f"A{think}({cite})*w(w|{cite})*a"
    turn = f"U(Xw+x)?w+u(Yw+y)?(A{think}{call}aRw+r)*{answer}E"
    whole = re.compile(f"S(w|{call})+s({turn})+")
    queue = deque([((), d.automaton.start)])
    accepted = 0
    while queue:
        string, state = queue.popleft()
        word = "".join(letters[t] for t in string)
        assert (whole.fullmatch(word) is not None) == d.automaton.accepting(state), word
        accepted += d.automaton.accepting(state)
        if len(string) < 18:
            queue += [
                ((*string, t), d.automaton.step(state, t)) for t in d.automaton.allowed(state)
            ]
    assert accepted > 1000
    for base in ("SwsUwuAwaE", "SwCwcsUXwxwuYwyATwtCwcaRwrAwQwqaEUwuAQwqwaE"):
        for at in range(len(base) + 1):
            for letter in ["", *letters.values()]:
                for width in (0, 1):
                    word = base[:at] + letter + base[at + width :]
                    back = {v: k for k, v in letters.items()}
                    state = d.automaton.run(back[c] for c in word)
                    assert (whole.fullmatch(word) is not None) == (
                        state is not None and d.automaton.accepting(state)
                    ), word


@pytest.mark.parametrize("name", ALL)
def test_minimal_deterministic_and_canonical(name: str) -> None:
    """States that accept the same differ in their open blocks."""
    d = mypt_spec.dialect(name)
    a, blocks = d.automaton, open_blocks(d.automaton, d.table)
    assert a.start == 0
    for s in a.states:
        for t in range(s):
            assert _told_apart(a, s, t) or blocks[s] != blocks[t], (
                f"states {s} and {t} are the same"
            )
    numbered = [0]
    for state in numbered:
        numbered += dict.fromkeys(n for _, n in sorted(a.steps[state].items()) if n not in numbered)
    assert numbered == list(a.states), "numbered breadth first by terminal name"
    live = set(a.accepts)
    while more := {s for s in a.states if live & set(a.steps[s].values())} - live:
        live |= more
    assert live == set(a.states), "from every state there is an end"
    again = extract(grammar(name))
    apart = split_states(again, d.table)
    assert (apart.steps, apart.accepts) == (a.steps, a.accepts)
    assert split_states(a, d.table) is a
    once_more = minimise([dict(row) for row in a.steps], set(a.accepts))
    assert (once_more.steps, once_more.accepts) == (again.steps, again.accepts)
    once_more = split_states(once_more, d.table)
    assert (once_more.steps, once_more.accepts) == (a.steps, a.accepts)
    copy = Automaton.from_dict(a.as_dict())
    assert (copy.steps, copy.accepts) == (a.steps, a.accepts)


def _told_apart(a: Automaton, s: int, t: int) -> bool:
    """Whether some string is accepted from one of two states only."""
    seen, queue = {(s, t)}, [(s, t)]
    for one, two in queue:
        if a.accepting(one) != a.accepting(two) or a.allowed(one) != a.allowed(two):
            return (
                True  # every state has an end, so a terminal that only one allows tells them apart
            )
        for terminal in a.allowed(one):
            pair = a.step(one, terminal), a.step(two, terminal)
            if pair not in seen:
                seen.add(pair)
                queue.append(pair)
    return False


@pytest.mark.parametrize("name", ALL)
def test_text_may_be_fed_piece_by_piece(name: str) -> None:
    """Generated token by token, a run of text is many TEXT: a second one changes nothing."""
    a = mypt_spec.dialect(name).automaton
    for state in a.states:
        if TEXT in a.allowed(state):
            assert a.step(a.step(state, TEXT), TEXT) == a.step(state, TEXT)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_random_long_strings_in_every_reading(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    string = walk(d, data, 60)
    state = d.automaton.run(string)
    here: Any = parser(name)
    for terminal in string:
        here = feed(here, terminal) if here is not None else None
    assert (here is not None) == (state is not None)
    accepted = state is not None and d.automaton.accepting(state)
    assert accepted == (here is not None and feed(here, END) is not None)
    hold_as_text(d, string, state)


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
@settings(max_examples=examples(150))
def test_validator_accepts_what_the_automaton_accepts(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    episode = data.draw(any_episodes(name))
    if any(
        part.kind != "text" and message.role not in d.table.closers
        for message in episode.messages
        for part in message.parts
    ):
        assert [f.code for f in d.validate(episode)] == ["MYP105"]
        with pytest.raises(ValueError, match="holds no block"):
            d.serialize(episode)
        return
    string = [e.terminal for e in events_of(episode.messages, d.table)]
    state = d.automaton.run(string)
    accepted = state is not None and d.automaton.accepting(state)
    errors = errors_of(d, episode)
    assert accepted == (not errors)
    if accepted:
        spoken = without_empty_texts(episode)
        assert d.parse(d.serialize(episode)) == (spoken, [])
        assert_record(d, spoken)
    else:
        assert any(f.code[3] == "2" or f.code in ("MYP310", "MYP311") for f in errors)
        for call in (d.serialize, d.encode):
            with pytest.raises(ValueError, match="MYP"):
                call(episode)


def without_empty_texts(episode: mypt_spec.Episode) -> mypt_spec.Episode:
    """Returns the Episode as it is read: a text of no characters is no part."""
    messages = (
        replace(m, parts=tuple(p for p in m.parts if p.text or p.kind != "text"))
        for m in episode.messages
    )
    return replace(episode, messages=tuple(messages))


def errors_of(d: mypt_spec.Dialect, episode: mypt_spec.Episode) -> list[Finding]:
    """The errors of the text of an Episode, without those that an adapter finds beyond the text.

    Validate finds no fewer.
    """
    found = check_episode(episode, d.table, d.automaton, d.tokenizer, mypt_spec.Limits())
    errors = [f for f in found if f.severity == "error"]
    assert bool(errors) <= any(f.severity == "error" for f in d.validate(episode))
    return errors


def test_every_small_episode() -> None:
    """Each legal Episode of a few blocks, with every message in turn left out, doubled or moved."""
    d = mypt_spec.dialect("mypt")
    text = mypt_spec.Part("text", BODY)

    def message(role: str, *kinds: str) -> mypt_spec.Message:
        return mypt_spec.Message(
            role, tuple(text if k == "text" else mypt_spec.Part(k, BODY) for k in kinds)
        )

    blocks = [
        message("system", "text"), message("user", "text"), message("user", "user_context", "text"), message("assistant_context", "text"),
        message("assistant", "think", "toolcall"), message("toolresult", "text"), message("assistant", "text", "cite"), message("eot"),
    ]  # fmt: skip
    levels: list[tuple[mypt_spec.Message, ...]] = [()]
    checked = 0
    for messages in levels:
        string = [e.terminal for e in events_of(messages, d.table)]
        state = d.automaton.run(string)
        if messages:
            errors = [
                f for f in d.validate(mypt_spec.Episode("mypt", messages)) if f.severity == "error"
            ]
            assert (state is not None and d.automaton.accepting(state)) == (not errors)
            checked += 1
        if (state is not None and len(messages) < 6) or len(messages) < 2:
            levels += [(*messages, block) for block in blocks]
    assert checked > 200


def test_a_grammar_that_nests_without_bound_is_refused() -> None:
    with pytest.raises(SpecError, match="does not close"):
        extract("start: A start? B\n%declare A B", limit=500)
    with pytest.raises(SpecError, match=r"not LALR"):
        extract("start: x | y\nx: A\ny: A\n%declare A")
