"""What the chat templates of models write, and the ids that `tokenizers` makes of it.

The templates are those of tests/support/chat_templates.py, and the official ones where they are at
hand.
"""

from __future__ import annotations

import json

import pytest

import mypt_spec
from tests.dialects import chatml, llama3
from tests.support.build import assistant, call, chat, tool, user
from tests.support.chat_templates import SPECIAL, learnt, rendered, template
from tests.support.conversations import conversations
from tests.support.strategies import Record

pytest.importorskip("transformers.utils.chat_template_utils")
SHAPES = {"chatml": chatml.SHAPE, "llama3": llama3.WITHOUT_TOOLS}
OFFICIAL = {"qwen2_5": "chatml", "qwen3_instruct_2507": "chatml", "llama3": "llama3"}
CASES = [("written here: chatml", "chatml"), ("written here: llama3", "llama3"), *OFFICIAL.items()]
LLAMA31 = pytest.mark.parametrize("name", ["written here: llama3_1", "llama3_1"])


def shown(record: Record) -> Record:
    """Returns a record with the keys that templates look at."""
    keys = ("role", "content", "tool_calls")
    return record | {"messages": [{k: m[k] for k in keys if k in m} for m in record["messages"]]}


def text_of(name: str, record: Record) -> str:
    d = mypt_spec.dialect(name)
    episode, _ = d.read(record)
    assert episode is not None
    text = d.serialize(episode)
    assert d.parse(text) == (episode, [])
    return text


def comparable(name: str, record: Record) -> Record:
    """Returns a record without what the template is known to change."""
    messages = [dict(m) for m in record["messages"]]
    if "llama3" in name:
        messages = [m | {"content": m["content"].strip()} for m in messages]
    if name == "qwen2_5" and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": "S"})
    return record | {"messages": messages}


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_text_is_that_of_the_template(name: str, dialect: str) -> None:
    template(name)
    for number, made in conversations(SHAPES[dialect]):
        record = comparable(name, made)
        text = rendered(name, shown(record))
        assert text_of(dialect, record) == text, number
        asked = chat(*record["messages"][:-1])
        prompt = rendered(name, shown(asked), add_generation_prompt=True)
        assert text.startswith(prompt), number
        assert mypt_spec.dialect(dialect).check_prefix(prompt).findings == [], number


def test_llama3_trims_content() -> None:
    """The one difference: here text is kept as it is."""
    record = chat(user(" u\n"), assistant("\ta "))
    kept = text_of("llama3", record)
    trimmed = rendered("written here: llama3", record)
    assert kept == trimmed.replace("u<", " u\n<").replace("a<|eot_id|>", "\ta <|eot_id|>")
    assert kept.count("\n\n u\n<|eot_id|>") == 1


DATE = "26 Jul 2024"  # of the template, where it is given none


def llama_3_1(record: Record) -> Record:
    """Returns a record as the template of Llama 3.1 has it: with a date, and nothing to be trimmed."""
    messages = [m | {"content": m["content"].strip()} if "content" in m else m for m in record["messages"]]  # fmt: skip
    options = {"date_string": DATE} | record.get("chat_template_kwargs", {})
    return record | {"messages": messages, "chat_template_kwargs": options}


@LLAMA31
def test_tools_are_those_of_llama_3_1(name: str) -> None:
    """But for the tags of calls, which the template leaves out, and results, which it quotes."""
    template(name)
    d = mypt_spec.dialect("llama3")
    for number, record in conversations(llama3.SHAPE, tags=False):
        for place, message in enumerate(record["messages"]):
            for one in message.get("tool_calls", ()):
                arguments = one["function"]["arguments"]
                if isinstance(arguments, str):
                    one["function"]["arguments"] = json.loads(arguments)
            if message["role"] == "tool":
                message["content"] = str(number * place)
        made = llama_3_1(record)
        text = text_of("llama3", made)
        episode = d.read(made)[0]
        assert episode is not None
        assert d.read(d.write(episode))[0] == episode, number
        plain = text.replace("<|python_tag|>", "").replace("<|eom_id|>", "<|eot_id|>")
        messages = [m | {"content": int(m["content"])} if m["role"] == "tool" else m for m in record["messages"]]  # fmt: skip
        options = made["chat_template_kwargs"]
        bare = shown(record | {"messages": messages})
        assert plain == rendered(name, bare, **options), number
        # All of these are read as the same calls: bare JSON, however it ends, and a tag before it.
        for other in (
            plain,
            text.replace("<|python_tag|>", ""),
            text.replace("<|eom_id|>", "<|eot_id|>"),
        ):
            again, findings = d.parse(other)
            assert again == d.parse(text)[0], number
            assert {f.code for f in findings} <= {"MYP233"}, number


@LLAMA31
def test_llama_3_1_quotes_results(name: str) -> None:
    """A result that is a text: here it is written as it is."""
    asked = {"role": "assistant", "tool_calls": [call("f", {})]}
    record = chat(user("u"), asked, tool("20"), assistant("a"))
    text, ours = rendered(name, record), text_of("llama3", llama_3_1(record))
    assert "\n\n20<|eot_id|>" in ours
    assert '\n\n"20"<|eot_id|>' in text
    assert '\n\n{"name": "f", "parameters": {}}<|eot_id|>' in text
    assert '\n\n<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>' in ours


def test_qwen2_5_adds_a_system_prompt() -> None:
    """The one difference: here nothing is put in, as in the template of Qwen3."""
    record = chat(user("u"), assistant("a"))
    ours, text = text_of("chatml", record), rendered("qwen2_5", record)
    assert text != ours
    assert text.endswith(ours)
    episode, findings = mypt_spec.dialect("chatml").parse(text)
    assert findings == []
    assert episode is not None
    assert [m.role for m in episode.messages] == ["system", "user", "assistant"]


# --- ids


@pytest.mark.parametrize("dialect", SHAPES)
def test_ids_are_those_of_the_rendered_text(dialect: str) -> None:
    """Of texts that do not begin with white space: see "Ids" of the SPEC for the others."""
    pytest.importorskip("tokenizers")
    library, d = learnt(dialect)
    for number, record in conversations(SHAPES[dialect]):
        messages = [m | {"content": m["content"].lstrip()} for m in record["messages"]]
        episode, _ = d.read({"messages": messages})
        assert episode is not None
        encoded = d.encode(episode)
        text = d.serialize(episode)
        assert encoded.ids.tolist() == library.encode(text, add_special_tokens=False).ids, number
        end = SPECIAL[dialect][-1]
        answers = [f"{m['content']}{end}" for m in messages if m["role"] == "assistant"]
        assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == "".join(answers), number


@pytest.mark.parametrize("dialect", SHAPES)
def test_ids_of_a_text_that_begins_with_a_line_end_say_the_same(dialect: str) -> None:
    pytest.importorskip("tokenizers")
    library, d = learnt(dialect)
    episode, _ = d.read(chat(user("\nu"), assistant("\n a")))
    ids = library.encode(d.serialize(episode), add_special_tokens=False).ids
    assert d.parse_ids(ids) == (episode, [])
    assert d.tokenizer.decode(ids) == d.tokenizer.decode(d.encode(episode).ids)
