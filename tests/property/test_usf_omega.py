"""The promises for USF Omega: round trips, its mask, its language read by hand, totality,
injection, and the fast path.
"""

from __future__ import annotations

import json
import re
from collections import deque
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Episode, Message, Part
from mypt_spec.bodies.json_schema import MAX_MISFITS, SchemaError, check_schema, misfits
from mypt_spec.bodies.typescript import NamespaceError, read_namespace, write_namespace
from mypt_spec.episode import events_of
from mypt_spec.table import TEXT
from tests.dialects.usf_omega import NAME, records, schemas, tools
from tests.support.examples import examples
from tests.support.strategies import ANY_JSON, any_text, lines_of, mutated

D = mypt_spec.dialect(NAME)


@cache
def legal(*, clean: bool) -> st.SearchStrategy[Any]:
    """Records without error; clean ones without any finding."""

    def fine(record: Any) -> bool:
        episode, findings = D.read(record)
        if episode is None:
            return False
        findings = findings + D.validate(episode)
        return not (findings if clean else [f for f in findings if f.severity == "error"])

    return records(clean).filter(fine)


def episodes(*, clean: bool) -> st.SearchStrategy[Episode]:
    return legal(clean=clean).map(lambda record: D.read(record)[0])


# --- round trips


@given(episodes(clean=False))
def test_text_and_ids(episode: Episode) -> None:
    text = D.serialize(episode)
    assert D.parse(text) == (episode, [])
    assert D.serialize(D.parse(text)[0]) == text
    encoded = D.encode(episode)
    assert D.parse_ids(encoded.ids) == (episode, [])
    assert D.tokenizer.decode(encoded.ids) == text


@given(legal(clean=False))
def test_record(record: Any) -> None:
    given_as = json.dumps(record)
    episode, _ = D.read(record)
    canonical = D.write(episode)
    again, findings = D.read(canonical)
    assert again == episode
    assert {f.code for f in findings} <= {f.code for f in D.read(record)[1]}, (
        "nothing is wrong that was not"
    )
    assert json.dumps(D.write(again)) == json.dumps(canonical)
    assert json.dumps(record) == given_as, "reading changes nothing"
    assert again.meta == episode.meta
    kept = {
        k: v
        for k, v in record.items()
        if k
        not in (
            "model_identity",
            "messages",
            "tools",
            "functions",
            "assistant",
            "reasoning",
            "contents",
            "tool_calls",
            "self_reflection",
            "chosen",
        )
    }
    assert {k: canonical[k] for k in kept} == kept, "flags and metadata come back"


