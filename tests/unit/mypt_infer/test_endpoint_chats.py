"""The controller on servers that have chats alone: what they say becomes the format's ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.chat.demo import Demo
from mypt_infer.controller import Controller, Options
from mypt_infer.controller.events import (
    CallParsed,
    Event,
    Notice,
    TextDelta,
    ThinkDelta,
    ToolResult,
    TurnEnd,
)
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Toolbox

pytest.importorskip("openai", reason="needs the extra endpoint")
from mypt_infer.endpoint import Endpoint, EndpointError, EndpointSource
from mypt_infer.serve.answers import ChatAnswer
from mypt_infer.serve.asked.names import Names
from mypt_infer.serve.asked.prompts import Prompter
from mypt_infer.serve.jobs import Ended, Taken
from tests.support.dialects import DIALECTS
from tests.support.endpoints import FOUND, chat_answer, models, stand_in

Served = Callable[[dict[str, Any]], tuple[int, Any]]


def asked(
    dialect: str, served: Served, *said: str, tools: bool = True, **options: Any
) -> tuple[Controller, list[Event]]:
    """Runs turns on a server that has chats alone; `served` answers these."""

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            return models("m")
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": "this is a chat model"}}
        return served(json.loads(json.dumps(body)))

    d = mypt_spec.dialect(dialect)
    with stand_in(answer) as url:
        endpoint = Endpoint.opened(url, seconds=5.0, retries=0)
        try:
            source = EndpointSource(endpoint, d, tools=Toolbox([FOUND]).schemas if tools else ())
            return talk(source, dialect, *said, tools=tools, **options)
        finally:
            endpoint.close()


def talk(
    source: Any, dialect: str, *said: str, tools: bool, **options: Any
) -> tuple[Controller, list[Event]]:
    d = mypt_spec.dialect(dialect)
    system = {"system"} & {*d.adapter.SCHEMA.top, *d.adapter.SCHEMA.roles}
    controller = Controller(
        source,
        Toolbox([FOUND]) if tools else None,
        dialect=dialect,
        system="You help." if system else None,
        options=Options(**{"max_tokens": 256} | options),
    )
    return controller, [event for text in said for event in controller.say(text)]


def notices(events: list[Event]) -> list[str]:
    return [e.message for e in events if isinstance(e, Notice)]


ALONE = "the server has chats alone: its messages are read"


@pytest.mark.parametrize("name", DIALECTS)
def test_a_chat_says_what_a_source_says(name: str) -> None:
    """Behind the chats is the format itself: prompts and answers as mypt-serve makes them."""
    d, form = mypt_spec.dialect(name), format_of(name)
    tools = form.result is not None
    try:
        mine, _ = talk(Demo(name, calls=tools), name, "Bees?", "And bees?", tools=tools)
    except ValueError:
        return  # nothing says how the format writes results
    prompter, demo = Prompter(d, name), Demo(name, calls=tools)

    def served(body: dict[str, Any]) -> tuple[int, Any]:
        names = Names(["workspace.search"])
        given = names.tools(body.get("tools", []))
        assert all(
            set(t["function"]["name"]) <= {*"workspace_search"} for t in body.get("tools", [])
        )
        prompt = prompter.prompt(names.messages(body["messages"]), given).ids
        answer = ChatAnswer(form, prompt, names)
        demo.truncate(0)
        demo.append(prompt)
        ids = [demo.next(0)]
        while demo._coming:
            ids.append(demo.next(0))
        answer.take(Taken(ids, []))
        answer.take(Ended(cut=False))
        return chat_answer(**answer.choice())

    theirs, events = asked(name, served, "Bees?", "And bees?", tools=tools)
    told = notices(events)
    assert told[0] == ALONE
    assert any(isinstance(e, ToolResult) and not e.error for e in events) == tools
    left = [e for e in told[1:] if "'citations'" not in e and e != "the server is not shown: cite"]
    assert left == []
    left_out = [c.record()["_transcript"].get("left_out", []) for c in (mine, theirs)]
    assert left_out[0] == left_out[1]
    if len(told) == 1 and not (form.lists and not form.result.patterns):
        assert theirs.history.ids == mine.history.ids


def text(events: list[Event]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def call(name: str = "workspace_search", text: str | None = None, ident: str = "c1") -> Any:
    text = '{"query": "bees", "top_k": 3}' if text is None else text
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": text}}


def answered(
    dialect: str, *answers: Any, said: tuple[str, ...] = ("Bees?",), **options: Any
) -> tuple[Controller, list[Event], list[dict[str, Any]]]:
    """Runs turns with a server that answers these, one after the other; with what it was asked."""
    left, bodies = list(answers), list[dict[str, Any]]()

    def served(body: dict[str, Any]) -> tuple[int, Any]:
        bodies.append(body)
        found = left.pop(0)
        return found if isinstance(found, tuple) else chat_answer({"role": "assistant", **found})

    controller, events = asked(dialect, served, *said, **options)
    d = mypt_spec.dialect(dialect)
    assert d.parse_ids(controller.history.ids)[0] is not None
    return controller, events, bodies


@pytest.mark.parametrize("name", DIALECTS)
def test_several_calls_in_one_answer(name: str) -> None:
    """Together where the format has them together, else one after the other; all are made."""
    if format_of(name).result is None:
        return
    calls = {
        "content": None,
        "tool_calls": [call(), call(ident="c2", text='{"query": "x", "top_k": 1}')],
    }
    try:
        controller, events, bodies = answered(name, calls, {"content": "Honey."})
    except ValueError:
        return  # nothing says how the format writes results
    made = [e.arguments["query"] for e in events if isinstance(e, CallParsed)]
    assert made == ["bees", "x"]
    assert len([e for e in events if isinstance(e, ToolResult) and not e.error]) == 2
    assert len(bodies) == 2  # a call that waits needs no request
    last = bodies[1]["messages"]
    assert [m["role"] for m in last if m["role"] == "tool"] == ["tool", "tool"]
    asked_for = [c["id"] for m in last for c in m.get("tool_calls", [])]
    assert [m["tool_call_id"] for m in last if m["role"] == "tool"] == asked_for
    assert text(events) == "Honey."
    assert not controller.record()["_transcript"].get("left_out")
    told = [m for m in notices(events) if "at once" in m]
    together = any(len(m.get("tool_calls", [])) == 2 for m in last)
    assert bool(told) != together


@pytest.mark.parametrize("name", ["mypt", "usf-omega", "praxis"])
@pytest.mark.parametrize(
    ("said", "calls", "notice"),
    [
        (call(text='{"query": "bees", "top_k": [3]'), 1, "'}' was put in at its end"),
        (call(text='{"query": "be'), 0, "was left out: its arguments are no JSON"),
        (call(text="[1]"), 0, "was left out: its arguments are no object but array"),
        (call(text=""), 1, "'{}' was put in"),
        ({"id": "c"}, 0, "a call without a name was left out"),
    ],
)
def test_calls_with_faults(name: str, said: Any, calls: int, notice: str) -> None:
    """What was wrong is told, and such a turn is not trained."""
    answer = {"content": None, "tool_calls": [said, call(ident="c2")]}
    controller, events, _ = answered(name, answer, {"content": "Honey."})
    assert len([e for e in events if isinstance(e, CallParsed)]) == calls + 1
    assert any(notice in message for message in notices(events)), notices(events)
    assert controller.record()["_transcript"]["left_out"][0][1].startswith("it was repaired: ")
    end = events[-1]
    assert isinstance(end, TurnEnd)
    assert end.reason == "stop"


@pytest.mark.parametrize("name", ["llama3", "harmony"])
def test_a_name_that_the_format_cannot_write(name: str) -> None:
    answer = {"content": "I look.", "tool_calls": [call(name="get <weather>"), call(ident="c2")]}
    _, events, _ = answered(name, answer, {"content": "Honey."})
    made = [e.name for e in events if isinstance(e, CallParsed)]
    left = [m for m in notices(events) if "'get <weather>' was left out" in m]
    assert made == ["get <weather>", "workspace.search"] or (made == ["workspace.search"] and left)


@pytest.mark.parametrize("name", ["mypt", "usf-omega", "chatml", "qwen3"])
def test_answers_that_are_cut_or_empty(name: str) -> None:
    cut = chat_answer({"role": "assistant", "content": "Honey is"}, "length")
    controller, events, _ = answered(name, cut, tools=False)
    end = events[-1]
    assert isinstance(end, TurnEnd)
    assert (end.reason, end.message) == (
        "max_tokens",
        "the server's answer was cut by a limit of tokens",
    )
    assert controller.answer()["content"] == "Honey is"
    assert controller.record()["_transcript"]["left_out"][0][1].startswith("it was stopped")
    if name in ("chatml", "qwen3"):  # an answer may be empty there
        controller, _, _ = answered(name, {"content": ""}, tools=False)
        assert not controller.record()["_transcript"].get("left_out")
    else:
        with pytest.raises(EndpointError, match="says nothing that the format can hold"):
            answered(name, {"content": ""}, tools=False)
    with pytest.raises(EndpointError, match="answered what is no chat"):
        answered(name, (200, {"choices": []}), tools=False)


def test_a_call_that_was_cut_ends_the_turn() -> None:
    message = {"role": "assistant", "tool_calls": [call(text='{"query": "bees"')]}
    controller, events, _ = answered("mypt", chat_answer(message, "length"))
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].reason == "max_tokens"
    assert not any(isinstance(e, CallParsed) for e in events)
    assert controller.record()["_transcript"]["left_out"]


def test_what_else_a_message_may_say() -> None:
    """A refusal is an answer, parts are their texts, thoughts are thoughts or told."""
    controller, events, _ = answered("mypt", {"content": None, "refusal": "No."}, tools=False)
    assert controller.answer()["content"] == "No."
    assert "the model refuses" in notices(events)[1]
    parts = [{"type": "text", "text": "Ho"}, {"type": "text", "text": "ney."}]
    thought = {"content": parts, "reasoning": "I know."}
    controller, events, _ = answered("usf-omega", thought, tools=False)
    assert text(events) == "Honey."
    assert "".join(e.text for e in events if isinstance(e, ThinkDelta)) == "I know."
    assert notices(events) == [ALONE]
    controller, events, _ = answered("chatml", thought, tools=False)
    assert "left out of the answer: " in notices(events)[1]
    assert not controller.record()["_transcript"].get("left_out")  # the answer is the model's own


@pytest.mark.parametrize(("name", "tag"), [("mypt", "<myPT_eot>"), ("praxis", "[SEP]")])
def test_an_answer_that_spells_a_tag(name: str, tag: str) -> None:
    """It is a text: the server's template is not ours, so nothing in it is a tag."""
    said = f"Write {tag} at the end."
    controller, events, bodies = answered(
        name, {"content": said}, {"content": "Yes."}, said=(f"What is {tag}?", "Sure?"), tools=False
    )
    assert (
        tag in bodies[0]["messages"][-1]["content"]
        or "u005b" in bodies[0]["messages"][-1]["content"]
    )
    assert len([e for e in events if isinstance(e, TurnEnd) and e.reason == "stop"]) == 2
    d = mypt_spec.dialect(name)
    assert (
        len([m for m in d.parse_ids(controller.history.ids)[0].messages if m.role == "assistant"])
        == 2
    )


