"""Names records of shapes that no module here reads, and says how to convert them.

Read as chats, each of them would be several errors, with advice to remove what it says.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from mypt_records.chat import Chat
from mypt_spec.findings import Finding

ABOUT = "records of a shape that is not read"
PROMPT = ""
TOP: frozenset[str] = frozenset()
_READABLE = (
    "messages; conversations; instruction and output; prompt and completion; chosen and rejected; "
    "text"
)
_AS_MESSAGES = '{"messages": [{"role": "user", "content": "..."}, ...]}'
# What columns of tables are called, in small letters, and what such a column is called here.
_COLUMNS = {
    **dict.fromkeys(("q", "query", "question", "prompt", "input", "human"), "question"),
    **dict.fromkeys(("a", "answer", "answers", "response", "output", "completion"), "answer"),
    **dict.fromkeys(("instruction", "instructions"), "instruction"),
}  # fmt: skip


class _Kind(NamedTuple):
    fits: Callable[[dict[str, Any]], bool]
    label: str
    advice: str


def _first(value: Any) -> dict[str, Any]:
    """Returns the first object of a list of objects; an empty one for anything else."""
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


_KINDS = (
    _Kind(
        lambda record: isinstance(record.get("input_ids"), list),
        "rows of tokens (input_ids)",
        "--trainer-rows checks them",
    ),
    _Kind(
        lambda record: any(
            {"human", "assistant"} <= _first(record.get(key)).keys()
            for key in ("conversation", "conversations", "messages")
        ),
        "records of pairs (human, assistant)",
        f"write each pair as two messages: {_AS_MESSAGES}",
    ),
)


def fit(record: dict[str, Any]) -> int:
    return next((3 for kind in _KINDS if kind.fits(record)), 0)


def read(record: dict[str, Any]) -> Chat:
    """Returns a chat without messages, which says what the record is. Never raises."""
    message, advice = next(
        ((f"{kind.label} are not read", kind.advice) for kind in _KINDS if kind.fits(record)),
        (_unknown(record), _renaming(record) or f"what is read: {_READABLE}"),
    )
    return Chat("other", (), findings=(Finding("MYP018", message, help=advice),))


def _unknown(record: dict[str, Any]) -> str:
    keys = ", ".join(f'"{key}"' for key in list(record)[:12])
    return f"this is not a known shape of a record; its keys are {keys or 'none'}"


def _renaming(record: dict[str, Any]) -> str:
    """Returns how to rename columns, if they ask and answer; empty if they do not."""
    columns = {_COLUMNS[key.lower()]: key for key in record if key.lower() in _COLUMNS}
    if len(columns) < 2:
        return ""
    names = " and ".join(
        f'"{key}" to "{name}"' for name, key in sorted(columns.items(), reverse=True)
    )
    not_texts = [key for key in columns.values() if not isinstance(record[key], str)]
    texts = "".join(f'; write "{key}" as a text' for key in not_texts)
    return f"rename {names}{texts}"
