"""Reads records of `messages` and `tools`, as OpenAI and TRL have them, into a dialect's blocks.

The `records.toml` of a dialect says which block each piece of a record becomes, by the keys that
`grammar/records.schema.json` describes; docs/custom_format.md has examples. Options of a format's
template, and what it says of system messages, are those of `template_options`.

A piece that is left out, and `developer`, is nothing that a record of the dialect can have. Pieces
that are inside of the same block share it within a message; results that follow one another do,
too. Where results are in the block of the answer, one block has all from a user to the next. A
block's attributes "name" and "id" are those of the tool and of the call. What the text
has no place for, such as ids, is metadata of the Episode, so it returns to the record.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from mypt_spec.adapters.base import Adapter, Reader
from mypt_spec.adapters.message_shape import (
    FRONT,
    IDS,
    LATE,
    MESSAGES,
    NOTES,
    THOUGHTS,
    Block,
    ChatMessage,
    add_notes,
    blanks,
    check_messages,
    counted_id,
    finished_blocks,
    fronted_question,
    incomplete_tools,
    late_weights,
    misplaced_system,
    numbered,
    placed_in_system,
    placed_late,
    result_of,
    shape_of,
    stripped,
    tools_before,
    tools_in_question,
    with_early_texts,
    with_moved_weights,
    with_thoughts,
    without_front,
    without_prefix,
)
from mypt_spec.adapters.objects import unsayable
from mypt_spec.adapters.splitter import Splitter, splitter
from mypt_spec.adapters.template_options import KEY, SystemText, TemplateOptions
from mypt_spec.adapters.waiting import unanswered
from mypt_spec.bodies import definitions
from mypt_spec.bodies.json_body import (
    NO_TYPES,
    Call,
    call_text,
    calls_in,
    definitions_in,
    list_text,
    usual_ids,
    value_in,
)
from mypt_spec.bodies.strict_json import canonical
from mypt_spec.bodies.tagged import Types, call_findings, types_of
from mypt_spec.episode import Attrs, Episode, Message, Part, Place, patterns_of
from mypt_spec.findings import Finding
from mypt_spec.record_schema import ROLE, WEIGHTS, RecordSchema
from mypt_spec.rules.context import Context
from mypt_spec.rules.shared_mistakes import Chat, Path
from mypt_spec.table import LISTS, WITH_IDS, Terminal, TokenTable

SHAPE = "messages"
_HEADS = ("system", "developer", "user")
_SPOKEN = ("thought", "said", "call", "answer")  # of an assistant, in order
# What follows a piece in its message, where one block does not hold them all.
_FOLLOW = {"thought": ("said", "call", "answer"), "said": ("call",)}
_TOOLS = "tools"  # definitions of tools of which their text keeps less
_CALLED = "role"  # of a message whose block another role has by itself
_ORDER = (ROLE, THOUGHTS[0], "content", "tool_calls")  # of the keys of a message


class Messages(Adapter):
    """Knows records of messages and tools by what a `records.toml` says of their blocks."""

    def __init__(
        self,
        paths: dict[str, Path],
        table: TokenTable,
        begin: str = "",
        finish: str = "",
        *,
        tools_before: str = "first",
        intro: str = "",
        after_tools: str = "",
        late: bool | str = False,
        options: TemplateOptions | None = None,
        system: SystemText | None = None,
    ) -> None:
        self.paths, self.table = paths, table
        self.options, self.system = options or TemplateOptions(), system or SystemText()
        self.begin, self.finish, self.tools_before = begin, finish, tools_before
        self.finished = finished_blocks(finish, table)
        self.intro, self.after_tools = intro, after_tools  # texts beside definitions of tools
        self.late = late  # whether a text beside calls is after their results, "ended" there
        # One block has all that is said between two users, results too.
        self.turns = paths.get("result", ("",))[0] == paths["answer"][0]
        self.shared = {path[0] for path in paths.values() if len(path) > 1}
        self.pieces: dict[tuple[str, str], str] = {}
        for piece, path in paths.items():
            self.pieces.setdefault((path[0], path[1] if len(path) > 1 else "text"), piece)
        names = {"answer": "assistant", "result": "tool"}
        pieces = [*paths, *["system"] * bool(self.system.question)]
        roles = frozenset(names.get(p, p) for p in pieces if p in (*_HEADS, *names))
        self.SCHEMA: RecordSchema = shape_of(
            roles,
            tools="tools" in paths or bool(intro),
            calls="call" in paths,
            thoughts="thought" in paths,
        )
        body = self._opener("call").body if "call" in paths else ""
        self.listed, self.listed_ids = body in LISTS, body in WITH_IDS
        self.quoted = "result" in paths and self._opener("result").body == "json"
        self.tagged = self.table.tagged if "call" in paths else None
        # Whether definitions of tools are written as they are given.
        self.verbatim = "tools" not in paths or self._opener("tools").body != "namespace"
        with_ids = [p for p in ("call", "result") if p in paths and "id" in self._patterns(p)]
        self.ordered = not self.listed_ids and len(with_ids) < 2

    def _opener(self, piece: str, calls: Sequence[Any] = (), *, front: bool = False) -> Terminal:
        """Returns the opening tag of a piece; `calls` beside its text, or a system message in front
        of it, say what is stripped.
        """
        opener = self.table.openers[self.paths[piece][-1]]
        strip = self._opener("call").strip if calls else self.system.strip * front
        return replace(opener, strip=strip) if strip else opener

    def _patterns(self, piece: str) -> dict[str, str]:
        return patterns_of(self.paths[piece][-1], self.table)

    def check(self, record: Any) -> tuple[dict[str, Any] | None, list[Finding], str]:
        """Returns a record whose messages are `ChatMessage`, the findings, and ""."""
        checked, findings, lifted = check_messages(
            record, self.SCHEMA, ordered=self.ordered, verbatim=self.verbatim
        )
        extra = self.options.findings((checked or {}).get(KEY, {}), self.table.name)
        if self.tagged and checked is not None:
            types = types_of(checked.get("tools", ()))
            for i, message in enumerate(checked[self.SCHEMA.messages]):
                for n, call in enumerate(message.calls):
                    at = f"/{self.SCHEMA.messages}/{i}/tool_calls/{n}/function"
                    extra += call_findings(
                        call["function"], at, types, self.table.literals, self.tagged
                    )
        extra += late_weights((checked or {}).get("messages", ())) if self.late is True else ()
        extra += blanks((checked or {}).get("messages", ()), self.paths, self.table, self._piece)
        refused = any(finding.severity == "error" for finding in extra)
        return None if refused else checked, [*findings, *extra], lifted

    @property
    def chat(self) -> Chat:
        """Returns the blocks of its pieces, and its marks."""
        marks = {"begin": self.begin, "finish": self.finish}
        blocks = self.paths | {piece: (mark,) for piece, mark in marks.items() if mark}
        return Chat(blocks, self.tools_before)

    def metadata(self, record: dict[str, Any]) -> dict[str, Any]:
        """Returns the metadata of a record, and its options."""
        return super().metadata(record) | ({KEY: record[KEY]} if KEY in record else {})

    def prompted(self, meta: Mapping[str, Any]) -> frozenset[str]:
        """Returns the kind of thoughts where the options of an Episode end prompts with one."""
        empty = self.options.empty_thought(meta.get(KEY, {}))
        return frozenset({self.paths["thought"][-1]} if empty else ())

    @property
    def prompting(self) -> tuple[dict[str, Any], ...]:
        """Returns the options with which prompts end with an empty thought, as metadata."""
        return self.options.prompting

    def tools(self, episode: Episode) -> list[dict[str, Any]]:
        """Returns the definitions of tools in an Episode; none where they cannot be read."""
        if not self.intro:
            tools = [tool for m in episode.messages for tool in m.meta.get(_TOOLS, ())]
            return tools or definitions_in(episode.messages, self.table)
        users = (m.text for m in episode.messages if (m.role,) == self.paths["user"])
        return definitions.read_indented(next(users, ""), self.intro, self.table.literals)[0]

    def validate(self, context: Context, findings: list[Finding]) -> list[Finding]:
        """Returns the findings, with those about numbers of results and what no record says."""
        findings = [*findings, *self._unanswered(context)] if "result" in self.paths else findings
        if self.system.question:
            findings = placed_in_system(findings, context.episode.messages, self.system)
        block = self.paths["tools" if "tools" in self.paths else "user"][-1]
        return [*findings, *unsayable(context, findings, block, self.write, verbatim=self.verbatim)]

    # Records to messages

    def read(self, record: dict[str, Any], reader: Reader) -> list[Message]:
        """Returns the messages of a record that `check` let through."""
        blocks: list[Block] = []
        messages = numbered(record[self.SCHEMA.messages], self.table)
        record_options = record.get(KEY, {})
        tools, system = "tools" in record, messages[0].role == "system"
        head = self.options.text(record_options, tools=tools, system=system)
        default = self.default_system(tools=tools) * (not system)
        top = reader.top(self.SCHEMA.messages)
        fronted, front = fronted_question(messages, self.system, default)
        joined = head != "" and self.options.block == "system"  # with the default, one text
        if head:
            messages = self._with_options(blocks, head + default * joined, messages, reader)
        leads = self.tools_before == "system" and "tools" in record
        after_tools = self.after_tools * leads
        self._add_tools(blocks, record, reader) if leads else None
        if default and not (front or joined):
            text = after_tools + default + self._opener("system").suffix
            self._add(blocks, Part("system", text, at=top), "head", Place())
        messages = with_thoughts(messages, self.options, record_options)
        heads, turn = -1 if leads else tools_before(messages, last=self.tools_before == "last"), 0
        late, ended = list[Part](), False
        for i, message in enumerate(messages):
            if message.role == "system" and self.system.question:
                reader.findings += misplaced_system(reader.at(i, ROLE), i, fronted)
                continue
            told = i == heads and "tools" in record and self.intro > ""
            opener = self._opener(self._piece(message), message.calls, front=told or i == fronted)
            message = with_moved_weights(message, opener)
            prefix = options = head if i == 0 and message.role == self.options.block else ""
            if told:
                prefix = self.intro + tools_in_question(record["tools"], reader)
            elif i == heads:
                self._add_tools(blocks, record, reader)
            prefix = self.system.front(front["content"]) if front and i == fronted else prefix
            source: object = "result" if message.role == "tool" else i
            if leads and i == 0 and message.role == "system":
                text = self._opener("system").stripped(message.content)
                source, prefix = "head", after_tools * bool(text)
            if self.turns:
                answered = i > 0 and messages[i - 1].role == "tool" and not ended
                source = turn = turn if message.role == "tool" or answered else i
            start = len(blocks)
            pieces = [*self._split(message, i, reader, prefix)]
            if self.late:
                pieces, late = placed_late(pieces, late, message, messages[i + 1 : i + 2])
                ended = self.late == "ended" and message.role == "tool" and len(pieces) > 1
            for piece in pieces:
                self._add(blocks, piece, source, reader.at(i, ROLE))
            self._vanished(message, i, record, options, reader)
            block = blocks[-1] if message.role == "tool" else blocks[min(start, len(blocks) - 1)]
            add_notes(block, message, f"/messages/{i}", self._patterns, self.turns, self.listed_ids)
            block.meta |= {FRONT: front} if front and i == fronted else {}
            if self.late and message.calls:
                block.meta.setdefault(LATE, []).append("".join(part.text for part in late))
        if heads == len(messages) and not self.intro:
            self._add_tools(blocks, record, reader)
        begin = [Message(self.begin, at=reader.at(0, ROLE))] if self.begin else []
        mark = self.system.mark
        absent = mark and self.paths["system"][0] not in {block.role for block in blocks}
        blocks = [b for b in blocks if b.parts or self.table.openers[b.role].spelling]
        end = [Message(self.finish, at=b.at) for b in blocks[-1:] if b.role in self.finished]
        made = [Message(b.role, tuple(b.parts), b.attrs, b.at, b.meta, b.name_at) for b in blocks]
        if absent:  # after definitions of tools that are before the system message
            number = sum(m.role == self.paths["tools"][0] for m in made) if leads else 0
            made.insert(number, Message(mark, at=top))
        return [*begin, *made, *end]

    def _with_options(
        self, blocks: list[Block], head: str, messages: list[ChatMessage], reader: Reader
    ) -> list[ChatMessage]:
        """Returns the messages, the first one in another block where the text of options has its.

        Where no message shares its block with that text, it gets one.
        """
        block, other, first = self.options.block, self.options.system, messages[0]
        if first.role == block and not other:
            return messages
        self._add(blocks, Part(block, head, at=reader.top(KEY)), "head", Place())
        if first.role != "system":
            return messages
        return [replace(first, role=other, meta=first.meta | {_CALLED: "system"}), *messages[1:]]

    def _vanished(
        self, message: ChatMessage, i: int, record: dict[str, Any], options: str, reader: Reader
    ) -> None:
        """Adds a finding for an empty message whose block is there for tools or options alone."""
        shared = self.paths.get("tools", ("",))[0] == self.paths.get(message.role, (None,))[0]
        shared = shared and "tools" in record and not self.system.default_with_tools
        beside = "before the tools" if shared else ""
        bare = self.options.text(record.get(KEY, {}), tools="tools" in record)  # without a message
        beside = "after that of the options" if options and options == bare else beside
        beside = beside if self._opener(self._piece(message)).spelling else "without a tag"
        if beside and not self._opener(message.role).stripped(message.content):
            problem = f"an empty text {beside} says nothing and does not come back"
            pointer = reader.at(i, "content").pointer
            reader.findings.append(Finding("MYP314", problem, pointer, help="leave it out"))

    def _add_tools(self, blocks: list[Block], record: dict[str, Any], reader: Reader) -> None:
        """Puts the definitions of tools into their block, and says what their text does not."""
        if "tools" not in record:
            return
        tools, body, at = record["tools"], self._opener("tools").body, reader.top("tools")
        try:
            texts = definitions.blocks_of(tools, body, reader.table.literals)
        except ValueError as error:
            reader.findings.append(Finding("MYP340", str(error), *at))
            return
        text = ""
        for some, text in texts:
            block = self._add(blocks, Part("tools", text, at=at), "head", Place())
            if body.startswith(definitions.LOSSY):
                block.meta[_TOOLS] = [*block.meta.get(_TOOLS, ()), *some]
        reader.findings += incomplete_tools(definitions.lost_in(tools, body, text), at)

    def _split(self, message: ChatMessage, i: int, reader: Reader, head: str) -> Iterator[Part]:
        """Yields the pieces of a message, in the order of its blocks, with `head` before its text.

        The kind of each is that of the piece. Places count from where its own text begins.
        """
        front = message.role == "user" and head != ""
        opener = self._opener(piece := self._piece(message), message.calls, front=front)
        head = head if message.role in _HEADS else opener.prefix
        content, at = stripped(message.content, opener, reader.at(i, "content"), head)
        if message.role in _HEADS:
            yield Part(message.role, head + content + opener.suffix, at=at)
            return
        if message.role == "tool":
            attrs = self._attrs("result", message.name or message.called, message.answers)
            key = "tool_call_id" if "id" in self._patterns("result") else "name"
            content = canonical(content, reader.table.literals) if self.quoted else content
            yield Part("result", content, attrs, at, reader.at(i, key))
            return
        if message.thought is not None:
            (text, key), opener = message.thought, self._opener("thought")
            text, thought_at = stripped(text, opener, reader.at(i, key), opener.prefix)
            yield Part("thought", opener.prefix + text, at=thought_at)
        if content or not message.calls:
            yield Part(piece, head + content, at=at)
        if message.calls:
            yield from self._calls(message, i, reader)

    def _piece(self, message: ChatMessage) -> str:
        """Returns the piece that the content of a message is."""
        spoken = "said" if message.calls and "said" in self.paths else "answer"
        pieces = {"tool": "result", "assistant": spoken, "system": self.options.system_piece}
        return pieces.get(message.role, message.role)

    def block_of(self, message: dict[str, Any], key: str) -> Terminal | None:
        chat = ChatMessage(message[ROLE], "", calls=message.get("tool_calls") or ())
        if (piece := "thought" if key in THOUGHTS else self._piece(chat)) not in self.paths:
            return None
        opener = self._opener(piece, chat.calls if piece != "thought" else ())
        return opener if opener.strip or opener.prefix or opener.suffix else None

    def _calls(self, message: ChatMessage, i: int, reader: Reader) -> Iterator[Part]:
        literals, body = reader.table.literals, self._opener("call").body
        functions = [(c["function"], c.get("id", "")) for c in message.calls]
        calls = [Call(f["name"], f["arguments"], ident) for f, ident in functions]
        if self.listed:
            yield Part("call", list_text(calls, literals, body), at=reader.at(i, "tool_calls"))
            return
        for n, (name, arguments, ident) in enumerate(calls):
            at = reader.at(i, f"tool_calls/{n}/function")
            text = call_text(name, arguments, literals, body)
            attrs = self._attrs("call", name, ident)
            values = at if body == "function" else Place(f"{at.pointer}/arguments")
            yield Part("call", text, attrs, values, Place(f"{at.pointer}/name"))

    def _attrs(self, piece: str, name: str, ident: str) -> Attrs:
        values = {"name": name, "id": ident}
        return tuple((key, values[key]) for key in self._patterns(piece) if values[key])

    def _add(self, blocks: list[Block], piece: Part, source: object, at: Place) -> Block:
        """Puts a piece into the block that it shares with the one before, or into a new one.

        Returns the block.
        """
        block, *inner = self.paths[piece.kind]
        heads = [b for b in blocks if b.role == block] if source == "head" else blocks[-1:]
        open_ = next((b for b in heads if b.role == block and source in (b.source, "head")), None)
        if open_ is None or block not in self.shared:
            open_ = Block(block, source, at if source != "head" else piece.at)
            before = source == "head" and block == self.paths.get("system", ("",))[0]
            blocks.insert(0 if before and self.tools_before != "system" else len(blocks), open_)
        if inner:
            open_.parts.append(replace(piece, kind=inner[0]))
        else:
            open_.attrs, open_.name_at = piece.attrs, piece.name_at
            open_.parts += [Part("text", piece.text, (), piece.at)] if piece.text else []
        return open_

    # Messages to records

    def write(self, episode: Episode, table: TokenTable) -> dict[str, Any]:
        """Returns the canonical record of an Episode: arguments as objects, thoughts by one name.

        Raises ValueError for a block that belongs to no message.
        """
        out: list[dict[str, Any]] = []
        top: dict[str, Any] = {}
        ids: Iterator[str] = iter(())
        rank = len(_SPOKEN)  # of the last piece of the open message; above all where none is open
        questions, fronted = 0, -1  # since the tools; the index of that with the system message
        types, body = NO_TYPES, self._opener("tools").body if "tools" in self.paths else ""
        for message, following in zip_longest(episode.messages, episode.messages[1:]):
            if message.role in table.marks:
                continue
            meta = dict(message.meta)
            # The first of a message's blocks has the ids; calls may be blocks by themselves.
            ids = iter(meta.pop(IDS)) if IDS in meta else ids
            results, metas = (iter(meta.pop(key, ())) for key in (NOTES, MESSAGES))
            front, some, _ = meta.pop(FRONT, None), meta.pop(_TOOLS, []), meta.pop(LATE, [])
            texts = iter(definitions.blocks_of(some, body, table.literals) if some else ())
            meta.pop(WEIGHTS, None)
            current: dict[str, Any] | None = None
            parts = self._parts(message)
            if self.late:
                parts = with_early_texts(parts, message, following, self.late)
            for piece, part in parts:
                if piece == "tools":
                    some, text = next(texts, ([], ""))
                    same = some and text == part.text
                    tools = some if same else definitions.read_definitions(part.text, body)
                    top["tools"] = [*top.get("tools", ()), *tools]
                    types = types_of(top["tools"]) if self.tagged else types
                    continue
                if piece == "result":
                    notes: dict[str, Any] = next(results, {})
                    out.append(result_of(part, notes, self.table, quoted=self.quoted))
                    current = None if self.turns else current
                elif piece in _HEADS:
                    text = without_prefix(part.text, "", self._opener(piece).suffix)
                    if piece == "system" and text and "tools" in top:
                        text = without_prefix(text, self.after_tools)
                    if piece == "user" and self.intro and not any(m[ROLE] == "user" for m in out):
                        tools, text = definitions.read_indented(text, self.intro, table.literals)
                        top, fronted = ({"tools": tools}, len(out)) if tools else (top, fronted)
                        types = types_of(tools) if self.tagged else types
                    if piece == "user" and self.system.question:
                        default = self.default_system(tools="tools" in top) * (not out)
                        lead, text = without_front(text, front, self.system, default)
                        out[:0] = lead
                        fronted = len(out) if lead else fronted
                    current = {ROLE: piece, "content": text}
                    out.append(current)
                    questions += piece == "user" and "tools" in top
                else:
                    now, shared = _SPOKEN.index(piece), message.role in self.shared
                    fresh = rank > now or (rank == now and piece != "call")
                    before = (*_SPOKEN, "")[rank]
                    if not shared and piece not in _FOLLOW.get(before, _SPOKEN):
                        after, following = self._opener(before).shown, _FOLLOW[before][-1]
                        raise ValueError(f"no record can say this: no {following} after `{after}`")
                    if piece == "said" and not part.text:
                        raise ValueError("no record can say this: an empty text beside a call")
                    if current is None if shared else fresh:
                        current = {ROLE: "assistant"} | dict(next(metas, {}))
                        ids = iter(current.pop(IDS, ())) if self.turns else ids
                        out.append(current)
                    current, rank = out[-1], now
                    self._say(current, piece, part, ids, types)
                    continue
                rank = len(_SPOKEN)
            if current is None and meta:  # of a message without text, whose block holds tools
                current = {ROLE: self.pieces[message.role, "text"], "content": ""}
                out.append(current)
            if current is not None:
                current |= meta  # with the role that the message had
        if self.tools_before == "last" and questions > 1:
            raise ValueError(f"no record can say this: {definitions.EARLY}")
        out = self.options.without_options(out, episode.meta.get(KEY, {}), tools="tools" in top)
        default = self.default_system(tools="tools" in top)
        out = self.system.without_default(out, default, self.keeps)
        strip = self._opener("user", front=True).stripped
        for i, m, key in ((i, m, k) for i, m in enumerate(out) for k in _ORDER[1:3] if m.get(k)):
            if not (strip(m[key]) == m[key] if i == fronted else self.keeps(m, key)):
                raise ValueError(f"no record can say this: white space around {m[key][:40]!r}")
        ordered = ({key: m[key] for key in _ORDER if key in m} | m for m in out)
        return {self.SCHEMA.messages: [*ordered]} | top

    def _parts(self, message: Message) -> list[tuple[str, Part]]:
        """Returns the parts of a block with the pieces that they are. Raises ValueError."""
        parts = list(message.parts)
        if all(part.kind != "text" for part in parts):
            alone = self.pieces.get((message.role, "text"), "")
            pieces = {self.pieces.get((message.role, part.kind)) for part in parts}
            # Without text, a block is an empty message, unless another piece says why it is there.
            reasons = {"call", "result", *["tools"] * (not self.system.default_with_tools)}
            if alone and not pieces & reasons:
                parts.append(Part("text", ""))
        out = []
        for part in parts:
            piece = self.pieces.get((message.role, part.kind))
            if piece is None:
                raise ValueError(f"no message of a record holds {part.kind!r} in {message.role!r}")
            if part.kind == "text":
                part = Part("text", part.text, message.attrs, name_at=message.name_at)
            out.append((piece, part))
        return out

    def _say(
        self, message: dict[str, Any], piece: str, part: Part, ids: Iterator[str], types: Types
    ) -> None:
        if piece == "thought":
            message[THOUGHTS[0]] = without_prefix(part.text, self._opener(piece).prefix)
        elif piece == "call":
            body, attrs = self._opener("call").body, dict(part.attrs)
            for call in calls_in(value_in(part.text, body), body, part.attrs, types):
                label = next(ids, "") or counted_id(self.table, attrs) or call.id
                function = {"name": call.name, "arguments": call.arguments}
                one = ({"id": label} if label else {}) | {"type": "function", "function": function}
                message.setdefault("tool_calls", []).append(one)
        else:
            message["content"] = without_prefix(part.text, self._opener(piece).prefix)

    def _unanswered(self, context: Context) -> Iterator[Finding]:
        """Yields findings where results and calls do not belong together."""
        pieces: list[tuple[str, Part, Place]] = []
        for message in context.episode.messages:
            if message.role not in context.table.marks:
                try:
                    pieces += [(piece, part, message.at) for piece, part in self._parts(message)]
                except ValueError:
                    return  # no record can be like this, and no grammar takes it
        yield from unanswered(pieces, self._opener("call").body, ids=not self.ordered)


@splitter.register(Messages)
def _(adapter: Messages, opt_out: str = "") -> Splitter:
    """Returns a splitter; no record is split where tags allow only some names of tools."""
    from mypt_spec.adapters.message_splitter import (  # which needs msgspec
        MessageSplitter,
        any_words,
    )

    paths, table = adapter.paths, adapter.table
    patterns = [adapter._patterns(piece) for piece in ("call", "result") if piece in paths]
    free = None if table.tool_names else any_words(patterns, usual_ids(table))
    if free is None or adapter.system.strip:  # a text is stripped as its place says
        return Splitter()
    body = adapter._opener("tools").body if "tools" in paths else ""
    out = MessageSplitter(free, table, body, opt_out, indented=bool(adapter.intro))
    out.only_chats |= adapter.late is not False
    return out
