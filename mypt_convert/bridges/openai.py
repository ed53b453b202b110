"""Turns chat records, as OpenAI's fine-tuning takes them, into steps.

The format is read only: it is no dialect, because there is no text to write it as.
"""

from __future__ import annotations

from typing import Any

from mypt_convert.steps import BOUNDARY, Conversation, Step, extras_of, first_carries, result_value
from mypt_spec.bodies.strict_json import Fault, a_kind_of, escape, faults, kind_of, loads
from mypt_spec.findings import Finding

_KEYS = {
    "system": {"content"},
    "developer": {"content"},
    "user": {"content"},
    "assistant": {"content", "tool_calls"},
    "tool": {"content", "tool_call_id", "name"},
}
# What the model sees besides the messages; and what a message says besides its content. Neither is
# metadata: a target that has no place for it loses it.
_SEEN = {"messages", "system", "language", "tools", "functions", "response_format"}
_SAID = {"role", "refusal", "audio", "function_call"}
# Further keys of OpenAI's own; null in their place, and in the place of those above, says nothing.
_OF_RECORD = {"parallel_tool_calls", "tool_choice", "function_call", "reasoning_effort"}
_OF_MESSAGE = {"name", "weight", "annotations", "logprobs", "tool_calls", "tool_call_id"}


def unknown(record: Any, takes: frozenset[str]) -> list[Finding]:
    """Returns a finding for each key of a readable record that becomes metadata.

    Such a key is no part of the conversation. `takes` are the top-level keys that the target has a
    place for.
    """
    places = [("", record, _SEEN | takes, _OF_RECORD)]
    for i, message in enumerate(record["messages"]):
        known = _SAID | _KEYS[message["role"]]
        places.append((f"/messages/{i}", message, known, _OF_MESSAGE))
    return [
        Finding("MYP103", f'unknown key "{key}"', f"{at}/{escape(key)}", on_key=True)
        for at, where, known, void in places
        for key, value in where.items()
        if not (key in known or key.startswith("_") or (value is None and key in void))
        and not (key == "weight" and value == 0)  # "do not train this answer": no metadata says so
    ]


def read(record: Any) -> tuple[Conversation | None, list[Finding]]:
    """Returns the steps, or None and why there are none.

    Keys that are not known here are kept, for the target to take or lose. Never raises.
    """
    reader = _Reader()
    reader.findings += [Finding(f.code, f.message, f.pointer) for f in faults(record)]
    out: list[Step] = []
    if not isinstance(record, dict):
        reader.add("MYP101", f"the record is {a_kind_of(record)}, expected an object", "")
    elif not isinstance(record.get("messages"), list) or not record["messages"]:
        reader.add("MYP104", '"messages" must be an array that is not empty', "/messages")
    else:
        if record.get("system") is not None:
            prompt = reader.text(record["system"], "/system")
            out += [] if prompt is None else [Step("system", prompt, at="/system")]
        for i, message in enumerate(record["messages"]):
            out += reader.message(message, f"/messages/{i}")
    if reader.findings:
        return None, reader.findings
    extras = {k: v for k, v in extras_of(record, "system").items() if not _void(k, v)}
    return Conversation(tuple(out), extras), []


def _void(key: str, value: Any) -> bool:
    """Returns whether a key says nothing; metadata that is null is metadata."""
    return value is None and not key.startswith("_")


