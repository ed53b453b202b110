"""What the chat templates of models write, and the ids that `tokenizers` makes of it.

The templates here are the published ones in a few lines. Where the variable CHAT_TEMPLATES names a
folder with `qwen2_5.jinja`, `qwen3_instruct_2507.jinja`, `llama3.jinja` and `llama3_1.jinja`, these
are read, too.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from tests.dialects import chatml, llama3
from tests.support.conversations import conversations
from tests.support.strategies import Record

rendering = pytest.importorskip("transformers.utils.chat_template_utils")

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
HERE = {
    "written here: chatml": CHATML,
    "written here: llama3": LLAMA3,
    "written here: llama3_1": LLAMA31,
}
SHAPES = {"chatml": chatml.SHAPE, "llama3": llama3.WITHOUT_TOOLS}
OFFICIAL = {"qwen2_5": "chatml", "qwen3_instruct_2507": "chatml", "llama3": "llama3"}
SPECIAL = {
    "chatml": ["<|im_start|>", "<|im_end|>"],
    "llama3": ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
}


@cache
def template(name: str) -> str:
    """A template by its name; skips where it is an official one and the folder is not there."""
    if name in HERE:
        return HERE[name]
    folder = os.environ.get("CHAT_TEMPLATES")
    if not folder:
        pytest.skip("CHAT_TEMPLATES names no folder with the official templates")
    return (Path(folder) / f"{name}.jinja").read_text(encoding="utf-8")


def rendered(name: str, messages: list[Record], **more: Any) -> str:
    shown = [{k: m[k] for k in ("role", "content", "tool_calls") if k in m} for m in messages]
    found, _ = rendering.render_jinja_template(
        conversations=[shown],
        chat_template=template(name),
        bos_token="<|begin_of_text|>",
        **more,
    )
    return str(found[0])


ALL = [("written here: chatml", "chatml"), ("written here: llama3", "llama3"), *OFFICIAL.items()]


def comparable(name: str, record: Record) -> Record:
    """A record without what the template is known to change."""
    messages = [dict(m) for m in record["messages"]]
    if "llama3" in name:
        messages = [m | {"content": m["content"].strip()} for m in messages]
    if name == "qwen2_5" and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": "S"})
    return record | {"messages": messages}


@pytest.mark.parametrize(("name", "dialect"), ALL)
def test_text_is_that_of_the_template(name: str, dialect: str) -> None:
    d = mypt_spec.dialect(dialect)
    template(name)
    for number, made in conversations(SHAPES[dialect]):
        record = comparable(name, made)
        episode, _ = d.read(record)
        assert episode is not None
        text = rendered(name, record["messages"])
        assert d.serialize(episode) == text, number
        assert d.parse(text) == (episode, []), number
        prompt = rendered(name, record["messages"][:-1], add_generation_prompt=True)
        assert text.startswith(prompt), number
        assert d.check_prefix(prompt).findings == [], number


def test_llama3_trims_content() -> None:
    """The one difference: here text is kept as it is."""
    messages = [{"role": "user", "content": " u\n"}, {"role": "assistant", "content": "\ta "}]
    d = mypt_spec.dialect("llama3")
    kept = d.serialize(d.read({"messages": messages})[0])  # type: ignore[arg-type]
    assert kept == rendered("written here: llama3", messages).replace("u<", " u\n<").replace(
        "a<|eot_id|>", "\ta <|eot_id|>"
    )
    assert kept.count("\n\n u\n<|eot_id|>") == 1


DATE = "26 Jul 2024"  # of the template, where it is given none


def llama_3_1(record: Record) -> Record:
    """A record as the template of Llama 3.1 has it: with a date, and nothing to be trimmed."""
    messages = [m | {"content": m["content"].strip()} if "content" in m else m for m in record["messages"]]  # fmt: skip
    options = {"date_string": DATE} | record.get("chat_template_kwargs", {})
    return record | {"messages": messages, "chat_template_kwargs": options}


@pytest.mark.parametrize("name", ["written here: llama3_1", "llama3_1"])
def test_tools_are_those_of_llama_3_1(name: str) -> None:
    """But for the tags of calls, which the template leaves out, and results, which it quotes."""
    template(name)
    d = mypt_spec.dialect("llama3")
    for number, record in conversations(llama3.SHAPE, tags=False):
        for place, message in enumerate(record["messages"]):
            for call in message.get("tool_calls", ()):
                given = call["function"]["arguments"]
                call["function"]["arguments"] = json.loads(given) if isinstance(given, str) else given  # fmt: skip
            if message["role"] == "tool":
                message["content"] = str(number * place)
        shown = [m | {"content": int(m["content"])} if m["role"] == "tool" else m for m in record["messages"]]  # fmt: skip
        made = llama_3_1(record)
        episode, _ = d.read(made)
        assert episode is not None
        text = d.serialize(episode)
        assert d.read(d.write(episode))[0] == episode, number
        assert d.parse(text) == (episode, []), number
        plain = text.replace("<|python_tag|>", "").replace("<|eom_id|>", "<|eot_id|>")
        options = made["chat_template_kwargs"]
        assert plain == rendered(name, shown, tools=record.get("tools"), **options), number


@pytest.mark.parametrize("name", ["written here: llama3_1", "llama3_1"])
def test_llama_3_1_quotes_results(name: str) -> None:
    """A result that is a text: here it is written as it is."""
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    messages = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "20"},
        {"role": "assistant", "content": "a"},
    ]
    text = rendered(name, messages, tools=None)
    episode, _ = mypt_spec.dialect("llama3").read(llama_3_1({"messages": messages}))
    assert episode is not None
    ours = mypt_spec.dialect("llama3").serialize(episode)
    assert "\n\n20<|eot_id|>" in ours
    assert '\n\n"20"<|eot_id|>' in text
    assert '\n\n{"name": "f", "parameters": {}}<|eot_id|>' in text
    assert '\n\n<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>' in ours


def test_qwen2_5_adds_a_system_prompt() -> None:
    """The one difference: here nothing is put in, as in the template of Qwen3."""
    messages = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    d = mypt_spec.dialect("chatml")
    own = d.serialize(d.read({"messages": messages})[0])  # type: ignore[arg-type]
    text = rendered("qwen2_5", messages)
    assert text != own
    assert text.endswith(own)
    episode, findings = d.parse(text)
    assert findings == []
    assert episode is not None
    assert [m.role for m in episode.messages] == ["system", "user", "assistant"]


# --- ids

# How Qwen and Llama 3 cut text.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = ["Hello, how are you?\n", "user\nassistant\nsystem\n\n", "Größe 12,5\n\n世界", "a < b || c"]


@cache
def trained(dialect: str, tmp: str) -> tuple[Any, mypt_spec.Dialect]:
    """A small tokenizer with the special tokens of a dialect, and the dialect on its file."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    found.decoder = decoders.ByteLevel()
    found.train_from_iterator(
        TEXTS * 9,
        trainers.BpeTrainer(
            vocab_size=330,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    found.add_special_tokens(["<|endoftext|>", *SPECIAL[dialect]])
    folder = Path(tmp)
    found.save(str(folder / "tokenizer.json"))
    return found, mypt_spec.dialect(dialect, vocabulary=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


@pytest.mark.parametrize("dialect", SPECIAL)
def test_ids_are_those_of_the_rendered_text(dialect: str, folder: Path) -> None:
    """Of texts that do not begin with white space: see "Ids" of the SPEC for the others."""
    pytest.importorskip("tokenizers")
    (folder / dialect).mkdir(exist_ok=True)
    library, d = trained(dialect, str(folder / dialect))
    for number, record in conversations(SHAPES[dialect]):
        messages = [m | {"content": m["content"].lstrip()} for m in record["messages"]]
        episode, _ = d.read({"messages": messages})
        assert episode is not None
        encoded = d.encode(episode)
        text = d.serialize(episode)
        assert encoded.ids.tolist() == library.encode(text, add_special_tokens=False).ids, number
        said = [m["content"] for m in messages if m["role"] == "assistant"]
        end = SPECIAL[dialect][-1]
        learnt = d.tokenizer.decode(encoded.ids[encoded.loss == 1])
        assert learnt == "".join(f"{text}{end}" for text in said), number


@pytest.mark.parametrize("dialect", SPECIAL)
def test_ids_of_a_text_that_begins_with_a_line_end_say_the_same(dialect: str, folder: Path) -> None:
    pytest.importorskip("tokenizers")
    (folder / dialect).mkdir(exist_ok=True)
    library, d = trained(dialect, str(folder / dialect))
    messages = [{"role": "user", "content": "\nu"}, {"role": "assistant", "content": "\n a"}]
    episode, _ = d.read({"messages": messages})
    assert episode is not None
    ids = library.encode(d.serialize(episode), add_special_tokens=False).ids
    assert d.parse_ids(ids) == (episode, [])
    assert d.tokenizer.decode(ids) == d.tokenizer.decode(d.encode(episode).ids)
