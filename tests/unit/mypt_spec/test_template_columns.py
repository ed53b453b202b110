"""Columns for what chat templates do with a record: texts that it does not have, and others."""

from __future__ import annotations

from pathlib import Path

import pytest

import mypt_spec
from mypt_convert.engine import Converter
from mypt_infer.controller.history import History
from mypt_infer.controller.messages import append_messages
from mypt_spec import Dialect, SpecError
from mypt_spec.episode import as_read
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


# --- strip


STRIP = 'strip = "both"'


@pytest.mark.parametrize(
    ("how", "text"),
    [("both", "x y"), ("left", "x y \u00a0\n"), ("right", "\n x y"), ("", "\n x y \u00a0\n")],
)
def test_white_space_is_stripped_at_its_end(how: str, text: str, tmp_path: Path) -> None:
    d = nested(tmp_path, answer=f'strip = "{how}"' if how else "")
    said = assistant("\n x y \u00a0\n", reasoning_content=" t ")
    episode, findings = d.check(chat(user(" u "), said))
    assert findings == []
    assert d.serialize(episode) == f"<user> u <end><assistant><think> t <think_end>{text}<end>"
    canonical = d.write(episode)
    assert canonical["messages"][1]["content"] == text
    assert d.write(d.read(canonical)[0]) == canonical


def test_thoughts_and_questions_are_stripped(tmp_path: Path) -> None:
    d = nested(tmp_path, others=STRIP)
    episode, findings = d.check(chat(user(" u "), assistant(" a", reasoning_content="\n")))
    assert findings == []
    assert d.serialize(episode) == "<user>u<end><assistant><think><think_end> a<end>"


def test_places_count_from_where_the_text_of_the_record_begins(tmp_path: Path) -> None:
    d = nested(tmp_path, answer=STRIP)
    _, findings = d.check(chat(USER, assistant("\n\nSay <end>.")))
    assert [(f.code, f.pointer, f.span) for f in findings] == [
        ("MYP301", "/messages/1/content", (6, 11))
    ]


def test_parts_with_weights_move_with_the_text(tmp_path: Path) -> None:
    d = nested(tmp_path, answer=STRIP)
    said = assistant("\n\nab cd ", weight={"parts": [[0, 4, 0], [5, 8, 1]], "rest": 1})
    episode, findings = d.check(chat(USER, said))
    assert findings == []
    encoded = d.encode(episode)
    assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == "<assistant> cd<end>"
    canonical = d.write(episode)
    assert canonical["messages"][1]["weight"]["parts"] == [[0, 2, 0], [3, 5, 1]]
    assert d.encode(d.read(canonical)[0]).loss.tolist() == encoded.loss.tolist()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ('strip = "outside"', '"strip" must be one of both, left, right'),
        ('strip = "both"\nbody = "json"', "\"strip\" is of a block of text, the body is 'json'"),
    ],
)
def test_what_cannot_be_stripped_is_refused(others: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        nested(tmp_path, others=others)


def test_a_tag_that_opens_nothing_strips_nothing(tmp_path: Path) -> None:
    rows = row("END", special("<end>"), 'closes = ["user"]', STRIP)
    with pytest.raises(SpecError, match='"strip" is for a tag that opens a block'):
        mypt_spec.load(write_table(tmp_path / "d", "start: END", head("d", GPT2) + "\n" + rows))


def test_records_by_role_strip_nothing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r'"strip" in tokens\.toml needs shape = "messages"'):
        nested(tmp_path, others=STRIP, blocks='[[message]]\nrole = "user"\n')


def test_white_space_is_no_loss_of_a_conversion() -> None:
    record = chat(user(" u\n"), assistant("\n\nFour. "))
    outcome = Converter("openai", str(ALL["gemma2"].folder)).record(record)
    assert (outcome.losses, outcome.findings) == ((), ())
    assert outcome.record == chat(user("u"), FOUR)


def test_what_a_model_wrote_becomes_a_record() -> None:
    d = ALL["gemma2"].dialect
    episode, _ = d.parse(
        "<bos><start_of_turn>user\nu<end_of_turn>\n<start_of_turn>model\n\nFour.\n<end_of_turn>\n"
    )
    assert d.write(as_read(episode, d.table)) == chat(USER, FOUR)
