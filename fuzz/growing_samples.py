"""Records to grow: for each dialect and shape of other tools, what a record holds once, and a turn.

A turn has all that a record of its kind can have, and may be repeated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Record = dict[str, Any]


class Sample(NamedTuple):
    """What a record holds once, a turn as a list, and where a record holds its turns."""

    head: Record
    turn: list[Any]
    key: str = "messages"


ID = "call00000"  # each turn may have another
_CALL = {"name": "find", "arguments": {"doc_id": "d", "n": 1}}
_PARAMETERS = {
    "type": "object",
    "properties": {"doc_id": {"type": "string"}, "n": {"type": "integer"}},
}
_TOOLS = [
    {
        "type": "function",
        "function": {"name": "find", "description": "finds", "parameters": _PARAMETERS},
    }
]
_CALLS = [
    {
        "id": ID,
        "type": "function",
        "function": {"name": "find", "arguments": '{"doc_id": "d"}'},
    }
]
_RESULT = {"role": "tool", "tool_call_id": ID, "name": "find", "content": "d"}
_ASKED = {"role": "user", "content": "How?"}
_ANSWER = {"role": "assistant", "content": "So."}
_THOUGHT = {"reasoning_content": "Aha."}
_SYSTEM = {"role": "system", "content": "S"}


def _tool_chat(**said: str) -> Sample:
    """Returns a sample of OpenAI's messages, whose calls come with what `said` holds."""
    calls = {"role": "assistant", **said, "tool_calls": _CALLS}
    return Sample({"language": "en", "tools": _TOOLS}, [_ASKED, calls, _RESULT, _ANSWER])


SAMPLES = {
    "mypt": Sample(
        {"system": "S\nTools:\n- find(doc_id, n) - finds", "language": "en"},
        [
            {**_ASKED, "context": "Guide d"},
            {"role": "assistant_toolcall", **_CALL, "think": "Look."},
            {"role": "toolresult", "name": "find", "content": {"documents": [{"doc_id": "e"}]}},
            {**_ANSWER, "think": "Aha.", "cite": "Guide"},
        ],
    ),
    "mypt-3b": Sample(
        {"system": "S", "language": "en"},
        [
            {**_ASKED, "context": "Guide d"},
            {"role": "assistant_toolcall", **_CALL},
            {"role": "tool_result", "name": "find", "content": {"documents": [{"doc_id": "e"}]}},
            _ANSWER,
        ],
    ),
    "gabgpt": Sample({"language": "en"}, [_ASKED, {**_ANSWER, "think": "Aha."}]),
    "praxis": Sample(
        {"language": "en"},
        [
            _ASKED,
            {
                "role": "assistant",
                "contents": [
                    {"type": "text", "text": "Look."},
                    {"type": "toolcall", **_CALL},
                    {"type": "toolresult", "content": "d"},
                    {"type": "text", "text": "So."},
                ],
            },
        ],
    ),
    "usf-omega": Sample(
        {"model_identity": "S", "language": "en", "tools": _TOOLS},
        [
            _ASKED,
            {
                "role": "assistant",
                "content": "Look.",
                "reasoning": "Aha.",
                "tool_calls": [{**_CALLS[0], "function": _CALL}],
            },
            _RESULT,
            _ANSWER,
        ],
    ),
    "chatml": Sample({"language": "en"}, [_ASKED, _ANSWER]),
    "llama3": Sample({"language": "en"}, [_ASKED, _ANSWER]),
    "qwen3": _tool_chat(content="Look.", **_THOUGHT),
    "mistral": _tool_chat(),
    "mistral-v13": _tool_chat(content="Look.", **_THOUGHT),
    "harmony": _tool_chat(content="Look.", **_THOUGHT)._replace(head={"language": "en"}),
    "openai": _tool_chat(content="Look.", **_THOUGHT),
    "sharegpt": Sample(
        {"system": "S", "tools": _TOOLS},
        [
            {"from": "human", "value": "How?"},
            {"from": "function_call", "value": '{"name": "find", "arguments": {"doc_id": "d"}}'},
            {"from": "observation", "value": "d"},
            {"from": "gpt", "value": "So."},
        ],
        "conversations",
    ),
    "alpaca": Sample(
        {"system": "S", "instruction": "How?", "input": "x", "output": "So."},
        [["Who?", "Me."]],
        "history",
    ),
    "completion": Sample({"completion": [_ASKED, _ANSWER]}, [_ASKED, _ANSWER], "prompt"),
    "preference": Sample(
        {"prompt": [_SYSTEM], "rejected": [_ASKED, {**_ANSWER, "content": "No."}]},
        [_ASKED, _ANSWER],
        "chosen",
    ),
    "anthropic": Sample(
        {"system": "S", "tools": [{"name": "find", "input_schema": _PARAMETERS}]},
        [
            _ASKED,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Aha.", "signature": "x"},
                    {"type": "text", "text": "Look."},
                    {"type": "tool_use", "id": ID, "name": "find", "input": {"doc_id": "d"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": ID, "content": "d"}],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "So."}]},
        ],
    ),
    "gemini": Sample(
        {"systemInstruction": {"parts": [{"text": "S"}]}},
        [
            {"role": "user", "parts": [{"text": "How?"}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "find", "args": {"doc_id": "d"}}}],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "find", "response": {"x": "d"}}}],
            },
            {"role": "model", "parts": [{"text": "So."}]},
        ],
        "contents",
    ),
    "responses": Sample(
        {"instructions": "S", "tools": [{"type": "function", **_TOOLS[0]["function"]}]},
        [
            _ASKED,
            {
                "type": "function_call",
                "call_id": ID,
                "name": "find",
                "arguments": '{"doc_id": "d"}',
            },
            {"type": "function_call_output", "call_id": ID, "output": "d"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        ],
        "input",
    ),
    "atif": Sample(
        {"schema_version": "ATIF-v1.6", "agent": {"name": "a", "version": "1"}},
        [
            {"source": "user", "message": "How?"},
            {
                "source": "agent",
                "message": "Look.",
                "reasoning_content": "Aha.",
                "tool_calls": [
                    {
                        "tool_call_id": ID,
                        "function_name": "find",
                        "arguments": {"doc_id": "d"},
                    }
                ],
                "observation": {"results": [{"source_call_id": ID, "content": "d"}]},
            },
            {"source": "agent", "message": "So."},
        ],
        "steps",
    ),
    "swe-agent": Sample(
        {"info": {}},
        [
            {**_ASKED, "agent": "main", "message_type": "observation"},
            {
                "role": "assistant",
                "agent": "main",
                "message_type": "action",
                "content": "Look.",
                "thinking_blocks": [{"type": "thinking", "thinking": "Aha."}],
                "tool_calls": _CALLS,
            },
            {"role": "tool", "tool_call_ids": [ID], "content": "d", "agent": "main"},
            {**_ANSWER, "agent": "main"},
        ],
        "history",
    ),
    "inspect": Sample(
        {"target": "", "epoch": 1},
        [
            _ASKED,
            {
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "Aha."}],
                "tool_calls": [{"id": ID, "function": "find", "arguments": {"doc_id": "d"}}],
            },
            {"role": "tool", "tool_call_id": ID, "function": "find", "content": "d"},
            _ANSWER,
        ],
    ),
    "prompt": Sample({"answer": "4"}, [_ASKED, _ANSWER], "prompt"),
    "kto": Sample({"completion": [_ASKED, _ANSWER], "label": True}, [_ASKED, _ANSWER], "prompt"),
}
