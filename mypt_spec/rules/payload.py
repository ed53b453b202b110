"""Family 3, payload: what stands inside the blocks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from mypt_spec.body import NAME, read_body
from mypt_spec.conform import Patience, SchemaError
from mypt_spec.episode import Attrs, Episode, Event, Part, Place
from mypt_spec.findings import Finding, rule
from mypt_spec.jsonvalue import Node, pointer_to
from mypt_spec.nearmiss import near_miss
from mypt_spec.placement import mistake_of, name_refusal
from mypt_spec.repair import Repair
from mypt_spec.rules.context import Context, Run
from mypt_spec.surface import lex
from mypt_spec.tokens import CALLS, TEXT, Terminal, TokenTable

_LONG = 400  # code points of a body that is remembered
_BLANK = "write what belongs there, or leave the field or the message out"


@lru_cache(maxsize=1000)
def _faultless(text: str, body: str, literals: re.Pattern[str]) -> bool:
    """Whether there is nothing to say about a body. Short ones come again and again."""
    return not read_body(text, body, literals, Place()).findings


@lru_cache(maxsize=1000)
def _called(text: str) -> Any:
    """The name in the body of a call."""
    return json.loads(text)[NAME]


def _span(event: Event, start: int, end: int) -> tuple[int, int]:
    base = event.at.span[0] if event.at.span else 0
    return base + start, base + end


@rule("MYP301", "tag-in-content")
def tag_in_content(context: Context) -> Iterator[Finding]:
    """A tag is spelled inside content.

    ## What it finds
    A tag in the text of a message, where it can only be content: in what a user, a document or a tool said.

    ## Why it matters
    Serialised, it becomes a real special token: a document that mentions a tag ends its block and flips the mask of all that follows.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "What does <myPT_assistant> mean?"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "What does the assistant tag mean?"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Content
    """
    for run in context.texts if context.table.literals.search(context.content) else ():
        if run.body == "text" and context.table.literals.search(run.event.text):
            yield from _tags(run, context)


def _tags(run: Run, context: Context) -> Iterator[Finding]:
    """One finding a block or stray tag: the closing tag of a spelled block belongs to the finding of its opening tag."""
    table = context.table
    owed: Counter[str] = Counter()  # by closing tag
    for event in lex(run.event.text, table):
        if event.terminal == TEXT:
            continue
        terminal = table.terminals.get(event.terminal)
        paid = (
            next((kind for kind in terminal.ends if owed[kind]), "") if terminal is not None else ""
        )
        if paid:
            owed[paid] -= 1
            continue
        if terminal is not None and terminal.opens in table.closers:
            owed[terminal.opens] += 1
        start, end = event.at.span or (0, 0)
        found = run.event.text[start:end]
        if terminal is not None and terminal.spaced:  # the white space around it is the content's
            start, end = (
                start + len(found) - len(found.lstrip()),
                end - len(found) + len(found.rstrip()),
            )
        expected = run.expected(context.automaton, behind=start > 0)
        at = run.event.at._replace(span=_span(run.event, start, end))
        code, message, cure = name_refusal(
            event._replace(at=at), expected, run.inside, "", Repair(), table
        )
        row = mistake_of(event, expected, run.inside, "", table, lesser=False)
        fits = row is not None and row.terminal == event.terminal and code[3] == "2"
        if (
            event.terminal in expected or not fits
        ):  # no name of a misplacement is about this very tag
            code, message = (
                "MYP301",
                f"`{terminal.shown if terminal else event.text}` in the content of `{table.openers[run.inside].shown}`",
            )
            cure, expected = (
                "content must not spell tags: take it out, or write it differently",
                frozenset(),
            )
        yield Finding(code, message, at.pointer, at.span, table.describe(expected), cure)


@rule("MYP302", "tag-in-json", "warning")
def tag_in_json(context: Context) -> Iterator[Finding]:
    r"""A string inside a JSON body spells a tag.

    ## What it finds
    A string in the JSON of a call or result that spells a tag. It is written with `\u003c`, so it is text and no tag.

    ## Why it matters
    It is harmless as written, but rarely meant: mostly a document about the format, or an attempt to inject structure.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": {"text": "<myPT_eot>"}}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": {"text": "end of turn"}}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """
    for run in context.texts:
        if run.body == "text" or "\\u" not in run.event.text:
            continue
        value = read_body(run.event.text, run.body, context.table.literals, run.event.at).value
        stack: list[tuple[Node, Any]] = [(None, value)]
        while stack:
            node, value = stack.pop()
            if isinstance(value, dict):
                for key, item in reversed(value.items()):
                    yield from _spelled(key, (node, key), run, context, key=True)
                    stack.append(((node, key), item))
            elif isinstance(value, list):
                stack += [((node, i), v) for i, v in reversed(list(enumerate(value)))]
            elif isinstance(value, str):
                yield from _spelled(value, node, run, context)


def _spelled(
    text: str, node: Node, run: Run, context: Context, *, key: bool = False
) -> Iterator[Finding]:
    match = context.table.literals.search(text)
    if match is None:
        return
    pointer = pointer_to(node)
    message = f"`{match[0]}` in a JSON string of `{context.table.openers[run.inside].shown}`"
    cure = "it is written with a \\u escape, so it is text and no tag; make sure that this is meant"
    place = run.event.at
    if place.pointer:
        span = None if key else match.span()
        name_at = run.event.name_at if pointer == f"/{NAME}" else None
        yield Finding(
            "MYP302",
            message,
            name_at.pointer if name_at else place.pointer + pointer,
            span,
            help=cure,
            on_key=key,
        )
    else:
        yield Finding("MYP302", message, "", place.span, help=cure)


@rule("MYP303", "near-miss-tag")
def near_miss_tag(context: Context) -> Iterator[Finding]:
    """Text that is almost a tag.

    ## What it finds
    Text that is almost a tag: another case, a letter lost, an underscore too many.

    ## Why it matters
    To the tokenizer it is ordinary text. The block it should open or close is missing, and the model learns to write the misspelling.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_asistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Content
    """
    for run in context.texts if near_miss(context.content, context.table) else ():
        if run.body != "text":
            continue
        found = near_miss(run.event.text, context.table)
        while found is not None:
            span = _span(run.event, found.start, found.end)
            message = f"`{found.text}` is no tag; did you mean `{found.meant}`?"
            yield Finding(
                "MYP303",
                message,
                run.event.at.pointer,
                span,
                help="correct the spelling, or take it out",
            )
            found = near_miss(run.event.text, context.table, found.end)


@rule("MYP304", "body-not-json")
def body_not_json(context: Context) -> Iterator[Finding]:
    """A tool call or result is not JSON.

    ## What it finds
    The body of a toolcall or toolresult block that no JSON parser reads.

    ## Why it matters
    The controller cannot run such a call, and a model that is trained on them writes more of them.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>find(q)</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """
    for run in context.texts:
        if run.body != "text":
            event = run.event
            if len(event.text) > _LONG or not _faultless(
                event.text, run.body, context.table.literals
            ):
                yield from read_body(
                    event.text, run.body, context.table.literals, event.at, event.name_at
                ).findings


@rule("MYP305", "call-not-an-object")
class CallNotAnObject:
    """A tool call is JSON, but not an object.

    ## What it finds
    The body of a toolcall block that is an array, a string, a number or null.

    ## Why it matters
    A call is an object with a name and arguments; no tool can be found in anything else.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>["find", "x"]</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """


@rule("MYP306", "call-without-name")
class CallWithoutName:
    """A tool call does not name its tool.

    ## What it finds
    A call without `name`, or with one that is empty or no string.

    ## Why it matters
    The controller does not know which tool to run.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """


@rule("MYP307", "reserved-argument-name")
class ReservedArgumentName:
    """An argument is called "name".

    ## What it finds
    A call with an argument called `name`.

    ## Why it matters
    Name and arguments share one object, so the argument overwrites the name of the tool: the call goes to a tool called `Ada`.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"name": "Ada"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"person": "Ada"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """


@rule("MYP308", "non-canonical-json", "warning")
class NonCanonicalJson:
    r"""A JSON body is valid, but not in canonical form.

    ## What it finds
    A body that is JSON, but spelled in another way than the serialiser writes it: other spacing, `\u` escapes. The fix is safe.

    ## Why it matters
    One call would have many spellings. The model splits its probability between them, and a read body does not come back byte for byte.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name":"find","q":"x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """


@rule("MYP309", "name-not-first", "warning")
class NameNotFirst:
    """A tool call does not begin with its name.

    ## What it finds
    A call whose first key is not `name`. The fix is safe.

    ## Why it matters
    With the name first, the arguments can be checked against the tool while the model writes them; with the name last they cannot.

    ## Bad
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"q": "x", "name": "find"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Good
    ```text
    <myPT_system>S</myPT_system>
    <myPT_user>Hi</myPT_user>
    <myPT_assistant><myPT_toolcall>{"name": "find", "q": "x"}</myPT_toolcall></myPT_assistant>
    <myPT_toolresult>1</myPT_toolresult>
    <myPT_assistant>Hello.</myPT_assistant>
    <myPT_eot>
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """


@rule("MYP310", "result-without-call")
class ResultWithoutCall:
    """A tool result that no call asked for.

    ## What it finds
    A tool result that does not follow a call.

    ## Why it matters
    The model learns that results come from nowhere, and does not learn to ask for them.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP311", "call-without-result")
class CallWithoutResult:
    """A tool call that is not followed by its result.

    ## What it finds
    A call that is not followed by its result.

    ## Why it matters
    The model learns to call a tool and answer without waiting, so it makes the result up.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Turns
    """


@rule("MYP312", "result-name-mismatch")
def result_name_mismatch(context: Context) -> Iterator[Finding]:
    """A tool result carries another name than the call before it.

    ## What it finds
    A result under another name than the call before it.

    ## Why it matters
    The name of a result is not in the text: it is taken from the call. The data says one thing, the model sees another.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "search", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Records
    """
    called: str | None = None
    for message in context.episode.messages:
        name = dict(message.attrs).get(NAME) if message.attrs else None
        if called and name and name != called:
            text = f'the result is of "{name}", the call before it is of "{called}"'
            yield Finding(
                "MYP312", text, *(message.name_at or message.at), help=f'write "{called}"'
            )
        calls = [
            p
            for p in message.parts
            if p.kind != "text" and context.table.openers[p.kind].body in CALLS
        ]
        called = dict(calls[-1].attrs).get(NAME) if calls else None


@rule("MYP313", "unknown-tool", "warning")
def unknown_tool(context: Context) -> Iterator[Finding]:
    r"""A call of a tool that is declared nowhere.

    ## What it finds
    A call of a tool that neither the system prompt nor the configuration declares. Without any declaration the rule is silent.

    ## Why it matters
    The model learns to call tools that it was not given.

    ## Bad
    ```jsonl
    {"system": "Tools:\n- find(q) - find documents", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "search", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "search", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl
    {"system": "Tools:\n- find(q) - find documents", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "find", "arguments": {"q": "x"}}, {"role": "toolresult", "name": "find", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """
    declared = context.limits.tools | declared_tools(context.episode, context.table)
    if not declared:
        return
    for part in context.calls:
        try:
            name = dict(part.attrs).get(NAME) or (
                _called(part.text) if len(part.text) <= _LONG else json.loads(part.text)[NAME]
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(name, str) and name not in declared:
            text = f"the tool {name!r} is declared nowhere"
            yield Finding(
                "MYP313",
                text,
                *(part.name_at or part.at),
                help=f"declared are {', '.join(sorted(declared))}",
            )


def declared_tools(episode: Episode, table: TokenTable) -> frozenset[str]:
    """The tools that an Episode declares in its own text."""
    names = table.tool_names
    if names is None:
        return frozenset()
    declaring = [
        m.text for m in episode.messages if m.role in table.openers and table.openers[m.role].quotes
    ]
    return frozenset(name for text in declaring for name in names.findall(text))


@rule("MYP314", "blank-content", "warning")
def blank_content(context: Context) -> Iterator[Finding]:
    r"""A block holds nothing but white space.

    ## What it finds
    A block with nothing but spaces, tabs or newlines.

    ## Why it matters
    It is legal, and mostly a field that a generator failed to fill; trained, it teaches the model to answer with nothing.

    ## Bad
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " \n"}]}
    ```

    ## Good
    ```jsonl
    {"system": "S", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, Content
    """
    openers = context.table.openers
    for message in context.episode.messages:
        if not any(part.text.isspace() for part in message.parts):
            continue
        text = message.text
        calls = any(p.kind != "text" and openers[p.kind].body in CALLS for p in message.parts)
        if text.isspace() and message.role in openers and not calls:
            place = next(p.at for p in message.parts if p.kind == "text")
            yield Finding(
                "MYP314",
                f"`{openers[message.role].shown}` holds only white space",
                place.pointer,
                place.span,
                help=_BLANK,
            )
        for part in message.parts:
            if part.kind != "text" and part.text.isspace():
                yield Finding(
                    "MYP314",
                    f"`{openers[part.kind].shown}` holds only white space",
                    *part.at,
                    help=_BLANK,
                )


@rule("MYP320", "attribute-value")
def attribute_value(context: Context) -> Iterator[Finding]:
    """An attribute of a tag has a value that the tag cannot hold.

    ## What it finds
    A value that is empty or holds a character that would end the tag: a quote, an angle bracket, a line end. An attribute that
    is missing, or that the tag does not have.

    ## Why it matters
    What is read back would be another tag, or none.

    ## Bad
    ```jsonl dialect=mypt-3b
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "t", "arguments": {}}, {"role": "tool_result", "name": "", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Good
    ```jsonl dialect=mypt-3b
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant_toolcall", "name": "t", "arguments": {}}, {"role": "tool_result", "name": "t", "content": 1}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/mypt_3b/SPEC.md`, Terminals
    """
    table = context.table
    tags = {**table.openers, **table.marks}
    for message in context.episode.messages:
        if message.attrs or tags[message.role].patterns:
            yield from _attributes(tags[message.role], message.attrs, message.name_at or message.at)
        for part in message.parts:
            if part.kind != "text" and (part.attrs or table.openers[part.kind].patterns):
                yield from _attributes(
                    table.openers[part.kind], part.attrs, part.name_at or part.at
                )


def _attributes(terminal: Terminal, attrs: Attrs, at: Place) -> Iterator[Finding]:
    given = dict(attrs)
    for key, pattern in terminal.patterns.items():
        value = given.pop(key, None)
        if value is None:
            yield Finding("MYP320", f"`{terminal.shown}` has no {key}", *at)
        elif not re.fullmatch(pattern, value):
            cure = "leave out quotes, angle brackets and line ends" if value else f"give it a {key}"
            yield Finding(
                "MYP320", f"{value!r} cannot be the {key} of `{terminal.shown}`", *at, help=cure
            )
    for key in given:
        yield Finding("MYP320", f"`{terminal.shown}` has no place for the attribute {key!r}", *at)


@rule("MYP332", "call-without-arguments")
class CallWithoutArguments:
    """A tool call has no object of arguments.

    ## What it finds
    A call whose arguments have a key of their own, and that key is missing or holds no object.

    ## Why it matters
    No tool can be called with it; a tool without arguments gets an empty object.

    ## Bad
    ```text dialect=praxis
    [BOS]user
    What time is it?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "clock"}
    </tin><tout>12:00</tout>
    Noon.[EOS]
    ```

    ## Good
    ```text dialect=praxis
    [BOS]user
    What time is it?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "clock", "arguments": {}}
    </tin><tout>12:00</tout>
    Noon.[EOS]
    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Calls and results
    """


@rule("MYP333", "unknown-key-in-call")
class UnknownKeyInCall:
    """A tool call has a key beside its name and arguments.

    ## What it finds
    A call whose arguments have a key of their own, and that has a third key.

    ## Why it matters
    It is no argument, so no tool would get it.

    ## Bad
    ```text dialect=praxis
    [BOS]user
    What time is it?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "clock", "arguments": {}, "zone": "UTC"}
    </tin><tout>12:00</tout>
    Noon.[EOS]
    ```

    ## Good
    ```text dialect=praxis
    [BOS]user
    What time is it?
    [SEP]
    [BOS]assistant
    <tin>
    {"name": "clock", "arguments": {"zone": "UTC"}}
    </tin><tout>12:00</tout>
    Noon.[EOS]
    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Calls and results
    """


@rule("MYP334", "content-given-twice")
class ContentGivenTwice:
    """A message gives its content in two ways.

    ## What it finds
    A message with `content` and `contents`: one string, and a list of items.

    ## Why it matters
    Only one of them can be what the model sees, and nothing says which.

    ## Bad
    ```jsonl dialect=praxis
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", "contents": [{"type": "text", "text": "Hello."}]}]}
    ```

    ## Good
    ```jsonl dialect=praxis
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    ```

    ## Spec
    `grammar/praxis/SPEC.md`, Records
    """


@rule("MYP340", "functions-unreadable")
class FunctionsUnreadable:
    """Definitions of functions cannot be read.

    ## What it finds
    The functions block holds something else than a namespace as the format writes it.

    ## Why it matters
    No tool can be known from it.

    ## Bad
    ```text dialect=usf-omega
    <bos><functions_start>
    search(query)
    <functions_end>
    <start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Good
    ```text dialect=usf-omega
    <bos><functions_start>
    namespace functions {

    type search = () => any;

    } // namespace functions
    <functions_end>
    <start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Functions
    """


@rule("MYP341", "functions-not-canonical", "warning")
class FunctionsNotCanonical:
    """Definitions of functions are not in canonical form.

    ## What it finds
    They can be read, and would be written otherwise.

    ## Why it matters
    One form means that equal tools have equal tokens.

    ## Bad
    ```text dialect=usf-omega
    <bos><functions_start>
    namespace functions {
    type search = () => any;
    } // namespace functions
    <functions_end>
    <start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Good
    ```text dialect=usf-omega
    <bos><functions_start>
    namespace functions {

    type search = () => any;

    } // namespace functions
    <functions_end>
    <start>user
    Hello
    <end>
    <start>assistant
    <message_start>Hi!<message_end>
    <end>
    <eos>
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Functions
    """


@rule("MYP342", "answer-not-json")
class AnswerNotJson:
    """The answer must be JSON, and is not.

    ## What it finds
    `json_mode`, `response_format` or `response_schema` asks for JSON, and the last message of the final answer is none.

    ## Why it matters
    The model would learn that the flag means nothing.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}], "json_mode": true}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "{}"}], "json_mode": true}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP343", "answer-misfits-schema")
