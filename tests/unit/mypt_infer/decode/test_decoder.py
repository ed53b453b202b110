"""The decoder by example: allow sets, tools, prompts, budgets, and errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import pytest

from mypt_infer.decode import BudgetError, Decoder, PromptError, SchemaFault, ToolSpec, declare
from mypt_infer.decode.decoder import machine
from mypt_spec.episode import Episode, Message, Part, events_of
from tests.support.build import function
from tests.support.decoding import (
    CALL,
    CALL_END,
    DIALECTS,
    TOOLS,
    decoder,
    in_call,
    message,
    nearest,
    prompt,
    takes_body,
)
from tests.support.scripted import ids_of

A, E = "<myPT_assistant>", "</myPT_assistant>"


def tags(made: Decoder, state: int) -> list[str]:
    """The single-id tags that may come next."""
    names = {i: tag for tag, i in made.dialect.tokenizer.special.items()}
    return [names[i] for i in made.ids(state).tolist() if i in names]


def after(made: Decoder, text: str) -> int:
    """The state after the prompt and a text of the model, with its tags by their ids."""
    return made.run(made.start(prompt(made.dialect.name)), ids_of(text, made.dialect))


def encode(text: str) -> list[int]:
    return decoder("mypt").dialect.tokenizer.encode(text)


def test_only_the_model_s_tags_are_offered() -> None:
    made = decoder("mypt")
    state = made.start(prompt("mypt"))
    assert tags(made, state) == ["<myPT_assistant>"]
    assert len(made.ids(state)) == 1
    opened = tags(made, after(made, A))
    assert opened == ["<myPT_toolcall>", "<myPT_think>", "<myPT_cite>"]
    assert tags(made, after(made, f"{A}Hello")) == [E, "<myPT_cite>"]
    assert tags(made, after(made, f"{A}Hello{E}")) == ["<myPT_eot>"]
    state = after(made, f"{A}Hello{E}<myPT_eot>")
    assert made.final(state)
    assert not len(made.ids(state))


def test_without_tools_there_are_no_calls() -> None:
    made = decoder("mypt", tools=False)
    assert "<myPT_toolcall>" not in tags(made, after(made, A))


def test_a_call_hands_over_to_the_system() -> None:
    made = decoder("mypt")
    state = after(made, f'{A}<myPT_toolcall>{{"name": "list_docs"}}</myPT_toolcall>{E}')
    assert made.final(state)
    assert not len(made.ids(state)), "the result is for the system to write"


def test_an_id_in_the_tag_of_a_call_is_not_the_name_of_the_tool() -> None:
    folder = "mistral-v11"
    assert Decoder(folder)
    with pytest.raises(ValueError, match="nothing says which 'id' a model may write in"):
        Decoder(folder, [function("f")])


def test_an_undeclared_tool_is_refused_at_its_first_token() -> None:
    made = decoder("mypt")
    ids, allowed = encode('{"name": "delete"}'), encode('{"name": "')
    state = in_call(made, '{"name": "')
    assert ids[: len(allowed)] == allowed
    assert not made.allowed(state)[ids[len(allowed)]]
    with pytest.raises(ValueError, match="not allowed"):
        made.next(state, ids[len(allowed)])


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "search", "query": "a\\n\\"b\\" \\\\ \\u0001 ü 漢 🎉", "top_k": -12, "min_score": 0.25, "exact": true, "kind": "notes"}',
        '{"name": "search", "query": "", "kind": 10}',
        '{"name": "search", "query": "", "kind": null}',
        '{"name": "search_all", "tags": ["a", 3, null], "where": {"day": 1, "month": 2}}',
        '{"name": "search_all", "tags": [], "where": {"month": 0}}',
        '{"name": "list_docs"}',
    ],
)
@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_canonical_calls_of_declared_tools_are_accepted(engine: str, body: str) -> None:
    assert takes_body(decoder("mypt", engine=engine), body)


@pytest.mark.parametrize(
    "body",
    [
        '{"query": "x", "name": "search"}',  # the name is not first
        '{"name": "search"}',  # a required argument is missing
        '{"name": "search", "top_k": 1, "query": "x"}',  # not in the schema's order
        '{"name": "search", "query": "x", "more": 1}',
        '{"name": "search", "query": 1}',
        '{"name": "search", "query": "x", "top_k": 1.5}',
        '{"name": "search", "query": "x", "top_k": 01}',
        '{"name": "search", "query": "x", "top_k": -0}',
        '{"name": "search", "query": "x", "min_score": 10e5}',
        '{"name": "search", "query": "x", "min_score": 00.1}',
        '{"name": "search", "query": "x", "min_score": 0.00001}',
        '{"name": "search", "query": "x", "exact": "yes"}',
        '{"name": "search", "query": "x", "kind": "other"}',
        '{"name": "search","query": "x"}',
        '{"name":"search", "query": "x"}',
        '{"name": "search", "query": "\\u00fc"}',
        '{"name": "search", "query": "\\u003cmyPT_user>"}',
        '{"name": "search", "query": "<myPT_user>"}',
        '{"name": "search", "query": "a\nb"}',
        '{"name": "list_docs", "a": 1}',
        '{"name": "list_docs"} ',
        "[]",
    ],
)
@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_other_bodies_are_refused(engine: str, body: str) -> None:
    assert not takes_body(decoder("mypt", engine=engine), body)


@pytest.mark.parametrize(
    ("name", "into", "text", "legal"),
    [
        ("mypt-3b", "<assistant>", "a </toolcale b", True),
        ("mypt-3b", "<assistant>", "a </toolcalls> b", True),
        ("mypt-3b", "<assistant>", "a </toolcall b", False),
        ("mypt-3b", "<assistant>", "a <toolcale b", False),  # it must go on as the tag
        ("praxis", "", "a <tinker b", True),
        ("praxis", "", "a </tout-of b", True),
        ("praxis", "", "a <tin b", False),
        ("praxis", "", "a </tin[SEP]", False),
    ],
)
def test_words_that_begin_as_a_tag(name: str, into: str, text: str, *, legal: bool) -> None:
    """What the validator takes for a word, and for no piece of a tag, can be written."""
    made = decoder(name)
    start, tokenizer = after(made, into), made.dialect.tokenizer
    for ids in ([tokenizer.encode(c)[0] for c in text], tokenizer.encode(text)):
        assert (made.accepts(start, ids) == len(ids)) == legal, text


@pytest.mark.parametrize("name", DIALECTS)
def test_tags_cannot_be_spelled(name: str) -> None:
    """Neither in one go nor letter by letter; the token that would complete the tag is refused."""
    made = decoder(name)
    into = {
        "mypt": "<myPT_assistant>",
        "gabgpt": "<|assistant|>",
        "usf-omega": "<message_start>",
        "mypt-3b": "<assistant>",
        "harmony": "<|channel|>final<|message|>",
    }.get(name, "")  # in the others the header is the system's
    start = after(made, into)
    letters = {chr(b): made.dialect.tokenizer.encode(chr(b))[0] for b in [10, *range(32, 127)]}
    plain = {t.shown for t in made.dialect.table.plain_tags if not t.patterns}
    for tag in sorted(plain | set(made.dialect.tokenizer.special)):
        ids = [letters[c] for c in "x" + tag]
        count = made.accepts(start, ids)
        legal = name in ("mypt-3b", "praxis") and tag in ("</assistant>", "<tin>")
        assert (count == len(ids)) == legal, tag
        # Of a tag in a block, the word alone is a piece of a tag, unless a longer word goes on.
        within = (name == "praxis" and tag[0] == "<") or tag == "</toolcall>"
        before = made.run(start, ids[: count - legal])
        assert count >= len(ids) - 1, tag
        assert made.allowed(before)[letters["~"]] != within, tag
        assert made.allowed(before)[letters["e"]], tag


def test_half_a_character_is_completed_before_a_tag() -> None:
    made = decoder("mypt")
    state = after(made, f"{A}Hello")
    byte = {made.dialect.tokenizer.decode_bytes([i]): i for i in range(256)}
    first, second = byte[b"\xc3"], byte[b"\xbc"]  # ü
    assert not made.allowed(state)[second]
    half = made.next(state, first)
    assert tags(made, half) == []
    assert not made.allowed(half)[encode(" the")[0]]
    assert made.minimum(half) == 3
    assert tags(made, made.next(half, second)) == [E, "<myPT_cite>"]


def test_an_unfinished_answer_is_gone_on_with() -> None:
    made = decoder("mypt")
    before = made.ids_of(prompt("mypt"))
    state = made.start([*before, 50261, *encode("see <myPT_use")])
    for ids in (encode("r>"), [*encode("r"), *encode(">")]):
        assert made.accepts(state, ids) == len(ids) - 1
    assert E in tags(made, state)
    begun = [*CALL, *encode('{"name": "se')]
    assert made.calling(made.start([*before, *begun]))
    assert made.start([*before, *begun]) == made.run(made.start(before), begun)


def test_headers_of_the_system_are_added() -> None:
    header = [50257, *encode("assistant\n")]
    assert decoder("praxis").ids_of(prompt("praxis"))[-len(header) :] == header
    made = decoder("mypt")
    assert made.dialect.tokenizer.decode(made.ids_of(prompt("mypt"))).endswith("</myPT_user>")


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ((message("system"),), "where the model may not write; end it where"),
        ((message("user"),), "MYP208"),
        ((message("system"), message("user"), message("assistant"), message("user")), "MYP216"),
        ((message("system"), message("user"), Message("assistant", (Part("toolcall", '{"name": "list_docs"}'),))), "where the model may not write; end it where"),
    ],
)  # fmt: skip
def test_bad_prompts(messages: tuple[Message, ...], says: str) -> None:
    made = decoder("mypt")
    with pytest.raises(PromptError, match=says):
        made.start([i for e in events_of(messages, made.dialect.table) for i in ids_of(e.text)])


def test_a_prompt_with_a_meaningless_id() -> None:
    with pytest.raises(PromptError, match="id 50300 at 1 means nothing"):
        decoder("mypt").start([50257, 50300])
    with pytest.raises(PromptError, match="the prompt is empty, where the model may not write"):
        decoder("mypt").start([])


def test_a_prompt_that_calls_an_undeclared_tool() -> None:
    call = Message("assistant", (Part("toolcall", '{"name": "delete"}'),))
    result = Message("toolresult", (Part("text", "1"),))
    ep = Episode("mypt", (message("system"), message("user"), call, result))
    with pytest.raises(PromptError, match="'delete', which is not declared; declared are list_docs, search, search_all"):  # fmt: skip
        decoder("mypt").start(ep)
    assert Decoder("mypt", [{"name": "delete"}]).start(ep)


def test_a_prompt_may_stop_after_any_number_of_calls() -> None:
    """Also where a call ends with the tag of the next one, which says no name yet."""
    made = decoder("mistral-v13")
    encode, special = made.dialect.tokenizer.encode, made.dialect.tokenizer.special
    call = [
        special["[TOOL_CALLS]"], *encode("list_docs"), special["[ARGS]"], *encode("{}"),
    ]  # fmt: skip
    ids = made.ids_of(prompt("mistral-v13"))
    for calls in range(6):
        for at in range(len(call)):
            drawn = calls * call + call[:at]
            begun = made.start(ids + drawn)
            assert begun == made.run(made.start(ids), drawn)


def test_states_can_be_kept_and_forked() -> None:
    made = decoder("mypt")
    state = made.start(prompt("mypt"), max_new_tokens=20)
    ids = [50261, *encode("Hello there"), 50262, 50275]
    states = [state]
    for token in ids:
        states.append(made.next(states[-1], token))
    assert all(type(s) is int for s in states)
    assert made.run(states[2], ids[2:]) == states[-1], "rolled back and gone on"
    assert [made.left(s) for s in states] == list(range(20, 20 - len(states), -1))
    assert made.step([states[0], states[3]], [ids[0], ids[3]]).tolist() == [states[1], states[4]]
    with pytest.raises(ValueError, match="row 1: id 50259"):
        made.step([states[0], states[0]], [ids[0], 50259])


@pytest.mark.parametrize(("think", "call"), [(None, None), (3, 30)])
@pytest.mark.parametrize("engine", ["table", "llguidance"])
def test_what_is_remembered_is_what_a_new_decoder_says(
    engine: str, think: int | None, call: int | None
) -> None:
    """A decoder that has seen a place with one budget says of it with another what one says that
    has seen nothing.
    """
    if engine == "llguidance":
        pytest.importorskip("llguidance")

    def new() -> Decoder:
        options = {"max_think_tokens": think, "max_toolcall_tokens": call}
        return Decoder("mypt", TOOLS, engine=engine, **options)

    thought = [50261, 50271, *encode("a b"), 50272, *encode(" Hello"), 50262, 50275]
    listing = [*CALL, *encode('{"name": "list_docs"}'), CALL_END, 50262]
    made, refused = new(), 0
    for budget in (None, 40, 12, 9, 7, None, 10):
        for ids in (thought, listing):
            fresh = new()
            try:
                state, other = (d.start(prompt("mypt"), max_new_tokens=budget) for d in (made, fresh))  # fmt: skip
            except BudgetError:
                continue
            for token in ids:
                allowed = made.ids(state).tolist()
                assert allowed == fresh.ids(other).tolist()
                assert allowed == np.flatnonzero(made.allowed(state)).tolist()
                counts = [made.accepts(state, [token]), made.accepts(state, [token])]
                assert counts == [token in allowed] * 2 == [fresh.accepts(other, [token])] * 2
                if token not in allowed:
                    refused += 1
                    break
                state, other = made.next(state, token), fresh.next(other, token)
    assert refused >= 3


@pytest.mark.parametrize("name", ["gabgpt", "usf-omega"])
def test_before_a_block_the_least_budgets_refuse_what_does_not_fit(name: str) -> None:
    """Such as a thought, after which there would be no room for an answer."""
    made = decoder(name, tools=False)
    state = made.start(prompt(name))
    offered = []
    for budget in range(made.minimum(state), made.minimum(state) + 8):
        tight = made.at(machine(state), max_new_tokens=budget)
        offered.append(made.ids(tight).tolist())
        assert offered[-1] == np.flatnonzero(made.allowed(tight)).tolist()
    assert offered[-1] == made.ids(state).tolist()
    assert len(offered[0]) < len(offered[-1])


def test_forced_tokens() -> None:
    made = Decoder("mypt", [{"name": "list_docs"}])
    forced = made.forced(after(made, f"{A}Hello{E}"))
    assert made.dialect.tokenizer.decode(forced) == "<myPT_eot>"
    assert made.forced(in_call(made)) == [], "there are several ways to write the same text"
    tight = made.start(prompt("mypt"), max_new_tokens=4)
    assert made.forced(tight) == [50261]


def test_ids_outside_the_vocabulary() -> None:
    made = decoder("mypt")
    state = made.start(prompt("mypt"))
    made.next(made.next(state, 50261), 11)
    for token in (-1, 50304, 1 << 20, (1 << 20) + 50261, 1 << 40):
        with pytest.raises(ValueError, match=f"id {token} is "):
            made.next(state, token)
        with pytest.raises(PromptError, match=f"id {token} at 1 means nothing"):
            made.start([50257, token])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_think_tokens": 0}, "max_think_tokens is 0; a thought takes at least 1 tokens"),
        (
            {"max_toolcall_tokens": 5},
            r"max_toolcall_tokens is 5; a call of '.*' takes at least \d+ tokens",
        ),
        ({"max_think_tokens": -1}, "0 or more"),
        ({"max_toolcall_tokens": True}, "0 or more"),
        ({"max_think_tokens": 10**9}, "Leave it out"),
    ],
)
def test_budgets_of_blocks_that_are_too_small(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BudgetError, match=says):
        Decoder("mypt", TOOLS, **options)


@pytest.mark.parametrize(("name", "closing"), [("mypt", 1), ("praxis", 4)])
def test_the_least_budget_of_a_call_is_exact(name: str, closing: int) -> None:
    """It is that of the content: the tokens of the closing tag do not count."""
    with pytest.raises(BudgetError) as caught:
        Decoder(name, [{"name": "list_docs"}], max_toolcall_tokens=1)
    least = caught.value.minimum
    made = Decoder(name, [{"name": "list_docs"}], max_toolcall_tokens=least)
    state, steps = made.start(prompt(name)), 0
    while not made.calling(state):
        ids = made.ids(state)
        state = made.next(state, int(ids[np.argmin(nearest(made, state, ids))]))
        steps += 1
        assert steps < 20, "a call with the least budget may not begin"
    count = 0
    while made.calling(state):
        state = made.next(state, int(made.ids(state)[0]))
        count += 1
    assert count == least + closing
    with pytest.raises(BudgetError):
        Decoder(name, [{"name": "list_docs"}], max_toolcall_tokens=least - 1)


@pytest.mark.parametrize(
    ("arguments", "legal"),
    [
        ('"q": "a", "k": 11', True), ('"q": "ü"', True), ('"k": -1', True), ('"k": 0', True),
        ('"q": "", "k": 11', False), ('"k": 12', False), ('"k": -2', False), ('"k": 111', False),
    ],
)  # fmt: skip
def test_bounds_that_tables_hold(arguments: str, legal: bool) -> None:
    bounds = {"q": {"type": "string", "minLength": 1}, "k": {"type": "integer", "minimum": -1, "maximum": 11}}  # fmt: skip
    made = Decoder("mypt", [function("t", bounds)])
    assert takes_body(made, f'{{"name": "t", {arguments}}}') == legal


def tool(schema: Any) -> dict[str, Any]:
    return function("t", {"a": schema})


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([tool({"type": "string", "pattern": "a+"})], "tool 't' at /properties/a/pattern: the keyword 'pattern' is not supported"),
        ([tool({"type": "integer", "minimum": 2})], "/minimum: tables hold numbers from 0 or 1 on, or integers between two whole numbers"),
        ([tool({"type": "integer", "minimum": 0, "maximum": 5000})], "at most 1000 of them"),
        ([tool({"type": "number", "minimum": 0, "maximum": 5})], "/minimum"),
        ([tool({"type": "string", "minLength": 2})], "/minLength: 2 is not supported"),
        ([tool({"$ref": "#"})], "'\\$ref'.*llguidance"),
        ([tool({})], 'no "type"'),
        ([tool(True)], "true is not a schema that"),
        ([tool({"type": "strin"})], "'strin' is not a type"),
        ([tool({"type": ["integer", "number"]})], "name one of them"),
        ([tool({"type": "array"})], '"items"'),
        ([tool({"enum": []})], "not empty"),
        ([tool({"const": float("nan")})], "not a JSON value"),
        ([tool({"type": "object", "required": ["b"]})], "'b' is required"),
        ([{"name": "t", "parameters": {"type": "string"}}], "an object"),
        ([{"name": "t", "parameters": []}], "JSON Schema of an object"),
        ([{"name": ""}], "needs a name"),
        ([{"type": "retrieval", "name": "t"}], "expected"),
        ([{"name": "t"}, {"name": "t"}], "declared twice"),
        ([{"name": "<myPT_user>"}], "spells a tag"),
        ({"name": "t"}, "a list of tools"),
        ([lambda x: x], "needs a type hint"),
        ([3], "expected"),
    ],
)  # fmt: skip
def test_bad_tools(tools: Any, says: str) -> None:
    with pytest.raises(SchemaFault, match=says):
        Decoder("mypt", tools)


def test_functions_are_tools() -> None:
    def find(tags: list[str] | None = None) -> None:
        pass

    with pytest.raises(SchemaFault, match="/tags"):
        declare([find])

    def seek(query: str, limit: int = 3, order: Literal["new", "old"] = "new", tags: list[str] = [], *, exact: bool = False, least: float | None = None) -> str:  # fmt: skip  # noqa: B006
        """Find documents."""
        return query

    (spec,) = declare([seek])
    assert spec == ToolSpec("seek", spec.schema, "Find documents.")
    assert spec.schema["required"] == ["query"]
    assert spec.schema["properties"]["order"] == {"enum": ["new", "old"]}
    body = {"name": "seek", "query": "x", "order": "old", "tags": ["a", "b"], "least": None}
    assert takes_body(Decoder("mypt", [seek]), json.dumps(body))


def test_importing_it_needs_no_torch() -> None:
    code = "import mypt_infer.decode, sys; mypt_infer.decode.Decoder('gabgpt'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "llguidance", "transformers"} & set(done.stdout.split())
