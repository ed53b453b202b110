"""Names records of shapes that no module here reads, and says how to convert them.

Read as chats, each of them would be several errors, with advice to remove what it says.
"""

from pathlib import Path
from typing import Any

from mypt_records.chat import Chat
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding

ABOUT = "records of a shape that is not read"
PROMPT = ""
TOP: frozenset[str] = frozenset()
_READABLE = (
    "or in another shape: conversations; instruction and output; prompt and completion; chosen "
    "and rejected; text; requests to servers, and traces of agents (--help, --records)"
)
_AS_MESSAGES = '{"messages": [{"role": "user", "content": "..."}, ...]}'
_TABLE = load(Path(__file__).with_suffix(".toml"))
_EXPORTS = _TABLE.pop("export")
_COLUMNS = {column: kind for kind, columns in _TABLE.items() for column in columns}


def _kind(record: dict[str, Any]) -> tuple[str, str] | None:
    """Returns what a record is, and what to do with it; None where that is not known."""
    if isinstance(record.get("input_ids"), list):
        return "rows of tokens (input_ids) are not read", "--trainer-rows checks them"
    for items in map(record.get, ("conversation", "conversations", "messages")):
        first = items[0] if isinstance(items, list) and items else None
        if isinstance(first, dict) and {"human", "assistant"} <= first.keys():
            why = "records of pairs (human, assistant) are not read"
            return why, f"write each pair as two messages: {_AS_MESSAGES}"
    exports = (export for export in _EXPORTS if record.keys() >= {*export["keys"]})
    return next(((f"{e['name']} are not read", e["advice"]) for e in exports), None)


def fit(record: dict[str, Any]) -> int:
    return 3 if _kind(record) else 0


def read(record: dict[str, Any]) -> Chat:
    """Returns a chat without messages, which says what the record is. Never raises."""
    unknown = _unknown(record), _renaming(record) or f"write each as {_AS_MESSAGES}, {_READABLE}"
    if isinstance(record.get("role"), str) and {"content", "tool_calls"} & record.keys():
        unknown = (
            "messages by themselves are not read",
            f"write a conversation as {_AS_MESSAGES}, as jq -c '{{messages: .}}' does with a list",
        )
    message, advice = _kind(record) or unknown
    return Chat("other", (), findings=(Finding("MYP018", message, help=advice),))


def _unknown(record: dict[str, Any]) -> str:
    keys = ", ".join(f'"{key}"' for key in list(record)[:12])
    return f"this is not a known shape of a record; its keys are {keys or 'none'}"


def _renaming(record: dict[str, Any]) -> str:
    """Returns how to rename columns, if they ask and answer; empty if they do not."""
    columns = {_COLUMNS[key.lower()]: key for key in record if key.lower() in _COLUMNS}
    if len(columns) < 2 or "answer" not in columns:
        return ""
    pairs = sorted(columns.items(), reverse=True)
    names = " and ".join(f'"{key}" to "{name}"' for name, key in pairs if name != key)
    not_texts = [key for key in columns.values() if not isinstance(record[key], str)]
    texts = "".join(f'; write "{key}" as a text' for key in not_texts)
    return f"rename {names}{texts}"
