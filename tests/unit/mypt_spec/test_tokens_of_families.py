"""Tags of families beside the tokens that the models' own tokenizers have."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from tests.support.foreign import path as foreign

_CHATML = "<|im_start|> <|im_end|>"
_TOOLS = "<tool_call> </tool_call> <tool_response> </tool_response>"
_HEADERS = "<|begin_of_text|> <|end_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|>"
_MISTRAL = (
    "<s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS]"
    " [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [ARGS] [CALL_ID] [THINK] [/THINK]"
    " [MODEL_SETTINGS] [/MODEL_SETTINGS]"
)
# What the added tokens of each tokenizer are; those for images, sound and code in the middle are left out.
TOKENIZERS = {
    "qwen2 qwen2.5 qwen2.5-base": f"{_CHATML} <tool_call> </tool_call>",
    "qwen3 qwen3-instruct qwen3-thinking qwen3-coder qwen3.5 qwen3.5-small qwen3.6 qwen3.8": (
        f"{_CHATML} {_TOOLS} <think> </think>"
    ),
    "granite4 granite4.1": (
        f"<|end_of_text|> <|start_of_role|> <|end_of_role|> {_TOOLS} <think> </think> <think_on> <think_off>"
        " <schema> </schema> <tools> </tools> <documents> </documents>"
    ),
    "gemma2 gemma3": "<bos> <eos> <start_of_turn> <end_of_turn>",
    "gemma4 gemma4-26b gemma4-31b gemma4-v4": (
        "<bos> <eos> <|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|turn> <turn|>"
        " <|think|> <|channel> <channel|>"
    ),
    "llama3 llama3-chat llama3.1 tulu3": f"{_HEADERS} <|python_tag|> <|eom_id|>",
    "llama4": (
        "<|begin_of_text|> <|end_of_text|> <|header_start|> <|header_end|> <|eom|> <|eot|> <|step|>"
        " <|python_start|> <|python_end|>"
    ),
    "phi3 phi3.5": "<s> </s> <|system|> <|user|> <|assistant|> <|end|> <|endoftext|>",
    "phi4": "<|endoftext|> <|im_start|> <|im_end|> <|im_sep|>",
    "phi4-mini": "<|endoftext|> <|assistant|> <|end|> <|user|> <|system|> <|tool|> <|/tool|> <|tool_call|>",
    "deepseek-v3": "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜>",
    "harmony": "<|start|> <|message|> <|channel|> <|end|> <|return|> <|constrain|> <|call|>",
    "lfm2 lfm2.5": (
        f"<|startoftext|> <|endoftext|> {_CHATML} <|tool_list_start|> <|tool_list_end|> <|tool_call_start|>"
        " <|tool_call_end|> <|tool_response_start|> <|tool_response_end|>"
    ),
    "mistral mistral-v11 mistral-v13 mistral-small4 mistral-small4-thinking": _MISTRAL,
    "mistral-v3 mistral-nemo": _MISTRAL,
}
FAMILIES = {name: tokens.split() for names, tokens in TOKENIZERS.items() for name in names.split()}


@pytest.mark.parametrize("name", FAMILIES)
def test_tags_are_tokens_of_the_model(name: str) -> None:
    table = mypt_spec.dialect(name).table
    assert {*table.special} - {*table.texts} <= {*FAMILIES[name]}
    spellings = [s for t in table.terminals.values() for s in (t.spelling, *t.also)]
    texts = [piece.value for s in spellings for piece in s if piece.kind != "special"]
    assert [token for token in FAMILIES[name] if any(token in text for text in texts)] == []


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["granite4", "granite4.1"])
def test_definitions_of_tools_have_ids_of_the_library(
    tmp_path: Path, name: str, known: bool
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.Tokenizer.from_file(str(foreign("smollm") / "tokenizer.json"))
    library.add_special_tokens([t for t in FAMILIES[name] if known or "tools>" not in t])
    library.save(str(tmp_path / "tokenizer.json"))
    d = mypt_spec.dialect(name, vocabulary=tmp_path)
    parameters = {"type": "object", "properties": {}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]
    episode, findings = d.check({"messages": messages, "tools": [tool]})
    assert episode is not None
    assert findings == []
    ids = d.encode(episode).ids.tolist()
    assert ids == library.encode(d.serialize(episode), add_special_tokens=False).ids
    assert d.parse_ids(ids) == (episode, [])
