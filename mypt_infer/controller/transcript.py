"""Writes a conversation as one line of JSONL that lints, trains, and replays to the same ids.

Input: a history, the replies to its turns, and its events. Output: a record of the dialect. The
messages of the record are the turns that can be trained on. A stopped turn is left out of the
messages, because its end is not the model's. So is a turn whose text spells a tag, because no
record can tell it from a real tag. The metadata key `_transcript` holds the whole conversation:

    version   6; in 5, chats that do not think began without the empty thought of some templates
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

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from mypt_infer.controller.events import Event, Returned, Stop
from mypt_infer.controller.history import History
from mypt_infer.controller.options import Options
from mypt_infer.run_format import format_of
from mypt_infer.toolbox import copied
from mypt_spec import Dialect, Episode
from mypt_spec.encoder import tag_ids, trail_ids
from mypt_spec.episode import Event as Tag
from mypt_spec.episode import as_read

AnyReply = int | Returned | Stop  # a reply, as a turn is given it
KEY = "_transcript"
VERSION = 6
READABLE = (5, VERSION)


class Replies:
    """Records the replies that turns were given, with which they can be run again."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []

    def begin(self, options: Options, *, ids: int = 0, calls: bool = True) -> None:
        """Begins a turn after `ids` ids."""
        self.turns.append({"begin": ids, "calls": calls, "options": asdict(options), "replies": []})

    def add(self, reply: AnyReply) -> AnyReply:
        """Records a reply, and returns it."""
        entry: Any = reply
        if isinstance(reply, Returned):
            entry = {"value": copied(reply.value), "truncated": reply.truncated}
        elif isinstance(reply, Stop):
            entry = {"stop": [reply.reason, reply.message]}
        self.turns[-1]["replies"].append(entry)
        return reply

    def restart(self) -> list[AnyReply]:
        """Returns the replies to the last turn, and forgets them, because it is run again."""
        entries, self.turns[-1]["replies"] = self.turns[-1]["replies"], []
        return [reply_of(item) for item in entries]


def reply_of(entry: Any) -> AnyReply:
    """Returns a reply as it was given. Raises ValueError for what is none."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        return entry
    if isinstance(entry, dict) and entry.keys() == {"value", "truncated"}:
        return Returned(entry["value"], truncated=bool(entry["truncated"]))
    stop = entry.get("stop") if isinstance(entry, dict) else None
    if isinstance(stop, list) and len(stop) == 2 and all(isinstance(part, str) for part in stop):
        return Stop(*stop)
    raise ValueError(f"{repr(entry)[:60]} is not a reply")


def record_of(
    history: History, replies: Replies, events: Iterable[Event], *, seed: int | None
) -> dict[str, Any]:
    """Returns the record of a history: the turns that can be trained on, and its transcript."""
    ids, left_out = trainable(history)
    transcript: dict[str, Any] = {
        "version": VERSION, "grammar": history.dialect.fingerprint, "ids": list(history.ids),
        "origins": [list(run) for run in history.origins],
        "turns": list(history.turns), "dropped": [[d.at, list(d.ids)] for d in history.dropped],
        "replies": replies.turns,
        "events": [[type(e).__name__, asdict(e)] for e in events], "seed": seed,
    }  # fmt: skip
    record: dict[str, Any] = {history.dialect.adapter.SCHEMA.messages: []}
    if len(left_out) < len(history.turns):
        try:
            record = written(history.dialect, ids)
        except ValueError:  # each turn has a record, and no record has them all
            ids, left_out = trainable(history, together=True)
            record = written(history.dialect, ids)
    if left_out:
        transcript["left_out"] = [list(turn) for turn in left_out]
    return record | {KEY: transcript}


def trainable(
    history: History, *, together: bool = False
) -> tuple[list[int], list[tuple[int, str]]]:
    """Returns the ids that can be trained on, and the other turns, from 1, with the reasons.

    A turn is tried alone, then, or at once if `together`, after those before it that are kept.
    """
    d, head, left_out = history.dialect, history.ids[: history.head], []
    ids = list(head)
    for number, (begin, end) in enumerate(pairwise([*history.turns, len(history.ids)])):
        turn = history.ids[begin:end]
        if number in history.stopped:
            reason = f"it was stopped: {history.stopped[number]}"
        else:
            reason = _fault(d, ids + turn) if together or _fault(d, head + turn) else ""
        if reason:
            left_out.append((number + 1, reason))
        else:
            ids += turn
    return ids, left_out


def written(dialect: Dialect, ids: Sequence[int]) -> dict[str, Any]:
    """Returns the record of a conversation given as ids. Raises ValueError if none can hold it."""
    final, earlier = (
        tag_ids(Tag(name, ""), dialect.table, dialect.tokenizer) if name else []
        for name in (format_of(dialect).final, format_of(dialect).earlier)
    )
    ids = list(ids)
    if final and ids[-len(final) :] != final:
        space = trail_ids(earlier[-1], dialect.table, dialect.tokenizer) if earlier else []
        ends = (end for end in (earlier + space, earlier) if end and ids[-len(end) :] == end)
        ids = ids[: len(ids) - len(next(ends, []))] + final
    episode, findings = dialect.parse_ids(ids)
    if episode is None:
        raise ValueError(findings[0].message)
    return as_record(episode, dialect)


def as_record(episode: Episode, dialect: Dialect) -> dict[str, Any]:
    """Returns the record of a conversation. Raises ValueError if none can hold it."""
    episode = as_read(episode, dialect.table)
    try:
        return dialect.write(episode)
    except ValueError:  # no record may hold an empty thought that only prompts have
        kinds, messages = dialect.adapter.prompted({}), episode.messages
        parts = [[p for p in m.parts if p.kind not in kinds or p.text.strip()] for m in messages]
        bare = [replace(m, parts=(*p,)) for m, p in zip(messages, parts, strict=True)]
        return dialect.write(replace(episode, messages=(*bare,)))


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
