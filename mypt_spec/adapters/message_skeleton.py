"""Splits records of `messages` and `tools` into what decides about their findings, and free values.

Input: a record, as decoded from strict JSON. Output: rests, free texts, metadata values; see
`Adapter.skeleton`. A record is divided before each user, and before each assistant that goes on
after results: what is found in a piece depends on no more than the head, the piece before it in the
same turn, and who speaks after it. So conversations of any length share the few pieces that there
are.

`{"messages": [U, C, R, A, U, A], "tools": T}` has four rests. That of the head is that of
`{"messages": [], "tools": T}`. The others are those of `[U, C, R]`, of `[A]` after it, and of
`[U, A]`, which is last; they are judged as records with T, and with short messages around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, TypeGuard

from mypt_spec.adapters.base import MARK, METADATA_DEPTH, Marked, Slot, WholeRecord, shallow
from mypt_spec.adapters.message_shape import THOUGHTS

_SPOKEN = (*THOUGHTS, "content")  # the texts of a message, in this order
SAFE = 1 << 53  # integers from here on have findings
_ASKED, _ANSWERED = {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}
_AFTER = {"": [], "user": [_ASKED, _ANSWERED], "assistant": [_ANSWERED]}
_NAME = re.compile(r"[A-Za-z]\w{0,62}", re.ASCII)
# Names, and ids, of all kinds.
_WORDS, _IDS = ("a", "Z", "a0", "B_c", "x" * 63), ("0", "_", "-", "9a-", "7" * 99)
_ID = re.compile(r"[\w-]+", re.ASCII)


@cache
def _decoder() -> Callable[[str], Any]:
    """Returns a decoder of JSON; msgspec is loaded only where records are split."""
    import msgspec

    return msgspec.json.Decoder().decode


def skeleton(record: Any) -> tuple[list[Any], list[str], list[Any]] | None:
    """Returns (rests, texts, metadata values): a rest of the head, and one of each piece.

    Texts are what is said and thought, and strings in arguments. Ids, and names of declared tools,
    are numbers in the rests. None: only the whole record tells.
    """
    if record.__class__ is not dict or record.get("messages").__class__ is not list:
        return None
    texts: list[str] = []
    notes: list[Any] = []
    head: list[Any] = []
    rests: list[Any] = [head]
    messages: list[Any] = []
    names: frozenset[str] = frozenset()
    try:
        for key, value in record.items():
            head.append(key)
            if key == "messages":
                messages = value
            elif key[:1] == "_":
                shallow(value)
                notes.append(value)
            else:
                head.append([value])
                if key == "tools":
                    names = declared_names(value)
        walk = _Walk(names, texts, notes)
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
    return rests, texts, notes


def marked(record: dict[str, Any]) -> Marked | None:
    """Returns a record with marks where its skeleton has none of its values; see `Marked`."""
    messages = record["messages"]
    starts = begins([message["role"] for message in messages])
    marks, made = _Marks(declared_names(record.get("tools"))), []
    for i, message in enumerate(messages):
        if i in starts:
            marks.words = {}
        if "weight" in message or sum(key in message for key in THOUGHTS) > 1:
            return None
        made.append(marks.message(message, i))
    return Marked(record | {"messages": made}, marks.slots, starts)


def begins(roles: list[str]) -> list[int]:
    """Returns the numbers of the messages of these roles that begin pieces."""
    return [i for i, both in enumerate(pairwise(["", *roles])) if _begins(both[1], both[0])]


class _Marks:
    """Puts marks into messages. `words` has those of the ids and names of one piece."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names, self.slots = names, list[Slot]()
        self.words: dict[tuple[str, str], str] = {}

    def mark(self, path: tuple[str | int | None, ...], kind: str) -> str:
        self.slots.append(Slot(path, kind))
        return MARK.format(len(self.slots) - 1)

    def word(self, kind: str, value: Any, path: tuple[str | int | None, ...]) -> Any:
        """Returns the mark of an id or a name; another value as it is."""
        if not (is_id(value) if kind == "id" else value.__class__ is str and value in self.names):
            return value
        known = self.words.get((kind, value))
        if known is None:
            known = self.words[kind, value] = self.mark(path, "word")
        return known

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
        return out

    def call(self, call: dict[str, Any], at: tuple[str | int | None, ...]) -> dict[str, Any]:
        function, at_function = dict(call["function"]), (*at, "function")
        out = call | {"function": function}
        if "id" in call:
            out["id"] = self.word("id", call["id"], (*at, "id"))
        function["name"] = self.word("name", function["name"], (*at_function, "name"))
        given, inside = function["arguments"], (*at_function, "arguments")
        if given.__class__ is dict:
            function["arguments"] = self.value(given, inside)
        elif given.__class__ is str and given.startswith("{"):
            function["arguments"] = json.dumps(self.value(_decoder()(given), (*inside, None)))
        return out

    def value(self, value: Any, at: tuple[str | int | None, ...]) -> Any:
        """Returns what is in arguments with marks for its strings and integers."""
        kind = value.__class__
        if kind is dict:
            return {key: self.value(inner, (*at, key)) for key, inner in value.items()}
        if kind is list:
            return [self.value(inner, (*at, n)) for n, inner in enumerate(value)]
        if kind is str and value and not value.isspace():
            return self.mark(at, "string")
        return self.mark(at, "integer") if kind is int and -SAFE < value < SAFE else value


