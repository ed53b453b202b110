"""Reads records of two answers, `chosen` and `rejected`, to what was asked.

The question is `prompt`, a list of messages, or that of an Alpaca record; or the answers are whole
conversations, which begin alike. ms-swift has the chosen one in `messages`.
"""

import json
import re
from itertools import takewhile
from typing import Any

from mypt_records.chat import MEDIA, SPOKEN_KEYS, Chat, Message
from mypt_records.reading import Reader
from mypt_records.shapes import alpaca, sharegpt
from mypt_records.shapes.completion import as_turns

ABOUT = "preference records (chosen, rejected)"
PROMPT = 'add a top-level "system"'
# As TRL, LLaMA-Factory, torchtune, axolotl, the pairs of Stack Exchange, and OpenAI spell them.
_SIDES = {
    side: (side, f"{side}_messages", f"{side}_conversations", f"{side}_response", *others)
    for side, *others in (
        ("chosen", "response_j", "preferred_output", "better_response"),
        ("rejected", "response_k", "non_preferred_output", "worse_response"),
    )
}
TOP = frozenset({
    *_SIDES["chosen"], *_SIDES["rejected"], "system", "language", "tools", "chat_template_kwargs",
    "history", "score_chosen", "score_rejected", "margin", *sharegpt.LISTS, *alpaca.QUESTIONS,
    "input", *MEDIA, "rejected_tools",
})  # fmt: skip
_INPUT = ("messages", "tools", "parallel_tool_calls", "tool_choice")  # keys of what OpenAI asks
_CLOSE = 50  # characters by which answers may differ that are equal but for white space
_WHOLE, _ANSWER, _TOOLS = "rejected_messages", "rejected_response", "rejected_tools"  # of ms-swift


def fit(record: dict[str, Any]) -> int:
    return 6 if all(_keys(record).values()) else 0


def _keys(record: dict[str, Any]) -> dict[str, str]:
    """Returns the key of each side, "" for one that is missing."""
    keys = {side: next(filter(record.__contains__, names), "") for side, names in _SIDES.items()}
    if keys["rejected"] in (_WHOLE, _ANSWER, "") and isinstance(record.get("messages"), list):
        keys["rejected"] = keys["rejected"] if record.get(keys["rejected"]) is not None else ""
        keys["chosen"] = keys["chosen"] or "messages"
    return keys


def read(record: dict[str, Any]) -> Chat:
    reader = Reader()
    keys, sides = _keys(record), {}
    question, used = _question(record, reader, keys["chosen"])
    for side, key in keys.items():
        if key:
            sides[side] = as_turns(record[key], f"/{key}", "assistant", reader)
            used.append(key)
            if record[key] == []:
                reader.add("MYP104", f'"{key}" must hold a message', f"/{key}")
        else:
            reader.add("MYP102", f'the record has no "{side}"', "", hint=f'add "{side}": "..."')
    chosen, rejected = sides.get("chosen", []), sides.get("rejected", [])
    if keys == {"chosen": "messages", "rejected": _ANSWER}:  # to the last question
        start = max((i for i, m in enumerate(chosen, 1) if m.role == "user"), default=0)
        question, chosen = [*question, *chosen[:start]], chosen[start:]
    texts = ["".join(map(_all_of, side)) for side in (chosen, rejected)]
    hint, why = "drop the record, or restore the answer that was worse", "is the chosen one"
    close = abs(len(texts[0]) - len(texts[1])) < _CLOSE
    if chosen and texts[0] == texts[1]:
        reader.add("MYP129", f"the rejected answer {why}", f"/{used[-1]}", hint=hint)
    elif chosen and close and bare(texts[0]) == bare(texts[1]):
        problem = f"the rejected answer {why}, but for white space and case"
        reader.add("MYP129", problem, f"/{used[-1]}", hint=hint, severity="info")
    kinds = {isinstance(record.get(key), str) for key in used[-2:] if key != "messages"}
    if chosen and rejected and len(kinds) == 2:
        fault = f'"{used[-2]}" and "{used[-1]}" must both be texts, or both messages'
        hint = "write both as messages"
        reader.add("MYP104", fault, f"/{used[-1]}", hint=hint, severity="warning")
    same = _alike(chosen, rejected)
    asked = [side[same] for side in (chosen, rejected) if len(side) > same + 1]
    if len(asked) == 2 and all(m.role in ("system", "developer", "user") for m in asked):
        hint = "give both answers to the same question"
        reader.add("MYP261", "the rejected answer is to another question", asked[1].at, hint=hint)
    if rejected and chosen and rejected[-1].role == "user" != chosen[-1].role:
        problem, hint = "the rejected messages end with a question", "end it with the worse answer"
        reader.add("MYP252", problem, rejected[-1].at, hint=hint)
    if _repeats(chosen, question):
        question = [] if _heads(chosen) else question[: _heads(question)]
    tools = reader.tools(record.get("tools"), "/tools")
    others = reader.tools(record.get(_TOOLS), f"/{_TOOLS}")
    if [tool.value for tool in others or ()] == [tool.value for tool in tools or ()]:
        used.append(_TOOLS)
    elif others is not None or keys["rejected"] == _WHOLE:
        problem, at = "the rejected answer has other tools", f"/{keys['rejected']}"
        hint = 'write "tools" as "rejected_tools": ms-swift shows "rejected_messages" no others'
        if keys["chosen"] != "messages":
            at, hint = f"/{_TOOLS}", 'trainers show both answers "tools": write both alike'
        reader.add("MYP261", problem, at, hint=hint, severity="warning")
    if (inside := _inside(record)) and tools is None:
        tools = reader.tools(inside.get("tools"), "/input/tools")
    return reader.chat(
        "preference",
        record,
        [*question, *chosen],
        tools,
        top=TOP - alpaca.unread(record, used) - _unread(record, used, [*question, *chosen]),
        used=(*used, "system"),
        rejected=rejected[same:],
        shared=len(question) + same,
    )


