"""Writes a conversation as one line of JSONL that lints, trains, and replays to the same ids.

Input: a history, the replies to its turns, and its events. Output: a record of the dialect. The
messages of the record are the turns that can be trained on. A stopped turn is left out of the
messages, because its end is not the model's. So is a turn whose text spells a tag, because no
record can tell it from a real tag. The metadata key `_transcript` holds the whole conversation:

    version   3; 1 and 2 are read, too (see `_upgraded`)
    grammar   fingerprint of the grammar that the ids belong to
    ids       all token ids
    origins   [origin, number] in runs: prompt, sampled, forced, injected
    turns     indices of `ids` where turns begin
    dropped   [[index, [ids]]]: ids that were drawn and cut off again
    replies   for each turn: {"begin": ids before the turn, "options": {...}, "replies": [...]};
              a reply is an id, {"value": ..., "truncated": bool} for the result of a tool as the
              model was given it, or {"stop": [reason, message]}
    events    [[kind, {...}]]: what happened
    seed      the seed of the source, or null
    left_out  [[turn, reason]]: turns, from 1, that are not among the messages; absent if none
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from mypt_infer.controller import events as kinds
from mypt_infer.controller.events import Event, Execute, Returned, Sample, Stop
from mypt_infer.controller.history import PROMPT, Dropped, History
from mypt_infer.controller.options import Options
from mypt_infer.controller.stream_parser import StreamParser
from mypt_infer.controller.turn import Turn
from mypt_infer.run_format import of
from mypt_infer.toolbox import copied
from mypt_spec import Dialect
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Event as Tag

KEY = "_transcript"
VERSION = 3


class Replies:
    """Records the replies that turns were given, with which they can be run again."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []

    def begin(self, options: Options, *, ids: int = 0, calls: bool = True) -> None:
        """Begins a turn after `ids` ids."""
        self.turns.append({"begin": ids, "calls": calls, "options": asdict(options), "replies": []})

    def add(self, reply: int | Returned | Stop) -> int | Returned | Stop:
        """Records a reply, and returns it."""
        said: Any = reply
        if isinstance(reply, Returned):
            said = {"value": copied(reply.value), "truncated": reply.truncated}
        elif isinstance(reply, Stop):
            said = {"stop": [reply.reason, reply.message]}
        self.turns[-1]["replies"].append(said)
        return reply

    def restart(self) -> list[int | Returned | Stop]:
        """Returns the replies to the last turn, and forgets them, because it is run again."""
        said, self.turns[-1]["replies"] = self.turns[-1]["replies"], []
        return [_reply(item) for item in said]


def _reply(said: Any) -> int | Returned | Stop:
    """Returns a reply as it was given."""
    if not isinstance(said, dict):
        return int(said)
    return Stop(*said["stop"]) if "stop" in said else Returned(**said)


class TranscriptError(ValueError):
    """A transcript cannot be replayed; the message says where it differs."""


def record_of(
    history: History, replies: Replies, events: Iterable[Event], *, seed: int | None
) -> dict[str, Any]:
    """Returns the record of a history.

    Its messages are the turns that can be trained on; its transcript is the whole history.
    """
    ids, left_out = trainable(history)
    transcript: dict[str, Any] = {
        "version": VERSION, "grammar": history.dialect.fingerprint, "ids": list(history.ids),
        "origins": [list(run) for run in history.origins],
        "turns": list(history.turns), "dropped": [[d.at, list(d.ids)] for d in history.dropped],
        "replies": replies.turns,
        "events": [[type(e).__name__, asdict(e)] for e in events], "seed": seed,
    }  # fmt: skip
    if left_out:
        transcript["left_out"] = [list(turn) for turn in left_out]
    record: dict[str, Any] = {history.dialect.adapter.SCHEMA.messages: []}
    if len(left_out) < len(history.turns):
        record = written(history.dialect, ids)
    return record | {KEY: transcript}


def trainable(history: History) -> tuple[list[int], list[tuple[int, str]]]:
    """Returns the ids that can be trained on, and the other turns, from 1, with the reasons."""
    ids, left_out = history.ids[: history.head], []
    for number, (begin, end) in enumerate(pairwise([*history.turns, len(history.ids)])):
        turn = history.ids[begin:end]
        reason = (
            f"it was stopped: {history.stopped[number]}"
            if number in history.stopped
            else _fault(history.dialect, history.ids[: history.head] + turn)
        )
        if reason:
            left_out.append((number + 1, reason))
        else:
            ids += turn
    return ids, left_out


def written(dialect: Dialect, ids: Sequence[int]) -> dict[str, Any]:
    """Returns the record of a conversation given as ids.

    Raises ValueError if no record can hold it.
    """
    final = of(dialect).final
    end = tag_ids(Tag(final, ""), dialect.table, dialect.tokenizer) if final else []
    ended = list(ids[-len(end) :]) == end
    episode, findings = dialect.parse_ids(ids if ended else [*ids, *end])
    if episode is None:
        raise ValueError(findings[0].message)
    return dialect.write(episode)


