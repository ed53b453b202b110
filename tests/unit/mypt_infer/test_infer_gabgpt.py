"""GabGPT's log at run time: every example of its document, and that each prepared prompt is a legal
beginning.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer import gabgpt
from tests.support.examples import examples
from tests.support.strategies import episodes

OFTEN = settings(max_examples=examples(160))  # an example takes a moment
D = mypt_spec.dialect("gabgpt")
TAGS = ["<|user|>", "<|think|>", "<|assistant|>", "<|end|>"]
LOGS = st.lists(st.sampled_from(TAGS) | st.text(max_size=3), max_size=10).map("".join)
MESSAGES = st.text(max_size=8).filter(lambda t: not any(tag in t for tag in TAGS))


@pytest.mark.parametrize(
    ("log", "message", "think", "want"),
    [
        ("<|user|>Hi<|assistant|>Hello!<|end|><|user|>", "How are you?", False, "<|user|>Hi<|assistant|>Hello!<|end|><|user|>How are you?<|assistant|>"),
        ("", "Hello", False, "<|user|>Hello<|assistant|>"),
        ("", "What is 2+2?", True, "<|user|>What is 2+2?<|think|>"),
        ("<|end|><|assistant|><|think|>", "Hello", False, "<|user|>Hello<|assistant|>"),
        ("<|user|>Hi<|assistant|>Hello!<|end|><|end|><|end|>", "x", False, "<|user|>Hi<|assistant|>Hello!<|end|><|user|>x<|assistant|>"),
        ("<|user|>Hi<|assistant|><|end|><|user|>", "x", False, "<|user|>Hi\nx<|assistant|>"),
        ("<|user|>Hi<|assistant|>Hel", "x", False, "<|user|>Hi<|assistant|>Hel<|end|><|user|>x<|assistant|>"),
        ("<|user|>Hi<|think|>hm", "x", True, "<|user|>Hi<|think|>hm<|assistant|><|end|><|user|>x<|think|>"),
    ],
)  # fmt: skip
def test_prepare(log: str, message: str, think: bool, want: str) -> None:
    assert gabgpt.prepare(log, message, think=think) == want


@pytest.mark.parametrize(
    ("log", "want"),
    [
        ("Hello", "<|user|>Hello<|assistant|>"), ("<|user|>Hello", "<|user|>Hello<|assistant|>"),
        ("<|think|><|assistant|>Hello<|user|><|end|>", "<|user|>Hello<|assistant|>"),
        ("<|user|>Hi<|assistant|>Hello!<|end|><|user|>Bye", "<|user|>Hi<|assistant|>Hello!<|end|><|user|>Bye<|assistant|>"),
        ("<|user|>Hi<|assistant|>Hello!<|end|>", "<|user|>Hi<|assistant|>Hello!<|end|><|user|><|assistant|>"),
        ("", "<|user|><|assistant|>"),
    ],
)  # fmt: skip
def test_prepare_raw(log: str, want: str) -> None:
    assert gabgpt.prepare_raw(log) == want
    assert gabgpt.prepare_raw(log, think=True) == want.removesuffix("<|assistant|>") + "<|think|>"


@OFTEN
@given(LOGS, MESSAGES, st.booleans())
def test_no_text_is_lost(log: str, message: str, think: bool) -> None:
    """Whatever the log: its texts are in the prompt in order, and the message last."""
    prompt = gabgpt.prepare(log, message, think=think)
    assert prompt.startswith("<|user|>")
    assert prompt.endswith("<|think|>" if think else "<|assistant|>")
    shown = "".join(text for _, text in gabgpt.display(prompt))
    before = "".join(text for _, text in gabgpt.display(log))
    assert shown in (before + message, before + "\n" + message)
    assert not message or gabgpt.prepare_raw(prompt, think=think) == prompt


@OFTEN
@given(st.data(), MESSAGES, st.booleans())
def test_the_prompt_of_a_legal_log_is_a_legal_beginning(
    data: st.DataObject, message: str, think: bool
) -> None:
    text = D.serialize(data.draw(episodes("gabgpt")))
    events = D.lex(text)
    log = "".join(e.text for e in events[: data.draw(st.integers(0, len(events)))])
    for prompt in (gabgpt.prepare(log, message, think=think), gabgpt.prepare_raw(log, think=think)):
        outcome = D.check_prefix(prompt)
        assert outcome.findings == []
        assert "TEXT" in D.automaton.allowed(outcome.state)


@OFTEN
@given(LOGS, st.sampled_from(TAGS))
def test_a_message_never_becomes_structure(log: str, tag: str) -> None:
    assert gabgpt.display(gabgpt.prepare(log, f"a{tag}b"))[-1][1].endswith(f"a\\u003c{tag[1:]}b")


def test_a_typed_tag_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert gabgpt.prepare("", "a<|end|>b") == "<|user|>a\\u003c|end|>b<|assistant|>"
    assert "spells a tag" in caplog.text


def test_what_nobody_wrote_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A line end between two messages of the user, and an empty message."""
    closed = "<|user|>Hi<|assistant|>Hello!<|end|>"
    with caplog.at_level(logging.WARNING):
        gabgpt.prepare(closed, "M")
        gabgpt.prepare_raw("Hello")
        assert caplog.text == ""
        assert gabgpt.prepare("Hello", "M") == "<|user|>Hello\nM<|assistant|>"
        assert "a line end joins the new message" in caplog.text
        assert gabgpt.prepare_raw(closed) == f"{closed}<|user|><|assistant|>"
        assert "no message of the user" in caplog.text


