"""Calls with keywords for their arguments, as Python writes them: the body, its formats, the decoder."""

from __future__ import annotations

import json
import pickle
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode import Decoder, SchemaFault
from mypt_spec import SpecError
from mypt_spec.bodies.call_tags import Keywords
from mypt_spec.bodies.json_body import argument_spans, read_body
from mypt_spec.dialect import families
from mypt_spec.encoder import tag_ids
from mypt_spec.episode import Place
from mypt_spec.table_file import load_table
from mypt_train.data.encode_line import Encoder, Options
from mypt_train.export.answers import answers
from mypt_train.export.chat_template import chat_template
from mypt_train.export.response_template import response_template
from mypt_train.export.tokenizer_file import ExportError
from tests.support import vocabulary
from tests.support.build import assistant, call, calls, chat, function, lines, tool, user
from tests.support.fast_paths import assert_same_ids

LFM, OLMO, ESCAPING = map(mypt_spec.dialect, ("lfm2.5", "olmo3", "lfm2"))
PYTHON, JSON, ESCAPED = (d.table.openers["tool_call"].body for d in (LFM, OLMO, ESCAPING))
BODIES = [
    Keywords(texts, q, escapes)
    for texts in (["[", ", ", "]"], ["", "\n", ""])
    for q, escapes in (("'", False), ('"', False), ("", False), ("'", True), ('"', True))
]
SCHEMA = {
    "q": {"type": "string"},
    "n": {"type": ["integer", "null"]},
    "some": {"type": "array", "items": {"type": ["string", "boolean", "object"]}},
    "at": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "null"}}}},
}
TOOLS = [function("f", SCHEMA, required=["q"]), function("ff", {})]
ARGUMENTS = {"q": 'a "b"', "n": 5, "some": ["it", True, {}], "at": {"x": [None]}}
_TEXTS = st.text(st.sampled_from("ab '\"\\\n\t\x85é😀(),=[]{}:x1"), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_CALLS = st.lists(
    st.builds(
        lambda name, arguments: {"name": name, "arguments": arguments},
        st.sampled_from(["f", "a.b-c", "True"]),
        st.dictionaries(st.sampled_from(["a", "b1", "ü"]), _VALUES),
    ),
    min_size=1,
    max_size=3,
)


def record(arguments: Any = None, **more: Any) -> dict[str, Any]:
    asked = calls(call("f", ARGUMENTS if arguments is None else arguments), call("ff", {}))
    del asked["content"]
    return chat(user("Q"), asked, tool("r"), tool("s"), assistant("A"), tools=TOOLS, **more)


@given(_CALLS, st.sampled_from(BODIES))
def test_values_come_back_from_their_text(some: list[dict[str, Any]], body: Keywords) -> None:
    """Unless a quote in a string ends an argument, which `is_sayable` says of each argument."""
    text, arguments = body.write(some), [a for c in some for a in c["arguments"].items()]
    odd = [value for key, value in arguments if not body.is_sayable({key: value})]
    assert not (odd and body.escapes)
    for value in odd:
        assert f"{body.end})" in f"{value})" or f"{body.end}, " in value
    if odd:
        return
    assert json.dumps(body.read(text)) == json.dumps(some)
    spans = [text[a:b] for a, b in argument_spans(text, body)]
    edges = len(body.calls[0]), -1 - len(body.calls[2])
    assert spans == [body.write([c])[edges[0] + len(c["name"]) + 1 : edges[1]] for c in some]


def test_bodies_come_back_from_a_pickle() -> None:
    for body in BODIES:
        assert vars(pickle.loads(pickle.dumps(body))) == vars(body)


@given(st.text(st.sampled_from("fa=(), '\"[1]\n{}:\\"), max_size=20), st.sampled_from(BODIES))
def test_any_text_is_read_or_refused(text: str, body: Keywords) -> None:
    read = read_body(text, body, LFM.table.literals, Place())
    if read.text is not None:
        assert body.write(body.read(read.text)) == read.text


@pytest.mark.parametrize(
    ("body", "text", "code"),
    [
        (PYTHON, "[f(a='x', b=[1, None])]", ""),
        (PYTHON, "[f(a='it's', b='')]", ""),
        (PYTHON, '[f(a="x")]', "MYP308"),
        (PYTHON, "[f(a=true)]", "MYP308"),
        (PYTHON, '[f(a="it\'s")]', "MYP304"),
        (PYTHON, "[f(a=['\\d'])]", "MYP304"),
        (PYTHON, "[f(a=x)]", "MYP304"),
        (PYTHON, "[f(a='x'),g()]", "MYP304"),
        (PYTHON, "[f('x')]", "MYP304"),
        (PYTHON, "[]", "MYP304"),
        (PYTHON, "[f(a=1, a=2)]", "MYP004"),
        (PYTHON, "[f(a=NaN)]", "MYP005"),
        (ESCAPED, "[f(a='it\\'s \\\\', b=[1, null], c=True)]", ""),
        (ESCAPED, '[f(a="it\'s")]', "MYP308"),
        (ESCAPED, "[f(a='it's')]", "MYP304"),
        (ESCAPED, "[f(a='\\d')]", "MYP304"),
        (ESCAPED, "[f(a=[None])]", "MYP304"),
        (JSON, 'f(a="x")\ng()', ""),
        (JSON, "f(a= 1)", "MYP308"),
        (JSON, "f(a=True)", "MYP304"),
        (JSON, "f()\n", "MYP304"),
    ],
)
def test_other_writings_are_findings(body: str, text: str, code: str) -> None:
    read = read_body(text, body, LFM.table.literals, Place())
    assert [finding.code for finding in read.findings] == [code] * (code != "")
    assert (read.text is None) == (code not in ("", "MYP308"))


@pytest.mark.parametrize(
    ("d", "text"),
    [
        (LFM, """[f(q='a "b"', n=5, some=['it', True, {}], at={"x": [null]}), ff()]"""),
        (ESCAPING, """[f(q='a "b"', n=5, some=["it", true, {}], at={"x": [null]}), ff()]"""),
        (OLMO, 'f(q="a \\"b\\"", n=5, some=["it", true, {}], at={"x": [null]})\nff()'),
    ],
)
def test_records_come_back(d: mypt_spec.Dialect, text: str) -> None:
    episode, findings = d.check(record())
    assert episode is not None
    assert findings == []
    assert text in d.serialize(episode)
    assert d.write(episode) == record()
    assert d.parse(d.serialize(episode)) == (episode, [])
    encoded = d.encode(episode)
    assert text in d.tokenizer.decode(encoded.ids[encoded.loss == 1])
    asked = d.write(d.read(record() | {"messages": record()["messages"][:2]})[0])
    assert asked["messages"] == record()["messages"][:2]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"q": "(it's 'so')"}, "MYP301"),
        ({"q": "<think>"}, "MYP206"),
        ({"q r": 1}, "MYP320"),
        ({"": 1}, "MYP320"),
    ],
)
def test_what_no_escape_can_say_is_refused(arguments: Any, code: str) -> None:
    assert [finding.code for finding in LFM.check(record(arguments))[1]][:1] == [code]


