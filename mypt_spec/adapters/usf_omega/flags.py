"""Checks a USF Omega conversation against its record's flags, tools and call ids.

Input is the context of the rules and the findings so far; output are all findings. What a record
says about its text, the text alone does not show. Places are corrected where one block holds
several messages. Implements sections 5, 7 and 8 of grammar/usf_omega/SPEC.md.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

from mypt_spec.adapters.usf_omega.record import answer_at
from mypt_spec.adapters.waiting import twice
from mypt_spec.bodies.json_body import read_body
from mypt_spec.bodies.json_schema import Patience
from mypt_spec.bodies.strict_json import faults
from mypt_spec.episode import Episode, Message, Part, Place
from mypt_spec.findings import Finding
from mypt_spec.rules import Context, check_episode
from mypt_spec.rules.answer_format import answer_misfits, asks_for_json

Call = tuple[dict[str, Any], Place]
_BARE = re.compile(r"/(?P<key>tools|functions)/(?P<at>\d+)/function(?P<rest>/.*)", re.DOTALL)
_MAX_LISTED = 10  # names or ids in a help


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MAX_LISTED]) + (", …" if len(names) > _MAX_LISTED else "")


def validate(context: Context, findings: list[Finding]) -> list[Finding]:
    """Returns all findings about an Episode, with their places in the record."""
    patience = Patience()
    out = list(_relocated(findings, context.episode))
    out += _without_user(context)
    out += _calls(context)
    out += _reasoning(context)
    out += _answer(context, patience)
    out += _rejected(context)
    return out


def _relocated(findings: list[Finding], episode: Episode) -> Iterator[Finding]:
    """Yields findings with their places in the record.

    A developer block is several messages, so a span in it is a span in one of them; and a
    definition may lack its wrapper.
    """
    metas: dict[str, dict[str, Any]] = {
        m.role: m.meta for m in reversed(episode.messages) if m.role in ("developer", "functions")
    }
    functions, lines = metas.get("functions", {}), metas.get("developer", {}).get("lines", [])
    starts = list(accumulate((len(line["content"]) + 1 for line in lines), initial=0))
    for finding in findings:
        bare = _BARE.fullmatch(finding.pointer)
        if bare and bare["key"] == functions.get("key") and functions["bare"][int(bare["at"])]:
            yield replace(finding, pointer=f"/{bare['key']}/{bare['at']}{bare['rest']}")
        elif len(lines) > 1 and finding.span is not None and finding.pointer == lines[0]["pointer"]:
            start, end = finding.span
            at = min(bisect_right(starts, start), len(lines)) - 1
            line, first = lines[at], starts[at]
            span = start - first, min(end - first, len(line["content"]))
            yield replace(finding, pointer=line["pointer"], span=span)
        else:
            yield finding


def _without_user(context: Context) -> Iterator[Finding]:
    talk = [m for m in context.episode.messages if m.role in ("user", "assistant", "tool")]
    if talk and talk[0].role == "assistant":
        problem = "the conversation begins with the assistant"
        yield Finding("MYP251", problem, *talk[0].at, help="put the user's message before it")


def _calls(context: Context) -> Iterator[Finding]:
    groups: list[list[Call]] = []
    message: Message | None = None
    results: list[Message] = []
    for following in [*context.episode.messages, Message("eos")]:
        if following.role == "tool":
            results.append(following)
            continue
        if message is not None and (results or groups):
            yield from _results(message, groups, results)
        results, groups, message = [], [], following if following.role == "assistant" else None
        if message is None:
            continue
        groups = [_calls_of(part, context) for part in message.parts if part.kind == "tool_calls"]
        yield from _ids(groups)


def _inside(place: Place, pointer: str) -> Place:
    """Returns a place in a JSON value if that is in a record; in a text there are only spans."""
    return Place(place.pointer + pointer) if place.pointer else place


def _calls_of(part: Part, context: Context) -> list[Call]:
    body = read_body(part.text, "calls", context.table.literals, Place())
    calls = [] if body.text is None else body.value
    return [(call, _inside(part.at, f"/{i}")) for i, call in enumerate(calls)]


def _ids(groups: list[list[Call]]) -> Iterator[Finding]:
    call_ids: set[str] = set()
    for group in groups:
        for call, place in group:
            if "id" not in call and len(group) > 1:
                problem = "a call beside others has no id"
                yield Finding("MYP350", problem, *place, help='give it an "id"')
            if call.get("id") in call_ids:
                yield twice(call["id"], _inside(place, "/id"))
            call_ids |= {call["id"]} if "id" in call else set()


def _results(
    message: Message, groups: list[list[Call]], results: list[Message]
) -> Iterator[Finding]:
    """Compares results with the calls before them; whether any must follow, the grammar says."""
    calls = [*chain.from_iterable(groups)]
    if not calls:
        return  # the grammar refuses results without a call
    waiting = {id(call): call for call in calls}
    by_id = {call[0]["id"]: call for call in reversed(calls) if "id" in call[0]}
    hint = f"the ids are: {_some(list(reversed(by_id))) or 'none'}"
    for result in results:
        parts = {part.kind: part for part in result.parts}
        match: Call | None = None
        if "tool_call_id" in parts:
            place, call_id = parts["tool_call_id"].at, parts["tool_call_id"].text
            match = by_id.get(call_id)
            if match is None:
                problem = f"no call before it has the id {call_id!r}"
                yield Finding("MYP310", problem, *place, help=hint)
            elif id(match) not in waiting:
                yield Finding("MYP349", f"the call {call_id!r} has a result already", *place)
        elif len(waiting) == 1:
            match = next(iter(waiting.values()))
        elif waiting:
            problem = f"{len(waiting)} calls are open, and this result has no id"
            yield Finding("MYP352", problem, *result.at)
            return
        else:
            problem = "every call before it has its result"
            yield Finding("MYP310", problem, *result.at, help="delete it")
        if match is not None:
            waiting.pop(id(match), None)
            name = match[0]["function"]["name"]
            if "tool_name" in parts and parts["tool_name"].text != name:
                text = f"the result is of {parts['tool_name'].text!r}, the call is of {name!r}"
                yield Finding("MYP312", text, *parts["tool_name"].at, help=f'write "{name}"')
    kinds = [part.kind for part in message.parts if part.kind != "self_reflection"]
    if results and kinds[-1:] == ["tool_calls"]:
        for call, place in [call for call in groups[-1] if id(call) in waiting]:
            problem = f"the call {call.get('id', call['function']['name'])!r} has no result"
            yield Finding("MYP311", problem, *place, help="put its result behind the others")


def _reasoning(context: Context) -> Iterator[Finding]:
    meta = context.episode.meta
    budget = meta.get("thinking_budget")
    for part in [p for m in context.episode.messages for p in m.parts]:
        if part.kind == "self_reflection" and meta.get("self_reflection_enabled") is False:
            problem = '"self_reflection_enabled" is false, and this is a self-reflection'
            yield Finding("MYP347", problem, *part.at)
        if part.kind != "reasoning":
            continue
        if meta.get("reasoning_effort") == "none":
            yield Finding("MYP346", 'the effort is "none", which means no reasoning', *part.at)
        if isinstance(budget, int) and not next(faults(part.text), None):
            length = len(context.tokenizer.encode(part.text))
            if length > budget:
                problem = f"the reasoning has {length} tokens, the budget is {budget}"
                yield Finding("MYP345", problem, *part.at)


def _answer(context: Context, patience: Patience) -> Iterator[Finding]:
    """Checks the final answer against the format that the record asks for."""
    if asks_for_json(context.episode.meta):
        talk = [m for m in context.episode.messages if m.role != "eos"]
        parts = talk[-1].parts if talk and talk[-1].role == "assistant" else ()
        spoken = [part for part in parts if part.kind in ("message", "tool_calls")]
        if spoken and spoken[-1].kind == "message":
            answer = spoken[-1]
            yield from answer_misfits(answer.text, answer.at, context.episode.meta, patience)


def _rejected(context: Context) -> Iterator[Finding]:
    """Yields findings about a rejected answer, which must be legal; flags say nothing about it."""
    raw, messages = context.episode.meta.get("rejected"), list(context.episode.messages)
    places = [i for i, m in enumerate(messages) if m.role == "assistant"]
    if not isinstance(raw, dict) or not places:
        return
    rejected = answer_at(raw, "/rejected")
    if rejected is None:
        return
    messages[places[-1]] = rejected.message(rejected.pointer, context.table, {})
    other = Episode(context.episode.dialect, tuple(messages))
    objects = context.table, context.automaton, context.tokenizer, context.limits
    findings = check_episode(other, *objects, validate, lambda _: context.tools)
    yield from (finding for finding in findings if finding.pointer.startswith("/rejected"))
