"""Groups an item into blocks to show, in order, with findings where they belong.

An episode is grouped by the tags of its token table, an unreadable record by its messages. Nothing
here knows a dialect.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mypt_records.chat import Message, Text
from mypt_records.reading import below
from mypt_records.shapes import read
from mypt_records.shapes.tables import tables
from mypt_spec.bodies.strict_json import Fault, loads
from mypt_spec.dialect import Dialect
from mypt_spec.encoder import Segment
from mypt_spec.episode import Event
from mypt_spec.findings import Finding
from mypt_spec.patch import in_common
from mypt_spec.states import before_tag, open_blocks
from mypt_spec.table import TEXT
from mypt_view.items import Item, plain_event

# How a block looks, by words in its kind: the first that matches. Any other block looks like text
# of its side, the model or the others.
_LOOKS = {
    "think": re.compile("think|reason|reflect"),
    "tool": re.compile("result|tout|^tool$|tool_(name|call_id)"),
    "call": re.compile("calls?$|^tin$"),
    "system": re.compile("system|developer|functions"),
    "user": re.compile("^user$"),
    "raw": re.compile("^line$"),
    "meta": re.compile("^metadata$"),
}
_ROLES, _CONTENTS = ("role", "from"), ("content", "value")  # of messages of any shape
_ON_ONE_LINE = 60  # characters of JSON that need not be broken into lines
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|, *')
Mark = tuple[int, int, str]  # a range of an event's text, and the severity of its finding


@dataclass(slots=True)
class Chunk:
    """A tag or a text run. `inline` is the block inside the shown one that it belongs to, if any.

    `json`: the text is JSON because it was no text in the record.
    """

    event: Event
    segment: Segment | None = None
    inline: str = ""
    marks: list[Mark] = field(default_factory=list)
    json: bool = False

    @property
    def is_tag(self) -> bool:
        return self.event.terminal != TEXT


@dataclass(slots=True)
class Block:
    """A bubble. `kind` is a block or mark of the dialect, or a role or key of an unread record.

    `model` says that the model writes it, `nested` that it is inside another block.
    """

    kind: str
    title: str
    model: bool = False
    nested: bool = False
    chunks: list[Chunk] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def style_name(self) -> str:
        """Returns its style: think, tool, call, system, user, raw, meta, model or other."""
        return next(
            (look for look, words in _LOOKS.items() if words.search(self.kind)),
            "model" if self.model else "other",
        )

    @property
    def visible(self) -> bool:
        """Returns whether there is anything to show when tags are not."""
        return bool(self.findings) or any(
            chunk.event.text and not chunk.is_tag for chunk in self.chunks
        )

    def breaks(self, chunk: Chunk) -> list[tuple[int, int]]:
        """Returns where to break the text of one of its chunks into lines; see `line_breaks`."""
        breakable = chunk.json or (self.style_name in ("call", "tool") and not chunk.is_tag)
        return line_breaks(chunk.event.text) if breakable else []


def blocks_of(item: Item) -> tuple[list[Block], list[Finding]]:
    """Returns the blocks, and the findings that are about none of them."""
    events = item.events()
    if events is not None:
        segments: Sequence[Segment | None] = item.segments or [None] * len(events)
        chunks = [Chunk(event, segment) for event, segment in zip(events, segments, strict=True)]
        blocks = [*_grouped(chunks, item.dialect), *_metadata(item)]
    elif item.shape in tables() and (messages := read(item.value, item.shape).messages):
        blocks = [block for message in messages for block in _of_message(message)]
    elif item.value is not None:
        blocks = list(_of_value(item.value, item.dialect))
    else:
        blocks = [_block_of("line", Chunk(plain_event(item.raw, "", span=True)))]
    return blocks, _place(item, blocks)


@cache
def inline_kinds(dialect: Dialect) -> frozenset[tuple[str, str]]:
    """Returns (block, inner block) where the inner may be amid text, as a citation is."""
    table, machine = dialect.table, dialect.automaton
    pairs = set()
    for state, stack in open_blocks(machine, table).items():
        behind = machine.steps[state].get(TEXT)
        if len(stack) != 1 or behind is None or stack[0] not in table.closers:
            continue
        for name in machine.steps[behind]:
            kind = table.terminals[name].opens if name != TEXT else ""
            if kind and (table.openers[kind].body == "text" or table.openers[stack[0]].quotes):
                pairs.add((stack[0], kind))
    return frozenset(pairs)


def _grouped(chunks: list[Chunk], dialect: Dialect) -> list[Block]:
    table, inline = dialect.table, inline_kinds(dialect)
    blocks: list[Block] = []
    stack: list[tuple[str, bool]] = []  # open blocks, and whether each is shown inside its outer
    current: Block | None = None

    def begin(kind: str, attrs: Sequence[tuple[str, str]] = ()) -> Block:
        opener = table.openers.get(kind) or table.marks.get(kind)
        name = kind.replace("_", " ") or ("between blocks" if table.terminals else "text")
        title = " · ".join([name, *(value for _, value in attrs)])
        by_model = opener is not None and opener.body_by_model
        blocks.append(Block(kind, title, by_model, len(stack) > 1))
        return blocks[-1]

    for chunk in chunks:
        terminal = table.terminals.get(chunk.event.terminal)
        if terminal is None:
            if current is None and (stack or not chunk.event.text.isspace()):
                current = begin(stack[-1][0] if stack else "")
            if stack and stack[-1][1]:
                chunk.inline = stack[-1][0]
            (current or begin("")).chunks.append(chunk)
            continue
        still = before_tag(tuple(kind for kind, _ in stack), table, terminal)
        if len(still) < len(stack):
            del stack[len(still) :]
            current = None
        if terminal.opens:
            outer = stack[-1][0] if stack and current is not None else ""
            within = (outer, terminal.opens) in inline
            stack.append((terminal.opens, within))
            if within:
                chunk.inline = terminal.opens
            else:
                current = begin(terminal.opens, chunk.event.attrs)
            assert current is not None
            current.chunks.append(chunk)
            continue
        if current is None:
            current = blocks[-1] if blocks else begin(chunk.event.terminal.lower())
        current.chunks.append(chunk)
        if stack and stack[-1][0] in terminal.ends:
            kind, within = stack.pop()
            if terminal.both and stack and stack[-1][0] in terminal.ends:
                stack.pop()
            chunk.inline = kind if within else ""
            current = current if within else None
        elif not stack:
            current = None
    return blocks


def _block_of(kind: str, *chunks: Chunk) -> Block:
    return Block(kind, kind.replace("_", " "), chunks=list(chunks))


def _of_value(value: Any, dialect: Dialect) -> Iterator[Block]:
    """Yields blocks for an unreadable record: strings as text, messages by role, or JSON."""
    if not isinstance(value, dict | list):
        yield _block_of("line", _value_of(value, ""))
        return
    members = [("line", "", value)]
    if isinstance(value, dict):
        members = [(str(key), below("", key), content) for key, content in value.items()]
    for key, at, content in members:
        if not isinstance(content, list) or not any(isinstance(m, dict) for m in content):
            yield _block_of(key, _value_of(content, at))
            continue
        for i, message in enumerate(content):
            here = below(at, str(i))
            if not isinstance(message, dict):
                yield _block_of(key, _value_of(message, here))
                continue
            tag = next((role for role in _ROLES if isinstance(message.get(role), str)), "")
            fields = [(k, v, below(here, k)) for k, v in message.items() if k != tag]
            block = _block_of(message[tag] if tag else key)
            opener = dialect.table.openers.get(block.kind)
            block.model = opener is not None and opener.body_by_model
            alone = len(fields) == 1 and fields[0][0] in _CONTENTS
            block.chunks += [_value_of(*fields[0][1:])] if alone else [*_fields(fields)]
            block.chunks = block.chunks or [Chunk(plain_event("", here))]
            yield block


def _of_message(message: Message) -> Iterator[Block]:
    """Yields blocks for a message that was read from items, as from the events of a trace."""
    parts: list[tuple[str, Any]] = [("thoughts", text) for text in message.thoughts]
    parts += [(message.role, part) for part in (*(message.content or ()), *message.media)]
    parts += [(f"call · {c.name.text}", c.arguments or Text("", c.at)) for c in message.calls]
    for title, part in parts:
        chunks = [_value_of(part.text if isinstance(part, Text) else part.value, part.at)]
        yield Block(title.split()[0], title, message.role == "assistant", chunks=chunks)


def _metadata(item: Item) -> Iterator[Block]:
    """Yields what a record holds besides its text: the language, and keys that begin with `_`."""
    record, episode = item.value, item.episode
    if not isinstance(record, dict) or episode is None:
        return
    entries = [
        (k, v, below("", k))
        for k, v in record.items()
        if k in episode.meta or (k == "language" and episode.language is not None)
    ]
    for key, messages in record.items():
        for i, message in enumerate(messages if isinstance(messages, list) else ()):
            at = below(below("", key), str(i))
            entries += [
                (f"{at[1:]}/{k}", v, below(at, k))
                for k, v in (message.items() if isinstance(message, dict) else ())
                if k.startswith("_")
            ]
    if entries:
        yield Block("metadata", "not in the text", chunks=list(_fields(entries)))


def _fields(entries: Sequence[tuple[str, Any, str]]) -> Iterator[Chunk]:
    """Yields one line for each field, of its name, its value and its pointer."""
    for n, (name, value, pointer) in enumerate(entries):
        lead = "\n" * bool(n) + f"{name}: "
        yield Chunk(plain_event(lead, pointer.rpartition("/")[0]), inline="key")
        yield _value_of(value, pointer)


def _value_of(value: Any, pointer: str) -> Chunk:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Chunk(plain_event(text, pointer), json=not isinstance(value, str))


def line_breaks(text: str) -> list[tuple[int, int]]:
    """Returns (offset, depth): where to break JSON into lines to show, and how deep to indent.

    There are none in a text that is no JSON, has lines already, or is short.

    >>> line_breaks('{"name": "search", "arguments": ["the harbour", "boats", "a third one"]}')
    [(1, 1), (19, 1), (71, 0)]
    """
    if text[:1] not in ("{", "[") or len(text) <= _ON_ONE_LINE or "\n" in text:
        return []
    try:
        loads(text)
    except Fault:
        return []
    out: list[tuple[int, int]] = []
    open_at: list[tuple[int, int]] = []  # where an object or array begins, and the breaks before it
    for match in _JSON.finditer(text):
        if match[0] in "{[":
            open_at.append((match.start(), len(out)))
            out.append((match.end(), len(open_at)))
        elif match[0] in "}]":
            start, before = open_at.pop()
            if match.end() - start <= _ON_ONE_LINE:
                del out[before:]
            else:
                out.append((match.start(), len(open_at)))
        elif match[0][0] == ",":
            out.append((match.end(), len(open_at)))
    return out


def _place(item: Item, blocks: list[Block]) -> list[Finding]:
    """Puts each finding into the block that it is about. Returns the others."""
    remaining = []
    chunks = [(block, chunk) for block in blocks for chunk in block.chunks]
    for finding in item.findings:
        scores = [_closeness(finding, chunk.event) for _, chunk in chunks]
        near = max(scores, default=0)
        if near <= 3:  # to have only the first key in common is not enough
            remaining.append(finding)
            continue
        block, chunk = chunks[scores.index(near)]
        block.findings.append(finding)
        mark = _mark(finding, chunk, item.dialect)
        if mark is not None:
            chunk.marks.append(mark)
    return remaining


_EXACT = 1 << 20


def _closeness(finding: Finding, event: Event) -> int:
    """Returns how near an event is to a finding: its span, its string, or keys in common."""
    pointer = event.at.pointer
    text = event.terminal == TEXT
    if finding.pointer == pointer:
        if finding.span is None:
            return _EXACT if pointer else 0
        a, (first, last) = finding.span[0], _range(event)
        if first <= a < last or first == last == a:
            return _EXACT + 1 + text
        return _EXACT if a == last else _EXACT - 1 if pointer else 0
    if event.name_at is not None and event.name_at.pointer == finding.pointer:
        return _EXACT
    ours, theirs = pointer.split("/"), finding.pointer.split("/")
    same = in_common(ours, theirs)
    # The first key alone is enough only where the one is all below the other.
    return 2 * same + text if same > 2 or (same == 2 and len(ours) == 2) else 0


def _range(event: Event) -> tuple[int, int]:
    """Returns the span of an event in its string; joined texts keep that of the first."""
    pointer, span = event.at
    if span is None:
        return 0, len(event.text) if event.terminal == TEXT else 0
    return (span[0], span[0] + len(event.text)) if pointer else span


def _mark(finding: Finding, chunk: Chunk, dialect: Dialect) -> Mark | None:
    """Returns the range of a chunk's text that a finding means; None if it is spelled otherwise."""
    event = chunk.event
    if finding.span is None or finding.pointer != event.at.pointer:
        return None
    first, last = _range(event)
    if chunk.is_tag:
        return (0, len(event.text), finding.severity) if last > first else None
    kind = chunk.segment.inside[-1:] if chunk.segment else ()
    respelled = event.at.span is None and kind and dialect.table.openers[kind[0]].body != "text"
    if respelled or last - first != len(event.text):
        return None
    a, b = finding.span[0] - first, finding.span[1] - first
    a, b = max(a, 0), min(max(b, a + 1), len(event.text))
    return (a, b, finding.severity) if a < b else None
