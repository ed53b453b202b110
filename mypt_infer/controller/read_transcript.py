"""Reads a transcript, and runs its turns again to the same ids.

Input: a record with a transcript, of any version; `transcript` describes the form. Output: the
history, the replies and the events. Whatever is damaged in it is a TranscriptError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from mypt_infer.controller.driver import events_of
from mypt_infer.controller.events import Ask, CallDropped, Event, Notice, Returned, Sample
from mypt_infer.controller.history import PROMPT, Dropped, History
from mypt_infer.controller.options import Options
from mypt_infer.controller.transcript import KEY, VERSION, AnyReply, Replies, reply_of
from mypt_infer.controller.turn import Turn
from mypt_infer.stream_parser import StreamParser
from mypt_spec import Dialect
from mypt_spec.bodies.strict_json import faults

_EVENTS = {kind.__name__: kind for kind in get_args(Event)}
# The form of a transcript, as far as its parts must have it before they can be read.
_FORM = {
    "version": int,
    "grammar": str,
    "ids": [int],
    "origins": [(str, int)],
    "turns": [int],
    "dropped": [(int, [int])],
    "replies": [{"begin": int, "calls": bool, "options": dict, "replies": [object]}],
    "events": [(str, dict)],
}


class TranscriptError(ValueError):
    """A transcript cannot be replayed; the message says where it differs."""


def replay(record: dict[str, Any], dialect: str | Dialect) -> tuple[History, list[Event]]:
    """Replays a transcript; returns history and events. Raises TranscriptError if they differ."""
    history, _, events = reread(record, dialect)
    return history, events


def reread(
    record: dict[str, Any], dialect: str | Dialect, *, turns: int | None = None
) -> tuple[History, Replies, list[Event]]:
    """Returns what `replay` returns, with the replies to the turns; of the first `turns` turns.

    All turns are compared with the transcript, also those that are not returned.
    """
    saved = record.get(KEY) if isinstance(record, dict) else None
    if not isinstance(saved, dict) or saved.get("version") not in range(1, VERSION + 1):
        raise TranscriptError(f'no transcript of version 1 to {VERSION} under the key "{KEY}"')
    wrong = _misfit(saved, _FORM)
    if wrong:
        raise TranscriptError(f"the transcript has no form that is known: {wrong}")
    if next(faults(saved), None) is not None:
        raise TranscriptError("the transcript holds what is not valid JSON")
    history = History(dialect)
    if saved["grammar"] != history.dialect.fingerprint:
        raise TranscriptError(
            "the transcript belongs to another grammar or vocabulary than that of "
            f"{history.dialect.name}"
        )
    try:
        if saved["version"] < 3:
            saved = _upgraded(saved)
        result = _run_again(saved, history)
        if turns is None or turns >= len(saved["replies"]):
            return result
        history = History(dialect)
        return history, *_turns(saved, history, turns)
    except TranscriptError:
        raise
    except (ValueError, TypeError, KeyError, IndexError) as error:
        # A turn with other options or another prompt than those it was run with.
        raise TranscriptError(f"the replay fails: {type(error).__name__}: {error}") from error


def _misfit(value: Any, form: Any, at: str = "") -> str:
    """Returns where a JSON value has another form; "" if nowhere."""
    if isinstance(form, type):
        fits = isinstance(value, form) and (form is not int or not isinstance(value, bool))
        return "" if fits else f"{at or '/'} is no {form.__name__}"
    if isinstance(form, dict):
        if not isinstance(value, dict) or not form.keys() <= value.keys():
            return f"{at or '/'} is not an object with {', '.join(form)}"
        pairs = [(f"{at}/{key}", value[key], inner) for key, inner in form.items()]
    else:
        if not isinstance(value, list) or (isinstance(form, tuple) and len(value) != len(form)):
            return f"{at or '/'} is not a list of {len(form)}"
        inner = form if isinstance(form, tuple) else form * len(value)
        pairs = [(f"{at}/{i}", *pair) for i, pair in enumerate(zip(value, inner, strict=True))]
    return next((wrong for pair in pairs if (wrong := _misfit(pair[1], pair[2], pair[0]))), "")


def _turns(
    saved: dict[str, Any], history: History, turns: int | None = None
) -> tuple[Replies, list[Event]]:
    """Runs turns again, the first `turns` or all; returns the replies and the events."""
    replies = Replies()
    events: list[Event] = []
    past_events = [_restored(kind, fields) for kind, fields in saved["events"]]
    for turn in saved["replies"][:turns]:
        history.reopen()
        _append(history, saved["ids"][len(history.ids) : turn["begin"]])
        while len(events) < len(past_events) and isinstance(past_events[len(events)], Notice):
            events.append(past_events[len(events)])  # notices about the prompt: not read again
        options = Options(**turn["options"])
        replies.begin(options, ids=len(history.ids), calls=turn["calls"])
        run = Turn(history, options, calls=turn["calls"])
        _run(run, [reply_of(reply) for reply in turn["replies"]], replies, events)
    return replies, events


def _run_again(saved: dict[str, Any], history: History) -> tuple[History, Replies, list[Event]]:
    replies, events = _turns(saved, history)
    past_events = [_restored(kind, fields) for kind, fields in saved["events"]]
    _append(history, saved["ids"][len(history.ids) :])
    for name, ours, theirs in (
        ("ids", history.ids, saved["ids"]),
        ("origins", [list(run) for run in history.origins], saved["origins"]),
        ("turns", history.turns, saved["turns"]),
        ("dropped", history.dropped, [Dropped(at, tuple(ids)) for at, ids in saved["dropped"]]),
        ("events", _for_version(saved["version"], events), past_events),
    ):  # fmt: skip
        if ours != theirs:
            raise TranscriptError(f"the replay has other {name}")
    return history, replies, events


def _for_version(version: int, events: list[Event]) -> list[Event]:
    """Returns events as a version has them: without numbers before 4, or dropped calls before 3."""
    if version < 4:
        events = [_without_number(event) for event in events]
    if version < 3:
        events = [event for event in events if not isinstance(event, CallDropped)]
    return events


def _without_number(event: Event) -> Event:
    numbers: dict[str, Any] = {"call": 0, "id": ""}
    numbers = {name: value for name, value in numbers.items() if hasattr(event, name)}
    return CallDropped() if isinstance(event, CallDropped) else replace(event, **numbers)


def _run(turn: Turn, answers: list[AnyReply], replies: Replies, events: list[Event]) -> None:
    waiting = iter(answers)

    def answer(ask: Ask) -> AnyReply:
        reply = next(waiting, None)
        if reply is None:
            raise TranscriptError("a turn asks for more than the transcript has")
        if isinstance(reply, Returned if isinstance(ask, Sample) else int):
            raise TranscriptError("a turn asks for something else than the transcript has")
        return replies.add(reply)

    events += events_of(turn.run(), answer)
    if next(waiting, None) is not None:
        raise TranscriptError("a turn ends before the transcript does")


def _append(history: History, ids: Sequence[int]) -> None:
    """Appends the ids of a prompt, as they are."""
    if (trailing_ids := history.trailing_ids) and list(ids[: len(trailing_ids)]) == trailing_ids:
        history.add(trailing_ids, PROMPT)
        ids = ids[len(trailing_ids) :]
    parser, base = StreamParser(history.dialect), len(history.ids)
    begin = base
    try:
        for piece in [*(piece for token in ids for piece in parser.push(token)), *parser.flush()]:
            history.step(piece.event, begin)
            begin = base + piece.end
    except ValueError as error:
        raise TranscriptError(f"what was said does not fit: {error}") from None
    history.add(ids, PROMPT)


def _restored(kind: str, fields: dict[str, Any]) -> Event:
    event_class = _EVENTS.get(kind)
    try:
        event: Event = event_class(**fields)  # type: ignore[misc]
    except TypeError:
        raise TranscriptError(
            f"an event {kind!r} with {', '.join(fields) or 'nothing'} is unknown"
        ) from None
    return event


def _upgraded(saved: dict[str, Any]) -> dict[str, Any]:
    """Returns a transcript of version 1 or 2 in the form of version 3.

    Before version 3, `replies` held the results of tools in full, and the turn shortened them; no
    ids were kept free for an answer; no event said that a call was taken off; and
    `max_toolcall_tokens` counted the tag of a call. Version 1 has no `left_out`.
    """
    results: list[list[dict[str, Any]]] = []
    ends: list[dict[str, Any]] = []
    for kind, fields in saved["events"]:
        if kind == "TurnStart":
            results.append([])
        elif kind == "ToolResult":
            results[-1].append(fields)
        elif kind == "TurnEnd":
            ends.append(fields)
    turns = []
    for turn, results_of_turn, end in zip(saved["replies"], results, ends, strict=True):
        values = iter(results_of_turn)
        replies = []
        for reply in turn["replies"]:
            if isinstance(reply, dict) and "value" in reply:
                result = next(values, {})
                reply = {"value": result["value"], "truncated": result["truncated"]}
            replies.append(reply)
        if str(end["message"]).startswith("a tool call is longer"):
            replies.append({"stop": [end["reason"], end["message"]]})
        options = turn["options"] | {"answer_reserve": None, "max_toolcall_tokens": None}
        turns.append(turn | {"replies": replies, "options": options})
    return saved | {"replies": turns}
