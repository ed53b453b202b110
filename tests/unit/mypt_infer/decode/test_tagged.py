"""Calls whose arguments are tags: what the decoder lets a model write, and that it is legal."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
import regex

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.base.tools import SchemaFault
from mypt_infer.decode.prompt import opening
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.bodies.tagged import USUAL, read_tagged, typed, types_of
from mypt_spec.episode import Episode, Message, Part
from tests.support.build import assistant, call, function, user
from tests.support.decoding import complete, generated
from tests.support.examples import either

FOLDER = "qwen3-coder"
PROMPT = Episode("qwen3-coder", (Message("user", (Part("text", "Hi"),)),))
FIND = {
    "type": "object",
    "properties": {
        "zip": {"type": "string"},
        "n": {"type": "integer"},
        "word": {"type": "string", "minLength": 1},
        "kind": {"enum": ["note", "notes", "12", 1, None]},
        "flag": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "any": {},
    },
    "required": ["zip", "kind"],
}
MORE = {
    "type": "object",
    "properties": {
        "where": {"type": "object", "properties": {"day": {"type": "number"}}, "required": ["day"]},
        "tags": {"type": "array", "items": {"type": ["string", "integer"]}},
        "x": {"type": "number", "minimum": 0},
        "told": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["where"],
}
TOOLS = [
    {"type": "function", "function": {"name": "find", "parameters": FIND}},
    {"type": "function", "function": {"name": "find_all", "parameters": MORE}},
    {"type": "function", "function": {"name": "go"}},
]
TYPES = types_of(TOOLS)


@cache
def decoder(**options: int) -> Decoder:
    return Decoder(mypt_spec.dialect(FOLDER), TOOLS, engine="table", **options)


def calls_of(text: str) -> list[tuple[str, dict[str, object]]]:
    """The calls in a text, without the parser."""
    bodies = [part.split("\n</tool_call>")[0] for part in text.split("<tool_call>\n")[1:]]
    return [(name, typed(name, texts, TYPES)) for name, texts in map(read_tagged, bodies)]


@pytest.mark.parametrize("call", [None, 40])
def test_every_budget_ends_legal(call: int | None) -> None:
    """Arguments fit the schema, and the required ones are there, each once."""
    made = decoder(max_toolcall_tokens=call) if call else decoder()
    ids = made.ids_of(PROMPT)
    seen: set[str] = set()
    schemas = {"find": FIND, "find_all": MORE, "go": {}}
    for budget in range(made.minimum(made.start(ids)), 100, 6):
        choose = random.Random(budget)
        out = list(generated(made, made.start(ids, max_new_tokens=budget), choose, bold=0.7))
        assert len(out) <= budget
        assert complete(made, [*ids, *out]), made.dialect.tokenizer.decode(out)
        for name, arguments in calls_of(made.dialect.tokenizer.decode(out)):
            assert misfits(arguments, schemas[name]) == []
            known = dict(schemas[name]).get("properties", {})
            assert known.keys() >= arguments.keys()
            seen.add(name)
    assert seen == {*schemas}


# A tag in a text, and what else a value between tags may not spell.
SPELLED = "|".join(map(regex.escape, (*USUAL.marks, *mypt_spec.dialect(FOLDER).table.special)))
END = r"\n</parameter>\n"
# A text up to the tag after it. The line end before that tag belongs to the tag.
TEXT = rf"(?s:(?:(?!{SPELLED}).)*){END}"
INTEGER = r"(?:-?[1-9]\d{0,39}|0)" + END


def argument(key: str, value: str, *, needed: bool = False) -> str:
    return rf"(?:<parameter={key}>\n{value})" + ("" if needed else "?")


WRITTEN = regex.compile(
    r"<function=find>\n"
    + argument("zip", TEXT, needed=True)
    + argument("n", INTEGER)
    + argument("word", rf"(?!{END}){TEXT}")
    + argument("kind", f"(?:notes?|1|null){END}", needed=True)
    + argument("flag", f"(?:true|false|null){END}")
    + argument("any", TEXT)
    + "</function>"
)


def test_allow_sets_are_those_of_a_regular_expression() -> None:
    """In each state of calls of `find`, for ids drawn by chance: the call can be ended or not."""
    made, choose = decoder(), random.Random(0)
    d, checked, refused = made.dialect, 0, 0
    opened = d.table.special["<tool_call>"]
    words = {i: w for i in range(made.tables.vocabulary) if (w := word(d, i))}
    for _ in range(either(1, 3)):
        before, text = made.ids_of(PROMPT), "<function=find>\n"
        begun = [*opening(d, before), opened, *d.tokenizer.encode(f"\n{text}")]
        state = made.run(made.start(before), begun)
        while made.calling(state) and len(text) < 400:
            allowed = {i for i in made.ids(state).tolist() if i in words}
            drawn = choose.sample(sorted(allowed), min(len(allowed), 12))
            drawn += choose.sample(sorted(words), 40)
            for i in drawn:
                fits = WRITTEN.fullmatch(text + words[i], partial=True) is not None
                over = WRITTEN.fullmatch((text + words[i]).removesuffix("\n")) is not None
                assert (i in allowed) == (fits or over), (text, words[i])
                checked, refused = checked + 1, refused + (i not in allowed)
            if text.endswith("</function>"):
                break
            near = made.near_ids(state).tolist() if choose.random() < 0.3 else sorted(allowed)
            token = choose.choice([i for i in near if i in words])
            state, text = made.next(state, token), text + words[token]
    assert checked > 500
    assert refused > 100


def word(d: mypt_spec.Dialect, i: int) -> str:
    """What an id spells, "" where that is not whole characters."""
    if i not in d.tokenizer.ordinary:
        return ""
    try:
        return d.tokenizer.decode_bytes([i]).decode()
    except UnicodeDecodeError:
        return ""


RECORDS = [
    ("find", {"zip": "", "kind": "note"}),
    ("find", {"zip": "a\nb\n", "n": -5, "kind": "notes", "flag": None, "any": {"a": ["</parameter>"]}}),
    ("find", {"zip": "12345", "word": "x", "kind": 1, "any": "</function"}),
    ("find_all", {"where": {"day": 1.5}, "tags": ["<function", 3], "told": "5 or so"}),
    ("find_all", {"where": {"day": 0}, "x": 0.25, "told": 7}),
    ("go", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), RECORDS)
def test_what_the_serialiser_writes_is_allowed(name: str, arguments: dict[str, object]) -> None:
    made = decoder()
    answer = assistant("So.", tool_calls=[call(name, arguments)] * 2)
    record = {"messages": [user(), answer], "tools": TOOLS}
    episode, findings = made.dialect.check(record)
    assert episode is not None
    assert {f.code for f in findings if f.severity != "info"} <= {"MYP302"}
    assert made.dialect.write(episode) == record
    encoded = made.dialect.encode(episode)
    first = int(np.flatnonzero(encoded.loss)[0])
    state = made.start(encoded.ids[:first].tolist())
    for token in encoded.ids[first:-1].tolist():
        assert token in made.ids(state), made.dialect.tokenizer.decode([token])
        state = made.next(state, token)
    assert made.final(state)


REFUSED = [
    ({"a": {"type": "string", "maxLength": 5}}, "maxLength"),
    ({"a": {"type": ["string", "integer"], "minimum": 5}}, "minimum"),
    ({"a": {"type": "array"}}, "items"),
    ({"a": {"enum": ["<function="]}}, "no value can be said"),
    ({"a": {"anyOf": [{"type": "number"}, {"enum": [1]}]}}, "values of one type"),
    ({"a>": {"type": "string"}}, "no tag can hold the name"),
]


@pytest.mark.parametrize(("properties", "why"), REFUSED)
@pytest.mark.parametrize("engine", ["table", "auto", "llguidance"])
def test_a_schema_that_no_table_holds_is_refused_by_name(
    properties: dict[str, object], why: str, engine: str
) -> None:
    """The other engine reads no such calls, whatever their schema."""
    if engine != "table":
        pytest.importorskip("llguidance")
    says = "and no other arguments" if engine == "llguidance" else why
    with pytest.raises(SchemaFault, match=says):
        Decoder(mypt_spec.dialect(FOLDER), [function("f", properties)], engine=engine)
