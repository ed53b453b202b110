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
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mypt_infer.decode import Decoder, Refused, Response
from mypt_infer.decode.compile.grammar_graph import call_ends
from mypt_infer.decode.decoder import machine
from mypt_spec.bodies.json_body import call_text
from mypt_spec.bodies.json_schema import misfits
from tests.support.build import function
from tests.support.decoding import (
    CALL,
    CALL_END,
    GUIDED_TOOLS,
    TOOLS,
    calls_in,
    complete,
    in_call,
    into_call,
    prompt,
    requiring,
)
from tests.support.examples import either

pytest.importorskip("llguidance")
from mypt_infer.decode.llguidance import completion, tools
from mypt_infer.decode.llguidance.completion import Search

NUMBER, STRING = {"type": "number"}, {"type": "string"}
UUID = {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}  # fmt: skip


def of_members(required: list[str] | None = None, /, **properties: Any) -> Decoder:
    """A decoder of a tool with these arguments, all of which are required unless some are named."""
    tool = function("t", properties, required=[*properties] if required is None else required)
    return Decoder("mypt", [tool], engine="llguidance")


def string_of(pattern: str) -> Decoder:
    return of_members(a={"type": "string", "pattern": pattern})


def first_refused(of: Decoder, text: str, *, budget: int | None = None) -> tuple[str, float]:
    """The first token of a body that is refused, "" if none is; the longest that a step took."""
    state, longest = in_call(of, budget=budget), 0.0
    for token in [*of.dialect.tokenizer.encode(text), CALL_END]:
        began = time.process_time()
        if not of.allowed(state)[token]:
            return of.dialect.tokenizer.decode([token]), longest
        state = of.next(state, token)
        longest = max(longest, time.process_time() - began)
    return "", longest


def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that will have, of each search for an ending, how many places it looked at."""
    looked, ending = list[int](), Search.ending

    def counted(self: Search, *args: Any, **options: Any) -> Any:
        result = ending(self, *args, **options)
        looked.append(result.looked)
        return result

    monkeypatch.setattr(Search, "ending", counted)
    return looked


def test_a_value_of_fixed_length_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of its tokens the ending is that of the place before, without as many bytes."""
    made, looked = of_members(a=UUID, b=STRING), searches(monkeypatch)
    body = '{"name": "t", "a": "123e4567-e89b-12d3-a456-426614174000", "b": "c"}'
    assert first_refused(made, body)[0] == ""
    assert len(looked) <= 1


def test_a_search_ends_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the value of an optional member, the required ones are those of the ending before."""
    required = {f"r{i}": {"type": "string", "pattern": f"^{i}[a-z]{{5}}-x$"} for i in range(12)}
    optional = {"type": "object", "properties": {"b": STRING}, "required": ["b"]}
    of = of_members([*required], first=optional, **required)
    looked = searches(monkeypatch)
    assert first_refused(of, '{"name": "t", "first": {"b": "')[0] == "</myPT_toolcall>"
    assert 0 < sum(looked) < 8, looked


def test_many_required_members_are_proved_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that may be over is not made longer to look for an ending."""
    deep = requiring(**dict.fromkeys("abcdef", NUMBER))["function"]["parameters"]
    of = Decoder("mypt", response=Response(schema={"properties": {"x": {}, "deep": deep}}))
    looked, state = searches(monkeypatch), of.next(of.start(prompt("mypt")), CALL[0])
    ids = of.dialect.tokenizer.encode('{"x": 1, "deep": {"a": 3.5')
    assert of.accepts(state, ids) == len(ids)
    assert looked
    assert max(looked) < 60


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
        {"a": UUID, "b": UUID},
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
        monkeypatch.setattr(tools._Opening, "read_off", lambda *_: None)
        properties = {f"{k}_{searched}": v for k, v in properties.items()}
    of = of_members(**properties)
    call = json.loads(of.dialect.tokenizer.decode(of.engine.endings[1]))  # type: ignore[attr-defined]
    assert call.pop("name") == "t"
    assert misfits(call, dict(of.tools[0].schema)) == []


