"""Reads records of a prompt, a completion, and a label that says whether the completion is good."""

from typing import Any

from mypt_records.chat import Chat
from mypt_records.reading import LABELS
from mypt_records.shapes import completion

ABOUT = "KTO records (prompt, completion, label)"
PROMPT = 'add a top-level "system"'
TOP = completion.TOP | {*LABELS}


def fit(record: dict[str, Any]) -> int:
    labelled = any(record.get(key) is not None for key in LABELS)
    return 4 if labelled and completion.fit(record) else 0


def read(record: dict[str, Any]) -> Chat:
    return completion.read_as("kto", record)
