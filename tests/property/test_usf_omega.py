"""What USF Omega has and other dialects do not: its language read by hand, flags, several fields of an
answer, definitions of functions as TypeScript, and schemas.
"""

from __future__ import annotations

import json
import re
from collections import deque
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Episode
from mypt_spec.bodies.json_schema import MAX_MISFITS, SchemaError, check_schema, misfits
from mypt_spec.bodies.strict_json import DefinitionsError
from mypt_spec.bodies.typescript import read_namespace, write_namespace
from mypt_spec.episode import events_of
from mypt_spec.table import TEXT
from tests.dialects import usf_omega
from tests.dialects.usf_omega import NAME
from tests.support.build import call, chat, user
from tests.support.examples import either
from tests.support.maker import Maker, drawn
from tests.support.strategies import ANY_JSON, any_text, edited, records

D = mypt_spec.dialect(NAME)
TOOLS = drawn(lambda random: usf_omega.tools(Maker(random, NAME, clean=False)))
# Keys that a canonical record has in another form.
RESHAPED = {"model_identity", "messages", "tools", "functions", "assistant", "reasoning", "contents", "tool_calls", "self_reflection", "chosen"}  # fmt: skip


@given(records(NAME, clean=False))
def test_flags_and_metadata_come_back(record: Any) -> None:
    canonical = D.write(D.read(record)[0])
    flags = {key: value for key, value in record.items() if key not in RESHAPED}
    assert {key: canonical[key] for key in flags} == flags


@given(records(NAME))
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
    canonical, given_strings = strings(D.write(D.read(record)[0])), strings(record)
    assert sorted(s for s in canonical if s not in words) == sorted(
        s for s in given_strings if s not in words
    )


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
    while queue and seen < either(4_000, 20_000):
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
        "BSwxDwxGwgUwxARwrMwmCwcFwfaTIwiNwnwxTwxAMwmaE", "BUwxAMwmaUwxACwcMwmaUwxAMwmaE", "BUwxACwcaTwxTwxAMwmFwfaE",
        "BUwxACwcaE", "BUwx", "BUwxACwcMwmaTwx", "BAMwmaE",
    ]  # fmt: skip
    for word in words:
        assert automaton_says(word), word
        for at in range(len(word) + 1):
            for letter in ["", *BACK]:
                for width in (0, 1):
                    other = word[:at] + letter + word[at + width :]
                    assert legal_by_hand(other) == automaton_says(other), other


@given(ANY_JSON | any_text(NAME))
def test_any_metadata(value: Any) -> None:
    """An Episode may carry anything as a flag."""
    contents = [{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "{}"}]
    episode, _ = D.read(chat(user(), {"role": "assistant", "contents": contents}))
    for key in ("rejected", "response_schema", "response_format", "json_mode", "thinking_budget", "reasoning_effort", "self_reflection_enabled"):  # fmt: skip
        D.validate(Episode(NAME, episode.messages, None, {key: value}))


@given(st.lists(any_text(NAME, 1).filter(bool), min_size=4, max_size=4))
def test_content_never_becomes_structure(texts: list[str]) -> None:
    one, two, three, four = texts
    called = [call("f", {two: three}, id="c")]
    messages = [
        {"role": "system", "content": one}, {"role": "developer", "content": two}, {"role": "user", "content": three},
        {"role": "assistant", "content": four, "tool_calls": called}, {"role": "tool", "tool_call_id": "c", "content": one},
        {"role": "assistant", "contents": [{"type": "reasoning", "reasoning": two}, {"type": "text", "text": three}]},
    ]  # fmt: skip
    properties = {two: {"description": three, "enum": [four]}}
    parameters = {"type": "object", "properties": properties}
    function = {"name": "f", "description": one, "parameters": parameters}
    definition = [{"type": "function", "function": function}]
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


@given(TOOLS)
def test_definitions_come_back(defined: Any) -> None:
    text = write_namespace(defined, D.table.literals)
    assert read_namespace(text) == defined
    assert write_namespace(read_namespace(text), D.table.literals) == text
    assert not D.table.literals.search(text)


PIECES = ("", "{", "}", "/*", "*/", "//", "\n", '"', "|", "any", "Array<", "string", ",", "?", ":", "x")  # fmt: skip


@given(TOOLS, st.data())
def test_any_definitions(defined: Any, data: st.DataObject) -> None:
    text = data.draw(edited(write_namespace(defined, D.table.literals), PIECES, 2))
    try:
        definitions = read_namespace(text)
    except DefinitionsError:
        return
    clean = write_namespace(definitions, D.table.literals)
    assert read_namespace(clean) == definitions


SCHEMAS = drawn(lambda random: usf_omega.schema(Maker(random, NAME), 3))


@given(ANY_JSON, SCHEMAS | ANY_JSON)
def test_any_schema(value: Any, schema: Any) -> None:
    assume(
        "Infinity" not in json.dumps(schema)
        and "NaN" not in json.dumps(schema)
        and len(json.dumps(schema)) < 4000
    )
    with suppress(SchemaError):
        check_schema(schema)
        assert len(misfits(value, schema)) <= MAX_MISFITS


# --- the linter's fast path

PROPERTIES = {"q": {"type": "string"}, "n": {"type": "integer"}, "e": {"type": "string", "enum": ["a"]}}  # fmt: skip
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["q"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}


