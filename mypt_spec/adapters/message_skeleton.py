"""Splits records of `messages` and `tools` into what decides about their findings, and free values.

Input: a record, as decoded from strict JSON. Output: `base.Split`, with a rest of the head and one
of each piece. A record is divided before each user, and before each assistant that goes on after
results: what is found in a piece depends on no more than the head, the piece before it in the same
turn, and who speaks after it. So conversations of any length share the few pieces that there are.

`{"messages": [U, C, R, A, U, A], "tools": T}` has four rests. That of the head is that of
`{"messages": [], "tools": True}`. The others are those of `[U, C, R]`, of `[A]` after it, and of
`[U, A]`, which is last; they are judged as records with T, and with short messages around them.
What T says is no matter to them, nor which tool a call names, nor with which arguments: T is judged
by itself, and of arguments whose values are plain only their strings are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeGuard

from mypt_spec.adapters.base import MARK, TOOLS, Marked, Slot, Split, WholeRecord, shallow
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.record_schema import WEIGHT, is_free_weight

_SPOKEN = (*THOUGHTS, "content")  # the texts of a message, in this order
PLAIN_DEPTH = 5  # of arguments
_WEIGHTS = 4096  # marks between a weight and the next whole one
_ASKED, _ANSWERED = {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}
_AFTER = {"": [], "user": [_ASKED, _ANSWERED], "assistant": [_ANSWERED]}
# Names that no format has anything against, and those that some tags cannot hold.
_NARROW = re.compile(r"[A-Za-z]\w{0,62}", re.ASCII)
_WIDE = re.compile(r"[A-Za-z_][\w.-]{0,62}", re.ASCII)
# Names, and ids, of all kinds.
_WORDS, _IDS = ("a", "Z", "a0", "B_c", "x" * 63), ("0", "_", "-", "9a-", "7" * 99)
_MORE_WORDS = ("_", "a.b", "a-", "a.", "_.-" * 21)
_IDENTS = re.compile(r"[\w-]+", re.ASCII)


class Free(NamedTuple):
    """What matches names of tools, and ids of calls, that can be any others in their place."""

    names: re.Pattern[str]
    ids: re.Pattern[str]


@cache
def _arguments() -> tuple[Callable[[bytes | str], dict[str, Any]], Callable[[Any], bytes]]:
    """Returns a decoder of plain arguments, and an encoder of JSON."""
    import msgspec  # only where records are split

    from mypt_spec.bodies.plain_schema import arguments

    # To convert a value to such a type takes longer than to write and read it.
    decode = msgspec.json.Decoder(arguments(PLAIN_DEPTH)).decode
    return decode, msgspec.json.Encoder().encode


def skeleton(record: Any, free: Free) -> Split | None:
    """Returns a record as a rest of its head, one of each piece, and all that is free.

    Ids and names of tools that are `free` are numbers in the rests. None: only the whole record
    tells.
    """
    if record.__class__ is not dict or record.get("messages").__class__ is not list:
        return None
    head: list[Any] = []
    rests: list[Any] = [head]
    messages: list[Any] = []
    walk = _Walk(free)
    try:
        for key, value in record.items():
            head.append(key)
            if key == "messages":
                messages = value
            elif key[:1] == "_":
                shallow(value)
                walk.notes.append(value)
            else:
                head.append([True if key == "tools" and value is not None else value])
        own, before = head, ""
        for message in messages:
            role = message["role"]
            if role.__class__ is not str:
                return None
            if _begins(role, before):
                rests[-1].append(role)  # who speaks after the piece before
                known, own = 0 if role == "user" or own is head else own, []
                rests.append([known, own])
                walk.ids = {}
            before = role
            walk.message(message, own)
    except (WholeRecord, AttributeError, TypeError, ValueError, KeyError, RecursionError):
        return None
    return Split(
        rests, walk.texts, walk.notes, walk.values, walk.quoted, record.get("tools"), walk.called
    )


def marked(record: dict[str, Any], free: Free) -> Marked | None:
    """Returns a record with marks where its skeleton has none of its values; see `Marked`."""
    messages = record["messages"]
    starts = begins([message["role"] for message in messages])
    marks, made = _Marks(free), []
    tools = [marks.tool()] if record.get("tools") is not None else record.get("tools")
    for i, message in enumerate(messages):
        if i in starts:
            marks.words = {}
        if sum(key in message for key in THOUGHTS) > 1:
            return None
        made.append(marks.message(message, i))
    more = {"tools": tools} if "tools" in record else {}
    return Marked(record | {"messages": made} | more, marks.slots, starts)


def begins(roles: list[str]) -> list[int]:
    """Returns the numbers of the messages of these roles that begin pieces."""
    return [i for i, both in enumerate(pairwise(["", *roles])) if _begins(both[1], both[0])]


class _Marks:
    """Puts marks into messages. `words` has those of the ids and names of one piece."""

    def __init__(self, free: Free) -> None:
        self.free, self.slots = free, list[Slot]()
        self.words: dict[tuple[str, str], str] = {}

    def mark(self, path: tuple[str | int | None, ...], kind: str) -> str:
        self.slots.append(Slot(path, kind))
        return MARK.format(len(self.slots) - 1)

    def word(self, kind: str, value: Any, path: tuple[str | int | None, ...]) -> Any:
        """Returns the mark of an id or a name; another value as it is."""
        if not is_word(value, self.free.ids if kind == "id" else self.free.names):
            return value
        known = self.words.get((kind, value))
        if known is None:
            known = self.words[kind, value] = self.mark(path, "word")
        return known

    def tool(self) -> dict[str, Any]:
        """Returns the definition of a tool whose name is a mark, in place of all tools."""
        return {"type": "function", "function": {"name": self.mark(TOOLS, "tools")}}

    def message(self, message: dict[str, Any], i: int) -> dict[str, Any]:
        out = dict(message)
        for key, value in message.items():
            if key in _SPOKEN:
                if value and value.__class__ is str:
                    out[key] = self.mark((i, key), "text")
            elif key == "tool_call_id":
                out[key] = self.word("id", value, (i, key))
            elif key == "name":
                out[key] = self.word("name", value, (i, key))
            elif key == "tool_calls" and value.__class__ is list:
                out[key] = [self.call(call, (i, key, n)) for n, call in enumerate(value)]
            elif key == WEIGHT and is_free_weight(value):
                self.mark((i, key), "weight")
                out[key] = marked_weight(len(self.slots) - 1)
        return out

    def call(self, call: dict[str, Any], at: tuple[str | int | None, ...]) -> dict[str, Any]:
        function, at_function = dict(call["function"]), (*at, "function")
        out = call | {"function": function}
        if "id" in call:
            out["id"] = self.word("id", call["id"], (*at, "id"))
        function["name"] = self.word("name", function["name"], (*at_function, "name"))
        given, inside = function["arguments"], (*at_function, "arguments")
        if plain_object(given):
            function["arguments"] = {self.mark(inside, "object"): 0}
        elif plain_text(given) is not None:
            function["arguments"] = json.dumps({self.mark((*inside, None), "object"): 0})
        return out


def marked_weight(number: int) -> float:
    """Returns the weight that is the mark of a slot; no weight that is not free is equal to it."""
    return 1 + (number + 1) / _WEIGHTS


def slot_of_weight(weight: float) -> int | None:
    """Returns the number of the slot that such a weight is the mark of; None for any other."""
    number = (weight - 1) * _WEIGHTS - 1
    return int(number) if number >= 0 and number.is_integer() else None


def any_words(patterns: list[dict[str, str]], ids: re.Pattern[str] | None) -> Free | None:
    """Returns what matches names that fit these patterns of tags, as all ids that are free do.

    `ids` matches the ids that are free, if not all of them are. None where no names fit.
    """

    def fit(words: tuple[str, ...]) -> bool:
        return all(
            re.fullmatch(pattern, word)
            for given in patterns
            for key, pattern in given.items()
            for word in (_IDS + _WORDS if key == "id" else words)
        )

    if not fit(_WORDS):
        return None
    names = _WIDE if fit(_WORDS + _MORE_WORDS) else _NARROW
    return Free(names, ids or _IDENTS)


def is_word(value: Any, words: re.Pattern[str]) -> TypeGuard[str]:
    """Returns whether a value is a name or an id that can be any other in its place."""
    return value.__class__ is str and words.fullmatch(value) is not None


def divided(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yields (what is judged, what it adds to the pieces before it) for each rest of a record.

    What is added has no metadata values.
    """
    head: list[Any] = []
    pieces = [head]
    before = ""
    for message in record["messages"]:
        role = message["role"]
        if _begins(role, before):
            pieces.append([])
        before = role
        pieces[-1].append(message)
    whole = record | {"messages": head}
    tools = {"tools": 0} if record.get("tools") is not None else {}
    yield whole, _unnoted(whole) | {"messages": [_bare(message) for message in head]} | tools
    following = [piece[0]["role"] for piece in pieces[2:]] + [""]
    for (earlier, piece), role in zip(pairwise(pieces), following, strict=False):
        around = [] if piece[0]["role"] == "user" or earlier is head else earlier
        if around and around[0]["role"] != "user":
            around = [_ASKED, *around]
        judged = [*head, *around, *piece, *_AFTER[role]]
        yield record | {"messages": judged}, [_bare(message) for message in piece]


