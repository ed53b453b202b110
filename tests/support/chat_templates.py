"""Chat templates of models, in a few lines, and the official ones where they are at hand.

Where the variable CHAT_TEMPLATES names a folder with `qwen2_5.jinja`, `qwen3.jinja`, `llama3.jinja`
and others of trl, tests read these, too. Also small tokenizers with the special tokens of a model.
"""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_spec import Dialect
from tests.support.examples import either
from tests.support.foreign import tokenizer
from tests.support.maker import Record
from tests.support.model_vocabularies import content

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{ message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
# Of Llama 3.1: dates in the system prompt, tools in the first question.
LLAMA31 = (
    "{% set ns = namespace(tools=tools) %}{{ bos_token }}"
    "{{ '<|start_header_id|>system<|end_header_id|>\n\n' }}"
    "{% if tools is not none %}{{ 'Environment: ipython\n' }}{% endif %}"
    "{{ 'Cutting Knowledge Date: December 2023\nToday Date: ' }}"
    "{{ (date_string or '26 Jul 2024') + '\n\n' }}"
    "{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% endif %}<|eot_id|>"
    "{% for message in messages if message.role != 'system' %}"
    "{{ '<|start_header_id|>' + ('ipython' if message.role == 'tool' else message.role) }}"
    "{{ '<|end_header_id|>\n\n' }}"
    "{% if message.role == 'user' and ns.tools is not none %}"
    "{{ 'Given the following functions, please respond with a JSON for a function call ' }}"
    "{{ 'with its proper arguments that best answers the given prompt.\n\n' }}"
    '{{ \'Respond in the format {"name": function name, "parameters": dictionary of argument \' }}'
    "{{ 'name and its value}.Do not use variables.\n\n' }}"
    "{% for tool in ns.tools %}{{ tool | tojson(indent=4) + '\n\n' }}{% endfor %}"
    "{% set ns.tools = none %}{% endif %}"
    "{% if message.tool_calls %}{% set call = message.tool_calls[0].function %}"
    "{{ '{\"name\": \"' + call.name + '\", \"parameters\": ' + call.arguments | tojson + '}' }}"
    "{% elif message.role == 'tool' %}"
    "{{ message.content | tojson if message.content is string else message.content }}"
    "{% else %}{{ message.content | trim }}{% endif %}<|eot_id|>{% endfor %}"
)
_OPEN = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_CLOSE = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
QWEN3 = (
    "{% set system = messages[0].role == 'system' %}"
    "{% if system or tools %}<|im_start|>system\n"
    "{% if system %}{{ messages[0].content }}{% endif %}"
    "{% if system and tools %}{{ '\n\n' }}{% endif %}"
    "{% if tools %}{{ open }}{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}"
    "{{ close }}{% endif %}<|im_end|>{{ '\n' }}{% endif %}"
    "{% for m in messages[system | int:] %}"
    "{% if m.role == 'tool' %}{% if loop.previtem.role != 'tool' %}<|im_start|>user{% endif %}"
    "{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{% if loop.last or loop.nextitem.role != 'tool' %}<|im_end|>{{ '\n' }}{% endif %}"
    "{% else %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.reasoning_content is string %}"
    "{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif %}"
    "{{ m.content or '' }}"
    "{% for call in m.tool_calls or [] %}{{ '\n' if m.content or not loop.first else '' }}"
    '{{ \'<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ (call.function.arguments | tojson) + '}\n</tool_call>' }}{% endfor %}"
    "<|im_end|>{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}"
    "{% if add_generation_prompt and enable_thinking is false %}"
    "{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)
DEFAULT = "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks."
QWEN3_CODER = (
    "{% macro more(given, but) %}{% for key in given if key not in but %}{% set v = given[key] %}"
    "{{ '\n<' ~ key ~ '>' ~ ((v | tojson) if v is mapping or (v is sequence and v is not string) else v)"
    " ~ '</' ~ key ~ '>' }}{% endfor %}{% endmacro %}"
    "{% set system = messages[0].role == 'system' %}"
    "{% if system or tools %}<|im_start|>system{{ '\n' }}{% endif %}"
    "{% if system %}{{ messages[0].content }}{% elif tools %}{{ default }}{% endif %}"
    "{% if tools %}{{ open }}{% for tool in tools %}{% set f = tool.function %}"
    "{{ '\n<function>\n<name>' ~ f.name ~ '</name>' }}"
    "{% if 'description' in f %}{{ '\n<description>' ~ (f.description | trim) ~ '</description>' }}{% endif %}"
    "{{ '\n<parameters>' }}{% for name, p in f.get('parameters', {}).get('properties', {}).items() %}"
    "{{ '\n<parameter>\n<name>' ~ name ~ '</name>' }}"
    "{% if 'type' in p %}{{ '\n<type>' ~ p.type ~ '</type>' }}{% endif %}"
    "{% if 'description' in p %}{{ '\n<description>' ~ (p.description | trim) ~ '</description>' }}{% endif %}"
    "{{ more(p, ['name', 'type', 'description']) ~ '\n</parameter>' }}{% endfor %}"
    "{{ more(f.get('parameters', {}), ['type', 'properties']) ~ '\n</parameters>\n</function>' }}{% endfor %}"
    "{{ close }}{% endif %}{% if system or tools %}<|im_end|>{{ '\n' }}{% endif %}"
    "{% for m in messages[system | int:] %}"
    "{% if m.role == 'tool' %}{% if loop.previtem.role != 'tool' %}<|im_start|>user{{ '\n' }}{% endif %}"
    "{{ '<tool_response>\n' ~ m.content ~ '\n</tool_response>\n' }}"
    "{% if loop.last or loop.nextitem.role != 'tool' %}<|im_end|>{{ '\n' }}{% endif %}"
    "{% else %}{{ '<|im_start|>' ~ m.role }}"
    "{% set said = (m.content or '') | trim if m.tool_calls else m.content %}"
    "{{ '\n' ~ said if said or not m.tool_calls }}{{ '\n' if said and m.tool_calls }}"
    "{% for call in m.tool_calls or [] %}{{ '\n<tool_call>\n<function=' ~ call.function.name ~ '>\n' }}"
    "{% for key, v in call.function.arguments.items() %}{{ '<parameter=' ~ key ~ '>\n' }}"
    "{{ (v | tojson) if v is mapping or (v is sequence and v is not string) else v }}"
    "{{ '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}{% endfor %}"
    "<|im_end|>{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %}"
)
HERE = {
    "written here: chatml": CHATML,
    "written here: llama3": LLAMA3,
    "written here: llama3_1": LLAMA31,
    "written here: qwen3": QWEN3,
    "written here: qwen3_coder": QWEN3_CODER,
}
# Texts that templates of this module take from outside.
WORDS = {"written here: qwen3": {"open": _OPEN, "close": _CLOSE}}


@cache
def template(name: str) -> str:
    """Returns a template; skips the test where it is an official one that is not at hand."""
    if name in HERE:
        return HERE[name]
    folder = os.environ.get("CHAT_TEMPLATES")
    path = Path(folder or "", f"{name}.jinja")
    if not folder or not path.is_file():
        pytest.skip(f"CHAT_TEMPLATES names no folder with {name}.jinja")
    return path.read_text(encoding="utf-8")


def rendered(name: str, record: Record, **more: Any) -> str:
    """Returns the text that a template makes of the messages and tools of a record."""
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    texts, _ = rendering.render_jinja_template(
        conversations=[record["messages"]],
        tools=record.get("tools"),
        chat_template=template(name),
        bos_token="<|begin_of_text|>",
        **WORDS.get(name, {}),
        **more,
    )
    return str(texts[0])


# --- of Qwen3


def canonical(record: Record) -> Record:
    """Returns a record of qwen3 in its canonical form: arguments are objects, thoughts have one name."""
    d = mypt_spec.dialect("qwen3")
    episode, _ = d.read(record)
    assert episode is not None
    return d.write(episode)


def comparable(name: str, record: Record) -> Record:
    """Returns a canonical record without what a template of Qwen changes (SPEC, section 8)."""
    record = canonical({k: v for k, v in record.items() if k != "chat_template_kwargs"})
    if name in HERE:
        return record
    messages = record["messages"]
    asked = max(i for i, m in enumerate(messages) if m["role"] == "user")
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        thought = message.pop("reasoning_content", "").strip("\n")
        last = i == len(messages) - 1
        drops = name != "qwen3_training" and (i < asked or not (thought or last))
        if not (drops or name in ("qwen3_instruct_2507", "qwen2_5")):
            message["reasoning_content"] = thought
            if "content" in message:
                message["content"] = message["content"].lstrip("\n")
    if name == "qwen2_5" and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": "S"})
    return record


# --- tokenizers

TEXTS = ["Hello, how are you?\n", "user\nassistant\nsystem\n\n", "Größe 12,5\n\n世界", "a < b || c"]
TEXTS += ['{"name": "f", "arguments": {}}\n', "ab.\n\n", ".\n", "\n\n\n"]
SPECIAL = {
    "chatml": ("<|im_start|>", "<|im_end|>"),
    "llama3": ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "qwen3": (
        "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
    ),
}  # fmt: skip


@cache
def learnt(name: str) -> tuple[Any, Dialect]:
    """Returns a small tokenizer with the special tokens of a dialect, and the dialect on its file."""
    library = tokenizer("qwen", 360, tuple(TEXTS * 9))
    library.add_special_tokens(["<|endoftext|>", *SPECIAL[name]])
    return library, _on(name, json.loads(library.to_str()))


@cache
def qwen() -> tuple[Any, Dialect]:
    """Returns the vocabulary of Qwen3 with its special tokens, by `tokenizers`, and qwen3 on it.

    The quick suite has its first 20,000 tokens.
    """
    from tokenizers import Tokenizer

    made = content("qwen", every=False, most=either(20_000, None))
    row, first = made["added_tokens"][0], len(made["model"]["vocab"])
    ids = [first + i for i in (0, 1, 2, 14, 15, 22, 23, 24, 25)]
    # The library numbers added tokens in order, so those between have names of their own.
    named = dict(zip(ids, ["<|endoftext|>", *SPECIAL["qwen3"]], strict=True))
    made["added_tokens"] = [
        row | {"id": i, "content": named.get(i, f"<|extra_{i}|>")} for i in range(first, first + 26)
    ]
    d = _on("qwen3", made)
    assert [d.table.special[tag] for tag in SPECIAL["qwen3"]] == ids[1:]
    return Tokenizer.from_str(json.dumps(made)), d


def _on(name: str, file: dict[str, Any]) -> Dialect:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
        return mypt_spec.dialect(name, vocabulary=folder)
