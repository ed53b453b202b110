"""Members that a schema does not name: refused in tools, unless it says that there may be some."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.decode import Decoder, Response
from mypt_infer.decode.compile.call_graph import body_of
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_spec.bodies.json_schema import misfits
from tests.support.decoding import (
    CALL,
    calls_in,
    complete,
    in_call,
    prompt,
    takes_body,
    walk,
)
from tests.support.examples import examples
from tests.support.scripted import ids_of

pytest.importorskip("llguidance")

STRING = {"type": "string"}
PLAIN = {"type": "object", "properties": {"a": STRING}, "required": ["a"]}


def of_tool(parameters: Any, *, name: str = "praxis", **options: Any) -> Decoder:
    options = {"engine": "auto", **options}
    return Decoder(name, [{"name": "t", "parameters": parameters}], **options)


def takes(of: Decoder, arguments: dict[str, Any]) -> bool:
    """Whether a whole call can be written in mypt or praxis."""
    table, (kind, _) = of.dialect.table, call_ends(of.dialect)
    body = body_of(kind, "t", arguments, table.literals)
    if of.dialect.name == "mypt":
        return takes_body(of, body)
    opener = next(t for t in table.openers.values() if t.body == kind)
    ids = of.dialect.tokenizer.encode(opener.spell() + body + table.closers[opener.opens].spell())
    return of.accepts(of.start(prompt(of.dialect.name)), ids) == len(ids)


VECTORS: list[tuple[Any, Any, bool]] = [  # schema, arguments, whether they are taken
    (PLAIN, {"a": "x"}, True),
    (PLAIN, {"a": "x", "b": 1}, False),
    (PLAIN, {"a": "x", "a2": {"deep": [None]}}, False),
    (PLAIN, {"b": 1}, False),
    ({**PLAIN, "additionalProperties": False}, {"a": "x", "b": 1}, False),
    ({**PLAIN, "additionalProperties": True}, {"a": "x", "b": 1}, True),
    ({**PLAIN, "additionalProperties": {"type": "integer"}}, {"a": "x", "b": 1}, True),
    ({**PLAIN, "additionalProperties": {"type": "integer"}}, {"a": "x", "b": "1"}, False),
    ({"properties": {"o": PLAIN}}, {"o": {"a": "x", "b": 1}}, False),
    ({"properties": {"l": {"type": "array", "items": PLAIN}}}, {"l": [{"a": "x", "b": 1}]}, False),
    ({"properties": {"o": {"enum": [{"a": 1}]}}}, {"o": {"a": 1, "b": 1}}, False),
    ({"type": "object", "properties": {}}, {"x": 1}, False),
    ({"properties": {"n": {"enum": ["x"], "type": "object"}}}, {"n": "x"}, False),
    ({"properties": {"n": {"enum": ["x"], "type": "object"}}}, {"m": "x"}, False),
    ({"properties": {"n": False, "a": STRING}}, {"a": "x"}, True),
    ({"properties": {"n": False, "a": STRING}}, {"n": "x"}, False),
    ({"required": ["r"]}, {"r": [1]}, True),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::mypt_infer.decode.SchemaWarning")
@pytest.mark.parametrize(("schema", "arguments", "taken"), VECTORS)
def test_vectors(schema: Any, arguments: Any, taken: bool) -> None:
    for name in ("mypt", "praxis"):
        assert takes(of_tool(schema, name=name), arguments) == taken


def test_answers_are_read_to_the_letter() -> None:
    for schema, fits in ((PLAIN, True), ({**PLAIN, "additionalProperties": False}, False)):
        of = Decoder("gabgpt", response=Response(schema=schema))
        ids = ids_of('<|assistant|>{"a": "x", "b": 1}', of.dialect)
        assert (of.accepts(of.start(prompt("gabgpt")), ids) == len(ids)) == fits


def test_tables_are_taken_only_where_no_more_members_are_meant() -> None:
    nested = {"properties": {"o": PLAIN}}
    for schema in (PLAIN, nested):
        assert of_tool(schema).engine.tables_only
        assert not of_tool({**schema, "additionalProperties": True}).engine.tables_only


ANY_OR_NONE = st.sampled_from([True, False, {"type": "integer"}])
PARTS = st.recursive(
    st.sampled_from([STRING, {"type": "integer"}, {"enum": [{"a": 1}, 2]}]),
    lambda inner: (
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("ab"), inner),
            },
            optional={"additionalProperties": ANY_OR_NONE},
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
    ),
    max_leaves=4,
)
OBJECTS = st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from(["a", "b", "name"]), PARTS)},
    optional={"additionalProperties": st.booleans()},
)


@settings(max_examples=examples(24), deadline=None)
@given(OBJECTS, st.integers(0, 30), st.integers(0, 2**32))
def test_every_budget_ends_legal(schema: Any, slack: int, seed: int) -> None:
    of = of_tool(schema, name="mypt")
    before = of.ids_of(prompt("mypt"))
    budget = len(CALL) + of.minimum(in_call(of)) + slack
    out = [*CALL, *walk(of, in_call(of, budget=budget), random.Random(seed), bold=0)]
    assert len(out) <= budget
    assert complete(of, before + out), of.dialect.tokenizer.decode(out)
    (call,) = calls_in(of, before + out)
    assert misfits(call.arguments, schema) == []
