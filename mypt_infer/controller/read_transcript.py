"""Reads a transcript, and runs its turns again to the same ids.

Input: a record with a transcript; `transcript` describes the form. Output: the history, the replies
and the events. Whatever is damaged in it is a TranscriptError.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from mypt_infer.controller.driver import events_of
from mypt_infer.controller.events import Ask, Event, Notice, Returned, Sample
from mypt_infer.controller.history import PROMPT, Dropped, History
from mypt_infer.controller.options import Options
from mypt_infer.controller.transcript import KEY, READABLE, VERSION, AnyReply, Replies, reply_of
from mypt_infer.controller.turn import Turn
from mypt_infer.stream_parser import StreamParser
from mypt_spec import Dialect
from mypt_spec.bodies.strict_json import faults

_OLD = (
    "; an earlier release wrote this transcript, and where it put in no empty thought, this one "
    "does: begin a new chat, or read it with that release"
)
_EVENTS = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True)
class _SavedTurn:
    begin: int
    calls: bool
    options: dict[str, Any]
    replies: list[Any]


@dataclass(frozen=True)
class _Saved:
    """A transcript, as far as its parts must have a form before they can be read."""

    grammar: str
    ids: list[int]
    origins: list[tuple[str, int]]
    turns: list[int]
    dropped: list[tuple[int, tuple[int, ...]]]
    replies: list[_SavedTurn]
    events: list[tuple[str, dict[str, Any]]]


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
    import msgspec  # which --help does not need

    value = record.get(KEY) if isinstance(record, dict) else None
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(value, dict) or version not in READABLE:
        raise TranscriptError(f'no transcript of version {VERSION} under the key "{KEY}"')
    if next(faults(value), None) is not None:
        raise TranscriptError("the transcript holds what is not valid JSON")
    try:
        saved = msgspec.convert(value, _Saved)
    except msgspec.ValidationError as error:
        raise TranscriptError(f"the transcript has no form that is known: {error}") from None
    history, old = History(dialect), "" if version == VERSION else _OLD
    if saved.grammar != history.dialect.fingerprint:
        raise TranscriptError(
            "the transcript belongs to another grammar or vocabulary than that of "
            f"{history.dialect.name}"
        )
    try:
        result = _run_again(saved, history)
        if turns is None or turns >= len(saved.replies):
            return result
        history = History(dialect)
        return history, *_turns(saved, history, turns)
    except TranscriptError as error:
        raise TranscriptError(f"{error}{old}") from error
    except (ValueError, TypeError, KeyError, IndexError) as error:
        # A turn with other options or another prompt than those it was run with.
        problem = f"the replay fails: {type(error).__name__}: {error}"
        raise TranscriptError(problem + old) from error


def _turns(
    saved: _Saved, history: History, turns: int | None = None
) -> tuple[Replies, list[Event]]:
    """Runs turns again, the first `turns` or all; returns the replies and the events."""
    replies = Replies()
    events: list[Event] = []
    past_events = [_restored(*event) for event in saved.events]
    for turn in saved.replies[:turns]:
        history.reopen()
        _append(history, saved.ids[len(history.ids) : turn.begin])
        while len(events) < len(past_events) and isinstance(past_events[len(events)], Notice):
            events.append(past_events[len(events)])  # notices about the prompt: not read again
        options = Options(**turn.options)
        replies.begin(options, ids=len(history.ids), calls=turn.calls)
        run = Turn(history, options, calls=turn.calls)
        _run(run, [reply_of(reply) for reply in turn.replies], replies, events)
    return replies, events


def _run_again(saved: _Saved, history: History) -> tuple[History, Replies, list[Event]]:
    replies, events = _turns(saved, history)
    _append(history, saved.ids[len(history.ids) :])
    for name, ours, theirs in (
        ("ids", history.ids, saved.ids),
        ("origins", history.origins, saved.origins),
        ("turns", history.turns, saved.turns),
        ("dropped", history.dropped, [Dropped(*dropped) for dropped in saved.dropped]),
        ("events", events, [_restored(*event) for event in saved.events]),
    ):  # fmt: skip
        if ours != theirs:
            raise TranscriptError(f"the replay has other {name}")
    return history, replies, events


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
    parser, base = StreamParser(history.dialect, inside=history.open), len(history.ids)
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
