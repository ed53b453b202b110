"""Reads records whose `text` is serialised already, in the format of a dialect that is known here.

The tags tell the dialect, which reads the text. The chat has no messages: the dialect knows more of
them than a chat could say.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import mypt_spec
from mypt_records.chat import Chat
from mypt_records.reading import Reader
from mypt_spec.table import TEXT

ABOUT = "serialised texts (text)"
PROMPT = ""
TOP = frozenset({"text", "language"})
_BEGINNING = 20_000  # characters that are looked at for tags


def fit(record: dict[str, Any]) -> int:
    text = record.get("text")
    return 1 if isinstance(text, str) and format_of(text) else 0


@lru_cache(maxsize=16)  # the shape is asked for, and then the text is read
def format_of(text: str) -> str:
    """Returns the dialect whose tags are most of a text; empty where it has no tags.

    Of dialects that have these tags in common, it is the first in which the text is legal.
    """
    lengths = {
        name: sum(
            len(event.text)
            for event in mypt_spec.dialect(name).lex(text[:_BEGINNING])
            if event.terminal != TEXT
        )
        for name in mypt_spec.dialects()
    }
    most = max(lengths.values())
    best = [name for name, length in lengths.items() if length == most > 0]
    if len(best) < 2:
        return best[0] if best else ""
    legal = (name for name in best if mypt_spec.dialect(name).parse(text)[0] is not None)
    return next(legal, best[0])


def read(record: dict[str, Any]) -> Chat:
    """Returns a record as a chat without messages. Never raises."""
    reader = Reader()
    text = reader.string(record.get("text"), "/text", "text")
    name = format_of(text.text) if text is not None else ""
    if record.get("text") is None:
        reader.add("MYP102", 'the record has no "text"', "", hint='add "text": "..."')
    elif text is not None and not name:
        names = ", ".join(mypt_spec.dialects())
        reader.add("MYP104", f"the text has tags of no known format; known are {names}", "/text")
    elif text is not None:
        dialect = mypt_spec.dialect(name)
        episode, faults = dialect.parse(text.text)
        faults = faults if episode is None else [*faults, *dialect.validate(episode)]
        reader.findings += [replace(f, pointer="/text", fix=None) for f in faults]
    chat = reader.chat("text", record, (), None, top=TOP, used=("text",))
    return replace(chat, serialised=name)