def test_the_tags_are_those_of_the_token_table() -> None:
    assert {gabgpt.USER, gabgpt.THINK, gabgpt.ASSISTANT, gabgpt.END} == {*D.table.special}


@pytest.mark.parametrize("think", [False, True])
@pytest.mark.parametrize(
    "log",
    ["<|user|>Hi<|think|>hm", "<|user|>Hi<|think|>hm<|assistant|>", "<|user|>Hi<|think|>hm<|assistant|><|end|>"],
)  # fmt: skip
def test_the_second_round(log: str, think: bool) -> None:
    """Thinking without an answer: the answer comes next."""
    assert gabgpt.prepare_raw(log, think=think) == "<|user|>Hi<|think|>hm<|assistant|>"


def test_display() -> None:
    log = "<|user|>What is 2+2?<|think|>I need to add 2 and 2<|assistant|>4<|end|><|user|>"
    shown = [("user", "What is 2+2?"), ("think", "I need to add 2 and 2"), ("assistant", "4")]
    assert gabgpt.display(log) == shown
    assert gabgpt.display("raw") == [("user", "raw")]
    assert gabgpt.display("") == []


@OFTEN
@given(LOGS)
def test_display_shows_all_text_and_no_tag(log: str) -> None:
    bubbles = gabgpt.display(log)
    texts = [e.text for e in D.lex(log) if e.terminal == "TEXT"]
    assert "".join(text for _, text in bubbles) == "".join(texts)
    assert {kind for kind, _ in bubbles} <= {"user", "think", "assistant"}


@OFTEN
@given(st.data(), st.integers(0, 40), st.booleans())
def test_truncate(data: st.DataObject, max_len: int, spelled: bool) -> None:
    ids = D.encode(data.draw(episodes("gabgpt"))).ids.tolist()
    names = {number: tag for tag, number in D.table.special.items()}
    tokens = [names.get(i, str(i)) for i in ids] if spelled else ids
    user = "<|user|>" if spelled else D.table.special["<|user|>"]
    cut = gabgpt.truncate(tokens, max_len)
    assert len(cut) <= max_len
    assert tokens[len(tokens) - len(cut) :] == cut
    newest = tokens[max(0, len(tokens) - max_len) :]
    assert gabgpt.truncate(tokens, max_len, whole_turns=False) == newest
    starts = [i for i, token in enumerate(tokens) if token == user and len(tokens) - i <= max_len]
    assert not starts or cut == tokens[starts[0] :], "as many whole turns as fit"


def test_truncate_says_what_it_cuts(caplog: pytest.LogCaptureFixture) -> None:
    tokens = [50257, 1, 2, 3]
    with caplog.at_level(logging.WARNING):
        assert gabgpt.truncate(tokens, 2) == [2, 3]
    assert "its beginning was cut off" in caplog.text
    with pytest.raises(ValueError, match="max_len is -1"):
        gabgpt.truncate(tokens, -1)
