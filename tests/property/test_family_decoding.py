"""Decoding in the formats of families: what random models write is legal, fits the tools, and is read by
the parsers of servers.
"""

from __future__ import annotations

import importlib
import json
import random
from functools import cache
from typing import Any

import pytest

from mypt_infer.decode import Decoder
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.episode import Episode
from mypt_spec.states import calling_blocks
from tests.support import vocabulary
from tests.support.build import chat, function, user
from tests.support.decoding import calls_in, complete, generated
from tests.support.examples import either
from tests.support.families import ALL

TOOLS = [
    function("search", {"query": {"type": "string"}, "top_k": {"type": "integer"}}, required=["query"]),
    function("set_kind", {"kind": {"enum": ["note", "notes"]}, "exact": {"type": "boolean"}}, required=["exact"]),
    function("list_docs", {}),
]  # fmt: skip
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
# In mistral-v11, the tag of a call has an id, which nothing constrains.
CALLERS = [n for n, f in ALL.items() if calling_blocks(f.dialect.table) and n != "mistral-v11"]
WALKS = either(24, 1000)
PARSERS = {  # of SGLang, as llm-router-utils has them
    "qwen2.5": "qwen25_detector.Qwen25Detector",
    "qwen3-instruct": "qwen25_detector.Qwen25Detector",
    "granite4": "qwen25_detector.Qwen25Detector",
    "granite4.1": "qwen25_detector.Qwen25Detector",
    "qwen3-coder": "qwen3_coder_detector.Qwen3CoderDetector",
    "deepseek-v3.1": "deepseekv31_detector.DeepSeekV31Detector",
    "qwen3.5": "qwen3_coder_detector.Qwen3CoderDetector",
    "qwen3.6": "qwen3_coder_detector.Qwen3CoderDetector",
    "minimax-m2": "minimax_m2.MinimaxM2Detector",
    "minimax-m2.5": "minimax_m2.MinimaxM2Detector",
    "llama3.1": "llama32_detector.Llama32Detector",
}
# The quick suite walks in formats with bodies of calls that the dialects do not have.
SOME = either(("gemma4", "deepseek-v3.1", "llama3.1"), tuple(CALLERS))


@cache
def decoder(name: str) -> Decoder:
    return Decoder(vocabulary.small(name), TOOLS)


def prompt(name: str) -> Episode:
    tools = {"tools": TOOLS} if ALL[name].declares else {}
    episode, findings = vocabulary.small(name).check(chat(user("Hi")) | tools)
    assert episode is not None, findings
    return episode


def walks(name: str, count: int) -> list[tuple[list[int], list[int]]]:
    """Returns prompts and what random models write after them, within budgets from the least on."""
    made = decoder(name)
    ids, out = made.ids_of(prompt(name)), []
    least = made.minimum(made.start(ids))
    for number in range(count):
        state = made.start(ids, max_new_tokens=least + number % 64)
        answer = [*generated(made, state, random.Random(f"{name} {number}"))]
        assert len(answer) <= least + number % 64
        out.append((ids, answer))
    return out


@pytest.mark.parametrize("name", SOME)
def test_walks_are_legal_and_arguments_fit(name: str) -> None:
    made, calls = decoder(name), 0
    for ids, answer in walks(name, WALKS):
        assert complete(made, ids + answer), made.dialect.tokenizer.decode(answer)
        for call in calls_in(made, ids + answer):
            assert misfits(call.arguments, SCHEMAS[call.name]) == [], call
            calls += 1
    assert calls


@pytest.mark.extra("llm_router_utils")
@pytest.mark.parametrize("name", [name for name in SOME if name in PARSERS])
def test_parsers_of_servers_read_the_calls(name: str) -> None:
    """What SGLang reads of an answer are the calls of it, with their arguments."""
    root = "llm_router_utils.sglang.srt.function_call"
    module, _, kind = PARSERS[name].partition(".")
    parsers: Any = importlib.import_module(f"{root}.{module}")
    tools = [parsers.Tool.model_validate(tool) for tool in TOOLS]
    made, count = decoder(name), 0
    for ids, answer in walks(name, WALKS):
        calls = calls_in(made, ids + answer)
        text = made.dialect.tokenizer.decode(answer)
        read = getattr(parsers, kind)().detect_and_parse(text, tools).calls
        ours = [(call.name, call.arguments) for call in calls]
        assert [(call.name, json.loads(call.parameters)) for call in read] == ours, text
        count += len(calls)
    assert count
