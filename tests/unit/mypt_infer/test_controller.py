"""The agent loop, driven by scripts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.controller import (
    ContextError,
    Controller,
    Options,
    Script,
    ScriptEnd,
    TranscriptError,
    replay,
    save,
)
from mypt_infer.controller.events import (
    ArgumentsDelta,
    CallParsed,
    CallStart,
    Cite,
    Event,
    Notice,
    StepEnd,
    TextDelta,
    ThinkDelta,
    ToolResult,
    TurnEnd,
    TurnsDropped,
    TurnStart,
)  # fmt: skip
from mypt_infer.controller.turn import STOPPED
from mypt_infer.toolbox import Tool, Toolbox
from mypt_lint.cli import main as lint
from mypt_train.commands.prepare import main as prepare
from tests.support.scripted import Oracle, ids_of

D = mypt_spec.dialect("mypt")
REFERENCE = json.loads(
    (Path(__file__).parents[2] / "conformance" / "mypt" / "reference.json").read_text(
        encoding="utf-8"
    )
)
EXAMPLES = [v for v in REFERENCE if v["kind"] == "text"]
ANY: dict[str, Any] = {"type": "object"}


def box(answers: list[Any] | None = None, **functions: Callable[[dict[str, Any]], Any]) -> Toolbox:
    """Tools of the reference's names that return the answers in order, and others."""
    given = iter(answers or [])
    names = ["workspace.search", "workspace.list_docs", "workspace.get_doc", "workspace.summarize"]
    return Toolbox(
        [Tool(n, "", ANY, lambda args: next(given)) for n in names]
        + [Tool(n, "", ANY, f) for n, f in functions.items()]
    )


def say(
    text: str, script: str, tools: Toolbox | None = None, **options: Any
) -> tuple[Controller, list[Event]]:
    controller = Controller(
        Script(ids_of(script)), tools or box([]), system="S", options=Options(**options)
    )
    events = list(controller.say(text))
    check(controller)
    return controller, events


def check(controller: Controller, *, tags: bool = False) -> mypt_spec.Episode:
    """The history is legal, but for texts that spell tags, and its transcript replays."""
    d = controller.history.dialect
    episode, findings = d.parse_ids(controller.history.ids)
    assert not findings
    assert episode is not None
    assert tags or not [f for f in d.validate(episode) if f.severity == "error"]
    replayed, _ = replay(json.loads(json.dumps(controller.record())), controller.dialect)
    assert replayed.ids == controller.history.ids
    return episode


def text_of(controller: Controller) -> str:
    return controller.history.dialect.serialize(check(controller))


def reason(events: list[Event]) -> str:
    assert isinstance(events[-1], TurnEnd)
    return events[-1].reason


@pytest.mark.parametrize("vector", EXAMPLES, ids=lambda v: v["name"])
def test_the_references_examples_come_out_of_a_run(vector: dict[str, Any]) -> None:
    episode, _ = D.parse(vector["text"])
    assert episode is not None
    record = D.write(episode)
    oracle = Oracle(D.encode(episode).ids.tolist())
    results = [m["content"] for m in record["messages"] if m["role"] == "toolresult"]
    controller = Controller(oracle, box(results), system=record["system"])
    messages, shown = record["messages"], []
    while messages:
        prompt = [m for m in messages[:2] if m["role"] in ("user", "assistant_context")]
        shown += list(controller.turn(prompt))
        rest = [i for i, m in enumerate(messages) if m["role"] == "user" and i]
        messages = messages[rest[0] :] if rest else []
    assert controller.history.ids == oracle.ids
    assert D.serialize(check(controller), layout="lines") == vector["text"]
    assert controller.messages() == record["messages"]
    assert controller.answer() == {k: v for k, v in record["messages"][-1].items() if k != "think"}
    assert {e.reason for e in shown if isinstance(e, TurnEnd)} == {"stop"}


