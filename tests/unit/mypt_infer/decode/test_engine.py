"""Bodies that llguidance reads: any schema, and the same promises: legal, canonical, declared,
within every budget.
"""

from __future__ import annotations

import builtins
import json
import random
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from mypt_infer.decode import BudgetError, Decoder, PromptError, SchemaFault
from mypt_infer.decode.compile.nfa import CALLING
from mypt_infer.decode.decoder import machine
from mypt_spec.bodies.json_body import read_body
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event, Place
from mypt_spec.memo import Memo
from tests.support.decoding import CALLERS, TOOLS, complete, decoder, prompt

llguidance = pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance.grammar import EngineError, matcher, named, patterned  # noqa: E402
from mypt_infer.decode.llguidance.position import where  # noqa: E402

PLAN = {
    "name": "plan",
    "parameters": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 3, "maxLength": 12},
            "when": {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])$"},
            "count": {"type": "integer", "minimum": 3, "maximum": 700},
            "who": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}]},
        },
        "required": ["title", "when"],
    },
}  # fmt: skip
TREE = {
    "name": "grow",
    "parameters": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}, "notes": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "required": ["root"],
        "$defs": {"node": {"type": "object", "properties": {"label": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3}}, "required": ["label"]}},
    },
}  # fmt: skip
MIXED = (PLAN, TREE, TOOLS[2])
SCHEMAS = {t["name"]: t["parameters"] for t in (*MIXED, *(f.get("function", f) for f in TOOLS))}  # type: ignore[attr-defined]


@cache
def made(name: str, call: int | None = None) -> Decoder:
    return Decoder(name, (PLAN,) if call else MIXED, engine="auto", max_toolcall_tokens=call)


def into_call(of: Decoder, state: int) -> tuple[list[int], int]:
    """The shortest way into a body, and the state there."""
    near = of.tables.measure(of.tables.block == CALLING)
    for hole in of.tables.holes:
        near = np.minimum(near, of.tables.measure(np.arange(of.tables.size) == hole))
    out: list[int] = []
    while machine(state) < of.tables.size:
        ids = of.ids(state)
        following = of.tables.following(machine(state))[of.tables.classes[ids]]
        out.append(int(ids[near[following].argmin()]))
        state = of.next(state, out[-1])
    return out, state


def goes_on(of: Decoder, state: int, choose: random.Random) -> list[int]:
    """Any allowed ids to the end; in some calls one in three as short as can be."""
    out: list[int] = []
    for _ in range(2000):
        if of.final(state):
            return out
        ids = of.ids(state)
        assert len(ids), "no way on"
        tags = ids[np.isin(ids, list(of.dialect.tokenizer.special.values()))]
        out.append(
            int(choose.choice(tags))
            if len(tags) and choose.random() < 0.3
            else int(choose.choice(ids))
        )
        state = of.next(state, out[-1])
    raise AssertionError("no end")


def call_in(of: Decoder, text: str) -> tuple[str, Any]:
    """The name and the arguments of the first call of a text, by JSON alone."""
    opener = next(
        t
        for t in of.dialect.table.openers.values()
        if t.body in ("call", "arguments", "function", "parameters", "calls", "functions")
        and t.origin == "model"
    )
    closer = of.dialect.table.closers[opener.opens].shown.strip()
    body, head = text.split(closer, maxsplit=1)[0], ""
    if opener.again:
        _, head, body = re.split(r"\[TOOL_CALLS\]|\[ARGS\]", body)[:3]
    elif opener.body == "arguments" and "to=functions." in body:
        head = body.split("to=functions.")[1].split("<")[0]
        body = body.split(">")[-1]
    elif opener.body == "arguments":
        head = body.split('name="')[1].split('"')[0]
        body = body.split(">\n")[-1].strip()
    else:
        body = body.split(opener.shown.strip())[-1].strip()
    found = read_body(body, opener.body, of.dialect.table.literals, Place())
    assert not found.findings
    assert found.text == body, "canonical, the name first"
    value = json.loads(body)
    if opener.body == "arguments":
        return head, value
    one = value[0] if opener.body in ("calls", "functions") else value
    one = one["function"] if opener.body == "calls" else one
    if opener.body == "call":
        return one.pop("name"), one
    return one["name"], one["parameters" if opener.body == "parameters" else "arguments"]


