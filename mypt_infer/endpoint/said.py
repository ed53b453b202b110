"""Reads what a message of a server says, and notes what is wrong with it.

Input: the message of an answer of a chat. Output: `Answered`: the text, the thought and the calls
that can be read, and a `Repaired` for each thing that was put in or left out. Which of it a format
can hold is for `chats` to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mypt_infer.controller.events import Repaired
from mypt_infer.endpoint.connect import Message
from mypt_infer.endpoint.texts import brackets
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.bodies.strict_json import Fault, faults, kind_of, loads

# What a message has beside what it says: no part of the answer.
_FORM = frozenset({"role", "name", "annotations", "provider_specific_fields"})
# What no format has a place for, and the answer is whole without.
_BESIDE = frozenset({"citations"})

Json = dict[str, Any]


@dataclass
class Answered:
    """An answer as it is taken: a message without its calls, the calls, and what was wrong."""

    message: Json
    calls: list[Json] = field(default_factory=list)
    notes: list[Repaired] = field(default_factory=list)

    def note(self, message: str, *, damage: bool = True) -> None:
        """Adds what is told; with `damage`, the turn is not trained."""
        self.notes.append(Repaired((), message, damage=damage))


def answered(said: Message, *, inner: Callable[[str], str], thinks: bool) -> Answered:
    """Returns what can be read of a message.

    `inner` returns the name of a tool that the server calls otherwise; `thinks` says whether the
    model may think. Null and what is empty say nothing.
    """
    given = {k: v for k, v in said.message.items() if v not in (None, "", [], {})}
    out = Answered({"role": "assistant", "content": _text(given.pop("content", ""))})
    refusal = given.pop("refusal", "")
    if isinstance(refusal, str) and refusal:
        out.message["content"] += refusal
        out.note("the model refuses; what it says of that is taken as its answer")
    thoughts = [text for key in THOUGHTS if isinstance(text := given.pop(key, None), str)]
    if thoughts and thinks:
        out.message[THOUGHTS[0]] = thoughts[0]
    elif thoughts:
        out.note("the model may not think now: its thought was left out", damage=False)
    calls = given.pop("tool_calls", [])
    for call in calls if isinstance(calls, list) else ():
        _add(call, out, inner, cut=call is calls[-1] and not said.ended)
    for key in sorted({*given} - _FORM):
        told = f"the answer's {key!r} was left out: the format has no place for it"
        out.note(told, damage=key not in _BESIDE)
    return out


def _add(call: Any, out: Answered, inner: Callable[[str], str], *, cut: bool) -> None:
    """Adds a call to an answer; `cut`: a limit ended the answer after it."""
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        out.note(f"a call without a name was left out: {str(call)[:60]}")
        return
    name, text = inner(name), function.get("arguments")
    value, why = _arguments(text)
    if value is None and isinstance(text, str) and (more := brackets(text)) and not cut:
        value, why = _arguments(text + more)
        if value is not None:
            out.note(f"a call of {name!r} was cut: {more!r} was put in at its end")
    if text in ("", None) and not cut:
        value = {}
        out.note(f"the call of {name!r} had no arguments: '{{}}' was put in")
    if value is None:
        shown = f"{why}: {str(text)[:60]!r}"
        out.note(f"a call of {name!r} was left out: its arguments are {shown}")
        return
    ident = call.get("id")
    own = {"id": ident} if isinstance(ident, str) and ident else {}
    made = {"name": name, "arguments": value}
    out.calls.append(own | {"type": "function", "function": made})


def _text(content: Any) -> str:
    """Returns a content, or the texts of its parts."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _arguments(text: Any) -> tuple[Json | None, str]:
    """Returns the arguments that a text is, or None and what it is instead."""
    try:
        value = loads(text) if isinstance(text, str) else text
        wrong = next(iter(faults(value)), None)
    except Fault as fault:
        return None, f"no JSON ({fault.message})"
    if wrong is not None:
        return None, f"no JSON ({wrong.message})"
    return (value, "") if isinstance(value, dict) else (None, f"no object but {kind_of(value)}")