def test_names_that_no_call_can_have_are_refused() -> None:
    row = chat(user("Q"), calls(call("f g", {})), tool("r"), assistant("A"))
    assert [finding.code for finding in LFM.check(row)[1]] == ["MYP320"]
    row = chat(user("Q"), calls(call("f", {"a-b": 1, "a b": 1})), tool("r"), assistant("A"))
    (fault,) = LFM.check(row)[1]
    assert (fault.message, fault.pointer) == (
        "'a b' cannot be the name in `argument=...`",
        "/messages/1/tool_calls/0/function/arguments/a b",
    )


def test_ids_of_calls_come_back_from_records() -> None:
    row = record()
    for i, one in enumerate(row["messages"][1]["tool_calls"]):
        one["id"] = row["messages"][2 + i]["tool_call_id"] = f"c{i}"
    episode, findings = LFM.check(row)
    assert episode is not None
    assert findings == []
    assert LFM.write(episode) == row


@pytest.mark.parametrize(
    ("name", "tag", "legal", "illegal"),
    [
        (
            "lfm2.5", "<|tool_call_start|>",
            ["""[f(q='a "b"\n', n=None, some=['i"', True, {}], at={"x": [null]}), ff()]""", "[ff(), ff()]"],
            ["[f()]", "[f(n=1)]", '[f(q="a")]', "[f(q='a', n=null)]", "[f(q='a', at={'x': []})]", "[ff()ff()]",
             "[f(q='a', some=[\"a\"])]", "[f(q='a', some=['\\d'])]", "[ff(a=1)]", "[]", "[f(q='a' n=1)]"],
        ),
        (
            "lfm2", "<|tool_call_start|>",
            ["""[f(q='a "b"\\n\\'\\\\\t', n=None, some=["i'", true, {}], at={"x": [null]}), ff()]"""],
            ["[f(q='\n')]", "[f(q='\\t')]", '[f(q="a")]', "[f(q='a', n=null)]", "[f(q='a', some=['a'])]", "[f(q='a', some=[True])]"],
        ),
        (
            "olmo3", "<function_calls>",
            ['f(q="a \\"b\\"", n=null, some=["i", true, {}], at={"x": [null]})\nff()', "ff()\nff()"],
            ["f()", "f(q='a')", 'f(q="a", n=None)', "ff(), ff()", "[ff()]", "ff()\n\n"],
        ),
    ],
)  # fmt: skip
def test_the_decoder_writes_calls(
    name: str, tag: str, legal: list[str], illegal: list[str]
) -> None:
    d = vocabulary.small(name)
    decoder = Decoder(d, TOOLS)
    prompt, _ = d.read(chat(user("Q"), tools=TOOLS))
    assert prompt is not None
    state, end = decoder.start(decoder.ids_of(prompt)), tag.replace("start", "end")
    end = end if end != tag else tag.replace("<", "</")

    def after(text: str) -> Any:
        events = d.lex(f"{tag}{text}{end}")
        return decoder.run(state, [i for e in events for i in tag_ids(e, d.table, d.tokenizer)])

    for text in legal:
        assert after(text)
        assert read_body(text, d.table.openers["tool_call"].body, d.table.literals, Place()).text
    for text in illegal:
        with pytest.raises(ValueError, match=r"."):
            after(text)


