"""/v1/chat/completions on 127.0.0.1, asked by OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai", reason="needs the extra test")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from mypt_infer.serve.asked.decoders import Choice  # noqa: E402
from mypt_infer.serve.asked.errors import ApiError  # noqa: E402
from mypt_infer.serve.asked.parameters import Completion, read  # noqa: E402
from tests.support import vocabulary  # noqa: E402
from tests.support.build import tool, user  # noqa: E402
from tests.support.serving import FIND, HI, LIST, NAME, Running, ask, running, service  # noqa: E402

pytestmark = pytest.mark.numeric

NAMED = {"type": "function", "function": {"name": "workspace_search"}}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(service("mypt", new_tokens=48)) as server:
        yield server


@pytest.fixture
def client(server: Running) -> Iterator[Any]:
    with server.client() as client:
        yield client


def test_models(client: Any) -> None:
    assert [model.id for model in client.models.list().data] == [NAME]
    assert client.models.retrieve(NAME).id == NAME
    with pytest.raises(openai.NotFoundError, match="nowhere"):
        client.models.retrieve("nowhere")


def test_an_answer_is_what_its_ids_say(server: Running, client: Any) -> None:
    """Prompt and answer together are a legal episode, and its text is the content."""
    d = server.service.dialect
    for seed in range(6):
        answer = ask(client, seed=seed, extra_body={"return_token_ids": True})
        choice = answer.choices[0]
        ids = answer.prompt_token_ids + choice.token_ids
        episode, findings = d.parse_ids(ids)
        assert episode is not None, findings
        assert answer.usage.prompt_tokens == len(answer.prompt_token_ids)
        assert answer.usage.completion_tokens == len(choice.token_ids)
        answers = [m for m in episode.messages if m.role == "assistant"]
        text = "".join(p.text for m in answers for p in m.parts if p.kind == "text")
        assert choice.message.content == text
        thoughts = [p.text for m in episode.messages for p in m.parts if p.kind == "think"]
        assert getattr(choice.message, "reasoning_content", "") == "".join(thoughts)
        assert choice.finish_reason in ("stop", "length")


def test_the_same_seed_says_the_same(client: Any) -> None:
    first, again = (ask(client, seed=5).choices[0].message for _ in range(2))
    assert first == again
    assert ask(client, seed=6).choices[0].message != first


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_call_that_is_required(client: Any, choice: Any) -> None:
    """The name is the client's, the arguments fit the schema, and the result is read."""
    answer = ask(client, tools=[FIND, LIST], tool_choice=choice, seed=1).choices[0]
    assert answer.finish_reason == "tool_calls"
    call = answer.message.tool_calls[0]
    if choice == NAMED:
        assert call.function.name == "workspace_search"
        arguments = json.loads(call.function.arguments)
        assert arguments["query"] in ("bees", "wasps")
        assert 1 <= arguments["top_k"] <= 5
    result = tool('{"hits": []}', tool_call_id=call.id)
    turn = [*HI, answer.message.model_dump(exclude_none=True), result]
    for more in ({"tools": [FIND, LIST]}, {"tools": [FIND], "tool_choice": "none"}, {}):
        assert ask(client, messages=turn, **more).choices[0].finish_reason