def exchange(
    *, arguments: Any = None, number: Any = "c1", answered: Any = "c1", name: Any = "f", answer: Any = "Hi!", **flags: Any
) -> Any:  # fmt: skip
    asked = call(name, {"q": "x", "n": 1, "e": "a"} if arguments is None else arguments, id=number)
    return chat(
        user("Hello"), {"role": "assistant", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": answered, "name": "f", "content": "1"},
        {"role": "assistant", "reasoning": "Greet.", "content": answer}, tools=[TOOL], **flags,
    )  # fmt: skip


def bare(record: Any, key: str = "functions") -> Any:
    """Returns a record whose functions have another key, and no tool around them."""
    others = {k: v for k, v in record.items() if k != "tools"}
    return others | {key: [tool["function"] for tool in record["tools"]]}


def said(more: Any) -> Any:
    """Returns a record whose answer is an item, which has more keys."""
    return chat(
        user("Hello"), {"role": "assistant", "contents": [{"type": "text", "text": "A"} | more]}
    )


def pair(chosen: Any, rejected: Any) -> Any:
    answers = {"chosen": chosen, "rejected": rejected}
    return chat(user("Hello"), **{k: {"role": "assistant", **v} for k, v in answers.items()})


CLEAN = [
    exchange(), exchange(arguments={"q": "y", "n": 7, "e": "a"}), exchange(arguments={"q": ""}), exchange(number="x", answered="x"), exchange(answer="No."),
    {k: v for k, v in exchange(arguments={"a": "x", "b": [{"c": "y"}]}).items() if k != "tools"},
    exchange(thinking_budget=6), exchange(thinking_budget=10), exchange(json_mode=False), exchange(response_format={"type": "text"}), exchange(_n=[1]), exchange(_n="x"),
    bare(exchange()), bare(exchange(), "tools"), exchange(arguments={"q": " ", "n": -(2**50)}),
    said({}), said({}) | {"_n": 1},
    pair({"content": "A"}, {"content": "B"}), pair({"content": "A", "reasoning": "B"}, {"content": "B", "reasoning": "A", "_n": 1}),
]  # fmt: skip
ALIKE = [  # as one of the above, but for what only a closer look shows
    exchange(arguments={"q": 1, "n": 1, "e": "a"}), exchange(arguments={"q": "x", "n": "1", "e": "a"}), exchange(arguments={"q": "x", "n": True, "e": "a"}),
    exchange(arguments={"q": "x", "n": 1, "e": "b"}), exchange(arguments={"q": "<eos>", "n": 1, "e": "a"}), exchange(arguments={"n": 1}), exchange(number="c2"),
    exchange(number=1, answered=1), exchange(number="", answered=""), exchange(name="g"), exchange(answer=""), exchange(answer=" "), exchange(answer="<end>"), exchange(answer="<End>"),
    exchange(answer=None), exchange(thinking_budget=2), exchange(thinking_budget=-1), exchange(thinking_budget=True), exchange(json_mode=0), exchange(json_mode=True),
    {k: v for k, v in exchange(arguments={"a": "x", "b": [{"c": "<eos>"}]}).items() if k != "tools"},
    bare(exchange(arguments={"q": 1})), bare(exchange(name="g")), exchange() | {"functions": [TOOL]}, exchange() | {"tools": []}, exchange() | {"tools": [TOOL, TOOL]},
    exchange() | {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "objects"}}}]}, exchange(response_schema={"type": "object"}),
    pair({"tool_calls": [call("f", {"q": 1}, id="a")]}, {"tool_calls": [call("f", {"q": 1}, id="a")]}),
    said({"_n": 1}), said({"_mypt_lint": 1}), said({"_n": "x"}),
    exchange(response_format={"type": "txt"}), exchange(reasoning_effort="none"), exchange(search_enabled=1), exchange(label=None), exchange(x=1),
    pair({"content": "A"}, {"content": "A"}), pair({"content": "A"}, {"content": "A", "_n": 1}), pair({"content": "A"}, {"contents": [{"type": "text", "text": "A"}]}),
    pair({"content": "A", "reasoning": "B"}, {"reasoning": "B", "content": "A"}),
]  # fmt: skip


def test_records_that_only_look_alike() -> None:
    prover = CleanFilter(Checker(D))
    for record in CLEAN:
        raw = json.dumps(record).encode()
        assert not prover.doubtful([raw]), prover.checker.line(raw, row=2, filename="")
    for record in ALIKE:
        raw = json.dumps(record).encode()
        assert prover.checker.line(raw, row=2, filename=""), record
        assert prover.doubtful([raw]), record
    clean = json.dumps(exchange())
    doubled = clean.replace('"role": "user"', '"role": "user", "content": "Hello"', 1)
    for raw in (clean + "\r", clean + " x", clean * 2, doubled, "\ufeff" + clean):
        assert prover.doubtful([raw.encode()]), raw


def test_what_repeats_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the fast path is none."""
    prover = CleanFilter(Checker(D))
    assert not prover.doubtful([json.dumps(exchange()).encode()])
    monkeypatch.setattr(Checker, "line", None)
    arguments = {"q": "Other", "n": 5, "e": "a"}
    other = exchange(answer="Other words.", arguments=arguments, number="z", answered="z")
    assert not prover.doubtful([json.dumps(other).encode()])
    raw = json.dumps(other).replace('"name": "f"', '"name": "g"').replace('"e"', '"more"')
    assert not prover.doubtful([raw.encode()]), (
        "tools that no record had before are proved by themselves"
    )
