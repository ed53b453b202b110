"""Makes an adapter of a dialect's `records.toml`, so that most formats need no code.

Input is the text of the file, the token table and the automaton; output is an `Adapter`. A record
holds a list of messages, and each `[[message]]` of the file says which block one role becomes, by
the keys that `grammar/records.schema.json` describes.

"content" is the text of the block itself. Any other key is a block, inside that of the message
where the grammar takes it there, else before or after it. A block that holds one call has the keys
"name" and "arguments" in place of its own; one that holds JSON has any JSON value. A file that says
`shape = "messages"` says what `messages.Messages` is to know.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from mypt_spec.adapters.base import Adapter, Reader, other_names
from mypt_spec.adapters.messages import SHAPE, Messages
from mypt_spec.adapters.template_options import options_of, system_text_of
from mypt_spec.adapters.tool_chat import CALL
from mypt_spec.automaton import Automaton
from mypt_spec.bodies.definitions import defines_tools
from mypt_spec.bodies.json_body import calls_in
from mypt_spec.episode import Episode, Message, Part, patterns_of
from mypt_spec.record_schema import (
    JSON,
    LANGUAGE,
    LIST,
    ROLE,
    STRING,
    Field,
    RecordSchema,
    metadata,
)
from mypt_spec.rules.shared_mistakes import Chat, Path
from mypt_spec.states import open_blocks
from mypt_spec.table import CALLS, DEFINITIONS, LISTS, Terminal, TokenTable
from mypt_spec.table_file import Need, TomlFile

_CONTENT, _NAME, _ARGUMENTS = "content", "name", "arguments"
_CALLS = ("call", "function")
_BODIES = ("text", "json", *_CALLS)
_CODE = "write an adapter.py for it"
# The pieces of a chat that messages of the usual roles are.
_PIECES = {"system": "system", "developer": "developer", "user": "user", "assistant": "answer"}


class _Key(NamedTuple):
    """A key of a message: the block that it becomes, what that holds, and where it is.

    `place` is where its block is, from that of the message: "inside", "before" or "after". The kind
    and the body of the content are those of the message's own block.
    """

    name: str
    kind: str
    body: str
    place: str


class _Role(NamedTuple):
    """A role of records: its block, its keys in order, and the mark after it ("" for none)."""

    name: str
    block: str
    keys: tuple[_Key, ...]
    end: str


def declared(
    source: str, table: TokenTable, automaton: Callable[[], Automaton], *, where: str
) -> Adapter:
    """Returns the adapter that a `records.toml` declares; `automaton` is called if it matters.

    Raises SpecError, which names the file `where`, the entry, and what was expected.
    """
    return _File(where, table, automaton).adapter(source)


class Declared(Adapter):
    """Knows records by what a `records.toml` says of them."""

    def __init__(
        self, schema: RecordSchema, roles: tuple[_Role, ...], begin: str = "", shared: bool = True
    ) -> None:
        self.SCHEMA = schema
        self.begin, self.shared = begin, shared
        self.roles = {role.name: role for role in roles}
        self.marks = {role.end for role in roles if role.end} | ({begin} - {""})

    @property
    def chat(self) -> Chat | None:
        """Returns the blocks of roles with the usual names, and the mark that comes first."""
        if not self.shared:
            return None
        begin = {"begin": (self.begin,)} if self.begin else {}
        usual = {_PIECES[n]: (role.block,) for n, role in self.roles.items() if n in _PIECES}
        return Chat(begin | usual)

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record, with the blocks before and after each, and its end."""
        out = [Message(self.begin, at=reader.at(0, ROLE))] if self.begin else []
        for i, message in enumerate(record[self.SCHEMA.messages]):
            role, at = self.roles[message[ROLE]], reader.at(i, ROLE)
            parts: list[Part] = []
            alone: dict[str, list[Message]] = {"before": [], "after": []}
            for key in role.keys:
                part = _part(key, message, i, reader)
                if part is None:
                    continue
                if key.place == "inside":
                    parts.append(part)
                else:
                    texts = (Part("text", part.text, at=part.at),) if part.text else ()
                    alone[key.place].append(Message(key.kind, texts, at=part.at))
            block = Message(role.block, tuple(parts), at=at, meta=metadata(message))
            out += [*alone["before"], block, *alone["after"]]
            out += [Message(role.end, at=at)] if role.end else []
        return out

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        """Returns the canonical record of an Episode. Raises ValueError for a block of no role."""
        written: list[dict[str, Any]] = []
        waiting: dict[str, str] = {}
        for message in episode.messages:
            if message.role in self.marks:
                continue
            role = self._role(message, waiting)
            if role is not None:
                written.append(_written(role, message, waiting) | message.meta)
                waiting = {}
            elif written and message.role in (after := self._after(written[-1][ROLE])):
                written[-1][after[message.role]] = message.text
            else:
                waiting[message.role] = message.text
        if waiting:
            raise ValueError(f"no message of a record holds the block {next(iter(waiting))!r}")
        return {self.SCHEMA.messages: written}

    def _role(self, message: Message, waiting: dict[str, str]) -> _Role | None:
        """Returns the role whose keys can say a message and the blocks that wait for it."""
        kinds = {part.kind for part in message.parts} - {"text"}
        for role in self.roles.values():
            key_kinds = {key.kind for key in role.keys}
            called = {k.kind for k in role.keys if k.body in _CALLS and k.name != _CONTENT}
            if role.block == message.role and called <= kinds and kinds | set(waiting) <= key_kinds:
                return role
        return None

    def _after(self, name: str) -> dict[str, str]:
        """Returns the keys whose blocks follow the block of a role, by kind."""
        return {key.kind: key.name for key in self.roles[name].keys if key.place == "after"}


