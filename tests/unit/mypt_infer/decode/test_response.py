"""Answers whose text a caller binds: every generation has a text that fits, within its budget."""

from __future__ import annotations

import builtins
import json
import random
import re
import warnings
from functools import cache
from typing import Any

import pytest

from mypt_infer.decode import (
    BudgetError,
    Decoder,
    PromptError,
    Response,
    ResponseError,
    SchemaWarning,
)
from mypt_infer.decode.base.tools import SchemaFault
from mypt_infer.decode.limits import unpacked
from mypt_infer.decode.llguidance.grammar import EngineError
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.lexer import lex_ids
from mypt_spec.states import calling_blocks, open_blocks
from tests.support.decoding import TOOLS, complete, prompt, walk
from tests.support.dialects import FEW
from tests.support.examples import either
from tests.support.scripted import ids_of

pytest.importorskip("llguidance")

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 31}},
        "sure": {"type": "boolean"},
    },
    "required": ["city", "sure"],
    "additionalProperties": False,
}
LARK = 'start: greeting (", " greeting)*\ngreeting: "Hello " NAME\nNAME: /[A-Z][a-zé]{2,6}/'
GREETINGS = re.compile("Hello [A-Z][a-zé]{2,6}(, Hello [A-Z][a-zé]{2,6})*")
WAYS: dict[str, tuple[Response, Any]] = {
    "regex": (Response(regex=r"^(yes|no|perhaps /[a-z]+/), \d{2,4}$"), re.compile(r"(yes|no|perhaps /[a-z]+/), \d{2,4}").fullmatch),
    "schema": (Response(schema=SCHEMA), lambda text: misfits(json.loads(text), SCHEMA) == []),
    "lark": (Response(lark=LARK), GREETINGS.fullmatch),
    "any": (Response(regex=r"(.|\n)+"), lambda text: text),
}  # fmt: skip


@cache
def response_decoder(name: str, way: str, engine: str = "table") -> Decoder:
    return Decoder(name, TOOLS[:2], response=WAYS[way][0], engine=engine)


def answers(of: Decoder, before: list[int], new: list[int]) -> list[str]:
    """The texts of answers in what is new, by the automaton alone."""
    d = of.dialect
    stacks, state, out, own = open_blocks(d.automaton, d.table), d.automaton.start, [], 0
    own = len(lex_ids(before, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)[0])
    ids = before + new
    events, _ = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    for at, event in enumerate(events):
        opener = d.table.openers[stacks[state][-1]] if stacks[state] else None
        if at >= own and event.terminal == "TEXT" and opener is not None:
            out += [event.text] if opener.body == "text" and not opener.role else []
        state = d.automaton.steps[state][event.terminal]
    return out


EACH = [
    *((name, "regex") for name in FEW),
    *((name, way) for name in ("gabgpt", "mypt", "praxis") for way in ("schema", "lark", "any")),
]


@pytest.mark.parametrize(("name", "way"), EACH)
def test_each_answer_fits_within_its_budget(name: str, way: str) -> None:
    of, fits = response_decoder(name, way), WAYS[way][1]
    before = of.ids_of(prompt(name))
    least, count = of.minimum(of.start(before)), 0
    with pytest.raises(BudgetError, match=f"takes {least} tokens"):
        of.start(before, max_new_tokens=least - 1)
    for budget in (least, least + 2, 40):
        ids = walk(of, of.start(before, max_new_tokens=budget), random.Random(budget))
        assert len(ids) <= budget
        assert complete(of, before + ids), of.dialect.tokenizer.decode(ids)
        texts = answers(of, before, ids)
        assert len(texts) <= 1
        assert all(map(fits, texts)), texts
        episode, _ = of.dialect.parse_ids(before + ids)
        last = episode.messages[-1] if episode is not None else None
        kinds = {last.role, *(part.kind for part in last.parts)} if last is not None else set()
        calls = kinds & calling_blocks(of.dialect.table)
        assert texts or last is None or calls, "without an answer, a call ends the turn"
        count += len(texts)
    assert count