@given(legal(clean=True))
def test_every_string_of_a_record_is_in_its_canonical_form(record: Any) -> None:
    """Nothing is silent: what a clean record says is in the canonical one, as often."""

    def strings(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [s for v in value.values() for s in strings(v)]
        if isinstance(value, list):
            return [s for v in value for s in strings(v)]
        return [value] if isinstance(value, str) else []

    # What styles differ in.
    words = {"function", "text", "reasoning", "tool_calls", "self_reflection", "assistant"}
    canonical = D.write(D.read(record)[0])
    assert sorted(s for s in strings(canonical) if s not in words) == sorted(
        s for s in strings(record) if s not in words
    )


@given(episodes(clean=True))
def test_what_came_as_text_has_a_record(episode: Episode) -> None:
    parsed, _ = D.parse(D.serialize(episode))
    again, findings = D.read(D.write(parsed))
    assert (again, findings) == (episode, [])


@given(episodes(clean=True), st.data())
def test_text_without_findings_comes_back(episode: Episode, data: st.DataObject) -> None:
    text = D.serialize(episode)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        put = data.draw(
            st.sampled_from(
                ["\n", " ", "", "x", '"', "\\u0041", "<start>", "<end>\n", "// y\n", ">"]
            )
        )
        text = text[:at] + put + text[at + data.draw(st.integers(0, 1)) :]
    again, findings = D.parse(text)
    if not findings:
        assert D.serialize(again) == text
        assert D.read(D.write(again))[0] == again


# --- the language, read by hand

LETTERS = dict(zip([*D.table.terminals, TEXT], "BESxDUTAaMmRrCcFfGgIiNnw", strict=True))
BACK = {letter: name for name, letter in LETTERS.items()}


_HEAD = re.compile(r"B(Sw+x)?(Dw+x)?(Gw+g)?")
_BLOCK = re.compile(
    r"(?P<user>Uw+x)|(?P<tool>T(Iw+i)?(Nw+n)?w+x)|(?P<assistant>A(Rw+r)?(?P<parts>([MC]w+[mc](Fw+f)?)+)a)"
)
_MAY_FOLLOW = {
    "": {"user", "assistant"},
    "user": {"assistant", "the end"},
    "tool": {"tool", "assistant", "the end"},
    "said": {"user", "E"},
    "called and said": {"user", "tool", "E"},
    "called": {"tool", "E"},
}


def legal_by_hand(word: str) -> bool:
    """One letter a terminal: a head, then blocks, each with what may follow it.

    Nobody speaks twice in a row.
    """
    head = _HEAD.match(word)
    if head is None:
        return False
    at, before = head.end(), ""
    while at < len(word) and word[at] != "E":
        block = _BLOCK.match(word, at)
        if block is None or "Mwc" in block[0] or re.search(r"Mw+c|Cw+m", block[0]):
            return False
        kind = next(k for k in ("user", "tool", "assistant") if block[k])
        if kind not in _MAY_FOLLOW[before]:
            return False
        parts = re.sub("[^MC]", "", block["parts"] or "")
        said = (
            "said" if "C" not in parts else "called" if parts.endswith("C") else "called and said"
        )
        at, before = block.end(), kind if kind != "assistant" else said
    return ("the end" if at == len(word) else word[at:]) in _MAY_FOLLOW[before]


def automaton_says(word: str) -> bool:
    state = D.automaton.run(BACK[c] for c in word)
    return state is not None and D.automaton.accepting(state)


def test_the_language_read_by_hand() -> None:
    queue = deque([("", D.automaton.start)])
    seen = accepted = 0
    while queue and seen < 20_000:
        word, state = queue.popleft()
        seen += 1
        assert legal_by_hand(word) == D.automaton.accepting(state), word
        accepted += D.automaton.accepting(state)
        queue += [
            (word + LETTERS[t], D.automaton.step(state, t))
            for t in sorted(D.automaton.allowed(state))
            if word[-1:] != "w" or t != TEXT
        ]
    assert accepted > 100
    words = [
        "BSwxDwxGwgUwxARwrMwmCwcFwfaTIwiNwnwxTwxAMwmaE",
        "BUwxAMwmaUwxACwcMwmaUwxAMwmaE",
        "BUwxACwcaTwxTwxAMwmFwfaE",
        "BUwxACwcaE",
        "BUwx",
        "BUwxACwcMwmaTwx",
        "BAMwmaE",
    ]
    for word in words:
        assert automaton_says(word), word
        for at in range(len(word) + 1):
            for letter in ["", *BACK]:
                for width in (0, 1):
                    other = word[:at] + letter + word[at + width :]
                    assert legal_by_hand(other) == automaton_says(other), other


@st.composite
def any_episodes(draw: st.DrawFn) -> Episode:
    """Blocks in any order and nesting; mostly illegal."""
    bodies = {
        "functions": "namespace functions {\n\ntype f = () => any;\n\n} // namespace functions",
        "tool_calls": '[{"type": "function", "function": {"name": "f", "arguments": {}}}]',
    }

    def part(kind: str, role: str) -> Part:
        return Part(kind, bodies.get(role if kind == "text" else kind, "x"))

    kinds = sorted(D.table.openers)
    out = []
    for role in draw(
        st.lists(
            st.sampled_from([*kinds, *D.table.marks, "user", "assistant", "assistant", "tool"]),
            max_size=7,
        )
    ):
        inner = (
            draw(st.lists(st.sampled_from(["text", *kinds, "message", "message"]), max_size=3))
            if role not in D.table.marks
            else []
        )
        out.append(Message(role, tuple(part(kind, role) for kind in inner)))
    return Episode(
        NAME,
        tuple(
            draw(st.sampled_from([[Message("bos")], []]))
            + out
            + draw(st.sampled_from([[Message("eos")], []]))
        ),
    )


@given(any_episodes())
def test_validator_and_automaton_agree(episode: Episode) -> None:
    state = D.automaton.run(e.terminal for e in events_of(episode.messages, D.table))
    accepted = state is not None and D.automaton.accepting(state)
    errors = [f for f in D.validate(episode) if f.severity == "error"]
    if not accepted:
        assert any(f.code[3] == "2" or f.code in ("MYP310", "MYP311") for f in errors)
        with pytest.raises(ValueError, match="MYP"):
            D.serialize(episode)
        return
    assert {f.code for f in errors} <= {"MYP310", "MYP311", "MYP313"}, "only ids can still be wrong"
    assert D.parse(D.serialize(episode)) == (episode, [])
    assert D.read(D.write(episode))[0] == episode


# --- totality


def everything(record: object) -> None:
    episode, findings = D.read(record)
    for finding in findings:
        assert finding.message
        assert finding.pointer == "" or finding.pointer.startswith("/")
    if episode is None:
        assert any(f.severity == "error" for f in findings)
        return
    errors = [f for f in findings + D.validate(episode) if f.severity == "error"]
    if not errors:
        assert D.parse(D.serialize(episode))[0] == episode
        assert D.read(D.write(episode))[0] == episode


@given(ANY_JSON)
def test_any_value_as_a_record(value: Any) -> None:
    everything(value)


KEYS = ["role", "content", "contents", "tool_calls", "function", "functions", "name", "arguments", "id", "type", "reasoning", "self_reflection", "tools", "messages", "chosen", "rejected", "response_schema", "response_format", "json_mode", "thinking_budget", "assistant", "label", "parameters", "required", "_m", ""]  # fmt: skip


@st.composite
def almost(draw: st.DrawFn) -> Any:
    record = json.loads(json.dumps(draw(records(clean=False))))
    for _ in range(draw(st.integers(1, 3))):
        owner: Any = record
        for _ in range(draw(st.integers(0, 5))):
            inner = [
                v
                for v in (owner.values() if isinstance(owner, dict) else owner)
                if isinstance(v, (dict, list)) and v
            ]
            owner = draw(st.sampled_from(inner)) if inner else owner
        if not owner:
            continue
        key = draw(
            st.sampled_from(list(owner) if isinstance(owner, dict) else list(range(len(owner))))
        )
        change = draw(st.sampled_from(["replace", "drop", "rename", "add", "double"]))
        if change == "replace":
            owner[key] = draw(ANY_JSON)
        elif change == "drop":
            del owner[key]
        elif isinstance(owner, dict):
            other = draw(st.sampled_from(KEYS))
            owner[other] = owner.pop(key) if change == "rename" else draw(ANY_JSON)
        else:
            owner.insert(draw(st.integers(0, len(owner))), owner[key])
    return record


@given(almost())
def test_almost_records(record: Any) -> None:
    everything(record)


@given(almost(), st.data())
def test_nothing_vanishes_without_a_finding(record: Any, data: st.DataObject) -> None:
    """A key put anywhere into a record is found again, or there is a finding."""
    owner: Any = record
    for _ in range(data.draw(st.integers(0, 6))):
        inner = [
            v
            for v in (owner.values() if isinstance(owner, dict) else owner)
            if isinstance(v, (dict, list)) and v
        ]
        owner = data.draw(st.sampled_from(inner)) if inner else owner
    assume(isinstance(owner, dict))
    key = data.draw(st.sampled_from(["surprise", "_surprise", "role2", "Content"]))
    owner[key] = "a value of its own"
    episode, findings = D.read(record)
    if episode is None or findings or any(f.severity == "error" for f in D.validate(episode)):
        return
    assert "a value of its own" in json.dumps(D.write(episode))


@given(
    st.text()
    | any_text(NAME)
    | st.lists(
        st.sampled_from(
            [t.spell() for t in D.table.terminals.values()] + ["x", "\n", "[]", "<start>", "type f"]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text(text: str) -> None:
    episode, findings = D.parse(text)
    assert (episode is None) == any(f.severity == "error" for f in findings)
    if episode is not None and not findings:
        assert D.serialize(episode) == text


@given(
    st.lists(
        st.integers(-2, 50310)
        | st.integers(50256, 50276)
        | st.sampled_from([10057, 198, 7220, 562, 10167]),
        max_size=30,
    )
)
def test_any_ids(ids: list[int]) -> None:
    episode, findings = D.parse_ids(ids)
    assert (episode is None) == any(f.severity == "error" for f in findings)


@given(ANY_JSON | any_text(NAME))
def test_any_metadata(value: Any) -> None:
    """An Episode may carry anything as a flag."""
    episode, _ = D.read(
        {
            "messages": [
                {"role": "user", "content": "u"},
                {
                    "role": "assistant",
                    "contents": [
                        {"type": "reasoning", "reasoning": "r"},
                        {"type": "text", "text": "{}"},
                    ],
                },
            ]
        }
    )
    for key in (
        "rejected",
        "response_schema",
        "response_format",
        "json_mode",
        "thinking_budget",
        "reasoning_effort",
        "self_reflection_enabled",
    ):
        D.validate(Episode(NAME, episode.messages, None, {key: value}))


# --- injection


@given(st.lists(any_text(NAME, 1).filter(bool), min_size=4, max_size=4))
def test_content_never_becomes_structure(texts: list[str]) -> None:
    one, two, three, four = texts
    called = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {two: three}}}]
    messages = [
        {"role": "system", "content": one}, {"role": "developer", "content": two}, {"role": "user", "content": three},
        {"role": "assistant", "content": four, "tool_calls": called}, {"role": "tool", "tool_call_id": "c", "content": one},
        {"role": "assistant", "contents": [{"type": "reasoning", "reasoning": two}, {"type": "text", "text": three}]},
    ]  # fmt: skip
    definition = [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": one,
                "parameters": {
                    "type": "object",
                    "properties": {two: {"description": three, "enum": [four]}},
                },
            },
        }
    ]
    episode, findings = D.read({"model_identity": four, "messages": messages, "tools": definition})
    assert findings == []
    planned = [
        i for event in events_of(episode.messages, D.table) for i in _special(event.terminal)
    ]
    encoded = D.encode(episode)
    assert [i for i in encoded.ids.tolist() if i not in D.tokenizer.ordinary] == planned
    assert D.parse_ids(encoded.ids)[0] == episode
    bad = [p for m in episode.messages for p in m.parts if D.table.literals.search(p.text)]
    errors = [f for f in D.validate(episode) if f.severity == "error" and f.code != "MYP303"]
    assert bool(bad) == bool(errors)
    if bad:
        with pytest.raises(ValueError, match="no text can say this"):
            D.serialize(episode)
    else:
        assert D.parse(D.serialize(episode))[0] == episode