class AnswerMisfitsSchema:
    r"""The answer does not fit the schema.

    ## What it finds
    The final answer is JSON, but not what `response_schema` or `response_format` describes.

    ## Why it matters
    The model would learn to break schemas.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "{\"a\": \"x\"}"}], "response_schema": {"properties": {"a": {"type": "integer"}}}}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "{\"a\": 1}"}], "response_schema": {"properties": {"a": {"type": "integer"}}}}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP344", "answer-not-an-object")
class AnswerNotAnObject:
    """The answer must be a JSON object, and is another JSON value.

    ## What it finds
    `response_format` is `json_object`, and the final answer is an array, a string or a number.

    ## Why it matters
    Who asks for an object reads an object.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "[]"}], "response_format": {"type": "json_object"}}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "{}"}], "response_format": {"type": "json_object"}}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP345", "over-thinking-budget")
class OverThinkingBudget:
    """Reasoning is longer than its budget.

    ## What it finds
    The reasoning of one answer has more tokens than `thinking_budget`.

    ## Why it matters
    The model would learn to overrun budgets.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "reasoning": "One two three.", "content": "Hi!"}], "thinking_budget": 2}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "reasoning": "One two three.", "content": "Hi!"}], "thinking_budget": 64}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP346", "reasoning-without-effort")
class ReasoningWithoutEffort:
    """An answer reasons, and the effort is `none`.

    ## What it finds
    `reasoning_effort` is `none`, which means no reasoning block.

    ## Why it matters
    The model would learn that the level means nothing.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "reasoning": "One.", "content": "Hi!"}], "reasoning_effort": "none"}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "reasoning": "One.", "content": "Hi!"}], "reasoning_effort": "low"}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP347", "reflection-disabled")
