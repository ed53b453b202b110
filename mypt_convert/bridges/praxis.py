"""Turns records of Praxis into steps and back. Results are text there, and have no name."""

from typing import Any

from mypt_convert.bridges.steps import (
    Bridge,
    Conversation,
    Step,
    metadata_of,
    result_text,
    result_value,
    value_step,
)
from mypt_spec.table import TokenTable


class Praxis(Bridge):
    KINDS = frozenset({"system", "developer", "user", "text", "call", "result", "eos"})

    def message_steps(self, message: dict[str, Any], at: str, table: TokenTable) -> list[Step]:
        role = message["role"]
        if "contents" not in message:
            kind = "text" if role == "assistant" else role
            return [Step(kind, message.get("content", ""), at=f"{at}/content")]
        out, called = list[Step](), ""
        for i, item in enumerate(message["contents"]):
            here = f"{at}/contents/{i}"
            if item["type"] == "text":
                out.append(value_step("text", item, "text", here))
            elif item["type"] == "toolcall":
                called = item["name"]
                out.append(Step("call", item["arguments"], called, at=f"{here}/arguments"))
            else:
                value = result_value(item["content"])
                out.append(Step("result", value, called, at=f"{here}/content"))
        return out

    def record(self, conversation: Conversation, table: TokenTable) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        for step in conversation.steps:
            item, meta = _item(step), metadata_of(step.meta)
            if step.kind == "eos":
                messages.append({"role": "eos"} | meta)
            elif item is None and step.kind in self.KINDS:
                messages.append({"role": step.kind, "content": step.value} | meta)
            elif item is not None:
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "contents": []} | meta)
                items = messages[-1]["contents"]
                # Texts side by side would be read as one: of two drafts the later one stays.
                if items and items[-1]["type"] == item["type"] == "text":
                    items.pop()
                items.append(item)
        return {"messages": messages}


def _item(step: Step) -> dict[str, Any] | None:
    if step.kind == "text":
        return {"type": "text", "text": step.value}
    if step.kind == "call":
        return {"type": "toolcall", "name": step.name, "arguments": step.value}
    if step.kind == "result":
        return {"type": "toolresult", "content": result_text(step.value)}
    return None


BRIDGE = Praxis()
