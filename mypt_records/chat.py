"""Holds a conversation of any shape, each value with its JSON pointer in the user's own record.

Input are records, by the modules of the shapes; output goes to the checks that need no format, and
to conversion. Nothing here is repaired: arguments and tools are as they were given.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mypt_records.prefilter import all_prefilters
from mypt_spec.bodies.members import Member, Members
from mypt_spec.bodies.strict_json import unescape
from mypt_spec.findings import Finding

ROLES = ("system", "developer", "user", "assistant", "tool")
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # that the APIs of model servers take
SPOKEN_KEYS = {"refusal", "audio", "function_call"}  # of messages, which say something there
MEDIA = {"images": "image", "videos": "video", "audios": "audio"}  # key of a record -> its kind
MEDIA |= {f"rejected_{key}": kind for key, kind in MEDIA.items()}  # of ms-swift
_HARMLESS = {"MYP103", "MYP112"}  # an unknown key: the rest is read all the same


class JsonText(NamedTuple):
    """A JSON text that holds a value, and the pointer of the value in it.

    The text begins at the code point `start` of the string of the record.
    """

    text: str
    pointer: str
    start: int = 0

    def member(self, pointer: str) -> tuple[Member, bool] | None:
        """Returns the place of what a pointer into the value leads to, as `Members.find` does."""
        tokens = (self.pointer + pointer).split("/")[1:]
        return Members(self.text).find([unescape(token) for token in tokens])


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value as it was given, and its pointer.

    Where the value is inside of a JSON text, the pointer is that of the text, which is `outer`.
    """

    value: Any
    at: str
    outer: JsonText | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A string, and its pointer; see `JsonValue`. It begins at `start` of the record's string.

    `weight` is how much it is trained, if it is a part that says so.
    """

    text: str
    at: str
    outer: JsonText | None = field(default=None, compare=False)
    start: int = 0
    weight: float | None = field(default=None, compare=False)


class Call(NamedTuple):
    """A call of a tool; `arguments` are a JSON text or a JSON value, None without the key."""

    name: Text
    arguments: JsonValue | None
    at: str
    id: Text | None = None

    def as_openai(self) -> dict[str, Any]:
        """Returns the call in OpenAI's shape, with its arguments as they are."""
        arguments = {} if self.arguments is None else self.arguments.value
        name = {} if self.id is None else {"id": self.id.text}
        function = {"name": self.name.text, "arguments": arguments}
        return name | {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `role` is one of `ROLES`, `alias` is how the record spells it.

    `content` has the texts in order, several where the record has parts, with `joint` between them;
    None where the message has none, such as null beside calls. `media` are parts that are no text,
    with their pointers; each value is the part. `answers` is the id of the call that a result
    answers, `name` the name that the message has: of a result, that of its tool. `weight` is
    whether, or how much, it is trained. `beside` has all other keys, with their pointers.
    """

    role: str
    alias: str
    at: str
    content: tuple[Text, ...] | None = None
    thoughts: tuple[Text, ...] = ()
    calls: tuple[Call, ...] = ()
    media: tuple[JsonValue, ...] = ()
    answers: Text | None = None
    name: Text | None = None
    weight: JsonValue | None = None
    joint: str = ""
    beside: dict[str, JsonValue] = field(default_factory=dict, compare=False)

    @property
    def text(self) -> str:
        """Returns the texts as one; empty where there is none."""
        return self.joint.join([text.text for text in self.content or ()])

    def as_openai(self) -> dict[str, Any]:
        """Returns the message in OpenAI's shape, without its media."""
        out: dict[str, Any] = {"role": self.role}
        if self.thoughts:
            out["reasoning_content"] = "\n".join(text.text for text in self.thoughts)
        if self.content is not None:
            out["content"] = self.text
        if self.calls:
            out["tool_calls"] = [call.as_openai() for call in self.calls]
        if self.answers is not None:
            out["tool_call_id"] = self.answers.text
        if self.name is not None:
            out["name"] = self.name.text
        return out


class Tool(NamedTuple):
    """A declared tool. `parameters` is the JSON Schema of its arguments, as given.

    `value` is the whole declaration. Where the tools are JSON text, `at` and all pointers below are
    those of the text.
    """

    name: Text | None
    parameters: JsonValue | None
    value: Any
    at: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation, read from a record of the shape `shape`.

    With two answers, `messages` end with the chosen one and `rejected` are the messages of the
    other, which follow the first `shared` of `messages`; `label` says whether the answer is good.
    `tools` are the declared ones, None where nothing declares any. `extras` are the top-level keys
    that are no messages, with null left out. `serialised` is the dialect of a record that is a text
    with tags, and has no messages here. `findings` say what of the record could not be read, or is
    not known here. `facts` has the results of the functions `once_per_chat`, by name.
    """

    shape: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] | None = None
    rejected: tuple[Message, ...] = ()
    label: JsonValue | None = None
    extras: dict[str, Any] = field(default_factory=dict, compare=False)
    serialised: str = ""
    findings: tuple[Finding, ...] = ()
    shared: int = 0
    facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def texts(self, code: str = "", *, rejected: bool = True) -> list[tuple[Message, Text]]:
        """Returns all texts and thoughts, each with its message.

        With a code, those alone in which this rule may find something by its prefilters.
        """
        if "texts" not in self.facts:  # most checks need them
            here, others = (
                [(m, text) for m in messages for text in (*(m.content or ()), *m.thoughts)]
                for messages in (self.messages, self.rejected)
            )
            self.facts["texts"] = here, [*here, *others]
        texts: list[tuple[Message, Text]] = self.facts["texts"][rejected]
        if not code:
            return texts
        if "by code" not in self.facts:
            self.facts["by code"] = all_prefilters().by_code([t.text for _, t in self.texts()])
        return [texts[i] for i in sorted(self.facts["by code"][code]) if i < len(texts)]

    def answers(self, code: str = "") -> Iterator[tuple[Message, Text]]:
        """Yields the texts and thoughts that a model learns to write; not those of bad answers."""
        good = self.label is None or self.label.value
        items = self.texts(code, rejected=False) if good else ()
        return (item for item in items if item[0].role == "assistant")

    @property
    def last_question(self) -> int:
        """Returns the number of the last message of the user, -1 for none."""
        roles = [message.role for message in self.messages]
        return max((i for i, role in enumerate(roles) if role == "user"), default=-1)

    @property
    def is_readable(self) -> bool:
        """Returns whether all of the conversation could be read."""
        return all(f.severity != "error" or f.code in _HARMLESS for f in self.findings)


def located(
    code: str,
    message: str,
    value: JsonValue | Text,
    pointer: str = "",
    *,
    hint: str = "",
    on_key: bool = False,
) -> Finding:
    """Returns a finding about a part of a value, or about the key of that part.

    A pointer of the record leads to a JSON text and no further: inside it, the place is a span of
    its code points, which the linter finds again among the escapes of the file.

    >>> arguments = JsonValue('{"a": {"b": 1}}', "/arguments")
    >>> found = located("MYP353", "1 is no string", arguments, "/a/b")
    >>> found.pointer, found.span
    ('/arguments', (12, 13))
    """
    outer, text = value.outer, value.value if isinstance(value, JsonValue) else None
    if outer is None and isinstance(text, str):
        outer = JsonText(text, "")
    elif outer is not None and isinstance(text, str):
        pointer = ""  # a text in a text
    if outer is None:
        return Finding(code, message, value.at + pointer, help=hint, on_key=on_key)
    span, result = None, outer.member(pointer)
    if result is not None:
        member, exact = result
        start, end = (on_key and exact and member.key) or (member.start, member.end)
        span = outer.start + start, outer.start + end
    return Finding(code, message, value.at, span, help=hint)
