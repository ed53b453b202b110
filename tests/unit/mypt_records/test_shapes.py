"""The shapes of the world: which one a record has, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mypt_convert import Converter
from mypt_records.chat import JsonValue
from mypt_records.checks import findings
from mypt_records.shapes import SHAPES, read, shape_of
from mypt_spec.bodies.strict_json import value_at
from tests.support.build import Record, assistant, call, calls, function, tool, user
from tests.support.linting import TEXT
from tests.support.shapes import GREETING, HI, NO, RECORDS, YO, gpt, talk


def as_pairs(messages: Any) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in messages]


@pytest.mark.parametrize(("shape", "record", "expected"), RECORDS)
def test_a_record_of_each_kind(shape: str, record: Any, expected: list[tuple[str, str]]) -> None:
    """It is read, and converted to a format that knows preferences and labels: nothing is lost."""
    assert shape_of(record) == shape
    chat = read(record, shape)
    assert findings(chat) == []
    assert as_pairs(chat.messages) == expected
    texts = [text for m in (*chat.messages, *chat.rejected) for text in m.content or ()]
    assert all(value_at(record, text.at) == text.text for text in texts)
    assert [m.text for m in chat.rejected] == (["No"] if shape == "preference" else [])
    assert chat.label == (JsonValue(False, "/label") if shape == "kto" else None)
    out = Converter(shape, "usf-omega").record(record)
    assert out.record is not None, out.findings
    assert out.losses == ()
    messages = out.record["messages"] + ([out.record["chosen"]] if "chosen" in out.record else [])
    assert [(m["role"], m["content"]) for m in messages] == expected
    assert out.record.get("label") == (False if shape == "kto" else None)
    rejected = out.record.get("rejected")
    assert (rejected and rejected["content"]) == ("No" if shape == "preference" else None)


def test_each_shape_has_records() -> None:
    assert {shape for shape, _, _ in RECORDS} | {
        "text",
        "plain",
        "prompt",
        "other",
        "anthropic",
    } == set(SHAPES)


@pytest.mark.parametrize(
    ("keys", "advice"),
    [
        (("Question", "answer"), 'rename "Question" to "question"'),
        (("instruction", "input", "Answers"), '"input" to "question" and "Answers" to "answer"'),
        (
            ("instruction", "input", "output_1"),
            'write each as {"messages": [{"role": "user", "content": "..."}, ...]}, or in another shape: ',
        ),
    ],
)
def test_advice_for_columns_names_only_those_to_change(keys: tuple[str, ...], advice: str) -> None:
    (finding,) = findings(read(dict.fromkeys(keys, "x"), "other"))
    assert finding.help is not None
    assert advice in finding.help
    assert not any(f'rename "{key}" to "{key}"' in finding.help for key in keys)
    assert '"instruction" to' not in finding.help


def test_a_text_with_tags() -> None:
    record = {"text": TEXT, "language": "en", "note": 1}
    assert shape_of(record) == "text"
    chat = read(record, "text")
    assert chat.serialised == "mypt"
    assert [(f.code, f.pointer) for f in findings(chat)] == [("MYP112", "/note")]
    out = Converter("text", "praxis").record(record)
    assert out.losses == ()
    assert out.record is not None
    assert [
        (m["role"], m.get("content") or m["contents"][0]["text"]) for m in out.record["messages"]
    ] == [("system", "S"), ("user", "Q"), ("assistant", "A")]
    assert (out.record["language"], out.record["_note"]) == ("en", 1)


def test_a_text_with_a_misplaced_tag_has_its_place() -> None:
    record = {"text": TEXT.replace("</myPT_user>", "")}
    (first, *_) = findings(read(record, "text"))
    assert (first.severity, first.pointer) == ("error", "/text")
    assert first.span is not None
    assert record["text"][slice(*first.span)].startswith("<myPT_")
    assert Converter("text", "praxis").record(record).record is None


@pytest.mark.parametrize(
    ("record", "code"), [({"text": "once"}, "MYP104"), ({"text": 4}, "MYP104"), ({}, "MYP102")]
)
def test_a_text_without_tags_is_no_chat(record: Any, code: str) -> None:
    assert shape_of(record) in ("", "plain")
    assert code in [f.code for f in findings(read(record, "text"))]
    assert Converter("plain", "praxis").record(record).record is None


HALF = {"prompt": "Q", "chosen": "A"}


@pytest.mark.parametrize(
    "record", [{}, [], None, "x", {"text": 1}, {"messages": {}}, {"messages": [1]}, HALF]
)
def test_what_has_no_shape(record: Any) -> None:
    assert shape_of(record) == ""


@pytest.mark.parametrize("calling", ["function_call", "tool_call"])
@pytest.mark.parametrize("result", ["observation", "tool", "function_response"])
def test_calls_of_sharegpt(calling: str, result: str) -> None:
    one = '{"name": "f", "arguments": {"a": 1}}'
    begun = [("human", "Hi"), (calling, f"[{one}, {one}]")]
    record = gpt(*begun, (result, "4"), (result, "5"), ("gpt", "Yo"), tools='[{"name": "f"}]')
    chat = read(record, "sharegpt")
    assert findings(chat) == []
    expected = ("f", {"a": 1}, "/conversations/1/value")
    for c in chat.messages[1].calls:
        assert (c.name.text, c.arguments and c.arguments.value, c.at) == expected
    assert len(chat.messages[1].calls) == 2
    record = gpt(("human", "Hi"), (calling, one), (result, "4"), ("gpt", "Yo"))
    out = Converter("sharegpt", "usf-omega").record(record)
    assert out.losses == ()
    assert out.record is not None
    assert [m["content"] for m in out.record["messages"] if m["role"] == "tool"] == ["4"]


@pytest.mark.parametrize(
    ("shape", "record", "code", "pointer"),
    [
        ("sharegpt", {"conversations": [{"from": "human"}]}, "MYP104", "/conversations/0/value"),
        ("sharegpt", {"conversations": [{"from": "human", "value": "Hi", "valeu": "x"}]}, "MYP112", "/conversations/0/valeu"),
        ("sharegpt", {"conversations": []}, "MYP104", "/conversations"),
        ("sharegpt", gpt(("human", "Hi"), label="true"), "MYP104", "/label"),
        ("alpaca", {"instruction": "Hi"}, "MYP102", ""),
        ("alpaca", {"output": "Hi"}, "MYP102", ""),
        ("alpaca", {"instruction": ["Hi"], "output": "Yo"}, "MYP104", "/instruction"),
        ("alpaca", {"instruction": "Hi", "output": "Yo", "history": [["a"]]}, "MYP104", "/history/0"),
        ("completion", {"prompt": "Hi"}, "MYP102", ""),
        ("completion", {"prompt": [1], "completion": "Yo"}, "MYP104", "/prompt/0"),
        ("preference", {"prompt": "Hi", "chosen": "Yo"}, "MYP102", ""),
        ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": {"role": "robot", "content": "x"}}, "MYP105", "/rejected/role"),
        ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": []}, "MYP104", "/rejected"),
        ("preference", {"prompt": "Hi", "chosen": ["Yo", "Hey"], "rejected": "No"}, "MYP104", "/chosen"),
        ("openai", {"messages": [{"role": "user", "content": [{"type": "text", "content": "x"}]}, *talk(YO)]}, "MYP104", "/messages/0/content/0/content"),
        # Words that are not read, because others are.
        ("alpaca", {"instruction": "Hi", "output": "Yo", "response": "x"}, "MYP112", "/response"),
        ("alpaca", {"instruction": "Hi", "output": "Yo", "question": "x"}, "MYP112", "/question"),
        ("alpaca", {"instruction": "Hi", "output": "Yo", "input": "a", "context": "x"}, "MYP112", "/context"),
        ("sharegpt", gpt(("human", "Hi"), ("gpt", "Yo"), dialog=talk(HI)), "MYP103", "/dialog"),
        ("sharegpt", {"conversations": [{"from": "gpt", "value": "Hi", "content": "x"}]}, "MYP103", "/conversations/0/content"),
        ("sharegpt", {"conversations": [{"from": "gpt", "role": "user", "value": "Hi"}]}, "MYP103", "/conversations/0/role"),
        ("openai", {"messages": [talk(HI)[0] | {"reasoning": "x"}, *talk(YO)]}, "MYP103", "/messages/0/reasoning"),
        ("openai", {"messages": [talk(HI)[0] | {"tool_calls": [1]}, *talk(YO)]}, "MYP103", "/messages/0/tool_calls"),
        ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": "No", "question": "x"}, "MYP112", "/question"),
        ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": "No", "history": [["a", "b"]]}, "MYP112", "/history"),
        ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": "No", "messages": talk(HI, NO)}, "MYP112", "/messages"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_a_finding(
    shape: str, record: Any, code: str, pointer: str
) -> None:
    assert [(f.code, f.pointer) for f in read(record, shape).findings] == [(code, pointer)]


def called(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """A call and its result."""
    return [calls(call(name, arguments, id="c1"), content=None), tool("r", tool_call_id="c1")]


SYSTEM = ("system", "S")


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [
        (called("f", x=1), called("g", x=1)),
        (called("f", x=1), called("f", x=True)),
        ([assistant("a", reasoning_content="t")], talk(("assistant", "a"))),
        ([user("b", name="n")], talk(("user", "b"))),
        (talk(SYSTEM), talk(("system", "T"))),
    ],
)  # fmt: skip
def test_what_the_rejected_side_says_otherwise_is_not_lost(
    chosen: list[dict[str, Any]], rejected: list[dict[str, Any]]
) -> None:
    """It is no part of the chosen side, so it is not left out as if it were."""
    sides = {"chosen": chosen + talk(YO), "rejected": rejected + talk(NO)}
    chat = read({"prompt": "Hi"} | sides, "preference")
    assert len(chat.rejected) == len(rejected) + 1
    out = Converter("preference", "usf-omega").record({"prompt": "Hi"} | sides)
    assert out.record is None


@pytest.mark.parametrize(
    ("prompt", "chosen", "expected"),
    [
        (talk(SYSTEM, HI), talk(HI, YO), [SYSTEM, *GREETING]),
        (talk(HI), talk(SYSTEM, HI, YO), [SYSTEM, *GREETING]),
        (talk(SYSTEM, HI), talk(SYSTEM, HI, YO), [SYSTEM, *GREETING]),
        (talk(SYSTEM, HI), talk(("system", "T"), HI, YO), [SYSTEM, HI, ("system", "T"), *GREETING]),
        (talk(HI, YO, ("user", "b")), talk(HI, YO), [*GREETING, ("user", "b"), *GREETING]),
        (talk(HI, ("assistant", "a"), HI), talk(HI, NO, HI, YO), [HI, ("assistant", "a"), HI, HI, NO, *GREETING]),
    ],
)  # fmt: skip
def test_a_question_is_left_out_only_where_the_chosen_side_has_all_of_it(
    prompt: Any, chosen: Any, expected: list[tuple[str, str]]
) -> None:
    record = {"prompt": prompt, "chosen": chosen, "rejected": "No"}
    assert as_pairs(read(record, "preference").messages) == expected


def test_keys_of_a_rejected_answer() -> None:
    """Unknown ones are metadata; what it says or weighs besides is refused."""
    converter = Converter("preference", "usf-omega")
    record = {"prompt": "Hi", "chosen": "Yo"}
    out = converter.record(record | {"rejected": assistant("No", note="x", _m=1)})
    assert out.record is not None
    assert out.record["rejected"] == assistant("No", _note="x", _m=1)
    for key, value in (("weight", 0.5), ("audio", "x"), ("refusal", "x")):
        out = converter.record(record | {"rejected": assistant("No", **{key: value})})
        assert [(f.code, f.pointer) for f in out.findings] == [("MYP104", f"/rejected/{key}")]


THINKING = "<think>\nt\n</think>\n\nNo"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (THINKING, {"reasoning": "t", "content": "No"}),
        ([assistant("No", reasoning_content="t")], {"reasoning": "t", "content": "No"}),
        ({"role": "assistant", "content": [{"type": "reasoning", "value": "t"}, {"type": "text", "value": "No"}]}, {"reasoning": "t", "content": "No"}),
        ([calls(call("f", {"x": 1}, id="c1"), content=None)], {"tool_calls": [call("f", {"x": 1}, id="c1")]}),
        ([calls(call("f", {"x": 1}), content="No")], {"content": "No", "tool_calls": [call("f", {"x": 1})]}),
    ],
)  # fmt: skip
def test_thoughts_and_calls_of_a_rejected_answer(answer: Any, expected: dict[str, Any]) -> None:
    """They are what those of the chosen one are, not text; so a pair differs in nothing else."""
    converter = Converter("preference", "usf-omega")
    for record in ({"prompt": "Hi", "chosen": "Yo"}, {"messages": talk(HI, YO)}):
        out = converter.record(
            record | {"rejected_response" if "messages" in record else "rejected": answer}
        )
        assert out.record is not None, out.findings
        assert out.losses == ()
        assert out.record["rejected"] == {"role": "assistant", **expected}


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": talk(HI), "chosen": [*called("f", x=1), *talk(YO)], "rejected": talk(NO)},
        {"messages": [*talk(HI), *called("f", x=1), *talk(YO)], "rejected_response": "No"},
        {"messages": talk(HI, YO), "rejected_response": [*called("f", x=1), *talk(NO)]},
    ],
)
def test_a_side_of_several_messages_is_refused(record: dict[str, Any]) -> None:
    """Both answers follow the same messages; so a rejected one never follows calls of the chosen."""
    chat = read(record, shape_of(record))
    assert chat.shared == 1
    assert [f.code for f in findings(chat)] == ["MYP134"]
    out = Converter("preference", "usf-omega").record(record)
    assert [f.code for f in out.findings] == ["MYP104"]


TOOLS = [function()]
WHOLE = {"messages": talk(HI, YO), "rejected_messages": talk(HI, NO)}  # of ms-swift
SHORT = {"messages": talk(HI, YO), "rejected_response": "No"}
TRL = {"prompt": talk(HI), "chosen": talk(YO), "rejected": talk(NO)}


@pytest.mark.parametrize(
    ("record", "codes", "losses"),
    [
        (WHOLE | {"tools": TOOLS, "rejected_tools": TOOLS, "channel": "math"}, [], []),
        (WHOLE | {"tools": TOOLS}, ["MYP261"], []),  # ms-swift takes no tools for the other side
        (WHOLE | {"tools": TOOLS, "rejected_tools": []}, ["MYP261"], ["rejected_tools"]),
        (SHORT | {"tools": TOOLS}, [], []),
        (SHORT | {"tools": TOOLS, "rejected_tools": None}, [], []),
        (WHOLE | {"tools": TOOLS, "rejected_tools": json.dumps(TOOLS)}, [], []),
        (WHOLE | {"tools": json.dumps(TOOLS), "rejected_tools": TOOLS}, [], []),
        (WHOLE | {"tools": TOOLS, "rejected_tools": ""}, ["MYP261"], ["rejected_tools"]),
        (WHOLE | {"tools": TOOLS, "rejected_tools": "["}, ["MYP104", "MYP261"], None),
        (TRL | {"tools": TOOLS, "rejected_tools": json.dumps(TOOLS)}, [], []),
        (TRL | {"tools": TOOLS}, [], []),
        (TRL | {"tools": TOOLS, "rejected_tools": []}, ["MYP261"], ["rejected_tools"]),
        (TRL | {"rejected_tools": TOOLS}, ["MYP261"], ["rejected_tools"]),
        (SHORT | {"rejected_images": ["b.png"]}, ["MYP132"], ["rejected_images"]),
        (SHORT | {"rejected_videos": []}, [], []),
        ({"messages": talk(("user", "<image>Hi"), YO), "rejected_images": ["b.png"]}, [], ["rejected_images"]),
        ({"messages": talk(("user", "<image>Hi"), YO), "images": ["a.png"], "rejected_response": "No", "rejected_images": ["b.png"]}, [], ["images", "rejected_images"]),
    ],
)  # fmt: skip
def test_tools_and_media_of_a_rejected_answer(record: Record, codes: list[str], losses: list[str] | None) -> None:  # fmt: skip
    shape = shape_of(record)
    assert [f.code for f in findings(read(record, shape))] == codes
    out = Converter(shape, "usf-omega").record(record)
    assert (None if out.record is None else [loss.field for loss in out.losses]) == losses
    assert out.metadata == (("/channel",) if "channel" in record else ())


def test_what_a_pair_of_ms_swift_lacks_is_named() -> None:
    chat = read({"messages": talk(HI, YO), "rejected_response": None}, "preference")
    assert [f.message for f in findings(chat)] == ['the record has no "rejected"']


def test_notes_and_weights_do_not_tell_messages_apart() -> None:
    """The question is the same one, so it is asked once; a note becomes metadata of it."""
    record = {
        "chosen": [user("Hi", note="a", loss_weight=0.0), *talk(YO)],
        "rejected": [user("Hi", note="b"), *talk(NO)],
    }
    out = Converter("preference", "usf-omega").record(record)
    assert out.record is not None, out.findings
    assert out.record["messages"] == [user("Hi", _note="a", _loss_weight=0.0)]


EXPORTS = [
    ({"version": 2, "eval": {}, "plan": {}, "results": {}, "samples": []}, "logs of Inspect", ".samples[]"),
    ({"sessionId": "s", "projectHash": "p", "messages": [{"id": "1", "type": "user", "content": "Hi"}]}, "sessions of Gemini CLI", "/chat share"),
    ({"role": "user", "parts": [{"text": "Hi"}]}, "contents of Gemini by themselves", "{contents: .}"),
    ({"evalId": "e", "results": {"results": []}, "config": {}}, "results of promptfoo", ".results.results[]"),
    ({"trace": {}, "observations": []}, "traces of Langfuse", ".observations[]"),
    ({"id": "1", "traceId": "t", "type": "GENERATION", "input": [], "output": {}}, "observations of Langfuse", "GENERATION"),
    ({"instance_id": "i", "test_result": {}, "history": [], "instruction": "x"}, "outputs of evaluations of OpenHands", "log_completions"),
    ({"instance_id": "i", "model_patch": "", "model_name_or_path": "m"}, "predictions of SWE-bench", "trajectories"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "name", "advice"), EXPORTS)
def test_exports_of_other_tools_are_named(record: dict[str, Any], name: str, advice: str) -> None:
    assert shape_of(record) == "other"
    (finding,) = findings(read(record, "other"))
    assert (finding.code, finding.message) == ("MYP018", f"{name} are not read")
    assert advice in finding.help


def test_keys_of_results_on_other_messages_of_sharegpt_are_metadata() -> None:
    record = gpt(("human", "Hi"), ("gpt", "Yo"))
    record["conversations"][0] |= {"tool_call_id": "a", "name": "b"}
    out = Converter("sharegpt", "qwen3").record(record)
    assert out.record is not None
    assert out.record["messages"][0] == talk(HI)[0] | {"_tool_call_id": "a", "_name": "b"}
    assert out.metadata == ("/conversations/0/tool_call_id", "/conversations/0/name")


def test_an_unknown_key_around_a_function_of_sharegpt() -> None:
    text = '{"function": {"name": "f", "arguments": {}}, "x": 1}'
    record = gpt(("human", "Hi"), ("function_call", text), ("observation", "r"), ("gpt", "Yo"))
    record["tools"] = '[{"name": "f"}]'
    assert [f.code for f in findings(read(record, "sharegpt"))] == ["MYP103"]


def test_messages_that_say_a_preference_again() -> None:
    """As UltraFeedback has them: no part of the record says anything else."""
    record = {"prompt": "Hi", "chosen": talk(HI, YO), "rejected": talk(HI, NO)}
    assert findings(read(record | {"messages": talk(HI, YO)}, "preference")) == []


def test_images_are_no_metadata() -> None:
    """The model would learn to speak of what it was never shown; an empty list shows nothing."""
    record = gpt(("human", "<image>Hi"), ("gpt", "Yo"), images=["a.png"], videos=[], audios=None)
    out = Converter("sharegpt", "qwen3").record(record)
    assert [(loss.field, loss.pointer) for loss in out.losses] == [("images", "/images")]
    assert out.metadata == ()