class ReflectionDisabled:
    """An answer reflects on itself, and the flag is off.

    ## What it finds
    `self_reflection_enabled` is false and there is a self-reflection.

    ## Why it matters
    The model would learn that the flag means nothing.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!", "self_reflection": "Short."}], "self_reflection_enabled": false}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!", "self_reflection": "Short."}], "self_reflection_enabled": true}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Flags
    """


@rule("MYP349", "call-answered-twice")
class CallAnsweredTwice:
    """A call has two results.

    ## What it finds
    Two tool messages carry the id of the same call.

    ## Why it matters
    One of them answers another call, or none.

    ## Bad
    ```jsonl dialect=usf-omega also=MYP311
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c2", "type": "function", "function": {"name": "search", "arguments": {}}}]}, {"role": "tool", "tool_call_id": "c1", "content": "1"}, {"role": "tool", "tool_call_id": "c1", "content": "1"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c2", "type": "function", "function": {"name": "search", "arguments": {}}}]}, {"role": "tool", "tool_call_id": "c1", "content": "1"}, {"role": "tool", "tool_call_id": "c2", "content": "1"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Calls and results
    """


@rule("MYP350", "parallel-call-without-id")
class ParallelCallWithoutId:
    """One of several parallel calls has no id.

    ## What it finds
    A list of two or more calls has one without `id`.

    ## Why it matters
    A result could not say which call it answers.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"type": "function", "function": {"name": "search", "arguments": {}}}]}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c2", "type": "function", "function": {"name": "search", "arguments": {}}}]}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Calls and results
    """


