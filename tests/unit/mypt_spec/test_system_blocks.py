"""Blocks of system messages: without a tag, with white space after the text, or a mark instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Dialect
from mypt_train.export.chat_template import chat_template
from tests.support.build import Record, assistant, chat, function, system, user
from tests.support.fast_paths import assert_fast, assert_sound
from tests.support.nested import BLOCKS, GRAMMAR, nested

USER, FOUR, TOOL = user("u"), assistant("Four."), function("f")


MARK = """
[[terminal]]
name = "PLAIN"
spelling = [{ special = "<plain>" }]
doc = "Says that there is no system message."
"""


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (chat(USER, FOUR), "<plain><user>"),
        (chat(system("s"), USER, FOUR), "<system>s<end><user>"),
        (chat(system(""), USER, FOUR), "<system><end><user>"),
        (chat(USER, FOUR, tools=[TOOL]), "<system><tools>"),
    ],
)
def test_a_mark_is_in_place_of_a_missing_system_block(
    record: Record, text: str, tmp_path: Path
) -> None:
    grammar = GRAMMAR.replace("system? (", "(system | PLAIN) (").replace("TEXT\n", "PLAIN TEXT\n")
    d = nested(tmp_path, '\n[defaults]\nwithout_system = "plain"\n', grammar=grammar, rows=MARK)
    episode, findings = d.check(record)
    written = d.serialize(episode)
    assert (findings, written[: len(text)]) == ([], text)
    assert (d.parse(written), d.validate(episode)) == ((episode, []), [])
    assert d.write(episode) == record
    assert d.encode(episode).loss[:1] == [0]
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    for prompt in (False, True):
        (exported,), _ = rendering.render_jinja_template(
            conversations=[record["messages"][: -1 if prompt else None]],
            chat_template=chat_template(d), tools=record.get("tools"), add_generation_prompt=prompt,
        )  # fmt: skip
        assert exported == (written.partition("Four.")[0] if prompt else written)
    lines = [
        json.dumps(r).encode() for r in (record, chat(USER), chat(*record["messages"], USER, FOUR))
    ]
    assert_fast(d, lines)


def assert_written_alike(d: Dialect, record: Record, text: str) -> None:
    """Asserts that the exported template and the fast paths write a record as the dialect does."""
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    (exported,), _ = rendering.render_jinja_template(
        conversations=[record["messages"]], chat_template=chat_template(d)
    )
    assert exported == text
    lines = [json.dumps(r).encode() for r in (record, chat(*record["messages"], USER, FOUR))]
    assert_fast(d, lines)


def test_a_system_text_ends_with_white_space_that_no_record_has(tmp_path: Path) -> None:
    d = nested(tmp_path, '\n[defaults]\nsystem = "D"\n', system='suffix = "\\n\\n"')
    for said, record in (("s", chat(system("s"), USER, FOUR)), ("D", chat(USER, FOUR))):
        episode, findings = d.check(record)
        text = f"<system>{said}\n\n<end><user>u<end><assistant>Four.<end>"
        assert (findings, d.serialize(episode)) == ([], text)
        canonical = d.write(episode)
        assert canonical == chat(system(said), USER, FOUR)
        assert (d.read(canonical)[0], d.parse(text)) == (episode, (episode, []))
        assert_written_alike(d, record, text)
    episode, _ = d.parse("<system>s<end><user>u<end><assistant>Four.<end>")
    assert [f.code for f in d.validate(episode)] == ["MYP258"]


@pytest.mark.parametrize("begin", ["", "plain"])
def test_a_block_may_have_no_opening_tag(begin: str, tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("start: system?", f"start: {begin.upper()} system?")
    grammar = grammar.replace("SYSTEM TEXT* (TOOLS TEXT+ TOOLS_END)?", "SYSTEM TEXT+")
    grammar = grammar.replace("TOOLS TOOLS_END", begin.upper())
    blocks = (f'begin = "{begin}"\n' if begin else "") + BLOCKS
    blocks = blocks.replace('tools = "system/tools"\n', "")
    d = nested(tmp_path, blocks=blocks, grammar=grammar, rows=MARK * bool(begin), silent=True)
    mark = f"<{begin}>" * bool(begin)
    turns = "<user>u<end><assistant>Four.<end>"
    for said, record in (("s<end>", chat(system("s"), USER, FOUR)), ("", chat(USER, FOUR))):
        episode, findings = d.check(record)
        text = f"{mark}{said}{turns}"
        assert (findings, d.serialize(episode), d.write(episode)) == ([], text, record)
        assert d.parse(text) == (episode, [])
        encoded = d.encode(episode)
        assert d.tokenizer.decode(encoded.ids) == text
        assert d.parse_ids(encoded.ids) == (episode, [])
        assert_written_alike(d, record, text)
    for wrong, code in ((f"{turns}x", "MYP210"), (f"s{turns}", "MYP211")):
        assert [f.code for f in d.parse(mark + wrong)[1]] == [code]


def test_a_text_that_makes_its_tag_a_longer_one_is_a_finding(tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("system? (", "(system | PLAIN) (").replace("TEXT\n", "PLAIN TEXT\n")
    rows = MARK.replace(
        '{ special = "<plain>" }', '{ special = "<system>" }, { text = "\\nNone." }'
    )
    nested(tmp_path, '\n[defaults]\nwithout_system = "plain"\n', grammar=grammar, rows=rows)
    table = tmp_path / "nested/tokens.toml"
    opener, space = '{ special = "<system>" }', '{ space = "\\n", exact = true }'
    table.write_text(table.read_text().replace(f"[{opener}]", f"[{opener}, {space}]", 1))
    d = mypt_spec.load(tmp_path / "nested")
    records = [chat(system(text), USER, FOUR) for text in ("Some.", "None.", "None. Be brief.")]
    codes = [[finding.code for finding in d.check(record)[1]] for record in records]
    assert codes == [[], ["MYP301"], ["MYP301"]]
    assert_sound(CleanFilter(Checker(d)), [json.dumps(record).encode() for record in records])
