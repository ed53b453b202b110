"""Short calls: read off the schema where it tells, searched for where it does not, and proved by
llguidance either way.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode import Decoder, SchemaFault
from mypt_infer.decode.llguidance.minimal_value import Unclear, minimal_value
from mypt_spec.bodies.json_schema import misfits
from tests.support.build import function
from tests.support.decoding import (
    CALL,
    CALL_END,
    CALLERS,
    TOOLS,
    in_call,
    prompt,
    requiring,
    walk,
)
from tests.support.dialects import FEW
from tests.support.examples import either, examples

pytest.importorskip("llguidance")
from mypt_infer.decode.base.tools import declare
from mypt_infer.decode.compile.nfa import NO_BLOCK
from mypt_infer.decode.compile.tables import DEAD_STATE
from mypt_infer.decode.limits import entries_of
from mypt_infer.decode.llguidance import tools as calls_module
from mypt_infer.decode.llguidance.grammar import matcher
from mypt_infer.decode.llguidance.pattern_text import Unreadable, pattern_text
from mypt_infer.decode.llguidance.tools import _Opening, calls_of


def size(value: Any) -> int:
    return len(json.dumps(value))


def least(schema: Any) -> Any:
    return minimal_value(schema, size)


VALUES = st.sampled_from(["", "a", "note", 1, 10, None, True, [], ["x"], {"k": 1}])
KINDS = ["string", "integer", "number", "boolean", "null", "const", "enum", "any"]
LENGTHS = [{}, {"minLength": 3}, {"maxLength": 2}, {"minLength": 7, "maxLength": 9}]
BOUNDS = [{}, {"minimum": 3}, {"maximum": -17}, {"exclusiveMinimum": 9, "maximum": 40}, {"exclusiveMaximum": 0}, {"minimum": 5, "multipleOf": 4}]  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """Schemas whose values can be read off them."""
    kind = draw(st.sampled_from([*KINDS, *(["array", "object"] if depth else [])]))
    if kind == "const":
        return {"const": draw(VALUES)}
    if kind == "enum":
        return {"enum": draw(st.lists(VALUES, min_size=1, max_size=3))}
    if kind == "any":
        return {"anyOf": draw(st.lists(schemas(depth=0), min_size=1, max_size=2))}
    types = [kind, [kind], [kind, "null"]] if kind != "null" else [kind]
    out: dict[str, Any] = {"type": draw(st.sampled_from(types))}
    if kind == "string":
        out |= draw(st.sampled_from(LENGTHS))
    if kind in ("integer", "number"):
        out |= draw(st.sampled_from(BOUNDS))
    if kind == "array":
        out |= {"items": draw(schemas(depth=depth - 1)), "minItems": draw(st.integers(0, 2))}
    if kind == "object":
        keys = draw(st.lists(st.sampled_from(["a", "day", "k_2"]), unique=True, max_size=3))
        out |= {
            "properties": {k: draw(schemas(depth=depth - 1)) for k in keys},
            "required": draw(st.permutations(keys))[: draw(st.integers(0, 3))],
            "additionalProperties": False,
        }
    return out


@settings(max_examples=either(12, 40))
@given(st.lists(schemas(), min_size=1, max_size=3), st.sampled_from(CALLERS))
def test_what_is_read_off_is_proved_and_about_as_short_as_what_a_search_finds(
    parts: list[dict[str, Any]], name: str
) -> None:
    dialect = mypt_spec.dialect(name)
    (tool,) = declare([requiring(**{f"a{i}": part for i, part in enumerate(parts)})])
    assert misfits(least(tool.schema), dict(tool.schema)) == []
    opening = _Opening(dialect)
    first = matcher(dialect, opening.end, opening.kind, [tool])
    read, searched = opening.read_off(first, tool), opening.searched(first, tool)
    assert read is not None
    assert opening.ground.proved(first, read, opening.end), dialect.tokenizer.decode(read)
    # A bracket may be one token with the value behind it: which values, is not read off.
    merged = dialect.tokenizer.decode(read).count("[")
    text = dialect.tokenizer.decode(searched or ())
    assert searched is None or len(read) <= len(searched) + merged, text


@pytest.mark.parametrize("name", CALLERS)
def test_the_least_is_that_of_the_tables(name: str) -> None:
    """In flat schemas the tables count exactly, over all ways to write a call."""
    for tool in declare(TOOLS):
        table, other = (Decoder(name, [tool], engine=engine) for engine in ("table", "llguidance"))
        one, two = (
            min(int(of.tables.to_close[s]) for s in entries_of(of.tables, 2))
            for of in (table, other)
        )
        assert one == two


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "a(?=b)"}, {"type": "string", "format": "other"}, {"not": {}}, {"type": "string", "minLength": 10**9}, {"type": "array", "minItems": 1},
        {"type": "array", "minItems": 10**9, "items": {"type": "null"}}, {"$ref": "#"}, {"$ref": "#/$defs/no"}, {"type": "integer", "minimum": "3"}, {"enum": []},
        {"type": "object", "required": ["a"]}, {"type": "array", "minItems": 99, "items": {"type": "array", "minItems": 999, "items": {"type": "null"}}}, True, {"type": "?"},
    ],
)  # fmt: skip
def test_what_does_not_tell(schema: Any) -> None:
    root = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": {}}
    with pytest.raises(Unclear):
        least(root)


def test_a_pattern_without_operators_is_its_own_value() -> None:
    """A search cannot see it: after each byte, any other may follow."""
    tool = requiring(a={"type": "string", "pattern": "wifi"})
    assert least(tool["function"]["parameters"]) == {"a": "wifi"}
    assert Decoder("mypt", [tool], engine="llguidance")


PARTS = st.recursive(
    st.sampled_from(["a", "-", ".", r"\d", r"\.", r"\w", "[^0-9]", "[a-f/]", r"[\]\\x]", "é"]),
    lambda part: st.one_of(
        st.lists(part, min_size=1, max_size=3).map("".join),
        st.lists(part, min_size=2, max_size=3).map(lambda ways: f"({'|'.join(ways)})"),
        st.tuples(part, st.sampled_from(["*", "+?", "?", "{2}", "{1,}", "{0,3}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(60))
@given(PARTS, st.booleans())
def test_the_text_of_a_pattern_matches_it(pattern: str, bound: bool) -> None:
    whole = f"^{pattern}$" if bound else pattern
    assert re.fullmatch(whole, pattern_text(whole))


@pytest.mark.parametrize(
    "pattern", ["a(?!b)", "(?<=a)b", r"(a)\1", "(a", "a)", r"\p{L}", "[", "a{2000}"]
)
def test_a_pattern_that_does_not_tell(pattern: str) -> None:
    with pytest.raises(Unreadable):
        pattern_text(pattern)


def test_what_two_schemas_bind_together() -> None:
    """`anyOf` beside other keywords, as in lists of tools with either of two arguments."""
    ways = [{"required": ["path", "b"]}, {"required": ["a"]}]
    properties = {"a": {"const": 1}, "path": {"const": 2}, "b": {"const": 3}}
    schema = {"properties": properties, "type": "object"}
    assert least({**schema, "anyOf": ways}) == {"a": 1}
    assert least({**schema, "allOf": ways}) == {"a": 1, "path": 2, "b": 3}


def test_references_are_followed_and_circles_are_not() -> None:
    here = {"$ref": "#/$defs/node"}
    node = {"type": "object", "properties": {"label": {"type": "string"}, "below": here}}
    root = {"type": "object", "properties": {"root": here}, "required": ["root"]}
    assert least({**root, "$defs": {"node": {**node, "required": ["label"]}}}) == {"root": {"label": ""}}  # fmt: skip
    with pytest.raises(Unclear):
        least({**root, "$defs": {"node": {**node, "required": ["below"]}}})


FORMATS = ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"]  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them no search has found an ending for."""
    monkeypatch.setattr(_Opening, "searched", lambda *_: None)
    tool = requiring(a={"type": "string", "format": kind})
    decoder = Decoder("mypt", [tool], engine="llguidance")
    if kind not in ("date-time", "ipv6", "email"):  # that there is a decoder is enough
        return
    begin = [*CALL, *decoder.dialect.tokenizer.encode('{"name": "t", "a": "')]
    shortest = decoder.minimum(in_call(decoder, '{"name": "t", "a": "'))
    for slack in (0,) if kind == "email" else (0, 4):
        budget = len(begin) + shortest + slack
        state = decoder.run(decoder.start(prompt("mypt"), max_new_tokens=budget), begin)
        ids = walk(decoder, state, random.Random(f"{kind} {slack}"), bold=0)
        value = '{"a": "' + decoder.dialect.tokenizer.decode(ids[: ids.index(CALL_END)])
        assert misfits(json.loads(value), tool["function"]["parameters"]) == []