@rule("MYP351", "duplicate-call-id")
class DuplicateCallId:
    """Two calls of one message have the same id.

    ## What it finds
    An id stands twice in one assistant message.

    ## Why it matters
    A result with that id would answer both.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}]}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c2", "type": "function", "function": {"name": "search", "arguments": {}}}]}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Calls and results
    """


@rule("MYP352", "result-without-id")
class ResultWithoutId:
    """A result does not say which call it answers.

    ## What it finds
    Several calls are open, and the tool message has no `tool_call_id`.

    ## Why it matters
    The model could only guess.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c2", "type": "function", "function": {"name": "search", "arguments": {}}}]}, {"role": "tool", "content": "1"}, {"role": "tool", "tool_call_id": "c2", "content": "1"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}, {"id": "c2", "type": "function", "function": {"name": "search", "arguments": {}}}]}, {"role": "tool", "tool_call_id": "c1", "content": "1"}, {"role": "tool", "tool_call_id": "c2", "content": "1"}, {"role": "assistant", "content": "Hi!"}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Calls and results
    """


@rule("MYP353", "arguments-misfit", "warning")
class ArgumentsMisfit:
    """Arguments do not fit the parameters of their tool.

    ## What it finds
    A call of a declared tool leaves out an argument that it needs, or gives one of another type.

    ## Why it matters
    The model would learn calls that fail.

    ## Bad
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {}}}]}], "tools": [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}}]}
    ```

    ## Good
    ```jsonl dialect=usf-omega
    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"query": "A"}}}]}], "tools": [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}}]}
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Calls and results
    """