def bare(text: str) -> str:
    """Returns a text, or a message in JSON, without white space and case."""
    return re.sub(r"\s|\\[nrt]", "", text).casefold()


def _question(record: dict[str, Any], reader: Reader, side: str) -> tuple[list[Message], list[str]]:
    """Returns the messages of the question, and their keys; `side` is that of the chosen answer."""
    key = "prompt" if record.get("prompt") is not None else None
    if key is None and (inside := _inside(record)):
        reader.unknown(inside, _INPUT, "/input", 'the object "input"')
        return as_turns(inside["messages"], "/input/messages", "user", reader), ["input"]
    key = key or (sharegpt.list_key(record) if side != "messages" else None)
    if key is None and any(record.get(name) is not None for name in alpaca.QUESTIONS):
        return alpaca.question(record, reader)
    asked = [] if key is None else as_turns(record[key], f"/{key}", "user", reader)
    return reader.system(record) + asked, [] if key is None else [key]


def _inside(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the object that asks, as OpenAI has it; an empty one where there is none."""
    inner = record.get("input")
    return inner if isinstance(inner, dict) and isinstance(inner.get("messages"), list) else {}


def _unread(record: dict[str, Any], used: list[str], messages: list[Message]) -> set[str]:
    """Returns the keys of lists of messages that say something else than what is read."""
    keys = {key for key in sharegpt.LISTS if key not in used and isinstance(record.get(key), list)}
    every = list(map(_all_of, messages))
    return {
        key
        for key in keys
        if list(map(_all_of, sharegpt.messages_of(record[key], "", Reader()))) != every
    }


def _alike(chosen: list[Message], rejected: list[Message]) -> int:
    """Returns how many messages both sides begin with alike, without the answers themselves."""
    most = min(len(chosen), len(rejected)) - 1
    same = 0
    while same < most and _all_of(chosen[same]) == _all_of(rejected[same]):
        same += 1
    return same


def _all_of(message: Message) -> str:
    """Returns all that a message says, wherever it is in the record; notes say nothing."""
    calls = [
        (call.name.text, call.id and call.id.text, call.arguments and call.arguments.value)
        for call in message.calls
    ]
    beside = {key: item.value for key, item in message.beside.items() if key in SPOKEN_KEYS}
    names = [text and text.text for text in (message.answers, message.name)]
    parts = [text.text for text in message.thoughts], [part.value for part in message.media]
    data = message.role, message.text, calls, names, parts, beside
    return json.dumps(data, sort_keys=True)  # tells 1 from true, which are equal


def _repeats(chosen: list[Message], question: list[Message]) -> bool:
    """Returns whether the chosen side is a whole conversation, which the question begins.

    Either of the two may leave out the system prompt.
    """
    if not (_heads(chosen) and _heads(question)):
        chosen, question = chosen[_heads(chosen) :], question[_heads(question) :]
    before = list(map(_all_of, question))
    longer = len(question) > _heads(question) and len(chosen) > len(question)
    return longer and list(map(_all_of, chosen[: len(question)])) == before


def _heads(messages: list[Message]) -> int:
    return len([*takewhile(lambda message: message.role == "system", messages)])
