"""Turns records that a `records.toml` describes into steps and back: OpenAI's messages and tools.

What of these a dialect has is what its adapter has a block for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mypt_convert.bridges.steps import (
    BOUNDARY,
    UNNAMED,
    Bridge,
    Conversation,
    Step,
    answers,
    call_of,
    calls_of,
    metadata_of,
    result_text,
    result_value,
    tool_message,
    value_step,
)
from mypt_spec.adapters.message_shape import THOUGHTS
from mypt_spec.adapters.messages import Messages
from mypt_spec.adapters.template_options import KEY
from mypt_spec.dialect import Dialect
from mypt_spec.table import TEXT, Terminal, TokenTable

_KINDS = {"thought": "think", "answer": "text"}
_RANKS = {"think": 0, "text": 1, "call": 2}


@dataclass
class MessageBridge(Bridge):
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
    DIVIDED: bool = True
    openers: Mapping[str, Terminal] = field(default_factory=dict)  # of steps whose text is stripped
    always_thinks: bool = False  # so an empty thought is none

    @classmethod
    def of(cls, dialect: Dialect) -> MessageBridge:
        if not isinstance(dialect.adapter, Messages):
            return cls()
        paths = dialect.adapter.paths
        kinds = {_KINDS.get(piece, piece) for piece in paths} - {"tools", "said"}
        kinds |= {"system"} if dialect.adapter.system.question else set()
        extras = frozenset(
            {KEY, "tools"} if dialect.adapter.intro else {KEY, *{"tools"} & {*paths}}
        )
        together = dialect.adapter.listed or (
            len(paths.get("call", ())) > 1 and not dialect.table.closers[paths["call"][-1]].both
        )
        with_text = "call" not in paths or "said" in paths or dialect.adapter.late is not False
        with_text = with_text or _follows_text(paths["call"][-1], dialect)
        result = dialect.table.openers[paths["result"][-1]] if "result" in paths else None
        names_tool = result is not None and "name" in result.patterns
        with_id = result is not None and "id" in result.patterns
        openers = {_KINDS.get(p, p): dialect.table.openers[path[-1]] for p, path in paths.items()}
        return cls(
            frozenset(kinds), extras, "call" in paths, together, names_tool, with_text, with_id,
            openers={kind: opener for kind, opener in openers.items() if opener.strip},
            always_thinks=dialect.adapter.options.always_thinks,
        )  # fmt: skip

    def stripped(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Returns steps without the white space that reading a record strips from their texts."""
        out: list[Step] = []
        for i, step in enumerate(steps):
            opener = self.openers.get(step.kind)
            if opener is None:
                out.append(step)
                continue
            is_result = step.kind == "result"  # whose value is that of its text, if that is JSON
            text = opener.stripped(result_text(step.value) if is_result else step.value)
            following = steps[i + 1].kind if i + 1 < len(steps) else ""
            if text or step.kind != "text" or following != "call":
                value = result_value(text) if is_result else text
                out.append(replace(step, value=value))
        return tuple(out)

    def message_steps(self, message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
        role = message["role"]
        if role != "assistant":
            return [value_step(role, message, "content", at)]
        key = next((key for key in THOUGHTS if key in message), "")
        key = "" if self.always_thinks and not message.get(key) else key
        out = [value_step("think", message, key, at)] if key else []
        out += [value_step("text", message, "content", at)] if "content" in message else []
        return out + calls_of(message.get("tool_calls", ()), f"{at}/tool_calls")

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
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
            if step.kind == "result":
                messages.append(tool_message(step, unnamed=unnamed))
            else:
                about = metadata_of(step.meta)
                messages.append({"role": step.kind, "content": step.value} | about)
        return {"messages": messages}

    def _before_call(self, at: int, steps: tuple[Step, ...]) -> bool:
        following = steps[at + 1].kind if at + 1 < len(steps) else ""
        return following == "call" and "call" in self.KINDS and self.with_text


def _follows_text(kind: str, dialect: Dialect) -> bool:
    opener, rows = dialect.table.openers[kind].name, dialect.automaton.steps
    names = {opener, dialect.table.join(opener, TEXT)}
    return any(names & set(rows[row[TEXT]]) for row in rows if TEXT in row)


def _say(step: Step, message: dict[str, Any]) -> None:
    if step.kind != "call":
        message[THOUGHTS[0] if step.kind == "think" else "content"] = step.value
        return
    message.setdefault("tool_calls", []).append(call_of(step))
