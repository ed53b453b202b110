"""The decoder by example: allow sets, tools, prompts, budgets, and errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from mypt_infer.decode import BudgetError, Decoder, PromptError, SchemaFault, ToolSpec, declare
from mypt_infer.decode.decoder import machine
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Episode, Message, Part
from mypt_spec.table import TEXT
from tests.support.decoding import DIALECTS, TOOLS, decoder, message, nearest, prompt


def tags(made: Decoder, state: int) -> list[str]:
    """The single-id tags that may come next."""
    names = {i: tag for tag, i in made.dialect.tokenizer.special.items()}
    return [names[i] for i in made.ids(state).tolist() if i in names]


def read(made: Decoder, text: str, start: int | None = None) -> int:
    """The state after a text whose tags are separate from its words."""
    state = made.start(prompt(made.dialect.name)) if start is None else start
    ids: list[int] = []
    for event in made.dialect.lex(text):
        ids += (
            made.dialect.tokenizer.encode(event.text)
            if event.terminal == TEXT
            else tag_ids(event, made.dialect.table, made.dialect.tokenizer, trail=False)
        )
    return made.run(state, ids)


def spelled(name: str, text: str) -> list[int]:
    return decoder(name).dialect.tokenizer.encode(text)


def test_only_the_model_s_tags_are_offered() -> None:
    made = decoder("mypt")
    state = made.start(prompt("mypt"))
    assert tags(made, state) == ["<myPT_assistant>"]
    assert len(made.ids(state)) == 1
    state = read(made, "<myPT_assistant>")
    assert tags(made, state) == ["<myPT_toolcall>", "<myPT_think>", "<myPT_cite>"]
    assert tags(made, read(made, "<myPT_assistant>Hello")) == ["</myPT_assistant>", "<myPT_cite>"]
    assert tags(made, read(made, "<myPT_assistant>Hello</myPT_assistant>")) == ["<myPT_eot>"]
    after = read(made, "<myPT_assistant>Hello</myPT_assistant><myPT_eot>")
    assert made.final(after)
    assert not len(made.ids(after))


def test_without_tools_there_are_no_calls() -> None:
    made = decoder("mypt", tools=False)
    assert "<myPT_toolcall>" not in tags(made, read(made, "<myPT_assistant>"))


def test_a_call_hands_over_to_the_system() -> None:
    made = decoder("mypt")
    state = read(
        made,
        '<myPT_assistant><myPT_toolcall>{"name": "list_docs"}</myPT_toolcall></myPT_assistant>',
    )
    assert made.final(state)
    assert not len(made.ids(state)), "the result is for the system to write"


@pytest.mark.parametrize("name", DIALECTS)
def test_meaningless_ids_are_never_offered(name: str) -> None:
    made = decoder(name)
    dead = [
        i
        for i in range(made.tables.vocabulary)
        if i >= 50256 and i not in made.dialect.tokenizer.special.values()
    ]
    assert dead
    for state in range(made.tables.size):
        assert not made.tables.following(state)[made.tables.classes[dead]].any()


def test_an_id_in_the_tag_of_a_call_is_not_the_name_of_the_tool() -> None:
    folder = str(Path(__file__).parents[4] / "examples/mistral_v11")
    assert Decoder(folder)
    with pytest.raises(ValueError, match="nothing says which 'id' a model may write in"):
        Decoder(folder, [{"name": "f", "parameters": {"type": "object"}}])


def test_an_undeclared_tool_is_refused_at_its_first_token() -> None:
    made = decoder("mypt")
    state = read(made, "<myPT_assistant><myPT_toolcall>")
    ids = spelled("mypt", '{"name": "delete"}')
    allowed = spelled("mypt", '{"name": "')
    state = made.run(state, allowed)
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
    made = decoder("mypt", engine=engine)
    state = read(made, f"<myPT_assistant><myPT_toolcall>{body}</myPT_toolcall></myPT_assistant>")
    assert made.final(state)


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
        '{"name": "search", "query": "x", "min_score": 1e5}',
        '{"name": "search", "query": "x", "min_score": 0.10}',
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
    made = decoder("mypt", engine=engine)
    with pytest.raises(ValueError, match="not allowed"):
        made.run(read(made, "<myPT_assistant><myPT_toolcall>"), [*spelled("mypt", body), 50268])


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
    start = read(made, into)
    letters = {chr(b): made.dialect.tokenizer.encode(chr(b))[0] for b in [10, *range(32, 127)]}
    plain = {t.shown for t in made.dialect.table.plain_tags if not t.patterns}
    for tag in sorted(plain | set(made.dialect.tokenizer.special)):
        spelled_ = [letters[c] for c in "x" + tag]
        count = made.accepts(start, spelled_)
        legal = name in ("mypt-3b", "praxis") and tag in ("</assistant>", "<tin>")
        assert (count == len(spelled_)) == legal, tag
        # Of a tag in a block, the word alone is a piece of a tag.
        within = name == "praxis" or tag == "</toolcall>"
        before = made.run(start, spelled_[: count - legal])
        assert count >= len(spelled_) - 1 - 2 * within, tag
        assert made.allowed(before)[letters["~"]] != (legal and within), tag


def test_half_a_character_is_completed_before_a_tag() -> None:
    made = decoder("mypt")
    state = read(made, "<myPT_assistant>Hello")
    first, second = 0xC3, 0xBC  # ü
    byte = {
        b: next(i for i in range(256) if made.dialect.tokenizer.decode_bytes([i]) == bytes([b]))
        for b in (first, second)
    }
    assert not made.allowed(state)[byte[second]]
    half = made.next(state, byte[first])
    assert tags(made, half) == []
    assert not made.allowed(half)[spelled("mypt", " the")[0]]
    assert made.minimum(half) == 3
    assert tags(made, made.next(half, byte[second])) == ["</myPT_assistant>", "<myPT_cite>"]


def test_an_unfinished_answer_is_gone_on_with() -> None:
    made = decoder("mypt")
    ep = prompt("mypt")
    ids = [*made.ids_of(ep), 50261, *spelled("mypt", "see <myPT_use")]
    state = made.start(ids)
    assert (
        not made.allowed(state)[spelled("mypt", "r>")[0]]
        or not made.allowed(made.next(state, spelled("mypt", "r")[0]))[spelled("mypt", ">")[0]]
    )
    assert "</myPT_assistant>" in tags(made, state)
    called = [*made.ids_of(ep), 50261, 50267, *spelled("mypt", '{"name": "se')]
    assert made.calling(made.start(called))
    assert made.start(called) == made.run(made.start(ep), called[len(made.ids_of(ep)) :])


def test_headers_of_the_system_are_added() -> None:
    assert (
        decoder("praxis").ids_of(prompt("praxis"))[-3:]
        == [50257, *spelled("praxis", "assistant\n")][-3:]
    )
    assert (
        decoder("mypt")
        .dialect.tokenizer.decode(decoder("mypt").ids_of(prompt("mypt")))
        .endswith("</myPT_user>")
    )


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
    ids: list[int] = []
    table, tokenizer = made.dialect.table, made.dialect.tokenizer
    from mypt_spec.episode import events_of

    for event in events_of(messages, table):
        ids += (
            [tokenizer.special[event.text]]
            if event.text in tokenizer.special
            else tokenizer.encode(event.text)
        )
    with pytest.raises(PromptError, match=says):
        made.start(ids)


def test_a_prompt_with_a_meaningless_id() -> None:
    with pytest.raises(PromptError, match="id 50300 at 1 means nothing"):
        decoder("mypt").start([50257, 50300])
    with pytest.raises(PromptError, match="the prompt is empty, where the model may not write"):
        decoder("mypt").start([])


def test_a_prompt_that_calls_an_undeclared_tool() -> None:
    call = Message("assistant", (Part("toolcall", '{"name": "delete"}'),))
    ep = Episode(
        "mypt",
        (message("system"), message("user"), call, Message("toolresult", (Part("text", "1"),))),
    )
    with pytest.raises(
        PromptError,
        match="'delete', which is not declared; declared are list_docs, search, search_all",
    ):
        decoder("mypt").start(ep)
    assert Decoder("mypt", [{"name": "delete"}]).start(ep)


def test_states_can_be_kept_and_forked() -> None:
    made = decoder("mypt")
    state = made.start(prompt("mypt"), max_new_tokens=20)
    ids = [50261, *spelled("mypt", "Hello there"), 50262, 50275]
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
def test_what_is_remembered_is_what_is_found_anew(
    engine: str, think: int | None, call: int | None
) -> None:
    """A decoder that has seen a place with one budget says of it with another what one says that
    has seen nothing.
    """
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    made, calm = (
        Decoder("mypt", TOOLS, max_think_tokens=think, max_toolcall_tokens=call, engine=engine)
        for _ in range(2)
    )
    text = '{"name": "list_docs"}'
    encode = made.dialect.tokenizer.encode
    walks = [
        [50261, 50271, *encode("a b"), 50272, *encode(" Hello"), 50262, 50275],
        [50261, 50267, *encode(text), 50268, 50262],
    ]
    refused = 0
    for budget in (None, 40, 12, 9, 7, None, 10):
        for walk in walks:
            try:
                state = made.start(prompt("mypt"), max_new_tokens=budget)
            except BudgetError:
                continue
            for token in walk:
                for kept in (calm._sets, calm._free, calm._steps, calm._jumps):
                    kept.clear()
                allowed = made.ids(state).tolist()
                assert (
                    allowed
                    == calm.ids(state).tolist()
                    == np.flatnonzero(made.allowed(state)).tolist()
                )
                results = []
                for of in (made, made, calm):
                    try:
                        results.append(of.next(state, token))
                    except ValueError as error:
                        results.append(str(error))
                assert results[0] == results[1] == results[2]
                assert (token in allowed) == isinstance(results[0], int)
                if isinstance(results[0], str):
                    refused += 1
                    break
                state = results[0]
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
    state = read(made, "<myPT_assistant><myPT_toolcall>")
    forced = made.forced(read(made, "<myPT_assistant>Hello</myPT_assistant>"))
    assert made.dialect.tokenizer.decode(forced) == "<myPT_eot>"
    assert made.forced(state) == [], "there are several ways to write the same text"
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


@pytest.mark.parametrize("name", DIALECTS)
def test_packed_is_the_allow_set_in_bits(name: str) -> None:
    made = decoder(name)
    first = made.start(prompt(name))
    states = [first, made.next(first, int(made.ids(first)[0]))]
    packed = made.bitmask(states)
    assert packed.dtype == np.int32
    assert packed.shape == (2, -(-made.tables.vocabulary // 32))
    for row, state in zip(packed, states, strict=True):
        assert [
            i for i in range(made.tables.vocabulary) if row[i >> 5] >> (i & 31) & 1
        ] == made.ids(state).tolist()


def test_bias_and_mask_agree_with_the_allow_set() -> None:
    made = decoder("mypt")
    states = [
        made.start(prompt("mypt")),
        read(made, "<myPT_assistant>x"),
        read(made, '<myPT_assistant><myPT_toolcall>{"name": "search", "query": "x'),
    ]
    logits = np.random.default_rng(0).normal(size=(3, made.tables.vocabulary)).astype(np.float32)
    biased = logits + made.bias(states)
    made.apply(logits, states)
    assert (biased == logits).all()
    for row, state in zip(logits, states, strict=True):
        assert np.flatnonzero(np.isfinite(row)).tolist() == made.ids(state).tolist()
        assert len(made.ids(state)) == made.allow(state).count


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
    state = made.start(prompt(name))
    while not made.calling(state):
        ids = made.ids(state)
        state = made.next(state, int(ids[np.argmin(nearest(made, state, ids))]))
    count = 0
    while made.calling(state):
        state = made.next(state, int(made.ids(state)[0]))
        count += 1
    assert count == least + closing
    with pytest.raises(BudgetError):
        Decoder(name, [{"name": "list_docs"}], max_toolcall_tokens=least - 1)


def test_bounds_that_tables_hold() -> None:
    schema = {
        "type": "object",
        "properties": {
            "q": {"type": "string", "minLength": 1},
            "k": {"type": "integer", "minimum": -1, "maximum": 11},
        },
    }
    made = Decoder("mypt", [{"name": "t", "parameters": schema}])
    state = read(made, "<myPT_assistant><myPT_toolcall>")
    for body, legal in [
        ('{"name": "t", "q": "a", "k": 11}', True), ('{"name": "t", "q": "ü"}', True), ('{"name": "t", "k": -1}', True), ('{"name": "t", "k": 0}', True),
        ('{"name": "t", "q": "", "k": 11}', False), ('{"name": "t", "k": 12}', False), ('{"name": "t", "k": -2}', False), ('{"name": "t", "k": 111}', False),
    ]:  # fmt: skip
        try:
            behind = made.run(state, spelled("mypt", body))
        except ValueError:
            assert not legal, body
        else:
            assert legal == ("</myPT_toolcall>" in tags(made, behind)), body


def tool(schema: Any) -> dict[str, Any]:
    return {"name": "t", "parameters": {"type": "object", "properties": {"a": schema}}}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            [tool({"type": "string", "pattern": "a+"})],
            "tool 't' at /properties/a/pattern: the keyword 'pattern' is not supported",
        ),
        (
            [tool({"type": "integer", "minimum": 2})],
            "/minimum: tables hold numbers from 0 or 1 on, or integers between two whole numbers",
        ),
        ([tool({"type": "integer", "minimum": 0, "maximum": 5000})], "at most 1000 of them"),
        ([tool({"type": "number", "minimum": 0, "maximum": 5})], "/minimum"),
        ([tool({"type": "string", "minLength": 2})], "/minLength: 2 is not supported"),
        ([tool({"$ref": "#"})], "'\\$ref'.*llguidance"),
        ([tool({})], 'no "type"'),
        ([tool(True)], "true is no schema that"),
        ([tool({"type": "text"})], "'text' is no type"),
        ([tool({"type": ["integer", "number"]})], "name one of them"),
        ([tool({"type": "array"})], '"items"'),
        ([tool({"enum": []})], "not empty"),
        ([tool({"const": float("nan")})], "no JSON value"),
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
)
def test_bad_tools(given: Any, says: str) -> None:
    with pytest.raises(SchemaFault, match=says):
        Decoder("mypt", given)


def test_functions_are_tools() -> None:
    def find(query: str, limit: int = 3, order: Literal["new", "old"] = "new", tags: list[str] | None = None, *, exact: bool = False, least: float | None = None) -> str:  # fmt: skip
        """Find documents."""
        return query

    with pytest.raises(SchemaFault, match="/tags"):
        declare([find])

    def seek(query: str, limit: int = 3, order: Literal["new", "old"] = "new", tags: list[str] = [], *, exact: bool = False, least: float | None = None) -> str:  # fmt: skip  # noqa: B006
        """Find documents."""
        return query

    (found,) = declare([seek])
    assert found == ToolSpec("seek", found.schema, "Find documents.")
    assert found.schema["required"] == ["query"]
    assert found.schema["properties"]["order"] == {"enum": ["new", "old"]}
    made = Decoder("mypt", [seek])
    body = json.dumps(
        {"name": "seek", "query": "x", "order": "old", "tags": ["a", "b"], "least": None}
    )
    read(made, f"<myPT_assistant><myPT_toolcall>{body}</myPT_toolcall>")


def test_importing_it_needs_no_torch() -> None:
    code = "import mypt_infer.decode, sys; mypt_infer.decode.Decoder('gabgpt'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "llguidance", "transformers"} & set(done.stdout.split())
