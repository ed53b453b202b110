"""Finds calls and results that do not belong together.

Where calls and results have ids, the ids decide; elsewhere a result belongs to the calls before it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from string import whitespace

from mypt_records.chat import Call, Chat, Message
from mypt_records.checks.registry import check, once_per_chat
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding, regraded
from mypt_spec.memo import lazy_re

_CUT = lazy_re(r'(?a)\{\s*"|\[\s*\{')  # the beginning of JSON
_PYTHON = lazy_re(r"\[?\{'[^'\n]{1,60}': ")
_OBJECT = "[object Object]"
# A program may say at the end that it has left something out.
_SHORTENED = lazy_re(r"(?i:truncat|omitted|\.\.\.|…|\bmore\b)")
_END = 60  # characters
# Tools that show a part of a file, or what a program printed.
_SHOWS = lazy_re(
    r"(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?i:i?python|code|exec|bash|shell|terminal|command|cmd|run|read"
    r"|view|open|files?|fetch|browse|head|tail|grep|jupyter|repl|notebook|editor|logs?)(?![a-z])"
)
_decode = json.JSONDecoder(strict=False).raw_decode
_LISTED = "/tool_calls/"  # in the pointer of a call that is no text
# An id that no counter made: letters after digits, such as `call_9xK2p0Qd`.
_RANDOM = lazy_re(
    r"(?:[A-Za-z]+[-_])*(?=[A-Za-z0-9-]{8})[A-Za-z0-9-]*\d[A-Za-z0-9-]*[A-Za-z][A-Za-z0-9-]*"
)


@dataclass(slots=True)
class Round:
    """Messages of calls, one directly after the other, and the messages of results after them.

    `goes_on`: other messages follow, so no result can come any more.
    """

    calls: list[Call] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    goes_on: bool = False

    @property
    def ids(self) -> list[str]:
        """Returns the ids of the calls that have one."""
        return [call.id.text for call in self.calls if call.id is not None]


@once_per_chat
def rounds(chat: Chat) -> list[Round]:
    """Returns all rounds; results without any call are in rounds without calls."""
    out: list[Round] = []
    for message in chat.messages:
        if message.calls:
            if not out or out[-1].goes_on or out[-1].results:
                for last in out[-1:]:
                    last.goes_on = True
                out.append(Round())
            out[-1].calls += message.calls
        elif message.role == "tool":
            if not out or out[-1].goes_on:
                out.append(Round())
            out[-1].results.append(message)
        elif out:
            out[-1].goes_on = True
    return out


def _call_of(one: Round, result: Message) -> Call | None:
    if result.answers is None:
        return one.calls[0] if len(one.calls) == 1 else None
    call_id = result.answers.text
    return next((c for c in one.calls if c.id is not None and c.id.text == call_id), None)


@check("MYP310")
def result_without_call(chat: Chat) -> Iterator[Finding]:
    """Finds results that no call asked for."""
    for one in rounds(chat):
        ids = one.ids
        for result in one.results:
            answers = result.answers
            if not one.calls:
                message = "no call is directly before this result"
                hint = "put the call before it, or delete it"
                yield Finding("MYP310", message, result.at, help=hint)
            elif answers is not None and ids and answers.text not in ids:
                message = f"no call before it has the id {answers.text!r}"
                yield Finding("MYP310", message, answers.at, help=f"ids are {', '.join(ids)}")
            elif answers is not None and not ids and _LISTED in one.calls[0].at:
                message = f"no call before it has the id {answers.text!r}: none has an id"
                yield Finding("MYP310", message, answers.at, help='give the call the same "id"')


@check("MYP311")
def call_without_result(chat: Chat) -> Iterator[Finding]:
    """Finds calls that get no result although the conversation goes on."""
    for one in rounds(chat):
        if not one.goes_on or not one.calls:
            continue
        answered = {result.answers.text for result in one.results if result.answers is not None}
        by_id = answered and len(one.ids) == len(one.calls)
        for call in one.calls:
            if not one.results or (by_id and call.id is not None and call.id.text not in answered):
                name = call.id.text if by_id and call.id is not None else call.name.text
                yield Finding("MYP311", f"the call {name!r} has no result", call.at)


@check("MYP312")
def result_name_mismatch(chat: Chat) -> Iterator[Finding]:
    """Finds results that have another name than their call."""
    for one in rounds(chat):
        for result in one.results:
            call = _call_of(one, result)
            name = result.name
            if call is None or name is None or name.text in ("", call.name.text):
                continue
            message = f"the result is of {name.text!r}, the call is of {call.name.text!r}"
            yield Finding("MYP312", message, name.at, help=f'write "{call.name.text}"')


@check("MYP349")
def call_answered_twice(chat: Chat) -> Iterator[Finding]:
    """Finds calls with two results."""
    for one in rounds(chat):
        ids = one.ids
        answered: set[str] = set()
        for result in one.results:
            call_id = result.answers
            if call_id is None or call_id.text not in ids:
                continue
            if call_id.text in answered and ids.count(call_id.text) == 1:
                message = f"the call {call_id.text!r} has a result already"
                yield Finding("MYP349", message, call_id.at)
            answered.add(call_id.text)


@check("MYP350")
def call_without_id(chat: Chat) -> Iterator[Finding]:
    """Finds calls without an id in conversations in which others have one."""
    listed = [c for one in rounds(chat) for c in one.calls if _LISTED in c.at]
    bare = [call for call in listed if call.id is None]
    for call in bare if len(bare) < len(listed) else ():
        fault = f"the call of {call.name.text!r} has no id, and others have one"
        yield regraded(Finding("MYP350", fault, call.at), "warning")


@check("MYP351")
def duplicate_call_id(chat: Chat) -> Iterator[Finding]:
    """Finds calls with the same id, of one message, of one turn, or of all if it is no number.

    Ids that are numbers may begin again in each turn.
    """
    ids: dict[str, int] = {}  # to the number of the question before the call
    turn, again = 0, False
    for message in (*chat.messages, *chat.rejected):
        turn += 1 if message.role == "user" else 0
        counts: Counter[str] = Counter()
        for call_id in [call.id for call in message.calls if call.id is not None]:
            text, before = call_id.text, ids.get(call_id.text)
            counts[text] += 1
            fault = f"the id {text!r} is that of an earlier call, too"
            finding = Finding("MYP351", fault, call_id.at)
            if counts[text] == 2:
                yield replace(finding, message=f"the id {text!r} is there twice in one message")
            elif before is None or counts[text] > 2 or chat.rejected:
                continue
            elif _RANDOM.fullmatch(text):
                yield regraded(finding, "warning")
            elif before == turn and not again:
                again = True
                yield regraded(finding, "info")
        ids |= dict.fromkeys(counts, turn)


@check("MYP352")
def result_without_id(chat: Chat) -> Iterator[Finding]:
    """Finds results without an id where the calls before them have ids."""
    for one in rounds(chat):
        if not one.calls or len(one.ids) < len(one.calls):
            continue
        several = len(one.calls) > 1
        reason = f"{len(one.calls)} calls are open" if several else "the call before it has an id"
        for result in one.results:
            if result.answers is None:
                finding = Finding("MYP352", f"{reason}, and this result has no id", result.at)
                yield finding if several else regraded(finding, "warning")


@prefilter(
    "MYP326",
    needles=lambda: [
        ("\0", "{", f"'\"{whitespace}"), ("\0", "[", f"{{{whitespace}"), f"\0{_OBJECT}",
    ],
)  # fmt: skip
def _is_broken(text: str) -> bool:
    return not (text.startswith('{"') and text.endswith("}")) and _broken(text) != ""


def _broken(text: str) -> str:
    """Returns what is wrong with a text that is a result; empty for nothing."""
    if text.startswith(_OBJECT):
        return f"is `{_OBJECT}`, which JavaScript writes for any object"
    if _PYTHON.match(text):
        return "is a dictionary in the notation of Python"
    if text.rstrip()[-1:] in ("}", "]") or not _CUT.match(text) or _SHORTENED.search(text[-_END:]):
        return ""
    try:
        _decode(text)
    except (ValueError, RecursionError):
        return "is JSON that is cut off"
    return ""


@check("MYP326")
def broken_result(chat: Chat) -> Iterator[Finding]:
    """Finds the first result that is cut off, or no text that a tool would send."""
    results = [(_call_of(one, result), result) for one in rounds(chat) for result in one.results]
    for call, message in results:
        if not message.content or (call is not None and _SHOWS.search(call.name.text)):
            continue
        if why := _broken(message.content[0].text):
            yield Finding("MYP326", f"the result {why}", message.content[0].at)
            return