def test_a_search_helps_where_reading_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    names, search = list[str](), _Opening.searched
    monkeypatch.setattr(_Opening, "searched", lambda self, first, tool: names.append(tool.name) or search(self, first, tool))  # type: ignore[func-returns-value]  # fmt: skip
    bound = requiring("bound_x1", a={"type": "string", "pattern": r"^\p{Lu}-7$"})
    decoder = Decoder("mypt", [function("free_x1"), bound], engine="llguidance")
    assert names == ["bound_x1"]
    body = decoder.dialect.tokenizer.decode(decoder.engine.endings[2])  # type: ignore[attr-defined]
    assert re.fullmatch("[A-Z]-7", json.loads(body)["a"])
    names.clear()
    guess = b'{"name": "free_x2", "no": 1}'
    monkeypatch.setattr(_Opening, "read_off", lambda self, *_: self.ground.search.tokens(guess))
    decoder = Decoder("mypt", [function("free_x2")], engine="llguidance")
    assert len(decoder.engine.endings[1]) < 12  # type: ignore[attr-defined]
    assert names == ["free_x2"], "a guess that does not fit is not taken"


def test_a_known_list_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [function("known_once", {"a": {"type": "integer"}})]
    first = Decoder("mypt", tools, engine="llguidance")
    monkeypatch.setattr(calls_module, "matcher", lambda *_: pytest.fail("compiled again"))
    again = Decoder("mypt", tools, engine="llguidance")
    assert again.engine is not first.engine, "states have numbers of their decoder"  # type: ignore[attr-defined]
    assert again.tables is first.tables
    monkeypatch.undo()
    other = function("known_once", {"a": {"uniqueItems": True, "type": "array"}})
    with pytest.raises(SchemaFault):
        calls_of(first.dialect, declare([other]))


@pytest.mark.parametrize("name", [name for name in CALLERS if name in FEW])
def test_filled_holes_are_measured_as_if_all_were_measured_anew(name: str) -> None:
    made = Decoder(name, TOOLS, engine="llguidance").tables
    for lengths in ([1, 1, 1, 1], [40, 3, 90, 7], [5, 0, 0, 2000]):
        filled = made.with_holes([9] * 4).with_holes(lengths)
        assert filled.distance.tolist() == filled.measure(filled.final).tolist()
        goal = filled.block == NO_BLOCK
        goal[DEAD_STATE] = False
        assert filled.to_close.tolist() == filled.measure(goal).tolist()
        assert filled.members[0] is made.members[0]
