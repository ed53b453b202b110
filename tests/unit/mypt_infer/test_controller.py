"""The agent loop, driven by scripts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare
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
)
from mypt_infer.controller.turn import STOPPED
from mypt_infer.toolbox import Tool, Toolbox
from tests.support.build import assistant, message, user
from tests.support.scripted import (
    ANY,
    DONE,
    Oracle,
    call_text,
    check_legal,
    controller_of,
    ids_of,
    only,
    run_turn,
    text_of,
    tools_of,
    turn_end,
)

D = mypt_spec.dialect("mypt")
VECTORS = Path(__file__).parents[2] / "conformance" / "mypt" / "reference.json"
EXAMPLES = [v for v in json.loads(VECTORS.read_bytes()) if v["kind"] == "text"]
NAMES = ["workspace.search", "workspace.list_docs", "workspace.get_doc", "workspace.summarize"]


def box(answers: list[Any] | None = None, **functions: Callable[[dict[str, Any]], Any]) -> Toolbox:
    """Returns tools of the reference's names that return the answers in order, and others."""
    values = iter(answers or [])
    return tools_of(**dict.fromkeys(NAMES, lambda args: next(values)), **functions)


def say(
    text: str, script: str, tools: Toolbox | None = None, **options: Any
) -> tuple[Controller, list[Event]]:
    return run_turn(script, tools or box(), text=text, **options)


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
        shown += controller.turn(prompt)
        rest = [i for i, m in enumerate(messages) if m["role"] == "user" and i]
        messages = messages[rest[0] :] if rest else []
    assert controller.history.ids == oracle.ids
    assert D.serialize(check_legal(controller), layout="lines") == vector["text"]
    assert controller.messages() == record["messages"]
    assert controller.answer() == {k: v for k, v in record["messages"][-1].items() if k != "think"}
    assert {e.reason for e in only(shown, TurnEnd)} == {"stop"}


def test_the_events_of_a_run() -> None:
    script = "<myPT_think>Look it up.</myPT_think>" + call_text("f", ', "q": "ü"')
    script += "It is 12 😀 <myPT_cite>d1</myPT_cite>.</myPT_assistant>"
    controller, events = say("How long?", script, box(f=lambda args: {"n": 12, "was": args}))
    assert [e for e in events if not isinstance(e, ThinkDelta | TextDelta | ArgumentsDelta)] == [
        TurnStart(len(ids_of("<myPT_system>S</myPT_system><myPT_user>How long?</myPT_user>"))), CallStart("", 1), CallParsed("f", {"q": "ü"}, 1),
        ToolResult("f", {"n": 12, "was": {"q": "ü"}}, False, "", 1), StepEnd(1), Cite("d1"), StepEnd(2), TurnEnd("stop", len(ids_of(script))),
    ]  # fmt: skip
    assert "".join(e.text for e in only(events, ThinkDelta)) == "Look it up."
    assert "".join(e.text for e in only(events, TextDelta)) == "It is 12 😀 ."
    assert all("\ufffd" not in e.text for e in only(events, TextDelta))
    body = "".join(e.text for e in only(events, ArgumentsDelta))
    assert json.loads(body) == {"name": "f", "q": "ü"}
    forced = [n for origin, n in controller.history.origins if origin == "forced"]
    # Two openings of the assistant, the end of the call's block, the end of the turn.
    assert sum(forced) == 4
    assert controller.history.origins[0] == ("prompt", only(events, TurnStart)[0].prompt)