def _part(key: _Key, message: dict[str, Any], index: int, reader: Reader) -> Part | None:
    """Returns what a key of a message holds; None where it is missing, or content is empty."""
    if key.body in _CALLS:
        at, name_at = reader.at(index, _ARGUMENTS), reader.at(index, _NAME)
        part = reader.call(key.kind, message[_NAME], message[_ARGUMENTS], at, name_at)
        return replace(part, kind="text") if key.name == _CONTENT else part
    if key.name not in message or (key.name == _CONTENT and message[key.name] == ""):
        return None
    at, value = reader.at(index, key.name), message[key.name]
    text = reader.json(value, at).text if key.body == "json" else value
    return Part("text" if key.name == _CONTENT else key.kind, text, at=at)


def _written(role: _Role, message: Message, waiting: dict[str, str]) -> dict[str, Any]:
    """Returns a message of a record without its metadata."""
    out: dict[str, Any] = {ROLE: role.name}
    inside = {part.kind: part for part in message.parts}
    for key in role.keys:
        if key.name == _CONTENT:
            out |= _message_keys(key, message.text)
        elif key.kind in inside:
            out |= _message_keys(key, inside[key.kind].text)
        elif key.kind in waiting:
            out[key.name] = waiting[key.kind]
    return out


def _message_keys(key: _Key, text: str) -> dict[str, Any]:
    """Returns the keys of a message that say what a block holds."""
    if key.body in _CALLS:
        (call,) = calls_in(json.loads(text), key.body, ())
        return {_NAME: call.name, _ARGUMENTS: call.arguments}
    return {key.name: json.loads(text) if key.body == "json" else text}


class _File(TomlFile):
    """A `records.toml` while it is read, and the dialect that it belongs to."""

    def __init__(self, where: str, table: TokenTable, automaton: Callable[[], Automaton]) -> None:
        super().__init__(where)
        self.table, self.automaton = table, automaton

    def adapter(self, source: str) -> Adapter:
        data = self.read(source, "records")
        if data.get("shape") == SHAPE:
            return _messages(data, self.table, self.need)
        fine = not any(t.strip or t.prefix + t.suffix for t in self.table.terminals.values())
        message = f'"strip", "prefix" and "suffix" in tokens.toml need shape = "{SHAPE}"'
        self.need(fine, '"shape"', message)
        messages, begin = data.get("messages", "messages"), data.get("begin", "")
        self.mark(begin, '"begin"')
        roles: dict[str, _Role] = {}
        fields: dict[str, dict[str, Field]] = {}
        aliases: dict[str, str] = {}
        for row in data["message"]:
            role, shape = self.role(row)
            self.need(role.name not in roles, f"[[message]] {role.name}", "occurs twice")
            roles[role.name], fields[role.name] = role, shape
            aliases |= dict.fromkeys(row.get("aliases", ()), role.name)
        top = {messages: Field(LIST), "language": Field(LANGUAGE, required=False)}
        trained = (r.name for r in roles.values() if self.table.openers[r.block].body_loss)
        aliases, weighs = other_names(roles) | aliases, frozenset(trained)
        schema = RecordSchema(top, fields, aliases=aliases, messages=messages, weighs=weighs)
        return Declared(schema, tuple(roles.values()), begin, data.get("shared_mistakes", True))

    def mark(self, name: object, entry: str) -> None:
        """Raises SpecError if a mark has a name that the token table does not know."""
        marks = self.table.marks
        names = ", ".join(marks) or "none"
        self.need(name == "" or name in marks, entry, f"no mark {name!r}; marks are {names}")

    def role(self, row: dict[str, Any]) -> tuple[_Role, dict[str, Field]]:
        """Returns (role, its fields) of a `[[message]]`."""
        name, keys, kinds = row["role"], row.get("keys", [_CONTENT]), row.get("blocks", {})
        block, end, entry = row.get("block", name), row.get("end", ""), f"[[message]] {name}"
        self.block(block, entry)
        self.mark(end, entry)
        for key in [*row.get("optional", ()), *row.get("before", ()), *kinds]:
            self.need(key in keys, entry, f'{key!r} is not among its "keys"')
        first = {*keys[: [*keys, _CONTENT].index(_CONTENT)], *row.get("before", ())}
        role_keys = tuple(
            self.key(k, kinds.get(k, k), block, entry, alone="before" if k in first else "after")
            for k in keys
        )
        self.need(sum(k.body in _CALLS for k in role_keys) <= 1, entry, f"several calls; {_CODE}")
        optional = {*row.get("optional", {*keys} - {_CONTENT})}
        return _Role(name, block, role_keys, end), _fields(role_keys, optional)

    def block(self, kind: str, entry: str) -> Terminal:
        """Returns the terminal that opens a kind of block. Raises SpecError if none does."""
        openers = self.table.openers
        self.need(kind in openers, entry, f"no block {kind!r}; blocks are {', '.join(openers)}")
        self.need(not openers[kind].patterns, entry, f"{kind!r} has attributes; {_CODE}")
        body = openers[kind].body
        self.need(body in _BODIES, entry, f"{kind!r} has a body of kind {body!r}; {_CODE}")
        return openers[kind]

    def key(self, name: str, kind: str, block: str, entry: str, *, alone: str) -> _Key:
        """Returns what a key becomes; `alone` is its place if not inside. Raises SpecError."""
        if name == _CONTENT:
            return _Key(name, block, self.table.openers[block].body, "inside")
        opener = self.block(kind, entry)
        inside = kind in self.table.closers and any(
            stack[-1:] == (block,)
            and opener.name in (row := self.automaton().steps[state])
            and stacks[row[opener.name]] == (*stack, kind)
            for stacks in [open_blocks(self.automaton(), self.table)]
            for state, stack in stacks.items()
        )
        self.need(inside or opener.body == "text", entry, f"{kind!r} is a block by itself; {_CODE}")
        return _Key(name, kind, opener.body, "inside" if inside else alone)


