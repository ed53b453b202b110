"""Reads records of a `text` without tags, as language models are trained on further text.

There is nothing to say of such a text but that an answer is missing, which templates of questions
and answers announce with a heading.
"""

import re
from typing import Any

from mypt_records.chat import Chat
from mypt_records.reading import Reader
from mypt_spec.memo import lazy_re

ABOUT = "plain texts without tags (text)"
PROMPT = ""
TOP = frozenset({"text", "language"})
_UNANSWERED = lazy_re(r"^#{1,4} ?(?:Response|Answer|Output|Assistant) ?:\s*\Z", re.MULTILINE)


def fit(record: dict[str, Any]) -> int:
    return int(isinstance(record.get("text"), str))


def read(record: dict[str, Any]) -> Chat:
    """Returns a record as a chat without messages. Never raises."""
    reader = Reader()
    text = reader.string(record.get("text"), "/text", "text")
    if record.get("text") is None:
        reader.add("MYP102", 'the record has no "text"', "", hint='add "text": "..."')
    elif text is not None and not text.text.strip():
        reader.add("MYP214", "the text is empty", "/text", hint="drop the record")
    elif text is not None and (empty := _UNANSWERED.search(text.text)):
        message = f'nothing is behind "{empty[0].strip()}": the answer is empty'
        reader.add("MYP214", message, "/text", hint="write the answer, or drop the record")
    return reader.chat("plain", record, (), None, top=TOP, used=("text",))