@pytest.mark.numeric
@pytest.mark.parametrize("name", ["mypt", "usf-omega", "praxis"])
def test_calls_that_llguidance_reads_are_beside_the_answer(name: str) -> None:
    """The engine "llguidance" has holes for both; tensors and the loop of a model know them."""
    torch = pytest.importorskip("torch")
    from mypt_infer.generate.generate import generate
    from mypt_infer.generate.loop import plain

    of = response_decoder(name, "regex", "llguidance")
    before = of.ids_of(prompt(name))
    ended = set()
    for seed in range(either(3, 6)):
        state = of.start(before, max_new_tokens=60)
        ids = walk(of, state, random.Random(seed))
        for token in ids:
            state = of.next(state, token)
        texts = answers(of, before, ids)
        assert all(map(WAYS["regex"][1], texts))
        ended.add("answer" if texts else "call")
    assert "answer" in ended
    flat = torch.zeros(1, 1, 50304)
    model = plain(lambda ids: flat.expand(1, ids.shape[1], -1), 50304)
    (one,) = generate(model, [before], decoder=of, max_new_tokens=40, seed=2)
    assert complete(of, before + one.ids)
    assert all(map(WAYS["regex"][1], answers(of, before, one.ids)))


@pytest.mark.parametrize("name", ["gabgpt", "mypt", "praxis", "mypt-3b"])
def test_a_prompt_may_stop_within_the_answer(name: str) -> None:
    of = response_decoder(name, "regex")
    first = of.ids_of(prompt(name))
    ids = walk(of, of.start(first), random.Random(1))
    while not answers(of, first, ids):
        ids = walk(of, of.start(first), random.Random(sum(ids)))
    state = of.start(first)
    for n, token in enumerate(ids):
        assert of.start(first + ids[:n]) == state
        state = of.next(state, token)


def test_an_answer_that_was_begun_otherwise_is_refused() -> None:
    of = response_decoder("gabgpt", "regex")
    of.start(ids_of("<|user|>Hi<|assistant|>ye", of.dialect))
    with pytest.raises(PromptError, match="begun with 'maybe' cannot be ended as the response"):
        of.start(ids_of("<|user|>Hi<|assistant|>maybe", of.dialect))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "name one"),
    ({"regex": "a", "lark": 'start: "a"'}, "name one"),
    ({"regex": 5}, "regex is a text, got int"),
    ({"schema": False}, "no text fits"),
    ({"regex": "a("}, 'the regex of the response: invalid regex "\\(a\\(\\)": unclosed group'),
    ({"regex": "(?=a)b"}, "look-around"),
    ({"regex": ""}, "no text was found that fits"),
    ({"regex": r"<\|user\|>"}, "spells no tag"),
    ({"lark": "start: what"}, 'the lark of the response: unknown name: "what"'),
    ({"schema": {"not": {"type": "null"}}}, "the schema of the response: .*not"),
]