def _special(terminal: str) -> list[int]:
    row = D.table.terminals.get(terminal)
    return [D.table.special[p.value] for p in row.spelling if p.kind == "special"] if row else []


# --- definitions of functions, and schemas


@given(tools(clean=False))
def test_definitions_come_back(defined: Any) -> None:
    text = write_namespace(defined, D.table.literals)
    assert read_namespace(text) == defined
    assert write_namespace(read_namespace(text), D.table.literals) == text
    assert not D.table.literals.search(text)


@given(st.data())
def test_any_definitions(data: st.DataObject) -> None:
    text = write_namespace(data.draw(tools(clean=False)), D.table.literals)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        put = data.draw(
            st.sampled_from(
                [
                    "",
                    "{",
                    "}",
                    "/*",
                    "*/",
                    "//",
                    "\n",
                    '"',
                    "|",
                    "any",
                    "Array<",
                    "string",
                    ",",
                    "?",
                    ":",
                    "x",
                ]
            )
        )
        text = text[:at] + put + text[at + data.draw(st.integers(0, 2)) :]
    try:
        found = read_namespace(text)
    except NamespaceError:
        return
    clean = write_namespace(found, D.table.literals)
    assert read_namespace(clean) == found


@given(ANY_JSON, schemas() | ANY_JSON)
def test_any_schema(value: Any, schema: Any) -> None:
    assume(
        "Infinity" not in json.dumps(schema)
        and "NaN" not in json.dumps(schema)
        and len(json.dumps(schema)) < 4000
    )
    with suppress(SchemaError):
        check_schema(schema)
        assert len(misfits(value, schema)) <= MAX_MISFITS


