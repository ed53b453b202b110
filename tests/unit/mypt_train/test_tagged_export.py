"""What is exported of a format whose calls are tags: its chat template, and what servers read."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import mypt_spec
from mypt_train.export import server_files
from mypt_train.export.response_template import response_template
from tests.support.build import call, chat, function, user
from tests.support.chats import shown
from tests.support.conversations import conversation
from tests.support.examples import examples
from tests.support.huggingface import tokenizer
from tests.support.qwen3_coder import SHAPE, dialect, without_ids
from tests.support.server_grammars import by_llguidance, by_xgrammar

pytest.importorskip("transformers")
FOLDER = "qwen3-coder"
FIELDS = {
    "zip": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"}, "flag": {"type": "boolean"},
    "all": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object"},
}  # fmt: skip
TOOLS = [function("find", FIELDS)]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"zip": "12345", "n": -5, "flag": True},
    {"zip": "\n a\n", "x": 0.5, "all": ["</parameter>", "b"], "o": {"a": [1, None]}},
    {"zip": "", "o": {}},
]


@cache
def theirs() -> Any:
    return tokenizer(mypt_spec.dialect(FOLDER))


def calling(*arguments: dict[str, Any], text: str = "") -> dict[str, Any]:
    """Returns a question and its calls, after a text if there is one."""
    answer = {"role": "assistant", "tool_calls": [call("find", one) for one in arguments]}
    return chat(user("u"), answer | ({"content": text} if text else {}), tools=TOOLS)


def test_the_template_gives_our_ids_and_mask() -> None:
    d, compared = dialect(), 0
    conversations = [shown(conversation(SHAPE, number)) for number in range(examples(16))]
    for record in [*conversations, *(calling(a, a, text="So.") for a in ARGUMENTS)]:
        record.pop("chat_template_kwargs", None)
        episode, findings = d.check(record)
        if any(f.code == "MYP303" for f in findings):
            continue  # almost a tag, which a template does not look for
        if episode is None or any(f.severity == "error" for f in findings):
            with pytest.raises(Exception, match=r"spell|no tag"):
                theirs().apply_chat_template(record["messages"], tools=record.get("tools"))
            continue
        rendered = theirs().apply_chat_template(
            record["messages"], tools=record.get("tools"), tokenize=True, return_dict=True,
            return_assistant_tokens_mask=True,
        )  # fmt: skip
        encoded = d.encode(episode)
        assert theirs().decode(rendered["input_ids"]) == d.serialize(episode)
        if rendered["input_ids"] == encoded.ids.tolist():
            assert np.array_equal(rendered["assistant_masks"], encoded.loss)
            compared += 1
    assert compared >= 6


@pytest.mark.parametrize("text", ["", "So.\n"])
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_an_answer_is_read_back(arguments: dict[str, Any], text: str) -> None:
    """The library reads values by the types of the tools that it is given."""
    record = calling(arguments, {"zip": "1"}, text=text)
    render = theirs().apply_chat_template
    before = record["messages"][:1]
    prompt = render(before, tools=TOOLS, tokenize=False, add_generation_prompt=True)
    whole = render(record["messages"], tools=TOOLS, tokenize=False)
    read = theirs().parse_response(
        whole[len(prompt) :], response_template(dialect()), prefix=prompt, tools=TOOLS
    )
    assert read == without_ids(record)["messages"][1]


def answer_ids(record: dict[str, Any]) -> list[int]:
    """Returns the ids of an answer, up to the tag at which a server stops."""
    d = dialect()
    episode, _ = d.read(record)
    assert episode is not None
    encoded = d.encode(episode)
    (trained,) = np.nonzero(encoded.loss)
    ids: list[int] = encoded.ids[trained[0] :].tolist()
    return ids[: ids.index(d.table.special["<|im_end|>"])]


BROKEN = [
    ("</function>", ""),
    ("\n</parameter>", ""),
    ("<parameter=zip>", "<parameter=>"),
    ("12345", "1</parameter>2"),
    ("12345", "<function=f>"),
]


@pytest.mark.parametrize("judge", [by_llguidance, by_xgrammar])
def test_grammars_of_servers_take_what_is_legal(judge: Any) -> None:
    pytest.importorskip("llguidance" if judge is by_llguidance else "xgrammar")
    d = dialect()
    for arguments in ARGUMENTS:
        for text in ("", "So."):
            ids = answer_ids(calling(arguments, arguments, text=text))
            assert judge(FOLDER, ids), d.tokenizer.decode(ids)
    whole = d.tokenizer.decode(answer_ids(calling(ARGUMENTS[1])))
    for one, other in BROKEN:
        assert one in whole
        ids = []
        for event in d.lex(whole.replace(one, other, 1)):
            special = event.text.strip() in d.table.special
            ids += [d.table.special[event.text.strip()]] if special else d.tokenizer.encode(event.text)  # fmt: skip
        assert not judge(FOLDER, ids), (one, other)


def test_files_for_servers_are_written() -> None:
    files = server_files(dialect(), ["vllm", "llama.cpp", "sglang"])
    assert json.loads(files["structural_tag.json"])
    assert "tagged-argument" in files["answer.gbnf"]
