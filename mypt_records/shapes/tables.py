"""Reads records that are lists of items, by the tables of `traces.toml`: requests, and traces.

A trace of an agent is a file of many lines, an event each, and one conversation: its record is the
list of the events (`mypt_cli.jsonl.layout`), so each value has its line. An item is an event, a
message, or a part of one; its row in the table says where its role, texts, thoughts, calls and
results are. Texts, thoughts and calls of one answer may be items of their own: they become one
message as long as they come in this order. What is no part of the conversation is left out or gets
the weight 0, and each such item is in a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from mypt_records.chat import ROLES, Call, Chat, JsonText, JsonValue, Message, Text
from mypt_records.reading import Reader
from mypt_records.shapes import openai
from mypt_spec.bodies.strict_json import kind_of
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding

_UNKNOWN, _COMPACTED, _STOPPED, _REWOUND = "MYP280", "MYP281", "MYP282", "MYP285"
_UNANSWERED, _MISSING = "MYP287", "MYP288"
_LEAVE, _UNTRAINED = "leave", "untrained"
_ITEMS = 8  # that are searched for signs


@cache
def tables() -> dict[str, Table]:
    """Returns the tables by the names of their shapes."""
    values: dict[str, dict[str, Any]] = load(Path(__file__).parents[1] / "traces.toml")
    notes = values.pop("notes")
    for value in values.values():
        if "same" in value:
            other = values[value["same"]]
            value |= {"rows": other["rows"] | value["rows"], "flags": other["flags"]}
    return {name: Table(name, value, notes) for name, value in values.items()}


class Table:
    """The shape that a table of `traces.toml` describes."""

    def __init__(self, name: str, table: dict[str, Any], notes: dict[str, list[str]]) -> None:
        self.name, self.table, self.rows, self.notes = name, table, table["rows"], notes
        self.ABOUT, self.PROMPT, self.ALSO = table["about"], table["prompt"], table.get("also", "")
        self.events, self.signs = table.get("events", False), table["signs"]
        self.trace = table.get("trace", self.events)
        self.lists, self.system, self.tools = (
            table.get(key, []) for key in ("lists", "system", "tools")
        )
        self.sign_keys = {sign[1:] for sign in self.signs if sign[0] == "."}
        self.read_keys = {p.partition("/")[0] for p in (*self.lists, *self.system, *self.tools)}
        self.TOP = openai.TOP - {"messages"} | self.read_keys | {*table.get("keys", ())}

    def fit(self, record: Any) -> int:
        """Returns whether a record has a sign of this shape, as `Shape.fit`."""
        if self.events:
            first = record[:_ITEMS] if isinstance(record, list) else ()
            keys = [item.keys() for item in first if isinstance(item, dict)]
            return 3 * any(k >= {*sign} for k in keys for sign in self.signs)
        lists = [record[k] for k in self.lists if k in record] if isinstance(record, dict) else []
        if not lists:  # of most shapes; this is asked of each record
            return 0
        items = [i for some in lists if isinstance(some, list) for i in some if isinstance(i, dict)]
        contents = [i["content"] for i in items if isinstance(i.get("content"), list)]
        items += [part for some in contents for part in some if isinstance(part, dict)]
        if any(item.get("type") in self.signs for item in items):
            return 3
        return 3 * any(not self.sign_keys.isdisjoint(item) for item in items if self.sign_keys)

    def read(self, record: Any) -> Chat:
        """Returns a record as a chat. Never raises."""
        return _Items(self, record).chat()

    def row(self, item: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Returns (kind, row) of an item; None where no row is of its kind."""
        kinds = [item[k] for k in self.table.get("kinds", ()) if isinstance(item.get(k), str)]
        keys = (k for k in self.rows if item.get(k) not in (None, False))
        kind = kinds[0] if kinds else next(keys, "")
        return kind, self.rows.get(kind)

    def flags(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the flags that an item has."""
        flags = [(flag, item.get(flag["key"])) for flag in self.table.get("flags", ())]
        return [f for f, value in flags if (value in f["values"] if "values" in f else value)]


class _Items:
    """Reads the items of one record into messages."""

    def __init__(self, table: Table, record: Any) -> None:
        self.table, self.record, self.reader = table, record, Reader()
        self.messages: list[Message] = []
        self.items: list[str] = []  # the pointer of the item of the record in which each began
        self.notes: dict[tuple[str, str], tuple[str, int]] = {}  # (place, count) by code and kind
        self.questions: dict[str, int] = {}  # how many messages there were, by the event before
        self.leaves = False  # whether items are left out for a flag
        self.added = 0  # texts, thoughts and calls
        self.current = ""  # the pointer of the item of the record that is read

    def chat(self) -> Chat:
        table, record, tools = self.table, self.record, None
        if table.events:
            talk = [e for e in record if isinstance(e, dict) and "message" in e]
            effects = [{flag.get("does") for flag in table.flags(event)} for event in talk]
            self.leaves = any(_LEAVE not in effect for effect in effects)
            for i, event in enumerate(record):
                self.take_event(event, f"/{i}")
            self.find_circle(record)
            record = {}
        else:
            for pointer, system in _first(record, table.system):
                self.take(system, f"/{pointer}", "system", fixed=True)
            for key in table.lists:
                value = record.get(key)
                for i, item in enumerate(value if isinstance(value, list) else [value]):
                    self.current = f"/{key}/{i}" if isinstance(value, list) else f"/{key}"
                    self.take(item, self.current, "user")
            for key in table.table.get("left", ()):
                for _ in record.get(key) or ():
                    self.note("MYP283", "", f"/{key}")
            for pointer, value in _first(record, table.tools):
                tools = self.reader.tools(_openai_tools(value), f"/{pointer}")
        messages = [*self.talk()]
        if table.trace and len(messages) > 1 and messages[-1].role == "user":
            self.note(_UNANSWERED, "", messages.pop().at)
        for (code, kind), (at, count) in self.notes.items():
            unit = f"{count} {'event' if table.events else 'item'}{'s' * (count > 1)}"
            message, hint = table.notes[code]
            quoted = json.dumps(kind) if kind else "without a type"
            message = message.format(n=unit, count=count, kind=quoted)
            self.reader.findings.append(Finding(code, message, at, help=hint))
        if not self.messages:
            self.reader.add("MYP104", "the record has no message", "")
        chat = self.reader.chat(
            table.name, record, messages, tools, top=table.TOP, used=table.read_keys
        )
        of_tools = {} if tools is None else {"tools": [tool.value for tool in tools]}
        return replace(chat, extras=chat.extras | of_tools)

    def talk(self) -> Iterator[Message]:
        """Yields the messages, questions in a row as one, without calls that a stop left open."""
        results = {m.answers.text for m in self.messages if m.answers}
        last = None
        for message in self.messages:
            if message.weight is not None:
                calls = tuple([c for c in message.calls if c.id and c.id.text in results])
                message = replace(message, calls=calls, beside={"weight": message.weight})
            if message.role == "assistant" and not message.text:
                if not (message.calls or message.thoughts or message.content or message.media):
                    continue
                message = replace(message, content=None) if message.calls else message
            if self.table.events and last and last.role == message.role == "user":
                content = (*(last.content or ()), *(message.content or ()))
                media = last.media + message.media
                last = replace(last, content=content, media=media, joint="\n\n")
                continue
            if last is not None:
                yield last
                yield from self.missing(last, message)
            last = message
        yield from [last, *self.missing(last, None)] if last is not None else []

    def missing(self, last: Message, following: Message | None) -> Iterator[Message]:
        """Yields the empty answer that formats need after a result, where a trace has none."""
        spoken = following is None or following.role == "user"
        if spoken and last.role == "tool" and self.table.trace:
            at = (following or last).at
            self.note(_MISSING, "", at)
            role, weight = "assistant", JsonValue(0, at)
            yield Message(role, role, at, (Text("", at),), weight=weight, beside={"weight": weight})

    def take_event(self, event: Any, at: str) -> None:
        """Takes a line of a trace; a question that another replaces goes, with all after it."""
        begin, self.current = len(self.messages), at
        if not isinstance(event, dict):
            return self.reader.add("MYP104", f"expected an event, got {kind_of(event)}", at)
        self.take(event, at, "user")
        parent = event.get(self.table.table.get("parent"))
        if isinstance(parent, str) and [m.role for m in self.messages[begin:]] == ["user"]:
            first = self.questions.setdefault(parent, begin)
            if first < begin:
                self.notes[_REWOUND, at] = at, begin - first
                del self.messages[first:begin], self.items[first:begin]
        return None

    def find_circle(self, record: list[Any]) -> None:
        """Adds a finding at the first event whose parents lead back to it."""
        ident, parent = (self.table.table.get(key) for key in ("id", "parent"))
        events = [(i, e) for i, e in enumerate(record) if isinstance(e, dict)]
        left = {str(e[ident]): (i, str(e.get(parent))) for i, e in events if e.get(ident)}
        for start in [*left]:
            path, here = dict[str, int](), start
            while here in left:
                path[here], here = left.pop(here)
            if here in path:
                at = f"/{min([*path.values()][[*path].index(here) :])}/{parent}"
                self.reader.add("MYP104", "the events before this one lead back to it", at)

    def note(self, code: str, kind: str, at: str) -> None:
        """Notes an item; of most codes, the first of a kind, and how many there are."""
        key = code, at if code in (_COMPACTED, _STOPPED) else kind
        place, count = self.notes.get(key, (at, 0))
        self.notes[key] = place, count + 1

    def take(self, value: Any, at: str, role: str, *, fixed: bool = False) -> None:
        """Takes a text, an item, or a list of items, of a role; `fixed` if items have no other."""
        if isinstance(value, str):
            if role == "user" and value.startswith(self.table.table.get("interrupts", "\0")):
                self.note(_STOPPED, "", at)
                answers = [i for i, m in enumerate(self.messages) if m.role == "assistant"]
                self.untrain(max(answers, default=0), at)
            if value or role != "user" or not self.table.events:
                self.add(role, at, 1, content=Text(value, at))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                self.take(item, f"{at}/{i}", role, fixed=fixed)
        elif isinstance(value, dict):
            self.item(value, at, role, *self.table.row(value), fixed=fixed)
        elif value is not None:
            self.reader.add("MYP104", f"expected a text or items, got {kind_of(value)}", at)

    def item(
        self, item: dict[str, Any], at: str, role: str, kind: str, row: dict[str, Any] | None,
        *, fixed: bool = False,
    ) -> None:  # fmt: skip
        """Takes what the row of an item says that it holds."""
        if row is None:
            return self.note(_UNKNOWN, kind, at)
        flags = self.table.flags(item)
        for flag in (*flags, row):
            left = flag.get("does") == _LEAVE
            if "code" in flag and (self.leaves or not left):
                self.note(flag["code"], "" if left else kind, at)
            if left and self.leaves:
                return None
        if "keys" in row:
            self.reader.unknown(item, row["keys"], at, "the message")
        begin, added = len(self.messages), self.added
        if not fixed:
            name = row.get("role", role)
            alias = item.get(name[1:], role) if name.startswith("@") else name
            role = self.table.table.get("roles", {}).get(str(alias), alias)
            if role not in ROLES:
                return self.reader.role(str(alias), f"{at}/{name[1:]}", dict.fromkeys(ROLES, ""))
        for pointer, thought in _first(item, row.get("thoughts", ())):
            place = f"{at}/{pointer}"
            if not isinstance(thought, str):
                self.take(thought, place, "assistant", fixed=True)
            elif thought:
                self.add("assistant", place, 0, thoughts=Text(thought, place))
        for pointer, value in _first(item, row.get("text", ())):
            known = not isinstance(value, dict) or self.table.row(value)[1] is not None
            if known or not row.get("silent"):
                self.take(value, f"{at}/{pointer}", role, fixed=fixed)
        for inner in ("call", "result"):
            pointer = row.get(f"{inner}s", "")
            values = _value(item, pointer) or []
            for i, value in enumerate(values if isinstance(values, list) else [values]):
                if isinstance(value, dict):
                    self.item(value, f"{at}/{pointer}/{i}", role, inner, self.table.rows[inner])
                else:
                    self.reader.add("MYP104", f"a {inner} must be an object", f"{at}/{pointer}")
        if "call" in row:
            self.call(item, at, row["call"], row.get("wrap", ""))
        if "result" in row:
            self.result(item, at, row["result"])
        if "media" in row:
            self.add(role, at, 1, media=JsonValue(item, at))
        wrote = self.added > added and any(flag.get("does") == _UNTRAINED for flag in flags)
        if row.get("does") or wrote:
            self.untrain(min(begin, len(self.messages) - 1), at)
        return None

    def untrain(self, first: int, at: str) -> None:
        """Gives the answers from a message on the weight 0."""
        self.messages[first:] = [
            replace(m, weight=JsonValue(0, at)) if m.role == "assistant" else m
            for m in self.messages[first:]
        ]

    def add(self, role: str, at: str, stage: int, **more: Any) -> None:
        """Adds a thought (stage 0), text (1) or call (2) to the last message, or begins another.

        The last has the role, and nothing of a later stage. Texts of two items are two messages.
        """
        self.added += 1
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != role:
            joins = False
        elif role != "assistant":
            joins = self.items[-1] == self.current
        else:
            reached = 2 if last.calls else int(bool(last.content or last.media))
            joins = reached < stage + (stage != 1 or self.items[-1] == self.current)
        if not joins:
            self.messages.append(Message(role, role, at))
            self.items.append(self.current)
        last = self.messages[-1]
        fields: dict[str, Any] = {
            key: (*(getattr(last, key) or ()), value) for key, value in more.items()
        }
        self.messages[-1] = replace(last, **fields)

    def call(self, item: dict[str, Any], at: str, places: dict[str, str], wrap: str) -> None:
        name = places["name"][1:] if places["name"][0] == "=" else _value(item, places["name"])
        if not isinstance(name, str) or not name:
            return self.reader.add("MYP104", "the call has no name", at)
        value = _value(item, places["arguments"])
        arguments = JsonValue({wrap: value} if wrap else value, f"{at}/{places['arguments']}")
        named, call_id = Text(name, f"{at}/{places['name']}"), _text(item, places["id"], at)
        call = Call(named, None if value is None else arguments, at, call_id)
        return self.add("assistant", at, 2, calls=call)

    def result(self, item: dict[str, Any], at: str, places: dict[str, str]) -> None:
        place, value = f"{at}/{places['text']}", _value(item, places["text"])
        ident, name = (_text(item, places.get(key, ""), at) for key in ("id", "name"))
        if ident is None and "reference" in places:
            last = self.messages[-1] if self.messages else Message("", "", at)
            if value is None and _value(item, places["reference"]):
                return self.note("MYP283", "", at)
            if not last.calls and last.role != "tool":
                return self.take(value, place, "user", fixed=True)
            ident = last.calls[0].id if len(last.calls) == 1 else None
        self.messages.append(Message("tool", "tool", at, answers=ident, name=name))
        self.items.append(self.current)
        if isinstance(value, list):
            self.take(value, place, "tool", fixed=True)
        elif isinstance(value, str) or value is None:
            self.add("tool", place, 1, content=Text(value or "", place))
        else:  # no fix of the text can be one of the value
            text = json.dumps(value, ensure_ascii=False)
            self.add("tool", place, 1, content=Text(text, place, JsonText(text, "")))
        return None


def _openai_tools(tools: Any) -> Any:
    """Returns declared tools in OpenAI's form, without those that a server runs itself."""
    if not isinstance(tools, list):
        return tools
    nested = [_value(tool, key) for tool in tools for key in _NESTED]
    tools = [*tools, *(tool for some in nested if isinstance(some, list) for tool in some)]
    functions = []
    for tool in tools:
        function = _value(tool, "function") or tool
        schemas = [_value(function, key) for key in _SCHEMAS]
        schema = next((schema for schema in schemas if schema is not None), None)
        is_plain = schema is not None or _value(function, "type") in (None, "function")
        if is_plain and isinstance(_value(function, "name"), str):
            plain = {k: function[k] for k in ("name", "description") if k in function}
            plain |= {} if schema is None else {"parameters": _small_types(schema)}
            functions.append({"type": "function", "function": plain})
    return functions


_NESTED = ("functionDeclarations", "function_declarations")
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")


def _small_types(schema: Any) -> Any:
    """Returns a JSON Schema whose types are in small letters, which Gemini's are not."""
    if isinstance(schema, list):
        return [_small_types(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    small = {"type": schema["type"].lower()} if isinstance(schema.get("type"), str) else {}
    return {key: _small_types(value) for key, value in schema.items()} | small


def _first(item: Any, pointers: Any) -> Iterator[tuple[str, Any]]:
    """Yields the first of some values that is there, with its pointer."""
    values = [(pointer, _value(item, pointer)) for pointer in pointers]
    yield from [(pointer, value) for pointer, value in values if value not in (None, [])][:1]


def _text(item: Any, pointer: str, at: str) -> Text | None:
    """Returns the string that a pointer leads to; None where it is empty, or none."""
    value = _value(item, pointer)
    return Text(value, f"{at}/{pointer}") if isinstance(value, str) and value else None


def _value(item: Any, pointer: str) -> Any:
    """Returns what a pointer without its first "/" leads to; None where nothing is."""
    for key in pointer.split("/") if pointer else ():
        if isinstance(item, list):
            item = {str(i): value for i, value in enumerate(item)}
        item = item.get(key) if isinstance(item, dict) else None
    return item if pointer else None