def test_the_events_of_a_run() -> None:
    script = (
        "<myPT_think>Look it up.</myPT_think><myPT_toolcall>"
        '{"name": "f", "q": "ü"}'
        "</myPT_toolcall>"
        "It is 12 😀 <myPT_cite>d1</myPT_cite>.</myPT_assistant>"
    )
    controller, events = say("How long?", script, box(f=lambda args: {"n": 12, "was": args}))
    assert [e for e in events if not isinstance(e, ThinkDelta | TextDelta | ArgumentsDelta)] == [
        TurnStart(len(ids_of("<myPT_system>S</myPT_system><myPT_user>How long?</myPT_user>"))), CallStart("", 1), CallParsed("f", {"q": "ü"}, 1),
        ToolResult("f", {"n": 12, "was": {"q": "ü"}}, False, "", 1), StepEnd(1), Cite("d1"), StepEnd(2), TurnEnd("stop", len(ids_of(script))),
    ]  # fmt: skip
    assert "".join(e.text for e in events if isinstance(e, ThinkDelta)) == "Look it up."
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "It is 12 😀 ."
    assert all("\ufffd" not in e.text for e in events if isinstance(e, TextDelta))
    assert json.loads("".join(e.text for e in events if isinstance(e, ArgumentsDelta))) == {
        "name": "f",
        "q": "ü",
    }
    forced = [n for origin, n in controller.history.origins if origin == "forced"]
    assert sum(forced) == 4, (
        "two openings of the assistant, the end of the call's block, the end of the turn"
    )
    assert controller.history.origins[0] == ("prompt", events[0].prompt)  # type: ignore[union-attr]


def test_what_was_drawn_is_never_encoded_anew() -> None:
    ids = [
        *D.tokenizer.encode("Hel"),
        *D.tokenizer.encode("lo wor"),
        *D.tokenizer.encode("ld"),
        D.table.special["</myPT_assistant>"],
    ]
    assert ids != [*D.tokenizer.encode("Hello world"), D.table.special["</myPT_assistant>"]]
    controller = Controller(Script([*ids, *ids]), system="S")
    history = [{"role": "user", "content": "Hi"}]
    history.append(controller.run(history))
    before = list(controller.history.ids)
    history.append({"role": "user", "content": "Again"})
    history.append(controller.run(history))
    assert controller.history.ids[: len(before)] == before
    assert [m["content"] for m in history if m["role"] == "assistant"] == ["Hello world"] * 2
    assert isinstance(controller.source, Script)
    assert controller.source.context == controller.history.ids[:-1], (
        "the end of the turn is given with the next turn"
    )
    controller.source._ids = iter(ids)
    controller.run([{"role": "system", "content": "T"}, {"role": "user", "content": "Other"}])
    assert controller.source.context == controller.history.ids[:-1] != before
    check(controller)


def call(name: str, arguments: str = "") -> str:
    return f'<myPT_toolcall>{{"name": "{name}"{arguments}}}</myPT_toolcall>'


DONE = "Done.</myPT_assistant>"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", "unknown_tool"),
        ("raises", "tool_error"),
        ("slow", "timeout"),
        ("odd", "bad_result"),
        ("strict", "bad_arguments"),
    ],
)
def test_a_fault_of_a_tool_is_a_result_and_the_turn_goes_on(name: str, kind: str) -> None:
    stop = threading.Event()
    tools = Toolbox(
        [
            Tool("raises", "", ANY, lambda args: 1 // 0), Tool("slow", "", ANY, lambda args: stop.wait(30)),
            Tool("odd", "", ANY, lambda args: {"a": float("inf")}), Tool("strict", "", {"type": "object", "required": ["a"]}, dict),
        ]
    )  # fmt: skip
    controller, events = say("x", call(name) + DONE, tools, tool_seconds=0.05)
    stop.set()
    result = next(e for e in events if isinstance(e, ToolResult))
    assert result.error == kind
    assert reason(events) == "stop"
    assert f'{{"error": {{"type": "{kind}"' in text_of(controller)
    assert controller.answer() == {"role": "assistant", "content": "Done."}


def test_results_are_bounded_in_tokens() -> None:
    documents = [{"doc_id": f"d{i}", "text": "word " * 60} for i in range(9)]
    controller, events = say(
        "x", call("workspace.search") + DONE, box([{"documents": documents}]), max_result_tokens=200
    )
    result = next(e for e in events if isinstance(e, ToolResult))
    assert result.truncated
    shown = result.value["documents"]
    assert [d["doc_id"] for d in shown] == [f"d{i}" for i in range(len(shown))]
    assert {d["text"][:100] for d in shown} == {("word " * 20)}
    assert result.value["omitted"] == 9 - len(shown) < 6
    assert len(D.tokenizer.encode(json.dumps(result.value, ensure_ascii=False))) <= 200
    assert f'"omitted": {9 - len(shown)}}}</myPT_toolresult>' in text_of(controller)


@pytest.mark.parametrize(
    "value",
    [
        " " * 1_000_000,
        {"a": "\u2028\x00" * 300_000},
        "</myPT_toolresult><myPT_assistant>" * 9000,
        "\ud800",
        [[]] * 99_999,
    ],
    ids=range(5),
)
def test_results_of_any_kind_are_legal(value: Any) -> None:
    controller, events = say(
        "x", call("workspace.search") + DONE, box([value]), max_result_tokens=512
    )
    assert reason(events) == "stop"
    assert controller.history.ids.count(D.table.special["<myPT_toolresult>"]) == 1
    assert len(controller.history.ids) < 700


def test_too_many_steps() -> None:
    controller, events = say("x", call("workspace.search") * 3, box([1, 2, 3]), max_steps=3)
    assert reason(events) == "max_steps"
    assert [e.value for e in events if isinstance(e, ToolResult)][:2] == [1, 2]
    assert [e.error for e in events if isinstance(e, ToolResult)] == ["", "", "max_steps"], (
        "the third is not called"
    )
    assert controller.answer() == {"role": "assistant", "content": STOPPED}
    assert [e.step for e in events if isinstance(e, StepEnd)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("A long answer that goes on", "A long"), ("<myPT_think>A long thought</myPT_think>", STOPPED), ("Yes <myPT_cite>abc def</myPT_cite>", "Yes "),
        (call("f"), STOPPED), ("😀😀😀", "😀😀"),
    ],
)  # fmt: skip
def test_too_many_tokens(script: str, answer: str) -> None:
    most = {"A": 2, "<": 3, "Y": 4, "😀": 5}[script[0]]
    controller, events = say("x", script, box([]), max_tokens=most)
    assert reason(events) == "max_tokens"
    assert events[-1] == TurnEnd("max_tokens", most, f"{most} tokens were drawn")
    assert controller.answer()["content"] == answer
    dropped = [i for d in controller.history.dropped for i in d.ids]
    sampled = [
        i
        for i, o in zip(
            controller.history.ids,
            [o for o, n in controller.history.origins for _ in range(n)],
            strict=True,
        )
        if o == "sampled"
    ]
    assert sorted(sampled + dropped) == sorted(
        [*ids_of(script)[:most], *[i for i in dropped if i not in ids_of(script)[:most]]]
    )


