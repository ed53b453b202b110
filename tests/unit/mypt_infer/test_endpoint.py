"""The controller on models of servers: by ids, by texts, and what goes wrong there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import mypt_spec
from mypt_infer.chat.demo import Demo
from mypt_infer.controller import Controller, Options, replay
from mypt_infer.controller.events import CallParsed, Event, Notice, ToolResult, TurnEnd
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import Toolbox
from mypt_spec.encoder import encode_events

pytest.importorskip("openai", reason="needs the extra endpoint")
from mypt_infer.endpoint import Endpoint, EndpointError, EndpointSource
from tests.support.dialects import DIALECTS
from tests.support.endpoints import FOUND, completion, models, stand_in

OPENED: list[Endpoint] = []


def opened(url: str, **options: Any) -> Endpoint:
    OPENED.append(Endpoint.opened(url, **{"seconds": 5.0, "retries": 0} | options))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def chat(source: Any, dialect: str, *said: str, tools: bool) -> tuple[Controller, list[Event]]:
    """Runs a turn for each text of the user."""
    d = mypt_spec.dialect(dialect)
    system = {"system"} & {*d.adapter.SCHEMA.top, *d.adapter.SCHEMA.roles}
    controller = Controller(
        source,
        Toolbox([FOUND]) if tools else None,
        dialect=dialect,
        system="You help." if system else None,
        options=Options(max_tokens=256),
    )
    return controller, [event for text in said for event in controller.say(text)]


def demonstrated(demo: Demo, ids: list[int]) -> list[int]:
    """What the stand-in of mypt-chat says after a prompt, until the system writes."""
    demo.truncate(0)
    demo.append(ids)
    out = [demo.next(0)]
    while demo._coming:
        out.append(demo.next(0))
    return out


@pytest.mark.parametrize("speaks", ["text", "llama.cpp"])
@pytest.mark.parametrize("name", DIALECTS)
def test_a_server_says_what_a_source_says(name: str, speaks: str) -> None:
    """By its texts, and by the ids of llama.cpp's server: in every format, tools included."""
    d, tools = mypt_spec.dialect(name), format_of(name).result is not None
    try:
        mine, _ = chat(Demo(name, calls=tools), name, "Bees?", "And bees?", tools=tools)
    except ValueError:
        return  # nothing says how the format writes results

    demo = Demo(name, calls=tools)

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            return models("m", **({"owned_by": "llamacpp"} if speaks == "llama.cpp" else {}))
        if path == "/completion":
            return 200, {"tokens": demonstrated(demo, body["prompt"])}
        if not isinstance(body["prompt"], str):
            return 400, {"error": {"message": "no ids"}}
        ids = encode_events(d.lex(body["prompt"]), d.table, d.tokenizer).ids.tolist()
        return completion(d.tokenizer.decode(demonstrated(demo, ids)))

    with stand_in(answer) as url:
        source = EndpointSource(opened(url), d)
        theirs, events = chat(source, name, "Bees?", "And bees?", tools=tools)
    assert theirs.history.ids == mine.history.ids
    notices = [e.message for e in events if isinstance(e, Notice)]
    assert notices == (["the server returns no ids: its texts are read"] * (speaks == "text"))
    assert any(isinstance(e, ToolResult) and not e.error for e in events) == tools
    assert theirs.record()["_transcript"].get("left_out", []) == mine.record()["_transcript"].get(
        "left_out", []
    )


def by_text(dialect: str, *answers: str, tools: bool = True) -> tuple[Controller, list[Event]]:
    """Runs one turn with a server that says these texts, one after the other."""
    left = list(answers)

    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return models("m") if path == "/v1/models" else completion(left.pop(0))

    with stand_in(answer) as url:
        source = EndpointSource(opened(url), mypt_spec.dialect(dialect), speaks="text")
        return chat(source, dialect, "Bees?", tools=tools)


CALL = '<myPT_toolcall>{"name": "workspace.search", "query": "bees", "top_k": 3}</myPT_toolcall>'


@pytest.mark.parametrize(
    ("said", "notices", "kept"),
    [
        ("Honey.</myPT_assistant><myPT_eot>", [], "Honey."),
        ("Honey.", [], "Honey."),  # the tag by which it ended is not in the text
        ("Honey.</myPT_assistant><myPT_eot><myPT_user>More", [], "Honey."),
        ("<myPT_think>I know.</myPT_assistant>Honey.", ["'</myPT_assistant>'", "in a block"], None),
        ("Honey. <myPT_cite>d1", ["'</myPT_cite>' was put in"], None),
        ("Ho<myPT_toolresult>ney.", ["'<myPT_toolresult>' where only"], "Ho"),
        ("Ho</myPT_think>ney.", ["'</myPT_think>' where only"], "Honey."),
    ],
)
def test_texts_with_faults(said: str, notices: list[str], kept: str | None) -> None:
    """What was wrong is told, what was put in is marked, and such a turn is not trained."""
    controller, events = by_text("mypt", said, "Yes.</myPT_assistant>")
    told = [e.message for e in events if isinstance(e, Notice)]
    assert len(told) >= len(notices)
    assert all(any(part in message for message in told) for part in notices), told
    record = controller.record()
    left_out = record["_transcript"].get("left_out", [])
    if notices:
        assert left_out[0][1].startswith(("it was repaired: ", "it was stopped: "))
        assert not record["messages"]
    else:
        assert told == [] == left_out
    if kept is not None:
        assert controller.answer()["content"] == kept
    _, again = replay(record, "mypt")
    assert [e for e in again if isinstance(e, Notice)] == [
        e for e in events if isinstance(e, Notice)
    ]


