"""What conversations of all formats have in common: steps, in order. Conversion goes from one
format to steps to another.

Kinds of steps: `system`, `developer`, `context` (for the user block behind it), `user`,
`assistant_context`, `think`, `text`, `cite`, `call`, `result`, `reflection`, `eos`. A bridge may
have further ones; what two formats do not share is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mypt_spec.bodies.strict_json import Fault, faults, loads
from mypt_spec.table import TokenTable

TURN = ("system", "developer", "context", "user")  # what ends the answer before it
# a kind of step: who the model is, where that is another thing than a system prompt
IDENTITY = "model_identity"
BOUNDARY = "message boundary"  # on the first step of a message that follows one of the same role
# metadata that keeps the ids of calls, in order, where a format has no place for them
IDS = "_tool_call_ids"
UNNAMED = "_unnamed_results"  # metadata: no result has the name of its tool beside it


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is said. `name` and `id` are those of a call, or of the call that a result
    answers.

    `value` is text, the arguments of a call, or the JSON value of a result. `at` is where it stands
    in the record; `meta` holds the other keys of its message, on the message's first step.
    """

    kind: str
    value: Any
    name: str = ""
    id: str = ""
    at: str = field(default="", compare=False)
    meta: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Equal for steps that say the same; `1`, `1.0` and `true` are three values."""
        return self.kind, json.dumps(self.value), self.name, self.id


@dataclass(frozen=True, slots=True)
class Conversation:
    """Steps, and the top-level keys of the record that are no steps."""

    steps: tuple[Step, ...]
    extras: dict[str, Any] = field(default_factory=dict)


class Bridge(Protocol):
    """A module that takes the canonical record of one dialect apart into steps, and puts one
    together; see bridges/<folder>.py.
    """

    KINDS: frozenset[str]  # the steps that it can hold somewhere
    EXTRAS: frozenset[str]  # top-level keys beside metadata and `language`
    HAS_IDS: bool  # whether calls may have ids
    PARALLEL: bool  # whether a call may stand between a call and its result

    def steps(self, record: dict[str, Any], table: TokenTable) -> Conversation:
        """A canonical record as steps."""
        ...

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        """A record with those steps that have a place in it, in order; without extras."""
        ...


def first_carries(steps: Sequence[Step], meta: dict[str, Any]) -> list[Step]:
    """The steps of one message, the first of them with the message's metadata."""
    if not steps or not meta:
        return list(steps)
    head = steps[0]
    return [replace(head, meta=head.meta | meta), *steps[1:]]


def kept(meta: dict[str, Any]) -> dict[str, Any]:
    """What of a message's other keys any dialect keeps: metadata."""
    return {key: value for key, value in meta.items() if key.startswith("_")}


def answers(steps: Sequence[Step]) -> set[int]:
    """Indices of the texts that end a turn: the last of their turn, with no call behind them."""
    out: set[int] = set()
    last = None
    for i, step in enumerate(steps):
        if step.kind in TURN:
            out |= {last} if last is not None else set()
            last = None
        elif step.kind == "text":
            last = i
        elif step.kind == "call":
            last = None
    return out if last is None else out | {last}


def result_text(value: Any) -> str:
    """The text of a result where results are text: the inverse of `result_value`."""
    if isinstance(value, str) and result_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def result_value(text: str) -> Any:
    """The JSON value that a text is the canonical JSON of; any other text is itself.

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


def messages_of(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Pointer, message and its metadata, for each message of a canonical record."""
    for i, message in enumerate(record["messages"]):
        yield f"/messages/{i}", message, kept(message)


def extras_of(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The top-level keys that are no steps."""
    return {key: value for key, value in record.items() if key not in ("messages", *keys)}