def test_calls_are_of_allowed_tools(client: Any) -> None:
    """A function that only has a name has no arguments; null members are as if left out."""
    tools = [
        FIND,
        LIST,
        {"type": "function", "function": {"name": "now", "description": None, "parameters": None}},
    ]
    named = [{"type": "function", "function": {"name": "now"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": named}}
    answer = ask(client, tools=tools, tool_choice=choice, seed=1).choices[0]
    assert {(c.function.name, c.function.arguments) for c in answer.message.tool_calls} == {
        ("now", "{}")
    }


def test_tools_are_mapped_for_the_model(server: Running, client: Any) -> None:
    ids = {"return_token_ids": True}
    answer = ask(client, tools=[FIND], tool_choice="required", extra_body=ids).choices[0]
    assert '"workspace.search"' in server.service.dialect.tokenizer.decode(answer.token_ids)
    assert answer.message.tool_calls[0].function.name == "workspace_search"


def test_none_calls_nothing(client: Any) -> None:
    for seed in range(4):
        answer = ask(client, tools=[FIND], tool_choice="none", seed=seed).choices[0]
        assert answer.message.tool_calls is None


@pytest.mark.parametrize("tools", [(), (FIND,)])
def test_an_answer_fits_a_schema(client: Any, tools: Any) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    more = {"tools": list(tools)} if tools else {}
    for seed in range(3):
        answer = ask(client, response_format=shape, seed=seed, reasoning_effort="none", **more)
        message = answer.choices[0].message
        if message.tool_calls is None:
            assert set(json.loads(message.content)) == {"a", "b"}
    assert not hasattr(message, "reasoning_content")


def test_a_stop_is_no_part_of_the_answer(client: Any) -> None:
    whole = ask(client, seed=3, reasoning_effort="none").choices[0].message.content
    assert len(whole) > 4
    stop = whole[len(whole) // 2 :][:3]
    cut = ask(client, seed=3, stop=stop, reasoning_effort="none").choices[0]
    assert cut.message.content == whole[: whole.find(stop)]
    assert cut.finish_reason == "stop"
    pieces = ask(client, seed=3, stop=[stop], reasoning_effort="none", stream=True)
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == cut.message.content


def test_log_probabilities(client: Any) -> None:
    """They belong to the tokens of the content, and do not change what is drawn."""
    plain = ask(client, seed=2, reasoning_effort="none").choices[0]
    full = ask(client, seed=2, reasoning_effort="none", logprobs=True, top_logprobs=3).choices[0]
    assert full.message.content == plain.message.content
    entries = full.logprobs.content
    assert b"".join(bytes(e.bytes) for e in entries).decode() == plain.message.content
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob <= entry.top_logprobs[0].logprob <= 0


def test_several_answers(client: Any) -> None:
    choices = ask(client, n=3, seed=1).choices
    assert [choice.index for choice in choices] == [0, 1, 2]
    assert len({choice.message.content for choice in choices}) > 1
    assert choices[0].message == ask(client, seed=1).choices[0].message


@pytest.mark.parametrize("more", [
    {},
    {"tools": [FIND, LIST], "tool_choice": "required"},
    {"logprobs": True, "n": 2},
])  # fmt: skip
def test_a_stream_says_what_the_whole_answer_says(client: Any, more: dict[str, Any]) -> None:
    more = more | {"seed": 4}
    whole = ask(client, **more)
    texts: list[dict[str, Any]] = [{"content": "", "reasoning_content": ""} for _ in whole.choices]
    calls, pieces = list[Any](), 0
    ends, usage, logged = {}, None, [0, 0]
    for chunk in ask(client, stream=True, stream_options={"include_usage": True}, **more):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            for key in texts[choice.index]:
                texts[choice.index][key] += getattr(choice.delta, key, None) or ""
            for piece in choice.delta.tool_calls or ():
                if piece.id:
                    assert piece.index == len(calls)
                    calls.append(piece)
                    continue
                assert piece.function.name is None
                calls[piece.index].function.arguments += piece.function.arguments
                pieces += 1
            logged[choice.index] += len(choice.logprobs.content) if choice.logprobs else 0
            ends |= {choice.index: choice.finish_reason} if choice.finish_reason else {}
    assert usage == whole.usage
    for at, choice in enumerate(whole.choices):
        message = choice.message
        assert texts[at]["content"] == (message.content or "")
        assert texts[at]["reasoning_content"] == getattr(message, "reasoning_content", "")
        assert ends[at] == choice.finish_reason
        assert logged[at] == (len(choice.logprobs.content) if choice.logprobs else 0)
    expected = whole.choices[0].message.tool_calls or []
    assert (pieces > len(calls)) == bool(expected)  # the name first, then the arguments
    for call in expected:
        json.loads(call.function.arguments)
    assert [(c.function.name, c.function.arguments) for c in calls] == [
        (c.function.name, c.function.arguments) for c in expected
    ]


def test_the_client_reads_a_stream_into_a_message(client: Any) -> None:
    with client.chat.completions.stream(
        model=NAME, messages=HI, tools=[FIND], tool_choice="required", seed=1
    ) as events:
        message = events.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.name == "workspace_search"
    json.loads(message.tool_calls[0].function.arguments)


def test_completions_of_ids_and_of_text(server: Running, client: Any) -> None:
    d = server.service.dialect
    text = "<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user>"
    ids = d.encode(d.read({"system": "S", "messages": [user()]})[0], partial=True).ids.tolist()
    more = {"model": NAME, "seed": 1, "max_tokens": 24, "extra_body": {"return_token_ids": True}}
    first = client.completions.create(prompt=ids, **more)
    second = client.completions.create(prompt=text, logprobs=2, **more)
    assert first.prompt_token_ids[: len(ids)] == ids
    for answer in (first, second):
        assert d.parse_ids(answer.prompt_token_ids + answer.choices[0].token_ids)[0] is not None
    one = second.choices[0]
    assert len(one.logprobs.tokens) == len(one.token_ids)
    assert d.tokenizer.decode(first.choices[0].token_ids) == first.choices[0].text
    both = client.completions.create(prompt=[ids, ids], n=2, stream=True, **more)
    texts = dict.fromkeys(range(4), "")
    for chunk in both:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert set(texts) == {0, 1, 2, 3}
    assert all(texts.values())
    assert texts[0] == first.choices[0].text


def strict_tool(schema: Any, strict: Any = True) -> Any:
    return {"type": "function", "function": {"name": "f", "parameters": schema, "strict": strict}}


def test_strict_tools_are_enforced_or_refused(client: Any) -> None:
    loose = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}}
    for seed in range(4):
        options = {"tools": [strict_tool(loose)], "tool_choice": "required", "seed": seed}
        (call,) = ask(client, **options).choices[0].message.tool_calls
        arguments = json.loads(call.function.arguments)
        assert set(arguments) <= {"a", "b"}
        assert arguments.get("a", 1) in (1, 2)
    unread = {"type": "object", "properties": {"a": {"type": "string", "optional": True}}}
    assert ask(client, tools=[strict_tool(unread, False)]).choices
    for tool_asked, place in (
        (strict_tool(unread), "tools[1].function.parameters"),
        (strict_tool(loose, "yes"), "tools[1].function.strict"),
    ):
        with pytest.raises(openai.BadRequestError, match="tools") as caught:
            ask(client, tools=[LIST, tool_asked])
        assert caught.value.param == place
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": unread, "strict": True}}
    with pytest.raises(openai.BadRequestError, match="optional") as caught:
        ask(client, response_format=shape)
    assert caught.value.param == "response_format"


def test_a_record_as_prompt_has_its_own_tools_and_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    record: dict[str, Any] = {"messages": [user("?")], "tools": [FIND, LIST]}
    named = record | {"tool_choice": {"type": "function", "function": {"name": "list_docs"}}}
    made, recipes = service(vocabulary.small("qwen3"), new_tokens=48), list[Any]()

    async def ready(recipe: Any, _: Any) -> Any:
        recipes.append(recipe)
        raise ApiError("enough")

    def refused(*prompts: Any, **more: Any) -> str:
        body = {"model": NAME, "prompt": [json.dumps(prompt) for prompt in prompts]} | more
        with pytest.raises(ApiError) as error:
            asyncio.run(made.complete(read(Completion, body)))
        return str(error.value.message)

    monkeypatch.setattr(made, "_ready", ready)
    assert refused(named, named) == "enough"
    assert refused(record) == refused(record, tools=[FIND]) == "enough"
    tools, choices = [r.tools for r in recipes], [r.choice for r in recipes]
    # Tools of a record have the names that the prompt declares, those of requests are mapped.
    assert [[t["function"]["name"] for t in own] for own in tools] == [
        *[["workspace_search", "list_docs"]] * 2, ["workspace.search"]
    ]  # fmt: skip
    assert choices == [Choice("required", ("list_docs",)), Choice(), Choice()]
    assert "send each in its own request" in refused(named, record)
    assert "list_docs" in refused(named, tools=[FIND])
