"""Reads records of ShareGPT: `conversations` of `from` and `value`.

Roles have the names that FastChat, LLaMA-Factory and axolotl know. A call is a message whose value
is JSON text, as LLaMA-Factory writes it.
"""

from typing import Any

from mypt_records.chat import MEDIA, Call, Chat, JsonValue, Message, Text
from mypt_records.fixes import renamed
from mypt_records.reading import Reader, below, filled
from mypt_records.shapes import openai

ABOUT = "ShareGPT records (conversations)"
PROMPT = 'begin with {"from": "system", "value": "..."}, or add a top-level "system"'
LISTS = ("conversations", "conversation", "messages", "dialogue", "dialog")
TOP = frozenset({*LISTS, "id", "system", "language", "tools", *MEDIA})
_ROLES = {
    **dict.fromkeys(("system", "developer", "user", "assistant", "tool"), ""),
    **dict.fromkeys(openai.USERS, "user"),
    **dict.fromkeys(openai.ASSISTANTS, "assistant"),
    **dict.fromkeys(openai.CALLS, "call"),
    **dict.fromkeys(openai.RESULTS, "tool"),
}
_KEYS = frozenset({
    "from", "role", "value", "content", "name", "weight", "loss", "train", "training", "text",
    "markdown", "tool_call_id",
})  # fmt: skip
_ROLE, _TEXT = ("from", "role"), ("value", "content")


def fit(record: dict[str, Any]) -> int:
    key = list_key(record)
    if key is None:
        return 0
    first = record[key][0] if record[key] else None
    if not isinstance(first, dict):
        return 0
    return 3 * ("from" in first) + ("value" in first) + (key != "messages" and "role" in first)


def read(record: dict[str, Any]) -> Chat:
    reader = Reader()
    messages = reader.system(record)
    key = list_key(record)
    if key is None or not record[key]:
        reader.add("MYP104", '"conversations" must be an array that is not empty', "/conversations")
    else:
        messages += messages_of(record[key], f"/{key}", reader)
    tools = reader.tools(record.get("tools"), "/tools")
    used = () if key is None else (key, "system")
    top_keys = TOP - (filled(record, LISTS) - {key})
    return reader.chat("sharegpt", record, messages, tools, top=top_keys, used=used)


def messages_of(items: list[Any], at: str, reader: Reader) -> list[Message]:
    """Returns the messages of a list; those that cannot be read are findings."""
    messages = [message_of(item, f"{at}/{i}", reader) for i, item in enumerate(items)]
    return [message for message in messages if message is not None]


def message_of(item: Any, at: str, reader: Reader) -> Message | None:
    """Returns a message, by `from` and `value` or by `role` and `content`."""
    by_role = isinstance(item, dict) and "role" in item and not {"from", "value"} & item.keys()
    return (openai.message_of if by_role else _message)(item, at, reader)


def list_key(record: dict[str, Any]) -> str | None:
    return next((key for key in LISTS if isinstance(record.get(key), list)), None)


def _role(alias: Any) -> str:
    """Returns the role that a name means, as far as it is known."""
    name = str(alias).lower()
    return _ROLES.get(name) or name


def _message(item: Any, at: str, reader: Reader) -> Message | None:
    who = next((k for k in _ROLE if k in item), None) if isinstance(item, dict) else None
    if who is None or not isinstance(item[who], str):
        is_part = isinstance(item, dict) and "type" in item
        hint = 'put the parts into a message: {"role": "user", "content": [...]}' * is_part
        why = 'a message must be an object with "role" and "content", or "from" and "value"'
        reader.add("MYP104", why, at, hint=hint)
        return None
    alias = item[who]
    if alias.lower() not in _ROLES:
        reader.role(alias, f"{at}/{who}", dict.fromkeys(_ROLES, ""))
        return None
    role = _role(alias)
    text_key = next((key for key in _TEXT if key in item), "value")
    reader.text_keys.add(text_key)
    if "value" in reader.text_keys and text_key == "content" and isinstance(item[text_key], str):
        why = f'the text of the {alias} message is under "content", that of others under "value"'
        fix = renamed(at, text_key, "value", item[text_key])
        place, hint = f"{at}/content", 'write "value"'
        reader.add("MYP103", why, place, hint=hint, severity="warning", fix=fix, on_key=True)
    unread = {key for key in _TEXT if item.get(key) not in (None, "", item.get(text_key))}
    unread |= {key for key in _ROLE if key != who and item.get(key) and _role(item[key]) != role}
    reader.unknown(item, _KEYS - unread, at, f"the {alias} message", telling=True)
    place = f"{at}/{text_key}"
    reader.begin()
    calls: tuple[Call, ...] = ()
    texts: tuple[Text, ...] | None = None
    media: tuple[JsonValue, ...] = ()
    thoughts: tuple[Text, ...] = ()
    if role == "call":
        role, calls = "assistant", reader.json_calls(item.get(text_key), place)
    elif (parts := reader.parts(item.get(text_key), place, text_key)) is not None:
        texts, media, thoughts = parts
    used = {who, text_key} | ({"tool_call_id", "name"} if role == "tool" else set())
    beside = {
        key: JsonValue(value, below(at, key))
        for key, value in item.items()
        if key not in used and (value is not None or key not in _KEYS)
    }
    return reader.message(item, role, alias, at, texts, thoughts, calls, media, beside)
