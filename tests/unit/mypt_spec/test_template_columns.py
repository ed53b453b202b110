"""Columns for what chat templates do with a record: texts that it does not have, and others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import mypt_spec
from mypt_convert.engine import Converter
from mypt_infer.controller.history import History
from mypt_infer.controller.messages import append_messages
from mypt_infer.decode.decoder import Decoder
from mypt_infer.run_format import format_of
from mypt_infer.serve.deltas import DeltaReader
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec import Dialect, SpecError
from mypt_spec.adapters.template_options import KEY, system_text_of
from mypt_spec.dialect import families
from mypt_spec.episode import as_read
from mypt_spec.table_file import TomlFile
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.chat_template import chat_template
from mypt_train.export.response_template import response_template
from tests.support.build import Record, assistant, call, calls, chat, function, system, tool, user
from tests.support.fast_paths import assert_fast, assert_same_ids, assert_sound
from tests.support.huggingface import tokenizer
from tests.support.nested import BLOCKS, nested
from tests.support.scripted import ids_of, run_turn, tools_of
from tests.support.tables import GPT2, head, row, special, write_table

USER, FOUR = user("u"), assistant("Four.")
TOOL = function("f")


DEFAULTS = """
[defaults]
system = "D"
system_with_tools = "T"
"""


OPTION = """
[[option]]
name = "enable_thinking"
values = [true, false]
empty_thought = false
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
        (
            '[defaults]\nuser = "u"',
            "unknown key user; known are system, system_with_tools, thought, without_system",
        ),
        ('[defaults]\nwithout_system = "end"', "no mark 'end'"),
        (
            '[defaults]\nsystem = "D"\nwithout_system = "plain"',
            '"without_system" needs "system" in \\[blocks\\], and no text "system"',
        ),
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


def test_a_default_that_its_block_strips_is_in_no_written_record(tmp_path: Path) -> None:
    blocks = '\n[defaults]\nsystem = "D\\n"\n'
    d = nested(tmp_path, blocks, system=STRIP)
    record = chat(USER, FOUR)
    episode, findings = d.check(record)
    assert (findings, d.serialize(episode)) == (
        [],
        "<system>D\n<end><user>u<end><assistant>Four.<end>",
    )
    assert (d.write(episode), d.validate(episode)) == (record, [])
    episode, _ = d.check(chat(system("D"), USER, FOUR))
    assert d.write(episode) == chat(system("D"), USER, FOUR)


@pytest.mark.parametrize("option", ["", OPTION], ids=["", "with an option"])
def test_a_message_without_a_thought_has_an_empty_one(option: str, tmp_path: Path) -> None:
    d = nested(tmp_path, '\n[defaults]\nthought = ""\n' + option)
    thinking = assistant("Five.", reasoning_content="So.")
    record = chat(USER, FOUR, USER, thinking, USER, FOUR)
    episode, findings = d.check(record)
    text = d.serialize(episode)
    assert (findings, text.count("<think><think_end>Four.")) == ([], 2)
    assert "<think>So.<think_end>Five." in text
    canonical = d.write(episode)
    assert [m.get("reasoning_content") for m in canonical["messages"][1::2]] == ["", "So.", ""]
    assert (d.write(d.read(canonical)[0]), d.parse(text)) == (canonical, (episode, []))
    outcome = Converter("openai", str(d.folder)).record(record)
    assert (outcome.losses, outcome.findings, outcome.record) == ((), (), canonical)
    options = {"enable_thinking": False} if option else {}
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    (exported,), spans = rendering.render_jinja_template(
        conversations=[record["messages"]], chat_template=chat_template(d),
        return_assistant_tokens_mask=True, **options,
    )  # fmt: skip
    assert exported == text
    encoded = d.encode(d.read(record | ({KEY: options} if options else {}))[0])
    texts = ["".join(text[a:b] for a, b in spans[0]), d.tokenizer.decode(encoded.ids[encoded.loss == 1])]  # fmt: skip
    assert len({one.replace("<assistant>", "") for one in texts}) == 1
    assert [one.count("<think>") for one in texts] == [1 if option else 3] * 2
    lines = [json.dumps(r).encode() for r in (record, canonical, chat(USER, thinking), chat(USER))]
    assert_fast(d, lines)


def test_a_default_thought_is_empty_and_has_a_place(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match='"thought" must be an empty text'):
        nested(tmp_path, '\n[defaults]\nthought = "So."\n')
    blocks = BLOCKS.replace('thought = "assistant/think"\n', "", 1)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(SpecError, match="no block for it: thought"):
        nested(other, '\n[defaults]\nthought = ""\n', blocks=blocks)


