"""Splits lines of `messages` and `tools` in little more time than it takes to decode them.

Input: lines of JSON. Output: `splitter.Splits`.

Theory of operation. msgspec decodes a line into structs, one type a role, and passes over keys that
these do not have. So a key that is unknown, or occurs twice, does not show in a skeleton; it shows
to whoever counts the quotes of the line (mypt_lint/fast/clean_filter.py). Keys of metadata, and
keys that are null, become fields when `learn` sees them. A skeleton says of
each message its type, and then what it has besides one text: placeholders for texts and arguments,
ids and names of tools as numbers, other values as they are.

`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}` has the
skeleton `(None, b"", UNSET, User, Answer)` and the texts "Hi" and "Yo"; the first three are of the
keys "tools", "chat_template_kwargs" and "language". With a "reasoning_content", `Answer` is
followed by 1, the placeholder of a text. With calls instead of a text it is followed by `UNSET`,
the type of their list, and for each the number of its id, its type, the number of its name and a
placeholder of arguments.

A skeleton is cut into pieces before each user, and before each assistant that goes on after
results: what is found in a piece depends on no more than the head of the record, the piece before
it in the same turn, and who speaks after it. So conversations of any length share the few pieces
that there are. `{"messages": [U, C, R, A, U, A], "tools": T}` has four. The head is that of
`{"messages": [], "tools": T}`. The others are `[U, C, R]`, `[A]` after it, and `[U, A]`, which is
last; they are judged as records with T, and with short messages around them. What T says is no
matter to them, nor which tool a call names, nor with which arguments: T is judged by itself, and of
arguments whose values are plain only their strings are looked at.

Definitions of tools stay JSON, by which those that came before are found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, reduce
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter, or_
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mypt_spec.adapters.message_shape import NULLABLE
from mypt_spec.adapters.splitter import Piece, Split, Splits, Splitter, WholeRecord, shallow
from mypt_spec.bodies.call_tags import BareKeys
from mypt_spec.bodies.definitions import layout_of, write_definitions, write_indented
from mypt_spec.bodies.plain_schema import arguments
from mypt_spec.bodies.strict_json import NO_TAG, loads
from mypt_spec.record_schema import WEIGHT, is_free_weight
from mypt_spec.table import TokenTable, pattern

# Names that no format has anything against, and those that some tags cannot hold.
_NARROW = re.compile(r"[A-Za-z]\w{0,62}", re.ASCII)
_WIDE = re.compile(r"[A-Za-z_][\w.-]{0,62}", re.ASCII)
# Names, and ids, of all kinds.
_WORDS, _IDS = ("a", "Z", "a0", "B_c", "x" * 63), ("0", "_", "-", "9a-", "7" * 99)
_MORE_WORDS = ("_", "a.b", "a-", "a.", "_.-" * 21)
_IDENTS = re.compile(r"[\w-]+", re.ASCII)
_DEPTH = 5  # of arguments
_MOST = 20  # keys of metadata, or keys that are null, that become fields
_FIELD = re.compile(r'[^\\"\0-\x1f]*')  # the keys that msgspec has for fields
_LONG = 200  # bytes of the key of a head from which on a digest takes its place
_QUESTION, _ANSWER = {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}
_AFTER = {"": [], "user": [_QUESTION, _ANSWER], "assistant": [_ANSWER]}
_ESCAPES = re.compile(rb'\\["\\]')
_ODD = re.compile(rb'\\\\"')  # without these, each backslash before a quote escapes it
# Placeholders: of a text, of arguments, of arguments in a string; of texts of an answer that
# follow; of a weight.
_TEXT, _OBJECT, _QUOTED, _SEVERAL, _WEIGHT = 1, 2, 3, 4, 5
_ABSENT, _NULL = Raw(), b"null"
_NONE: Any = ()
_Maybe: TypeAlias = str | UnsetType | None
_Add: TypeAlias = Callable[[Any], None]
_Arguments: Any = arguments(_DEPTH)
_decode = msgspec.json.Decoder(_Arguments).decode
encode_value = msgspec.json.Encoder().encode


class Free(NamedTuple):
    """What matches names of tools, and ids of calls, that can be any others in their place."""

    names: re.Pattern[str]
    ids: re.Pattern[str]


def any_words(patterns: list[dict[str, str]], ids: re.Pattern[str] | None) -> Free | None:
    """Returns what matches names that fit these patterns of tags, as all ids that are free do.

    `ids` matches the ids that are free, if not all of them are. None where no names fit.
    """

    def fit(words: tuple[str, ...]) -> bool:
        return all(
            re.fullmatch(pattern, word)
            for attributes in patterns
            for key, pattern in attributes.items()
            for word in (_IDS + _WORDS if key == "id" else words)
        )

    if not fit(_WORDS):
        return None
    return Free(_WIDE if fit(_WORDS + _MORE_WORDS) else _NARROW, ids or _IDENTS)


class _Function(Struct, gc=False):
    name: str
    arguments: _Arguments | str


class _Call(Struct, gc=False):
    function: _Function
    id: _Maybe = UNSET
    type: Literal["function"] | UnsetType | None = UNSET


User, System, Developer = (
    msgspec.defstruct(tag.title(), [("content", str)], gc=False, tag_field="role", tag=tag)
    for tag in ("user", "system", "developer")
)


class Result(Struct, gc=False, tag_field="role", tag="tool"):
    content: str
    tool_call_id: _Maybe = UNSET
    name: _Maybe = UNSET


class Answer(Struct, gc=False, tag_field="role", tag="assistant"):
    content: _Maybe = UNSET
    reasoning_content: _Maybe = UNSET
    tool_calls: list[_Call] | UnsetType | None = UNSET
    thinking: _Maybe = UNSET
    reasoning: _Maybe = UNSET
    weight: int | float | UnsetType | None = UNSET


class Head(Struct, gc=False, omit_defaults=True):
    tools: Raw = _ABSENT
    chat_template_kwargs: Raw = _ABSENT
    language: _Maybe = UNSET


class _Types:
    """The types of messages and of records that have these keys of metadata, or as null.

    Only records have those of `top`, in fields t0, t1 and so on.
    """

    def __init__(self, keys: tuple[str, ...], nulls: tuple[str, ...], top: tuple[str, ...]) -> None:
        self.fields = optional_fields("x", keys, Any)
        kinds: list[Any] = [User, Answer, Result, System, Developer]
        self.kinds = [
            msgspec.defstruct(
                kind.__name__,
                [
                    *self.fields,
                    *optional_fields("n", sorted({*nulls} - _keys(kind)), UnsetType | None),
                ],
                bases=(kind,),
                gc=False,
                tag_field="role",
                tag=kind.__struct_config__.tag,
            )
            for kind in kinds
        ]
        message: Any = reduce(or_, self.kinds)
        fields = [("messages", list[message]), *self.fields, *optional_fields("t", top, Any)]
        record: Any = msgspec.defstruct("Record", fields, bases=(Head,), gc=False, kw_only=True)
        self.decode = msgspec.json.Decoder(record).decode


types_of = lru_cache(maxsize=8)(_Types)


def optional_fields(prefix: str, keys: Iterable[str], kind: Any) -> list[Any]:
    """Returns fields that may be absent, for keys whose values are of a type."""
    return [
        (f"{prefix}{i}", kind, msgspec.field(default=UNSET, name=key)) for i, key in enumerate(keys)
    ]


def new_notes(keys: Iterable[str], opt_out: str, learnt: list[str]) -> list[str]:
    """Returns the keys of metadata that are to be learnt: those that a field can have."""
    new = [k for k in keys if k[:1] == "_" and k not in (opt_out, *learnt)]
    return [k for k in new if _FIELD.fullmatch(k)][: _MOST - len(learnt)]


def _keys(kind: type) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


class MessageSplitter(Splitter):
    """Splits records of messages; names of tools, and ids, that are `free` become numbers.

    Definitions of tools are written as a text of the kind `tools_body`, or as `indented` JSON.
    """

    by_piece = True  # else a skeleton is of a whole conversation, of which rules see more
    top: Sequence[str] = ()  # top-level keys that are fields, too

    def __init__(
        self, free: Free, table: TokenTable, tools_body: str, opt_out: str, *, indented: bool
    ) -> None:
        self.free, self.table, self.opt_out = free, table, opt_out
        self.tools_body, self.indented = tools_body, indented
        self.only_chats = isinstance(table.tagged, BareKeys) or tools_body == "template"
        self.tools_as_json = indented or layout_of(tools_body) != ()
        # With these characters tags begin; "" for any.
        plain = (pattern(t, core=True)[:2].lstrip("\\")[:1].strip("([") for t in table.plain_tags)
        self.first = {*(tag[:1] for tag in table.special), *plain}
        self.matches, self.is_id = free.names.fullmatch, free.ids.fullmatch
        self.learnt: list[str] = []  # keys of metadata
        self.nulls: list[str] = []  # keys of messages that are null
        self._compile()

    def _compile(self) -> None:
        """Takes the types above, with fields for what `learn` saw."""
        types = types_of((*self.learnt,), (*self.nulls,), (*self.top,))
        self.user, self.answer, self.result, *_ = types.kinds
        self.roles: dict[Any, str] = {kind: str(kind.__struct_config__.tag) for kind in types.kinds}
        # What reads metadata, and keys that are null, of messages and of records.
        fields = {kind: msgspec.structs.fields(kind) for kind in types.kinds}
        self.getters = {
            kind: [attrgetter(field.name) for field in some if field.encode_name != field.name]
            for kind, some in fields.items()
        }
        self.of_record = [attrgetter(name) for name, *_ in types.fields]
        self.decode, self.decode_plain = types.decode, types_of((), (), ()).decode

    def learn(self, raw: bytes) -> bool:
        """Makes fields of the metadata in a line, and of keys that are null."""
        try:
            record = msgspec.json.decode(raw)
            messages = record["messages"]
            items = dict.fromkeys(key for item in (record, *messages) for key in item)
            pairs = (pair for message in messages for pair in message.items())
            nulls = dict.fromkeys(k for k, value in pairs if value is None and k in NULLABLE)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False
        before = len(self.learnt), len(self.nulls)
        self.learnt += new_notes(items, self.opt_out, self.learnt)
        self.nulls += [key for key in nulls if key not in self.nulls]
        if before == (len(self.learnt), len(self.nulls)):
            return False
        self._compile()
        return True

    def split(self, lines: list[bytes]) -> Splits:
        """Returns what lines split into.

        Most messages are read here, without a call of a function, and in a branch for each type:
        there the interpreter knows where a field is.
        """
        keys: list[Any] = []
        texts: list[str] = []
        ends: list[int] = []
        records: list[Any] = []
        more: dict[int, Split] = {}
        decode, free, words = self.decode, texts.append, set[str]()
        user, answer, result = self.user, self.answer, self.result
        learnt, by_piece = self.has_notes(), self.by_piece
        for i, raw in enumerate(lines):
            record = None
            try:
                record = decode(raw)
                tools: Any = None
                options = b""
                if record.tools is not _ABSENT:
                    if self.only_chats:
                        raise WholeRecord
                    tools = bytes(record.tools)
                if record.chat_template_kwargs is not _ABSENT:
                    options = bytes(record.chat_template_kwargs)
                    options.decode()  # raw JSON may be no UTF-8, which is an error of the line
                null = tools if tools is None else tools == _NULL
                skeleton: list[Any] = [null, options, record.language]
                # What is made for each line takes time: there are lists only where there are calls.
                values = names = _NONE
                quoted = 0
                add = skeleton.append
                notes = self._notes(record, add) if learnt else _NONE
                # The numbers of ids, and of names of tools, of one piece of the record.
                ids: dict[str, int] = {}
                called: dict[str, int] = {}
                before: Any = None
                trains = None  # whether any answer is trained, if there are answers
                for message in record.messages:
                    kind = type(message)
                    add(kind)
                    if kind is user:
                        content = message.content
                        if content:
                            free(content)
                        else:
                            add(content)
                        if (ids or called) and by_piece:
                            ids, called = {}, {}
                    elif kind is answer:
                        if before is result and by_piece:
                            ids, called = {}, {}
                        if message.thinking is message.reasoning is UNSET:
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
                            _add_texts(message, add, free)
                        weight = message.weight
                        if weight is UNSET:
                            trains = True
                        else:
                            add(_weight(weight) if by_piece else (type(weight), weight))
                            trains = trains or weight != 0
                        calls = message.tool_calls
                        if calls is not UNSET:
                            if self.only_chats:
                                raise WholeRecord
                            add(type(calls))
                            if calls and values is _NONE:
                                values, names = [], []
                            for call in calls or _NONE:
                                function, ident = call.function, call.id
                                name, arguments = function.name, function.arguments
                                names.append(name)
                                if ident:
                                    if ident in ids:
                                        if not by_piece:
                                            raise WholeRecord
                                        ident = ids[ident]
                                    elif self.is_id(ident):
                                        ident = ids.setdefault(ident, len(ids))
                                if name in called:
                                    name = called[name]
                                elif name in words or self._free(name, words):
                                    name = called.setdefault(name, len(called))
                                if type(arguments) is dict:
                                    values.append(arguments)
                                    skeleton += ident, call.type, name, _OBJECT
                                    continue
                                if arguments[:1] == "{":
                                    value, quotes = _unquoted(arguments)
                                    values.append(value)
                                    quoted += quotes
                                    arguments = _QUOTED
                                skeleton += ident, call.type, name, arguments
                    elif kind is result:
                        content, ident, name = message.content, message.tool_call_id, message.name
                        if content:
                            free(content)
                            content = _TEXT
                        if ident:
                            if ident in ids:
                                ident = ids[ident]
                            elif self.is_id(ident):
                                ident = ids.setdefault(ident, len(ids))
                        if name in called:
                            name = called[name]
                        elif name and (name in words or self._free(name, words)):
                            name = called.setdefault(name, len(called))
                        skeleton += content, ident, name
                    else:
                        content = message.content
                        if content:
                            free(content)
                        else:
                            add(content)
                    before = kind
                if trains is False:
                    raise WholeRecord  # no answer is trained, which no piece tells
                keys.append(tuple(skeleton))
                if names or notes or tools is not None:
                    more[i] = Split(notes, values, quoted, None if tools == _NULL else tools, names)
            except (ValueError, RecursionError, TypeError, KeyError, WholeRecord):
                keys.append(None)
                del texts[ends[-1] if ends else 0 :]
            ends.append(len(texts))
            records.append(record)
        return Splits(keys, texts, ends, more, records)

    def _free(self, name: str, words: set[str]) -> bool:
        """Returns whether a name can be any other in its place; adds it to the words that can."""
        if self.matches(name) is None:
            return False
        words.add(name)
        return True

    def has_notes(self) -> bool:
        """Returns whether there are fields of metadata, or of keys that are null."""
        return bool(self.learnt or self.nulls)

    def _notes(self, record: Any, add: _Add) -> list[Any]:
        """Returns the metadata values of a record and its messages; none of them is added."""
        notes = [of(record) for of in self.of_record]
        notes += [of(message) for message in record.messages for of in self.getters[type(message)]]
        notes = [value for value in notes if value is not UNSET]
        for value in notes:
            shallow(value)
        return notes

    def keys(self, key: Any) -> list[bytes]:
        """Returns the keys of the head and of the pieces after it, which hold that of the head.

        A piece is judged with the piece before it, if that is of the same turn, and with who speaks
        after it.
        """
        head: list[Any] = []
        rests = [head]
        piece, before = head, ""
        for part in key:
            role = self.roles.get(part)
            if role is None:
                piece.append(part)
                continue
            if begins_piece(role, before):
                rests[-1].append(role)
                around = 0 if role == "user" or piece is head else piece
                piece = []
                rests.append([around, piece])
            piece.append(role)
            before = role
        first = repr(head).encode()
        if len(rests) == 1:
            return [first + b"!"]  # the head is judged as the whole record that it is
        if len(first) > _LONG:
            first = blake2b(first, digest_size=20).digest()
        return [first, *[first + repr(rest).encode() for rest in rests[1:]]]

    def pieces(self, raw: bytes) -> list[Piece]:
        """Returns the head and the pieces of a line, with no more than its skeleton shows."""
        record = msgspec.json.decode(encode_value(self.decode_plain(raw)))
        messages = record["messages"]
        starts = [*begins([message["role"] for message in messages]), len(messages)]
        head = messages[: starts[0]]
        parts = [messages[start:end] for start, end in pairwise(starts)]
        content = record | {"messages": [bare_message(message) for message in head]}
        if record.get("tools") is not None:
            content["tools"] = 0
        out = [Piece(None if parts else record, content)]
        following = [part[0]["role"] for part in parts[1:]] + [""]
        for (earlier, part), role in zip(pairwise([head, *parts]), following, strict=False):
            around = [] if part[0]["role"] == "user" or earlier is head else earlier
            if around and around[0]["role"] != "user":
                around = [_QUESTION, *around]
            messages = [_trained(message) for message in (*head, *around, *part)]
            smallest = record | {"messages": [*messages, *_AFTER[role]]}
            out.append(Piece(smallest, [bare_message(message) for message in part]))
        return out

    def tools_text(self, tools: Any) -> str:
        """Returns the definitions of tools, or what JSON says of them, as a text has them."""
        tools = loads(tools) if isinstance(tools, str) else tools
        write = (
            write_indented if self.indented else partial(write_definitions, kind=self.tools_body)
        )
        text = write(tools, literals=NO_TAG)
        has_tags = any(first in text for first in self.first)
        return write(tools, literals=self.table.literals) if has_tags else text


def begins(roles: list[str]) -> list[int]:
    """Returns the numbers of the messages of these roles that begin pieces."""
    return [i for i, both in enumerate(pairwise(["", *roles])) if begins_piece(both[1], both[0])]


def begins_piece(role: str, before: str) -> bool:
    """Returns whether a piece begins with a message; `before` is the role of the one before it."""
    return role == "user" or (role == "assistant" and before == "tool")


def _weight(weight: Any) -> Any:
    """Returns the placeholder of a weight that can be any other, else what tells it apart."""
    return _WEIGHT if is_free_weight(weight) else (weight.__class__, weight)


def _trained(message: dict[str, Any]) -> dict[str, Any]:
    """Returns a message with a weight other than 0: other pieces may train something."""
    return message | {WEIGHT: 1} if message.get(WEIGHT) == 0 else message


def bare_message(message: dict[str, Any]) -> dict[str, Any]:
    """Returns a message without arguments whose strings are counted with the values of a line."""
    calls = message.get("tool_calls") or []
    bare = [
        call | {"function": call["function"] | {"arguments": 0}}
        if call["function"]["arguments"].__class__ is dict
        else call
        for call in calls
    ]
    return message | {"tool_calls": bare} if bare else message


def unescaped_quotes(data: bytes | bytearray) -> int:
    """Returns how many quotes follow an even number of backslashes: two a string in valid JSON."""
    count = data.count(b'"')
    if b"\\" not in data:
        return count
    odd = _ODD.search(data)
    return count - (_ESCAPES.findall(data).count(b'\\"') if odd else data.count(b'\\"'))


def _unquoted(text: str) -> tuple[Any, int]:
    """Returns the arguments in a JSON text and its quotes; raises for a key that is there twice."""
    value, quotes = _decode(text), unescaped_quotes(text.encode())
    if quotes != unescaped_quotes(encode_value(value)):
        raise WholeRecord
    return value, quotes


def _add_texts(message: Any, add: _Add, free: _Add) -> None:
    texts = message.reasoning_content, message.thinking, message.reasoning, message.content
    if sum(map(bool, texts[:3])) > 1:
        raise WholeRecord  # thoughts are compared
    add(_SEVERAL)
    for text in texts:
        if text:
            free(text)
            add(_TEXT)
        else:
            add(text)
