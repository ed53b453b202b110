"""Qwen3: the text of the chat templates, and the ids that `tokenizers` makes of it.

The template here says in a few lines what the published ones do with tools, calls and thoughts.
Where the variable CHAT_TEMPLATES names a folder with `qwen3.jinja`, `qwen3_training.jinja`,
`qwen3_instruct_2507.jinja` and `qwen2_5.jinja`, these are read, too.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import pytest

import mypt_spec
from mypt_spec import Dialect, Episode
from tests.dialects.qwen3 import SHAPE
from tests.property.test_chat_templates import PATTERN, TEXTS
from tests.support.conversations import conversations
from tests.support.strategies import Record

OPEN = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
CLOSE = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
HERE = (
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
OFFICIAL = ("qwen3", "qwen3_training", "qwen3_instruct_2507", "qwen2_5")
SPECIAL = (
    "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>",
    "</tool_response>", "<think>", "</think>",
)  # fmt: skip


def dialect() -> Dialect:
    return mypt_spec.dialect("qwen3")


@cache
def template(name: str) -> str:
    """A template by its name; skips where it is an official one and the folder is not there."""
    if name == "here":
        return HERE
    folder = os.environ.get("CHAT_TEMPLATES")
    if not folder:
        pytest.skip("CHAT_TEMPLATES names no folder with the official templates")
    return (Path(folder) / f"{name}.jinja").read_text(encoding="utf-8")


def rendered(name: str, record: Record, **more: Any) -> str:
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    found, _ = rendering.render_jinja_template(
        conversations=[record["messages"]],
        tools=record.get("tools"),
        chat_template=template(name),
        open=OPEN,
        close=CLOSE,
        **more,
    )
    return str(found[0])


def plain(record: Record) -> Record:
    """A record in its canonical form: arguments are objects, thoughts have one name."""
    d = dialect()
    episode, _ = d.read(record)
    assert episode is not None
    return d.write(episode)


def comparable(name: str, record: Record) -> Record:
    """A canonical record without what an official template is known to change (SPEC, section 8)."""
    record = plain({k: v for k, v in record.items() if k != "chat_template_kwargs"})
    if name == "here":
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


@pytest.mark.parametrize("name", ["here", *OFFICIAL])
def test_text_is_that_of_the_template(name: str) -> None:
    d = dialect()
    template(name)
    for number, made in conversations(SHAPE, clean=True):
        record = comparable(name, made)
        episode, _ = d.read(record)
        assert episode is not None
        text = rendered(name, record)
        assert d.serialize(episode) == text, number
        assert d.parse(text) == (episode, []), number
        asked = record | {"messages": record["messages"][:-1]}
        prompt = rendered(name, asked, add_generation_prompt=True)
        assert d.check_prefix(prompt).findings == [], number


USER = {"role": "user", "content": "u"}
CALL = {"type": "function", "function": {"name": "f", "arguments": {"q": 1}}}
ASKED = {"role": "assistant", "content": "", "tool_calls": [CALL]}


def own(*messages: Record) -> str:
    episode, _ = dialect().read({"messages": list(messages)})
    assert episode is not None
    return dialect().serialize(episode)


def official(name: str, *messages: Record) -> str:
    return rendered(name, {"messages": list(messages)})


def test_thoughts_of_earlier_turns_are_kept() -> None:
    """The template of Qwen3 drops them, and writes an empty one on the last answer."""
    said = [USER, {"role": "assistant", "reasoning_content": "t", "content": "a"}, USER]
    last = {"role": "assistant", "content": "b"}
    assert "<think>\nt\n</think>\n\na<|im_end|>" in own(*said, last)
    assert own(*said, last).endswith("<|im_start|>assistant\nb<|im_end|>\n")
    shown = official("qwen3", *said, last)
    assert "<think>\nt" not in shown
    assert shown.endswith("<think>\n\n</think>\n\nb<|im_end|>\n")
    assert own(*said[:1], {"role": "assistant", "reasoning_content": "", "content": "b"}) == (
        official("qwen3", USER, last)
    ), "an empty thought is written where the record has one"


def test_nothing_is_trimmed() -> None:
    message = {"role": "assistant", "reasoning_content": "\nt\n", "content": "\na"}
    assert "<think>\n\nt\n\n</think>\n\n\na<" in own(USER, message)
    assert "<think>\nt\n</think>\n\na<" in official("qwen3_training", USER, message)


def test_arguments_that_are_json_text_are_canonical() -> None:
    quoted = {"type": "function", "function": {"name": "f", "arguments": '{"q":1}'}}
    message = ASKED | {"tool_calls": [quoted]}
    assert '"arguments": {"q": 1}}' in own(USER, message)
    assert '"arguments": {"q":1}}' in official("qwen3", USER, message)


def test_thoughts_inside_the_content_are_refused() -> None:
    """The template of Qwen3 cuts them out of the content."""
    message = {"role": "assistant", "content": "<think>\nt\n</think>\n\na"}
    _, findings = dialect().check({"messages": [USER, message]})
    assert "MYP301" in [f.code for f in findings]
    assert own(USER, {"role": "assistant", "reasoning_content": "t", "content": "a"}) == (
        official("qwen3", USER, message)
    )


# --- ids


@cache
def trained(folder: str) -> tuple[Any, Dialect]:
    """A small tokenizer with the special tokens of Qwen3, and the dialect on its file."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    found.decoder = decoders.ByteLevel()
    found.train_from_iterator(
        [*TEXTS, '{"name": "f", "arguments": {}}\n', "ab.\n\n", ".\n", "\n\n\n"] * 9,
        trainers.BpeTrainer(
            vocab_size=360,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    found.add_special_tokens(["<|endoftext|>", *SPECIAL])
    found.save(f"{folder}/tokenizer.json")
    return found, mypt_spec.dialect("qwen3", vocabulary=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


def without_leading_space(record: Record) -> Record:
    """A record whose answers begin with no white space: there, the ids say who wrote it."""
    record = plain(record)
    for message in record["messages"]:
        if message["role"] == "assistant" and "reasoning_content" not in message:
            message["content"] = message.get("content", "").lstrip()
    return record


def agree(library: Any, d: Dialect, record: Record) -> None:
    """The ids are the library's of the text, the text comes back, and what is trained is known."""
    episode, _ = d.read(record)
    assert episode is not None
    encoded, text = d.encode(episode), d.serialize(episode)
    if not is_normalized("NFC", text):
        return  # Qwen's tokenizer normalizes, and this engine changes no text
    ids = encoded.ids.tolist()
    assert ids == library.encode(text, add_special_tokens=False).ids
    assert d.parse_ids(ids) == (episode, [])
    assert d.tokenizer.decode(ids) == text
    learnt = [i for i, w in zip(ids, encoded.loss.tolist(), strict=True) if w]
    assert d.tokenizer.decode(learnt) == answers(text, given=disabled(episode))


def disabled(episode: Episode) -> str:
    """The empty thought with which prompts end where the options of a record say so, escaped."""
    off = episode.meta.get("chat_template_kwargs", {}).get("enable_thinking") is False
    return re.escape("<think>\n\n</think>\n\n") if off else ""


def answers(text: str, *, given: str) -> str:
    """What is trained of a text, from the words of the SPEC: the assistant's blocks without header
    and without the line end after them.
    """
    header = rf"<\|im_start\|>assistant\n(?:{given})?"
    return "".join(re.findall(header + r"(.*?<\|im_end\|>)\n", text, re.DOTALL))


def test_ids_are_those_of_the_rendered_text(folder: Path) -> None:
    pytest.importorskip("tokenizers")
    library, d = trained(str(folder))
    for _, record in conversations(SHAPE):
        agree(library, d, without_leading_space(record))


def test_ids_on_the_vocabulary_of_qwen() -> None:
    pytest.importorskip("tokenizers")
    if find_spec("dashscope") is None:
        pytest.skip("dashscope is not installed: it holds the vocabulary")
    for _, record in conversations(SHAPE):
        agree(*real(), without_leading_space(record))


@cache
def real() -> tuple[Any, Dialect]:
    """The vocabulary of Qwen3 with its special tokens, by `tokenizers`, and the dialect on it."""
    import tempfile

    from tokenizers import Tokenizer

    from tests.support.model_vocabularies import content

    folder = Path(tempfile.mkdtemp())
    made = content("qwen", every=False)
    row = made["added_tokens"][0]
    ids = [151643, 151644, 151645, 151657, 151658, 151665, 151666, 151667, 151668]
    tags = ["<|endoftext|>", *SPECIAL]
    # The library numbers added tokens in order, so those between have names of their own.
    named = dict(zip(ids, tags, strict=True))
    made["added_tokens"] = [
        row | {"id": i, "content": named.get(i, f"<|extra_{i}|>")} for i in range(151643, 151669)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(made))
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    d = mypt_spec.dialect("qwen3", vocabulary=folder)
    assert [d.table.special[tag] for tag in SPECIAL] == ids[1:]
    return library, d
