"""Decoding in the formats of families: what random models write is legal, fits the tools, and is read by
the parsers of servers.
"""

from __future__ import annotations

import importlib
import json
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from mypt_spec.bodies.json_schema import misfits
from mypt_spec.states import calling_blocks
from tests.support.examples import either
from tests.support.families import ALL
from tests.support.walks import SCHEMAS, TOOLS, Walk, decoder, ends, in_order, walks

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
    "glm4.5": "glm4_moe_detector.Glm4MoeDetector",
}
VLLM = {  # the names of its parsers; that of llama3.1 needs a tag that the format has not
    "qwen2.5": "hermes",
    "qwen3-instruct": "hermes",
    "granite4": "granite4",
    "granite4.1": "granite4",
    "qwen3-coder": "qwen3_coder",
    "deepseek-v3.1": "deepseek_v31",
    "qwen3.5": "qwen3_coder",
    "qwen3.6": "qwen3_coder",
    "minimax-m2": "minimax_m2",
    "minimax-m2.5": "minimax_m2",
}
# The names of built-in structural tags. That of qwen3-coder wants an empty line in a call without arguments.
XGRAMMAR = {"qwen2.5": "qwen_3", "deepseek-v3.1": "deepseek_v3_1", "llama3.1": "llama"}
# The quick suite walks in formats with bodies of calls that the dialects do not have.
SOME = either(("gemma4", "deepseek-v3.1", "llama3.1"), tuple(CALLERS))


@cache
def some_walks(name: str) -> list[Walk]:
    return [*islice(walks(name), WALKS)]


@pytest.mark.parametrize("name", SOME)
def test_walks_are_legal_and_arguments_fit(name: str) -> None:
    made, calls = decoder(name), 0
    for walk in some_walks(name):
        assert len(walk.ids) <= walk.most
        assert ends(made, walk.prompt + walk.ids), made.dialect.tokenizer.decode(walk.ids)
        for call in walk.calls:
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
    for _, answer, calls, _ in some_walks(name):
        text = made.dialect.tokenizer.decode(answer)
        read = getattr(parsers, kind)().detect_and_parse(text, tools).calls
        ours = [(call.name, call.arguments) for call in calls]
        assert [(call.name, json.loads(call.parameters)) for call in read] == ours, text
        count += len(calls)
    assert count


@pytest.mark.extra("vllm")
@pytest.mark.filterwarnings("ignore")  # of its imports
@pytest.mark.parametrize("name", [name for name in SOME if name in VLLM])
def test_parsers_of_vllm_read_the_calls(name: str) -> None:
    managers: Any = importlib.import_module("vllm.tool_parsers")
    protocol: Any = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
    tools = [protocol.ChatCompletionToolsParam.model_validate(tool) for tool in TOOLS]
    made, count = decoder(name), 0
    tokenizer = SimpleNamespace(
        get_vocab=lambda: made.dialect.tokenizer.special,
        encode=lambda text, **_: list(map(int, made.dialect.tokenizer.encode(text))),
        decode=lambda ids, **_: made.dialect.tokenizer.decode(list(ids)),
        all_special_ids=[],
        all_special_tokens=[],
    )
    kind = managers.ToolParserManager.get_tool_parser(VLLM[name])
    request = protocol.ChatCompletionRequest(model="", messages=[], tools=TOOLS)
    for _, answer, calls, _ in some_walks(name):
        text = made.dialect.tokenizer.decode(answer)
        read = kind(tokenizer, tools).extract_tool_calls(text, request).tool_calls
        theirs = [(call.function.name, json.loads(call.function.arguments)) for call in read]
        assert theirs == [(call.name, call.arguments) for call in calls], text
        count += len(calls)
    assert count


@pytest.mark.extra("xgrammar")
@pytest.mark.parametrize("name", [name for name in SOME if name in XGRAMMAR])
def test_structural_tags_of_xgrammar_accept_the_answers(name: str) -> None:
    xgrammar: Any = importlib.import_module("xgrammar")
    accepts: Any = importlib.import_module("xgrammar.testing")._is_grammar_accept_string
    tag = xgrammar.get_model_structural_tag(XGRAMMAR[name], tools=TOOLS, reasoning="disabled")
    grammar = xgrammar.Grammar.from_structural_tag(tag)
    made, count = decoder(name), 0
    for _, answer, calls, _ in some_walks(name):
        text = made.dialect.tokenizer.decode(answer[:-1])  # without the stop token
        if all([*call.arguments] == in_order(call.arguments) for call in calls):
            assert accepts(grammar, text), text  # its tags take no other order
            count += 1
    assert count
