"""Reads records that are no object but the list of the messages themselves, one list a line."""

from typing import Any

from mypt_records.chat import Chat
from mypt_records.reading import Reader
from mypt_records.shapes import sharegpt

ABOUT = "lists of messages, one a line"
PROMPT = 'begin the list with {"role": "system", "content": "..."}'
TOP: frozenset[str] = frozenset()


def fit(record: Any) -> int:
    if not isinstance(record, list) or not record:
        return 0
    return int(all(isinstance(m, dict) and ("role" in m or "from" in m) for m in record))


def read(record: Any) -> Chat:
    reader = Reader()
    if not record:
        reader.add("MYP104", "the record must be an array of messages that is not empty", "")
    messages = sharegpt.messages_of(record, "", reader)
    return reader.chat("turns", {}, messages, None, top=TOP, used=())
