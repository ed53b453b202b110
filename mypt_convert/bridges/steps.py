"""Holds conversations of all formats as steps, in order.

Conversion goes from a format to steps, and from steps to another format.

Kinds of steps: `system`, `developer`, `context` (for the user block after it), `user`,
`assistant_context`, `think`, `text`, `cite`, `call`, `result`, `reflection`, `eos`. A bridge may
have more; what two formats do not share is lost.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mypt_spec.adapters.waiting import Waiting
from mypt_spec.bodies.strict_json import Fault, faults, loads
from mypt_spec.record_schema import REST, WEIGHT
from mypt_spec.table import TokenTable

TURN = ("system", "developer", "context", "user")  # steps that end the answer before them
# A kind of step: who the model is, in formats where that is not the system prompt.
IDENTITY = "model_identity"
BOUNDARY = "message boundary"  # on the first step of a message that follows one of the same role
# Metadata that keeps the ids of calls, in order, where a format has no place for them.
IDS = "_tool_call_ids"
UNNAMED = "_unnamed_results"  # metadata: no result has a key for the name of its tool


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a conversation.

    `name` and `id` are those of a call, or of the call that a result answers. `value` is text, the
    arguments of a call, or the JSON value of a result. `at` is its place in the record; `meta`
    holds the other keys of its message, on the message's first step.
    """

    kind: str
    value: Any
    name: str = ""
    id: str = ""
    at: str = field(default="", compare=False)
    meta: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Returns a key that equal steps share; `1`, `1.0` and `true` are three values."""
        return self.kind, json.dumps(self.value), self.name, self.id


@dataclass(frozen=True, slots=True)
class Conversation:
    """Steps, and the top-level keys of the record that are no steps."""

    steps: tuple[Step, ...]
    extras: dict[str, Any] = field(default_factory=dict)


class Bridge:
    """Takes a dialect's canonical record apart into steps, and puts one together.

    bridges/<folder>.py has the only instance, `BRIDGE`. `KINDS` are the steps that a record can
    hold somewhere; `EXTRAS` are top-level keys other than metadata and `language`; `HAS_IDS` says
    whether calls may have ids, `PARALLEL` whether a call may come between a call and its result,
    and `NEEDS_IDS` whether no result can be without one. Of the top-level keys, `HEADS` are steps
    before the messages, and `LAST` are messages after them. `DIVIDED` says whether answers in
    succession stay messages of their own.
    """

    KINDS: frozenset[str]
    EXTRAS: frozenset[str] = frozenset()
    HAS_IDS: bool = False
    PARALLEL: bool = False
    NEEDS_IDS: bool = False
    HEADS: tuple[str, ...] = ()
    LAST: tuple[str, ...] = ()
    DIVIDED: bool = False

    def steps(self, record: dict[str, Any], table: TokenTable) -> Conversation:
        """Returns a canonical record as steps."""
        out = [Step(key, record[key], at=f"/{key}") for key in self.HEADS if key in record]
        keys = ("messages", *self.HEADS, *self.LAST)
        extras = {key: value for key, value in record.items() if key not in keys}
        messages = [(f"/messages/{i}", message) for i, message in enumerate(record["messages"])]
        messages += [(f"/{key}", record[key]) for key in self.LAST if key in record]
        results = [message for _, message in messages if message["role"] == "tool"]
        if results and not any("name" in message for message in results):
            extras[UNNAMED] = True
        waiting: Waiting[Step] = Waiting()
        before = ""
        for at, message in messages:
            meta, role = metadata_of(message), message["role"]
            if role == "tool":
                group = [_result_of(message, at, waiting)]
                meta |= {} if "name" in message or UNNAMED in extras else {"name": None}
            else:
                group = self.message_steps(message, at, table)
                meta |= {BOUNDARY: True} if self.DIVIDED and role == before == "assistant" else {}
            for step in group:
                if step.kind == "call":
                    waiting.add(step, None, step.id)
            before = role
            out += first_carries(group, meta)
        return Conversation(tuple(out), extras)

    def message_steps(self, message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
        """Returns the steps of a message that is at a place, and is no result of role "tool"."""
        raise NotImplementedError

    def stripped(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Returns steps without the white space that reading a record strips from their texts."""
        return steps

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        """Returns a record with the steps that have a place in it, in order; without extras."""
        raise NotImplementedError