def _begins(role: str, before: str) -> bool:
    """Returns whether a piece begins with a message; `before` is the role of the one before it."""
    return role == "user" or (role == "assistant" and before == "tool")


def _unnoted(item: dict[str, Any]) -> dict[str, Any]:
    """Returns a record or a message without metadata, as far as it counts."""
    return {key: 0 if key[:1] == "_" else value for key, value in item.items()}


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """Returns a message without metadata and free values, as far as these count."""
    out = _unnoted(message)
    if out.get("tool_calls").__class__ is list:
        out["tool_calls"] = [_uncalled(call) for call in out["tool_calls"]]
    return out


def _uncalled(call: Any) -> Any:
    """Returns a call without arguments that are free; those in a text are one string."""
    function = call.get("function")
    if function.__class__ is not dict or not plain_object(function.get("arguments")):
        return call
    return call | {"function": function | {"arguments": 0}}


class _Walk:
    """Splits messages. `ids` numbers the ids and names of one piece; others than `free` stay."""

    def __init__(self, free: Free) -> None:
        self.free = free
        self.texts: list[str] = []
        self.notes: list[Any] = []
        self.values: list[Any] = []
        self.quoted: list[Any] = []
        self.called: list[str] = []
        self.ids: dict[str, int] = {}

    def message(self, message: dict[str, Any], rest: list[Any]) -> None:
        """Adds to a rest what stays of a message: the number of its keys, and each with its value.

        A text leaves only its key; a message of nothing but a role and a text leaves its role.
        """
        if len(message) == 2:
            text = message.get("content")
            if text.__class__ is str and text:
                rest.append(message["role"])
                self.texts.append(text)
                return
        add = rest.append
        add(len(message))
        thoughts = [message[key] for key in THOUGHTS if key in message]
        if len(thoughts) > 1 and len({*thoughts}) > 1:
            raise WholeRecord  # they are compared
        for key in _SPOKEN:
            if key in message:
                add(key)
                if message[key].__class__ is str and message[key]:
                    self.texts.append(message[key])
                else:
                    add([message[key]])
        for key, value in message.items():
            if key in _SPOKEN:
                continue
            add(key)
            if key[:1] == "_":
                shallow(value)
                self.notes.append(value)
            elif key == "tool_call_id":
                add(self.number(value))
            elif key == "tool_calls" and value.__class__ is list:
                add([self.call(call) for call in value])
            elif key == "name":
                add(self.name(value))
            elif key == WEIGHT and is_free_weight(value):
                add(0)
            else:
                add([value])

    def number(self, value: Any) -> Any:
        return (
            self.ids.setdefault(value, len(self.ids)) if is_word(value, self.free.ids) else [value]
        )

    def name(self, value: Any) -> Any:
        """Returns the number of a tool's name; a name that is not free stays."""
        if is_word(value, self.free.names):
            return self.ids.setdefault(f"\0{value}", len(self.ids))
        return [value]

    def call(self, call: dict[str, Any]) -> list[Any]:
        """Returns the rest of a call."""
        out: list[Any] = []
        for key, value in call.items():
            out.append(key)
            if key == "id":
                out.append(self.number(value))
            elif key == "function" and value.__class__ is dict:
                for inner, said in value.items():
                    out.append(inner)
                    if inner == "arguments":
                        out.append(self.arguments(said))
                    elif inner == "name":
                        if said.__class__ is not str:
                            raise WholeRecord
                        self.called.append(said)
                        out.append(self.name(said))
                    else:
                        out.append([said])
                out.append("")
            else:
                out.append([value])
        return out

    def arguments(self, value: Any) -> Any:
        """Returns the rest of arguments: an object, or its JSON text."""
        if plain_object(value):
            self.values.append(value)
            return 2
        found = plain_text(value)
        if found is None:
            return [value]
        self.quoted.append(found)
        return 3


def plain_object(value: Any) -> bool:
    """Returns whether rules see no more of arguments than whether their strings are clean."""
    if value.__class__ is not dict:
        return False
    decode, encode = _arguments()
    try:
        decode(encode(value))
    except (ValueError, TypeError, RecursionError, OverflowError):
        return False
    return True


def plain_text(value: Any) -> dict[str, Any] | None:
    """Returns the plain arguments in a JSON text that has no key twice; None for anything else."""
    if value.__class__ is not str or not value.startswith("{"):
        return None
    decode, encode = _arguments()
    try:
        found = decode(value)
        refuse_repeated(value, encode(found))
    except (ValueError, TypeError, RecursionError, OverflowError, WholeRecord):
        return None
    return found


def refuse_repeated(text: str, again: bytes) -> None:
    """Raises WholeRecord if a JSON text has more strings than when it is written again."""
    if _quotes(text) != _quotes(again.decode()):
        raise WholeRecord


def _quotes(text: str) -> int:
    """Returns how many quotes a JSON text has that begin or end a string."""
    plain = text.replace("\\\\", "") if "\\" in text else text
    return plain.count('"') - plain.count('\\"')