@pytest.mark.parametrize("schema", [{"a b": {"type": "null"}}, {"a": {"enum": ["')"]}}])
def test_tools_that_no_call_can_say_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaFault, match=r"cannot be written"):
        Decoder(vocabulary.small("lfm2.5"), [function("f", schema)])


def test_exports_are_refused_by_name() -> None:
    for export in (lambda: answers(LFM, ["<|im_end|>"]), lambda: response_template(LFM)):
        with pytest.raises(ExportError, match=r"lfm2\.5: .*calls"):
            export()


@pytest.mark.parametrize("d", [LFM, OLMO, ESCAPING])
def test_the_exported_template_writes_calls(d: mypt_spec.Dialect) -> None:
    """Or refuses them, as the format does."""
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    values = [
        "it's",
        "a', b",
        "a\\\n\r",
        "')",
        "', b=1",
        "<think>",
        "'",
        2.5,
        None,
        ["it's", {"a": [True]}],
    ]
    for value in [*values, ARGUMENTS]:
        row = record(value if isinstance(value, dict) else {"q": value})
        del row["tools"]
        episode, findings = d.check(row)
        text = d.serialize(episode) if episode and not findings else None
        try:
            rendered = rendering.render_jinja_template(
                [row["messages"]], chat_template=chat_template(d)
            )
            assert rendered[0][0] == text
        except jinja2.TemplateError:
            assert text is None


def test_the_fast_path_writes_the_same() -> None:
    options = Options(dialect="lfm2.5")
    slow = Encoder(options)
    slow.chats = slow.templates = None
    rows = [
        record(),
        record({"q": "y"}),
        record({"q": "it's"}),
        record({"q": "')"}),
        chat(user("Q"), assistant("A")),
    ]
    assert_same_ids(Encoder(options), slow, lines(*rows))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('body = "keywords"', 'body = "call"', '"keywords" is for a block of the body keywords'),
        ('["[", ", ", "]"]', '["[", "]"]', "must be three texts"),
        ("quote = \"'\"", 'quote = "x"', "\"quote\" must be"),
        ("quote = \"'\"", "quote = \"'\", escapes = 1", "\"escapes\" must be true or false"),
    ],
)  # fmt: skip
def test_columns_that_mean_nothing_are_refused(old: str, new: str, message: str) -> None:
    text = (families()["lfm2.5"] / "tokens.toml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(SpecError, match=message):
        load_table(text.replace(old, new, 1))