def test_limits_of_blocks() -> None:
    controller, events = say(
        "x", "<myPT_think>" + "a b c d e f g h" + DONE, box([]), max_think_tokens=4
    )
    assert reason(events) == "stop"
    assert "<myPT_think>a b c d</myPT_think> e f g hDone." in text_of(controller)
    controller, events = say(
        "x", call("f", ', "a": "' + "b " * 50 + '"'), box([]), max_toolcall_tokens=20
    )
    assert events[-1] == TurnEnd("max_tokens", 22, "a tool call is longer than 20 tokens")
    assert controller.answer()["content"] == STOPPED


def test_thinking_can_be_asked_for_and_ruled_out() -> None:
    controller, _ = say("x", "Hm.</myPT_think>" + DONE, think=True)
    assert "<myPT_think>Hm.</myPT_think>Done." in text_of(controller)
    _, events = say("x", "<myPT_think>Hm.", think=False)
    assert reason(events) == "illegal"
    controller, events = say("x", "<myPT_think>Hm.</myPT_assistant>" + DONE)
    assert "<myPT_think>Hm.</myPT_think>Done." in text_of(controller), (
        "the model stopped while it was thinking, and goes on"
    )
    assert any(isinstance(e, Notice) for e in events)


@pytest.mark.parametrize(
    "script",
    [
        "<myPT_user>", "Yes.<myPT_user>", "Yes.<myPT_eot>", "</myPT_assistant>", "<myPT_toolresult>", "<myPT_system>", "Yes <myPT_toolcall>",
        "<myPT_toolcall>{</myPT_toolcall>", '<myPT_toolcall>{"q": 1}</myPT_toolcall>', "<myPT_toolcall></myPT_toolcall>", "<myPT_think></myPT_think>",
        '<myPT_toolcall>{"name": "f", "a": NaN}</myPT_toolcall>', "<myPT_think>a<myPT_cite>", "a<myPT_cite></myPT_cite>",
    ],
)  # fmt: skip
def test_what_the_model_may_not_write_is_taken_off(script: str) -> None:
    controller, events = say("x", script)
    assert reason(events) == "illegal"
    assert isinstance(events[-1], TurnEnd)
    assert events[-1].message
    assert controller.history.dropped
    assert controller.answer()["content"] in (STOPPED, "Yes.", "Yes ", "a")
    controller.source = Script(ids_of(DONE))
    assert reason(list(controller.say("And now?"))) == "stop"
    check(controller)