def value_step(kind: str, message: dict[str, Any], key: str, at: str) -> Step:
    """Returns the step that is the value of a message's key."""
    return Step(kind, message[key], at=f"{at}/{key}")


def first_carries(steps: Sequence[Step], meta: dict[str, Any]) -> list[Step]:
    """Returns the steps of one message, the first with its metadata, and all with its weight."""
    if not steps or not meta:
        return list(steps)
    head, *others = steps
    if WEIGHT in meta:
        weight = meta[WEIGHT]
        rest = weight.get(REST, 1) if isinstance(weight, dict) else weight  # calls have no parts
        others = [
            replace(step, meta=step.meta | {WEIGHT: rest if step.kind == "call" else weight})
            for step in others
        ]
    return [replace(head, meta=head.meta | meta), *others]


def metadata_of(meta: dict[str, Any]) -> dict[str, Any]:
    """Returns the other keys of a message that dialects keep: metadata, and its weight."""
    return {k: v for k, v in meta.items() if k.startswith("_") or k == WEIGHT}


def answers(steps: Sequence[Step]) -> set[int]:
    """Returns the indices of the texts that end a turn, the last ones with no call after them."""
    out: set[int] = set()
    is_last = True  # whether neither a text nor a call follows in the turn
    for i in reversed(range(len(steps))):
        if steps[i].kind == "text" and is_last:
            out.add(i)
        if steps[i].kind in (*TURN, "text", "call"):
            is_last = steps[i].kind in TURN
    return out


def result_text(value: Any) -> str:
    """Returns the text of a result where results are text: the inverse of `result_value`."""
    if isinstance(value, str) and result_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def result_value(text: str) -> Any:
    """Returns the JSON value of which a text is the canonical JSON; any other text is itself.

    A string in quotes is a value only if it would be taken for one without them, so that nothing
    has two readings.
    """
    try:
        value = loads(text)
    except Fault:
        return text
    if any(faults(value)) or json.dumps(value, ensure_ascii=False) != text:
        return text
    return text if isinstance(value, str) and result_value(value) == value else value


def calls_of(calls: Sequence[dict[str, Any]], at: str) -> list[Step]:
    """Returns the steps of a message's `tool_calls`, as OpenAI has them, which are `at` a place."""
    return [
        Step(
            "call",
            call["function"]["arguments"],
            call["function"]["name"],
            call.get("id", ""),
            f"{at}/{i}",
        )
        for i, call in enumerate(calls)
    ]


def call_of(step: Step) -> dict[str, Any]:
    """Returns a call as an item of `tool_calls`: the inverse of `calls_of`."""
    ids = {"id": step.id} if step.id else {}
    function = {"name": step.name, "arguments": step.value}
    return ids | {"type": "function", "function": function}


def tool_message(step: Step, *, unnamed: bool) -> dict[str, Any]:
    """Returns a result as a message of role "tool", without the name of its tool if `unnamed`."""
    ids = {"tool_call_id": step.id} if step.id and "tool_call_id" not in step.meta else {}
    names = {} if unnamed or "name" in step.meta else {"name": step.name}
    content = {"content": result_text(step.value)}
    return {"role": "tool"} | content | ids | names | metadata_of(step.meta)


def _result_of(message: dict[str, Any], at: str, waiting: Waiting[Step]) -> Step:
    """Returns a result with the name and id of the call that it answers, which waits no longer."""
    called = message.get("tool_call_id")
    call = waiting.take(called) or Step("call", {})
    meta = {"tool_call_id": None} if called is None and call.id else {}
    value, name = result_value(message["content"]), message.get("name", call.name)
    return Step("result", value, name, call.id, f"{at}/content", meta)
