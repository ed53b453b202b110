"""Outlines records of `messages` and `tools` in little more time than it takes to decode them.

Input: a line of JSON. Output: `base.Split`, with its outline; see `base.Outlines`.

Theory of operation. msgspec decodes a line into structs, one type a role, and passes over keys that
these do not have. So a key that is unknown, or occurs twice, does not show in an outline; it shows
to whoever counts the quotes of the line (mypt_lint/fast/clean_filter.py). Keys of metadata, and
rare ones of answers, become fields when `learn` is told of them. An outline says of each message
its type, and then what it has besides one text: signs for texts and arguments, ids and names of
tools as numbers, other values as they are. Of lines with equal outlines, the rests
(message_skeleton.py) are equal, and so are the places of texts and the numbers of strings.

`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}` has the
outline `(None, b"", UNSET, User, Answer)` and the texts "Hi" and "Yo"; the first three are of the
keys "tools", "chat_template_kwargs" and "language". With a "reasoning_content", `Answer` is
followed by 1, the sign of a text. With calls instead of a text it is followed by `UNSET`, the type
of their list, and for each the number of its id, its type, the number of its name and a sign of
arguments.

Definitions of tools stay JSON, by which those that came before are found. Where they are expected
to be new, they are decoded with their line, which takes less time than to pass over them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from operator import attrgetter, or_
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mypt_spec.adapters.base import Outlined, Split, WholeRecord, shallow
from mypt_spec.adapters.message_skeleton import PLAIN_DEPTH, Free, refuse_repeated
from mypt_spec.bodies.plain_schema import arguments, several
from mypt_spec.record_schema import is_free_weight

_RARE = frozenset({"thinking", "reasoning", "weight"})  # keys of answers
_METADATA = 20  # keys of metadata that become fields
# Signs of what is free: texts, arguments, arguments in a string; of texts of an answer that
# follow; weights.
_TEXT, _OBJECT, _QUOTED, _SEVERAL, _WEIGHT = 1, 2, 3, 4, 5
_ABSENT, _NULL = Raw(), b"null"
_NONE: Any = ()
_Maybe: TypeAlias = str | UnsetType | None
_Add: TypeAlias = Callable[[Any], None]
_Decode: TypeAlias = Callable[[bytes], Any]
_Arguments: Any = arguments(PLAIN_DEPTH)
_decode = msgspec.json.Decoder(_Arguments).decode
_encode = msgspec.json.Encoder().encode


class _Function(Struct, gc=False):
    name: str
    arguments: _Arguments | str


class _Call(Struct, gc=False):
    function: _Function
    id: _Maybe = UNSET
    type: Literal["function"] | UnsetType | None = UNSET


class System(Struct, gc=False, tag_field="role", tag="system"):
    content: str


class Developer(Struct, gc=False, tag_field="role", tag="developer"):
    content: str


class User(Struct, gc=False, tag_field="role", tag="user"):
    content: str


class Result(Struct, gc=False, tag_field="role", tag="tool"):
    content: str
    tool_call_id: _Maybe = UNSET
    name: _Maybe = UNSET


class Answer(Struct, gc=False, tag_field="role", tag="assistant"):
    content: _Maybe = UNSET
    reasoning_content: _Maybe = UNSET
    tool_calls: list[_Call] | UnsetType | None = UNSET


class RareAnswer(Answer, gc=False, tag_field="role", tag="assistant"):
    """An answer with what few files have: to look for it in each takes time."""

    thinking: _Maybe = UNSET
    reasoning: _Maybe = UNSET
    weight: int | float | UnsetType | None = UNSET


class _Record(Struct, gc=False, omit_defaults=True):
    tools: Raw = _ABSENT
    chat_template_kwargs: Raw = _ABSENT
    language: _Maybe = UNSET


class _Types:
    """The types of messages and of records whose metadata has these keys."""

    def __init__(self, keys: tuple[str, ...], *, rare: bool) -> None:
        self.names = [f"x{i}" for i in range(len(keys))]  # of the fields of metadata
        named = zip(self.names, keys, strict=True)
        self.more = [(x, Any, msgspec.field(default=UNSET, name=key)) for x, key in named]
        self.kinds: list[type] = [
            msgspec.defstruct(
                kind.__name__,
                self.more,
                bases=(kind,),
                gc=False,
                tag_field="role",
                tag=kind.__struct_config__.tag,
            )
            for kind in (User, RareAnswer if rare else Answer, Result, System, Developer)
        ]
        self.decoders: dict[type | None, _Decode] = {}

    def decoder(self, tool: type | None) -> _Decode:
        """Returns a decoder of lines whose tools are of this type; of any lines, if it is None."""
        if tool not in self.decoders:
            message: Any = reduce(or_, self.kinds)
            fields: list[Any] = [("messages", list[message]), *self.more]
            if tool is not None:
                fields.append(("tools", several(tool), _ABSENT))
            made = msgspec.defstruct("Record", fields, bases=(_Record,), gc=False, kw_only=True)
            self.decoders[tool] = msgspec.json.Decoder(made).decode
        return self.decoders[tool]


_types = lru_cache(maxsize=8)(_Types)


class MessageOutlines:
    """Makes outlines; belongs to one thread.

    Names of tools and ids that are `free` are numbers. With `weights`, 0 and 1 are told apart.
    """

    def __init__(self, free: Free, *, weights: bool = True) -> None:
        self.weights = weights
        self.matches, self.is_id = free.names.fullmatch, free.ids.fullmatch
        self.keys: list[str] = []  # of metadata, the names of the fields `x0`, `x1` ...
        self.rare = False  # whether answers have the fields of RareAnswer
        self.tool: type | None = None  # of the definitions that are expected, if any
        self._compile()

    def _compile(self) -> None:
        """Takes the types above, with a field for each key of metadata."""
        types = _types((*self.keys,), rare=self.rare)
        self.user, self.answer, self.result, *_ = types.kinds
        self.fields = [(name, attrgetter(name)) for name in types.names]
        self.decode = types.decoder(None)
        self.decode_expected = types.decoder(self.tool)

    def expect(self, tool: type | None) -> None:
        """Decodes definitions of tools that are of this type with their lines, from now on."""
        if tool is not self.tool:
            self.tool = tool
            self._compile()

    def learn(self, keys: Iterable[str]) -> bool:
        """Makes fields of keys from now on, where it can; returns whether there were new ones."""
        some = dict.fromkeys(keys)
        fresh = [key for key in some if key[:1] == "_" and key not in self.keys]
        fresh = fresh[: _METADATA - len(self.keys)]
        rare = not self.rare and not _RARE.isdisjoint(some)
        if fresh or rare:
            self.keys += fresh
            self.rare |= rare
            self._compile()
        return bool(fresh) or rare

    def tells_all(self, raw: bytes) -> bool:
        """Returns whether the outline of a line leaves out no key of it."""
        try:
            refuse_repeated(raw.decode(), _encode(self.decode(raw)))
        except (ValueError, TypeError, RecursionError, WholeRecord):
            return False
        return True

    def of(self, lines: list[bytes]) -> Outlined:
        """Returns what lines split into.

        Most messages are read here, without a call of a function, and in a branch for each type:
        there the interpreter knows where a field is.
        """
        keys: list[Any] = []
        texts: list[str] = []
        ends: list[int] = []
        more: dict[int, Split] = {}
        decode, free, words = self.decode_expected, texts.append, set[str]()
        user, answer, result, rare = self.user, self.answer, self.result, self.rare
        for i, raw in enumerate(lines):
            try:
                try:
                    record = decode(raw)
                except ValueError:
                    record = self.decode(raw)  # its tools are others than those expected
                tools: Any = None
                options = b""
                if record.tools is not _ABSENT:
                    tools = record.tools
                    if type(tools) is Raw:
                        tools = bytes(tools)
                if record.chat_template_kwargs is not _ABSENT:
                    options = bytes(record.chat_template_kwargs)
                outline: list[Any] = [
                    tools if tools is None else tools == _NULL,
                    options,
                    record.language,
                ]
                notes = self._notes([record, *record.messages], outline) if self.fields else _NONE
                # What is made for each line takes time: there are lists only where there are calls.
                values = quoted = names = _NONE
                add = outline.append
                # The numbers of ids, and of names of tools, of one piece of the record.
                ids: dict[str, int] = {}
                called: dict[str, int] = {}
                before: Any = None
                for message in record.messages:
                    kind = type(message)
                    add(kind)
                    if kind is user:
                        content = message.content
                        if content:
                            free(content)
                        else:
                            add(content)
                        if ids or called:
                            ids, called = {}, {}
                    elif kind is answer:
                        if before is result:
                            ids, called = {}, {}
                        if not rare or message.thinking is message.reasoning is UNSET:
                            thought = message.reasoning_content
                            if thought:
                                free(thought)
                                add(_TEXT)
                            elif thought is not UNSET:
                                add((thought,))
                            content = message.content
                            if content:
                                free(content)
                            else:
                                add(content)
                        else:
                            _said(message, add, free)
                        if rare and message.weight is not UNSET:
                            add(self._weight(message.weight))
                        calls = message.tool_calls
                        if calls is not UNSET:
                            add(type(calls))
                            if calls and values is _NONE:
                                values, quoted, names = [], [], []
                            for call in calls or _NONE:
                                function, ident = call.function, call.id
                                name, given = function.name, function.arguments
                                names.append(name)
                                if ident is not UNSET:
                                    if ident in ids:
                                        ident = ids[ident]
                                    elif self.is_id(ident):
                                        ident = ids.setdefault(ident, len(ids))
                                if name in called:
                                    name = called[name]
                                elif name in words or self._free(name, words):
                                    name = called.setdefault(name, len(called))
                                if type(given) is dict:
                                    values.append(given)
                                    outline += ident, call.type, name, _OBJECT
                                    continue
                                if given[:1] == "{":
                                    quoted.append(_unquoted(given))
                                    given = _QUOTED
                                outline += ident, call.type, name, given
                    elif kind is result:
                        content, ident, name = message.content, message.tool_call_id, message.name
                        if content:
                            free(content)
                            content = _TEXT
                        if ident is not UNSET:
                            if ident in ids:
                                ident = ids[ident]
                            elif self.is_id(ident):
                                ident = ids.setdefault(ident, len(ids))
                        if name in called:
                            name = called[name]
                        elif name and (name in words or self._free(name, words)):
                            name = called.setdefault(name, len(called))
                        outline += content, ident, name
                    else:
                        content = message.content
                        if content:
                            free(content)
                        else:
                            add(content)
                    before = kind
                keys.append(tuple(outline))
                if names or notes or tools is not None:
                    given = None if tools == _NULL else tools
                    more[i] = Split(None, _NONE, notes, values, quoted, given, names)
            except (ValueError, RecursionError, TypeError, KeyError, WholeRecord):
                keys.append(None)
                del texts[ends[-1] if ends else 0 :]
            ends.append(len(texts))
        return Outlined(keys, texts, ends, more)

    def _free(self, name: str, words: set[str]) -> bool:
        """Returns whether a name can be any other in its place; adds it to the words that can."""
        if self.matches(name) is None:
            return False
        words.add(name)
        return True

    def _weight(self, weight: Any) -> Any:
        """Returns the sign of a weight that can be any other, else what tells it apart."""
        if is_free_weight(weight) or (not self.weights and weight in (0, 1)):
            return _WEIGHT
        return weight.__class__, weight

    def _notes(self, items: list[Any], outline: list[Any]) -> list[Any]:
        """Returns the metadata values of a record and its messages; adds which are where."""
        places: list[Any] = []
        notes: list[Any] = []
        for i, item in enumerate(items):
            for field, of in self.fields:
                value = of(item)
                if value is not UNSET:
                    shallow(value)
                    places += i, field
                    notes.append(value)
        outline.append(tuple(places))
        return notes


def _unquoted(text: str) -> Any:
    """Returns the arguments in a JSON text; raises for those that have a key twice."""
    found = _decode(text)
    refuse_repeated(text, _encode(found))
    return found


def _said(message: Any, add: _Add, free: _Add) -> None:
    """Adds the texts of an answer."""
    texts = message.reasoning_content, message.thinking, message.reasoning, message.content
    if texts[:3].count(UNSET) < 2:
        raise WholeRecord  # thoughts are compared
    add(_SEVERAL)
    for text in texts:
        if text:
            free(text)
            add(_TEXT)
        else:
            add(text)