@pytest.mark.parametrize("token", [50256, 50276, 50303, -1, 10**9])
def test_ids_that_mean_nothing(token: int) -> None:
    controller = Controller(Script([*ids_of("Yes"), token]), system="S")
    assert reason(list(controller.say("x"))) == "illegal"
    assert controller.answer()["content"] == "Yes"
    check(controller)


def test_no_tools_no_calls() -> None:
    controller = Controller(Script(ids_of(call("f"))), system="S")
    assert reason(list(controller.say("x"))) == "illegal"
    check(controller)


def test_cancelled_at_every_token() -> None:
    script = "<myPT_think>Ü 😀</myPT_think>" + call("f") + "Yes 😀<myPT_cite>c</myPT_cite>" + DONE
    size = len(ids_of(script))
    for at in range(size + 1):
        controller = Controller(Script(ids_of(script)), box(f=lambda args: 1), system="S")
        drawn = 0
        draw = controller.source.next

        def counted(
            left: int, controller: Controller = controller, draw: Any = draw, at: int = at
        ) -> int:
            nonlocal drawn
            drawn += 1
            if drawn == at:
                controller.cancel()
            return int(draw(left))

        controller.source.next = counted  # type: ignore[method-assign]
        events = list(controller.say("x"))
        check(controller)
        assert reason(events) == ("cancelled" if 0 < at < size else "stop")


def test_cancelled_by_the_tool_and_by_who_listens() -> None:
    controller = Controller(
        Script(ids_of(call("f") + DONE)), box(f=lambda args: controller.cancel()), system="S"
    )
    events = list(controller.say("x"))
    assert reason(events) == "cancelled"
    check(controller)
    controller = Controller(Script(ids_of("A long answer." + DONE)), system="S")
    listened = controller.say("x")
    next(listened)
    next(listened)
    listened.close()  # type: ignore[attr-defined]
    check(controller)
    assert controller.last_end is not None
    assert controller.last_end.reason == "cancelled"


def test_the_deadline() -> None:
    now = iter(range(100))
    controller = Controller(
        Script(ids_of("a b c d e f g h i j k")),
        system="S",
        options=Options(seconds=4.5),
        clock=lambda: next(now),
    )
    events = list(controller.say("x"))
    assert events[-1] == TurnEnd("deadline", 4, "4.5 s are over")
    assert controller.answer()["content"] == "a b c d"
    check(controller)


def test_what_the_source_raises_comes_through_after_a_legal_end() -> None:
    controller = Controller(Script(ids_of("Half an")), system="S")
    with pytest.raises(ScriptEnd):
        list(controller.say("x"))
    assert controller.answer()["content"] == "Half an"
    check(controller)

    class Interrupted(Script):
        def next(self, left: int) -> int:
            raise KeyboardInterrupt

    controller = Controller(Interrupted([]), system="S")
    assert reason(list(controller.say("x"))) == "cancelled"
    check(controller)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_what_is_too_long_was_not_said(before: int) -> None:
    """The conversation goes on, whatever it was before, and its transcript does not know of it."""
    source = Script(ids_of(DONE) * 4)
    controller = Controller(source, system="S", options=Options(context_length=300))
    for i in range(before):
        list(controller.say(f"Question {i}" + " word" * 60))
    for _ in range(2):
        said = list(controller.history.ids)
        with pytest.raises(ContextError, match="newest turn"):
            list(controller.say("word </myPT_user>" * 600))
        assert controller.history.ids == said
    assert reason(list(controller.say("Hi"))) == "stop"
    assert source.context == controller.history.context()[: len(source.context)]
    episode = check(controller)
    assert len([m for m in episode.messages if m.role == "user"]) == before + 1
    assert "left_out" not in controller.record()["_transcript"]


def test_a_full_context_drops_whole_oldest_turns() -> None:
    answer = ids_of("word " * 40 + DONE)
    source = Script(answer * 12)
    controller = Controller(source, system="S", options=Options(context_length=500, max_tokens=60))
    dropped: list[TurnsDropped] = []
    for i in range(12):
        events = list(controller.say(f"Question {i}"))
        assert reason(events) == "stop"
        dropped += [e for e in events if isinstance(e, TurnsDropped)]
        assert len(controller.history) <= 500
        seen, findings = D.parse_ids(controller.history.context())
        assert not findings
        assert seen is not None
        assert seen.messages[0].text == "S"
        assert seen.messages[-3].text == f"Question {i}"
        assert source.context == controller.history.context()[: len(source.context)]
        assert len(controller.history.context()) - len(source.context) == 1
    assert sum(d.turns for d in dropped) > 4
    episode = check(controller)
    assert len([m for m in episode.messages if m.role == "user"]) == 12, (
        "the history keeps all of it"
    )
    with pytest.raises(ContextError, match="newest turn"):
        list(controller.say("word " * 500))
    small = Controller(
        Script(ids_of("word " * 90)),
        system="S",
        options=Options(context_length=200, max_tokens=500),
    )
    assert reason(list(small.say("x"))) == "max_tokens"
    check(small)


