"""States what an adapter is, and shares what adapters need: places, inline tags, JSON bodies.

No dialect's JSON is known here; each adapter knows that of one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mypt_spec.adapters.template_options import SystemText
from mypt_spec.bodies.json_body import NAME, call_text, calls_in
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.episode import Episode, Message, Part, Place, merge_text
from mypt_spec.findings import Finding
from mypt_spec.lexer import lex
from mypt_spec.record_schema import RecordSchema, check_record, metadata
from mypt_spec.rules.context import Context
from mypt_spec.rules.shared_mistakes import Chat
from mypt_spec.table import TEXT, Terminal, TokenTable

# Names of the two roles in other chat data.
CHAT_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant"}


def other_names(roles: Collection[str]) -> dict[str, str]:
    """Returns other names that chat data have for some of these roles."""
    names = CHAT_ROLES | {"developer": "system"}
    return {name: role for name, role in names.items() if role in roles and name not in roles}


class Adapter(ABC):
    """Turns the records of one dialect into messages and back.

    A subclass states `SCHEMA`, `read` and `write`. The other methods are hooks: what they do here
    is right for a dialect whose records are wholly described by `SCHEMA`; where they are not, its
    class is registered with `splitter.splitter`, too. The instance that a dialect uses is `ADAPTER`
    of adapters/<dialect>.py; it holds no state, so threads may share it.
    """

    SCHEMA: RecordSchema
    system = SystemText()
    ordered = False  # whether results have no ids, and so come in the order of their calls
    quoted = False  # whether results, which are texts in records, are JSON strings in the text

    @abstractmethod
    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a checked record; faults go to `reader.findings`."""

    @abstractmethod
    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        """Returns the canonical record of an Episode, without its metadata.

        Raises ValueError when no record can express the Episode.
        """

    def check(self, record: Any) -> tuple[dict[str, Any] | None, list[Finding], str]:
        """Returns (record to read or None, findings, lifted) of any JSON value.

        See `record_schema.check_record`, which this is unless SCHEMA cannot state all of a record's
        shape.
        """
        return check_record(record, self.SCHEMA)

    def metadata(self, record: dict[str, Any]) -> dict[str, Any]:
        """Returns what an Episode keeps of a checked record besides its text."""
        return metadata(record)

    def prompted(self, meta: Mapping[str, Any]) -> frozenset[str]:
        """Returns the kinds of block that a prompt ends with, empty, where an Episode has this
        metadata: the model writes after them, so they are not trained.
        """
        return frozenset()

    @property
    def prompting(self) -> tuple[dict[str, Any], ...]:
        """Returns the metadata for which `prompted` has kinds, each with others than before."""
        return ()

    def tools(self, episode: Episode) -> list[dict[str, Any]]:
        """Returns the definitions of tools in an Episode, to which rules hold calls."""
        return []

    def validate(self, context: Context, findings: list[Finding]) -> list[Finding]:
        """Returns the findings about an Episode, completed by what a record says about its text."""
        return findings

    def block_of(self, message: dict[str, Any], key: str) -> Terminal | None:
        """Returns the tag whose block changes a text, by role and keys of a message; or None."""
        return None

    def keeps(self, message: dict[str, Any], key: str) -> bool:
        """Returns whether a text of a message of a record is in its block as it is."""
        block = self.block_of(message, key)
        return block is None or block.stripped(message[key]) == message[key]

    def default_system(self, *, tools: bool) -> str:
        """Returns the text of the system message of a record that has none, "" for no message."""
        return self.system.default_with_tools if tools else self.system.default

    @property
    def chat(self) -> Chat | None:
        """Returns what the pieces of a chat are, where faults have the names that all chats have.

        None where the token table alone has names for them.
        """
        return None

    def preference(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, bool | None]:
        """Returns (other, label), the judgement in a legal record, as `Dialect.preference` does."""
        return None, None

    @property
    def ranks(self) -> bool:
        """Returns whether records can rank two answers or label one: `preference` is overridden."""
        return type(self).preference is not Adapter.preference


