"""Checks records of `messages` and `tools`, as OpenAI and TRL have them, and unites their forms.

Input is any JSON value; output are `ChatMessage`s, with findings of family 1 and of results that
answer no call. Null is as good as no key, arguments may be JSON text, and thoughts have any of
three names. The record itself is kept as it is.
"""

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from mypt_spec.adapters.base import Reader, other_names
from mypt_spec.adapters.objects import Objects
from mypt_spec.adapters.template_options import KEY, SystemText, TemplateOptions
from mypt_spec.adapters.tool_chat import MAYBE, TEXT
from mypt_spec.adapters.waiting import ANY, WaitingById, twice
from mypt_spec.bodies.definitions import write_indented
from mypt_spec.bodies.json_body import ID, counting, value_in
from mypt_spec.bodies.strict_json import Fault, faults, loads
from mypt_spec.episode import Attrs, Message, Part, Place
from mypt_spec.findings import Finding, regraded
from mypt_spec.record_schema import (
    LANGUAGE,
    LIST,
    OBJECT,
    PARTS,
    ROLE,
    WEIGHT,
    WEIGHTS,
    Field,
    RecordSchema,
    check_record,
    metadata,
)
from mypt_spec.table import Terminal, TokenTable

THOUGHTS = ("reasoning_content", "thinking", "reasoning")  # the first that has text is read
_LIST = Field(LIST, required=False)
_ROLES = {
    **{role: {"content": TEXT} for role in ("system", "developer", "user")},
    "assistant": {"content": MAYBE, **dict.fromkeys(THOUGHTS, MAYBE), "tool_calls": _LIST},
    "tool": {"content": TEXT, "tool_call_id": MAYBE, "name": MAYBE},
}
REFUSES = "is blank: the format refuses it"  # a text for a block with `blank = false`
# Metadata of an Episode's messages: ids of calls, and the other keys of the messages of results.
IDS, NOTES = "call ids", "results"
MESSAGES = "messages"  # all this of each message, where one block has several
ENDED = "a text that is ended in prompts alone"
LATE = "late"  # metadata of a block: of each message with calls, the text that is after results
FRONT = "system"  # metadata of a question: the system message with which its text begins
RESULTS = ("function", "tool_result", "toolresult")  # what people call a result
# Keys of a message that are read as if they were not there where they are null.
NULLABLE = frozenset({"tool_calls", "tool_call_id", "name", "weight", *THOUGHTS})


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a record.

    `thought` is (text, key). Each of `calls` has "function" with "name" and "arguments", and maybe
    "id". Of a result, `answers` is the id that it names, `name` the name, and `called` the name of
    the call that it answers; "" where there is none.
    """

    role: str
    content: str
    thought: tuple[str, str] | None = None
    calls: tuple[dict[str, Any], ...] = ()
    answers: str = ""
    name: str = ""
    called: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """A message of an Episode while it is made. `source` is the record's message, or "result"."""

    role: str
    source: object
    at: Place
    parts: list[Part] = field(default_factory=list)
    attrs: Attrs = ()
    meta: dict[str, Any] = field(default_factory=dict)
    name_at: Place | None = None


def stripped(text: str, opener: Terminal, at: Place, head: str = "") -> tuple[str, Place]:
    """Returns a text without white space that its block lacks, and its place with a `head`."""
    out = opener.stripped(text)
    if out == text and not head:
        return text, at
    begin = text.index(out) if out else 0
    return out, at._replace(span=(begin - len(head), begin + len(out)))


def without_prefix(text: str, prefix: str, suffix: str = "") -> str:
    """Returns the text of a record for that in its block. Raises ValueError."""
    if not text.startswith(prefix):
        raise ValueError(f"no record can say this: no {prefix!r} before {text[:40]!r}")
    if not text.endswith(suffix):
        raise ValueError(f"no record can say this: no {suffix!r} after {text[-40:]!r}")
    return text.removeprefix(prefix).removesuffix(suffix)


def counted_id(table: TokenTable, attrs: Mapping[str, str]) -> str:
    """Returns the id in records of a call that its tag counts: the text of the tag; else ""."""
    opener = counting(table)
    pieces = (p for p in (opener.spelling if opener else ()) if p.kind in ("text", "attr"))
    return "".join(attrs.get(p.value, "") if p.kind == "attr" else p.value for p in pieces)