def _fault(dialect: Dialect, ids: Sequence[int]) -> str:
    """Returns why a conversation given as ids cannot be trained on; "" if it can."""
    try:
        _, findings = dialect.check(written(dialect, ids))
    except ValueError as error:
        return str(error)
    return next((f"{f.code} {f.message}" for f in findings if f.severity == "error"), "")


def save(path: Path, record: dict[str, Any]) -> None:
    """Appends a record to a file of transcripts, as one line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")


def replay(record: dict[str, Any], dialect: str | Dialect) -> tuple[History, list[Event]]:
    """Runs the turns of a transcript again; returns the history and the events.

    Raises TranscriptError unless ids and events are the same as in the transcript.
    """
    kept = record.get(KEY)
    if not isinstance(kept, dict) or kept.get("version") not in range(1, VERSION + 1):
        raise TranscriptError(f'no transcript of version 1 to {VERSION} under the key "{KEY}"')
    if kept["version"] < 3:
        kept = _upgraded(kept)
    history = History(dialect)
    if kept["grammar"] != history.dialect.fingerprint:
        raise TranscriptError(
            "the transcript belongs to another grammar or vocabulary than that of "
            f"{history.dialect.name}"
        )
    events: list[Event] = []
    told = [restored(kind, fields) for kind, fields in kept["events"]]
    for turn in kept["replies"]:
        history.reopen()
        _hear(history, kept["ids"][len(history.ids) : turn["begin"]])
        while len(events) < len(told) and isinstance(told[len(events)], kinds.Notice):
            events.append(told[len(events)])  # notices about the prompt, which is not read again
        _run(
            Turn(history, Options(**turn["options"]), calls=turn["calls"]), turn["replies"], events
        )
    _hear(history, kept["ids"][len(history.ids) :])
    for name, ours, theirs in (
        ("ids", history.ids, kept["ids"]),
        ("origins", [list(run) for run in history.origins], kept["origins"]),
        ("turns", history.turns, kept["turns"]),
        ("dropped", history.dropped, [Dropped(at, tuple(ids)) for at, ids in kept["dropped"]]),
        ("events", events, told),
    ):  # fmt: skip
        if ours != theirs:
            raise TranscriptError(f"the replay has other {name}")
    return history, events


def _upgraded(kept: dict[str, Any]) -> dict[str, Any]:
    """Returns a transcript of version 1 or 2 in the form of version 3.

    Before version 3, `replies` held the results of tools in full, and the turn shortened them; no
    ids were kept free for an answer; and `max_toolcall_tokens` counted the tag of a call. Version 1
    has no `left_out`.
    """
    results: list[list[dict[str, Any]]] = []
    ends: list[dict[str, Any]] = []
    for kind, fields in kept["events"]:
        if kind == "TurnStart":
            results.append([])
        elif kind == "ToolResult":
            results[-1].append(fields)
        elif kind == "TurnEnd":
            ends.append(fields)
    turns = []
    for turn, shown, end in zip(kept["replies"], results, ends, strict=True):
        given = iter(shown)
        replies = []
        for reply in turn["replies"]:
            if isinstance(reply, dict) and "value" in reply:
                result = next(given)
                reply = {"value": result["value"], "truncated": result["truncated"]}
            replies.append(reply)
        if end["message"].startswith("a tool call is longer"):
            replies.append({"stop": [end["reason"], end["message"]]})
        options = turn["options"] | {"answer_reserve": None, "max_toolcall_tokens": None}
        turns.append(turn | {"replies": replies, "options": options})
    return kept | {"replies": turns}


def _hear(history: History, ids: Sequence[int]) -> None:
    """Appends the ids of a prompt, as they are."""
    parser, base = StreamParser(history.dialect), len(history.ids)
    begin = base
    try:
        for piece in [*(piece for token in ids for piece in parser.push(token)), *parser.flush()]:
            history.step(piece.event, begin)
            begin = base + piece.end
    except ValueError as error:
        raise TranscriptError(f"what was said does not fit: {error}") from None
    history.add(ids, PROMPT)


def _run(turn: Turn, replies: list[Any], events: list[Event]) -> None:
    core, waiting = turn.run(), iter(replies)
    reply: Any = None
    while True:
        try:
            got = core.send(reply)
        except StopIteration:
            break
        reply = None
        if isinstance(got, Sample | Execute):
            said = next(waiting, None)
            if said is None:
                raise TranscriptError("a turn asks for more than the transcript has")
            reply = _reply(said)
        else:
            events.append(got)
    if next(waiting, None) is not None:
        raise TranscriptError("a turn ends before the transcript does")


def restored(kind: str, fields: dict[str, Any]) -> Event:
    """Returns an event of a transcript. Raises TranscriptError for an unknown one."""
    made = getattr(kinds, kind, None)
    try:
        event: Event = made(**fields)  # type: ignore[misc]
    except TypeError:
        raise TranscriptError(
            f"an event {kind!r} with {', '.join(fields) or 'nothing'} is unknown"
        ) from None
    return event
