"""Qwen3: the text of the chat templates, and the ids that `tokenizers` makes of it.

The template is that of tests/support/chat_templates.py, and the official ones where they are at hand.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any
from unicodedata import is_normalized

import pytest

import mypt_spec
from mypt_spec import Dialect, Episode
from tests.dialects.qwen3 import SHAPE
from tests.support.build import assistant, call, chat, user
from tests.support.chat_templates import canonical, comparable, learnt, qwen, rendered, template
from tests.support.conversations import conversations
from tests.support.strategies import Record

D = mypt_spec.dialect("qwen3")
OFFICIAL = ("qwen3", "qwen3_training", "qwen3_instruct_2507", "qwen2_5")


@pytest.mark.parametrize("name", ["written here: qwen3", *OFFICIAL])
def test_text_is_that_of_the_template(name: str) -> None:
    template(name)
    for number, made in conversations(SHAPE, clean=True):
        record = comparable(name, made)
        episode, _ = D.read(record)
        assert episode is not None
        text = rendered(name, record)
        assert D.serialize(episode) == text, number
        assert D.parse(text) == (episode, []), number
        asked = record | {"messages": record["messages"][:-1]}
        prompt = rendered(name, asked, add_generation_prompt=True)
        assert D.check_prefix(prompt).findings == [], number


USER = user("u")


def own(*messages: Record) -> str:
    episode, _ = D.read(chat(*messages))
    assert episode is not None
    return D.serialize(episode)


def official(name: str, *messages: Record) -> str:
    return rendered(name, chat(*messages))


def test_thoughts_of_earlier_turns_are_kept() -> None:
    """The template of Qwen3 drops them, and writes an empty one on the last answer."""
    said = [USER, assistant("a", reasoning_content="t"), USER]
    last = assistant("b")
    assert "<think>\nt\n</think>\n\na<|im_end|>" in own(*said, last)
    assert own(*said, last).endswith("<|im_start|>assistant\nb<|im_end|>\n")
    shown = official("qwen3", *said, last)
    assert "<think>\nt" not in shown
    assert shown.endswith("<think>\n\n</think>\n\nb<|im_end|>\n")
    assert own(USER, assistant("b", reasoning_content="")) == official("qwen3", USER, last), (
        "an empty thought is written where the record has one"
    )


def test_line_ends_around_thoughts_are_dropped() -> None:
    messages = USER, assistant("\na", reasoning_content="\nt\n")
    text = official("qwen3_training", *messages)
    episode, findings = D.check(chat(*messages))
    assert episode is not None
    assert findings == []
    assert "<think>\nt\n</think>\n\na<" in text
    assert [D.serialize(e) for e in D.trained(episode, history="official")] == [text]
    assert "<think>\nt\n</think>\n\n\na<" in own(*messages)


def test_arguments_that_are_json_text_are_canonical() -> None:
    message = assistant("", tool_calls=[call("f", '{"q":1}')])
    assert '"arguments": {"q": 1}}' in own(USER, message)
    assert '"arguments": {"q":1}}' in official("qwen3", USER, message)


def test_thoughts_inside_the_content_are_refused() -> None:
    """The template of Qwen3 cuts them out of the content."""
    message = assistant("<think>\nt\n</think>\n\na")
    _, findings = D.check(chat(USER, message))
    assert "MYP301" in [f.code for f in findings]
    assert own(USER, assistant("a", reasoning_content="t")) == official("qwen3", USER, message)


# --- ids


def without_leading_space(record: Record) -> Record:
    """A record whose answers begin with no white space: there, the ids say who wrote it."""
    record = canonical(record)
    for message in record["messages"]:
        if message["role"] == "assistant" and "reasoning_content" not in message:
            message["content"] = message.get("content", "").lstrip()
    return record


def assert_agreement(library: Any, d: Dialect, record: Record) -> None:
    """Asserts that ids are the library's of the text, which comes back, and that answers are trained."""
    episode, _ = d.read(record)
    assert episode is not None
    encoded, text = d.encode(episode), d.serialize(episode)
    if not is_normalized("NFC", text):
        return  # Qwen's tokenizer normalizes, and this engine changes no text
    ids = encoded.ids.tolist()
    assert ids == library.encode(text, add_special_tokens=False).ids
    assert d.parse_ids(ids) == (episode, [])
    assert d.tokenizer.decode(ids) == text
    trained = [i for i, w in zip(ids, encoded.loss.tolist(), strict=True) if w]
    assert d.tokenizer.decode(trained) == answers(text, given=disabled(episode))


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


def test_ids_are_those_of_the_rendered_text() -> None:
    pytest.importorskip("tokenizers")
    for _, record in conversations(SHAPE):
        assert_agreement(*learnt("qwen3"), without_leading_space(record))


def test_ids_on_the_vocabulary_of_qwen() -> None:
    pytest.importorskip("tokenizers")
    if find_spec("dashscope") is None:
        pytest.skip("dashscope is not installed: it holds the vocabulary")
    for _, record in conversations(SHAPE):
        assert_agreement(*qwen(), without_leading_space(record))