def result_of(
    part: Part, notes: dict[str, Any], table: TokenTable, *, quoted: bool
) -> dict[str, Any]:
    """Returns the message of a result. Raises ValueError."""
    keys = {"id": "tool_call_id", "name": "name"}
    names = {keys[key]: value for key, value in sorted(part.attrs) if key in keys}
    if ident := counted_id(table, dict(part.attrs)):
        names = {"tool_call_id": ident}
    content = value_in(part.text, "json") if quoted else part.text
    if not isinstance(content, str):
        raise ValueError("no record can say this: a result that is not a JSON string")
    return {"role": "tool"} | names | notes | {"content": content}


def numbered(messages: list[ChatMessage], table: TokenTable) -> list[ChatMessage]:
    """Returns messages whose calls and results have their numbers as ids, if the format counts.

    Other ids than those of `counted_id` are metadata.
    """
    if counting(table) is None:
        return messages
    out = list[ChatMessage]()
    spelled, waiting = dict[str, str](), dict[str, str]()  # ids, by the number of the call
    for message in messages:
        answers, meta = message.answers, dict(message.meta)
        waiting, names = {} if message.calls else waiting, [call.get(ID) for call in message.calls]
        for call in message.calls:
            number, name = str(len(spelled)), call["function"]["name"]
            spelled[number] = ident = counted_id(table, {"name": name, ID: number})
            while ident in names:  # that of another call, which a result may name
                ident += "_"
            waiting[number] = call.get(ID) or ident
        calls = tuple(c | {ID: number} for c, number in zip(message.calls, waiting, strict=False))
        if calls and not waiting.items() <= spelled.items():
            meta[IDS] = [*waiting.values()]
        if message.role == "tool":
            meta |= {"name": message.name} if message.name else {}
            answers = next((n for n, i in waiting.items() if answers in ("", i)), answers)
            if (ident := waiting.pop(answers, "")) != spelled.get(answers, ""):
                meta["tool_call_id"] = ident
        out.append(replace(message, calls=calls, answers=answers, meta=meta))
    return out


def tools_before(messages: list[ChatMessage], *, last: bool) -> int:
    """Returns the index of the message before which the tools are, maybe the `last` question."""
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    if last and users:
        return users[-1]
    heads = ("system", "developer")
    return next((i for i, m in enumerate(messages) if m.role not in heads), len(messages))


def blanks(
    messages: Iterable[ChatMessage],
    paths: Mapping[str, tuple[str, ...]],
    table: TokenTable,
    piece_of: Callable[[ChatMessage], str],
) -> Iterator[Finding]:
    """Yields findings for blank texts of pieces whose block must not be blank."""
    openers = {piece: table.openers[path[-1]] for piece, path in paths.items()}
    openers.setdefault("system", openers["user"])  # whose text begins with it
    refused = {piece: opener.shown for piece, opener in openers.items() if not opener.blank}
    for i, message in enumerate(messages if refused else ()):
        texts = [("thought", message.thought[1], message.thought[0])] if message.thought else []
        if message.content or not message.calls:
            texts.append((piece_of(message), "content", message.content))
        for piece, key, text in texts:
            if piece in refused and not text.strip():
                problem = f"the text in `{refused[piece]}` {REFUSES}"
                finding = Finding("MYP314", problem, f"/messages/{i}/{key}", help="write a text")
                yield regraded(finding, "error")


def incomplete_tools(missing: list[str], at: Place) -> Iterator[Finding]:
    """Yields a finding for what the text of the tools does not say, if anything is `missing`."""
    if missing:
        message = f"the text of the tools does not say {', '.join(missing[:5])}"
        yield Finding("MYP360", message + ", ..." * (len(missing) > 5), *at)


def with_moved_weights(message: ChatMessage, opener: Terminal) -> ChatMessage:
    """Returns a message whose parts with weights are those of its text when it is stripped."""
    weight = message.meta.get(WEIGHT)
    if not isinstance(weight, dict):
        return message
    text, (_, span) = stripped(message.content, opener, Place())
    if span is None:
        return message
    parts = [
        [*(min(max(n - span[0], 0), len(text)) for n in places), share]
        for *places, share in weight[PARTS]
    ]
    return replace(message, content=text, meta=message.meta | {WEIGHT: weight | {PARTS: parts}})


def placed_late(
    pieces: list[Part], late: list[Part], message: ChatMessage, following: list[ChatMessage]
) -> tuple[list[Part], list[Part]]:
    """Returns the pieces of a message, and those that are to come after its results: the text
    beside calls. `late` are those of messages before."""
    if [after.role for after in following] == ["tool"]:
        texts = [piece for piece in pieces if piece.kind == "answer"] if message.calls else []
        return [piece for piece in pieces if piece not in texts], late + texts
    return (pieces + late, []) if message.role == "tool" else (pieces, late)