def test_a_record_is_converted_to_one_with_the_default() -> None:
    outcome = Converter("openai", "smollm2").record(chat(USER, FOUR))
    assert (outcome.losses, outcome.findings) == ((), ())
    assert outcome.record["messages"][0]["content"].endswith("Hugging Face")


def test_a_later_message_of_a_conversation_brings_no_second_one() -> None:
    d = mypt_spec.dialect("smollm2")
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
    [
        ("both", "x y"),
        ("left", "x y \u00a0\n"),
        ("right", "\n x y"),
        ("", "\n x y \u00a0\n"),
        ("lines", " x y \u00a0"),
        ("left lines", " x y \u00a0\n"),
        ("right lines", "\n x y \u00a0"),
    ],
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
        ('strip = "outside"', '"strip" must be one of both, left, right, lines'),
        (
            'strip = "both"\nbody = "json"',
            "\"strip\" is of a block of text, or of a call beside one; the body is 'json'",
        ),
    ],
)
def test_what_cannot_be_stripped_is_refused(others: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        nested(tmp_path, others=others)


def test_a_blank_text_is_refused_where_the_format_says_so(tmp_path: Path) -> None:
    d = nested(tmp_path, answer="blank = false")
    for content in ("", " \n"):
        episode, findings = d.check(chat(USER, assistant(content)))
        assert episode is None
        assert [(f.code, f.severity, f.pointer) for f in findings] == [
            ("MYP314", "error", "/messages/1/content")
        ]
    assert d.check(chat(user(" "), FOUR))[0] is not None


def test_a_tag_that_opens_nothing_strips_nothing(tmp_path: Path) -> None:
    rows = row("END", special("<end>"), 'closes = ["user"]', STRIP)
    with pytest.raises(SpecError, match='"strip" is for a tag that opens a block'):
        mypt_spec.load(write_table(tmp_path / "d", "start: END", head("d", GPT2) + "\n" + rows))


def test_records_by_role_strip_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r'"strip", "prefix" and "suffix" in tokens\.toml need shape'
    ):
        nested(tmp_path, others=STRIP, blocks='[[message]]\nrole = "user"\n')


def test_white_space_is_no_loss_of_a_conversion() -> None:
    record = chat(user(" u\n"), assistant("\n\nFour. "))
    outcome = Converter("openai", "gemma2").record(record)
    assert (outcome.losses, outcome.findings) == ((), ())
    assert outcome.record == chat(user("u"), FOUR)


def test_what_a_model_wrote_becomes_a_record() -> None:
    d = mypt_spec.dialect("gemma2")
    episode, _ = d.parse(
        "<bos><start_of_turn>user\nu<end_of_turn>\n<start_of_turn>model\n\nFour.\n<end_of_turn>\n"
    )
    assert d.write(as_read(episode, d.table)) == chat(USER, FOUR)


# --- prefix


PREFIX = 'prefix = " "'


def test_an_answer_begins_with_white_space_that_no_record_has(tmp_path: Path) -> None:
    d = nested(tmp_path, answer=f"{PREFIX}\n{STRIP}")
    for content, text in (("Four.", " Four."), ("  Four.\n", " Four."), ("", " ")):
        episode, findings = d.check(chat(USER, assistant(content)))
        assert {f.code for f in findings} <= {"MYP314"}
        assert d.serialize(episode) == f"<user>u<end><assistant>{text}<end>"
        encoded = d.encode(episode)
        assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == f"<assistant>{text}<end>"
        canonical = d.write(episode)
        assert canonical == chat(USER, assistant(content.strip()))
        assert d.read(canonical)[0] == episode


def test_places_and_weights_count_without_the_prefix(tmp_path: Path) -> None:
    d = nested(tmp_path, answer=PREFIX)
    _, findings = d.check(chat(USER, assistant("Say <end>.")))
    assert [(f.code, f.span) for f in findings] == [("MYP301", (4, 9))]
    said = assistant("ab cd", weight={"parts": [[0, 2, 0]], "rest": 1})
    encoded = d.encode(d.check(chat(USER, said))[0])
    assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == "<assistant> cd<end>"


def test_a_server_sends_answers_without_the_prefix(tmp_path: Path) -> None:
    d = nested(tmp_path, answer=PREFIX)
    reader = DeltaReader(format_of(d), [d.table.special["<assistant>"]])
    texts = [delta.text for i in d.tokenizer.encode("  Four.\n") for delta in reader.push(i)]
    assert "".join([*texts, *(delta.text for delta in reader.end())]) == " Four.\n"


