"""Records as people have them: faulty ones with the fault that is known, and clean ones of odd forms.

A row is (name, record, findings), a finding (code, pointer). What is right was written first.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support import build
from tests.support.build import assistant as a
from tests.support.build import chat as o
from tests.support.build import message
from tests.support.build import user as u
from tests.support.shapes import RECORDS

Row = tuple[str, dict[str, Any], list[tuple[str, str]]]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
}  # fmt: skip


def tool(name: str = "weather", parameters: Any = WEATHER, **more: Any) -> dict[str, Any]:
    definition = {"name": name, "description": "d", "parameters": parameters, **more}
    return {"type": "function", "function": definition}


def s(text: Any = "You help.", role: str = "system") -> dict[str, Any]:
    return message(role, text)


def call(
    arguments: Any = '{"city": "Oslo"}', ident: str | None = "c1", name: str = "weather"
) -> dict[str, Any]:
    return ({} if ident is None else {"id": ident}) | build.call(name, arguments)


def c(*calls: dict[str, Any], text: Any = None) -> dict[str, Any]:
    return build.calls(*(calls or [call()]), content=text)


def r(text: Any = "4 C", ident: str | None = "c1", **more: Any) -> dict[str, Any]:
    return build.tool(text, **({} if ident is None else {"tool_call_id": ident}), **more)


def used(arguments: Any, parameters: Any = WEATHER) -> dict[str, Any]:
    return o(u(), c(call(arguments)), r(), a(), tools=[tool(parameters=parameters)])


ARGS = "/messages/1/tool_calls/0/function/arguments"
PARAMS = "/tools/0/function/parameters"


BLOCK = {"type": "tool_result", "tool_use_id": "c1", "content": "4 C"}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": WEATHER}}


def typed(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"type": kind}}}


OPENAI: list[Row] = [
    ("answer first", o(a(), u(), a()), [("MYP251", "/messages/0")]),
    ("answer first, after system", o(s(), a(), u(), a()), [("MYP251", "/messages/1")]),
    ("ends with a question", o(u(), a(), u("And?")), [("MYP252", "/messages/2")]),
    ("only a question", o(u()), [("MYP252", "/messages/0")]),
    ("only a system prompt", o(s()), [("MYP252", "/messages/0")]),
    ("weights of 0", o(u(), a(weight=0), u(), a(weight=0)), [("MYP501", "")]),
    ("no answer is trained", o(u(), a(train=False)), [("MYP501", "")]),
    ("too many images", o(u("<image>What?"), a(), images=["a.png", "b.png"]), [("MYP132", "/images")]),
    ("no place for a video", o(u("What?"), a(), videos=["a.mp4"]), [("MYP132", "/videos")]),
    ("mojibake", o(u("Itâ€™s a cafÃ©?"), a()), [("MYP363", "/messages/0/content")]),
    ("Cyrillic mojibake", o(u(), a("ÐŸÑ€Ð¸Ð²ÐµÑ‚")), [("MYP363", "/messages/1/content")]),
    ("a mark of the order of bytes, in a wrong encoding", o(u("ï»¿Hi"), a()), [("MYP363", "/messages/0/content")]),
    ("bytes that could not be read", o(u(), a("caf\ufffd")), [("MYP363", "/messages/1/content")]),
    ("a quote of Windows", o(u(), a("it\x92s")), [("MYP363", "/messages/1/content")]),
    ("a space of no width", o(u("a\u200bb"), a()), [("MYP364", "/messages/0/content")]),
    ("an override of direction", o(u(), a("x = \u202e1\u202c")), [("MYP364", "/messages/1/content")]),
    ("hidden instructions", o(u("Hi\U000e0048\U000e0069"), a()), [("MYP364", "/messages/0/content")]),
    ("a loop", o(u(), a("Well. " + "Eat a banana! " * 40)), [("MYP365", "/messages/1/content")]),
    ("a loop that is cut", o(u(), a("I think. " + "I think that. " * 40 + "I thi")), [("MYP365", "/messages/1/content")]),
    ("a phrase of a chatbot", o(u(), a("As an AI language model, I cannot.")), [("MYP366", "/messages/1/content")]),
    ("a key", o(u("Use sk-proj-Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ6kL3"), a()), [("MYP367", "/messages/0/content")]),
    ("two questions", o(u(), u("And?"), a()), [("MYP257", "/messages/1")]),
    ("two answers", o(u(), a(), a("And.")), [("MYP257", "/messages/2")]),
    ("late system", o(u(), a(), s(), u("x"), a("y")), [("MYP250", "/messages/2")]),
    ("late developer", o(u(), s(role="developer"), a()), [("MYP250", "/messages/1")]),
    ("orphan result", o(u(), r(), a()), [("MYP310", "/messages/1")]),
    ("result of another call", o(u(), c(), r(ident="c2"), a()), [("MYP310", "/messages/2/tool_call_id"), ("MYP311", "/messages/1/tool_calls/0")]),
    ("result of another call, at the end", o(u(), c(), r(ident="c2")), [("MYP310", "/messages/2/tool_call_id")]),
    ("call without result", o(u(), c(), a()), [("MYP311", "/messages/1/tool_calls/0")]),
    ("one of two calls without result, before another", o(u(), c(call(), call(ident="c2")), r(), c(call(ident="c3")), r(ident="c3")), [("MYP311", "/messages/1/tool_calls/1")]),
    ("one of two calls without result", o(u(), c(call(), call(ident="c2")), r(), a()), [("MYP311", "/messages/1/tool_calls/1")]),
    ("result of another name", o(u(), c(), r(name="time"), a()), [("MYP312", "/messages/2/name")]),
    ("answered twice", o(u(), c(), r(), r(), a()), [("MYP349", "/messages/3/tool_call_id")]),
    ("an id twice", o(u(), c(call(), call()), r(), r(), a()), [("MYP351", "/messages/1/tool_calls/1/id")]),
    ("an id twice, and one result", o(u(), c(call(), call()), r(), a()), [("MYP351", "/messages/1/tool_calls/1/id")]),
    ("result without id", o(u(), c(call(), call(ident="c2")), r(), r(ident=None), a()), [("MYP352", "/messages/3"), ("MYP311", "/messages/1/tool_calls/1")]),
    ("arguments in single quotes", used("{'city': 'Oslo'}"), [("MYP304", ARGS)]),
    ("arguments cut off", used('{"city": "Os'), [("MYP304", ARGS)]),
    ("arguments empty", used(""), [("MYP304", ARGS), ("MYP353", ARGS)]),
    ("arguments empty, of a tool that takes none", used("", {"type": "object", "properties": {}}), [("MYP304", ARGS)]),
    ("arguments of Python", used('{"city": None}'), [("MYP304", ARGS)]),
    ("arguments with a comma too many", used('{"city": "Oslo",}'), [("MYP304", ARGS)]),
    ("an argument twice", used('{"city": "Oslo", "city": "Rome"}'), [("MYP004", ARGS)]),
    ("an argument that is not a number", used('{"city": "Oslo", "days": NaN}', {"type": "object"}), [("MYP005", ARGS)]),
    ("arguments are a list", used('["Oslo"]'), [("MYP332", ARGS)]),
    ("arguments are a string", used('"Oslo"'), [("MYP332", ARGS)]),
    ("arguments encoded twice", used(json.dumps(json.dumps({"city": "Oslo"}))), [("MYP332", ARGS)]),
    ("arguments lack what is required", used('{"days": 1}'), [("MYP353", ARGS)]),
    ("arguments of a wrong type", used('{"city": 5}'), [("MYP353", ARGS)]),
    ("arguments out of the enum", used('{"city": "Oslo", "unit": "K"}'), [("MYP353", ARGS)]),
    ("arguments too small", used('{"city": "Oslo", "days": 0}'), [("MYP353", ARGS)]),
    ("an argument that is not declared", used('{"city": "Oslo", "zip": "0150"}'), [("MYP353", ARGS)]),
    ("an argument that is not declared, as an object", used({"city": "Oslo", "zip": "0150"}), [("MYP353", f"{ARGS}/zip")]),
    ("an argument that is forbidden", used({"city": "Oslo", "zip": "0150"}, WEATHER | {"additionalProperties": False}), [("MYP353", f"{ARGS}/zip")]),
    ("an argument of a tool that takes none", used({"city": "Oslo"}, {"type": "object", "properties": {}}), [("MYP353", f"{ARGS}/city")]),
    ("arguments as an object, misfit", used({"city": 5}), [("MYP353", f"{ARGS}/city")]),
    ("arguments padded", used('{"city": "Oslo", "query": null}'), [("MYP357", ARGS)]),
    ("arguments padded, as an object", used({"city": "Oslo", "query": None}), [("MYP357", f"{ARGS}/query")]),
    *[
        (f"schema with {kind}", o(u(), a(), tools=[tool(parameters=typed(kind))]), [("MYP128", f"{PARAMS}/properties/x/type")])
        for kind in ("dict", "float", "str", "int", "list", "bool", "any", "String")
    ],
    ("required among the properties", o(u(), a(), tools=[tool(parameters={"type": "object", "properties": {"x": {"type": "string"}, "required": ["x"]}})]), [("MYP128", f"{PARAMS}/properties/required")]),
    ("required of a property", o(u(), a(), tools=[tool(parameters={"type": "object", "properties": {"x": {"type": "string", "required": True}}})]), [("MYP128", f"{PARAMS}/properties/x/required")]),
    ("no properties", o(u(), a(), tools=[tool(parameters={"x": {"type": "string"}})]), [("MYP128", f"{PARAMS}/x")]),
    ("parameters are a list", o(u(), a(), tools=[tool(parameters=["x"])]), [("MYP128", PARAMS)]),
    ("parameters padded", o(u(), a(), tools=[tool(parameters={"type": "object", "properties": {"x": None}})]), [("MYP128", f"{PARAMS}/properties/x")]),
    ("undeclared tool", o(u(), c(call(name="time")), r(), a(), tools=[tool()]), [("MYP313", "/messages/1/tool_calls/0/function/name")]),
    ("a name with a blank", o(u(), a(), tools=[tool("get weather")]), [("MYP131", "/tools/0/function/name")]),
    ("a name that is too long", o(u(), a(), tools=[tool("f" * 65)]), [("MYP131", "/tools/0/function/name")]),
    ("declared twice", o(u(), a(), tools=[tool(), tool()]), [("MYP126", "/tools/1/function/name")]),
    ("declared twice, apart", o(u(), a(), tools=[tool(), tool("f"), tool()]), [("MYP126", "/tools/2/function/name")]),
    ("empty question", o(u(""), a()), [("MYP214", "/messages/0/content")]),
    ("empty answer", o(u(), a("")), [("MYP214", "/messages/1/content")]),
    ("blank answer", o(u(), a(" \n")), [("MYP314", "/messages/1/content")]),
    ("an answer of a space that does not break", o(u(), a("\xa0")), [("MYP314", "/messages/1/content")]),
    ("empty part", o(u([{"type": "text", "text": ""}]), a()), [("MYP214", "/messages/0/content/0/text")]),
    ("null answer", o(u(), a(None)), [("MYP104", "/messages/1/content")]),
    ("null question", o(u(None), a()), [("MYP104", "/messages/0/content")]),
    ("a number for content", o(u(5), a()), [("MYP104", "/messages/0/content")]),
    ("no role", o({"content": "x"}, a()), [("MYP104", "/messages/0")]),
    ("unknown role", o(u(), {"role": "poet", "content": "x"}), [("MYP105", "/messages/1/role")]),
    ("misspelt key", o(u(), {"role": "assistant", "contnet": "x"}), [("MYP103", "/messages/1/contnet"), ("MYP104", "/messages/1/content")]),
    ("end of sentence", o(u(), a("Yes.</s>")), [("MYP301", "/messages/1/content")]),
    ("end of ChatML", o(u(), a("Yes.<|im_end|>")), [("MYP301", "/messages/1/content")]),
    ("Llama 2's instruction", o(u("[INST] Hi"), a()), [("MYP301", "/messages/0/content")]),
    ("end of Llama 3", o(u(), a("Yes.<|eot_id|>")), [("MYP301", "/messages/1/content")]),
    ("end of GPT", o(u(), a("Yes.<|endoftext|>")), [("MYP301", "/messages/1/content")]),
    ("start of Gemma", o(u("<start_of_turn>user"), a()), [("MYP301", "/messages/0/content")]),
    ("a thought in the answer, others apart", o(u(), a("x", reasoning_content="y"), u(), a("<think>z</think> x")), [("MYP301", "/messages/3/content"), ("MYP301", "/messages/3/content")]),
    ("the end of a thought", o(u(), a("Four.\n</think>\n\n4")), [("MYP301", "/messages/1/content")]),
    ("the beginning of a thought", o(u(), a("<think>\nFour.\n\n4")), [("MYP301", "/messages/1/content")]),
    ("other thoughts twice", o(u(), a("x", reasoning_content="y", thinking="z")), [("MYP121", "/messages/1/thinking")]),
    ("other thoughts twice, by other names", o(u(), a("x", thinking="y", reasoning="z")), [("MYP121", "/messages/1/reasoning")]),
    ("a key beside the content", o(u(contents="Hi"), a()), [("MYP112", "/messages/0/contents")]),
    ("a name left", o(u("Dear {{name}}, how are you?"), a()), [("MYP358", "/messages/0/content")]),
    ("a name left in an answer", o(u(), a("I am {{name}}.")), [("MYP358", "/messages/1/content")]),
    ("a format field left", o(u("Answer this: {question}"), a()), [("MYP358", "/messages/0/content")]),
    ("a sign for nothing", o(u("<noinput>"), a()), [("MYP358", "/messages/0/content")]),
    ("weight is a word", o(u(), a(weight="no")), [("MYP104", "/messages/1/weight")]),
    ("another question on top", o(u(), a(), prompt="Why?"), [("MYP112", "/prompt")]),
    ("tools are an object", o(u(), a(), tools={"name": "x"}), [("MYP104", "/tools")]),
    ("calls are an object", o(u(), {"role": "assistant", "content": None, "tool_calls": call()}), [("MYP104", "/messages/1/tool_calls")]),
    ("no arguments", o(u(), c({"id": "c1", "type": "function", "function": {"name": "weather"}}), r(), a()), [("MYP332", "/messages/1/tool_calls/0")]),
    ("null arguments", used(None), [("MYP332", ARGS)]),
    ("no arguments in a call of a text", o(u(), message("tool_call", '{"name": "weather"}'), message("tool_response", "4 C"), a()), [("MYP332", "/messages/1/content")]),
    ("null arguments of function_call", o(u(), a(None, function_call={"name": "f", "arguments": None}), message("function", "4", name="f"), a()), [("MYP332", "/messages/1/function_call/arguments")]),
    ("the same call twice", o(u(), a(None, tool_calls=[call()], function_call={"name": "weather", "arguments": '{"city": "Oslo"}'}), r(), a()), [("MYP334", "/messages/1/function_call")]),
    ("two calls in two ways", o(u(), a(None, tool_calls=[call()], function_call={"name": "time", "arguments": "{}"}), r(), a()), [("MYP334", "/messages/1/function_call")]),
    ("an answer that is not valid JSON", o(u(), a("{"), response_format={"type": "json_object"}), [("MYP342", "/messages/1/content")]),
    ("an answer that is not an object", o(u(), a("[1]"), response_format={"type": "json_object"}), [("MYP344", "/messages/1/content")]),
    ("an answer that misfits its schema", o(u(), a('{"city": 1}'), response_format=FORMAT), [("MYP343", "/messages/1/content")]),
    ("two system prompts", o(s(), s("Be brief."), u(), a()), [("MYP209", "/messages/1")]),
    ("three of a developer", o(*[s(role="developer")] * 3, u(), a()), [("MYP209", "/messages/1"), ("MYP209", "/messages/2")]),
    ("a system prompt on top, and one more", o(s(), u(), a(), system="S"), [("MYP209", "/messages/0")]),
    ("a system prompt and an answer", o(s(), a()), [("MYP251", "/messages/1")]),
    ("an empty system prompt", o(s(""), u(), a()), [("MYP214", "/messages/0/content")]),
    ("a blank system prompt", o(s(" \n"), u(), a()), [("MYP314", "/messages/0/content")]),
    ("two empty results", o(u(), c(call(), call(ident="c2")), r(""), r("", "c2"), a()), [("MYP214", "/messages/2/content")]),
    ("a blank result", o(u(), c(), r("\n"), a()), [("MYP314", "/messages/2/content")]),
    ("a turn again", o(*[u("What is the capital of France?"), a("It is Paris, I think.")] * 2), [("MYP259", "/messages/2")]),
    ("a turn of calls again", o(*[u("What is the weather like, over in Oslo?"), c(), r(), a("It is cold.")] * 2), [("MYP259", "/messages/4")]),
    ("a turn again, in parts", o(*[u([{"type": "text", "text": "What is the capital of France?"}]), a("It is Paris, I think.")] * 2), [("MYP259", "/messages/2")]),
    ("an answer again", o(u(), a("It depends on what you mean by that, I think."), u("So?"), a("It depends on what you mean by that, I think.")), [("MYP259", "/messages/3")]),
    ("a question again", o(*[m for i in range(3) for m in (u("What is the capital of France, and of Spain?"), a(f"{i}"))]), [("MYP259", "/messages/2")]),
    ("a weight of a question", o(u(weight=1), a()), [("MYP133", "/messages/0/weight")]),
    ("a weight of true", o(u(), a(weight=True)), [("MYP133", "/messages/1/weight")]),
    ("a weight of false", o(u(), a(weight=False), u(), a()), [("MYP133", "/messages/1/weight")]),
    ("half a weight", o(u(), a(weight=0.5), u(), a(weight=3)), [("MYP133", "/messages/1/weight")]),
    ("a thought in an answer", o(u(), a("<think>\nFour.\n</think>\n\n4"), u(), a("<think>\nTwo.\n</think>\n\n2")), [("MYP370", "/messages/1/content")]),
    ("calls that are none", o(u(), a(tool_calls=[])), [("MYP125", "/messages/1/tool_calls")]),
    ("a flat call", o(u(), c({"id": "c1", "name": "weather", "arguments": "{}"}), r(), a()), [("MYP136", "/messages/1/tool_calls/0")]),
    ("calls without a type", o(u(), c(*[{"id": f"c{i}", "function": {"name": "weather", "arguments": "{}"}} for i in (1, 2)]), r(), r(ident="c2"), a()), [("MYP137", "/messages/1/tool_calls/0")]),
    ("a result with an id, and a call without", o(u(), c(call(ident=None)), r(), a()), [("MYP310", "/messages/2/tool_call_id")]),
    ("one of two calls without an id", o(u(), c(call(), call(ident=None)), r(), r(ident=None), a()), [("MYP350", "/messages/1/tool_calls/1")]),
    ("an id again, of no counter", o(u(), c(call(ident="call_9xK2p0Qd")), r(ident="call_9xK2p0Qd"), a(), u(), c(call(ident="call_9xK2p0Qd")), r(ident="call_9xK2p0Qd"), a()), [("MYP351", "/messages/5/tool_calls/0/id")]),
    ("an id again in a turn", o(u(), c(), r(), c(), r(), c(), r(), a()), [("MYP351", "/messages/3/tool_calls/0/id")]),
    ("a tool without a name", o(u(), a(), tools=[tool(), {"type": "function", "function": {"parameters": WEATHER}}]), [("MYP102", "/tools/1")]),
    ("a tool without a function", o(u(), a(), tools=[tool(), {"type": "function"}]), [("MYP102", "/tools/1")]),
    ("a bare tool without a name", o(u(), a(), tools=[{"description": "d", "parameters": WEATHER}]), [("MYP102", "/tools/0")]),
    ("a tool without a name, in a text", o(u(), a(), tools=json.dumps([{"type": "function", "function": {"name": None}}])), [("MYP102", "/tools")]),
    ("an empty name of a tool", o(u(), a(), tools=[tool("")]), [("MYP127", "/tools/0")]),
    ("a tool of a misspelt type", o(u(), a(), tools=[{**tool(), "type": "tool"}]), [("MYP127", "/tools/0/type")]),
    ("misspelt tools, in a text", {**o(u(), a()), "tols": json.dumps([tool()])}, [("MYP103", "/tols")]),
    ("a tool that is a name", o(u(), a(), tools=["weather"]), [("MYP104", "/tools/0")]),
    ("a function that is a name", o(u(), a(), tools=[{"type": "function", "function": "weather"}]), [("MYP104", "/tools/0/function")]),
    ("a name that is a number", o(u(), a(), tools=[tool(5)]), [("MYP104", "/tools/0")]),  # type: ignore[arg-type]
    ("a word for a boolean", o(u(), a(), parallel_tool_calls="false"), [("MYP104", "/parallel_tool_calls")]),
    ("a call without a name", o(u(), c({"id": "x", "type": "function", "function": {"arguments": "{}"}})), [("MYP104", "/messages/1/tool_calls/0")]),
]  # fmt: skip

DEFS = {
    "type": "object",
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
    "properties": {
        "at": {"$ref": "#/$defs/point"},
        "who": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "n": {"type": ["integer", "null"], "default": None},
        "kind": {"type": "string", "enum": ["a", "b"], "examples": [None]},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}  # fmt: skip
MANY = c(call(), call('{"city": "Rom"}', "c2"), call('{"city": "Paris", "days": 2}', "c3"))
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
CLEAN: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "openai": [
        ("plain", o(s(), u(), a())),
        ("an answer alone", o(a())),
        ("an answer that fits its schema", o(u(), a('{"city": "Oslo"}'), response_format=FORMAT)),
        ("text may be any text", o(u(), a("{"), response_format={"type": "text"})),
        ("a call needs no format", o(u(), c(), response_format={"type": "json_object"})),
        ("several calls, results out of order", o(u(), MANY, r(ident="c3"), r(ident="c1"), r(ident="c2"), a(), tools=[tool()])),
        ("parts", o(u([{"type": "text", "text": "What"}, {"type": "text", "text": " now?"}]), a([{"type": "text", "text": "x"}]))),
        ("an image", o(u([{"type": "text", "text": "What is this?"}, IMAGE]), a("A cat."))),
        ("an image alone", o(u([IMAGE]), a("A cat."))),
        ("arguments of any name", used({"city": "Oslo", "x": 1}, WEATHER | {"additionalProperties": True})),
        ("arguments of any name with a type", used({"city": "Oslo", "x": 1}, WEATHER | {"additionalProperties": {"type": "integer"}})),
        ("arguments named elsewhere", used({"city": "Oslo", "x": 1}, WEATHER | {"allOf": [{"properties": {"x": {}}}]})),
        ("no parameters declared", used({"city": "Oslo"}, {"type": "object"})),
        ("a long name", o(u(), a(), tools=[tool("get-Weather_2" + "f" * 51)])),
        ("one of two answers is trained", o(u(), a(weight=0), u(), a())),
        ("a question is trained", o(u(train=True), a(train=False))),
        ("about tags of thoughts", o(u("What is `<think>`?"), a("`<think>` and `</think>` are tags; `</think>` ends it."))),
        ("a place for each image", o(u("<image>What?"), a("<image>"), images=["a.png", "b.png"])),
        ("parts for images", o(u([{"type": "image"}, {"type": "text", "text": "What?"}]), a(), images=["a.png"])),
        ("parts with their images", o(u([{"type": "image", "image": "a.png"}, {"type": "text", "text": "What?"}]), a(), images=["a.png"])),
        ("about HTML", o(u("<image><image>"), a(), images=[])),
        ("capitals of Portuguese", o(u("“NÃO”, “AMANHÃ”, São"), a("Â, â, ÂGE; Ð, Ñ, ð"))),
        ("Persian and Hindi", o(u("می\u200cخواهم"), a("क्\u200dष \u2067abc\u2069 ש"))),
        ("a family and a flag", o(u("👨\u200d👩\u200d👧 \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"), a("❤\ufe0f"))),
        ("a table", o(u(), a("| - | - |\n" * 100))),
        ("a song", o(u(), a("La la la.\n" * 20))),
        ("a question in a loop", o(u("Eat a banana! " * 50), a())),
        ("about language models", o(u("Say: As an AI language model"), a("A language model is a model."))),
        ("a key for an example", o(u("sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), a("AKIAIOSFODNN7EXAMPLE, sk-toggleable__content-estimator-doc-link"))),
        ("null content with calls", o(u(), c(), r(), a(), tools=[tool()])),
        ("no content with calls", o(u(), {"role": "assistant", "tool_calls": [call()]}, r(), a())),
        ("empty content with calls", o(u(), c(text=""), r(), a())),
        ("text and calls", o(u(), c(text="Let me look."), r(), a())),
        ("text, and calls apart", o(u(), a("Let me look."), c(), r(), a())),
        ("ends with a call", o(u(), c(), tools=[tool()])),
        ("ends before the second result", o(u(), c(call(), call(ident="c2")), r())),
        ("developer", o(s(role="developer"), u(), a())),
        ("system and developer", o(s(), s("Be brief.", "developer"), u(), a())),
        ("weights", o(u(), a(weight=0), u("x"), a("y", weight=1))),
        ("names", o(u(name="Ada"), u("And I?", name="Bob"), a(name="bot"))),
        ("refusal", o(u(), a(None, refusal="I cannot."))),
        ("the older call", o(u(), {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "1"}, a(), functions=[{"name": "f", "parameters": {"type": "object", "properties": {}}}])),
        ("calls without ids", o(u(), c(call(ident=None)), r(ident=None, name="weather"), a())),
        ("two calls without ids", o(u(), c(call(ident=None), call(ident=None)), r(ident=None), r(ident=None), a())),
        ("an id again in the next turn", o(u(), c(), r(), a(), u(), c(), r(), a())),
        ("two rounds of calls", o(u(), c(), r(), c(call('{"city": "Rom"}', "c2")), r(ident="c2"), a())),
        ("arguments as an object", used({"city": "Oslo", "days": 3})),
        ("no arguments", o(u(), c(call("{}", name="now")), r(), a(), tools=[tool("now", {"type": "object", "properties": {}})])),
        ("a tool without parameters", o(u(), c(call("{}", name="now")), r(), a(), tools=[{"type": "function", "function": {"name": "now"}}])),
        ("strict tool", o(u(), a(), tools=[tool(parameters={**WEATHER, "additionalProperties": False}, strict=True)])),
        ("definitions", used('{"at": {"x": 1}, "who": null, "n": null, "more": {"y": "z"}}', DEFS)),
        ("thoughts", o(u(), a("4", reasoning_content="2 + 2"))),
        ("the same thoughts twice", o(u(), a("4", reasoning_content="2 + 2", reasoning="2 + 2"))),
        ("Japanese", o(u("東京の天気は?"), a("晴れです。"))),
        ("Arabic and emoji", o(u("مرحبا 👋🏽"), a("👩‍👩‍👧‍👦 أهلاً"))),
        ("code with braces", o(u("Use `{{ name }}` in Jinja?"), a("```jinja\n{% for x in y %}{{ x }}{% endfor %}\n```"))),
        ("advice about braces", o(u(), a("In Jinja, write {{name}}."))),
        ("doubled braces in code", o(u(), a('print(f"{{name}}")'))),
        ("words of a sign for nothing", o(u("No input is given."), a())),
        ("f-string", o(u("Explain f-strings"), a('print(f"{question}")'))),
        ("HTML", o(u("<p>Hello <b>you</b></p>"), a("<s>no</s> <div>yes</div>"))),
        ("LaTeX", o(u(r"$\frac{a}{b}$"), a(r"\begin{align} x &= {{y}} \end{align}"))),
        ("Vue", o(u("How do I print in Vue?"), a("<p>{{ message }}</p>"))),
        ("JSON answer", o(u("as JSON"), a('{"city": "Oslo"}'), response_format={"type": "json_object"})),
        ("metadata", o(u(), a(), _source="x", language="en")),
        ("nulls of a table", o({**u(), "tool_calls": None, "name": None}, {**a(), "tool_calls": None, "tool_call_id": None})),
        ("options of a template", o(u(), a(), chat_template_kwargs={"enable_thinking": False})),
        ("a result of parts", o(u(), c(), r([{"type": "text", "text": "4 C"}]), a())),
        ("comparison", o(u("Is 1 < 2 and [1] fine?"), a("Yes: 1<2, 3>2, [x], </x>"))),
        ("a long text", o(u("word " * 2000), a("yes " * 20 + "no " * 20))),
        ("tabs around", o(u("\tx"), a("\n\ny\n"))),
        ("one word", o(u("."), a("?"))),
        ("thanks again", o(u("Thank you."), a("Gladly."), u("Thank you."), a("Gladly."))),
        ("a question again, and another answer", o(u("What is the capital of France?"), a("It is Paris."), u("What is the capital of France?"), a("Paris, as I said."))),
        ("a question again, and another result", o(*[m for city in ("Oslo", "Rome") for m in (u("How is the weather there, I wonder?"), c(call(f'{{"city": "{city}"}}')), r(), a())])),
        ("a counter that begins again", o(*[m for _ in range(2) for m in (u(), c(), r(), c(call(ident="c2")), r(ident="c2"), a())])),
        ("a code interpreter", o(u(), a(), tools=[{"type": "code_interpreter"}, {"type": "web_search", "filters": {}}, {"googleSearch": {}}])),
        ("a definition without a wrapper", o(u(), a(), tools=[{"name": "f", "description": "d", "parameters": WEATHER}, {"type": "function", "name": "g"}])),
        ("a schema of Anthropic", o(u(), a(), tools=[{"name": "f", "description": "d", "input_schema": WEATHER}])),
        ("a thought in the middle", o(u(), a("It writes <think>a</think> first."))),
        ("a choice of a tool", o(u(), a(), tools=[tool()], parallel_tool_calls=True, tool_choice={"type": "function", "function": {"name": "weather"}})),
        ("the question twice", o(u("What is it?"), a(), prompt="What is it?")),
        ("parallel off", o(u(), a(), tools=[tool()], parallel_tool_calls=False, tool_choice="auto")),
    ],
}  # fmt: skip


def g(who: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"from": who, "value": value, **more}


def h(*said: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"conversations": list(said), **more}


H, G = g("human", "Hi"), g("gpt", "Hello.")
F = g("function_call", '{"name": "weather", "arguments": {"city": "Oslo"}}')
OBS = g("observation", "4 C")


def at(i: int, key: str = "") -> str:
    return f"/conversations/{i}" + (f"/{key}" if key else "")


def fc(value: Any, tools: Any = None) -> dict[str, Any]:
    return h(H, g("function_call", value), OBS, G, **({} if tools is None else {"tools": tools}))


TOOLS = json.dumps([{"name": "weather", "description": "d", "parameters": WEATHER}])


def declared(parameters: Any) -> dict[str, Any]:
    return h(H, G, tools=json.dumps([{"name": "f", "parameters": parameters}]))


SHAREGPT: list[Row] = [
    ("blank tools", h(H, G, tools=" "), [("MYP104", "/tools")]),
    ("answer first", h(G, H, G), [("MYP251", at(0))]),
    ("ends with a question", h(H, G, H), [("MYP252", at(2))]),
    ("two questions", h(H, g("human", "x"), G), [("MYP257", at(1))]),
    ("two answers", h(H, G, g("gpt", "x")), [("MYP257", at(2))]),
    ("late system", h(H, G, g("system", "x"), H, G), [("MYP250", at(2))]),
    ("orphan result", h(H, OBS, G), [("MYP310", at(1))]),
    ("call without result", h(H, F, G), [("MYP311", at(1, "value"))]),
    ("call is not valid JSON", fc("weather(Oslo)"), [("MYP304", at(1, "value"))]),
    ("call in single quotes", fc("{'name': 'weather', 'arguments': {}}"), [("MYP304", at(1, "value"))]),
    ("call cut off", fc('{"name": "weather", "argum'), [("MYP304", at(1, "value"))]),
    ("call without a name", fc('{"arguments": {}}'), [("MYP104", at(1, "value"))]),
    ("call is a number", fc("5"), [("MYP104", at(1, "value"))]),
    ("arguments are a list", fc('{"name": "weather", "arguments": ["Oslo"]}'), [("MYP332", at(1, "value"))]),
    ("arguments are not valid JSON", fc('{"name": "weather", "arguments": "{Oslo}"}'), [("MYP304", at(1, "value"))]),
    ("arguments of a wrong type", fc('{"name": "weather", "arguments": {"city": 5}}', TOOLS), [("MYP353", at(1, "value"))]),
    ("arguments lack what is required", fc('{"name": "weather", "arguments": {}}', TOOLS), [("MYP353", at(1, "value"))]),
    ("arguments padded", fc('{"name": "weather", "arguments": {"city": "x", "y": null}}', TOOLS), [("MYP357", at(1, "value"))]),
    ("undeclared tool", fc('{"name": "time", "arguments": {}}', TOOLS), [("MYP313", at(1, "value"))]),
    ("a name with a blank", o(u(), a(), tools=[tool("get weather")]), [("MYP131", "/tools/0/function/name")]),
    ("a name that is too long", o(u(), a(), tools=[tool("f" * 65)]), [("MYP131", "/tools/0/function/name")]),
    ("declared twice", h(H, G, tools=json.dumps([{"name": "f"}, {"name": "f"}])), [("MYP126", "/tools")]),
    *[(f"schema with {kind}", declared(typed(kind)), [("MYP128", "/tools")]) for kind in ("dict", "float", "str", "int", "bool", "list")],
    ("required among the properties", declared({"type": "object", "properties": {"required": ["x"]}}), [("MYP128", "/tools")]),
    ("parameters are text", declared("city"), [("MYP128", "/tools")]),
    ("tools are not valid JSON", h(H, G, tools="[{'name': 'f'}]"), [("MYP104", "/tools")]),
    ("tools are an object", h(H, G, tools='{"name": "f"}'), [("MYP104", "/tools")]),
    ("empty question", h(g("human", ""), G), [("MYP214", at(0, "value"))]),
    ("empty answer", h(H, g("gpt", "")), [("MYP214", at(1, "value"))]),
    ("blank answer", h(H, g("gpt", "\n")), [("MYP314", at(1, "value"))]),
    ("null answer", h(H, g("gpt", None)), [("MYP104", at(1, "value"))]),
    ("a number for a value", h(H, g("gpt", 4)), [("MYP104", at(1, "value"))]),
    ("no sender", h({"value": "x"}, G), [("MYP104", at(0))]),
    ("unknown sender", h(g("alien", "x"), G), [("MYP105", at(0, "from"))]),
    ("misspelt key", h(H, {"from": "gpt", "vlaue": "x"}), [("MYP103", at(1, "vlaue")), ("MYP104", at(1, "value"))]),
    ("a string for a message", h(H, "Hello."), [("MYP104", at(1))]),  # type: ignore[arg-type]
    ("end of sentence", h(H, g("gpt", "Yes.</s>")), [("MYP301", at(1, "value"))]),
    ("end of ChatML", h(H, g("gpt", "Yes.<|im_end|>")), [("MYP301", at(1, "value"))]),
    ("Llama 2's instruction", h(g("human", "[INST] x [/INST]"), G), [("MYP301", at(0, "value"))] * 2),
    ("end of GPT", h(H, g("gpt", "x<|endoftext|>")), [("MYP301", at(1, "value"))]),
    ("a name left", h(g("human", "Dear {{name}}, hello"), G), [("MYP358", at(0, "value"))]),
    ("an instruction left", h(g("human", "{instruction}"), G), [("MYP358", at(0, "value"))]),
    ("a sign for nothing", h(g("human", "<noinput>"), G), [("MYP358", at(0, "value"))]),
    ("two system prompts", h(g("system", "S"), g("system", "T"), H, G), [("MYP209", at(1))]),
    ("a thought in the answer", h(H, g("gpt", "<think>z</think> x")), [("MYP370", at(1, "value"))]),
    ("misspelt top-level key", h(H, G, sytem="x"), [("MYP103", "/sytem")]),
    ("system is a number", h(H, G, system=4), [("MYP104", "/system")]),
]  # fmt: skip
CLEAN["sharegpt"] = [
    ("plain", h(H, G)),
    ("with a prompt", h(g("system", "S"), H, G)),
    ("a top-level prompt", h(H, G, system="S", id="identity_0", tools="")),
    ("calls", h(H, F, OBS, G, tools=TOOLS)),
    ("a list of calls", fc(json.dumps([{"name": "weather", "arguments": {"city": "x"}}]), TOOLS)),
    ("arguments as text", fc('{"name": "weather", "arguments": "{\\"city\\": \\"x\\"}"}', TOOLS)),
    ("no tools", h(H, G, tools="[]")),
    ("two calls, one result", h(H, g("function_call", '[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]'), OBS, G)),
    ("roles of OpenAI", h(u(), a())),
    ("weights", h(H, g("gpt", "x", weight=0), H, g("gpt", "y", weight=1))),
    ("FastChat's keys", h(g("human", "x", text="x", markdown=None), G, id=7)),
    ("other names", h(g("user", "x"), g("assistant", "y"))),
    ("Chinese", h(g("human", "你好"), g("gpt", "你好!👋"))),
    ("code", h(g("human", "Write a template"), g("gpt", "`{{ user }}`"))),
    ("HTML and LaTeX", h(g("human", "<b>$x_{1}$</b>"), g("gpt", "<i>{x}</i>"))),
    ("an image", h(g("human", "<image>What is this?"), G, images=["a.jpg"])),
    ("images parts", h(g("human", [{"type": "text", "value": "x"}, {"type": "image", "value": "a.jpg"}]), G)),
    ("ends with a call", h(H, F, tools=TOOLS)),
    ("a schema with definitions", declared(DEFS)),
]  # fmt: skip


def al(instruction: Any = "Add.", output: Any = "2", **more: Any) -> dict[str, Any]:
    return {"instruction": instruction, "input": "", "output": output, **more}


# A question and an answer that are faulty, and the code, by the fault.
TEXTS = {
    "empty question": ("", "x", "MYP214"), "empty answer": ("x", "", "MYP214"),
    "blank question": (" \n", "x", "MYP314"), "blank answer": ("x", "\t", "MYP314"),
    "end of sentence": ("x", "y</s>", "MYP301"), "end of ChatML": ("x", "y<|im_end|>", "MYP301"),
    "start of ChatML": ("<|im_start|>", "x", "MYP301"), "Llama 2": ("[INST] x", "y", "MYP301"),
    "Llama 3": ("x", "y<|eot_id|>", "MYP301"), "GPT": ("x", "y<|endoftext|>", "MYP301"),
    "Gemma": ("x", "y<end_of_turn>", "MYP301"), "Mistral": ("x", "[TOOL_CALLS]", "MYP301"),
    "harmony": ("x", "<|channel|>final", "MYP301"), "DeepSeek": ("x", "<｜User｜>", "MYP301"),
    "Phi": ("<|user|>", "x", "MYP301"), "a name left": ("Dear {{name}}", "x", "MYP358"),
    "a field left": ("x", "{response}", "MYP358"), "noinput": ("noinput", "x", "MYP358"),
    "nooutput": ("x", "<nooutput>", "MYP358"),
}  # fmt: skip


def of_texts(make: Any, question: str, answer: str) -> list[Row]:
    """Returns rows of a shape that has one question and one answer, at these pointers."""
    return [
        (name, make(one, two), [(code, answer if one == "x" else question)])
        for name, (one, two, code) in TEXTS.items()
    ]


RENDERED = "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
SIMPLE: dict[str, list[Row]] = {
    "alpaca": [
        *of_texts(al, "/instruction", "/output"),
        ("a number", al(5), [("MYP104", "/instruction")]),
        ("null answer", {"instruction": "x", "output": None}, [("MYP102", "")]),
        ("input is a list", al(input=["x"]), [("MYP104", "/input")]),
        ("a sign in the input", al(input="<noinput>"), [("MYP358", "/input")]),
        ("history of strings", al(history=["x"]), [("MYP104", "/history/0")]),
        ("empty answer before", al(history=[["x", ""]]), [("MYP214", "/history/0/1")]),
        ("unknown key", al(note="x"), [("MYP112", "/note")]),
        ("misspelt key", al(sistem="x"), [("MYP103", "/sistem")]),
        ("a class", al(label="sports"), [("MYP112", "/label")]),
        ("a label of KTO", al(label="true"), [("MYP104", "/label")]),
        *((f"a class {label}", al(label=label), [("MYP112", "/label")]) for label in (0, 1, 3, "good")),
        ("a list of classes", al(labels=[1, 2]), [("MYP112", "/labels")]),
        ("labels of KTO", al(labels=True), [("MYP103", "/labels")]),
        ("the name of a tool", al(tool="search"), [("MYP112", "/tool")]),
        ("a list of tools", al(tool=[]), [("MYP103", "/tool")]),
    ],
    "completion": [
        *of_texts(lambda q, x: {"prompt": q, "completion": x}, "/prompt", "/completion"),
        ("a number", {"prompt": 5, "completion": "x"}, [("MYP104", "/prompt")]),
        ("null", {"prompt": "x", "completion": None}, [("MYP104", "/completion")]),
        ("unknown role", {"prompt": [{"role": "poet", "content": "x"}], "completion": [a()]}, [("MYP105", "/prompt/0/role")]),
        ("answer in the prompt", {"prompt": [u(), a()], "completion": [a("x")]}, [("MYP257", "/completion/0")]),
        ("misspelt key", {"prompt": "x", "completion": "y", "sytem": "z"}, [("MYP103", "/sytem")]),
    ],
    "kto": [
        *of_texts(lambda q, x: {"prompt": q, "completion": x, "label": True}, "/prompt", "/completion"),
        ("null", {"prompt": "x", "completion": None, "label": True}, [("MYP104", "/completion")]),
        ("two answers", {"prompt": [u(), a()], "completion": [a("x")], "label": False}, [("MYP257", "/completion/0")]),
        ("a misspelt label", {"prompt": "x", "completion": "y", "lable": True}, [("MYP103", "/lable")]),
        ("the label is a word", {"prompt": "x", "completion": "y", "label": "False"}, [("MYP104", "/label")]),
        ("the label is a number", {"prompt": "x", "completion": "y", "kto_tag": 0}, [("MYP104", "/kto_tag")]),
    ],
    "preference": [
        *of_texts(lambda q, x: {"prompt": q, "chosen": x, "rejected": "z"}, "/prompt", "/chosen"),
        ("a tag in a rendered prompt's answer", {"prompt": RENDERED, "chosen": "y<|im_end|>y", "rejected": "z"}, [("MYP301", "/chosen")]),
        ("an end of another template", {"prompt": RENDERED, "chosen": "y</s>", "rejected": "z"}, [("MYP301", "/chosen")]),
        ("tags that render nothing", {"prompt": "<|im_end|>\n<|im_start|>system\nx", "chosen": "y", "rejected": "z"}, [("MYP301", "/prompt")] * 2),
        ("empty rejected", {"prompt": "x", "chosen": "y", "rejected": ""}, [("MYP214", "/rejected")]),
        ("tagged rejected", {"prompt": "x", "chosen": "y", "rejected": "z</s>"}, [("MYP301", "/rejected")]),
        ("null rejected", {"prompt": "x", "chosen": "y", "rejected": None}, [("MYP104", "/rejected")]),
        ("equal texts", {"prompt": "x", "chosen": "y", "rejected": "y"}, [("MYP129", "/rejected")]),
        ("equal conversations", {"chosen": [u(), a()], "rejected": [u(), a()]}, [("MYP129", "/rejected")]),
        ("equal sides", h(H, chosen=G, rejected=G), [("MYP129", "/rejected")]),
        ("equal calls", {"prompt": [u()], "chosen": [c()], "rejected": [c()]}, [("MYP129", "/rejected")]),
        ("unknown key of what OpenAI asks", {"input": {"messages": [u()], "tool": []}, "preferred_output": [a()], "non_preferred_output": [a("z")]}, [("MYP103", "/input/tool")]),
    ],
    "prompt": [
        ("only a prompt", {"prompt": "x"}, [("MYP252", "/prompt")]),
        ("messages", {"prompt": [s(), u()], "reward_model": {"ground_truth": "4"}}, [("MYP252", "/prompt/1")]),
        ("empty", {"prompt": [u("")]}, [("MYP214", "/prompt/0/content"), ("MYP252", "/prompt/0")]),
    ],
    "turns": [
        ("a number", [u(), 5], [("MYP104", "/1")]),
        ("unknown role", [u(), {"role": "poet", "content": "x"}], [("MYP105", "/1/role")]),
        ("two answers", [u(), a(), a("x")], [("MYP257", "/2")]),
        ("no list", {"messages": []}, [("MYP101", "")]),
        ("no messages", [], [("MYP104", "")]),
    ],
    "plain": [
        ("no answer", {"text": "### Instruction:\nAdd.\n\n### Response:\n"}, [("MYP214", "/text")]),
        ("a number", {"text": 5}, [("MYP104", "/text")]),
        ("no text", {"language": "en"}, [("MYP102", "")]),
        ("a class", {"text": "Once.", "label": "tale"}, [("MYP112", "/label")]),
        ("a number of a class", {"text": "Once.", "label": 1}, [("MYP112", "/label")]),
    ],
}  # fmt: skip
CLEAN |= {
    "alpaca": [
        ("plain", al()), ("with input", al(input="1 + 1")), ("with a prompt", al(system="S")),
        ("history", al(history=[["x", "y"]])), ("no input", {"instruction": "x", "output": "y"}),
        ("questions", {"question": "x", "answer": "y"}), ("Dolly", {"instruction": "x", "context": "", "response": "y"}),
        ("with the text", al(text="### Instruction: Add.")), ("code", al("Use {{ x }}", "```{{ x }}```")),
        ("Hindi", al("नमस्ते", "🙏")), ("JSON", al("as JSON", '{"a": {"b": 1}}')),
        ("a rendered prompt", {"prompt": "<s>[INST] x [/INST]", "response": "y</s>"}),
    ],
    "completion": [
        ("no label", {"prompt": "x", "completion": "y", "label": None}),
        ("texts", {"prompt": "x", "completion": " y"}),
        ("messages", {"prompt": [s(), u()], "completion": [a()]}),
        ("calls", {"prompt": [u()], "completion": [c()], "tools": [tool()]}),
        ("a rendered prompt", {"prompt": RENDERED, "completion": "y<|im_end|>\n"}),
        ("rendered with BOS", {"prompt": "<bos><start_of_turn>user\nx<end_of_turn>\n<start_of_turn>model\n", "completion": "y"}),
    ],
    "kto": [
        ("good", {"prompt": "x", "completion": "y", "label": True}),
        ("messages", {"prompt": [u()], "completion": [a()], "label": False}),
    ],
    "preference": [
        ("texts", {"prompt": "x", "chosen": "y", "rejected": "z"}),
        ("conversations", {"chosen": [u(), a("y")], "rejected": [u(), a("z")], "score_chosen": 1.0, "score_rejected": 0.5}),
        ("sharegpt", h(H, chosen=G, rejected=g("gpt", "z"))),
        ("sides of torchtune", {"chosen_conversations": [u(), a("y")], "rejected_conversations": [u(), a("z")]}),
        ("no question", {"chosen": "y", "rejected": "z"}),
        ("responses of axolotl", {"prompt": "x", "chosen_response": "y", "rejected_response": "z"}),
        ("Orca", {"system": "S", "question": "x", "chosen": "y", "rejected": "z"}),
        ("a rendered prompt", {"prompt": RENDERED, "chosen": "y<|im_end|>", "rejected": "z<|im_end|>"}),
        ("responses", {"question": "x", "response_j": "y", "response_k": "z"}),
        ("other arguments", {"prompt": [u()], "chosen": [c()], "rejected": [c(call('{"city": "Rom"}'))]}),
        ("answer at once", {"prompt": [u()], "chosen": [c(), r(), a("y")], "rejected": [a("y")]}),
        ("OpenAI", {"input": {"messages": [u()], "tools": [tool()], "parallel_tool_calls": True}, "preferred_output": [a()], "non_preferred_output": [a("z")]}),
    ],
    "prompt": [],
    "turns": [("messages", [s(), u(), a()]), ("ShareGPT", [H, G])],
    "plain": [("a sentence", {"text": "Once."}), ("an answer", {"text": "### Response:\n4", "language": "en"})],
}  # fmt: skip
# Tables of `traces.toml`; `test_traces.py` says more of them.
SIMPLE |= {
    "anthropic": [
        ("a role", {"messages": [{"role": "robot", "content": [BLOCK]}, a()]}, [("MYP105", "/messages/0/role")]),
        ("no name", {"messages": [u(), {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {}}]}]}, [("MYP104", "/messages/1/content/0")]),
        ("a result of no call", {"messages": [u(), {"role": "user", "content": [BLOCK]}, a()]}, [("MYP310", "/messages/1/content/0")]),
    ],
    "gemini": [("no text", {"contents": [{"parts": 5}]}, [("MYP104", "/contents/0/parts"), ("MYP104", "")])],
    "responses": [
        ("arguments", {"input": "x", "output": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{"}]}, [("MYP304", "/output/0/arguments")]),
    ],
    "atif": [("an unknown step", {"steps": [{"source": "robot"}]}, [("MYP280", "/steps/0"), ("MYP104", "")])],
    **{name: [("no event", [5], [("MYP104", "/0"), ("MYP104", "")])] for name in ("claude-code", "codex", "pi", "sts", "openhands")},
    "swe-agent": [("a role", {"history": [{"role": "robot", "agent": "main"}]}, [("MYP280", "/history/0"), ("MYP104", "")])],
    "inspect": [("no name", {"messages": [u(), {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "arguments": {}}]}, {"role": "tool", "tool_call_id": "1", "content": "x", "function": "f"}]}, [("MYP104", "/messages/1/tool_calls/0"), ("MYP288", "/messages/2")])],
}  # fmt: skip
CLEAN |= {
    name: [(f"{name} {i}", record) for i, (shape, record, _) in enumerate(RECORDS) if shape == name]
    for name in SIMPLE.keys() - CLEAN.keys()
}
CLEAN["anthropic"] = [("an image", {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "x"}]}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "z"}, {"type": "text", "text": "y"}]}, a()]})]  # fmt: skip
FAULTY = {"openai": OPENAI, "sharegpt": SHAREGPT, **SIMPLE}
