"""Turns chats, as `mypt_records` reads them from records of any shape, into steps.

Such records are read only: a shape is no dialect, because there is no text to write it as.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mypt_convert.bridges import bridge_of
from mypt_convert.bridges.steps import (
    BOUNDARY,
    Conversation,
    Step,
    call_of,
    first_carries,
    result_value,
)
from mypt_records.chat import MEDIA, SPOKEN_KEYS, Call, Chat, Message
from mypt_records.reading import below
from mypt_records.shapes.text import parsed
from mypt_records.written import read_out
from mypt_spec.adapters.waiting import Waiting
from mypt_spec.bodies.strict_json import Fault, faults, kind_of, loads, value_at
from mypt_spec.dialect import dialect, dialects
from mypt_spec.findings import Finding
from mypt_spec.record_schema import PARTS, REST, WEIGHT

# What the model sees besides the messages; and what a message says besides its content. Neither is
# metadata: a target that has no place for it loses it.
_READ_KEYS = {"language", "tools", "functions", "response_format", "rejected", "label"}
_READ_KEYS |= {*MEDIA, "rejected_tools"}
_KEYS = {"think": "reasoning", "text": "content"}  # of a rejected answer, by the kinds of steps
_ID, _NAME, _ANY = "id", "name", ("any", "")  # of calls without a result
_UNKNOWN = "MYP103"  # an unknown key: it becomes metadata


def unknown(chat: Chat, takes: frozenset[str]) -> list[Finding]:
    """Returns a finding for each key of a readable record that becomes metadata.

    Such a key is no part of the conversation. `takes` are the top-level keys that the target has a
    place for.
    """
    keys = [(below("", key), key) for key in chat.extras if key not in _READ_KEYS | takes]
    for message in (*chat.messages, *chat.rejected):
        keys += [(value.at, k) for k, value in message.beside.items() if _is_note(message, k)]
    return [
        Finding(_UNKNOWN, f'unknown key "{key}"', at, on_key=True)
        for at, key in keys
        if not key.startswith("_")
    ]


def _is_note(message: Message, key: str) -> bool:
    value = message.beside[key]
    return (
        # Other pointers are of keys further inside, which no format has a place for.
        value.at == below(message.at, key)
        and key not in SPOKEN_KEYS
        # How much an answer is trained: no metadata says so.
        and not (message.role == "assistant" and value is message.weight)
    )


def read(
    record: Any,
    chat: Chat,
    takes: frozenset[str] = frozenset(),
    kinds: frozenset[str] = frozenset(),
) -> tuple[Conversation | None, list[Finding], Chat]:
    """Returns (steps, findings, chat) of a record, which reads as `chat`, with `kinds` read out.

    There are no steps where the findings say why there are none. Keys that are not known here are
    kept, for the target to take or lose. `takes` are the top-level keys that the target knows,
    `kinds` the steps. Never raises.
    """
    before, chat = chat, read_out(chat, kinds)
    reader = _Reader()
    for old, new in zip(before.messages, chat.messages, strict=False):
        if old is not new and any(text.weight is not None for text in old.content or ()):
            why = "its parts have weights, and it holds calls or thoughts as text"
            reader.add("MYP104", f"{why}: write these under keys of their own", old.at)
    reader.findings += [f for f in chat.findings if f.severity == "error" and f.code != _UNKNOWN]
    steps = [step for message in chat.messages for step in reader.message(message)]
    extras = _extras(chat, takes) | reader.judgement(chat, len(before.messages) - chat.shared)
    if chat.serialised and not reader.findings:
        inside = reader.serialised(chat.serialised, record["text"])
        steps, extras = list(inside.steps), inside.extras | extras
    if chat.shape == "plain" and not reader.findings:
        names = ", ".join(dialects())
        reader.add("MYP104", f"the text has no tags; known formats are {names}", "/text")
    if reader.findings:
        return None, reader.findings, chat
    return Conversation(tuple(steps), extras), [], chat


def _extras(chat: Chat, takes: frozenset[str]) -> dict[str, Any]:
    """Returns the top-level keys that say something; tools that are JSON text as what it says.

    `functions` is the older name of `tools`, for targets that do not know it.
    """
    extras = {key: value for key, value in chat.extras.items() if not _void(key, value)}
    for key in ("tools", "functions"):
        if isinstance(extras.get(key), str):
            del extras[key]
            extras |= {} if chat.tools is None else {key: [tool.value for tool in chat.tools]}
    if isinstance(extras.get("functions"), list) and takes & {"tools", "functions"} == {"tools"}:
        older = [{"type": "function", "function": tool} for tool in extras["functions"]]
        extras = {k: v for k, v in extras.items() if k != "functions"} | {"tools": older}
    return extras


def _void(key: str, value: Any) -> bool:
    """Returns whether a key says nothing; metadata that is null is metadata."""
    none = value is None or (key in MEDIA and value in ([], ""))
    return none and not key.startswith("_")


class _Reader:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.open: Waiting[Call] = Waiting()  # by their ids; without one, by their names
        self.before = ""  # the role of the message before

    def add(self, code: str, message: str, at: str) -> None:
        self.findings.append(Finding(code, message, at))

    def message(self, message: Message) -> list[Step]:
        weight = message.weight if message.role == "assistant" else None
        others = {key: item.value for key, item in message.beside.items() if item is not weight}
        beside = {key: value for key, value in others.items() if not _void(key, value)}
        spans, end = [], 0
        for text in message.content or ():
            if text.weight is not None:
                spans.append([end, end + len(text.text), text.weight])
            end += len(text.text) + len(message.joint)
        if spans and message.role == "assistant":
            rest = {} if weight is None else {REST: weight.value * 1}
            beside[WEIGHT] = {PARTS: spans} | rest
        elif any(share for *_, share in spans):
            self.add(
                "MYP104",
                f"a part of role {message.role} has a weight; only answers are trained",
                message.at,
            )
        elif weight is not None:
            beside[WEIGHT] = int(weight.value) if isinstance(weight.value, bool) else weight.value
        if message.role == self.before == "assistant":
            beside[BOUNDARY] = True
        self.before = message.role
        for part in message.media:
            kind = part.value.get("type") if isinstance(part.value, dict) else kind_of(part.value)
            problem = f'expected a part {{"type": "text", "text": "..."}}, got one of type {kind!r}'
            self.add("MYP104", problem, part.at)
        return first_carries(self.steps(message), beside)

    def steps(self, message: Message) -> list[Step]:
        out = [Step("think", thought.text, at=thought.at) for thought in message.thoughts]
        calls = [step for call in message.calls for step in self.call(call)]
        if message.content is None:
            return [*out, *calls]
        if message.role == "tool":
            return self.result(message)
        # An empty content beside calls is how many write null.
        if message.text or not calls:
            kind = "text" if message.role == "assistant" else message.role
            out.append(Step(kind, message.text, at=_place(message)))
        return [*out, *calls]

    def call(self, call: Call) -> list[Step]:
        ident = call.id.text if call.id is not None else ""
        if call.id is not None and self.open.first((_ID, ident)):
            self.add("MYP104", f'two calls without a result have the id "{ident}"', call.id.at)
        keys = [(_NAME, call.name.text), _ANY] + [(_ID, ident)] * (call.id is not None)
        self.open.add(call, *keys)
        value = call.arguments.value if call.arguments is not None else None
        at = call.arguments.at if call.arguments is not None else call.at
        try:
            value = loads(value or "{}") if isinstance(value, str) else value
            wrong = next(iter(faults(value)), None)
        except Fault as fault:
            value, wrong = None, fault
        if wrong is not None or not isinstance(value, dict):
            code, why = ("MYP304", wrong.message) if wrong else ("MYP332", kind_of(value))
            self.add(code, f"the arguments are not a JSON object: {why}", at)
            return []
        return [Step("call", value, call.name.text, ident, at)]

    def result(self, message: Message) -> list[Step]:
        """Returns the result of an open call, as a step."""
        call = self.take(message)
        if call is None:
            called = message.answers
            call_id = "null" if called is None else f'"{called.text}"'
            at = f"{message.at}/tool_call_id" if called is None else called.at
            self.add("MYP310", f"no open call has the id {call_id}", at)
            return []
        name = call.name.text
        if message.name is not None and message.name.text != name:
            fault = f'the result is of "{message.name.text}", its call is of "{name}"'
            self.add("MYP312", fault, message.name.at)
        ident = call.id.text if call.id is not None else ""
        return [Step("result", result_value(message.text), name, ident, _place(message))]

    def take(self, message: Message) -> Call | None:
        """Returns the call that a result answers, which waits no longer.

        It is found by the result's id; without one, by its name, or it is the first one.
        """
        if message.answers is not None:
            return self.open.take((_ID, message.answers.text))
        by_name = self.open.take((_NAME, message.name.text)) if message.name else None
        return by_name or self.open.take(_ANY)

    def serialised(self, name: str, text: str) -> Conversation:
        """Returns what a text with the tags of a dialect says."""
        source = dialect(name)
        episode = parsed(name, text)[0]
        try:
            assert episode is not None, "a text that cannot be read has findings"
            canonical = source.write(episode)
        except ValueError as error:
            self.add("MYP903", str(error), "/text")
            return Conversation(())
        inner = bridge_of(name).steps(canonical, source.table)
        return Conversation(tuple([replace(s, at="/text") for s in inner.steps]), inner.extras)

    def judgement(self, chat: Chat, last: int) -> dict[str, Any]:
        """Returns what ranks or labels the answer, the `last` messages, as top-level keys."""
        out = {} if chat.label is None else {"label": chat.label.value}
        for message in chat.rejected[:1]:
            one = message.role == "assistant" and not (message.thoughts[1:] or message.media)
            if not one or chat.rejected[1:] or last != 1:
                problem = "a chosen and a rejected answer must each be one message"
                self.add("MYP104", problem, message.at)
                continue
            self.open = Waiting()  # calls of the chosen answer
            steps = self.steps(message)
            calls = [call_of(step) for step in steps if step.kind == "call"]
            out["rejected"] = {"role": "assistant"}
            out["rejected"] |= {_KEYS[s.kind]: s.value for s in steps if s.kind in _KEYS}
            out["rejected"] |= {"tool_calls": calls} if calls else {}
            for key, item in message.beside.items():
                if _is_note(message, key):
                    out["rejected"][key] = item.value
                elif item.value not in (None, 1):
                    self.add("MYP104", f'a rejected answer has no "{key}"', item.at)
        return out


def _place(message: Message) -> str:
    """Returns the pointer of the text of a message; of parts, that of their list."""
    first = next(iter(message.content or ()), None)
    if first is None:
        return f"{message.at}/content"
    parts = first.at.removesuffix("/0/text")
    return parts if parts.startswith(message.at) and len(message.content or ()) > 1 else first.at


def placed(
    findings: Iterable[Finding], record: Any, chat: Chat, kinds: frozenset[str]
) -> list[Finding]:
    """Returns findings at values of the record: a span in joined texts is one in its own text.

    The record reads as `chat`. What it holds inside of a text, as JSON or between tags, has no
    place but the text.
    """
    originals = set(map(id, chat.messages))
    changed = {m.at for m in read_out(chat, kinds).messages if id(m) not in originals}
    joined = {_place(m): m for m in chat.messages if len(m.content or ()) > 1}

    def inside(finding: Finding) -> bool:
        return bool(chat.serialised) or any(finding.pointer.startswith(f"{at}/") for at in changed)

    return [_placed(finding, record, joined, serialised=inside(finding)) for finding in findings]


def _placed(
    finding: Finding, record: Any, joined: dict[str, Message], *, serialised: bool
) -> Finding:
    message = joined.get(finding.pointer)
    if message is not None and finding.span is not None:
        start, end = finding.span
        for text in message.content or ():
            if start <= len(text.text):
                span = (start, min(end, len(text.text)))
                return replace(finding, pointer=text.at, span=span)
            before = len(text.text) + len(message.joint)
            start, end = max(0, start - before), max(0, end - before)
    pointer = finding.pointer
    while pointer and value_at(record, pointer) is None:
        pointer = pointer.rpartition("/")[0]
    inside = isinstance(value_at(record, pointer), str) and not serialised
    is_same = pointer == finding.pointer and inside
    return replace(finding, pointer=pointer, span=finding.span if is_same else None)
