"""Turns records that a `records.toml` describes into steps and back: OpenAI's messages and tools.

What of these a dialect has is what its adapter has a block for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mypt_convert.bridges.steps import (
    BOUNDARY,
    UNNAMED,
    Conversation,
    Step,
    answers,
    call_of,
    calls_of,
    extras_of,
    first_carries,
    messages_of,
    metadata_of,
    result_of,
    result_text,
    wait,
)
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.messages import Messages
from mypt_spec.adapters.template_options import KEY
from mypt_spec.adapters.waiting import Waiting
from mypt_spec.dialect import Dialect
from mypt_spec.table import TEXT, TokenTable

_HEADS = ("system", "developer", "user")
_KINDS = {"thought": "think", "answer": "text"}
_RANKS = {"think": 0, "text": 1, "call": 2}


@dataclass
class MessageBridge:
    """The bridge of a dialect with such records; see `Bridge`.

    `names_tool`: whether the text of a result names its tool, so that each result in a record does.
    `with_text`: whether a text may be beside a call.
    """

    KINDS: frozenset[str] = frozenset({"system", "user", "text"})
    EXTRAS: frozenset[str] = frozenset()
    HAS_IDS: bool = False
    PARALLEL: bool = False
    names_tool: bool = False
    with_text: bool = True
    NEEDS_IDS: bool = False

    @classmethod
    def of(cls, dialect: Dialect) -> MessageBridge:
        """Returns the bridge of a dialect."""
        if not isinstance(dialect.adapter, Messages):
            return cls()
        paths = dialect.adapter.paths
        kinds = {_KINDS.get(piece, piece) for piece in paths} - {"tools", "said"}
        extras = frozenset(
            {KEY, "tools"} if dialect.adapter.intro else {KEY, *{"tools"} & {*paths}}
        )
        together = dialect.adapter.listed or (
            len(paths.get("call", ())) > 1 and not dialect.table.closers[paths["call"][-1]].both
        )
        with_text = (
            "call" not in paths or "said" in paths or _follows_text(paths["call"][-1], dialect)
        )
        result = dialect.table.openers[paths["result"][-1]] if "result" in paths else None
        names_tool = result is not None and "name" in result.patterns
        with_id = result is not None and "id" in result.patterns
        return cls(
            frozenset(kinds), extras, "call" in paths, together, names_tool, with_text, with_id
        )

    def steps(self, record: dict[str, Any], table: TokenTable) -> Conversation:
        """Returns a canonical record as steps."""
        out: list[Step] = []
        waiting: Waiting[Step] = Waiting()
        extras, before = extras_of(record), ""
        messages = list(messages_of(record))
        results = [message for _, message, _ in messages if message["role"] == "tool"]
        if results and not any("name" in message for message in results):
            extras[UNNAMED] = True
        for at, message, meta in messages:
            role = message["role"]
            if role == "assistant":
                group = _assistant_steps(message, at)
                wait(group, waiting)
                meta = meta | ({BOUNDARY: True} if role == before else {})
            elif role == "tool":
                group = [result_of(message, at, waiting)]
                meta = meta | ({} if "name" in message or UNNAMED in extras else {"name": None})
            else:
                group = [Step(role, message["content"], at=f"{at}/content")]
            before = role
            out += first_carries(group, meta)
        return Conversation(tuple(out), extras)

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        """Returns a record with the steps that have a place in it."""
        steps, final = conversation.steps, answers(conversation.steps)
        unnamed = conversation.extras.get(UNNAMED) is True and not self.names_tool
        unnamed = unnamed and "call" in self.KINDS
        if unnamed:
            del conversation.extras[UNNAMED]  # results without names say it
        messages: list[dict[str, Any]] = []
        rank = len(_RANKS)  # of the last step in the open message; above all where none is open
        for i, step in enumerate(steps):
            if step.kind not in self.KINDS:
                continue
            if step.kind == "text" and i not in final and not self._before_call(i, steps):
                continue
            if step.kind in _RANKS:
                now = _RANKS[step.kind]
                if now < rank or now == rank != _RANKS["call"] or BOUNDARY in step.meta:
                    messages.append({"role": "assistant"} | metadata_of(step.meta))
                _say(step, messages[-1])
                rank = len(_RANKS) if i in final else now
                continue
            rank = len(_RANKS)
            with_text: dict[str, Any] = {"role": step.kind, "content": step.value}
            if step.kind == "result":
                names_tool = step.id and "tool_call_id" not in step.meta
                ids = {"tool_call_id": step.id} if names_tool else {}
                names = {} if unnamed or "name" in step.meta else {"name": step.name}
                with_text = {"role": "tool", **ids, **names, "content": result_text(step.value)}
            messages.append(with_text | metadata_of(step.meta))
        return {"messages": messages}

    def _before_call(self, at: int, steps: tuple[Step, ...]) -> bool:
        following = steps[at + 1].kind if at + 1 < len(steps) else ""
        return following == "call" and "call" in self.KINDS and self.with_text


def _follows_text(kind: str, dialect: Dialect) -> bool:
    opener, rows = dialect.table.openers[kind].name, dialect.automaton.steps
    names = {opener, dialect.table.join(opener, TEXT)}
    return any(names & set(rows[row[TEXT]]) for row in rows if TEXT in row)


def _assistant_steps(message: dict[str, Any], at: str) -> list[Step]:
    key = next((key for key in THOUGHTS if key in message), "")
    out = [Step("think", message[key], at=f"{at}/{key}")] if key else []
    if "content" in message:
        out.append(Step("text", message["content"], at=f"{at}/content"))
    return out + calls_of(message.get("tool_calls", ()), f"{at}/tool_calls")


def _say(step: Step, message: dict[str, Any]) -> None:
    if step.kind != "call":
        message[THOUGHTS[0] if step.kind == "think" else "content"] = step.value
        return
    message.setdefault("tool_calls", []).append(call_of(step))