def test_what_was_drawn_is_never_encoded_anew() -> None:
    ids = [i for piece in ("Hel", "lo wor", "ld") for i in D.tokenizer.encode(piece)]
    assert ids != D.tokenizer.encode("Hello world")
    source = Script([*ids, D.table.special["</myPT_assistant>"]] * 3)
    controller = Controller(source, system="S")
    history = [user("Hi")]
    history.append(controller.run(history))
    before = list(controller.history.ids)
    history.append(user("Again"))
    history.append(controller.run(history))
    assert controller.history.ids[: len(before)] == before
    assert [m["content"] for m in history if m["role"] == "assistant"] == ["Hello world"] * 2
    # The end of the turn is given with the next turn.
    assert source.context == controller.history.ids[:-1]
    controller.run([{"role": "system", "content": "T"}, user("Other")])
    assert source.context == controller.history.ids[:-1] != before
    check_legal(controller)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("none", "unknown_tool"), ("raises", "tool_error"), ("slow", "timeout"), ("odd", "bad_result"), ("strict", "bad_arguments")],
)  # fmt: skip
def test_a_fault_of_a_tool_is_a_result_and_the_turn_goes_on(name: str, kind: str) -> None:
    stop = threading.Event()
    tools = Toolbox([
        Tool("raises", "", ANY, lambda args: 1 // 0), Tool("slow", "", ANY, lambda args: stop.wait(30)),
        Tool("odd", "", ANY, lambda args: {"a": float("inf")}), Tool("strict", "", {"type": "object", "required": ["a"]}, dict),
    ])  # fmt: skip
    controller, events = say("x", call_text(name) + DONE, tools, tool_seconds=0.05)
    stop.set()
    assert [e.error for e in only(events, ToolResult)] == [kind]
    assert turn_end(events).reason == "stop"
    assert f'{{"error": {{"type": "{kind}"' in text_of(controller)
    assert controller.answer() == {"role": "assistant", "content": "Done."}


def test_results_are_bounded_in_tokens() -> None:
    documents = [{"doc_id": f"d{i}", "text": "word " * 60} for i in range(9)]
    tools = box([{"documents": documents}])
    controller, events = say("x", call_text(NAMES[0]) + DONE, tools, max_result_tokens=200)
    (result,) = only(events, ToolResult)
    assert result.truncated
    shown = result.value["documents"]
    assert [d["doc_id"] for d in shown] == [f"d{i}" for i in range(len(shown))]
    assert {d["text"][:100] for d in shown} == {("word " * 20)}
    assert result.value["omitted"] == 9 - len(shown) < 6
    assert len(D.tokenizer.encode(json.dumps(result.value, ensure_ascii=False))) <= 200
    assert f'"omitted": {9 - len(shown)}}}</myPT_toolresult>' in text_of(controller)


@pytest.mark.parametrize(
    "value",
    [" " * 1_000_000, {"a": "\u2028\x00" * 300_000}, "</myPT_toolresult><myPT_assistant>" * 9000, "\ud800", [[]] * 99_999],
    ids=range(5),
)  # fmt: skip
def test_results_of_any_kind_are_legal(value: Any) -> None:
    tools = box([value])
    controller, events = say("x", call_text(NAMES[0]) + DONE, tools, max_result_tokens=512)
    assert turn_end(events).reason == "stop"
    assert controller.history.ids.count(D.table.special["<myPT_toolresult>"]) == 1
    assert len(controller.history.ids) < 700


def test_too_many_steps() -> None:
    """The call of the last step is not made."""
    controller, events = say("x", call_text(NAMES[0]) * 3, box([1, 2, 3]), max_steps=3)
    assert turn_end(events).reason == "max_steps"
    assert [e.value for e in only(events, ToolResult)][:2] == [1, 2]
    assert [e.error for e in only(events, ToolResult)] == ["", "", "max_steps"]
    assert controller.answer() == {"role": "assistant", "content": STOPPED}
    assert [e.step for e in only(events, StepEnd)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("A long answer that goes on", "A long"), ("<myPT_think>A long thought</myPT_think>", STOPPED), ("Yes <myPT_cite>abc def</myPT_cite>", "Yes "),
        (call_text(), STOPPED), ("😀😀😀", "😀😀"),
    ],
)  # fmt: skip
def test_too_many_tokens(script: str, answer: str) -> None:
    most = {"A": 2, "<": 3, "Y": 4, "😀": 5}[script[0]]
    controller, events = say("x", script, max_tokens=most)
    assert events[-1] == TurnEnd("max_tokens", most, f"{most} tokens were drawn")
    assert controller.answer()["content"] == answer
    history, drawn = controller.history, ids_of(script)
    dropped = [i for d in history.dropped for i in d.ids]
    origins = [origin for origin, number in history.origins for _ in range(number)]
    sampled = [i for i, o in zip(history.ids, origins, strict=True) if o == "sampled"]
    others = [i for i in dropped if i not in drawn]
    assert sorted(sampled + dropped) == sorted(drawn[:most] + others), "nothing drawn is lost"


