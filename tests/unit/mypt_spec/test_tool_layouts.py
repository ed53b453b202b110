"""Where a format writes definitions of tools, and in which layout of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import SpecError
from mypt_spec.templates.sandbox import compiled
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.chat_template import chat_template
from tests.support.build import Record, assistant, chat, function, system, user
from tests.support.fast_paths import assert_same_ids, assert_sound
from tests.support.nested import BLOCKS, GRAMMAR, nested

USER, FOUR = user("u"), assistant("Four.")
TOOL = function("f")


DEFAULTS = """
[defaults]
system = "D"
system_with_tools = "T"
"""


LEADS = GRAMMAR.replace(
    "SYSTEM TEXT* (TOOLS TEXT+ TOOLS_END)?", "SYSTEM (TOOLS TEXT+ TOOLS_END)? TEXT*"
)
FIRST = 'tools_before = "system"\n' + BLOCKS
AFTER = '\n[tools]\nafter = "\\n\\n"\n'
JSON = json.dumps(TOOL)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            chat(system("s"), USER, FOUR, tools=[TOOL]),
            f"<system><tools>{JSON}<tools_end>\n\ns<end>",
        ),
        (chat(USER, FOUR, tools=[TOOL]), f"<system><tools>{JSON}<tools_end><end>"),
        (chat(system("s"), USER, FOUR), "<system>s<end>"),
        (chat(USER, FOUR), "<user>"),
    ],
)
def test_tools_are_before_the_system_message(record: Record, text: str, tmp_path: Path) -> None:
    d = nested(tmp_path, AFTER, blocks=FIRST, grammar=LEADS)
    episode, findings = d.check(record)
    assert findings == []
    assert d.serialize(episode).startswith(text)
    back, findings = d.parse(d.serialize(episode))
    assert (back, findings, d.validate(back)) == (episode, [], [])
    assert d.write(back) == d.write(episode) == record
    rendered = compiled(chat_template(d))(**record, add_generation_prompt=False)[0]
    assert rendered == d.serialize(episode)


def test_tools_are_in_a_block_before_that_of_the_system_message(tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("start: ", "start: tools? ").replace(
        "TEXT* (TOOLS TEXT+ TOOLS_END)?", "TEXT*"
    )
    grammar += "tools: TOOLS TEXT+ TOOLS_END\n"
    d = nested(tmp_path, blocks=FIRST.replace("system/tools", "tools"), grammar=grammar)
    record = chat(system("s"), USER, FOUR, tools=[TOOL])
    episode, findings = d.check(record)
    assert (findings, d.write(episode)) == ([], record)
    text = d.serialize(episode)
    assert text.startswith(f"<tools>{JSON}<tools_end><system>s<end>")
    assert compiled(chat_template(d))(**record, add_generation_prompt=False)[0] == text


def test_a_default_system_message_is_after_the_tools(tmp_path: Path) -> None:
    d = nested(tmp_path, DEFAULTS + AFTER, blocks=FIRST, grammar=LEADS)
    episode, findings = d.check(chat(USER, FOUR, tools=[TOOL]))
    assert findings == []
    assert d.serialize(episode).startswith(f"<system><tools>{JSON}<tools_end>\n\nT<end>")
    assert d.write(episode)["messages"][0] == system("T")
    wrong, _ = d.parse(d.serialize(episode).replace("\n\nT", "T"))
    assert [f.code for f in d.validate(wrong)] == ["MYP258"]


def test_a_finding_after_the_tools_has_its_place(tmp_path: Path) -> None:
    d = nested(tmp_path, AFTER, blocks=FIRST, grammar=LEADS)
    _, findings = d.check(chat(system("a <end>"), USER, FOUR, tools=[TOOL]))
    assert [(f.pointer, f.span) for f in findings] == [("/messages/0/content", (2, 7))]


@pytest.mark.parametrize(
    ("blocks", "more", "message"),
    [
        (BLOCKS, AFTER, 'in one for "after"'),
        (FIRST.replace("system/tools", "tools"), AFTER, 'in one for "after"'),
        (FIRST.replace('system = "system"\n', ""), "", '"system" needs tools and system in'),
        (FIRST, AFTER.replace("\\n", ""), 'expected "before", perhaps with "strip", or "after"'),
        (FIRST, AFTER + 'strip = "both"\n', 'expected "before", perhaps with "strip", or "after"'),
        (FIRST, '[options]\nblock = "system"\n', r"and no \[options\]"),
    ],
)
def test_what_says_no_place_of_tools_is_refused(
    blocks: str, more: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        nested(tmp_path, more, blocks=blocks)


F = {"name": "f", "description": "<end> é", "parameters": {"type": "object"}}
TWO = [{"type": "function", "function": F}, function("g")]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("{tool}</t>\\n<t>", "</t>\n<t>".join(json.dumps(t, ensure_ascii=False) for t in TWO)),
        ("{tool}", "".join(json.dumps(t, ensure_ascii=False) for t in TWO)),
        ("[{tool:compact}]", json.dumps(TWO, ensure_ascii=False, separators=(",", ":"))),
        ("[{function:2}]", json.dumps([t["function"] for t in TWO], ensure_ascii=False, indent=2)),
        (
            "{function:4}\\n\\n",
            "\n\n".join(json.dumps(t["function"], ensure_ascii=False, indent=4) for t in TWO),
        ),
    ],
)
def test_json_of_tools_is_written_as_the_format_says(body: str, text: str, tmp_path: Path) -> None:
    d = nested(tmp_path, body=body)
    record = chat(USER, FOUR, tools=TWO)
    episode, findings = d.check(record)
    assert [f.code for f in findings] == ["MYP302"]
    text = f"<system><tools>{text.replace('<end>', chr(92) + 'u003cend>')}<tools_end><end>"
    assert d.serialize(episode).startswith(text)
    back, findings = d.parse(d.serialize(episode))
    assert findings == []
    assert d.write(back) == d.write(episode) == record
    rendered = compiled(chat_template(d))(**record, add_generation_prompt=False)[0]
    assert rendered == d.serialize(episode)
    for wrong in (text.replace("<tools_", ",<tools_"), text.replace("<tools>", "<tools>x")):
        _, findings = d.parse(d.serialize(episode).replace(text, wrong))
        assert [f.code for f in findings] == ["MYP340"]


def test_what_functions_alone_do_not_say_is_a_finding(tmp_path: Path) -> None:
    d = nested(tmp_path, body="{function}\\n")
    record = chat(USER, FOUR, tools=[TOOL | {"note": "n"}])
    episode, findings = d.check(record)
    assert [f.code for f in findings] == ["MYP360"]
    assert d.write(episode) == record


@pytest.mark.parametrize(
    "body", ["{tools}", "[{tool}", "[{tool}]x", "{tool:9}", "x{tool}", "{function}{function}"]
)
def test_no_other_pattern_is_a_body(body: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match='"body" must be a kind of body, or a pattern of JSON'):
        nested(tmp_path, body=body)


@pytest.mark.parametrize("body", ["{tool}", "{function:compact}\\n", "[{function}]"])
def test_tools_before_the_system_message_are_read_alike_by_each_way(
    body: str, tmp_path: Path
) -> None:
    d = nested(tmp_path, AFTER, blocks=FIRST, grammar=LEADS, body=body)
    messages = [system("s"), USER, FOUR]
    records = [
        chat(*messages, tools=[TOOL]),
        chat(*messages, tools=[TOOL | {"note": "n"}, function("g")]),
        chat(USER, FOUR, tools=TWO),
        chat(system(" "), USER, FOUR, tools=[TOOL]),
        chat(*messages),
    ]
    rows = [
        json.dumps(r).replace('"u"', f'"{t}"').replace('"s"', f'"{t}{t}"').encode()
        for r in records * 2
        for t in "abc"
    ]
    assert_sound(CleanFilter(Checker(d)), rows)
    slow = Encoder(Options(dialect=d.spec))
    slow.chats = slow.templates = None
    assert_same_ids(Encoder(Options(dialect=d.spec)), slow, rows)


@pytest.mark.parametrize("name", ["llama3", "llama3.1"])
def test_a_tag_in_tools_beside_a_question_is_a_finding(name: str) -> None:
    d = mypt_spec.dialect(name)
    tool = {
        "type": "function",
        "function": function("f")["function"] | {"description": "<|eot_id|>"},
    }
    episode, findings = d.check(chat(user("Hi"), assistant("A"), tools=[tool]))
    assert episode is not None
    assert [(f.code, f.pointer) for f in findings] == [("MYP302", "/tools")]
    assert "\\u003c|eot_id|>" in d.serialize(episode)


def test_a_template_may_write_nothing_of_tools(tmp_path: Path) -> None:
    grammar = GRAMMAR.replace("system?", "system? tools?") + "tools: TOOLS TEXT* TOOLS_END\n"
    own = BLOCKS.replace("system/tools", "tools")
    d = nested(
        tmp_path, blocks=own, grammar=grammar.replace(" (TOOLS TEXT+ TOOLS_END)?", ""),
        body='template"\ntemplate.text = "{# nothing #}',
    )  # fmt: skip
    record = chat(system("s"), USER, FOUR, tools=[TOOL])
    episode, _ = d.check(record)
    assert d.serialize(episode).startswith("<system>s<end><tools><tools_end><user>")
    assert d.write(episode) == record
