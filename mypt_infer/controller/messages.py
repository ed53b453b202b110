"""Appends the messages of a user's history to a conversation.

Input: messages. Output: ids in the history, and notices of what was changed. They are read as the
messages of a record of the format, with some freedom. A role may have the name that other formats
use (`tool`), a call may be the block that the model wrote, and a result may be the block that was
rendered. A result may have no name; then it has the name of the call before it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from mypt_infer.controller.events import Notice
from mypt_infer.controller.history import PROMPT, History
from mypt_infer.parsing import find_last_toolcall, read_toolresult
from mypt_spec import Dialect
from mypt_spec.adapters.template_options import KEY
from mypt_spec.episode import Event as Tag
from mypt_spec.episode import events_of
from mypt_spec.record_schema import JSON
from mypt_spec.table import END, TEXT
from mypt_spec.validator import Run

Message = dict[str, Any]


def append_messages(
    history: History,
    messages: Iterable[Message],
    *,
    system: str | None = None,
    tools: Sequence[Message] = (),
) -> list[Notice]:
    """Appends messages to a history, as ids; returns notices of what was changed.

    `system` is the system prompt of a new conversation that brings none, and `tools` are declared
    in it, if the format has a place for them. Raises ValueError, and changes nothing, if the format
    cannot hold the messages.
    """
    d = history.dialect
    conversation = record_messages(messages, d)
    record = _begun(d, conversation, system, tools) if not history.ids else {}
    episode, findings = d.read({d.adapter.SCHEMA.messages: conversation} | record)
    wrong = next((f for f in findings if f.severity == "error"), None)
    if wrong is not None:
        raise ValueError(f"{wrong.code} {wrong.message} at {wrong.pointer}")
    if episode is None:
        raise ValueError("the messages cannot be read")
    begun, last = (history.format.begins, END) if history.ids else (frozenset(), "")
    # What no message of a record says is there already.
    added = {f"/{d.adapter.SCHEMA.messages}", f"/{KEY}"} if history.ids else set()
    new = (message for message in episode.messages if message.at.pointer not in added)
    events, notices = _harmless(
        [e for e in events_of(new, d.table, last) if e.terminal not in begun], history
    )
    _check(events, history)
    history.reopen()
    history.write(events, PROMPT)
    return notices


def _begun(
    dialect: Dialect, conversation: list[Message], prompt: str | None, tools: Sequence[Message]
) -> Message:
    """Returns the keys of a new record; may put a system prompt into `conversation`."""
    top = dialect.adapter.SCHEMA.top
    system = {"role": "system", "content": prompt} if prompt is not None else None
    if conversation and conversation[0].get("role") == "system":
        system = conversation.pop(0)
    record: Message = {"tools": list(tools)} if tools and "tools" in top else {}
    if system is not None and "system" in top:
        return record | {"system": system.get("content")}
    if system is not None:
        conversation.insert(0, system)
    return record


def _harmless(events: list[Tag], history: History) -> tuple[list[Tag], list[Notice]]:
    """Returns events whose texts spell no tag, and notices of the texts that were changed."""
    out, notices = [], []
    for event in events:
        harmless = history.format.harmless(event.text) if event.terminal == TEXT else event.text
        if harmless != event.text:
            problem = "a text spells a tag of the format; it was written so that it is none"
            notices.append(Notice(f"{problem}: {event.text[:60]!r}"))
        out.append(event._replace(text=harmless))
    return out, notices


def _check(events: list[Tag], history: History) -> None:
    """Raises ValueError for events that may not follow on a history."""
    d = history.dialect
    run = Run(d.table, d.automaton, spaces=False, complete=False)
    if history.ids:
        run = run.start_at(
            history.open_state, (d.table.turn_opener or None) if history.turns else None
        )
    first = next(iter(run.check(events).findings), None)
    if first is not None:
        expected = " or ".join(first.expected)
        raise ValueError(f"{first.code} {first.message} at {first.pointer}; expected {expected}")


def record_messages(messages: Iterable[Message], dialect: Dialect) -> list[Message]:
    """Returns messages as those of a record. Raises ValueError if two names of one differ."""
    schema = dialect.adapter.SCHEMA
    out: list[Message] = []
    for original in messages:
        message = _clean(original)
        role = message.get("role")
        if isinstance(role, str):
            message["role"] = role = schema.aliases.get(role, role)
        fields = schema.roles.get(role, {}) if isinstance(role, str) else {}
        content = message.get("content")
        if "arguments" in fields and "arguments" not in message and isinstance(content, str):
            _call(message, dialect)
        elif "content" in fields and fields["content"].kind == JSON:
            before = out[-1] if out and "arguments" in out[-1] else {}
            _result(message, dialect, before.get("name"))
        out.append(message)
    return out


def _call(message: Message, dialect: Dialect) -> None:
    call = find_last_toolcall(message["content"], dialect.name)
    if call is not None:
        del message["content"]
        _name(message, call.name)
        message["arguments"] = call.arguments


def _result(message: Message, dialect: Dialect, tool: str | None) -> None:
    """Replaces the block of a result by its value, and names it after its call."""
    content = message.get("content")
    pair = read_toolresult(content, dialect.name) if isinstance(content, str) else None
    if pair is not None:
        message["content"] = pair[1]
        if pair[0]:
            _name(message, pair[0])
    if tool is not None and message.setdefault("name", tool) != tool:
        raise ValueError(f"the result is of {message['name']!r}, the call before it of {tool!r}")


def _name(message: Message, name: str) -> None:
    if message.setdefault("name", name) != name:
        raise ValueError(f"the message is named {message['name']!r}, the block in it {name!r}")


def _clean(message: Message) -> Message:
    """Returns a message without lone surrogates, which no token has."""
    texts = {key: value for key, value in message.items() if isinstance(value, str)}
    return message | {k: text.encode("utf-8", "replace").decode() for k, text in texts.items()}