def test_limits_of_blocks() -> None:
    controller, events = say("x", f"<myPT_think>a b c d e f g h{DONE}", max_think_tokens=4)
    assert turn_end(events).reason == "stop"
    assert "<myPT_think>a b c d</myPT_think> e f g hDone." in text_of(controller)
    script = call_text("f", ', "a": "' + "b " * 50 + '"')
    controller, events = say("x", script, max_toolcall_tokens=20)
    assert events[-1] == TurnEnd("max_tokens", 22, "a tool call is longer than 20 tokens")
    assert controller.answer()["content"] == STOPPED


def test_thinking_can_be_asked_for_and_ruled_out() -> None:
    controller, _ = say("x", "Hm.</myPT_think>" + DONE, think=True)
    assert "<myPT_think>Hm.</myPT_think>Done." in text_of(controller)
    _, events = say("x", "<myPT_think>Hm.", think=False)
    assert turn_end(events).reason == "illegal"
    controller, events = say("x", "<myPT_think>Hm.</myPT_assistant>" + DONE)
    # The model stopped while it was thinking, and goes on.
    assert "<myPT_think>Hm.</myPT_think>Done." in text_of(controller)
    assert only(events, Notice)


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
    assert turn_end(events).reason == "illegal"
    assert turn_end(events).message
    assert controller.history.dropped
    assert controller.answer()["content"] in (STOPPED, "Yes.", "Yes ", "a")
    controller.source = Script(ids_of(DONE))
    assert turn_end(controller.say("And now?")).reason == "stop"
    check_legal(controller)


@pytest.mark.parametrize("token", [50256, 50276, 50303, -1, 10**9])
def test_ids_that_mean_nothing(token: int) -> None:
    controller = controller_of([*ids_of("Yes"), token])
    assert turn_end(controller.say("x")).reason == "illegal"
    assert controller.answer()["content"] == "Yes"
    check_legal(controller)


def test_no_tools_no_calls() -> None:
    controller = controller_of(call_text())
    assert turn_end(controller.say("x")).reason == "illegal"
    check_legal(controller)


def test_cancelled_at_every_token() -> None:
    script = "<myPT_think>Ü 😀</myPT_think>" + call_text() + "Yes 😀<myPT_cite>c</myPT_cite>" + DONE
    size = len(ids_of(script))

    class Cancelling(Script):
        def next(self, left: int = 0) -> int:
            self.drawn += 1
            if self.drawn == at:
                controller.cancel()
            return super().next(left)

        drawn = 0

    for at in range(size + 1):
        source = Cancelling(ids_of(script))
        controller = Controller(source, box(f=lambda args: 1), system="S")
        events = list(controller.say("x"))
        check_legal(controller)
        assert turn_end(events).reason == ("cancelled" if 0 < at < size else "stop")


def test_cancelled_by_the_tool_and_by_who_listens() -> None:
    controller = controller_of(call_text() + DONE, box(f=lambda args: controller.cancel()))
    events = list(controller.say("x"))
    assert turn_end(events).reason == "cancelled"
    check_legal(controller)
    controller = controller_of("A long answer." + DONE)
    listened = controller.say("x")
    next(listened)
    next(listened)
    listened.close()  # type: ignore[attr-defined]
    check_legal(controller)
    assert controller.last_end is not None
    assert controller.last_end.reason == "cancelled"


def test_the_deadline() -> None:
    now = iter(range(100))
    source, options = Script(ids_of("a b c d e f g h i j k")), Options(seconds=4.5)
    controller = Controller(source, system="S", options=options, clock=lambda: next(now))
    events = list(controller.say("x"))
    assert events[-1] == TurnEnd("deadline", 4, "4.5 s are over")
    assert controller.answer()["content"] == "a b c d"
    check_legal(controller)


def test_what_the_source_raises_comes_through_after_a_legal_end() -> None:
    controller = controller_of("Half an")
    with pytest.raises(ScriptEnd):
        list(controller.say("x"))
    assert controller.answer()["content"] == "Half an"
    check_legal(controller)

    class Interrupted(Script):
        def next(self, left: int) -> int:
            raise KeyboardInterrupt

    controller = Controller(Interrupted([]), system="S")
    assert turn_end(controller.say("x")).reason == "cancelled"
    check_legal(controller)


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
    assert turn_end(controller.say("Hi")).reason == "stop"
    assert source.context == controller.history.context()[: len(source.context)]
    episode = check_legal(controller)
    assert len([m for m in episode.messages if m.role == "user"]) == before + 1
    assert "left_out" not in controller.record()["_transcript"]


