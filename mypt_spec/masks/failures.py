"""Tells which calls of an episode failed, by their results.

Input: the messages of an Episode. A result is a failure if it is a JSON object with an `error` that
is not empty, `is_error` or `isError` true, `status` "error" or `success` false, or a text that
begins with `Error:`. Other results are none, and neither is one that is missing.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

from mypt_spec.bodies.json_body import ID, calls_in, value_in
from mypt_spec.episode import Attrs, Message, Place
from mypt_spec.table import CALLS, LISTS, TokenTable

# Metadata of an Episode that was cut before the result of a call: the places of failed ones.
FAILED = "failed calls"


def is_failure(text: str) -> bool:
    """Returns whether the text of a result says that the call failed.

    >>> [is_failure(text) for text in ('{"error": "x"}', '{"error": null}', '"Error: x"', "4")]
    [True, False, True, False]
    """
    value: Any = text
    with suppress(ValueError, TypeError, RecursionError):
        value = json.loads(value)
        value = json.loads(value)  # results that are JSON may hold JSON text
    if not isinstance(value, dict):
        return isinstance(value, str) and value.startswith("Error:")
    raised = value.get("is_error") is True or value.get("isError") is True
    return bool(
        value.get("error")
        or raised
        or value.get("status") == "error"
        or value.get("success") is False
    )


def failed_calls(
    messages: Iterable[Message], table: TokenTable, result: str, known: Collection[Place] = ()
) -> dict[int, Place]:
    """Returns the blocks of calls of which a call failed: their numbers and places.

    Quoted calls are not counted. `result` is the kind of block that holds results. A result belongs
    to the call whose id it has, else to the first one that waits for a result. The blocks at the
    places in `known` failed, too.
    """
    waiting: list[tuple[int, str]] = []  # calls: the number of the block, and the id
    places: list[Place] = []
    failed: set[int] = set()
    for kind, attrs, text, at in _blocks(messages, table):
        body, ident = table.openers[kind].body, dict(attrs).get(ID, "")
        if body in (*CALLS, *LISTS):
            failed |= {len(places)} if at in known else set()
            waiting += [(len(places), ident or call_id) for call_id in _ids(text, body)]
            places.append(at)
        elif kind == result and waiting:
            ids = [call_id for _, call_id in waiting]
            number, _ = waiting.pop(ids.index(ident) if ident in ids else 0)
            failed |= {number} if is_failure(text) else set()
    return {number: places[number] for number in sorted(failed)}


def _blocks(
    messages: Iterable[Message], table: TokenTable
) -> Iterator[tuple[str, Attrs, str, Place]]:
    """Yields kind, attributes, text and place of each block, and of those inside of it."""
    for message in messages:
        if (opener := table.openers.get(message.role)) and not opener.quotes:
            yield message.role, message.attrs, message.text, message.at
            yield from ((p.kind, p.attrs, p.text, p.at) for p in message.parts if p.kind != "text")


def _ids(text: str, body: str) -> list[str]:
    """Returns the id of each call in a body, "" for none."""
    try:
        return [c.id for c in calls_in(value_in(text, body), body, ())] if body in LISTS else [""]
    except (ValueError, RecursionError, LookupError, TypeError):
        return [""]
