"""Bodies that llguidance reads: any schema, and the same promises: legal, canonical, declared,
within every budget.
"""

from __future__ import annotations

import builtins
import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from mypt_infer.decode import BudgetError, Decoder, PromptError, SchemaFault
from mypt_infer.decode.compile import call_graph
from mypt_infer.decode.decoder import machine
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.memo import Memo
from tests.support.build import function
from tests.support.decoding import (
    CALL,
    CALL_END,
    GUIDED_TOOLS,
    TOOLS,
    calls_in,
    complete,
    decoder,
    guided_decoder,
    in_call,
    into_call,
    prompt,
    requiring,
    walk,
)

llguidance = pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance.grammar import EngineError, has_named_members, matcher, patterned  # noqa: E402
from mypt_infer.decode.llguidance.position import Reading  # noqa: E402

PLAN = GUIDED_TOOLS[0]


@cache
def capped_decoder(call: int) -> Decoder:
    return Decoder("mypt", [PLAN], engine="auto", max_toolcall_tokens=call)


def test_no_call_is_begun_that_does_not_fit() -> None:
    of = guided_decoder("mypt")
    state = of.start(prompt("mypt"))
    first, inside = into_call(of, state)
    least = len(first) + of.minimum(inside)
    assert of.next(of.start(prompt("mypt"), max_new_tokens=least), first[0])
    short = of.next(of.start(prompt("mypt"), max_new_tokens=least - 1), first[0])
    assert not of.allowed(short)[first[1]], "the opening tag is not offered"
    with pytest.raises(ValueError, match="no legal ending would fit"):
        of.next(short, first[1])


def test_what_is_offered_holds_what_it_promises() -> None:
    """For places all over several calls: every id leads on, and its distance is at most what was
    said.
    """
    of = Decoder("mypt", GUIDED_TOOLS, engine="llguidance")
    start = in_call(of)
    encode = of.dialect.tokenizer.encode
    choose = random.Random(0)
    for text in (
        '{"name": "plan", "title": "abc", "when": "2024-0',
        '{"name": "grow", "root": {"label": "x", "below": [{"label": "ü',
        '{"name": "grow", "root": {"label": "a"}, "notes": {"a',
    ):
        ids = encode(text)
        for n in range(len(ids) + 1):
            state = of.run(start, ids[:n])
            offered, _, distance, _ = of.engine.allow(machine(state))
            assert sorted(offered.tolist()) == of.ids(state).tolist()
            assert distance.min() < of.minimum(state), "the ending that is known is offered"
            for at in choose.sample(range(len(offered)), min(12, len(offered))):
                then = of.next(state, int(offered[at]))
                assert of.minimum(then) <= distance[at]