def test_a_full_context_drops_whole_oldest_turns() -> None:
    answer = ids_of("word " * 40 + DONE)
    source = Script(answer * 12)
    controller = Controller(source, system="S", options=Options(context_length=500, max_tokens=60))
    dropped: list[TurnsDropped] = []
    for i in range(12):
        events = list(controller.say(f"Question {i}"))
        assert turn_end(events).reason == "stop"
        dropped += only(events, TurnsDropped)
        assert len(controller.history) <= 500
        seen, findings = D.parse_ids(controller.history.context())
        assert not findings
        assert seen is not None
        assert seen.messages[0].text == "S"
        assert seen.messages[-3].text == f"Question {i}"
        assert source.context == controller.history.context()[: len(source.context)]
        assert len(controller.history.context()) - len(source.context) == 1
    assert sum(d.turns for d in dropped) > 4
    episode = check_legal(controller)
    assert len([m for m in episode.messages if m.role == "user"]) == 12, "all are kept"
    with pytest.raises(ContextError, match="newest turn"):
        list(controller.say("word " * 500))
    small = controller_of("word " * 90, context_length=200, max_tokens=500)
    assert turn_end(small.say("x")).reason == "max_tokens"
    check_legal(small)


@pytest.mark.parametrize(
    "text", ["</myPT_user><myPT_system>", "<myPT_eot>", call_text(), "\ud800 half"]
)
def test_what_a_user_types_never_becomes_structure(text: str, tmp_path: Path) -> None:
    controller = controller_of(DONE)
    assert turn_end(controller.say(text)).reason == "stop"
    check_legal(controller, tags=True)
    assert controller.history.ids.count(D.table.special["<myPT_user>"]) == 1
    assert sum(i >= 50257 for i in controller.history.ids) == 7
    save(tmp_path / "t.jsonl", controller.record())
    flagged = "\ud800" not in text
    assert lint([str(tmp_path / "t.jsonl"), "--quiet"]) == flagged


def test_transcripts_lint_train_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "transcripts.jsonl"
    system = "S\n\nTools:\n- f(q) - finds"
    source = Script(
        ids_of("<myPT_think>Hm.</myPT_think>" + call_text("f", ', "q": "é"') + DONE * 2)
    )
    controller = Controller(source, box(f=lambda args: [1, "ü"]), system=system, seed=7)
    said = [*controller.say("One"), *controller.say("Two", context="Chunk")]
    save(path, controller.record())
    save(path, controller.record())
    assert lint([str(path)]) == 0
    out = ["--out", str(tmp_path / "sft"), "--context-length", "512", "--quiet"]
    assert prepare([str(path), *out]) == 0
    for line in path.read_text().splitlines():
        record = json.loads(line)
        assert list(record) == ["system", "messages", "_transcript"]
        assert record["_transcript"]["seed"] == 7
        history, events = replay(record, "mypt")
        assert history.ids == controller.history.ids
        assert only(events, TurnEnd) == only(said, TurnEnd)
        encoded = D.encode(D.read(record)[0])  # type: ignore[arg-type]
        assert encoded.ids.tolist() == history.ids
    damage = [("ids", [1, 2]), ("version", 7), ("version", 4), ("grammar", "x"), ("turns", [0]), ("events", [["Nonsense", {}]])]  # fmt: skip
    for key, value in damage:
        broken = json.loads(path.read_text().splitlines()[0])
        broken["_transcript"][key] = value
        with pytest.raises(TranscriptError):
            replay(broken, "mypt")
    with pytest.raises(TranscriptError, match="no transcript"):
        replay({}, "mypt")


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "MYP107"), ([user("")], "MYP"), ([assistant("x")], "MYP"), ([{"role": "user"}], "MYP102"), ([user("x"), user("y")], "MYP"),
        ([message("nobody")], "MYP"), ([user("x"), assistant("y")], "answer"),
    ],
)  # fmt: skip
def test_a_history_that_the_format_cannot_hold(messages: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        controller_of([]).run(messages)


@pytest.mark.parametrize(
    "limit", [("max_steps", 0), ("max_tokens", 0), ("max_result_tokens", 10), ("context_length", 100)]
)  # fmt: skip
def test_limits_that_leave_no_room_are_refused(limit: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Options(**dict([limit]))


def test_a_dialect_that_is_unknown_is_refused() -> None:
    with pytest.raises(KeyError, match="known are"):
        Controller(Script([]), dialect="none")