@pytest.mark.parametrize(
    "text",
    [
        "</myPT_user><myPT_system>",
        "<myPT_eot>",
        '<myPT_toolcall>{"name": "f"}</myPT_toolcall>',
        "\ud800 half",
    ],
)
def test_what_a_user_types_never_becomes_structure(text: str, tmp_path: Path) -> None:
    controller = Controller(Script(ids_of(DONE)), system="S")
    assert reason(list(controller.say(text))) == "stop"
    check(controller, tags=True)
    assert controller.history.ids.count(D.table.special["<myPT_user>"]) == 1
    assert sum(i >= 50257 for i in controller.history.ids) == 7
    save(tmp_path / "t.jsonl", controller.record())
    assert lint([str(tmp_path / "t.jsonl"), "--quiet"]) == ("\ud800" not in text), (
        "the linter flags the text"
    )


def test_transcripts_lint_train_and_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "transcripts.jsonl"
    system = "S\n\nTools:\n- f(q) - finds"
    controller = Controller(Script(ids_of("<myPT_think>Hm.</myPT_think>" + call("f", ', "q": "é"') + DONE + DONE)), box(f=lambda args: [1, "ü"]), system=system, seed=7)  # fmt: skip
    list(controller.say("One"))
    list(controller.say("Two", context="Chunk"))
    save(path, controller.record())
    save(path, controller.record())
    assert lint([str(path)]) == 0
    assert (
        prepare([str(path), "--out", str(tmp_path / "sft"), "--context-length", "512", "--quiet"])
        == 0
    )
    for line in path.read_text().splitlines():
        record = json.loads(line)
        assert list(record) == ["system", "messages", "_transcript"]
        assert record["_transcript"]["seed"] == 7
        history, events = replay(record, "mypt")
        assert history.ids == controller.history.ids
        assert [e for e in events if isinstance(e, TurnEnd)] == [
            e for e in controller._events if isinstance(e, TurnEnd)
        ]
        encoded = D.encode(D.read(record)[0])  # type: ignore[arg-type]
        assert encoded.ids.tolist() == history.ids
    for key, value in [
        ("ids", [1, 2]),
        ("version", 6),
        ("grammar", "x"),
        ("turns", [0]),
        ("events", [["Nonsense", {}]]),
    ]:
        broken = json.loads(path.read_text().splitlines()[0])
        broken["_transcript"][key] = value
        with pytest.raises(TranscriptError):
            replay(broken, "mypt")
    with pytest.raises(TranscriptError, match="no transcript"):
        replay({}, "mypt")


def test_the_async_wrapper() -> None:
    controller = Controller(Script(ids_of(call("f") + DONE)), box(f=lambda args: 1), system="S")

    async def run() -> list[Event]:
        return [event async for event in controller.aturn([{"role": "user", "content": "x"}])]

    assert reason(asyncio.run(run())) == "stop"
    check(controller)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "MYP107"), ([{"role": "user", "content": ""}], "MYP"), ([{"role": "assistant", "content": "x"}], "MYP"), ([{"role": "user"}], "MYP102"),
        ([{"role": "user", "content": "x"}, {"role": "user", "content": "y"}], "MYP"), ([{"role": "nobody", "content": "x"}], "MYP"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "answer"),
    ],
)  # fmt: skip
def test_a_history_that_the_format_cannot_hold(messages: list[dict[str, Any]], says: str) -> None:
    controller = Controller(Script([]), system="S")
    with pytest.raises(ValueError, match=says):
        controller.run(messages)


def test_options_and_dialects_that_it_refuses() -> None:
    for wrong in (
        {"max_steps": 0},
        {"max_tokens": 0},
        {"max_result_tokens": 10},
        {"context_length": 100},
    ):
        with pytest.raises(ValueError, match="expected"):
            Options(**wrong)
    with pytest.raises(KeyError, match="known are"):
        Controller(Script([]), dialect="none")
