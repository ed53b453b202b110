"""Records of other tools: one of each kind that a shape has, and what it says."""

from __future__ import annotations

from typing import Any


def gpt(*turns: tuple[str, str], key: str = "conversations", **more: Any) -> dict[str, Any]:
    return {key: [{"from": who, "value": text} for who, text in turns], **more}


def talk(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in turns]


def v1(*turns: tuple[str, str]) -> list[dict[str, Any]]:
    """Returns messages as LLaMA-Factory v1 has them, where a question has a weight, too."""
    return [
        {
            "role": role,
            "content": [{"type": "text", "value": text}],
            "loss_weight": float(role == "assistant"),
        }
        for role, text in turns
    ]


HI, YO, NO = ("user", "Hi"), ("assistant", "Yo"), ("assistant", "No")
GREETING = [HI, YO]

RECORDS: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("openai", {"messages": talk(HI, YO)}, GREETING),
    ("openai", {"messages": [*talk(HI), {"role": "assistant", "content": "Yo", "loss": True}]}, GREETING),
    ("sharegpt", gpt(("human", "Hi"), ("gpt", "Yo"), id="x_1"), GREETING),
    ("sharegpt", gpt(("human", "Hi"), ("gpt", "Yo"), system="S", tools=""), [("system", "S"), *GREETING]),
    ("sharegpt", gpt(("system", "S"), ("user", "Hi"), ("model", "Yo")), [("system", "S"), *GREETING]),
    ("sharegpt", gpt(("Human", "Hi"), ("chatgpt", "Yo"), key="conversation"), GREETING),
    ("sharegpt", gpt(("human", "Hi"), ("gpt", "Yo"), key="messages"), GREETING),
    ("sharegpt", {"conversations": talk(HI, YO)}, GREETING),
    ("alpaca", {"instruction": "Hi", "input": "", "output": "Yo"}, GREETING),
    ("alpaca", {"instruction": "Hi", "output": "Yo", "input": None}, GREETING),
    ("alpaca", {"instruction": "Hi", "input": "x", "output": "Yo"}, [("user", "Hi\n\nx"), YO]),
    ("alpaca", {"instruction": "b", "output": "d", "history": [["Hi", "Yo"]]}, [*GREETING, ("user", "b"), ("assistant", "d")]),
    ("alpaca", {"question": "Hi", "answer": "Yo"}, GREETING),
    ("alpaca", {"input": "Hi", "output": "Yo"}, GREETING),
    ("alpaca", {"input": talk(HI), "output": "Yo", "category": "x"}, GREETING),
    ("alpaca", {"instruction": "Hi", "context": "x", "response": "Yo"}, [("user", "Hi\n\nx"), YO]),
    ("alpaca", {"prompt": "Hi", "response": "Yo", "system": "S"}, [("system", "S"), *GREETING]),
    ("completion", {"prompt": "Hi", "completion": "Yo"}, GREETING),
    ("completion", {"prompt": talk(HI), "completion": talk(YO)}, GREETING),
    ("kto", {"prompt": "Hi", "completion": "Yo", "label": False}, GREETING),
    ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": "No"}, GREETING),
    ("preference", {"prompt": talk(HI), "chosen": talk(YO), "rejected": talk(("assistant", "No"))}, GREETING),
    ("preference", {"chosen": talk(HI, YO), "rejected": talk(HI, ("assistant", "No"))}, GREETING),
    ("preference", {"prompt": "Hi", "chosen": talk(HI, YO), "rejected": talk(HI, ("assistant", "No"))}, GREETING),
    ("preference", gpt(("human", "Hi"), chosen={"from": "gpt", "value": "Yo"}, rejected={"from": "gpt", "value": "No"}), GREETING),
    ("preference", {"chosen_messages": talk(HI, YO), "rejected_messages": talk(HI, ("assistant", "No"))}, GREETING),
    ("preference", {"chosen_messages": v1(HI, YO), "rejected_messages": v1(HI, NO)}, GREETING),
    ("preference", {"messages": talk(HI, YO), "rejected_response": "No", "margin": 0.5}, GREETING),
    ("preference", {"messages": talk(HI, YO), "rejected_response": talk(NO), "images": []}, GREETING),
    ("preference", {"messages": talk(HI, YO), "rejected_messages": talk(HI, NO)}, GREETING),
    ("preference", {"messages": talk(("system", "S"), HI, NO, HI, YO), "rejected_response": "No"}, [("system", "S"), HI, NO, *GREETING]),
    ("openai", {"messages": talk(HI, YO), "rejected_response": None}, GREETING),
    ("preference", {"instruction": "Hi", "input": "", "chosen": "Yo", "rejected": "No"}, GREETING),
    ("preference", {"input": {"messages": talk(HI)}, "preferred_output": talk(YO), "non_preferred_output": talk(("assistant", "No"))}, GREETING),
    ("turns", talk(HI, YO), GREETING),
    ("preference", {"prompt": "Hi", "chosen": "Yo", "rejected": "No", "history": [], "question": ""}, GREETING),
    ("sharegpt", {"conversations": [{"from": "human", "role": "user", "value": "Hi", "content": "Hi"}, {"from": "gpt", "value": "Yo", "content": ""}]}, GREETING),
    ("gemini", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Yo"}]}]}, GREETING),
    ("gemini", {"system_instruction": "S", "contents": [{"parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Yo"}]}]}, [("system", "S"), *GREETING]),
    ("responses", {"input": "Hi", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yo"}]}]}, GREETING),
    ("responses", {"items": [{"type": "message", "role": "user", "content": "Hi"}, {"type": "message", "role": "assistant", "content": "Yo"}]}, GREETING),
    ("atif", {"schema_version": "ATIF-v1.6", "agent": {"name": "x", "version": "1"}, "steps": [{"step_id": 1, "source": "user", "message": "Hi"}, {"step_id": 2, "source": "agent", "message": "Yo"}]}, GREETING),
    ("claude-code", [{"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Hi"}}, {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "Yo"}]}}], GREETING),
    ("codex", [{"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}}, {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yo"}]}}], GREETING),
    ("pi", [{"type": "session", "id": "1", "cwd": "/"}, {"type": "message", "message": {"role": "user", "content": "Hi"}}, {"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "Yo"}], "stopReason": "stop"}}], GREETING),
    ("sts", [{"type": "session", "id": "1", "harness": "h"}, {"type": "message", "message": {"role": "user", "content": "Hi"}}, {"type": "message", "message": {"role": "assistant", "content": "Yo"}}], GREETING),
    ("gemini", {"authType": "x", "history": [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Yo"}]}]}, GREETING),
    ("swe-agent", {"history": [{"role": "user", "content": "Hi", "agent": "main"}, {"role": "assistant", "content": "Yo", "agent": "main"}]}, GREETING),
    ("openhands", [{"id": "1", "kind": "MessageEvent", "source": "user", "timestamp": "", "llm_message": {"role": "user", "content": "Hi"}}, {"id": "2", "kind": "MessageEvent", "source": "agent", "timestamp": "", "llm_message": {"role": "assistant", "content": "Yo"}}], GREETING),
    ("inspect", {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "reasoning", "reasoning": ""}, {"type": "text", "text": "Yo"}]}], "target": ""}, GREETING),
]  # fmt: skip