def with_early_texts(
    parts: list[tuple[str, Part]], block: Message, following: Message | None, late: bool | str
) -> list[tuple[str, Part]]:
    """Returns the pieces of a block, texts after results before the calls: `placed_late` undone.

    If the turn goes on in the `following` block, or in an answer that is not there, the last text
    is one of them. Raises ValueError where `late` says that only prompts end such a text.
    """
    goes_on = following is not None and following.role == block.role
    early = block.meta.get(LATE, ())
    if goes_on and late != "ended":
        raise ValueError(f"no record can say this: {ENDED}")
    goes_on |= 0 < len(early) == len(block.meta.get(MESSAGES, ()))
    out, start, texts, text = list[tuple[str, Part]](), 0, iter(early), ""
    kinds = ["", *(kind for kind, _ in parts), "call" * goes_on]
    for (piece, part), before, after in zip(parts, kinds, kinds[2:], strict=False):
        if piece == "call" and before != "call":
            start, text = len(out), next(texts, "")
        if (before, piece) == ("result", "answer"):
            text = part.text if after in ("call", "thought") else text
            text = text if part.text.startswith(text) else ""
            out[start:start] = [(piece, replace(part, text=text))] * bool(text)
            part = replace(part, text=part.text.removeprefix(text))
            if after and not part.text:
                continue
        out.append((piece, part))
    return out


def late_weights(messages: Iterable[ChatMessage]) -> Iterator[Finding]:
    """Yields findings for weights of texts that have another weight than the text beside the calls
    before, which is in one text with them."""
    called: ChatMessage | None = None
    for i, message in enumerate(messages):
        follows = message.role == "assistant" and not (message.calls or message.thought)
        weights = [m.meta.get(WEIGHT, 1) for m in (called, message) if m and m.content]
        if follows and len(weights) == 2 and weights[0] != weights[1]:
            problem = "the weight is not that of the text beside the calls before"
            hint = "give both the same weight: the format has them in one text"
            yield Finding("MYP104", problem, f"/messages/{i}", help=hint)
        called = called if message.role == "tool" else message if message.calls else None


def add_notes(
    block: Block,
    message: ChatMessage,
    at: str,
    patterns_of: Callable[[str], dict[str, str]],
    turns: bool,
    listed: bool,
) -> None:
    """Keeps what a message says that no text has a place for.

    With `turns`, the block may have several messages; if calls are `listed`, their text has ids.
    """
    if message.role != "tool":
        ids = [call.get("id", "") for call in message.calls]
        has_no_place = any(ids) and not listed and "id" not in patterns_of("call")
        meta = message.meta | ({IDS: ids} if has_no_place else {})
        if turns and message.role == "assistant":
            block.meta.setdefault(MESSAGES, []).append(meta)
            if WEIGHT in meta:
                block.meta.setdefault(WEIGHTS, {})[at] = meta[WEIGHT]
        else:
            block.meta |= meta
        return
    patterns = patterns_of("result")
    values = {"tool_call_id": message.answers} if "id" not in patterns else {}
    values |= {"name": message.name} if "name" not in patterns else {}
    notes = {key: value for key, value in values.items() if value} | message.meta
    block.meta.setdefault(NOTES, []).append(notes)


def finished_blocks(finish: str, table: TokenTable) -> frozenset[str]:
    """Returns the blocks after which a mark comes: those that it closes, or those of the model."""
    models = (kind for kind, opener in table.openers.items() if opener.body_by_model)
    return frozenset((table.marks[finish].ends or models) if finish else ())


def fronted_question(
    messages: list[ChatMessage], system: SystemText, default: str
) -> tuple[int, dict[str, Any]]:
    """Returns the index of the question whose text begins with the system message, and the message.

    The index is -1 where there is no such message, or no question.
    """
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    first, is_default = messages[0], messages[0].role != "system"
    if not system.question or not users or (is_default and not default):
        return -1, {}
    message = {"content": default} if is_default else {"content": first.content} | first.meta
    return users[0 if system.question == "first" else -1], message


def misplaced_system(at: Place, index: int, fronted: int) -> list[Finding]:
    """Returns a finding for a system message, unless it is the one that a question begins with.

    `fronted` is the index of that question, -1 for none.
    """
    if index == 0 and fronted >= 0:
        return []
    if index == 0:
        message, hint = "the system message is part of a question, and there is none", "add one"
        return [Finding("MYP219", message, at.pointer, help=hint)]
    hint = "keep one system message, first, and merge the other text into it"
    return [Finding("MYP209", "a second system message", at.pointer, help=hint)]


