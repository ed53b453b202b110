"""Defines what happens in a turn, what a turn asks for, and the replies.

All are plain values, so a turn can be recorded and replayed.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

Reason = Literal["stop", "max_steps", "max_tokens", "deadline", "cancelled", "illegal", "error"]


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn begins; `prompt` is the number of ids before it that the model sees."""

    prompt: int


@dataclass(frozen=True, slots=True)
class TurnsDropped:
    """The context is full: the model no longer sees the oldest `turns` turns, of `ids` ids."""

    turns: int
    ids: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something was changed or put in; the message says what."""

    message: str


@dataclass(frozen=True, slots=True)
class ThinkDelta:
    """A piece of the model's thinking: for the history, not for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer; pieces never cut a character."""

    text: str


@dataclass(frozen=True, slots=True)
class Cite:
    """A whole reference, at its place in the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins; `name` is known here only if the tag contains it.

    `call` is its number, unique in the conversation, in every event of the call. In a dialect in
    which a block holds several calls, each gets a number, and this is the first one's.
    """

    name: str
    call: int = 0


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of a call's body, as it is written."""

    text: str
    call: int = 0


@dataclass(frozen=True, slots=True)
class CallParsed:
    """A tool call is complete; `id` is what the model has written as its id, or "".

    Its result comes next, or it is dropped. Only a format that lets a turn end with its calls may
    leave it without a result, when the turn is stopped.
    """

    name: str
    arguments: dict[str, Any]
    call: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class CallDropped:
    """A call is taken off before it was complete or had a result; `name` is "" if unknown."""

    name: str = ""
    call: int = 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result that the model is given.

    `value` is a JSON value; `error` is the type of the error if the result is one, or "". `call`
    and `id` are those of the call.
    """

    name: str
    value: Any
    truncated: bool
    error: str
    call: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The model has written a call, or its answer; steps count from 1."""

    step: int


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The turn ended legally after `sampled` drawn ids; `message` explains an unusual end."""

    reason: Reason
    sampled: int
    message: str = ""


Event = (
    TurnStart
    | TurnsDropped
    | Notice
    | ThinkDelta
    | TextDelta
    | Cite
    | CallStart
    | ArgumentsDelta
    | CallParsed
    | CallDropped
    | ToolResult
    | StepEnd
    | TurnEnd
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Asks for the next id; `left` ids may still be drawn. The reply is an int, or Stop."""

    left: int


@dataclass(frozen=True, slots=True)
class Execute:
    """Asks for the result of a tool, of at most `most` ids. The reply is Returned, or Stop."""

    name: str
    arguments: dict[str, Any]
    most: int


Ask = Sample | Execute


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a tool, a JSON value; `truncated` if it was shortened to fit."""

    value: Any
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends the turn now."""

    reason: Reason
    message: str = ""


Reply = int | Returned | Stop | None
# What a turn yields, and is sent: None after an event, and at the beginning.
Steps = Generator[Event | Ask, Reply, None]
