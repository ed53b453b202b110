"""Checks the shape of a USF Omega record, and brings it into one form for reading.

Input is any JSON value; output is a record in which each answer is an `Answer`, and tools are in
their wrappers, with findings of family 1. Answers have several spellings and inner objects of
several kinds, which a `RecordSchema` alone cannot describe. Implements sections 6 to 8 of
grammar/usf_omega/SPEC.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from mypt_spec.adapters.objects import Objects
from mypt_spec.adapters.usf_omega.shape import (
    ANSWER,
    FLAGS,
    FORMATS,
    INSTRUCTIONS,
    ITEMS,
    LEVELS,
    RECORD,
)
from mypt_spec.bodies.strict_json import escape, kind_of
from mypt_spec.findings import Finding, Fix
from mypt_spec.record_schema import BOOLEAN, OBJECT, STRING, check_record
from mypt_spec.record_schema import metadata as notes


class Answer(NamedTuple):
    """An assistant message: its parts, each (kind, text or calls, pointer), and its pointer."""

    parts: tuple[tuple[str, Any, str], ...]
    pointer: str


def metadata(record: dict[str, Any]) -> dict[str, Any]:
    """Returns what an Episode keeps of a record besides its text."""
    return {k: record[k] for k in FLAGS if k in record} | notes(record)


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
                messages[i] = message | {
                    "answer": self.answer(message, f"{at}role", at.__add__),
                }
        if isinstance(raw_messages, list):
            work["messages"] = messages
        self.last(work, messages)
        self.instructions(messages)
        self.tools(work)
        self.flags(work)
        answers = [
            m["answer"]
            for m in [*messages, work]
            if isinstance(m, dict) and isinstance(m.get("answer"), Answer)
        ]
        reflections = [
            pointer for a in answers for kind, _, pointer in a.parts if kind == "self_reflection"
        ]
        if reflections and "self_reflection_enabled" not in work:
            patch = ({"op": "add", "path": "/self_reflection_enabled", "value": True},)
            fix = Fix('add "self_reflection_enabled": true', True, patch=patch)
            self.add(
                "MYP130",
                '"self_reflection_enabled" is not set, and an answer reflects on itself',
                reflections[0],
                fix=fix,
            )

    def last(self, work: dict[str, Any], messages: list[Any]) -> None:
        """Reads the answer that is outside of `messages`, if there is one."""
        top = [key for key in ("assistant", *ANSWER) if key in work]
        pair = [key for key in ("chosen", "rejected") if key in work]
        if "messages" not in work and (pair or not top):
            self.add("MYP102", 'the record has no "messages"', "", help='add "messages": [...]')
        if len(pair) == 1:
            other = "rejected" if pair == ["chosen"] else "chosen"
            self.add(
                "MYP102",
                f'the record has "{pair[0]}" and no "{other}"',
                "",
                help="a preference has both",
            )
        if top and pair:
            self.add(
                "MYP123",
                f'"{top[0]}" and "{pair[0]}" both end the conversation',
                f"/{top[0]}",
                on_key=True,
                help="keep one of them",
            )
        if top and any(isinstance(m, dict) and m.get("role") == "assistant" for m in messages):
            hint = "put it into the messages, as the last one"
            self.add(
                "MYP120",
                f'some answers stand in "messages", the last one in "{top[0]}"',
                f"/{top[0]}",
                on_key=True,
                help=hint,
            )
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
                patch = tuple(
                    op | {"path": f"/{key}{op['path'].removeprefix(base)}"} for op in fix.patch
                )
                fix = replace(fix, patch=patch)
            self.findings.append(
                replace(finding, pointer=f"/{key}{finding.pointer.removeprefix(base)}", fix=fix)
            )
        self.readable = self.readable and checked is not None
        if (
            isinstance(value.get("role"), str)
            and value["role"] in RECORD.roles
            and value["role"] != "assistant"
        ):
            self.add(
                "MYP127",
                f'"{key}" is a message of the {value["role"]}',
                f"/{key}/role",
                help='write "assistant"',
            )
        return self.answer(value, f"/{key}", lambda name: f"/{key}/{escape(name)}")

    def answer(self, item: dict[str, Any], pointer: str, at: Callable[[str], str]) -> Answer:
        parts: list[tuple[str, Any, str]] = []
        contents = item.get("contents")
        if isinstance(contents, list):
            parts = [
                part
                for i, value in enumerate(contents)
                for part in self.item(value, f"{at('contents')}/{i}")
            ]
            for key in ("content", "tool_calls", "self_reflection"):
                if key in item:
                    self.add(
                        "MYP334",
                        f'"{at(key)[1:].split("/")[-1]}" stands beside "contents"',
                        at(key),
                        on_key=True,
                        help="keep one of them",
                    )
        else:
            if isinstance(item.get("content"), str):
                parts.append(("message", item["content"], at("content")))
            parts += (
                self.calls(item["tool_calls"], at("tool_calls")) if "tool_calls" in item else []
            )
            if isinstance(item.get("self_reflection"), str):
                parts.append(("self_reflection", item["self_reflection"], at("self_reflection")))
        if isinstance(item.get("reasoning"), str):
            if any(kind == "reasoning" for kind, _, _ in parts):
                hint = "merge it into the item, or delete it"
                self.add(
                    "MYP121",
                    'the reasoning in "contents" is read, this is not',
                    at("reasoning"),
                    on_key=True,
                    help=hint,
                )
            else:
                parts.insert(0, ("reasoning", item["reasoning"], at("reasoning")))
        return Answer(tuple(parts), pointer)

    def item(self, value: Any, at: str) -> list[tuple[str, Any, str]]:
        """Returns the parts of an item of `contents`."""
        if not isinstance(value, dict):
            self.add("MYP104", f"an item of contents must be an object, got {kind_of(value)}", at)
            return []
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in ITEMS:
            if not self.shape(value, {"type": (STRING, True)}, at, "the item", closed=False):
                return []
            self.add(
                "MYP127",
                f'an item of contents has no type "{kind}"',
                f"{at}/type",
                help=f"types are {', '.join(ITEMS)}",
            )
            return []
        if not self.shape(
            value, {"type": (STRING, True), kind: (ITEMS[kind], True)}, at, f"the {kind} item"
        ):
            return []
        if kind == "tool_calls":
            return self.calls(value[kind], f"{at}/{kind}")
        return [("message" if kind == "text" else kind, value[kind], f"{at}/{kind}")]

    def calls(self, value: Any, at: str) -> list[tuple[str, Any, str]]:
        if not isinstance(value, list):
            return []  # said where its key was checked
        if not value:
            self.add(
                "MYP125", "the list of calls is empty, and is left out", at, help="delete the key"
            )
            return []
        return [("tool_calls", [self.call(call, f"{at}/{i}") for i, call in enumerate(value)], at)]

    def instructions(self, messages: list[Any]) -> None:
        roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
        places = [i for i, role in enumerate(roles) if role in INSTRUCTIONS]
        first = next((i for i, role in enumerate(roles) if role not in INSTRUCTIONS), len(roles))
        for i in places:
            if i > first:
                hint = "move it before the first message of the conversation"
                self.add(
                    "MYP250",
                    f"this {roles[i]} message is read at the front, in the developer block",
                    f"/messages/{i}/role",
                    help=hint,
                )

    def tools(self, work: dict[str, Any]) -> None:
        keys = [key for key in ("tools", "functions") if isinstance(work.get(key), list)]
        if len(keys) == 2:
            self.add(
                "MYP124",
                '"tools" and "functions" both define tools',
                "/functions",
                on_key=True,
                help="keep one of them",
            )
        for key in keys:
            if not work[key]:
                self.add(
                    "MYP125", f'"{key}" is empty, and is left out', f"/{key}", help="delete the key"
                )
                del work[key]
                continue
            names: set[str] = set()
            bare = [isinstance(tool, dict) and "function" not in tool for tool in work[key]]
            work[f"{key} without wrapper"] = bare
            work[key] = [self.tool(tool, f"/{key}/{i}", names) for i, tool in enumerate(work[key])]

    def flags(self, work: dict[str, Any]) -> None:
        effort, budget = work.get("reasoning_effort", "none"), work.get("thinking_budget", 0)
        if isinstance(effort, str) and effort not in LEVELS:
            self.add(
                "MYP127",
                f'there is no effort "{effort}"',
                "/reasoning_effort",
                keep=True,
                help=f"levels are {', '.join(LEVELS)}",
            )
        if isinstance(budget, int) and budget < 0:
            self.add(
                "MYP127",
                "the budget is below zero",
                "/thinking_budget",
                keep=True,
                help="write the greatest number of tokens",
            )
        if isinstance(work.get("response_schema"), dict):
            self.schema(work["response_schema"], "/response_schema")
        form = work.get("response_format")
        if not isinstance(form, dict):
            return
        fields = {
            "type": (STRING, True),
            "json_schema": (OBJECT, form.get("type") == "json_schema"),
        }
        if not self.shape(form, fields, "/response_format", "the response format", keep=True):
            return
        if form["type"] not in FORMATS:
            self.add(
                "MYP127",
                f'there is no format "{form["type"]}"',
                "/response_format/type",
                keep=True,
                help=f"formats are {', '.join(FORMATS)}",
            )
        inner = form.get("json_schema", {})
        fields = {
            "name": (STRING, False),
            "description": (STRING, False),
            "schema": (OBJECT, True),
            "strict": (BOOLEAN, False),
        }
        if "json_schema" in form and self.shape(
            inner, fields, "/response_format/json_schema", "the JSON schema", keep=True
        ):
            self.schema(inner["schema"], "/response_format/json_schema/schema")