def with_thoughts(
    messages: list[ChatMessage], options: TemplateOptions, values: Mapping[str, Any]
) -> list[ChatMessage]:
    """Returns messages with the empty thoughts that the options add, of which a record has values:
    one in each answer that has none, or in the last one.
    """
    last = options.empty_thought(values) and not options.only_prompts
    first = 0 if options.always_thinks else len(messages) - last
    out = list(messages)
    for i, message in enumerate(messages[first:], first):
        if message.role == "assistant" and message.thought is None:
            out[i] = replace(message, thought=("", ROLE))
    return out


def without_front(
    text: str, front: dict[str, Any] | None, system: SystemText, default: str
) -> tuple[list[dict[str, Any]], str]:
    """Returns (system message in a list, question) of the text of a question.

    `front` is the message that was read with it. Without one, it may begin with the `default`.
    """
    if front is None and default and system.question == "first":
        front = {"content": default}
    begin = None if front is None else system.front(front["content"])
    if front is None or begin is None or not text.startswith(begin):
        return [], text
    return [{ROLE: "system"} | front], text.removeprefix(begin)


def placed_in_system(
    findings: list[Finding], messages: Iterable[Message], system: SystemText
) -> list[Finding]:
    """Returns the findings, those before the text of a question in the system message before it."""
    sizes = {
        message.parts[0].at.pointer: len(message.meta[FRONT]["content"] + system.after)
        for message in messages
        if FRONT in message.meta and message.parts
    }
    out = []
    for finding in findings:
        size, (begin, end) = sizes.get(finding.pointer), finding.span or (0, 0)
        if size is not None and begin < 0:
            span = max(begin + size, 0), max(end + size, 0)
            finding = replace(finding, pointer="/messages/0/content", span=span, fix=None)
        out.append(finding)
    return out


def shape_of(roles: frozenset[str], *, tools: bool, calls: bool, thoughts: bool) -> RecordSchema:
    """Returns the shape of the records of a dialect that has these roles."""
    absent = {*(() if calls else ("tool_calls",)), *(() if thoughts else THOUGHTS)}
    fields = {
        role: {key: spec for key, spec in keys.items() if key not in absent}
        for role, keys in _ROLES.items()
        if role in roles
    }
    aliases = other_names(roles) | (dict.fromkeys(RESULTS, "tool") if "tool" in roles else {})
    top = {"messages": Field(LIST)} | ({"tools": _LIST} if tools else {})
    top |= {KEY: Field(OBJECT, required=False), "language": Field(LANGUAGE, required=False)}
    return RecordSchema(top, fields, aliases=aliases)


def check_messages(
    record: Any, schema: RecordSchema, *, ordered: bool, verbatim: bool
) -> tuple[dict[str, Any] | None, list[Finding], str]:
    """Returns as `record_schema.check_record` does, with a `ChatMessage` for each message.

    With `ordered`, the format tells results apart by their order alone, so that must be the order
    of their calls. With `verbatim`, it writes definitions of tools as they are given.
    """
    cleaned = _without_nulls(record)
    checked, findings, _ = check_record(cleaned, schema)
    walk = _Walk(findings, quoted=True, verbatim=verbatim)
    if isinstance(cleaned, dict) and isinstance(cleaned.get("tools"), list):
        walk.tools(cleaned["tools"])
    if checked is None:
        return None, findings, ""
    messages = [walk.message(m, f"/messages/{i}") for i, m in enumerate(checked["messages"])]
    if not walk.readable:
        return None, findings, ""
    checked["messages"] = walk.answered(messages, ordered=ordered)
    if not checked.get("tools", True):
        del checked["tools"]
    return checked, findings, ""


def _without_nulls(record: Any) -> Any:
    """Returns a record without keys that are null, and with tools that were JSON text."""
    if not isinstance(record, dict):
        return record
    record = _without(record, frozenset({"tools", KEY}))
    if isinstance(record.get("tools"), str):
        try:
            tools = loads(record["tools"])
            record["tools"] = tools if next(faults(tools), None) is None else record["tools"]
        except Fault:
            pass
    if isinstance(record.get("messages"), list):
        answers = ("assistant", "gpt", "model")
        record["messages"] = [
            _without(m, NULLABLE | ({"content"} if m.get(ROLE) in answers else set()))
            if isinstance(m, dict)
            else m
            for m in record["messages"]
        ]
    return record


def _without(item: dict[str, Any], drop: Set[str]) -> dict[str, Any]:
    """Returns a copy without these keys where they are null; it still says which key came twice."""
    result = copy.copy(item)
    for key in [k for k, v in item.items() if v is None and k in drop]:
        del result[key]
    return result