class _Reader:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.calls: dict[str, str] = {}  # id -> name, of calls without a result
        self.beside: dict[str, Any] = {}  # the other keys of the present message
        self.before = ""  # the role of the message before

    def add(self, code: str, message: str, at: str) -> None:
        self.findings.append(Finding(code, message, at))

    def message(self, message: Any, at: str) -> list[Step]:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            self.add("MYP104", 'a message must be an object with a "role"', at)
            return []
        role = message["role"]
        if role not in _KEYS:
            self.add("MYP105", f'unknown role "{role}"; roles are {", ".join(_KEYS)}', f"{at}/role")
            return []
        self.beside = {
            k: v
            for k, v in message.items()
            if k != "role" and k not in _KEYS[role] and not _void(k, v)
        }
        if role == self.before == "assistant":
            self.beside[BOUNDARY] = True
        self.before = role
        return first_carries(self.steps(role, message, at), self.beside)

    def steps(self, role: str, message: dict[str, Any], at: str) -> list[Step]:
        calls = (
            self.tool_calls(message.get("tool_calls"), f"{at}/tool_calls")
            if role == "assistant"
            else []
        )
        content = message.get("content")
        if content is None and message.get("tool_calls"):
            return calls
        text = self.text(content, f"{at}/content")
        if text is None:
            return calls
        if role == "tool":
            return self.result(message, text, at)
        # An empty content next to calls is how many write null.
        said = (
            [Step("text" if role == "assistant" else role, text, at=f"{at}/content")]
            if text or not calls
            else []
        )
        return said + calls

    def extra(self, where: str, item: dict[str, Any], known: set[str]) -> None:
        """Notes the keys of an object inside the message that no format has a place for."""
        self.beside |= {
            f"{where}.{key}": value
            for key, value in item.items()
            if key not in known and value is not None
        }

    def text(self, content: Any, at: str) -> str | None:
        """Returns a string, or text parts read as one; None with a finding for any other value."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            self.add(
                "MYP104",
                f'"{at.rpartition("/")[2]}" must be a string or a list of parts, '
                f"got {kind_of(content)}",
                at,
            )
            return None
        out = ""
        for i, part in enumerate(content):
            if (
                not isinstance(part, dict)
                or part.get("type") != "text"
                or not isinstance(part.get("text"), str)
            ):
                what = (
                    f"of type {part['type']!r}"
                    if isinstance(part, dict) and isinstance(part.get("type"), str)
                    else "without a type"
                )
                self.add(
                    "MYP104",
                    f'expected a part {{"type": "text", "text": "..."}}, got one {what}',
                    f"{at}/{i}",
                )
                return None
            out += part["text"]
            self.extra("content", part, {"type", "text"})
        return out

    def tool_calls(self, calls: Any, at: str) -> list[Step]:
        if calls is None:
            return []
        if not isinstance(calls, list):
            self.add("MYP104", f'"tool_calls" must be an array, got {kind_of(calls)}', at)
            return []
        return [step for i, call in enumerate(calls) for step in self.call(call, f"{at}/{i}")]

    def call(self, call: Any, at: str) -> list[Step]:
        function = call.get("function") if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if (
            not isinstance(function, dict)
            or not isinstance(name, str)
            or not name
            or not isinstance(call.get("id"), str)
            or not call["id"]
        ):
            self.add(
                "MYP104",
                'a call must be {"id": "...", "type": "function", "function": {"name": "...", '
                '"arguments": "{...}"}}',
                at,
            )
            return []
        if call.get("type", "function") != "function":
            self.add(
                "MYP104",
                f'the type of a call must be "function", got {str(call["type"])[:40]!r}',
                f"{at}/type",
            )
        if call["id"] in self.calls:
            self.add("MYP104", f'two calls without a result have the id "{call["id"]}"', f"{at}/id")
        self.calls[call["id"]] = name
        self.extra("tool_calls", call, {"id", "type", "function"})
        self.extra("function", function, {"name", "arguments"})
        arguments, body = function.get("arguments"), f"{at}/function/arguments"
        try:
            value = loads(arguments) if isinstance(arguments, str) else arguments
            wrong = next(iter(faults(value)), None)
        except Fault as fault:
            value, wrong = None, fault
        if wrong is not None or not isinstance(value, dict):
            self.add(
                "MYP304",
                f"the arguments are no JSON object: {wrong.message if wrong else kind_of(value)}",
                body,
            )
            return []
        return [Step("call", value, name, call["id"], body)]

    def result(self, message: dict[str, Any], text: str, at: str) -> list[Step]:
        """Returns the result of an open call, as a step."""
        called = message.get("tool_call_id")
        if not isinstance(called, str) or called not in self.calls:
            shown = f'"{called}"' if isinstance(called, str) else kind_of(called)
            self.add("MYP310", f"no open call has the id {shown}", f"{at}/tool_call_id")
            return []
        name = self.calls.pop(called)
        if message.get("name") not in (None, name):
            self.add(
                "MYP312",
                f'the result is of "{message["name"]}", its call is of "{name}"',
                f"{at}/name",
            )
        return [Step("result", result_value(text), name, called, f"{at}/content")]