@pytest.mark.parametrize(
    ("said", "calls", "notice"),
    [
        (CALL, 1, ""),
        (CALL.removesuffix("}</myPT_toolcall>"), 0, ""),  # 3 may be the beginning of 30
        (CALL.removesuffix("</myPT_toolcall>"), 1, "'</myPT_toolcall>' was put in"),
        (CALL.replace("}<", "</myPT_assistant><"), 0, ""),
        (CALL.replace(', "top_k": 3}', ""), 1, "'}' was put in at its end"),
        (CALL.replace('bees", "top_k": 3}', ""), 0, ""),
        (CALL + "<myPT_toolresult>{}</myPT_toolresult>", 1, ""),
    ],
)
def test_calls_with_faults(said: str, calls: int, notice: str) -> None:
    """Brackets alone are put in; a call that was cut inside a value is not made."""
    controller, events = by_text("mypt", said, "Honey.</myPT_assistant>")
    assert len([e for e in events if isinstance(e, CallParsed)]) == calls
    told = " ".join(e.message for e in events if isinstance(e, Notice))
    assert notice in told
    end = events[-1]
    assert isinstance(end, TurnEnd)
    assert (end.reason == "stop") == bool(calls)
    left_out = controller.record()["_transcript"].get("left_out", [])
    assert bool(left_out) == (bool(notice) or not calls)
    d = mypt_spec.dialect("mypt")
    assert d.parse_ids(controller.history.ids)[0] is not None


def test_a_text_of_which_nothing_is_left_ends_the_turn() -> None:
    """The server is not asked the same again for ever."""
    with pytest.raises(EndpointError, match="the model ends where mypt goes on"):
        by_text("mypt", "</myPT_think>")


def test_what_nobody_drew_is_marked() -> None:
    controller, _ = by_text("mypt", CALL.removesuffix("</myPT_toolcall>"), "Honey.")
    d, origins = mypt_spec.dialect("mypt"), controller.history.origins
    closer = d.tokenizer.special["</myPT_toolcall>"]
    of = [origin for origin, number in origins for _ in range(number)]
    assert [o for o, i in zip(of, controller.history.ids, strict=True) if i == closer] == ["forced"]


def test_a_text_that_spells_a_tag_is_not_sent_as_text() -> None:
    d = mypt_spec.dialect("mypt")
    with stand_in(lambda path, body: models("m")) as url:
        source = EndpointSource(opened(url), d, speaks="text")
        controller = Controller(source, dialect="mypt", system="S")
        with pytest.raises(EndpointError, match="spells a tag"):
            list(controller.say("What is <myPT_eot>?"))
        assert controller.last_end is not None
        assert controller.last_end.reason == "error"


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "the key is refused; set OPENAI_API_KEY"),
        (404, "neither completions nor chats"),
        (429, "too many requests"),
        (500, "the server failed"),
        (418, "refused with 418"),
    ],
)
def test_refusals_are_said(status: int, says: str) -> None:
    def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return models("m") if path == "/v1/models" else (status, {"error": {"message": "no"}})

    with stand_in(answer) as url:
        source = EndpointSource(opened(url), mypt_spec.dialect("mypt"))
        controller = Controller(source, dialect="mypt", system="S")
        with pytest.raises(EndpointError, match=says):
            list(controller.say("Hi"))
    end = controller.last_end
    assert end is not None
    assert end.reason == "error"
    assert says in end.message
    assert mypt_spec.dialect("mypt").parse_ids(controller.history.ids)[0] is not None


def test_servers_that_are_not_there_or_say_something_else() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=f"no server answers at {url}"):
            opened(url)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match="did not answer in time"):
            opened(url, seconds=0.1)
    for names, model, says in (
        ((), None, "does not say which models"),
        (("a", "b"), None, "name the model; it has a, b"),
        (("a", "b"), "c", "no model 'c'; it has a, b"),
    ):
        found = models(*names)
        with (
            stand_in(lambda *_, found=found: found) as url,
            pytest.raises(EndpointError, match=says),
        ):
            opened(url, model=model)
    d = mypt_spec.dialect("mypt")
    with stand_in(lambda *_: models("m", dialect="gabgpt")) as url:
        other = opened(url)
    with pytest.raises(ValueError, match="speaks gabgpt, not mypt"):
        EndpointSource(other, d)
    with stand_in(lambda *_: models("m", owned_by="llamacpp")) as url:
        controller = Controller(EndpointSource(opened(url), d), dialect="mypt", system="S")
        with pytest.raises(EndpointError, match="returned no tokens"):
            list(controller.say("Hi"))