def test_servers_that_ask_otherwise() -> None:
    """Newer models want another name for the limit; another refusal is told."""
    refused = {"error": {"message": "no", "param": "max_tokens", "code": "unsupported_parameter"}}
    _, events, bodies = answered("mypt", (400, refused), {"content": "Honey."}, tools=False)
    assert "max_tokens" not in bodies[1]
    assert bodies[1]["max_completion_tokens"] == 256
    assert isinstance(events[-1], TurnEnd)
    for status, says in ((400, "refused with 400: "), (404, "neither completions nor chats")):
        with pytest.raises(EndpointError, match=says):
            answered("mypt", (status, {"error": {"message": "no"}}), tools=False)


def test_chats_of_mypt_serve() -> None:
    """The same seed and the same model, by ids and by chats: the same conversation."""
    pytest.importorskip("starlette", reason="needs the extra serve")
    from tests.support.serving import running, service

    d, made = mypt_spec.dialect("llama3"), service("llama3", seed=3)
    with running(made) as there:
        found = []
        for speaks in ("ids", "chat"):
            endpoint = Endpoint.opened(f"{there.url}/v1", retries=0)
            source = EndpointSource(endpoint, d, sampling={"temperature": 0}, speaks=speaks)
            controller, _ = talk(source, d.name, "Bees?", "And?", tools=False, max_tokens=20)
            endpoint.close()
            found.append(controller.history.ids)
    assert found[0] == found[1]


def test_arguments_keep_their_types() -> None:
    """Arguments of a server's messages become text, and text becomes arguments, with their types."""
    folder = str(Path(__file__).parents[3] / "examples/qwen3_coder")
    given = {"query": "5", "top_k": 3}
    asks = {"content": "So.", "tool_calls": [call(text=json.dumps(given))]}
    controller, events, bodies = answered(folder, asks, {"content": "Honey."})
    assert [e.arguments for e in events if isinstance(e, CallParsed)] == [given]
    text = mypt_spec.dialect(folder).tokenizer.decode(controller.history.ids)
    assert "<parameter=query>\n5\n</parameter>" in text
    (again,) = [c for m in bodies[1]["messages"] for c in m.get("tool_calls", [])]
    assert json.loads(again["function"]["arguments"]) == given
    assert not [m for m in notices(events) if "left out" in m]
