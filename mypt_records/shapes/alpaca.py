"""Reads records of Alpaca: `instruction`, `input` and `output`, and common spellings of these.

The question is the instruction and, if there is one, the input, with an empty line between them; or
a list of messages.
"""

from typing import Any

from mypt_records.chat import MEDIA, Chat, Message, Text
from mypt_records.reading import Reader, filled
from mypt_records.shapes.completion import as_turns
from mypt_spec.bodies.strict_json import kind_of

ABOUT = "Alpaca records (instruction, input, output)"
PROMPT = 'add a top-level "system"'
QUESTIONS, CONTEXTS = ("instruction", "question", "query", "prompt"), ("input", "context")
ANSWERED = ("output", "response", "answer")
TOP = frozenset({
    *QUESTIONS, *CONTEXTS, *ANSWERED, "system", "history", "language", "tools", "text", *MEDIA,
})  # fmt: skip


def fit(record: dict[str, Any]) -> int:
    key, answered = _question_key(record), _first(record, ANSWERED)
    if key is None or answered is None or (key == "prompt" and isinstance(record[key], list)):
        return 0
    return 2 + (key == "instruction")


def read(record: dict[str, Any]) -> Chat:
    reader = Reader()
    messages, used = question(record, reader)
    key = _first(record, ANSWERED)
    if key is None:
        reader.add("MYP102", 'the record has no "output"', "", hint='add "output": "..."')
    else:
        used.append(key)
        answer = _text(record, key, reader)
        messages += [] if answer is None else [Message("assistant", key, f"/{key}", (answer,))]
    tools = reader.tools(record.get("tools"), "/tools")
    top_keys = TOP - unread(record, used)
    return reader.chat("alpaca", record, messages, tools, top=top_keys, used=used)


def question(record: dict[str, Any], reader: Reader) -> tuple[list[Message], list[str]]:
    """Returns the messages up to the question, and the keys that these are read from."""
    used = ["system", "history"]
    messages = reader.system(record) + _history(record.get("history"), reader)
    key = _question_key(record)
    context = _first(record, tuple(name for name in CONTEXTS if name != key))
    if key is None:
        reader.add("MYP102", 'the record has no "instruction"', "", hint='add "instruction": "..."')
        return messages, used
    if isinstance(record[key], list) and context is None:
        return [*messages, *as_turns(record[key], f"/{key}", "user", reader)], [*used, key]
    texts = [_text(record, name, reader) for name in (key, context) if name and record[name] != ""]
    contents = tuple([text for text in texts if text is not None])
    if not contents and record[key] == "":
        contents = (Text("", f"/{key}"),)
    messages.append(Message("user", key, f"/{key}", contents, joint="\n\n"))
    return messages, [*used, key, *([context] if context else [])]


def unread(record: dict[str, Any], used: list[str]) -> set[str]:
    """Returns the keys that hold a question or an answer, but not the one that is read."""
    return filled(record, {*QUESTIONS, *CONTEXTS, *ANSWERED, "history"}.difference(used))


def _question_key(record: dict[str, Any]) -> str | None:
    """Returns the key of the question; an input is one where nothing else asks."""
    return _first(record, (*QUESTIONS, "input"))


def _first(record: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """Returns the first of some keys that a record has a value for."""
    return next((name for name in names if record.get(name) is not None), None)


def _text(record: dict[str, Any], key: str, reader: Reader) -> Text | None:
    return reader.string(record[key], f"/{key}", key)


def _history(history: Any, reader: Reader) -> list[Message]:
    """Returns earlier questions and answers: a list of pairs."""
    if history is None:
        return []
    if not isinstance(history, list):
        reader.add("MYP104", f'"history" must be an array, got {kind_of(history)}', "/history")
        return []
    messages: list[Message] = []
    for i, pair in enumerate(history):
        at = f"/history/{i}"
        if not isinstance(pair, list) or [*map(type, pair)] != [str, str]:
            reader.add("MYP104", "expected a question and its answer, both strings", at)
            continue
        messages.append(Message("user", "history", f"{at}/0", (Text(pair[0], f"{at}/0"),)))
        messages.append(Message("assistant", "history", f"{at}/1", (Text(pair[1], f"{at}/1"),)))
    return messages