def any_words(patterns: dict[str, str]) -> bool:
    """Returns whether any id and any name that rests leave out fits the patterns of a tag."""
    return all(
        re.fullmatch(pattern, word)
        for key, pattern in patterns.items()
        for word in _WORDS + _IDS * (key == "id")
    )


def is_id(value: Any) -> TypeGuard[str]:
    """Returns whether a value is an id that can be any other in its place."""
    return value.__class__ is str and _ID.fullmatch(value) is not None


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
    yield whole, _bare(whole) | {"messages": [_bare(message) for message in head]}
    following = [piece[0]["role"] for piece in pieces[2:]] + [""]
    for (earlier, piece), role in zip(pairwise(pieces), following, strict=False):
        around = [] if piece[0]["role"] == "user" or earlier is head else earlier
        if around and around[0]["role"] != "user":
            around = [_ASKED, *around]
        judged = [*head, *around, *piece, *_AFTER[role]]
        yield record | {"messages": judged}, [_bare(message) for message in piece]


def declared_names(tools: Any) -> frozenset[str]:
    """Returns the names of declared tools that are numbers in rests.

    Raises TypeError or KeyError for a list of other things.
    """
    if tools.__class__ is not list:
        return frozenset()
    names = {tool["function"]["name"] for tool in tools}
    return frozenset(name for name in names if name.__class__ is str and _NAME.fullmatch(name))


def _begins(role: str, before: str) -> bool:
    """Returns whether a piece begins with a message; `before` is the role of the one before it."""
    return role == "user" or (role == "assistant" and before == "tool")


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    return {key: 0 if key[:1] == "_" else value for key, value in item.items()}


class _Walk:
    """Splits messages. `ids` numbers the ids and names of one piece, `names` are those of tools."""

    def __init__(self, names: frozenset[str], texts: list[str], notes: list[Any]) -> None:
        self.names, self.texts, self.notes = names, texts, notes
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
            else:
                add([value])

    def number(self, value: Any) -> Any:
        return self.ids.setdefault(value, len(self.ids)) if is_id(value) else [value]

    def name(self, value: Any) -> Any:
        """Returns the number of a tool's name; a name that is not declared stays."""
        if value.__class__ is str and value in self.names:
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
                        out.append(_arguments(said, self.texts))
                    else:
                        out.append(self.name(said) if inner == "name" else [said])
                out.append("")
            else:
                out.append([value])
        return out


def _arguments(value: Any, texts: list[str]) -> Any:
    """Returns the rest of arguments: an object, or its JSON text."""
    if value.__class__ is dict:
        return [2, value_rest(value, texts.append, METADATA_DEPTH)]
    if value.__class__ is not str or not value.startswith("{"):
        return [0, value]
    found = _decoder()(value)  # an error is a ValueError
    strings: list[str] = []
    rest = value_rest(found, strings.append, METADATA_DEPTH)
    refuse_repeated(value, number_of_strings(found))
    texts += strings
    return [3, rest]


def refuse_repeated(text: str, strings: int) -> None:
    """Raises WholeRecord if a JSON text that is read as so many strings has more: a key twice."""
    plain = text.replace("\\\\", "") if "\\" in text else text
    if plain.count('"') - plain.count('\\"') != 2 * strings:
        raise WholeRecord


def value_rest(value: Any, free: Callable[[str], None], depth: int) -> Any:
    """Returns what stays of a value: of a string, that there is one; of an integer, too."""
    kind = value.__class__
    if kind is str:
        if not value or value.isspace():
            return [0, value]
        free(value)
        return 1
    if kind is int:
        return 2 if -SAFE < value < SAFE else [0, value]
    if kind is dict or kind is list:
        if not depth:
            raise WholeRecord
        if kind is dict:
            return {key: value_rest(inner, free, depth - 1) for key, inner in value.items()}
        return [1, *[value_rest(inner, free, depth - 1) for inner in value]]
    return [0, value]


def number_of_strings(value: Any) -> int:
    """Returns the number of strings in a value, keys too."""
    kind = value.__class__
    if kind is dict:
        return len(value) + sum(map(number_of_strings, value.values()))
    return sum(map(number_of_strings, value)) if kind is list else int(kind is str)
