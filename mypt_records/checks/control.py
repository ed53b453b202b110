"""Finds control strings of known formats in the text of messages. The list is control.toml."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import ascii_lowercase, digits
from typing import NamedTuple

from mypt_records.chat import Chat, Message, Text
from mypt_records.checks.registry import check
from mypt_records.fixes import replaced
from mypt_records.prefilter import prefilter
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding, Fix, regraded
from mypt_spec.memo import lazy_re

_MOST = 5  # findings about one text
_STRIKE = lazy_re(r"<s[ >]")  # of HTML and SSML, which `</s>` closes
# Tags of no known format, and known ones with spaces in them; those of places in an image are text.
_UNKNOWN = lazy_re(r"<\| ?(?!box_|quad_|object_ref|ref|det|point)([A-Za-z]\w{1,40}) ?\|>", re.ASCII)
_THOUGHT = re.compile(r"\s*(?P<tag><think>).*?</think>", re.DOTALL)
_OPENED = re.compile(r"<think(ing)?>\s*\Z")  # at the end of a prompt: the answer closes it
_HINT = "remove it, or escape it: as a special token it ends the text, or begins another message"
_BEGINNING = lazy_re(r"\s*(<s>|<bos>)?\s*")
# Where no template adds a stop token, this one alone teaches the model to stop: the fix is unsafe.
_CUT = "cut it off, if your template ends messages itself"
_RAW = "right if the trainer adds no stop token to an answer, and no template renders it"


class _Strings(NamedTuple):
    pattern: re.Pattern[str]
    formats: dict[str, str]


@cache
def strings_of(table: str) -> _Strings:
    """Returns the strings of a table of control.toml, each with the format that it belongs to."""
    data = load(Path(__file__).with_name("control.toml"))
    formats = {text: name for name, texts in data[table].items() for text in texts}
    longest = sorted(formats, key=len, reverse=True)
    return _Strings(re.compile("|".join(map(re.escape, longest))), formats)


@prefilter(
    "MYP301",
    "MYP370",
    needles=lambda: [
        *strings_of("formats").formats,
        *strings_of("thoughts").formats,
        ("<", "|", f"{ascii_lowercase} ", f"{ascii_lowercase}{digits}_"),
    ],
)
def _may_be_control(text: str) -> bool:
    if "<" not in text and "[" not in text:  # with which all begin
        return False
    tables = map(strings_of, ("formats", "thoughts"))
    return bool(_UNKNOWN.search(text) or any(table.pattern.search(text) for table in tables))


@check("MYP301")
def control_string(chat: Chat) -> Iterator[Finding]:
    """Finds control strings in texts, and thoughts in answers where thoughts are separate."""
    separate = any(message.thoughts for message in chat.messages)
    rendered = next((_written_in(m) for m in chat.messages if m.at == "/prompt"), frozenset())
    begun = any(m.role == "user" and _OPENED.search(m.text[-80:]) for m in chat.messages)
    for message in (*chat.messages, *chat.rejected):
        where = f"the {message.alias} message"
        for text in message.content or ():
            if not _may_be_control(text.text):
                continue
            strings, thoughts = strings_of("formats"), strings_of("thoughts")
            raw = message.role == "assistant" and text.at.count("/") == 1  # no message with a role
            fixable = not (raw or rendered or text.outer or message.calls or message.role == "tool")
            ending = "info" if raw and not rendered else "warning"
            own = rendered if raw or message.at == "/prompt" else frozenset[str]()
            yield from _in(text, strings, where, _HINT, fixable=fixable, ending=ending, own=own)
            if message.role == "assistant":
                yield from _unknown(chat, text, strings, where)
            if separate and message.role == "assistant":
                hint = "move the thought to where the others are"
                yield from _in(text, thoughts, f"{where}, beside separate thoughts", hint)
            elif message.role == "assistant":
                yield from _unpaired(text, thoughts.pattern, where, opened=begun)


def rendered_twice(chat: Chat) -> Iterator[Finding]:
    """Finds a prompt that is rendered already, where a chat template is to render the chat."""
    if any(message.at == "/prompt" and _written_in(message) for message in chat.messages):
        why = "the prompt is rendered already, and the chat template renders it again"
        hint = "train it as it is, without a chat template, or write it as messages without tags"
        yield regraded(Finding("MYP301", why, "/prompt", help=hint), "warning")


def _written_in(message: Message) -> frozenset[str]:
    """Returns the strings of the template that wrote a text: tags begin a turn, and follow."""
    strings, start = strings_of("formats"), _BEGINNING.match(message.text)
    first = start and strings.pattern.match(message.text, start.end())
    ends = strings_of("ends").formats
    if not first or first[0] in ends:
        return frozenset()
    name, later = strings.formats[first[0]], strings.pattern.findall(message.text, first.end())
    own = {s for s, of in strings.formats.items() if of == name or message.text.startswith(s)}
    return frozenset(own | {s for s in ends if s + "\n" in message.text} if own & {*later} else ())


@check("MYP370")
def thought_in_text(chat: Chat) -> Iterator[Finding]:
    """Finds the first text that begins with a thought in tags, where none is separate."""
    for message in chat.messages:
        spoken = message.role in ("user", "assistant")
        first = message.content[0] if message.content and spoken else None
        if first is not None and (pair := _THOUGHT.match(first.text)) is not None:
            if not any(m.thoughts for m in chat.messages):
                why = f"`{pair['tag']}` in the {message.alias} message: its thought is text"
                hint = (
                    'put it under "reasoning_content", where templates that know thoughts read it'
                    if message.role == "assistant"
                    else "nobody but a model writes these tags: is it the text of an answer?"
                )
                yield Finding("MYP370", why, first.at, pair.span("tag"), help=hint)
            return


def _unknown(chat: Chat, text: Text, strings: _Strings, where: str) -> Iterator[Finding]:
    """Yields the first tag that looks like a special token, unless other messages have it."""
    for match in _UNKNOWN.finditer(text.text):
        known, spaced = f"<|{match[1]}|>" in strings.formats, " " in match[0]
        texts = "\n".join(t.text for _, t in chat.texts() if t is not text)
        if known == spaced and match[0] not in texts:
            why = f"`{match[0]}` in {where} looks like a special token"
            yield _graded(why, text, match.span(), _HINT, severity="info")
            return


def _unpaired(text: Text, tags: re.Pattern[str], where: str, *, opened: bool) -> Iterator[Finding]:
    """Yields findings about thoughts that have but one of their tags.

    One in the middle of a line may be what the text is about. `opened`: the prompt opens a thought.
    """
    last = None
    for tag in tags.finditer(text.text):
        last, before = tag, opened
        opened = not tag[0].startswith("</")
        line = text.text[tag.start() - 1 : tag.start()] in ("", "\n")
        if not before and not opened and (line or text.text[tag.end() :][:1] in ("", "\n")):
            why = f"`{tag[0]}` in {where} has no `{tag[0].replace('/', '')}` before it"
            yield _graded(why, text, tag.span(), "write both tags, or move the thought apart")
    if opened and last is not None and not text.text[: last.start()].strip():
        closing = f"</{last[0][1:]}"
        why = f"`{last[0]}` in {where} is not closed"
        yield _graded(why, text, last.span(), f"write `{closing}` after the thought")


def _graded(
    message: str, text: Text, span: tuple[int, int], hint: str, fix: Fix | None = None,
    severity: str = "warning",
) -> Finding:  # fmt: skip
    return regraded(Finding("MYP301", message, text.at, span, help=hint, fix=fix), severity)


def _in(
    text: Text, strings: _Strings, where: str, hint: str, *,
    fixable: bool = False, ending: str = "warning", own: frozenset[str] = frozenset(),
) -> Iterator[Finding]:  # fmt: skip
    """Yields findings about strings that are not `own`; `ending` is the severity at the end."""
    count = 0
    for match in strings.pattern.finditer(text.text):
        is_strike = match[0] == "</s>" and _STRIKE.search(text.text, 0, match.start())
        ends = match[0] in strings_of("ends").formats and not text.text[match.end() :].strip()
        if is_strike or (match[0] in own and (ends or text.at == "/prompt")):
            continue
        count += 1
        if count > _MOST:
            return
        message = f"`{match[0]}` of {strings.formats[match[0]]} in {where}"
        before = text.text[: match.start()]
        fix = replaced(text.at, before, _CUT, safe=False) if ends and fixable else None
        hint = _RAW if ends and ending == "info" else hint
        yield _graded(message, text, match.span(), hint, fix, ending if ends else "warning")
