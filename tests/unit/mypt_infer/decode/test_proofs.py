"""Endings are proved when an id is taken: what is valid can be written, masks are quick whatever the
schema, and what has no ending is drawn again.
"""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_infer.decode import Decoder, Refused, Response
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.compile.nfa import RESPONSE
from mypt_spec.bodies.json_body import call_text
from mypt_spec.bodies.json_schema import misfits
from tests.support.decoding import TOOLS, complete, prompt

pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance import engine
from mypt_infer.decode.llguidance.completion import Search
from tests.unit.mypt_infer.decode.test_engine import MIXED, call_in, into_call

CALL = [50261, 50267]
NUMBER, STRING = {"type": "number"}, {"type": "string"}


def of_members(required: list[str] | None = None, **properties: Any) -> Decoder:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return Decoder("mypt", [{"name": "t", "parameters": schema}], engine="llguidance")


def refused(of: Decoder, text: str, *, budget: int | None = None) -> tuple[str, float]:
    """The first token of a body that is refused, "" if none is; the longest that a step took."""
    state, longest = of.run(of.start(prompt("mypt"), max_new_tokens=budget), CALL), 0.0
    for token in [*of.dialect.tokenizer.encode(text), 50268]:
        began = time.process_time()
        if not of.allowed(state)[token]:
            return of.dialect.tokenizer.decode([token]), longest
        state = of.next(state, token)
        longest = max(longest, time.process_time() - began)
    return "", longest


UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def test_a_value_of_fixed_length_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of its tokens the ending is that of the place before, without as many bytes."""
    made = of_members(a={"pattern": UUID, "type": "string"}, b=STRING)
    searches, real = list[bytes](), Search.ending
    monkeypatch.setattr(Search, "ending", lambda self, *a, **more: searches.append(more["begun"]) or real(self, *a, **more))  # type: ignore[func-returns-value]  # fmt: skip
    body = '{"name": "t", "a": "123e4567-e89b-12d3-a456-426614174000", "b": "c"}'
    assert refused(made, body)[0] == ""
    assert len(searches) <= 1


@pytest.mark.parametrize(
    "properties",
    [
        {"a": NUMBER, "b": NUMBER},
        dict.fromkeys("abcdef", STRING),
        dict.fromkeys("abcdefghijklmnopqrstuvwxyz", NUMBER),
        {"a": {"type": "string", "pattern": "^a"}, "b": STRING, "c": STRING, "d": STRING},
        {"a": {}, "b": {}},
        {"a": {"type": "array", "items": STRING, "minItems": 1000}},
        {"a": {"type": "array", "items": NUMBER, "minItems": 200}, "b": {"pattern": "^ab"}},
        {"a": {"type": "string", "pattern": UUID}, "b": {"type": "string", "pattern": UUID}},
        {"a": {"allOf": [STRING, {"minLength": 20}, {"pattern": "x$"}]}},
        {"a": {"type": "string", "pattern": "^([a-c]{2}-){20}$"}},
        {"a": {"type": "string", "minLength": 3000}},
        {"a": {"type": "integer", "multipleOf": 7, "minimum": 100001}},
    ],
)
@pytest.mark.parametrize("searched", [False, True])
def test_plain_tools_are_read(
    properties: dict[str, Any], searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the schema shows a call, or it has to be searched for."""
    if searched:
        from mypt_infer.decode.llguidance import tools

        monkeypatch.setattr(tools._Opening, "read_off", lambda *_: None)
        properties = {f"{k}_{searched}": v for k, v in properties.items()}
    of = of_members(**properties)
    body = of.dialect.tokenizer.decode(of.engine.guided.endings[1])  # type: ignore[attr-defined]
    call = json.loads(body)
    assert call.pop("name") == "t"
    assert misfits(call, dict(of.tools[0].schema)) == []