@pytest.mark.parametrize("text", ["Four.", "  Four."])
def test_no_record_says_an_answer_with_other_white_space(text: str, tmp_path: Path) -> None:
    d = nested(tmp_path, answer=f"{PREFIX}\n{STRIP}")
    episode, _ = d.parse(f"<user>u<end><assistant>{text}<end>")
    assert [f.code for f in d.validate(episode)] == ["MYP258"]
    assert d.write(as_read(episode, d.table)) == chat(USER, FOUR)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ('prefix = "x"', '"prefix" must be one character of white space'),
        (PREFIX, r'\[blocks\] user: "prefix" is for the blocks of answers'),
        ('suffix = "x"', '"suffix" must be white space'),
        ('suffix = " "', r'\[blocks\] user: "suffix" is for the blocks of system messages'),
    ],
)
def test_what_cannot_be_a_prefix_is_refused(others: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        nested(tmp_path, others=others)


# --- system messages that are no block with a tag


NO_SYSTEM = BLOCKS.replace('system = "system"\n', "", 1).replace('tools = "system/tools"\n', "")
INSIDE = '\n[system]\nquestion = "{}"\nbefore = "S: "\nafter = "\\n\\n"\n'
TURNS = chat(system("s") | {"_note": 1}, USER, FOUR, user("v"), FOUR | {"_x": 2})


@pytest.fixture(params=["first", "last"])
def inside(request: pytest.FixtureRequest, tmp_path: Path) -> Dialect:
    return nested(tmp_path, INSIDE.format(request.param), blocks=NO_SYSTEM)


def test_a_system_message_is_in_the_text_of_a_question(inside: Dialect) -> None:
    episode, findings = inside.check(TURNS)
    assert findings == []
    first = inside.adapter.system.question == "first"
    texts = ["S: s\n\nu", "v"] if first else ["u", "S: s\n\nv"]
    turns = (f"<user>{text}<end><assistant>Four.<end>" for text in texts)
    text = "".join(turns)
    assert inside.serialize(episode) == text
    assert inside.write(episode) == TURNS
    back, _ = inside.parse(text)
    assert back == episode
    assert [m["content"] for m in inside.write(back)["messages"][::2]] == texts


def test_findings_in_a_system_message_have_its_place(inside: Dialect) -> None:
    _, findings = inside.check(chat(system("a <end>"), user("b <end>"), FOUR))
    assert [(f.pointer, f.span) for f in findings] == [
        ("/messages/0/content", (2, 7)),
        ("/messages/1/content", (2, 7)),
    ]


@pytest.mark.parametrize(
    ("record", "codes"),
    [
        (chat(USER, FOUR, system("s"), USER, FOUR), ["MYP209"]),
        (chat(system("s"), FOUR), ["MYP219", "MYP219"]),
        (chat(system("s")), ["MYP219", "MYP219", "MYP501"]),
    ],
)
def test_system_messages_without_a_question(
    record: Record, codes: list[str], inside: Dialect
) -> None:
    assert [f.code for f in inside.check(record)[1]] == codes


def test_a_conversion_keeps_the_system_message(inside: Dialect) -> None:
    outcome = Converter("openai", inside.spec).record(chat(system("s"), USER, FOUR))
    assert (outcome.losses, outcome.findings) == ((), ())
    assert outcome.record == chat(system("s"), USER, FOUR)


def test_a_default_may_be_in_the_first_question(tmp_path: Path) -> None:
    more = INSIDE.format("first") + '\n[defaults]\nsystem = "D"\n'
    d = nested(tmp_path, more, blocks=NO_SYSTEM)
    record = chat(USER, FOUR, USER, FOUR)
    episode, findings = d.check(record)
    assert findings == []
    text = "<user>S: D\n\nu<end><assistant>Four.<end><user>u<end><assistant>Four.<end>"
    assert d.serialize(episode) == text
    assert d.write(episode) == d.write(d.parse(text)[0]) == chat(system("D"), *record["messages"])
    unsaid, _ = d.parse(text.replace("S: D", "S: E"))
    assert [f.code for f in d.validate(unsaid)] == ["MYP258"]


@pytest.mark.parametrize(
    ("more", "blocks", "message"),
    [
        (INSIDE.format("second"), NO_SYSTEM, '"question" must be "first" or "last"'),
        ('[system]\nquestion = "last"', NO_SYSTEM, r'\[system\]: "after" must be str'),
        (INSIDE.format("last"), BLOCKS, r"\[system\]: \[blocks\] has a block for it: system"),
        (
            INSIDE.format("last") + '[tools]\nbefore = "T"',
            NO_SYSTEM,
            r"\[system\]: cannot be combined with \[tools\]",
        ),
        (
            'begin = "user"\n' + BLOCKS,
            "",
            r'"begin": no mark \'user\'',
        ),
    ],
)
def test_what_says_no_place_of_system_messages_is_refused(
    more: str, blocks: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        nested(tmp_path, more, blocks=blocks)


def test_a_tag_may_not_be_spelled_by_a_system_message_and_a_question() -> None:
    place = {"system": {"question": "last", "after": "\n\n"}}
    with pytest.raises(SpecError, match="a tag has the text"):
        system_text_of(place, ["# Tools\n\nUse them."], TomlFile("records.toml").need)


def test_a_conversation_begins_with_its_mark_once() -> None:
    d = mypt_spec.dialect("deepseek-v3")
    history = History(d)
    append_messages(history, [USER, FOUR])
    append_messages(history, [user("v")])
    assert d.tokenizer.decode(history.ids).count("begin") == 1
    episode, findings = d.check(chat(system(""), USER, FOUR))
    assert [(f.code, f.severity) for f in findings] == [("MYP314", "warning")]
    assert d.write(episode) == chat(USER, FOUR)


@pytest.mark.parametrize("history", ["keep", "per-turn"])
def test_a_system_message_in_a_question_is_prepared_alike_by_each_way(
    history: str, inside: Dialect
) -> None:
    records = [TURNS, chat(*TURNS["messages"][1:]), chat(*TURNS["messages"][:3])] * 2
    texts = "abcdef"
    rows = [
        json.dumps(record).replace('"u"', f'"{t}"').replace('"s"', f'"{t}{t}"').encode()
        for record in records
        for t in texts
    ]
    options = Options(dialect=inside.spec, history=history, mask="last")
    slow = Encoder(options)
    slow.chats = slow.templates = None
    assert all(o.status == "written" for o in assert_same_ids(Encoder(options), slow, rows))


# --- texts of options in each record, and results as JSON strings


LLAMA = mypt_spec.dialect("llama3.1")
CALL = {"type": "function", "function": {"name": "f", "arguments": {"q": 1}}}
ASKED = {"role": "assistant", "tool_calls": [CALL]}


def test_the_texts_of_options_are_in_each_record() -> None:
    d = LLAMA
    episode, findings = d.check(chat(USER, FOUR))
    assert findings == []
    assert "Today Date: 26 Jul 2024\n\n<|eot_id|>" in d.serialize(episode)
    assert d.write(episode) == chat(USER, FOUR)
    text = d.serialize(episode).replace("Cutting", "cutting")
    assert [f.code for f in d.validate(d.parse(text)[0])] == ["MYP258"]
    history = History(d)
    append_messages(history, [USER, FOUR])
    append_messages(history, [user("v")])
    assert d.tokenizer.decode(history.ids).count("Today Date") == 1


@pytest.mark.parametrize("content", ["20", "", 'say "hi"\n', "<|eot_id|>", "[1]", "\u2028\\"])
def test_a_result_is_a_json_string(content: str) -> None:
    d = LLAMA
    record = chat(USER, ASKED, tool(content), FOUR)
    episode, findings = d.check(record)
    assert {f.code for f in findings} <= {"MYP302", "MYP313", "MYP314"}
    text = d.serialize(episode)
    shown = text.partition("ipython<|end_header_id|>\n\n")[2].partition("<|eot_id|>")[0]
    assert json.loads(shown) == content
    assert d.write(episode) == d.write(d.parse(text)[0]) == record


def test_the_result_of_a_tool_is_a_json_string_in_a_chat() -> None:
    tools = tools_of(f=lambda arguments: {"sum": arguments["q"]})
    d = LLAMA
    ids = [
        *d.tokenizer.encode('{"name": "f", "parameters":'),
        *d.tokenizer.encode('{"q": 1}}'),
        d.table.special["<|eot_id|>"],
    ]
    ids += [*d.tokenizer.encode("1"), d.table.special["<|eot_id|>"]]
    controller, _ = run_turn(ids, tools, d.spec, text="u")
    assert controller.record()["messages"][2]["content"] == '{"sum": 1}'
    assert '"{\\"sum\\": 1}"' in d.tokenizer.decode(controller.history.ids)


def test_options_always_are_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match='"always" must be true or false'):
        nested(tmp_path, '[options]\nblock = "system"\nalways = "yes"')


def test_a_text_that_is_half_a_tag_when_it_is_stripped_is_looked_at() -> None:
    ends, begins = LLAMA.table.edges
    texts = ["a", *(f"x {half}\n" for half in ends), *(f"\n{half} x" for half in begins), "\n}"]
    rows = [
        json.dumps(chat(user(text), assistant(other))).encode()
        for text, other in [*((t, "a") for t in texts), *(("u", t) for t in texts)]
    ]
    assert_sound(CleanFilter(Checker(LLAMA)), rows)


# --- joins, with a spelling


CALLING = families()["deepseek-v3.1"]
NEXT = '{ special = "<｜tool▁call▁end｜>" }, { special = "<｜tool▁call▁begin｜>" }, { attr = "name"'


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("tokens.toml", 'joins = "CALL_OPEN"', 'joins = "CALL_OPEN"\nspace = " "', 'a "space" or a "spelling"'),
        ("tokens.toml", 'joins = "CALL_OPEN"', 'joins = "RESULT_OPEN"', "no terminal above that opens a block"),
        ("tokens.toml", 'body = "arguments"\norigin = "model"', 'body = "arguments"', "for blocks that the model writes"),
        ("tokens.toml", NEXT, NEXT.replace('"name"', '"id"'), "has the same attributes"),
        ("deepseek-v3.1.lark", "TEXT* END\n", "TEXT* END | TEXT* CALL_NEXT TEXT+ CALL_CLOSE\n", "between two 'tool_call'"),
        ("deepseek-v3.1.lark", "calls: TEXT*", "calls: TEXT* (CALL_OPEN TEXT+ CALL_CLOSE)*", "CALL_CLOSE: .* after it, too"),
    ],
)  # fmt: skip
def test_a_tag_between_blocks_that_cannot_be_written_is_refused(
    file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(CALLING, tmp_path / "deepseek-v3.1")
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        mypt_spec.load(folder)


def test_calls_in_one_pair_of_tags_are_written_and_read_back() -> None:
    d = mypt_spec.load(CALLING)
    asking = calls(call("f", {"q": 1}), call("g", {}), call("f", {"q": 2}))
    text = d.serialize(d.read(chat(user("u"), asking))[0])
    assert [text.count(tag) for tag in ("calls▁begin", "call▁end", "calls▁end")] == [1, 3, 1]
    prompt, answer = text.partition("</think>")[::2]
    reading = tokenizer(d).parse_response(answer, response_template(d), prefix=f"{prompt}</think>")
    assert reading["tool_calls"] == asking["tool_calls"]


def test_a_model_may_write_several_calls_in_one_pair_of_tags() -> None:
    d = mypt_spec.load(CALLING)
    decoder = Decoder(d, [function("f", {"q": {"type": "integer"}}), function("g")])
    start = decoder.start(d.read(chat(user("u")))[0])
    body = '<｜tool▁sep｜>{{"q": {}}}<｜tool▁call▁end｜>'
    begin = "<｜tool▁call▁begin｜>f"
    two = f"<｜tool▁calls▁begin｜>{begin}{body}{begin}{body}<｜tool▁calls▁end｜>"
    assert decoder.final(decoder.run(start, ids_of(f"{two}<｜end▁of▁sentence｜>".format(1, 2), d)))
    for tags in (["call▁begin"], ["calls▁end"], ["calls▁begin", "calls▁begin"]):
        ids = [d.table.special[f"<｜tool▁{tag}｜>"] for tag in tags]
        assert decoder.accepts(start, ids) == len(ids) - 1


# --- White space that only separates


def test_white_space_after_the_last_tag_is_a_warning() -> None:
    d = mypt_spec.dialect("tulu3")
    text = "<|user|>\nHi\n<|assistant|>\nYes.<|end_of_text|>"
    assert [f.code for f in d.parse(text)[1]] == []
    assert [f.code for f in d.parse(text + "\n")[1]] == ["MYP230"]
    episode = d.parse(text)[0]
    assert episode is not None
    for mask in ("model", "trl"):
        encoded = d.encode(episode, mask=mask)
        assert d.tokenizer.decode(encoded.ids) == text
        assert d.tokenizer.decode(encoded.ids[encoded.loss == 1]) == "Yes.<|end_of_text|>"
    assert d.parse_ids(d.encode(episode).ids) == (episode, [])


def test_the_end_of_a_blank_answer_is_that_of_its_record() -> None:
    """In a block with calls and results, the fast path learns no end as that of a result."""
    step = [calls(call("f", {}), call("f", {})), tool("a"), tool("b")]
    blank = chat(user("u"), *step, assistant(""))
    other = chat(
        user("u"), *step, assistant("x", tool_calls=[call("f", {})]), tool("c"), assistant("y")
    )
    lines = [json.dumps(record).encode() for record in [blank, blank, other, other, other]]
    assert_same_ids(*(Encoder(Options(dialect="deepseek-v3.1")) for _ in range(2)), lines)
