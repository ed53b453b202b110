"""Checks a JSON record against the keys and roles of its dialect: family 1.

Input is a record and a `RecordSchema`, which an adapter states as data; output is the record to
read, or None, with findings. The linter's fast path is derived from the same statement, so both
mean the same.

Theory of operation. `check_record` looks at three things in turn. First, values that JSON does not
have, anywhere (`strict_json.faults`). Second, a first message that belongs to a top-level key
(`lifted`), such as a system prompt. Third, the keys of the record, then those of each message by
its role: missing, unknown, of the wrong type. A habit of other formats that has only one meaning is
read as that meaning, with a finding and a safe fix. All else that would not reach the model is an
error. An unknown key is left out and the rest is read; where a key is missing or its value has the
wrong type, nothing is read.

In this record, one role has another name and one key is misspelt. The role is read as what it
means; the key leaves the message without content, so nothing is read:

>>> import mypt_spec
>>> SCHEMA = mypt_spec.dialect("mypt").adapter.SCHEMA
>>> record = {"messages": [{"role": "human", "content": "Hi"},
...                        {"role": "assistant", "contnt": "Yo"}]}
>>> checked, findings, _ = check_record(record, SCHEMA)
>>> for f in findings:
...     print(f.code, f.pointer, f.help or f.fix.title)
MYP109 /messages/0/role write "user"
MYP102 /messages/1 add "content": "..."
MYP103 /messages/1/contnt did you mean "content"?
>>> checked is None
True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mypt_spec.bodies.strict_json import (
    Fault,
    a_kind_of,
    escape,
    faults,
    key_text,
    kind_of,
    loads,
    with_article,
)
from mypt_spec.compiled.toml import load
from mypt_spec.extra_keys import is_metadata, noted
from mypt_spec.findings import Finding, Fix, closest
from mypt_spec.memo import lazy_re

HELP: dict[str, str] = load(Path(__file__).with_name("bodies") / "messages.toml")["faults"]
STRING, NAME, OBJECT = "string", "name", "object"
JSON, LIST, LANGUAGE = "JSON value", "array", "language"
ITEMS, BOOLEAN, INTEGER = "array of items", "boolean", "integer"
NUMBER = "number"  # 0 or more
PYTHON = {
    STRING: str, NAME: str, OBJECT: dict, LIST: list, LANGUAGE: str, ITEMS: list, BOOLEAN: bool,
    INTEGER: int,
}  # fmt: skip
_SAMPLES = {
    STRING: '"..."', NAME: '"..."', OBJECT: "{...}", LIST: "[...]", ITEMS: "[...]",
    LANGUAGE: '"en"', BOOLEAN: "true", INTEGER: "1",
}  # fmt: skip
_PLAIN = (STRING, NAME, OBJECT, LIST)  # a value of the right type needs no further check
LANGUAGE_TAG = lazy_re(  # BCP 47
    r"[A-Za-z]{2,3}(-[A-Za-z]{3}){0,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?(-([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*|x(-[A-Za-z0-9]{1,8})+"
)
ROLE = "role"
WEIGHT = "weight"  # how much a message of the model is trained; 1 where it does not say
WEIGHTS_OF_OTHERS = frozenset({"loss_weight", "train", "training", "loss"})  # what they call it
WEIGHTS = "weights"  # metadata of a block that holds several messages: their weights, by pointer
PARTS, REST = "parts", "rest"  # of a weight that parts of the text have, and all else
WEIGHT_HELP = "0 is not trained, 1 as usual; or leave the key out"
_CALLS = "OpenAI's records hold calls so; convert the file: mypt-convert --from openai"
_ALPACA = (
    "this is Alpaca's record: what it asks is a user message here, its output the assistant's; "
    "convert the file: mypt-convert --from alpaca"
)
# Keys of other formats, and what to do about them.
_ELSEWHERE = {
    "tool_calls": _CALLS, "tool_call_id": _CALLS, "instruction": _ALPACA, "output": _ALPACA,
    "conversations": 'ShareGPT calls the messages so; its "from" is the role of each, its "value" '
                     'the content; convert the file: mypt-convert --from sharegpt',
}  # fmt: skip
_MOST = 1000  # of a weight; more is a mistake
_LEAST = 1e-6  # of a weight that is surely more than 0 as a float32
_WORD = 60  # characters of a key or role that can be a misspelling
# No Episode could hold what these name.
_UNREADABLE = {"MYP005", "MYP006", "MYP008", "MYP104", "MYP107"}


def is_free_weight(value: object) -> bool:
    """Returns whether a weight of a message can be any other such weight in its place.

    0 and 1 are no such weights: they say that a message is not trained, or as usual.
    """
    return type(value) in (int, float) and _LEAST <= value <= _MOST and value != 1  # type: ignore[operator]


def wrong_weight(value: Any) -> str:
    """Returns what a weight of a message must be and is not; empty where it is fine."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= _MOST:
        return ""
    return f"must be a number from 0 to {_MOST}, got {value if number else kind_of(value)}"


