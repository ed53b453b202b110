"""Columns for what chat templates do with a record: texts that it does not have, and others."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from mypt_convert.engine import Converter
from mypt_infer.controller.history import History
from mypt_infer.controller.messages import append_messages
from mypt_spec import Dialect, SpecError
from tests.support.build import Record, assistant, chat, function, system, user
from tests.support.families import ALL
from tests.support.tables import GPT2, head, row, special, write_table

USER, FOUR = user("u"), assistant("Four.")
TOOL = function("f")


GRAMMAR = """start: system? (user answer)+
system: SYSTEM TEXT* (TOOLS TEXT+ TOOLS_END)? END
user: USER TEXT* END
answer: ASSISTANT (THINK TEXT* THINK_END)? TEXT* END
%declare SYSTEM TOOLS TOOLS_END USER ASSISTANT THINK THINK_END END TEXT
"""
BLOCKS = """shape = "messages"

[blocks]
system = "system"
tools = "system/tools"
user = "user"
thought = "assistant/think"
answer = "assistant"
"""


def opener(name: str, *lines: str, loss: int = 0) -> str:
    return row(name, special(f"<{name.lower()}>"), f'opens = "{name.lower()}"', *lines, loss=loss)


def closer(name: str, *kinds: str, loss: int = 0) -> str:
    return row(name, special(f"<{name.lower()}>"), f"closes = {[*kinds]}", loss=loss)


def nested(
    folder: Path, more: str = "", *, blocks: str = BLOCKS, answer: str = "", others: str = ""
) -> Dialect:
    """A format of a few tags; `more` is in its records.toml, the others in rows of tags."""
    rows = [
        opener("SYSTEM"), opener("TOOLS", 'body = "tool_lines"'), closer("TOOLS_END", "tools"),
        opener("USER", others), opener("ASSISTANT", answer, loss=1), opener("THINK", others, loss=1),
        closer("THINK_END", "think", loss=1), closer("END", "system", "user", "assistant", loss=1),
    ]  # fmt: skip
    table = head("nested", GPT2, 'turn_opener = "user"') + "\n" + "".join(rows)
    return mypt_spec.load(write_table(folder / "nested", GRAMMAR, table, blocks + more))


DEFAULTS = """
[defaults]
system = "D"
system_with_tools = "T"
"""


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (chat(USER, FOUR), "<system>D<end>"),
        (chat(USER, FOUR, tools=[TOOL]), "<system>T<tools>"),
        (chat(system("s"), USER, FOUR), "<system>s<end>"),
        (chat(system(""), USER, FOUR), "<system><end>"),
        (chat(system(""), USER, FOUR, tools=[TOOL]), "<system><tools>"),
    ],
)
def test_a_record_without_a_system_message_has_the_default(
    record: Record, text: str, tmp_path: Path
) -> None:
    d = nested(tmp_path, DEFAULTS)
    episode, findings = d.check(record)
    assert findings == []
    assert d.serialize(episode).startswith(text)
    canonical = d.write(episode)
    assert canonical["messages"][0]["role"] == "system"
    assert d.write(d.read(canonical)[0]) == canonical


def test_a_text_without_it_is_no_record(tmp_path: Path) -> None:
    d = nested(tmp_path, DEFAULTS)
    episode, findings = d.parse("<user>u<end><assistant>Four.<end>")
    assert findings == []
    assert [f.code for f in d.validate(episode)] == ["MYP258"]
    with pytest.raises(ValueError, match="not the default"):
        d.write(episode)


def test_an_empty_default_is_none(tmp_path: Path) -> None:
    d = nested(tmp_path, DEFAULTS.replace('"T"', '""'))
    record = chat(USER, FOUR, tools=[TOOL])
    episode, findings = d.check(record)
    assert (findings, d.write(episode)["messages"]) == ([], record["messages"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[defaults]\nsystem = 1", '"system" must be str'),
        ('[defaults]\nuser = "u"', "unknown key user; known are system, system_with_tools"),
        (
            '[defaults]\nsystem = "D"\n[options]\nblock = "system"\nsystem = "system"',
            r'\[defaults\]: cannot be combined with "system" in \[options\]',
        ),
    ],
)
def test_what_cannot_be_a_default_is_refused(more: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        nested(tmp_path, more)


def test_a_default_needs_a_place(tmp_path: Path) -> None:
    blocks = BLOCKS.replace('system = "system"\n', "", 1)
    with pytest.raises(SpecError, match=r"\[defaults\]: \[blocks\] has no block for it: system"):
        nested(tmp_path, DEFAULTS, blocks=blocks)


def test_a_default_beside_tools_needs_tools(tmp_path: Path) -> None:
    blocks = BLOCKS.replace('tools = "system/tools"\n', "", 1)
    with pytest.raises(SpecError, match='"system_with_tools" needs "tools"'):
        nested(tmp_path, DEFAULTS, blocks=blocks)


def test_a_record_is_converted_to_one_with_the_default() -> None:
    family = ALL["smollm2"]
    outcome = Converter("openai", str(family.folder)).record(chat(USER, FOUR))
    assert (outcome.losses, outcome.findings) == ((), ())
    assert outcome.record["messages"][0]["content"].endswith("Hugging Face")


def test_a_later_message_of_a_conversation_brings_no_second_one() -> None:
    d = ALL["smollm2"].dialect
    history = History(d)
    append_messages(history, [USER, FOUR])
    append_messages(history, [user("v")])
    text = d.tokenizer.decode(history.ids)
    assert text.count("Hugging Face") == 1
    assert text.endswith("user\nv<|im_end|>")
