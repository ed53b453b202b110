"""States and checks the shape of a USF Omega record, and brings it into one form for reading.

Input is any JSON value; output is a record in which each answer is an `Answer`, and tools are in
their wrappers, with findings of family 1. Answers have several spellings and inner objects of
several kinds, which a `RecordSchema` alone cannot describe. Implements sections 6 to 8 of
grammar/usf_omega/SPEC.md.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from mypt_spec.adapters.objects import Objects
from mypt_spec.bodies.strict_json import canonical, escape, kind_of
from mypt_spec.episode import Message, Part, Place
from mypt_spec.findings import Finding, Fix
from mypt_spec.record_schema import (
    BOOLEAN,
    INTEGER,
    LANGUAGE,
    LIST,
    OBJECT,
    STRING,
    Field,
    RecordSchema,
    check_record,
)
from mypt_spec.table import TokenTable

_TEXT = Field(STRING)
_KINDS = (STRING, LIST, OBJECT, BOOLEAN, INTEGER, LANGUAGE)
_MAYBE = {kind: Field(kind, required=False) for kind in _KINDS}
ANSWER = {
    "reasoning": _MAYBE[STRING],
    "contents": _MAYBE[LIST],
    "tool_calls": _MAYBE[LIST],
    "self_reflection": _MAYBE[STRING],
}
# Not in the text: kept in an Episode's metadata, in this order in a canonical record.
FLAGS = (
    "rejected", "response_schema", "response_format", "json_mode", "search_enabled",
    "citations_enabled",
    "self_reflection_enabled", "reasoning_effort", "thinking_budget", "label",
)  # fmt: skip
RECORD = RecordSchema(
    top={
        "model_identity": _MAYBE[STRING], "messages": _MAYBE[LIST], "tools": _MAYBE[LIST],
        "functions": _MAYBE[LIST],
        "assistant": _MAYBE[STRING], **ANSWER, "chosen": _MAYBE[OBJECT], "rejected": _MAYBE[OBJECT],
        "response_schema": _MAYBE[OBJECT], "response_format": _MAYBE[OBJECT],
        "json_mode": _MAYBE[BOOLEAN],
        "search_enabled": _MAYBE[BOOLEAN], "citations_enabled": _MAYBE[BOOLEAN],
        "self_reflection_enabled": _MAYBE[BOOLEAN],
        "reasoning_effort": _MAYBE[STRING], "thinking_budget": _MAYBE[INTEGER],
        "label": _MAYBE[BOOLEAN], "language": _MAYBE[LANGUAGE],
    },
    roles={
        "system": {"content": _TEXT}, "developer": {"content": _TEXT}, "user": {"content": _TEXT},
        "assistant": {"content": _MAYBE[STRING], **ANSWER},
        "tool": {"tool_call_id": _MAYBE[STRING], "name": _MAYBE[STRING], "content": _TEXT},
    },
    aliases={"function": "tool", "tool_result": "tool", "toolresult": "tool"},
)  # fmt: skip
INSTRUCTIONS = ("system", "developer")
LEVELS = ("none", "minimal", "low", "medium", "high", "max")
FORMATS = ("text", "json_object", "json_schema")
ITEMS = {"reasoning": STRING, "text": STRING, "tool_calls": LIST, "self_reflection": STRING}


class Answer(NamedTuple):
    """An assistant message: its parts, each (kind, text or calls, pointer), and its pointer."""

    parts: tuple[tuple[str, Any, str], ...]
    pointer: str

    def message(self, at: str, table: TokenTable, meta: dict[str, Any]) -> Message:
        """Returns the message of an Episode; tool calls become their JSON."""
        parts = tuple(
            Part(kind, v if isinstance(v, str) else canonical(v, table.literals), at=Place(pointer))
            for kind, v, pointer in self.parts
        )
        return Message("assistant", parts, at=Place(at), meta=meta)


def check(record: Any) -> tuple[dict[str, Any] | None, list[Finding], str]:
    """Checks a record. Returns as `record_schema.check_record` does.

    In the record that is returned, answers and tools are in one form: `answer` of a message and of
    the record, and `tools`.
    """
    checked, findings, _ = check_record(record, RECORD)
    if not isinstance(record, dict):
        return None, findings, ""
    work = dict(record if checked is None else checked)
    walk = _Walk(findings)
    walk.record(work)
    return (work if checked is not None and walk.readable else None), findings, ""


def answer_at(message: dict[str, Any], pointer: str) -> Answer | None:
    """Returns the answer in an assistant message, None if it cannot be read."""
    walk = _Walk([])
    answer = walk.answer(message, pointer, lambda key: f"{pointer}/{key}")
    return answer if walk.readable else None


class _Walk(Objects):
    """Goes through a record of which nothing is known but that it is an object."""

    def record(self, work: dict[str, Any]) -> None:
        raw_messages = work.get("messages")
        messages = list(raw_messages) if isinstance(raw_messages, list) else []
        for i, message in enumerate(messages):
            if isinstance(message, dict) and message.get("role") == "assistant":
                at = f"/messages/{i}/"
                messages[i] = message | {"answer": self.answer(message, f"{at}role", at.__add__)}
        if isinstance(raw_messages, list):
            work["messages"] = messages
        self.last(work, messages)
        self.instructions(messages)
        self.tools(work)
        self.flags(work)
        answers = [m.get("answer") for m in [*messages, work] if isinstance(m, dict)]
        parts = [part for a in answers if isinstance(a, Answer) for part in a.parts]
        reflections = [pointer for kind, _, pointer in parts if kind == "self_reflection"]
        if reflections and "self_reflection_enabled" not in work:
            patch = ({"op": "add", "path": "/self_reflection_enabled", "value": True},)
            fix = Fix('add "self_reflection_enabled": true', True, patch=patch)
            problem = '"self_reflection_enabled" is not set, and an answer reflects on itself'
            self.add("MYP130", problem, reflections[0], fix=fix)

    def last(self, work: dict[str, Any], messages: list[Any]) -> None:
        """Reads the answer that is outside of `messages`, if there is one."""
        top = [key for key in ("assistant", *ANSWER) if key in work]
        pair = [key for key in ("chosen", "rejected") if key in work]
        if "messages" not in work and (pair or not top):
            self.add("MYP102", 'the record has no "messages"', "", help='add "messages": [...]')
        if len(pair) == 1:
            other = "rejected" if pair == ["chosen"] else "chosen"
            problem = f'the record has "{pair[0]}" and no "{other}"'
            self.add("MYP102", problem, "", help="a preference has both")
        if top and pair:
            problem = f'"{top[0]}" and "{pair[0]}" both end the conversation'
            self.add("MYP123", problem, f"/{top[0]}", on_key=True)
        if top and any(isinstance(m, dict) and m.get("role") == "assistant" for m in messages):
            problem = f'some answers stand in "messages", the last one in "{top[0]}"'
            self.add("MYP120", problem, f"/{top[0]}", on_key=True)
        if top:
            item = {"content" if key == "assistant" else key: work[key] for key in top}
            work["answer"] = self.answer(
                item, f"/{top[0]}", lambda key: "/assistant" if key == "content" else f"/{key}"
            )
        preferred = [self.preferred(work[key], key) for key in pair]
        if preferred and pair[0] == "chosen":
            work["answer"] = preferred[0]
        if len(preferred) == 2 and all(preferred):
            chosen, rejected = ([part[:2] for part in a.parts] for a in preferred if a is not None)
            if chosen == rejected:
                self.add("MYP129", "the rejected answer is the chosen one", "/rejected")

    def preferred(self, value: Any, key: str) -> Answer | None:
        """Returns the answer in `chosen` or `rejected`, each of which is an assistant message."""
        if not isinstance(value, dict):
            return None  # a finding of check_record
        base = "/messages/0"
        checked, findings, _ = check_record({"messages": [value]}, RECORD)
        codes = {f.code for f in self.findings}
        for finding in findings:
            if finding.code in ("MYP004", "MYP005", "MYP006", "MYP008") and finding.code in codes:
                continue  # said of the whole record
            fix = finding.fix
            if fix is not None:
                paths = [f"/{key}{operation['path'].removeprefix(base)}" for operation in fix.patch]
                both = zip(fix.patch, paths, strict=True)
                fix = fix._replace(patch=tuple(op | {"path": path} for op, path in both))
            pointer = f"/{key}{finding.pointer.removeprefix(base)}"
            self.findings.append(replace(finding, pointer=pointer, fix=fix))
        self.readable = self.readable and checked is not None
        role = value.get("role")
        if isinstance(role, str) and role in RECORD.roles and role != "assistant":
            problem = f'"{key}" is a message of the {role}'
            self.add("MYP127", problem, f"/{key}/role", help='write "assistant"')
        return self.answer(value, f"/{key}", lambda name: f"/{key}/{escape(name)}")

    def answer(self, item: dict[str, Any], pointer: str, at: Callable[[str], str]) -> Answer:
        parts: list[tuple[str, Any, str]] = []
        contents = item.get("contents")
        if isinstance(contents, list):
            for i, value in enumerate(contents):
                parts += self.item(value, f"{at('contents')}/{i}")
            for key in ("content", "tool_calls", "self_reflection"):
                if key in item:
                    problem = f'"{at(key)[1:].split("/")[-1]}" stands beside "contents"'
                    self.add("MYP334", problem, at(key), on_key=True, help="keep one of them")
        else:
            if isinstance(item.get("content"), str):
                parts.append(("message", item["content"], at("content")))
            parts += self.calls(item.get("tool_calls"), at("tool_calls"))
            if isinstance(item.get("self_reflection"), str):
                parts.append(("self_reflection", item["self_reflection"], at("self_reflection")))
        if isinstance(item.get("reasoning"), str):
            if any(kind == "reasoning" for kind, _, _ in parts):
                problem = 'the reasoning in "contents" is read, this is not'
                hint = "merge it into the item, or delete it"
                self.add("MYP121", problem, at("reasoning"), on_key=True, help=hint)
            else:
                parts.insert(0, ("reasoning", item["reasoning"], at("reasoning")))
        return Answer(tuple(parts), pointer)

    def item(self, value: Any, at: str) -> list[tuple[str, Any, str]]:
        if not isinstance(value, dict):
            self.add("MYP104", f"an item of contents must be an object, got {kind_of(value)}", at)
            return []
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in ITEMS:
            if self.shape(value, {"type": (STRING, True)}, at, "the item", closed=False):
                problem, hint = f'an item of contents has no type "{kind}"', ", ".join(ITEMS)
                self.add("MYP127", problem, f"{at}/type", help=f"types are {hint}")
            return []
        fields = {"type": (STRING, True), kind: (ITEMS[kind], True)}
        if not self.shape(value, fields, at, f"the {kind} item"):
            return []
        if kind == "tool_calls":
            return self.calls(value[kind], f"{at}/{kind}")
        return [("message" if kind == "text" else kind, value[kind], f"{at}/{kind}")]

    def calls(self, value: Any, at: str) -> list[tuple[str, Any, str]]:
        if not isinstance(value, list):
            return []  # said where its key was checked, if there is one
        if not value:
            problem = "the list of calls is empty, and is left out"
            self.add("MYP125", problem, at, help="delete the key")
            return []
        return [("tool_calls", [self.call(call, f"{at}/{i}") for i, call in enumerate(value)], at)]

    def instructions(self, messages: list[Any]) -> None:
        roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
        first = next((i for i, role in enumerate(roles) if role not in INSTRUCTIONS), len(roles))
        for i, role in enumerate(roles[first:], first):
            if role in INSTRUCTIONS:
                problem = f"this {role} message is read at the front, in the developer block"
                hint = "move it before the first message of the conversation"
                self.add("MYP250", problem, f"/messages/{i}/role", help=hint)

    def tools(self, work: dict[str, Any]) -> None:
        keys = [key for key in ("tools", "functions") if isinstance(work.get(key), list)]
        if len(keys) == 2:
            problem = '"tools" and "functions" both define tools'
            self.add("MYP124", problem, "/functions", on_key=True)
        for key in keys:
            if not work[key]:
                problem = f'"{key}" is empty, and is left out'
                self.add("MYP125", problem, f"/{key}", help="delete the key")
                del work[key]
                continue
            names: set[str] = set()
            bare = [isinstance(tool, dict) and "function" not in tool for tool in work[key]]
            work[f"{key} without wrapper"] = bare
            work[key] = [self.tool(tool, f"/{key}/{i}", names) for i, tool in enumerate(work[key])]

    def flags(self, work: dict[str, Any]) -> None:
        effort, budget = work.get("reasoning_effort", "none"), work.get("thinking_budget", 0)
        if isinstance(effort, str) and effort not in LEVELS:
            problem, hint = f'there is no effort "{effort}"', f"levels are {', '.join(LEVELS)}"
            self.add("MYP127", problem, "/reasoning_effort", keep=True, help=hint)
        if isinstance(budget, int) and budget < 0:
            problem, hint = "the budget is below zero", "write the greatest number of tokens"
            self.add("MYP127", problem, "/thinking_budget", keep=True, help=hint)
        if isinstance(work.get("response_schema"), dict):
            self.schema(work["response_schema"], "/response_schema")
        form = work.get("response_format")
        if not isinstance(form, dict):
            return
        at, kind = "/response_format", form.get("type")
        fields = {"type": (STRING, True), "json_schema": (OBJECT, kind == "json_schema")}
        if not self.shape(form, fields, at, "the response format", keep=True):
            return
        if kind not in FORMATS:
            problem, hint = f'there is no format "{kind}"', f"formats are {', '.join(FORMATS)}"
            self.add("MYP127", problem, f"{at}/type", keep=True, help=hint)
        inner, at = form.get("json_schema"), f"{at}/json_schema"
        fields = dict.fromkeys(("name", "description"), (STRING, False))
        fields |= {"schema": (OBJECT, True), "strict": (BOOLEAN, False)}
        if inner is not None and self.shape(inner, fields, at, "the JSON schema", keep=True):
            self.schema(inner["schema"], f"{at}/schema")