@pytest.mark.parametrize("name", CALLERS)
def test_every_budget_ends_in_a_legal_call(name: str) -> None:
    of = made(name)
    before = of.ids_of(prompt(name))
    first, inside = into_call(of, of.start(before))
    least = len(first) + of.minimum(inside)
    tools = set()
    for budget in [*range(least, least + 5), 45, 64]:
        for seed in range(2):
            ids = [
                *first,
                *goes_on(
                    of,
                    of.run(of.start(before, max_new_tokens=budget), first),
                    random.Random(f"{budget} {seed}"),
                ),
            ]
            assert len(ids) <= budget
            assert complete(of, before + ids), of.dialect.tokenizer.decode(ids)
            tool, arguments = call_in(of, of.dialect.tokenizer.decode(ids))
            assert misfits(arguments, SCHEMAS[tool]) == []
            tools.add(tool)
    assert tools


def test_no_call_is_begun_that_does_not_fit() -> None:
    of = made("mypt")
    state = of.start(prompt("mypt"))
    first, inside = into_call(of, state)
    least = len(first) + of.minimum(inside)
    assert of.next(of.start(prompt("mypt"), max_new_tokens=least), first[0])
    short = of.next(of.start(prompt("mypt"), max_new_tokens=least - 1), first[0])
    assert not of.allowed(short)[first[1]], "the opening tag is not offered"
    with pytest.raises(ValueError, match="no legal ending would fit"):
        of.next(short, first[1])


@pytest.mark.parametrize("name", CALLERS)
def test_an_adversary_is_brought_to_the_end(name: str) -> None:
    """Always the id after which the end is furthest."""
    of = made(name)
    before = of.ids_of(prompt(name))
    first, inside = into_call(of, of.start(before))
    for budget in (len(first) + of.minimum(inside) + 3, 64):
        state, ids = of.run(of.start(before, max_new_tokens=budget), first), list(first)
        while not of.final(state):
            allowed = of.ids(state)
            if machine(state) >= of.tables.size:
                offered, _, distance, _ = of.engine.allow(machine(state))
                far = distance[np.searchsorted(offered, allowed)]
            else:
                far = np.array([of._distance[of._step(machine(state), int(i))] for i in allowed])
            ids.append(int(allowed[far.argmax()]))
            state = of.next(state, ids[-1])
        assert len(ids) <= budget
        assert complete(of, before + ids), of.dialect.tokenizer.decode(ids)


def test_what_is_offered_holds_what_it_promises() -> None:
    """For places all over several calls: every id leads on, and its distance is at most what was
    said.
    """
    of = Decoder("mypt", MIXED, engine="llguidance")
    start = of.run(of.start(prompt("mypt")), [50261, 50267])
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


