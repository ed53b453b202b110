"""Reads records as OpenAI's fine-tuning and TRL take them: `messages`, `tools`, and more.

Besides OpenAI's own keys: `chat_template_kwargs` of TRL, thoughts under the names that servers and
templates use, calls and results without ids, and the older `function_call`.
"""

from dataclasses import replace
from typing import Any

from mypt_records.chat import MEDIA, ROLES, Call, Chat, JsonValue, Message, Text
from mypt_records.reading import Reader, below, filled
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.bodies.strict_json import kind_of

ABOUT = "OpenAI records (messages)"
PROMPT = 'begin "messages" with {"role": "system", "content": "..."}'
TOP = frozenset({
    "messages", "system", "language", "tools", "functions", "chat_template_kwargs",
    "response_format", "parallel_tool_calls", "tool_choice", "function_call", "reasoning_effort",
    *MEDIA,
})  # fmt: skip
_ANY = frozenset({
    "role", "content", "name", "weight", "loss_weight", "train", "training", "loss", "refusal",
    "audio", "function_call", "annotations", "logprobs", "tool_calls", "tool_call_id", "prefix",
    "cache_control", *THOUGHTS,
})  # fmt: skip
# What a message of a role is read from; all else is `beside`.
_READ_KEYS = {
    **dict.fromkeys(("system", "developer", "user"), frozenset({"role", "content"})),
    "assistant": frozenset({"role", "content", "tool_calls", *THOUGHTS}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
}
# Roles of a call whose content is JSON text, and of results, as ms-swift has them; also ShareGPT's.
CALLS = ("tool_call", "tool_calls", "function_call", "function-call")
RESULTS = ("function", "tool_response", "observation", "function_response", "function-response")
USERS = ("human", "prompter")  # names that ShareGPT has for roles
ASSISTANTS = ("gpt", "chatgpt", "bard", "bing", "model", "ai", "bot")
_NAMES = dict.fromkeys(ROLES, "") | dict.fromkeys(USERS, "user")
_NAMES |= dict.fromkeys(ASSISTANTS, "assistant") | dict.fromkeys(RESULTS, "tool")
_NAMES |= dict.fromkeys(CALLS, 'a message of "assistant" with "tool_calls"')
_ALIASES = {**dict.fromkeys(RESULTS, "tool"), **dict.fromkeys(CALLS, "assistant")}
_BY_ASSISTANT = ("tool_calls", "function_call", *THOUGHTS)  # keys of what only an assistant says
# Without any of these, an answer must have content.
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio", *THOUGHTS)


def fit(record: dict[str, Any]) -> int:
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        return 0
    return 2 if isinstance(messages[0], dict) and "role" in messages[0] else 0


def read(record: dict[str, Any]) -> Chat:
    reader = Reader()
    out: list[Message] = []
    if record.get("system") is not None:
        parts = reader.parts(record["system"], "/system", "system")
        out += [] if parts is None else [Message("system", "system", "/system", parts[0])]
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        reader.add("MYP104", '"messages" must be an array that is not empty', "/messages")
    else:
        parsed = [message_of(m, f"/messages/{i}", reader) for i, m in enumerate(messages)]
        for each in filter(None, parsed):
            last = out[-1] if out and each.alias in CALLS else None
            if last and last.role == "assistant" and _weight(last) == _weight(each):
                calls, beside = last.calls + each.calls, each.beside | last.beside
                out[-1] = replace(last, calls=calls, beside=beside)
            else:
                out.append(each)
    tools = reader.tools(record.get("tools"), "/tools")
    if not isinstance(parallel := record.get("parallel_tool_calls"), bool | None):
        message = f'"parallel_tool_calls" must be true or false, got {kind_of(parallel)}'
        reader.add("MYP104", message, "/parallel_tool_calls", severity="warning")
    used, top_keys = ["messages", "system"], TOP
    if tools is None and "tools" not in record:
        tools = reader.tools(record.get("functions"), "/functions")
    if _repeats_question(record.get("prompt"), out):
        used, top_keys = [*used, "prompt"], TOP | {"prompt"}
    return reader.chat("openai", record, out, tools, top=top_keys, used=used)


def _weight(message: Message) -> Any:
    return message.weight and message.weight.value


def _repeats_question(prompt: Any, messages: list[Message]) -> bool:
    """Returns whether a top-level prompt is the first question once more, as UltraChat has it."""
    first = next((message for message in messages if message.role == "user"), None)
    return first is not None and isinstance(prompt, str) and prompt == first.text


def message_of(message: Any, at: str, reader: Reader) -> Message | None:
    """Returns a message; None, with a finding, for what is none."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        reader.add("MYP104", 'a message must be an object with a "role"', at)
        return None
    alias = message["role"]
    role = _ALIASES.get(alias, alias)
    if role not in _READ_KEYS:
        reader.role(alias, f"{at}/role", _NAMES)
        return None
    known_keys = _ANY if role == "assistant" else _ANY - filled(message, _BY_ASSISTANT)
    reader.unknown(message, known_keys, at, f"the {alias} message", telling=True)
    beside = {
        key: JsonValue(value, below(at, key))
        for key, value in message.items()
        if key not in _READ_KEYS[role] and (value is not None or key not in _ANY)
    }
    reader.begin()
    calls: tuple[Call, ...] = ()
    thoughts: tuple[Text, ...] = ()
    content = message.get("content")
    if alias in CALLS:
        calls, content = reader.json_calls(content, f"{at}/content"), None
    elif role == "assistant":
        calls = reader.calls(message.get("tool_calls"), f"{at}/tool_calls")
        thoughts = _thoughts(message, at, reader, beside)
        older = _older_call(message, at)
        if older is not None and calls:
            _check_duplicate(older, calls, reader)
        elif older is not None:
            calls = (older,)
            del beside["function_call"]
    texts: tuple[Text, ...] | None = None
    media: tuple[JsonValue, ...] = ()
    instead = alias in CALLS or any(map(message.get, _INSTEAD))
    if content is not None or role != "assistant" or not instead:
        parts = reader.parts(content, f"{at}/content")
        if parts is not None:
            texts, media = parts[:2]
            thoughts += parts[2]
            if not texts and (reader.called or thoughts):
                texts = None
    return reader.message(message, role, alias, at, texts, thoughts, calls, media, beside)


def _thoughts(
    message: dict[str, Any], at: str, reader: Reader, beside: dict[str, JsonValue]
) -> tuple[Text, ...]:
    """Returns the thoughts of an answer. Two keys may hold the same text, as some servers write.

    Of other thoughts under a second key, there is a finding, and they are put `beside`.
    """
    thoughts = [(key, message[key]) for key in THOUGHTS if message.get(key) not in (None, "")]
    for key, value in thoughts[1:]:
        if value != thoughts[0][1]:
            problem = f'"{key}" has other thoughts than "{thoughts[0][0]}", which is read'
            reader.add("MYP121", problem, f"{at}/{key}")
            beside[key] = JsonValue(value, f"{at}/{key}")
    for key, value in thoughts[:1]:
        text = reader.string(value, f"{at}/{key}", key)
        return () if text is None else (text,)
    return ()


def _check_duplicate(older: Call, calls: tuple[Call, ...], reader: Reader) -> None:
    """Notes a call of `function_call` beside `tool_calls`; the same call is no error."""
    message = 'the call is given twice, in "function_call" and "tool_calls"'
    same = len(calls) == 1 and _call_data(older) == _call_data(calls[0])
    hint, severity = 'keep "tool_calls" alone', "warning" if same else ""
    reader.add("MYP334", message, older.at, hint=hint, severity=severity, on_key=True)


def _call_data(call: Call) -> tuple[str, Any]:
    return call.name.text, call.arguments and call.arguments.value


def _older_call(message: dict[str, Any], at: str) -> Call | None:
    """Returns the call of `function_call`, if it is one; else it stays a further key."""
    call, here = message.get("function_call"), f"{at}/function_call"
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = JsonValue(call["arguments"], f"{here}/arguments") if "arguments" in call else None
    return Call(Text(call["name"], f"{here}/name"), arguments, here)