class Reader:
    """One reading of one record: the token table, the findings so far, and places in the record.

    `lifted` is the top-level key whose text was the first message. Places are those of the record
    as it was given, with that message.
    """

    def __init__(self, table: TokenTable, findings: list[Finding], lifted: str = "") -> None:
        self.table, self.findings, self.lifted = table, findings, lifted

    def top(self, key: str) -> Place:
        """Returns the place of the text of a top-level key."""
        return Place("/messages/0/content" if key == self.lifted else f"/{key}")

    def at(self, index: int, key: str) -> Place:
        """Returns the place of a key of message `index`."""
        return Place(f"/messages/{index + bool(self.lifted)}/{key}")

    def inline(self, text: str, at: Place, *kinds: str) -> list[Part]:
        """Cuts a string into text and the well-formed blocks of `kinds` in it.

        Any other tag stays text, for the rules to find.
        """
        if not kinds or not self.table.literals.search(text):
            return [Part("text", text, at=at)]
        openers, closers = self.table.openers, self.table.closers
        forms = {f"{openers[kind].name} {TEXT} {closers[kind].name}": kind for kind in kinds}
        events, pos = list(lex(text, self.table)), 0
        parts: list[Part] = []
        while pos < len(events):
            kind = forms.get(" ".join(e.terminal for e in events[pos : pos + 3]), "text")
            event = events[pos if kind == "text" else pos + 1]
            parts.append(Part(kind, event.text, event.attrs, Place(at.pointer, event.at.span)))
            pos += 1 if kind == "text" else 3
        return list(merge_text(parts))

    def call(
        self, kind: str, name: str, arguments: dict[str, Any], at: Place, name_at: Place
    ) -> Part:
        """Returns a tool call as a part with its canonical JSON body; a tag may have its name."""
        text = call_text(name, arguments, self.table.literals, self.table.openers[kind].body)
        attrs = ((NAME, name),) if self.table.openers[kind].patterns else ()
        return Part(kind, text, attrs, at, name_at)

    def json(self, value: Any, at: Place) -> Part:
        """Returns a JSON value as a text part."""
        return Part("text", canonical(value, self.table.literals), at=at)


class Unread(Adapter):
    """Reads no records: those of a dialect whose `adapter.py` was left behind."""

    SCHEMA = RecordSchema({}, {})

    def check(self, record: Any) -> tuple[dict[str, Any] | None, list[Finding], str]:
        message = "nothing here says how to read records of this dialect"
        hint = "name the folder with its adapter.py: --dialect ./FOLDER"
        return None, [Finding("MYP101", message, help=hint)], ""

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        return []

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        raise ValueError("nothing here says how to write records of this dialect")


def spelled(parts: Iterable[Part], table: TokenTable, *kinds: str) -> str:
    """Returns parts as one string with inline tags: the inverse of `Reader.inline`.

    Raises ValueError when a text part holds a tag literal that would be read back as a part of one
    of `kinds`.
    """
    out = ""
    for part in parts:
        text = part.text
        if part.kind != "text":
            opener, closer = table.openers[part.kind], table.closers[part.kind]
            text = f"{opener.spell(part.attrs)}{text}{closer.spell(part.attrs)}"
        elif kinds and len({event.terminal for event in lex(text, table)} - {TEXT}) > 1:
            message = f"{text[:80]!r} as text would be read back as a tag"
            raise ValueError(f"no record can say this: {message}")
        out += text
    return out


def call_of(part: Part) -> tuple[str, dict[str, Any]]:
    """Returns name and arguments of a "call" in a part, whose tag may have the name.

    Raises ValueError for any other body.
    """
    value = json.loads(part.text)
    if not part.attrs and not (isinstance(value, dict) and isinstance(value.get(NAME), str)):
        raise ValueError(f"not a tool call: {part.text[:80]!r}")
    (call,) = calls_in(value, "arguments" if part.attrs else "call", part.attrs)
    return call.name, call.arguments