def _fields(keys: tuple[_Key, ...], optional: set[str]) -> dict[str, Field]:
    """Returns the fields of a message with these keys."""
    out: dict[str, Field] = {}
    for key in keys:
        if key.body in _CALLS:
            out |= CALL
        else:
            kind = JSON if key.body == "json" else STRING
            out[key.name] = Field(kind, required=key.name not in optional)
    return out


def _messages(source: dict[str, Any], table: TokenTable, need: Need) -> Messages:
    """Returns the adapter that a `records.toml` with `shape = "messages"` declares."""
    begin, finish = source.get("begin", ""), source.get("finish", "")
    need(begin in {"", *table.marks}, '"begin"', f"no mark {begin!r}")
    need(finish in {"", *table.marks}, '"finish"', f"no mark {finish!r}")
    paths: dict[str, Path] = {}
    for piece, value in source["blocks"].items():
        entry, path = f"[blocks] {piece}", tuple(value.split("/"))
        fine = len(path) <= 2 and all(kind in table.openers for kind in path)
        need(fine, entry, f"no block {value!r}; blocks are {', '.join(table.openers)}")
        body = table.openers[path[-1]].body
        bodies = {"call": (*CALLS, *LISTS), "tools": DEFINITIONS, "result": ("text", "json")}.get(
            piece, ("text",)
        )
        fine = body in bodies or (piece == "tools" and defines_tools(body))
        need(fine, entry, f"its body is {body!r}; expected {' or '.join(bodies)}")
        attrs = set(patterns_of(path[-1], table))
        fine = piece in ("answer", "thought") or not table.openers[path[-1]].prefix
        need(fine, entry, '"prefix" is for the blocks of answers and thoughts')
        fine = piece in ("system", "developer") or not table.openers[path[-1]].suffix
        need(fine, entry, '"suffix" is for the blocks of system messages')
        allowed = {"name", "id"} if piece in ("call", "result") else set()
        need(attrs <= allowed, entry, f"{path[-1]!r} has attributes that no record has")
        paths[piece] = path
    intro, after = (source.get("tools", {}).get(key, "") for key in ("before", "after"))
    need(not (intro and "tools" in paths), "[tools]", "[blocks] has a block for them")
    tools_before, options = source.get("tools_before", "first"), options_of(source, paths, need)
    together = not after or paths.get("tools", ())[:-1] == paths.get("system")
    fine = {"tools", "system"} <= {*paths} and bool(options.system or not options.block)
    text = '"system" needs tools and system in [blocks], in one for "after", and no [options]'
    text += ' but with a "system"'
    need(fine and together if tools_before == "system" else not after, '"tools_before"', text)
    late = source.get("text_after_results", False)
    fine = "call" in paths and paths.get("result", ("",))[0] == paths["answer"][0]
    need(fine or not late, '"text_after_results"', "needs calls, and results in the answer's block")
    fine = late != "ended" or paths["answer"][0] in {t.opens for t in table.resumed.values()}
    need(fine, '"text_after_results"', 'is "ended", and no row "resumes" the block of answers')
    texts = [p.value for t in table.terminals.values() for p in t.spelling if p.kind == "text"]
    system, strip = system_text_of(source, texts, need), source.get("tools", {}).get("strip", "")
    need(not (strip and system.question), "[tools]", '"strip" is that of [system], too')
    system = system._replace(strip=strip or system.strip)
    fine = system.mark in {"", *table.marks}
    need(fine, "[defaults]", f'"without_system": no mark {system.mark!r}')
    return Messages(
        paths, table, begin, finish, tools_before=tools_before, intro=intro, after_tools=after,
        late=late, options=options, system=system,
    )  # fmt: skip