class _Walk(Objects):
    """Goes through the messages of a record that fits the schema."""

    def tools(self, tools: list[Any]) -> None:
        """Checks the definitions of tools, which stay as they are."""
        if not tools:
            self.add("MYP125", '"tools" is empty, and is left out', "/tools", help="delete the key")
        names: set[str] = set()
        for i, tool in enumerate(tools):
            self.tool(tool, f"/tools/{i}", names)

    def message(self, message: dict[str, Any], at: str) -> ChatMessage:
        calls: list[dict[str, Any]] = []
        for i, call in enumerate(message.get("tool_calls", ())):
            checked = self.call(call, f"{at}/tool_calls/{i}")
            calls += [] if checked is None else [checked]
        if message[ROLE] == "assistant" and not {"content", "tool_calls", *THOUGHTS} & set(message):
            self.add("MYP102", 'the assistant message has no "content"', at)
        content, answers = message.get("content", ""), message.get("tool_call_id", "")
        name, meta, thought = message.get("name", ""), metadata(message), self.thought(message, at)
        return ChatMessage(message[ROLE], content, thought, (*calls,), answers, name, meta=meta)

    def thought(self, message: dict[str, Any], at: str) -> tuple[str, str] | None:
        """Returns (text, key) of a thought. Two keys may hold the same text."""
        thoughts = [(message[key], key) for key in THOUGHTS if key in message]
        chosen = next((pair for pair in thoughts if pair[0]), next(iter(thoughts), None))
        for text, key in thoughts:
            if chosen is not None and text and text != chosen[0]:
                problem = f'"{key}" has other thoughts than "{chosen[1]}", which is read'
                self.add("MYP121", problem, f"{at}/{key}", on_key=True, help="keep one of them")
        return chosen

    def answered(self, messages: list[ChatMessage], *, ordered: bool) -> list[ChatMessage]:
        """Returns the messages, each result with the name of its call.

        How many results there are, and whether calls are before them, is no matter here.
        """
        out: list[ChatMessage] = []
        waiting: WaitingById[dict[str, Any]] = WaitingById()
        for i, message in enumerate(messages):
            if message.role != "tool":
                waiting = WaitingById()
                for call in message.calls:
                    waiting.wait(call, call.get("id", ""))
                self.ids(message.calls, f"/messages/{i}/tool_calls")
            elif waiting.first(ANY):
                message = self.result(message, waiting, f"/messages/{i}", ordered=ordered)
            elif message.answers:
                problem = f"no open call has the id {message.answers!r}"
                self.add("MYP310", problem, f"/messages/{i}/tool_call_id", keep=True)
            out.append(message)
        return out

    def ids(self, calls: Iterable[dict[str, Any]], at: str) -> None:
        """Adds a finding for each id of a call that occurs twice in one message."""
        call_ids: set[str] = set()
        for i, call in enumerate(calls):
            if call.get("id") in call_ids:
                self.findings.append(twice(call["id"], Place(f"{at}/{i}/id")))
            call_ids |= {call["id"]} if "id" in call else set()

    def result(
        self, message: ChatMessage, waiting: WaitingById[dict[str, Any]], at: str, *, ordered: bool
    ) -> ChatMessage:
        """Returns a result with the name of its call, which waits no longer."""
        following = waiting.first(ANY)
        call = waiting.take(message.answers) if message.answers else None
        # Where the format has ids, the result names a call in the text, too.
        if call is None and message.answers and (waiting.all_ids or not ordered):
            self.findings.append(waiting.unasked(message.answers, Place(f"{at}/tool_call_id")))
            return message
        call = call or waiting.take(ANY)
        assert call is not None, "results are looked at while calls wait"
        if call is not following and ordered:
            problem = f"the result is of the call {message.answers!r}, which is not the next one"
            hint = "put results in the order of their calls: the format has no ids to tell them by"
            self.add("MYP312", problem, f"{at}/tool_call_id", keep=True, help=hint)
        called = call["function"]["name"]
        if message.name and message.name != called:
            problem = f'the result is of "{message.name}", its call is of "{called}"'
            self.add("MYP312", problem, f"{at}/name", keep=True, help=f'write "{called}"')
        return replace(message, called=called)


def tools_in_question(tools: list[dict[str, Any]], reader: Reader) -> str:
    """Returns the definitions with which a question begins, and says what is escaped in them."""
    if tag := reader.table.literals.search(json.dumps(tools, ensure_ascii=False)):
        message = f"`{tag[0]}` in the definitions of tools"
        hint = "it is written with a \\u escape, so it is text and no tag"
        reader.findings.append(Finding("MYP302", message, *reader.top("tools"), help=hint))
    return write_indented(tools, reader.table.literals)