def test_the_engines_offer_the_same_where_both_can() -> None:
    """Token by token through calls in even schemas whose members all are named.

    At the edges of a body, tokens are not shared.
    """
    tools = [{"name": "find", "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}, "deep": {"type": "boolean"}, "kind": {"enum": ["a", "ab", "b"]}}, "required": ["query"]}}]  # fmt: skip
    table, other = Decoder("mypt", tools), Decoder("mypt", tools, engine="llguidance")
    ids = table.dialect.tokenizer.encode(
        '{"name": "find", "query": "say \\"hi\\" to <my ü 🎉", "top_k": -120, "deep": true, "kind": "ab"}'
    )
    left, right = (of.run(of.start(prompt("mypt")), [50261, 50267]) for of in (table, other))
    for token in ids:
        mine, theirs = table.allowed(left), other.allowed(right)
        assert (mine == theirs).all(), [
            table.dialect.tokenizer.decode([i]) for i in np.flatnonzero(mine != theirs)[:9]
        ]
        left, right = table.next(left, token), other.next(right, token)
    assert table.ids(left).tolist() == other.ids(right).tolist() == [50268]


def test_states_can_be_kept_forked_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Decoder("mypt", MIXED, engine="llguidance")
    start = of.run(of.start(prompt("mypt"), max_new_tokens=60), [50261, 50267])
    texts = [
        '{"name": "plan", "title": "abcd", "when": "2024-05"}',
        '{"name": "grow", "root": {"label": "x"}}',
        '{"name": "plan", "title": "xyz", "when": "2031-12"}',
    ]
    runs = [of.dialect.tokenizer.encode(t) for t in texts]
    first = [[of.run(start, ids[:n]) for n in range(len(ids) + 1)] for ids in runs]
    sets = [of.ids(s).tolist() for s in first[0]]
    guided = of.engine.guided
    guided._matchers, guided._options = Memo(1), Memo(1)
    of._sets.clear()
    of._steps.clear()
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
    of = Decoder("mypt", MIXED, engine="llguidance")
    state = of.run(
        of.start(prompt("mypt")),
        [50261, 50267, *of.dialect.tokenizer.encode('{"name": "grow", "root": {"label": "')],
    )
    letters = {chr(b): of.dialect.tokenizer.encode(chr(b))[0] for b in range(32, 127)}
    state = of.run(state, [letters[c] for c in "<myPT_user"])
    assert not of.allowed(state)[letters[">"]]
    assert of.allowed(state)[letters["s"]]
    assert of.allowed(state)[letters['"']]


def test_a_key_stands_once() -> None:
    of = Decoder("mypt", MIXED, engine="llguidance")
    encode = of.dialect.tokenizer.encode
    before = '{"name": "grow", "root": {"label": "x"}, "notes": {"ab": 1, "a'
    state = of.run(of.start(prompt("mypt")), [50261, 50267, *encode(before)])
    again = of.next(state, encode("b")[0])
    assert not of.allowed(again)[encode('"')[0]]
    assert of.allowed(state)[encode('"')[0]]
    assert of.allowed(again)[encode("c")[0]]


def test_the_end_of_a_body_is_its_closing_tag() -> None:
    """llguidance itself says so: the tag is its end of text."""
    d = made("mypt").dialect
    one = matcher(d, 50268, "call", [made("mypt").tools[2]])
    assert one.consume_tokens(d.tokenizer.encode('{"name": "list_docs"}'))
    assert np.flatnonzero(
        np.unpackbits(np.frombuffer(one.compute_bitmask(), np.uint8), bitorder="little")
    ).tolist() == [50268]


@pytest.mark.parametrize("cap", [0, 30])
def test_budgets_of_calls(cap: int) -> None:
    if not cap:
        with pytest.raises(BudgetError, match=r"a call of 'plan' takes at least \d+ tokens"):
            made("mypt", 5)
        return
    of = made("mypt", cap)
    first, _ = into_call(of, of.start(prompt("mypt")))
    for seed in range(3):
        out = goes_on(of, of.run(of.start(prompt("mypt")), first), random.Random(seed))
        assert out.index(50268) <= cap


def test_a_prompt_may_stop_inside_a_call() -> None:
    of = made("mypt")
    ids = [
        *of.ids_of(prompt("mypt")),
        50261,
        50267,
        *of.dialect.tokenizer.encode('{"name": "plan", "title": "ab'),
    ]
    state = of.start(ids, max_new_tokens=30)
    assert of.calling(state)
    assert of.left(state) == 30
    out = goes_on(of, state, random.Random(1))
    assert complete(of, ids + out)
    with pytest.raises(PromptError):
        of.start([*ids, *of.dialect.tokenizer.encode('", "other": 1}')])


def test_models_run_on_it() -> None:
    torch = pytest.importorskip("torch")
    from mypt_infer.generate.device import DeviceDecoder
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.loop import plain

    of = made("mypt", 32)
    noise = torch.Generator().manual_seed(0)

    def model(ids: Any) -> Any:
        logits = torch.randn(1, ids.shape[1], 50304, generator=noise)
        logits[..., 50267] += 30.0
        return logits

    found = generate(
        plain(model, 50304),
        [prompt("mypt")] * 2,
        decoder=of,
        max_new_tokens=36,
        temperature=3.0,
        greedy_calls=False,
        seed=1,
    )
    assert "call" in {g.ended for g in found}
    for g in found:
        assert complete(of, g.prompt + g.ids)
        if g.ended == "turn":
            continue
        tool, arguments = call_in(of, g.text)
        assert misfits(arguments, SCHEMAS[tool]) == []
    device, state = DeviceDecoder(of), into_call(of, of.start(prompt("mypt")))[1]
    logits = torch.zeros(1, 50304)
    assert (
        torch.isfinite(device.apply_(logits, [state])[0]).nonzero().flatten().tolist()
        == of.ids(state).tolist()
    )
    assert (device.bias(torch.tensor([state])).numpy() == of.bias([state])).all()
    token = int(of.ids(state)[0])
    assert device.step(torch.tensor([state]), torch.tensor([token])).tolist() == [
        of.next(state, token)
    ]


def test_which_engine() -> None:
    assert Decoder("mypt", TOOLS, engine="auto").engine.whole
    assert not Decoder("mypt", [PLAN], engine="auto").engine.whole
    assert not decoder("mypt", engine="llguidance").engine.whole
    with pytest.raises(EngineError, match="known are table, llguidance, auto"):
        Decoder("mypt", engine="other")
    assert Decoder("gabgpt", MIXED, engine="llguidance").start(prompt("gabgpt"))


def tool(**schema: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": "t",
            "parameters": {"type": "object", "properties": {"a": schema}, "required": ["a"]},
        }
    ]


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
    state = of.run(
        of.start(prompt("mypt")),
        [50261, 50267, *of.dialect.tokenizer.encode('{"name": "t", "a": "')],
    )
    assert sorted({of.dialect.tokenizer.decode([i])[0] for i in of.ids(state).tolist()}) == ["x"]


def test_schemas_are_told_apart() -> None:
    assert not patterned(
        {"properties": {"pattern": {"type": "string", "minLength": 2}}, "const": {"pattern": ""}}
    )
    assert patterned(
        {
            "properties": {
                "a": {"anyOf": [{"type": "string", "format": "date"}]},
                "b": {"type": "string"},
            }
        }
    ) == {"a"}
    assert patterned(
        {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"pattern": "a"}}}
    ) == {""}
    assert patterned(
        {
            "properties": {
                "a": {"properties": {"c": {"pattern": "a"}}},
                "b": {"$ref": "#/properties/a"},
            }
        }
    ) == {"b", "c"}
    assert patterned({"additionalProperties": {"pattern": "a"}}) == {""}
    assert named(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"a": {"type": "array", "items": {"type": "string"}}},
        }
    )
    assert not named({"type": "object", "additionalProperties": False, "properties": {"a": {}}})
    assert not named({"type": "object", "properties": {}})
    assert named(
        {"type": "object", "additionalProperties": False, "properties": {"a": {"enum": [1]}}}
    )


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
    assert where(text.encode()) == (key, member)


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


def test_openers_are_what_the_tests_think() -> None:
    d = made("mypt").dialect
    opener = d.table.openers["toolcall"]
    assert tag_ids(Event(opener.name, opener.spell()), d.table, d.tokenizer) == [50267]