@pytest.mark.parametrize(
    ("properties", "required", "values"),
    [
        (
            {"owner": {"type": "string", "maxLength": 50}, "page": {"type": "integer", "minimum": 1}, "repo": STRING},
            ["owner", "repo"],
            [{"owner": "x", "page": 3, "repo": "y"}],
        ),
        (
            {"a": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer", "minimum": -5}, "y": {"type": "integer"}}, "required": ["x", "y"]}}},
            None,
            [{"a": [{"x": 1, "y": 2}, {"x": 33, "y": -2}]}, {"a": []}],
        ),
        (
            {"a": {"type": "array", "items": {"type": "object", "properties": {key: {"type": "string", "maxLength": 9} for key in "wxyz"}, "required": [*"wxyz"]}}},
            None,
            [{"a": [{"w": "1", "x": "2", "y": "33", "z": "ü"}] * 2}],
        ),
        (
            {"at": {"type": "string", "pattern": r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}"}, "doi": {"type": "string", "pattern": r"10\..+/.+"}},
            [],
            [{"at": "on 2024-01-31 10:00, or so", "doi": "10.1000/182"}, {"doi": "doi:10.1/x y"}],
        ),
        ({"a": {"type": "string", "format": "email"}}, None, [{"a": "joe.bloggs@example.com"}]),
        ({"a": {"type": "string", "format": "duration"}}, None, [{"a": "PT36H"}, {"a": "P4DT12H30M5S"}]),
        ({"a": {"type": "string", "format": "date-time"}}, None, [{"a": "1963-06-19T08:30:06.283Z"}]),
        ({"a": {"type": "string", "format": "uri", "minLength": 1}}, None, [{"a": "https://example.com/a/b"}]),
    ],
)  # fmt: skip
def test_what_is_valid_can_be_written(
    properties: dict[str, Any], required: list[str] | None, values: list[dict[str, Any]]
) -> None:
    of = of_members(required, **properties)
    for value in values:
        for budget in (None, 300, 80):
            token, longest = refused(of, json.dumps({"name": "t", **value}, ensure_ascii=False), budget=budget)  # fmt: skip
            assert token == "", (value, budget)
            assert longest < 1, "seconds of one mask; 0.05 to 0.1 is usual"


PARTS = st.sampled_from(
    [
        STRING,
        NUMBER,
        {},
        {"type": "string", "pattern": "^[a-z]+-[0-9]{2}$"},
        {"type": "string", "format": "email"},
        {"type": "string", "pattern": "^(x|[^<]+<myPT_user>)$"},
        {"type": "string", "minLength": 3, "maxLength": 5},
        {"type": "integer", "minimum": 17, "maximum": 900},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        {"type": "object", "additionalProperties": {"type": "null"}},
        {
            "type": "object",
            "properties": {"k": STRING, "long_key": NUMBER},
            "required": ["k", "long_key"],
        },
        {"enum": ["<myPT_user>", "a", 3]},
        {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^ab*c$"}]},
    ]
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(PARTS, min_size=1, max_size=3),
    st.integers(0, 7),
    st.integers(0, 40),
    st.integers(0, 2**32),
)
def test_every_budget_ends_legal(
    parts: list[dict[str, Any]], asked: int, slack: int, seed: int
) -> None:
    """Whatever is drawn, from the least budget on; what is refused when it is taken is drawn again."""
    properties = {f"m{i}": part for i, part in enumerate(parts)}
    required = [k for i, k in enumerate(properties) if asked >> i & 1]
    of = of_members(required, **properties)
    before, choose = of.ids_of(prompt("mypt")), random.Random(seed)
    first, inside = into_call(of, of.start(before))
    budget = len(first) + of.minimum(inside) + slack
    state, out = of.run(of.start(before, max_new_tokens=budget), first), list(first)
    while not of.final(state):
        ids = of.ids(state)
        assert len(ids), of.dialect.tokenizer.decode(out)
        token = int(choose.choice(ids))
        if not of.takes(state, token):
            assert not of.allowed(state)[token], "it is not offered again"
            continue
        out.append(token)
        state = of.next(state, token)
    assert len(out) <= budget
    assert complete(of, before + out), of.dialect.tokenizer.decode(out)
    _, arguments = call_in(of, of.dialect.tokenizer.decode(out))
    assert misfits(arguments, dict(of.tools[0].schema)) == []


def test_what_has_no_ending_is_refused_when_it_is_taken() -> None:
    """So many ids may follow that they are not all proved before; some can only spell a tag."""
    of = of_members(a={"type": "string", "pattern": "^(x|q[^<]*<myPT_user>[^y]+|[^<q]+y)$"})
    state = of.run(of.start(prompt("mypt")), CALL)
    state = of.run(state, of.dialect.tokenizer.encode('{"name": "t", "a": "'))
    assert of.unproved(state)
    count, dead = of.allow(state).count, of.dialect.tokenizer.encode("q")[0]
    assert of.allowed(state)[dead]
    with pytest.raises(Refused, match="no ending was found"):
        of.next(state, dead)
    assert not of.allowed(state)[dead]
    assert of.allow(state).count == count - 1
    assert sum(of.refusals.values()) == 1
    with pytest.raises(ValueError, match="is not allowed"):
        of.next(state, dead)
    assert of.takes(state, of.dialect.tokenizer.encode("x")[0])


def test_a_search_keeps_few_matchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds all that it has read, so one at each place of a long search would fill memory."""
    from mypt_infer.decode.llguidance import completion

    places: list[Any] = []
    made = completion._Place
    monkeypatch.setattr(completion, "_Place", lambda *a: places.append(made(*a)) or places[-1])
    of = of_members(a={"type": "string"})
    guided = of.engine.guided  # type: ignore[attr-defined]
    search = guided.ground.search
    here, at = guided.first[0].deep_copy(), search.lexemes.first
    begun = [search.id_of[b] for b in b'{"name": "t", "a": "']
    assert here.consume_tokens(begun)
    monkeypatch.setattr(search, "inside", search.inside[search.inside != search.id_of[34]])
    monkeypatch.setattr(search, "_orders", {})
    found = search.ending(here, search.lexemes.run(at, begun), most=1200)
    assert found.tokens is None
    assert len(places) > 1000
    assert sum(p.matcher is not None for p in places) < 150


def test_a_large_answer_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search among strings that llguidance does not bind may take thousands of places."""
    from mypt_infer.decode import Response
    from mypt_infer.decode.llguidance.completion import Search

    patterned = {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}
    schema = {
        "type": "object",
        "properties": {"version": patterned, "lists": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["version", "lists"],
        "additionalProperties": False,
    }
    monkeypatch.setattr(Search, "ending", None)
    of = Decoder("praxis", response=Response(schema=schema))
    body = of.dialect.tokenizer.decode(of.engine.guided.endings[-1])  # type: ignore[attr-defined]
    assert json.loads(body) == {"version": "0-0", "lists": []}


def test_refused_draws_are_counted() -> None:
    torch = pytest.importorskip("torch")
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.loop import plain

    of = of_members(a={"type": "string", "pattern": "^(x|q[^<]*<myPT_user>[^y]+|[^<q]+y)$"})
    encode = of.dialect.tokenizer.encode
    script = [*CALL, *encode('{"name": "t", "a": "')]
    begin = len(of.ids_of(prompt("mypt")))

    def model(ids: Any) -> Any:
        logits = torch.zeros(1, ids.shape[1], 50304)
        at = ids.shape[1] - begin
        logits[..., script[at] if at < len(script) else encode("q")[0]] += 40.0
        return logits

    found = generate(plain(model, 50304), [prompt("mypt")], decoder=of, max_new_tokens=300, seed=1)[
        0
    ]
    assert found.redrawn == 1
    assert complete(of, found.prompt + found.ids), found.text


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", ["mypt", "usf-omega"])
def test_threads_get_the_masks_of_one_thread(shared: bool, name: str) -> None:
    """Two threads, each with its decoder or both with one, walk through calls at the same time."""
    tools = [{**t, "name": f"{t['name']}_{name}_{shared}"} for t in (*MIXED, TOOLS[1])]

    def walk(of: Decoder, seed: int, out: dict[int, Any]) -> None:
        choose = random.Random(seed)
        try:
            _, state = into_call(of, of.start(prompt(name), max_new_tokens=90))
            found = []
            while not of.final(state):
                ids = of.ids(state)
                token = int(choose.choice(ids))
                found.append((token, hash(ids.tobytes())))
                if of.takes(state, token):
                    state = of.next(state, token)
            out[seed] = found
        except Exception as error:  # a thread's error must reach the test
            out[seed] = error

    alone: dict[int, Any] = {}
    for seed in range(8):
        walk(Decoder(name, tools, engine="llguidance"), seed, alone)
    together: dict[int, Any] = {}
    one = Decoder(name, tools, engine="llguidance")
    decoders = [one if shared else Decoder(name, tools, engine="llguidance") for _ in range(8)]
    threads = [
        threading.Thread(target=walk, args=(of, seed, together)) for seed, of in enumerate(decoders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


BOUND = [
    {"type": "string", "pattern": "^[a-z<]+-[0-9]{2}$"},
    {"type": "string", "pattern": "^[a<]tin>?$"},
    {"type": "string", "pattern": "^(ab|q<myPT_user>|[<#]x+)$"},
    {"type": "string", "format": "date"},
    {"enum": ["<myPT_user>", "<my", "a", "[INST]", 3]},
    {"type": "integer", "minimum": -40, "maximum": 90},
    {"type": "number"},
    {
        "type": "object",
        "patternProperties": {"^(<a|b[<]?)$": NUMBER},
        "additionalProperties": False,
    },
    {"allOf": [{"pattern": "^[ab<]+$"}, {"pattern": "^[cd<]+$"}]},
]


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["mypt", "praxis", "mistral"]),
    st.lists(st.sampled_from(BOUND), min_size=1, max_size=2),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_what_is_not_proved_has_an_ending(
    name: str, parts: list[dict[str, Any]], answer: bool, choose: random.Random
) -> None:
    """Few ids are proved before they are offered; to prove them all refuses no more of them."""
    schema = {
        "type": "object",
        "properties": {f"m{i}": part for i, part in enumerate(parts)},
        "required": [f"m{i}" for i in range(len(parts))],
        "additionalProperties": False,
    }
    tool = [{"name": "t", "parameters": schema}]
    of = Decoder(name, response=Response(schema=schema)) if answer else Decoder(name, tool, engine="llguidance")  # fmt: skip
    inner = getattr(of.engine, "engine", of.engine)  # of lists, whose ids another one tells apart
    guided = inner.guided
    hole = next(s for s, (hole, _) in guided.tables.holes.items() if (hole == RESPONSE) == answer)
    state = guided.enter(hole)
    for _ in range(25):
        offered, place = guided.offered(state), guided._place(state)
        bits = guided._agreed(state, place)
        if place.is_bound and int(np.unpackbits(bits).sum()) <= engine._FEW:
            proved = guided._proofs(state, place, bits, soon=True)
            assert not any(offered.has(i) for i in proved.none.tolist())
            assert set(proved.ids.tolist()) <= {*offered.ids.tolist()}
        ids, words = offered.ids.tolist(), guided.ground.search.vocabulary.tokens
        tagged = [i for i in ids if b"<" in words[i]]
        token = choose.choice(tagged if tagged and choose.random() < 0.4 else ids)
        then = guided.next(state, token)
        if not then:
            assert not guided.offered(state).has(token)
        elif then < guided.size:
            break
        else:
            state = then


@pytest.mark.parametrize(
    ("name", "part", "begun", "dead"),
    [
        ("praxis", {"type": "string", "pattern": "^[a<]tin>$"}, ' "', "<"),
        ("praxis", {"type": "string", "pattern": "^[a<]tin>$"}, "", ' "<'),
        ("mypt", {"type": "string", "pattern": "^(x|q<myPT_user>)$"}, ' "', "q"),
        ("mypt", {"enum": ["<myPT_user>", "<my", 3]}, ' "<my', "PT"),
        ("mypt", {"type": "integer"}, " -", "0"),
    ],
)
def test_what_begins_a_dead_end_is_not_offered(
    name: str, part: dict[str, Any], begun: str, dead: str
) -> None:
    """Though llguidance and the companion take it, each by itself."""
    schema = {"type": "object", "properties": {"a": part}, "required": ["a"]}
    of = Decoder(name, [{"name": "t", "parameters": schema}], engine="llguidance")
    guided: Any = of.engine.guided  # type: ignore[attr-defined]
    state = guided.enter(next(s for s, (hole, _) in guided.tables.holes.items() if hole >= 0))
    encode = of.dialect.tokenizer.encode
    whole = call_text("t", {"a": 0}, of.dialect.table.literals, call_ends(of.dialect)[0])
    for token in encode(whole[: whole.index('"a":') + 4] + begun):
        state = guided.next(state, token)
    (token,) = encode(dead)
    place = guided._place(state)
    assert guided.ground.takes(place.companion).bits[token >> 3] >> (token & 7) & 1
    assert place.matcher.validate_tokens([token]) == 1
    assert not guided.offered(state).has(token)


def test_a_search_ends_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the value of an optional member, the required ones are those of the ending before."""
    from mypt_infer.decode.llguidance.completion import Search

    looked: list[bytes] = []
    plain = Search._read

    def counted(search: Search, here: Any, at: int, text: bytes, *args: Any, **options: Any) -> Any:
        looked.append(text)
        return plain(search, here, at, text, *args, **options)

    required = {f"r{i}": {"type": "string", "pattern": f"^{i}[a-z]{{5}}-x$"} for i in range(12)}
    optional = {"type": "object", "properties": {"b": STRING}, "required": ["b"]}
    of = of_members([*required], first=optional, **required)
    monkeypatch.setattr(Search, "_read", counted)
    assert refused(of, '{"name": "t", "first": {"b": "')[0] == "</myPT_toolcall>"
    assert 0 < len(looked) < 8, looked
