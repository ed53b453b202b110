"""A Hugging Face tokenizer and chat template that say the same as the mypt dialect. Needs transformers."""

from __future__ import annotations

import json
from typing import Any

import mypt_spec
from mypt_spec.tokenizer import check_files, vocabulary_folder

TEMPLATE = """
{%- for m in messages -%}
{%- if m.role == "system" -%}<myPT_system>{{ m.content }}</myPT_system>
{%- elif m.role == "user" -%}<myPT_user>
    {%- if "context" in m -%}<myPT_user_context>{{ m.context }}</myPT_user_context>{%- endif -%}
    {{- m.content }}</myPT_user>
{%- elif m.role == "assistant_context" -%}<myPT_assistant_context>{{ m.content }}</myPT_assistant_context>
{%- elif m.role == "toolresult" -%}<myPT_toolresult>{{ m.content | tojson }}</myPT_toolresult>
{%- else -%}{% generation %}<myPT_assistant>
    {%- if "think" in m -%}<myPT_think>{{ m.think }}</myPT_think>{%- endif -%}
    {%- if m.role == "assistant_toolcall" -%}
        <myPT_toolcall>{"name": {{ m.name | tojson }}
        {%- for key, value in m.arguments.items() %}, {{ key | tojson }}: {{ value | tojson }}{% endfor -%}
        }</myPT_toolcall></myPT_assistant>
    {%- else -%}
        {{- m.content }}{% if "cite" in m %} <myPT_cite>{{ m.cite }}</myPT_cite>{% endif %}</myPT_assistant><myPT_eot>
    {%- endif -%}{% endgeneration %}
{%- endif -%}
{%- endfor -%}
"""


def tokenizer() -> Any:
    """GPT-2's tokenizer with the special tags of mypt, under the same ids."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import PreTrainedTokenizerFast

    special = mypt_spec.dialect("mypt").table.special
    files = check_files(vocabulary_folder())
    vocabulary = json.loads(files["encoder.json"].read_text(encoding="utf-8"))
    merges = [tuple(line.split()) for line in files["vocab.bpe"].read_text(encoding="utf-8").splitlines()[1:] if line]
    inner = Tokenizer(BPE(vocabulary, merges))
    inner.pre_tokenizer, inner.decoder = ByteLevel(add_prefix_space=False), Decoder()
    out = PreTrainedTokenizerFast(tokenizer_object=inner, clean_up_tokenization_spaces=False)
    out.add_special_tokens({"additional_special_tokens": list(special)})
    assert {tag: out.convert_tokens_to_ids(tag) for tag in special} == special
    return out


def encode(theirs: Any, records: list[dict[str, Any]]) -> Any:
    """`input_ids` and `assistant_masks` of records, in one call."""
    chats = [([{"role": "system", "content": r["system"]}] if "system" in r else []) + r["messages"] for r in records]
    return theirs.apply_chat_template(chats, chat_template=TEMPLATE, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
