"""Correct rows with the columns of data sets as they are published, made up at random."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Row = Any
WORDS = (
    "the harbour", "opens", "at nine", "on Sundays", "Grüße", "世界", "\"quoted\"", "<b>bold</b>", "x < 5", "😀", "`code()`",
    "and then", "a list:\n- one\n- two", "Ångström", "[1]", "{}", "no", "C:\\temp", "नमस्ते", "3.5 %",
)  # fmt: skip
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "says it", "parameters": PARAMETERS},
}


def text(random: Random) -> str:
    return " ".join(random.choice(WORDS) for _ in range(random.randint(1, 9))) + "."


def turns(
    random: Random,
    who: str = "role",
    said: str = "content",
    names: tuple[str, str] = ("user", "assistant"),
) -> list[Row]:
    count = random.randint(1, 3)
    return [{who: name, said: text(random)} for _ in range(count) for name in names]


def human(random: Random) -> list[Row]:
    return turns(random, "from", "value", ("human", "gpt"))


def called(random: Random, *, arguments: Callable[[Any], Any] = json.dumps) -> list[Row]:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": arguments({"city": text(random)})},
    }
    return [
        {"role": "user", "content": text(random)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": text(random)},
        {"role": "assistant", "content": text(random)},
    ]


def hermes(random: Random) -> Row:
    call = json.dumps({"name": "weather", "arguments": {"city": text(random)}})
    values = [
        ("system", f"You call functions. <tools>{json.dumps([WEATHER])}</tools>"), ("human", text(random)),
        ("gpt", f"<tool_call>\n{call}\n</tool_call>"),
        ("tool", f"<tool_response>\n{json.dumps({'content': text(random)})}\n</tool_response>"), ("gpt", text(random)),
    ]  # fmt: skip
    return {
        "id": str(random.random()),
        "conversations": [{"from": f, "value": v} for f, v in values],
        "tools": json.dumps([WEATHER]),
        "category": "c",
        "subcategory": "s",
        "task": "t",
    }


def logged(random: Random) -> Row:
    more = {
        "country": "Norway",
        "language": "English",
        "toxic": False,
        "redacted": False,
        "turn_identifier": 7,
        "hashed_ip": "a",
        "header": {"accept-language": "en"},
        "timestamp": None,
    }
    return {
        "conversation_hash": "f", "model": "m", "timestamp": "2024-01-01T00:00:00", "conversation": [t | more for t in turns(random)], "turn": 1,
        "language": "English", "openai_moderation": [{"flagged": False}], "detoxify_moderation": [{"toxicity": 0.1}], "toxic": False, "redacted": False,
        "state": "s", "country": "Norway", "hashed_ip": "a", "header": {"user-agent": "x"},
    }  # fmt: skip


def preferred(random: Random) -> Row:
    asked = {"role": "user", "content": text(random)}
    chosen, rejected = [{"role": "assistant", "content": text(random) + end} for end in " ab"[1:]]
    return {
        "prompt": asked["content"], "prompt_id": "f00", "chosen": [asked, chosen], "rejected": [asked, rejected], "messages": [asked, chosen],
        "score_chosen": 8.5, "score_rejected": 4.0,
    }  # fmt: skip


def repeated(random: Random) -> Row:
    said = turns(random)
    return {
        "prompt": said[0]["content"],
        "prompt_id": "p",
        "messages": said,
        "category": "Brainstorm",
    }


SHAPES: dict[str, Callable[[Random], Row]] = {
    "messages": lambda r: {"messages": turns(r), "source": "s", "id": "x"},
    "messages and a topic": lambda r: {"messages": turns(r), "full_topic": "a/b", "source": "s"},
    "system beside messages": lambda r: {"system": text(r), "tools": [WEATHER], "messages": called(r)},
    "nulls": lambda r: {"messages": turns(r), "system": None, "tools": None, "images": None, "label": None},
    "calls": lambda r: {"messages": called(r), "tools": [WEATHER], "parallel_tool_calls": False},
    "calls with objects": lambda r: {"messages": called(r, arguments=dict), "tools": json.dumps([WEATHER])},
    "calls in text": hermes,
    "ShareGPT with columns": lambda r: {
        "custom_instruction": None, "topic": None, "model_name": None, "model": None, "skip_prompt_formatting": False, "category": "orca",
        "conversations": [t | {"weight": None} for t in human(r)], "views": None, "language": None, "id": None, "title": None, "idx": None, "hash": None,
        "avatarUrl": None, "system_prompt": None, "source": "s",
    },
    "instruction beside conversations": lambda r: {
        "uuid": "u", "model": "m", "gen_input_configs": {"temperature": 1.0}, "instruction": text(r), "response": text(r), "conversations": human(r),
        "task_category": "t", "difficulty": "easy", "input_quality": "good", "instruct_reward": -3.5, "language": "EN",
    },
    "logs of chats": logged,
    "arena": lambda r: {"conversation_id": "c", "model": "m", "conversation": turns(r), "turn": 1, "language": "English", "openai_moderation": [], "redacted": False},
    "trajectories": lambda r: {"messages": called(r), "instance_id": "i", "resolved": True, "model": "m", "traj_id": "t", "patch": "diff"},
    "reasoning on or off": lambda r: {
        "input": [{"role": "user", "content": text(r)}], "output": text(r), "category": "math", "license": "cc", "reasoning": "off", "generator": "g",
        "used_in_training": "yes", "version": "v1", "system_prompt": "detailed thinking off",
    },
    "binarized preferences": preferred,
    "preferences": lambda r: {"prompt": text(r), "chosen": text(r) + "a", "rejected": text(r) + "b", "margin": 1.5},
    "preferred outputs": lambda r: {
        "input": {"messages": [{"role": "user", "content": text(r)}], "tools": [], "parallel_tool_calls": True},
        "preferred_output": [{"role": "assistant", "content": text(r) + "a"}], "non_preferred_output": [{"role": "assistant", "content": text(r) + "b"}],
    },
    "labels": lambda r: {"prompt": text(r), "completion": text(r), "label": r.random() < 0.5},
    "prompt beside messages": repeated,
    "images": lambda r: {"id": "1", "image": "a.jpg", "conversations": [{"from": "human", "value": f"<image>\n{text(r)}"}, {"from": "gpt", "value": text(r)}]},
    "rollouts": lambda r: {
        "prompt": [{"role": "user", "content": text(r)}], "completion": [{"role": "assistant", "content": text(r)}], "answer": "4", "task": "t",
        "reward": 1.0, "info": {"n": 1}, "example_id": 3, "metrics": {"m": 0.5}, "state": {},
    },
    "roles of calls": lambda r: {
        "tools": json.dumps([WEATHER]),
        "messages": [
            {"role": "user", "content": text(r)}, {"role": "tool_call", "content": json.dumps({"name": "weather", "arguments": {"city": text(r)}})},
            {"role": "tool_response", "content": text(r)}, {"role": "assistant", "content": text(r), "loss": True},
        ],
    },
    "prompts": lambda r: {"data_source": "gsm", "prompt": [{"role": "user", "content": text(r)}], "ability": "math", "reward_model": {"style": "rule", "ground_truth": "4"}, "extra_info": {"split": "train"}},
    "questions": lambda r: {"question": text(r), "answer": f"{text(r)}\n#### 4"},
    "queries": lambda r: {"query": text(r), "response": text(r), "type": "x", "original_question": text(r)},
    "pairs": lambda r: {"input": text(r), "output": text(r)},
    "instructions": lambda r: {"instruction": text(r), "input": r.choice(["", text(r)]), "output": text(r), "text": text(r)},
    "contexts": lambda r: {"instruction": text(r), "context": text(r), "response": text(r), "category": "closed_qa"},
    "texts": lambda r: {"text": f"### Human: {text(r)}\n### Assistant: {text(r)}", "meta": {"n": 1}},
    "lists": turns,
}  # fmt: skip