@pytest.mark.parametrize(("options", "why"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_no_response_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ResponseError, match=why):
        Decoder("gabgpt", response=Response(**options))


def test_a_bad_schema_is_refused_with_its_place() -> None:
    with pytest.raises(SchemaFault, match="/properties/a/type: 'strin' is not a type"):
        Response(schema={"properties": {"a": {"type": "strin"}}})
    with pytest.raises(SchemaFault, match="'optional' would be read as nothing"):
        Response(schema={"optional": True}, strict=True)


def test_unknown_keywords_of_a_schema_say_nothing() -> None:
    """Annotations of other tools say nothing of a value, in a schema of the answer as in tools."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-order": 1}}, "x-kind": 2}
    with pytest.warns(SchemaWarning, match="read as nothing in the schema of the response: x-kind, x-order"):  # fmt: skip
        response = Response(schema=schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "x-" not in response.grammar.replace("x-guidance", "")
    with pytest.raises(SchemaFault, match="'x-kind', 'x-order' would be read as nothing"):
        Response(schema=schema, strict=True)


def test_without_llguidance_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("llguidance"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EngineError, match=r"not installed: pip install 'mypt-tags\[llguidance\]'"):
        Decoder("gabgpt", response=Response(regex="a"))


def test_a_slash_a_line_and_anchors_in_a_regex() -> None:
    for regex, text in ((r"^a/b\/c$", "a/b/c"), ("a\nb", "a\nb"), (r"a\$", "a$"), ("a|bb", "a")):
        of = Decoder("gabgpt", response=Response(regex=regex))
        state = of.run(of.start(prompt("gabgpt")), ids_of(f"<|assistant|>{text}", of.dialect))
        assert of.dialect.tokenizer.special["<|end|>"] in of.ids(state), regex


def test_keys_follow_a_number_that_no_float_holds() -> None:
    """Its ids were allowed, so what follows is not refused because of them."""
    of = Decoder("mypt", response=Response(schema={"type": "object"}))
    state = of.run(of.start(prompt("mypt")), [of.dialect.tokenizer.special["<myPT_assistant>"]])
    state = of.run(state, of.dialect.tokenizer.encode('{"a": 1e309, "'))
    for key in ("b", "sh"):
        (token,) = of.dialect.tokenizer.encode(key)
        assert of.allow(state).has(token)
        assert of.takes(state, token)


LONGER = [
    (Response(regex="[0-9]+"), "12340"),
    (Response(regex="ab{0,5}(cd)?"), "abbcd"),
    (Response(regex="qbx|qzbx?"), "qzb"),  # where `bx` is known to end `q`, and `qz`
    (Response(regex="(yes|no), because .{5,200}"), "no, because it rains"),
    (Response(lark='start: "a" "b"*'), "abb"),
    (Response(schema={"type": "number"}), "-12.5"),
    (Response(schema={"enum": [1, 12, "x"]}), "12"),
]


@pytest.mark.parametrize("name", ["mypt", "qwen3", "praxis"])
@pytest.mark.parametrize(("response", "text"), LONGER)
def test_an_answer_that_may_end_may_go_on(name: str, response: Response, text: str) -> None:
    of = Decoder(name, response=response)
    ids = [of.dialect.tokenizer.encode(char)[0] for char in text]
    before = of.ids_of(prompt(name))
    state = of.start(before)
    if not of.allow(state).has(ids[0]):
        tags = of.dialect.tokenizer.special.values()
        before.append(
            next(
                t
                for t in tags
                if of.allow(state).has(t) and of.allow(of.next(state, t)).has(ids[0])
            )
        )
        state = of.next(state, before[-1])
    for token in ids:
        assert of.allow(state).has(token), of.dialect.tokenizer.decode([token])
        state = of.next(state, token)
    ends = [i for i in of.dialect.tokenizer.special.values() if of.allow(state).has(i)]
    assert ends
    rest = walk(of, state, random.Random(1))
    assert complete(of, before + ids + rest)


@pytest.mark.parametrize(
    ("regex", "texts", "refused"),
    [("a[<b]*", ["a"], "x"), ("a(<b)?", ["a"], "b"), ("a <(/assistant>x)?", ["a", " <"], "/")],
)
def test_a_tag_of_plain_text_after_an_answer_is_no_part_of_it(
    regex: str, texts: list[str], refused: str
) -> None:
    of = Decoder("mypt-3b", response=Response(regex=regex))
    encode = of.dialect.tokenizer.encode
    state = of.start([*of.ids_of(prompt("mypt-3b")), *encode("<assistant>")])
    for text in texts:
        state = of.next(state, *encode(text))
    ids = of.engine.allow(unpacked(state)[0]).ids.tolist()
    assert sorted({*ids}) == ids  # none is there for the text, and once more for the tag
    assert encode("<")[0] in ids
    assert encode(refused)[0] not in ids