# --- the linter's fast path: one filter for all examples, so that what it learnt of one record is
# tried on others

PROVER = CleanFilter(Checker(D))


@given(
    records(clean=True).flatmap(lines_of)
    | almost().flatmap(lines_of)
    | mutated(records(clean=True).flatmap(lines_of))
)
@settings(max_examples=examples(300))
def test_a_line_that_is_proved_clean_is_clean(raw: bytes) -> None:
    if b"\n" not in raw and PROVER.clean(raw):
        assert PROVER.checker.line(raw, row=2, filename="x.jsonl") == []


TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {
                "q": {"type": "string"},
                "n": {"type": "integer"},
                "e": {"type": "string", "enum": ["a"]},
            },
            "required": ["q"],
        },
    },
}


def chat(
    *,
    arguments: Any = None,
    number: Any = "c1",
    answered: Any = "c1",
    name: Any = "f",
    said: Any = "Hi!",
    **flags: Any,
) -> Any:
    calls = [
        {
            "id": number,
            "type": "function",
            "function": {
                "name": name,
                "arguments": {"q": "x", "n": 1, "e": "a"} if arguments is None else arguments,
            },
        }
    ]
    messages = [
        {"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": answered, "name": "f", "content": "1"},
        {"role": "assistant", "reasoning": "Greet.", "content": said},
    ]  # fmt: skip
    return {"messages": messages, "tools": [TOOL], **flags}