def wrong_parts(value: dict[str, Any], text: object) -> str:
    """Returns what a weight of parts of a text must be and is not; empty where it is fine."""
    parts, at = value.get(PARTS), 0
    if not isinstance(parts, list) or not {*value} <= {PARTS, REST}:
        return f'must be a number or {{"{PARTS}": [[begin, end, weight], ...], "{REST}": weight}}'
    if not isinstance(text, str):
        return "has parts, and the message has no text under its key"
    for part in parts:
        if not isinstance(part, list) or len(part) != 3 or {*map(type, part[:2])} != {int}:
            return f"must have parts [begin, end, weight], got {str(part)[:40]}"
        if not at <= part[0] <= part[1] <= len(text):
            return f"has the part {part[:2]}, expected parts in order within {len(text)} characters"
        at = part[1]
    wrong = map(wrong_weight, [*(part[2] for part in parts), value.get(REST, 1)])
    return next(filter(None, wrong), "")


class Field(NamedTuple):
    """One key of a record or message. `kind` is one of the constants above.

    `inline`: kinds of block that may be inside the string, as tags. `items`: the schema of the
    objects in an array of items; the schema's `tag` names the key that holds the kind of each.
    """

    kind: str
    required: bool = True
    inline: tuple[str, ...] = ()
    items: RecordSchema | None = None


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The shape of a dialect's record: top-level keys, and roles with their keys.

    `aliases` maps other names that people use for roles to the dialect's. `lifted` maps a role that
    the dialect does not have to the top-level key where the text of such a first message belongs.
    `folded` maps such a role to (role, key): the text of the message belongs under that key of the
    next message, if that has that role. `tag` is the key that names the role, `text` the one that
    holds the text of such messages, and `noun` such an object is called in messages. Without
    `metadata`, keys that begin with `_` are unknown ones. Messages of the roles in `weighs` may
    have a `WEIGHT`, which is added to their keys.
    """

    top: dict[str, Field]
    roles: dict[str, dict[str, Field]]
    aliases: dict[str, str] = field(default_factory=dict)
    lifted: dict[str, str] = field(default_factory=dict)
    folded: dict[str, tuple[str, str]] = field(default_factory=dict)
    messages: str = "messages"
    tag: str = ROLE
    text: str = "content"
    noun: str = "message"
    metadata: bool = True
    weighs: frozenset[str] = frozenset({"assistant"})

    def __post_init__(self) -> None:
        if self.tag == ROLE and self.noun == "message":
            added = {WEIGHT: Field(NUMBER, required=False)}
            roles = {
                role: {**fields, **(added if role in self.weighs and WEIGHT not in fields else {})}
                for role, fields in self.roles.items()
            }
            object.__setattr__(self, "roles", roles)


def check_record(
    record: Any, schema: RecordSchema
) -> tuple[dict[str, Any] | None, list[Finding], str]:
    """Returns (checked, findings, lifted) of any JSON value.

    `checked` is the record to read, with safe repairs made, or None where it cannot be read without
    loss. `lifted` is the top-level key whose text was the first message, "" where there was none.
    The record itself stays as it is. Implements "Records" of each grammar/*/SPEC.md.
    """
    checker = _Checker(schema, [])
    findings, key = checker.findings, schema.messages
    for f in faults(record):
        span = None if f.offset is None else (f.offset, f.offset + 1)
        hint, on_key = HELP.get(f.code, ""), f.code == "MYP004"
        checker.add(f.code, f.message, f.pointer, span=span, help=hint, on_key=on_key)
    if not isinstance(record, dict):
        message = f"the record is {a_kind_of(record)}, expected an object"
        checker.add("MYP101", message, "", help='one conversation a line: {"messages": [...]}')
        return None, findings, ""
    record = dict(record)
    checker.lift(record)
    readable = checker.keys(record, schema.top, "", "the record")
    messages = record.get(key)
    if isinstance(messages, list):
        if not messages:
            hint = "delete the line, or write what was said"
            checker.add("MYP107", "the conversation has no messages", f"/{key}", help=hint)
        first = int(bool(checker.lifted))
        checked = [checker.message(m, f"/{key}/{i}") for i, m in enumerate(messages, first)]
        readable = readable and all(m is not None for m in checked)
        record[key] = checked
    if not readable or any(f.code in _UNREADABLE for f in findings):
        return None, findings, ""
    return record, findings, checker.lifted


class _Checker:
    def __init__(self, schema: RecordSchema, findings: list[Finding]) -> None:
        self.schema, self.findings = schema, findings
        self.lifted = ""  # pointers still mean the record as given, with the first message

    def add(self, code: str, message: str, pointer: str, **fields: Any) -> None:
        self.findings.append(Finding(code, message, pointer, **fields))

    def lift(self, record: dict[str, Any]) -> None:
        """Moves a first message that belongs to a top-level key, such as role "system", there."""
        messages = record.get(self.schema.messages)
        if not isinstance(messages, list) or not messages or not isinstance(messages[0], dict):
            return
        first, tag = messages[0], self.schema.tag
        role, text = first.get(tag), first.get(self.schema.text)
        key = self.schema.lifted.get(role) if isinstance(role, str) else None
        extra = first.keys() - {tag, self.schema.text}
        if key is None or key in record or extra or not isinstance(text, str):
            return
        base = f"/{self.schema.messages}/0"
        add = {"op": "add", "path": f"/{key}", "value": text}
        patch = ({"op": "remove", "path": base}, add)
        fix = Fix(f'move it to the top-level "{key}"', True, patch=patch)
        problem = f'the {key} prompt stands among the messages; its place is the top-level "{key}"'
        self.add("MYP108", problem, f"{base}/{tag}", fix=fix)
        record[key] = text
        record[self.schema.messages] = messages[1:]
        self.lifted = key

    def keys(self, item: dict[str, Any], fields: dict[str, Field], at: str, noun: str) -> bool:
        """Checks the keys of an object. Returns whether it can be read."""
        readable = True
        for key, spec in fields.items():
            if key not in item:
                if spec.required:
                    hint = f'add "{key}": {_SAMPLES.get(spec.kind, "...")}'
                    self.add("MYP102", f'{noun} has no "{key}"', at, help=hint)
                    readable = False
                continue
            value, expected = item[key], PYTHON.get(spec.kind)
            if value.__class__ is expected and spec.kind in _PLAIN:
                continue
            readable = self.value(item, key, spec, f"{at}/{escape(key)}", noun) and readable
        for key in [k for k in item if k not in fields and not (at and k == self.schema.tag)]:
            name = key_text(key)
            if not (self.schema.metadata and name.startswith("_")):
                self.unknown(name, fields, item, at, noun)
                del item[key]
        return readable

    def value(self, item: dict[str, Any], key: str, spec: Field, at: str, noun: str) -> bool:
        """Checks the value of a key. Returns whether it can be read."""
        value = item[key]
        if spec.kind == NUMBER:
            parted = isinstance(value, dict)
            wrong = (
                wrong_parts(value, item.get(self.schema.text)) if parted else wrong_weight(value)
            )
            if wrong:
                self.add("MYP104", f'"{key}" of {noun} {wrong}', at, help=WEIGHT_HELP)
            return not wrong
        expected = PYTHON.get(spec.kind)
        fits = expected is None or isinstance(value, expected)
        if fits and not (expected is int and isinstance(value, bool)):
            if spec.items is not None:
                inner = _Checker(spec.items, self.findings)
                item[key] = [inner.message(v, f"{at}/{i}") for i, v in enumerate(value)]
                return all(v is not None for v in item[key])
            if spec.kind == LANGUAGE and not LANGUAGE_TAG.fullmatch(value):
                problem = f"{value!r} is not a language tag (BCP 47)"
                self.add("MYP111", problem, at, help='write a tag such as "en", "de" or "pt-BR"')
            return True
        if spec.kind == OBJECT and isinstance(value, str):
            return self.unquote(item, key, spec, at, noun)
        kind = with_article(STRING if expected is str else LIST if expected is list else spec.kind)
        hint = f"give it {kind}" if value is not None or spec.required else "leave the key out"
        problem = f'"{key}" of {noun} must be {kind}, got {kind_of(value)}'
        self.add("MYP104", problem, at, help=hint)
        return False

    def unquote(self, item: dict[str, Any], key: str, spec: Field, at: str, noun: str) -> bool:
        """Reads an object that was written as a JSON string, as in OpenAI's records."""
        try:
            value = loads(item[key])
            fine = isinstance(value, dict) and not list(faults(value))
        except Fault:
            fine = False
        if not fine:
            problem = f'"{key}" must be an object, got a string that is not a JSON object'
            self.add("MYP104", problem, at)
            return False
        patch = ({"op": "replace", "path": at, "value": value},)
        fix = Fix("write the object itself", True, patch=patch)
        self.add("MYP110", f'"{key}" is an object written as a string', at, fix=fix)
        item[key] = value
        return self.value(item, key, spec, at, noun)

    def unknown(
        self, key: str, fields: dict[str, Field], item: dict[str, Any], at: str, noun: str
    ) -> None:
        if not at and self.schema.metadata and item.get(key, key) is None:
            return
        close, place = _close_match(key, tuple(fields)), f"{at}/{escape(key)}"
        if not at and self.schema.metadata and is_metadata(item, key, close, telling=True):
            self.findings += noted(key, place)
            return
        keep = ', or begin its name with "_" to keep it as metadata' if self.schema.metadata else ""
        if key in WEIGHTS_OF_OTHERS and WEIGHT in fields:
            close = WEIGHT
        hint = f'did you mean "{close}"?' if close else _ELSEWHERE.get(key) or f"remove it{keep}"
        problem = f'{noun} has an unknown key "{key}"; the model would never see it'
        self.add("MYP103", problem, place, on_key=True, help=hint)

    def message(self, message: Any, at: str) -> dict[str, Any] | None:
        """Returns a message, or an item, with safe repairs made; None where it cannot be read."""
        noun, tag = self.schema.noun, self.schema.tag
        if not isinstance(message, dict):
            problem = f"{with_article(noun)} must be an object, got {kind_of(message)}"
            self.add("MYP104", problem, at)
            return None
        if tag not in message:
            hint = f"{tag}s are {', '.join(self.schema.roles)}"
            self.add("MYP102", f'the {noun} has no "{tag}"', at, help=hint)
            return None
        message = dict(message)
        role = self.role(message, at)
        if role is None:
            return None
        readable = self.keys(message, self.schema.roles[role], at, f"the {role} {noun}")
        return message if readable else None

    def role(self, message: dict[str, Any], at: str) -> str | None:
        """Returns a known role of a message, writing it there if it had another name; else None."""
        tag, noun = self.schema.tag, self.schema.noun
        role, at = message[tag], f"{at}/{tag}"
        if not isinstance(role, str):
            self.add("MYP104", f'"{tag}" must be a string, got {kind_of(role)}', at)
            return None
        if role in self.schema.roles:
            return role
        target = self.schema.aliases.get(role)
        if target is not None:
            patch = ({"op": "replace", "path": at, "value": target},)
            problem = f'{tag} "{role}" should be "{target}" in this format'
            self.add("MYP109", problem, at, fix=Fix(f'write "{target}"', True, patch=patch))
            message[tag] = target
            return target
        if role in self.schema.lifted:
            key = self.schema.lifted[role]
            hint = f'it is the top-level "{key}", once; merge this text into it'
            self.add("MYP108", f'"{role}" is not a role of a message here', at, help=hint)
            return None
        close = _close_match(role, tuple(self.schema.roles))
        names = ", ".join(self.schema.roles)
        hint = f'did you mean "{close}"?' if close else f"{tag}s are {names}"
        self.add("MYP105", f'unknown {tag} "{role}"; the {noun} would be lost', at, help=hint)
        return None


def _close_match(word: str, words: tuple[str, ...]) -> str:
    """Returns the known word that is most like another; empty where none is."""
    return closest(word, words, 0.7) if len(word) <= _WORD else ""


def metadata(item: dict[str, Any]) -> dict[str, Any]:
    """Returns what an object says beside its text: keys with `_`, and the weight of a message."""
    return {k: v for k, v in item.items() if k[:1] == "_" or (k == WEIGHT and ROLE in item)}