@rule("MYP354", "malformed-call")
class MalformedCall:
    """A list of calls is not of the format's shape.

    ## What it finds
    In a text, what stands between the tool call tags is no array of `{"id", "type", "function": {"name",
    "arguments"}}`.

    ## Why it matters
    Nothing could run it.

    ## Bad
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>assistant
    <tool_calls_start>[]<tool_calls_end>
    <end>
    <eos>
    ```

    ## Good
    ```text dialect=usf-omega
    <bos><start>user
    Hello
    <end>
    <start>assistant
    <tool_calls_start>[{"type": "function", "function": {"name": "search", "arguments": {}}}]<tool_calls_end>
    <end>
    <eos>
    ```

    ## Spec
    `grammar/usf_omega/SPEC.md`, Calls and results
    """


@rule("MYP356", "result-misfit", "warning")
def result_misfit(context: Context) -> Iterator[Finding]:
    """A result does not fit the schema of its tool.

    ## What it finds
    With schemas of tools in the configuration (`[tools.NAME]`, `arguments` and `result`): a result that its tool cannot
    give. Arguments that do not fit are MYP353.

    ## Why it matters
    The model learns to expect results that no tool gives, and fails on real ones.

    ## Bad
    ```jsonl tools=count result=count:{"type":"integer"}
    {"system": "S", "messages": [{"role": "user", "content": "How many?"}, {"role": "assistant_toolcall", "name": "count", "arguments": {}}, {"role": "toolresult", "name": "count", "content": "many"}, {"role": "assistant", "content": "Many."}]}
    ```

    ## Good
    ```jsonl tools=count result=count:{"type":"integer"}
    {"system": "S", "messages": [{"role": "user", "content": "How many?"}, {"role": "assistant_toolcall", "name": "count", "arguments": {}}, {"role": "toolresult", "name": "count", "content": 3}, {"role": "assistant", "content": "Three."}]}
    ```

    ## Spec
    `grammar/mypt/SPEC.md`, JSON bodies
    """
    schemas = {schema.name: schema for schema in context.limits.schemas}
    if not schemas:
        return
    patience, called = Patience(), ""
    for message in context.episode.messages:
        opener = context.table.openers.get(message.role)
        if (
            opener is not None
            and opener.body == "json"
            and (name := dict(message.attrs).get(NAME) or called) in schemas
        ):
            place = next((p.at for p in message.parts), message.at)
            yield from _misfit(
                "MYP356",
                f"the result of {name!r}",
                message.text,
                schemas[name].result,
                place,
                patience,
            )
        for part in message.parts if opener is not None and not opener.quotes else ():
            body = context.table.openers[part.kind].body if part.kind != "text" else ""
            if body in CALLS:
                called, arguments = _call(part, body)
                if called in schemas:
                    yield from _misfit(
                        "MYP353",
                        f"the arguments of {called!r}",
                        arguments,
                        schemas[called].arguments,
                        part.at,
                        patience,
                    )
            elif body == "json" and called in schemas:
                yield from _misfit(
                    "MYP356",
                    f"the result of {called!r}",
                    part.text,
                    schemas[called].result,
                    part.at,
                    patience,
                )


def _call(part: Part, body: str) -> tuple[str, Any]:
    """The name and the arguments of a call; no name where its body is none."""
    try:
        value = json.loads(part.text)
    except (ValueError, RecursionError):
        return "", None
    name = dict(part.attrs).get(NAME) or (value.get(NAME) if isinstance(value, dict) else "")
    if body == "call" and isinstance(value, dict):
        return str(name), {key: item for key, item in value.items() if key != NAME}
    return str(name), value.get("arguments") if body == "function" and isinstance(
        value, dict
    ) else value


def _misfit(
    code: str, what: str, value: Any, schema: str, place: Place, patience: Patience
) -> Iterator[Finding]:
    if not schema:
        return
    try:
        given = json.loads(value) if isinstance(value, str) else value
        found = patience.misfits(given, json.loads(schema))
    except (SchemaError, ValueError, RecursionError) as error:
        if isinstance(error, SchemaError):
            yield Finding("MYP128", f"{what} cannot be checked: {error}", *place)
        return
    for pointer, message in found:
        at = place._replace(pointer=place.pointer + pointer, span=None) if place.pointer else place
        yield Finding(
            code,
            f"{what} do not fit: {message}"
            if code == "MYP353"
            else f"{what} does not fit: {message}",
            *at,
        )