LIMITED = {"owner": {"type": "string", "maxLength": 50}, "page": {"type": "integer", "minimum": 1}, "repo": STRING}  # fmt: skip
POINT = {"x": {"type": "integer", "minimum": -5}, "y": {"type": "integer"}}
FOUR = {key: {"type": "string", "maxLength": 9} for key in "wxyz"}
PATTERNS = {"at": {"type": "string", "pattern": r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}"}, "doi": {"type": "string", "pattern": r"10\..+/.+"}}  # fmt: skip


def list_of(properties: dict[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": [*properties]}
    return {"a": {"type": "array", "items": item}}


def format_of(kind: str, **more: Any) -> dict[str, Any]:
    return {"a": {"type": "string", "format": kind, **more}}


@pytest.mark.parametrize(
    ("properties", "required", "values"),
    [
        (LIMITED, ["owner", "repo"], [{"owner": "x", "page": 3, "repo": "y"}]),
        (list_of(POINT), None, [{"a": [{"x": 1, "y": 2}, {"x": 33, "y": -2}]}, {"a": []}]),
        (list_of(FOUR), None, [{"a": [{"w": "1", "x": "2", "y": "33", "z": "ü"}] * 2}]),
        (PATTERNS, [], [{"at": "on 2024-01-31 10:00, or so", "doi": "10.1000/182"}, {"doi": "doi:10.1/x y"}]),
        (format_of("email"), None, [{"a": "joe.bloggs@example.com"}]),
        (format_of("duration"), None, [{"a": "PT36H"}, {"a": "P4DT12H30M5S"}]),
        (format_of("date-time"), None, [{"a": "1963-06-19T08:30:06.283Z"}]),
        (format_of("uri", minLength=1), None, [{"a": "https://example.com/a/b"}]),
    ],
)  # fmt: skip
def test_what_is_valid_can_be_written(
    properties: dict[str, Any], required: list[str] | None, values: list[dict[str, Any]]
) -> None:
    of = of_members(required, **properties)
    for value in values:
        for budget in (None, 300, 80):
            body = json.dumps({"name": "t", **value}, ensure_ascii=False)
            token, longest = first_refused(of, body, budget=budget)
            assert token == "", (value, budget)
            assert longest < 5, "processor seconds of one mask; 0.05 to 0.1 is usual"


PARTS = [
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
    {"type": "object", "properties": {"k": STRING, "long_key": NUMBER}, "required": ["k", "long_key"]},
    {"enum": ["<myPT_user>", "a", 3]},
    {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^ab*c$"}]},
]  # fmt: skip


@settings(max_examples=either(3, 30), deadline=None)
@given(
    parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
    mask=st.integers(0, 7),
    slack=st.integers(0, 40),
    seed=st.integers(0, 2**32),
)
@example(parts=PARTS[3:6], mask=7, slack=0, seed=1)
@example(parts=PARTS[6:9], mask=5, slack=1, seed=2)
@example(parts=PARTS[9:], mask=11, slack=9, seed=3)
def test_every_budget_ends_legal(
    parts: list[dict[str, Any]], mask: int, slack: int, seed: int
) -> None:
    """Whatever is drawn, from the least budget on; what is refused when it is taken is drawn again."""
    properties = {f"m{i}": part for i, part in enumerate(parts)}
    of = of_members([k for i, k in enumerate(properties) if mask >> i & 1], **properties)
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
    (call,) = calls_in(of, before + out)
    assert misfits(call.arguments, dict(of.tools[0].schema)) == []


def test_what_has_no_ending_is_refused_when_it_is_taken() -> None:
    """So many ids may follow that they are not all proved before; some can only spell a tag."""
    of = string_of("^(x|q[^<]*<myPT_user>[^y]+|[^<q]+y)$")
    state = in_call(of, '{"name": "t", "a": "')
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
    assert not of.takes(state, dead), "nor is it taken by who holds what was allowed before"
    assert of.takes(state, of.dialect.tokenizer.encode("x")[0])


def test_a_search_keeps_few_matchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds all that it has read, so one at each place of a long search would fill memory."""
    places: list[Any] = []
    made = completion._Place
    monkeypatch.setattr(completion, "_Place", lambda *a: places.append(made(*a)) or places[-1])
    of = of_members(a={"type": "string"})
    guided = of.engine  # type: ignore[attr-defined]
    search = guided.ground.search
    here, at = guided.first[0].deep_copy(), search.lexemes.first
    begun = [search.id_of[b] for b in b'{"name": "t", "a": "']
    assert here.consume_tokens(begun)
    monkeypatch.setattr(search, "inside", search.inside[search.inside != search.id_of[34]])
    monkeypatch.setattr(search, "_orders", {})
    result = search.ending(here, search.lexemes.run(at, begun), most=1200)
    assert result.tokens is None
    assert len(places) > 1000
    assert sum(p.matcher is not None for p in places) < 150


def test_a_large_answer_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search among strings that llguidance does not bind may take thousands of places."""
    patterned = {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}
    schema = {
        "type": "object",
        "properties": {"version": patterned, "lists": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["version", "lists"],
        "additionalProperties": False,
    }
    monkeypatch.setattr(Search, "ending", None)
    of = Decoder("praxis", response=Response(schema=schema))
    body = of.dialect.tokenizer.decode(of.engine.endings[-1])  # type: ignore[attr-defined]
    assert json.loads(body) == {"version": "0-0", "lists": []}


@pytest.mark.numeric
def test_refused_draws_are_counted() -> None:
    torch = pytest.importorskip("torch")
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.loop import plain

    of = string_of("^(x|q[^<]*<myPT_user>[^y]+|[^<q]+y)$")
    encode = of.dialect.tokenizer.encode
    script = [*CALL, *encode('{"name": "t", "a": "'), *encode("q")]
    begin = len(of.ids_of(prompt("mypt")))

    def model(ids: Any) -> Any:
        logits, at = torch.zeros(50304), ids.shape[1] - begin
        logits[encode("x")] = 20.0  # if there is no way on with "q"
        logits[script[min(at, len(script) - 1)]] = 40.0
        return logits.expand(1, ids.shape[1], -1)

    (answer,) = generate(plain(model, 50304), [prompt("mypt")], decoder=of, max_new_tokens=300, seed=1)  # fmt: skip
    assert answer.redrawn == 1
    assert complete(of, answer.prompt + answer.ids), answer.text


THREADS = [("mypt", True), ("usf-omega", False)]


@pytest.mark.parametrize(("name", "shared"), either(THREADS, [*THREADS, ("mypt", False), ("usf-omega", True)]))  # fmt: skip
def test_threads_get_the_masks_of_one_thread(name: str, shared: bool) -> None:
    """Threads, each with its decoder or all with one, walk through calls at the same time."""
    tools = [{**t, "name": f"{t['name']}_{name}_{shared}"} for t in (*GUIDED_TOOLS, TOOLS[1])]
    count = either(2, 8)

    def masks(of: Decoder, seed: int, out: dict[int, Any]) -> None:
        choose = random.Random(seed)
        try:
            _, state = into_call(of, of.start(prompt(name), max_new_tokens=either(60, 90)))
            rows = out.setdefault(seed, [])
            while not of.final(state):
                ids = of.ids(state)
                token = int(choose.choice(ids))
                rows.append((token, hash(ids.tobytes())))
                if of.takes(state, token):
                    state = of.next(state, token)
        except Exception as error:  # a thread's error must reach the test
            out[seed] = error

    alone: dict[int, Any] = {}
    for seed in range(count):
        masks(Decoder(name, tools, engine="llguidance"), seed, alone)
    together: dict[int, Any] = {}
    one = Decoder(name, tools, engine="llguidance")
    decoders = [one if shared else Decoder(name, tools, engine="llguidance") for _ in alone]
    threads = [
        threading.Thread(target=masks, args=(of, seed, together))
        for seed, of in enumerate(decoders)
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
    {"type": "object", "patternProperties": {"^(<a|b[<]?)$": NUMBER}, "additionalProperties": False},
    {"allOf": [{"pattern": "^[ab<]+$"}, {"pattern": "^[cd<]+$"}]},
]  # fmt: skip


@settings(max_examples=either(6, 12), deadline=None)
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
    properties = {f"m{i}": part for i, part in enumerate(parts)}
    tool = function("t", properties, required=[*properties], additionalProperties=False)
    bound: Any = {"response": Response(schema=tool["function"]["parameters"])} if answer else {"tools": [tool], "engine": "llguidance"}  # fmt: skip
    of = Decoder(name, **bound)
    words = [of.dialect.tokenizer.decode_bytes([i]) for i in of.dialect.tokenizer.ordinary]
    _, state = into_call(of, of.start(prompt(name)))
    proved = 0
    for _ in range(25):
        if of.final(state) or machine(state) < of.tables.size:
            break
        offered = of.ids(state).tolist()
        if len(offered) <= 1000 and not of.unproved(
            state
        ):  # which proves all where few are offered
            assert np.flatnonzero(of.allowed(state)).tolist() == offered
            proved += 1
        tagged = [i for i in offered if i < len(words) and b"<" in words[i]]
        token = choose.choice(tagged if tagged and choose.random() < 0.4 else offered)
        if of.takes(state, token):
            state = of.next(state, token)
        else:
            assert not of.allowed(state)[token]
    assert proved


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
    """Though the schema and the dialect take it, each by itself."""
    of = Decoder(name, [requiring(a=part)], engine="llguidance")
    encode = of.dialect.tokenizer.encode
    body = call_text("t", {"a": 0}, of.dialect.table.literals, call_ends(of.dialect)[0])
    _, state = into_call(of, of.start(prompt(name)))
    state = of.run(state, encode(body[: body.index('"a":') + 4] + begun))
    (token,) = encode(dead)
    assert len(of.ids(state))
    assert not of.allowed(state)[token]
