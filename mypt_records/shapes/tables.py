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
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from mypt_records.chat import ROLES, Call, Chat, JsonValue, Message, Text, Tool
from mypt_records.reading import Reader
from mypt_records.shapes import openai
from mypt_spec.bodies.strict_json import kind_of
from mypt_spec.findings import Finding

_UNKNOWN, _COMPACTED, _STOPPED, _REWOUND = "MYP280", "MYP281", "MYP282", "MYP285"
_LEAVE, _UNTRAINED = "leave", "untrained"
_JOINED = "questions in a row"  # in the place of the item of a draft
_ITEMS = 8  # that are searched for signs


@cache
def tables() -> dict[str, Table]:
    """Returns the tables by the names of their shapes."""
    text = files("mypt_records").joinpath("traces.toml").read_text(encoding="utf-8")
    values: dict[str, dict[str, Any]] = tomllib.loads(text)
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
        self.lists, self.system, self.tools = (
            table.get(key, []) for key in ("lists", "system", "tools")
        )
        self.read_keys = {p.partition("/")[0] for p in (*self.lists, *self.system, *self.tools)}
        self.TOP = openai.TOP - {"messages"} | self.read_keys | {*table.get("keys", ())}

    def fit(self, record: Any) -> int:
        """Returns whether a record has a sign of this shape, as `Shape.fit`."""
        if self.events:
            first = record[:_ITEMS] if isinstance(record, list) else ()
            keys = [item.keys() for item in first if isinstance(item, dict)]
            return 3 * any(k >= {*sign} for k in keys for sign in self.signs)
        lists = [record.get(key) for key in self.lists] if isinstance(record, dict) else []
        items = [i for a_list in lists if isinstance(a_list, list) for i in a_list]
        items = [item for item in items if isinstance(item, dict)]
        parts = [item["content"] for item in items if isinstance(item.get("content"), list)]
        items += [part for some in parts for part in some if isinstance(part, dict)]
        return 3 * any(s in item or s == item.get("type") for item in items for s in self.signs)

    def read(self, record: Any) -> Chat:
        """Returns a record as a chat. Never raises."""
        return _Items(self, record).chat()

    def row(self, item: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Returns (kind, row) of an item; None where no row is of its kind."""
        kinds = [item[k] for k in self.table.get("kinds", ()) if isinstance(item.get(k), str)]
        keys = (k for k in self.rows if item.get(k) not in (None, False))
        kind = kinds[0] if kinds else next(keys, "without a type")
        return kind, self.rows.get(kind)

    def flags(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the flags that an item has."""
        flags = [(flag, item.get(flag["key"])) for flag in self.table.get("flags", ())]
        return [flag for flag, value in flags if value and value in flag.get("values", (value,))]


@dataclass
class _Draft:
    """A message that items add to. `item` is the pointer of the item of the record it began in."""

    role: str
    at: str
    item: str
    content: list[Text] = field(default_factory=list)
    thoughts: list[Text] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    media: list[JsonValue] = field(default_factory=list)
    answers: Text | None = None
    name: Text | None = None
    weight: JsonValue | None = None

    def message(self) -> Message:
        content: tuple[Text, ...] | None = tuple(self.content)
        if self.role == "assistant" and not any(text.text for text in self.content):
            content = None if self.calls or self.thoughts or not content else content
        return Message(
            self.role, self.role, self.at, content, tuple(self.thoughts), tuple(self.calls),
            tuple(self.media), self.answers, self.name, self.weight,
            "\n\n" * (self.item == _JOINED),
            {} if self.weight is None else {"weight": self.weight},
        )  # fmt: skip


class _Items:
    """Reads the items of one record into drafts of messages."""

    def __init__(self, table: Table, record: Any) -> None:
        self.table, self.record, self.reader = table, record, Reader()
        self.drafts: list[_Draft] = []
        self.notes: dict[tuple[str, str], tuple[str, int]] = {}  # (place, count) by code and kind
        self.questions: dict[str, int] = {}  # how many drafts there were, by the event before
        self.leaves = False  # whether items are left out for a flag
        self.opened = 0  # how often a draft was opened
        self.current = ""  # the pointer of the item of the record that is read

    def chat(self) -> Chat:
        table, record, tools = self.table, self.record, None
        if table.events:
            talk = [e for e in record if isinstance(e, dict) and "message" in e]
            effects = [{flag.get("does") for flag in table.flags(event)} for event in talk]
            self.leaves = any(_LEAVE not in effect for effect in effects)
            for i, event in enumerate(record):
                self.take_event(event, f"/{i}")
            record = {}
        else:
            for pointer in [p for p in table.system if _value(record, p) is not None][:1]:
                self.take(_value(record, pointer), f"/{pointer}", "system", fixed=True)
            for key in table.lists:
                value = record.get(key)
                for i, item in enumerate(value if isinstance(value, list) else [value]):
                    self.current = f"/{key}/{i}" if isinstance(value, list) else f"/{key}"
                    self.take(item, self.current, "user")
            tools = self.declared()
        for (code, kind), (at, count) in self.notes.items():
            unit = f"{count} {'event' if table.events else 'item'}{'s' * (count > 1)}"
            message, hint = table.notes[code]
            message = message.format(n=unit, kind=json.dumps(kind))
            self.reader.findings.append(Finding(code, message, at, help=hint))
        if not self.drafts:
            self.reader.add("MYP104", "the record has no message", "")
        messages = [draft.message() for draft in self.talk()]
        chat = self.reader.chat(
            table.name, record, messages, tools, top=table.TOP, used=table.read_keys
        )
        of_tools = {} if tools is None else {"tools": [tool.value for tool in tools]}
        return replace(chat, extras=chat.extras | of_tools)

    def talk(self) -> Iterator[_Draft]:
        """Yields the drafts, questions in a row as one, without calls that a stop left open."""
        results = {draft.answers.text for draft in self.drafts if draft.answers}
        last = None
        for draft in self.drafts:
            if draft.weight is not None:
                draft.calls = [c for c in draft.calls if c.id and c.id.text in results]
                if not (draft.calls or draft.thoughts or draft.content):
                    continue
            if self.table.events and last and last.role == draft.role == "user":
                last.item, last.content = _JOINED, last.content + draft.content
                last.media += draft.media
                continue
            if last is not None:
                yield last
            last = draft
        yield from [last] if last is not None else []

    def take_event(self, event: Any, at: str) -> None:
        """Takes a line of a trace; a question that another replaces goes, with all after it."""
        if not isinstance(event, dict):
            self.reader.add("MYP104", f"an event must be an object, got {kind_of(event)}", at)
            return
        begin, self.current = len(self.drafts), at
        self.take(event, at, "user")
        parent = event.get(self.table.table.get("parent"))
        if isinstance(parent, str) and [d.role for d in self.drafts[begin:]] == ["user"]:
            first = self.questions.setdefault(parent, begin)
            if first < begin:
                self.notes[_REWOUND, at] = at, begin - first
                del self.drafts[first:begin]

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
                answers = [i for i, d in enumerate(self.drafts) if d.role == "assistant"]
                self.untrain(max(answers, default=0), at)
            self.open(role, at, 1).content.append(Text(value, at))
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
        begin, opened = len(self.drafts), self.opened
        if not fixed:
            name = row.get("role", role)
            alias = item.get(name[1:], role) if name.startswith("@") else name
            role = self.table.table.get("roles", {}).get(str(alias), alias)
            if role not in ROLES:
                return self.reader.role(str(alias), f"{at}/{name[1:]}", dict.fromkeys(ROLES, ""))
        for pointer, thought in _first(item, row.get("thoughts", ())):
            if isinstance(thought, str):
                if thought:
                    draft = self.open("assistant", f"{at}/{pointer}", 0)
                    draft.thoughts.append(Text(thought, f"{at}/{pointer}"))
            else:
                self.take(thought, f"{at}/{pointer}", "assistant", fixed=True)
        for pointer, value in _first(item, row.get("text", ())):
            known = not isinstance(value, dict) or self.table.row(value)[1] is not None
            if known or not row.get("silent"):
                self.take(value, f"{at}/{pointer}", role, fixed=fixed)
        for inner in ("call", "result"):
            pointer = row.get(f"{inner}s", "")
            for i, value in enumerate(self.listed(item, pointer, at)):
                place = f"{at}/{pointer}/{i}"
                if isinstance(value, dict):
                    self.item(value, place, role, inner, self.table.rows[inner])
                else:
                    self.reader.add("MYP104", f"a {inner} must be an object", place)
        if "call" in row:
            self.call(item, at, row["call"], row.get("wrap", ""))
        if "result" in row:
            self.result(item, at, row["result"])
        if "media" in row:
            self.open(role, at, 1).media.append(JsonValue(item, at))
        wrote = self.opened > opened and any(flag.get("does") == _UNTRAINED for flag in flags)
        if row.get("does") or wrote:
            self.untrain(min(begin, len(self.drafts) - 1), at)
        return None

    def listed(self, item: Any, pointer: str, at: str) -> list[Any]:
        """Returns the list that a pointer leads to, empty for null; a finding for anything else."""
        value = _value(item, pointer)
        if value is not None and not isinstance(value, list):
            self.reader.add("MYP104", f"expected an array, got {kind_of(value)}", f"{at}/{pointer}")
        return value if isinstance(value, list) else []

    def untrain(self, first: int, at: str) -> None:
        """Gives the answers from a draft on the weight 0."""
        for draft in self.drafts[first:]:
            draft.weight = JsonValue(0, at) if draft.role == "assistant" else None

    def open(self, role: str, at: str, stage: int) -> _Draft:
        """Returns the draft that a thought (stage 0), text (1) or call (2) goes into.

        It is the last one if that has the role and nothing of a later stage. Texts of two items are
        two messages.
        """
        self.opened += 1
        last = self.drafts[-1] if self.drafts else None
        if last is not None and last.role == role:
            reached = 2 if last.calls else int(bool(last.content or last.media))
            same = last.item == self.current
            if same if role != "assistant" else reached < stage + (same or stage != 1):
                return last
        self.drafts.append(_Draft(role, at, self.current))
        return self.drafts[-1]

    def call(self, item: dict[str, Any], at: str, places: dict[str, str], wrap: str) -> None:
        name = places["name"][1:] if places["name"][0] == "=" else _value(item, places["name"])
        if not isinstance(name, str) or not name:
            self.reader.add("MYP104", "the call has no name", at)
            return
        value = _value(item, places["arguments"])
        arguments = JsonValue({wrap: value} if wrap else value, f"{at}/{places['arguments']}")
        named, call_id = Text(name, f"{at}/{places['name']}"), _text(item, places["id"], at)
        call = Call(named, None if value is None else arguments, at, call_id)
        self.open("assistant", at, 2).calls.append(call)

    def result(self, item: dict[str, Any], at: str, places: dict[str, str]) -> None:
        draft = _Draft("tool", at, self.current, answers=_text(item, places["id"], at))
        draft.name = _text(item, places.get("name", ""), at)
        self.drafts.append(draft)
        place, value = f"{at}/{places['text']}", _value(item, places["text"])
        if isinstance(value, dict):
            draft.content.append(Text(json.dumps(value, ensure_ascii=False), place))
        else:
            self.take(value, place, "tool", fixed=True)
        if not draft.media and not draft.content:
            draft.content.append(Text("", place))

    def declared(self) -> tuple[Tool, ...] | None:
        """Returns the declared tools in OpenAI's form, without those that a server runs itself."""
        for pointer in self.table.tools:
            if _value(self.record, pointer) is None:
                continue
            tools = self.listed(self.record, pointer, "")
            places = [(tool, f"/{pointer}/{i}") for i, tool in enumerate(tools)]
            for tool, at in places[:]:
                for key in ("functionDeclarations", "function_declarations"):
                    inner = self.listed(tool, key, at)
                    places += [(t, f"{at}/{key}/{i}") for i, t in enumerate(inner)]
            return tuple([tool for value, at in places if (tool := _tool(value, at)) is not None])
        return None


_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")


def _tool(value: Any, at: str) -> Tool | None:
    """Returns a tool that has a name, and parameters unless its type is "function"."""
    if isinstance(inner := _value(value, "function"), dict):
        value, at = inner, f"{at}/function"
    name = _text(value, "name", at)
    key = next((key for key in _SCHEMAS if _value(value, key) is not None), "")
    if name is None or not (key or value.get("type", "function") == "function"):
        return None
    function = {k: value[k] for k in ("name", "description") if k in value}
    if not key:
        return Tool(name, None, {"type": "function", "function": function}, at)
    function["parameters"] = _small_types(value[key])
    parameters = JsonValue(function["parameters"], f"{at}/{key}")
    return Tool(name, parameters, {"type": "function", "function": function}, at)


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
        item = item.get(key) if isinstance(item, dict) else None
    return item if pointer else None