def pair(chosen: Any, rejected: Any) -> Any:
    answers = {
        "chosen": {"role": "assistant", **chosen},
        "rejected": {"role": "assistant", **rejected},
    }
    return {"messages": [{"role": "user", "content": "Hello"}], **answers}


CLEAN = [
    chat(), chat(arguments={"q": "y", "n": 7, "e": "a"}), chat(arguments={"q": ""}), chat(number="x", answered="x"), chat(said="No."),
    {k: v for k, v in chat(arguments={"a": "x", "b": [{"c": "y"}]}).items() if k != "tools"},
    chat(thinking_budget=6), chat(thinking_budget=10), chat(json_mode=False), chat(response_format={"type": "text"}), chat(_n=[1]), chat(_n="x"),
    pair({"content": "A"}, {"content": "B"}), pair({"content": "A", "reasoning": "B"}, {"content": "B", "reasoning": "A", "_n": 1}),
]  # fmt: skip
ALIKE = [  # as one of the above, but for what only a closer look shows
    chat(arguments={"q": 1, "n": 1, "e": "a"}), chat(arguments={"q": "x", "n": "1", "e": "a"}), chat(arguments={"q": "x", "n": True, "e": "a"}),
    chat(arguments={"q": "x", "n": 1, "e": "b"}), chat(arguments={"q": "<eos>", "n": 1, "e": "a"}), chat(arguments={"n": 1}), chat(number="c2"),
    chat(number=1, answered=1), chat(number="", answered=""), chat(name="g"), chat(said=""), chat(said=" "), chat(said="<end>"), chat(said="<End>"),
    chat(said=None), chat(thinking_budget=2), chat(thinking_budget=-1), chat(thinking_budget=True), chat(json_mode=0), chat(json_mode=True),
    {k: v for k, v in chat(arguments={"a": "x", "b": [{"c": "<eos>"}]}).items() if k != "tools"},
    chat(response_format={"type": "txt"}), chat(reasoning_effort="none"), chat(search_enabled=1), chat(label=None), chat(x=1),
    pair({"content": "A"}, {"content": "A"}), pair({"content": "A"}, {"content": "A", "_n": 1}), pair({"content": "A"}, {"contents": [{"type": "text", "text": "A"}]}),
    pair({"content": "A", "reasoning": "B"}, {"reasoning": "B", "content": "A"}),
]  # fmt: skip


def test_records_that_only_look_alike() -> None:
    prover = CleanFilter(Checker(D))
    for record in CLEAN:
        raw = json.dumps(record).encode()
        assert prover.clean(raw), [
            item.finding for item in prover.checker.line(raw, row=2, filename="")
        ]
    for record in ALIKE:
        raw = json.dumps(record).encode()
        assert prover.checker.line(raw, row=2, filename=""), record
        assert not prover.clean(raw), record
    clean = json.dumps(chat())
    doubled = clean.replace('"role": "user"', '"role": "user", "content": "Hello"', 1)
    for raw in (clean + "\r", clean + " x", clean * 2, doubled, "\ufeff" + clean):
        assert not prover.clean(raw.encode()), raw


def test_what_repeats_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the fast path is none."""
    prover = CleanFilter(Checker(D))
    assert prover.clean(json.dumps(chat()).encode())
    monkeypatch.setattr(Checker, "line", None)
    assert prover.clean(
        json.dumps(
            chat(
                said="Other words.",
                arguments={"q": "Other", "n": 5, "e": "a"},
                number="z",
                answered="z",
            )
        ).encode()
    )