def test_the_engines_offer_the_same_where_both_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Token by token through calls in even schemas whose members all are named.

    In the schema's order, the only one of llguidance. At the edges of a body, tokens are not shared.
    """
    monkeypatch.setattr(call_graph, "_SETS", 0)
    properties: Any = {"query": {"type": "string"}, "top_k": {"type": "integer"}, "deep": {"type": "boolean"}, "kind": {"enum": ["a", "ab", "b"]}}  # fmt: skip
    tools = [function("find", properties, required=["query"])]
    table, other = Decoder("mypt", tools), Decoder("mypt", tools, engine="llguidance")
    ids = table.dialect.tokenizer.encode(
        '{"name": "find", "query": "say \\"hi\\" to <my ü 🎉", "top_k": -120, "deep": true, "kind": "ab"}'
    )
    left, right = in_call(table), in_call(other)
    for token in ids:
        mine, theirs = table.allowed(left), other.allowed(right)
        assert (mine == theirs).all(), [
            table.dialect.tokenizer.decode([i]) for i in np.flatnonzero(mine != theirs)[:9]
        ]
        left, right = table.next(left, token), other.next(right, token)
    assert table.ids(left).tolist() == other.ids(right).tolist() == [CALL_END]


def test_states_can_be_kept_forked_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Decoder("mypt", GUIDED_TOOLS, engine="llguidance")
    start = in_call(of, budget=60)
    texts = [
        '{"name": "plan", "title": "abcd", "when": "2024-05"}',
        '{"name": "grow", "root": {"label": "x"}}',
        '{"name": "plan", "title": "xyz", "when": "2031-12"}',
    ]
    runs = [of.dialect.tokenizer.encode(t) for t in texts]
    first = [[of.run(start, ids[:n]) for n in range(len(ids) + 1)] for ids in runs]
    sets = [of.ids(s).tolist() for s in first[0]]
    engine: Any = of.engine  # type: ignore[attr-defined]
    engine._matchers, engine._options = Memo(1), Memo(1)
    of._sets.clear()
    states = [start] * 3
    for n in range(max(map(len, runs))):  # interleaved, with almost nothing kept
        for row, ids in enumerate(runs):
            if n < len(ids):
                states[row] = of.next(states[row], ids[n])
                assert states[row] == first[row][n + 1]
                assert type(states[row]) is int
    of._sets.clear()
    assert [of.ids(s).tolist() for s in first[0]] == sets
    assert of.step([first[0][2], first[1][4]], [runs[0][2], runs[1][4]]).tolist() == [
        first[0][3],
        first[1][5],
    ]


def test_strings_spell_no_tag() -> None:
    of = Decoder("mypt", GUIDED_TOOLS, engine="llguidance")
    state = in_call(of, '{"name": "grow", "root": {"label": "')
    letters = {chr(b): of.dialect.tokenizer.encode(chr(b))[0] for b in range(32, 127)}
    state = of.run(state, [letters[c] for c in "<myPT_user"])
    assert not of.allowed(state)[letters[">"]]
    assert of.allowed(state)[letters["s"]]
    assert of.allowed(state)[letters['"']]


def test_a_key_stands_once() -> None:
    of = Decoder("mypt", GUIDED_TOOLS, engine="llguidance")
    encode = of.dialect.tokenizer.encode
    state = in_call(of, '{"name": "grow", "root": {"label": "x"}, "notes": {"ab": 1, "a')
    again = of.next(state, encode("b")[0])
    assert not of.allowed(again)[encode('"')[0]]
    assert of.allowed(state)[encode('"')[0]]
    assert of.allowed(again)[encode("c")[0]]


def test_the_end_of_a_body_is_its_closing_tag() -> None:
    """llguidance itself says so: the tag is its end of text."""
    d = guided_decoder("mypt").dialect
    one = matcher(d, CALL_END, "call", [guided_decoder("mypt").tools[2]])
    assert one.consume_tokens(d.tokenizer.encode('{"name": "list_docs"}'))
    assert np.flatnonzero(
        np.unpackbits(np.frombuffer(one.compute_bitmask(), np.uint8), bitorder="little")
    ).tolist() == [CALL_END]


@pytest.mark.parametrize("cap", [0, 30])
def test_budgets_of_calls(cap: int) -> None:
    if not cap:
        with pytest.raises(BudgetError, match=r"a call of 'plan' takes at least \d+ tokens"):
            capped_decoder(5)
        return
    of = capped_decoder(cap)
    first, _ = into_call(of, of.start(prompt("mypt")))
    for seed in range(3):
        out = walk(of, of.run(of.start(prompt("mypt")), first), random.Random(seed))
        assert out.index(CALL_END) <= cap


def test_a_prompt_may_stop_inside_a_call() -> None:
    of = guided_decoder("mypt")
    begun = of.dialect.tokenizer.encode('{"name": "plan", "title": "ab')
    ids = [*of.ids_of(prompt("mypt")), *CALL, *begun]
    state = of.start(ids, max_new_tokens=30)
    assert of.calling(state)
    assert of.left(state) == 30
    out = walk(of, state, random.Random(1))
    assert complete(of, ids + out)
    with pytest.raises(PromptError):
        of.start([*ids, *of.dialect.tokenizer.encode('", "other": 1}')])


@pytest.mark.numeric
def test_models_run_on_it() -> None:
    torch = pytest.importorskip("torch")
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.loop import plain

    of = capped_decoder(32)
    noise = torch.randn(40, 50304, generator=torch.Generator().manual_seed(0))
    noise[:, 50267] += 30.0

    def model(ids: Any) -> Any:
        return noise[ids.shape[1] % 40].expand(1, ids.shape[1], -1)

    answers = generate(
        plain(model, 50304),
        [prompt("mypt")] * 2,
        decoder=of,
        max_new_tokens=36,
        temperature=3.0,
        greedy_calls=False,
        seed=1,
    )
    assert "call" in {answer.ended for answer in answers}
    for answer in answers:
        ids = answer.prompt + answer.ids
        assert complete(of, ids)
        for call in calls_in(of, ids):
            assert misfits(call.arguments, PLAN["parameters"]) == []


def test_which_engine() -> None:
    assert Decoder("mypt", TOOLS, engine="auto").engine.tables_only
    assert not Decoder("mypt", [PLAN], engine="auto").engine.tables_only
    assert not decoder("mypt", engine="llguidance").engine.tables_only
    with pytest.raises(EngineError, match="known are table, llguidance, auto"):
        Decoder("mypt", engine="other")
    assert Decoder("gabgpt", GUIDED_TOOLS, engine="llguidance").start(prompt("gabgpt"))


def tool(**schema: Any) -> list[dict[str, Any]]:
    return [requiring(a=schema)]


@pytest.mark.parametrize(
    ("tools", "engine", "says"),
    [
        (tool(type="string", pattern="a+"), "table", "'pattern' is not supported by tables; the engine \"llguidance\" supports it"),
        (tool(uniqueItems=True), "table", "does not support it either"),
        (tool(type="array", uniqueItems=True), "llguidance", 'tool \'t\': llguidance cannot read .*uniqueItems'),
        (tool(type="array", uniqueItems=True), "auto", "'t' at /properties/a/uniqueItems: .*by tables.*; and llguidance cannot read .*uniqueItems"),
        (tool(type="string", pattern="^<myPT_user>$"), "llguidance", "no call was found"),
        (tool(type="string", pattern="(?=a)"), "llguidance", "llguidance cannot read its schema"),
        ([{"name": "t", "parameters": {"anyOf": [{"type": "object"}]}}], "llguidance", "at /anyOf: 'anyOf' cannot be at the top"),
        ([{"name": "t", "parameters": {"type": "string"}}], "llguidance", "an object"),
        ([{"name": "ok"}, *tool(contains={})], "llguidance", "'t': llguidance cannot read"),
    ],
)  # fmt: skip
def test_bad_schemas(tools: Any, engine: str, says: str) -> None:
    with pytest.raises(SchemaFault, match=says):
        Decoder("mypt", tools, engine=engine)


def test_dead_ends_are_not_entered() -> None:
    """A pattern one of whose ways can only spell a tag: that way is not offered."""
    of = Decoder("mypt", tool(type="string", pattern="^(x|q<myPT_user>)$"), engine="llguidance")
    state = in_call(of, '{"name": "t", "a": "')
    assert sorted({of.dialect.tokenizer.decode([i])[0] for i in of.ids(state).tolist()}) == ["x"]


def test_schemas_are_told_apart() -> None:
    """Which members a pattern binds, "" for any; and whether all members are named."""
    pattern, closed = {"pattern": "a"}, {"type": "object", "additionalProperties": False}
    for schema, members in (
        ({"properties": {"pattern": {"minLength": 2}}, "const": {"pattern": ""}}, set()),
        ({"properties": {"a": {"anyOf": [{"format": "date"}]}, "b": {"type": "string"}}}, {"a"}),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": pattern}}, {""}),
        ({"properties": {"a": {"properties": {"c": pattern}}, "b": {"$ref": "#/properties/a"}}}, {"b", "c"}),
        ({"additionalProperties": pattern}, {""}),
    ):  # fmt: skip
        assert patterned(schema) == members, schema
    for schema, closes in (
        ({**closed, "properties": {"a": {"type": "array", "items": {"type": "string"}}}}, True),
        ({**closed, "properties": {"a": {"enum": [1]}}}, True),
        ({**closed, "properties": {"a": {}}}, False),
        ({"type": "object", "properties": {}}, False),
    ):
        assert has_named_members(schema) == closes, schema


@pytest.mark.parametrize(
    ("text", "key", "member"),
    [
        ("", False, ""),
        ('{"a', True, ""),
        ('{"a": "b', False, "a"),
        ('{"a": "b", "', True, ""),
        ('{"a": ["b", "', False, "a"),
        ('{"a": [{"x": 1}, "', False, "a"),
        ('{"a": {"b": {"c": 1}}, "\\"d": "', False, '"d'),
        ('{"a": "{\\"b', False, "a"),
    ],
)
def test_where_a_body_stops(text: str, key: bool, member: str) -> None:
    assert Reading().on(text.encode()).position(text.encode()) == (key, member)


def test_without_llguidance(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("llguidance"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no)
    with pytest.raises(EngineError, match=r"pip install 'mypt-tags\[llguidance\]'"):
        Decoder("mypt", [{**PLAN, "name": "never_seen"}], engine="llguidance")
    assert Decoder("mypt", TOOLS, engine="auto")
