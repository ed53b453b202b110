"""Every example of USF Omega's document, and limits on what a schema can do to the linter."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.fast.clean_filter import CleanFilter
from mypt_spec.bodies import json_schema
from mypt_spec.bodies.json_schema import SchemaError, misfits
from tests.support.build import assistant, call, chat, message, system, tool, user
from tests.support.examples import either
from tests.support.growth import in_proportion
from tests.support.vectors import HERE, Vector, load, shown

D = mypt_spec.dialect("usf-omega")
EXAMPLES = load(HERE / "usf_omega", "reference")


def test_nothing_of_the_document_is_missing() -> None:
    assert len(EXAMPLES) == 18
    kinds = {
        key
        for v in EXAMPLES
        for key in [*v["record"], *(k for m in v["record"].get("messages", []) for k in m)]
    }
    assert kinds == {
        "model_identity", "messages", "role", "content", "contents", "tool_calls", "tool_call_id", "name", "self_reflection", "tools", "assistant",
        "reasoning", "response_schema", "response_format", "json_mode", "search_enabled", "citations_enabled", "self_reflection_enabled",
        "reasoning_effort", "thinking_budget", "chosen", "rejected", "label",
    }  # fmt: skip


@pytest.mark.parametrize("vector", EXAMPLES, ids=lambda v: str(v["name"]))
def test_example_through_everything(vector: Vector) -> None:
    record = vector["record"]
    episode, findings = D.read(record)
    assert episode is not None
    findings = findings + D.validate(episode)
    assert shown(findings) == vector["findings"]
    assert {f.severity for f in findings} <= {"warning"}
    linted = Checker(D).line(json.dumps(record).encode(), row=1, filename="x.jsonl")
    assert sorted(item.finding.code for item in linted) == sorted(f.code for f in findings)
    text = D.serialize(episode)
    assert D.parse(text) == (episode, [])
    encoded = D.encode(episode)
    assert D.parse_ids(encoded.ids) == (episode, [])
    written = D.write(episode)
    assert json.dumps(written) == json.dumps(vector["canonical"])
    again, _ = D.read(written)
    assert again == episode
    assert json.dumps(D.write(again)) == json.dumps(written)
    flags = {
        k: v
        for k, v in record.items()
        if k.endswith(
            ("_enabled", "_effort", "_budget", "_mode", "_schema", "_format", "label", "rejected")
        )
    }
    assert {k: written[k] for k in flags} == flags
    trained = D.tokenizer.decode(encoded.ids[encoded.loss == 1])
    masked = D.tokenizer.decode(encoded.ids[encoded.loss == 0])
    assert trained.endswith("<end>\n<eos>")
    assert masked.startswith("<bos>")
    blocks = re.findall(r"<start>assistant\n(.*?<end>\n)", text, re.DOTALL)
    assert trained == "".join(blocks) + "<eos>"


def test_a_developer_block_has_a_line_a_message() -> None:
    record = chat(system("A"), message("developer", "B"), user())
    assert D.serialize(D.read(record)[0]).startswith("<bos><start>developer\nA\nB\n<end>\n")


def test_order_of_the_head() -> None:
    tools = [{"function": {"name": "f"}}]
    record = {"tools": tools, **chat(message("developer", "B"), user()), "model_identity": "A"}
    text = D.serialize(D.read(record)[0])
    heads = ("<start>system", "<start>developer", "<functions_start>", "<start>user")
    places = [text.index(head) for head in heads]
    assert places == sorted(places)


SLOW = {"$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 10} for i in range(20)} | {"a20": {}}, "$ref": "#/$defs/a0"}  # fmt: skip
NASTY: list[Any] = [
    ({"pattern": "^(a+)+$"}, "a" * 40 + "b"),
    ({"patternProperties": {"^(a+)+$": False}, "additionalProperties": False}, {"a" * 40 + "b": 1}),
    ({"$ref": "#"}, 1),
    ({"$ref": "https://example.org/x"}, 1),
    ({"$ref": "file:///etc/passwd"}, 1),
    (SLOW, 1),
    ({"multipleOf": 1e-300}, 10**400),
    ({"pattern": "("}, "x"),
    ({"$schema": "nothing", "type": "strin"}, "x"),
    (json.loads('{"not": ' * 150 + "{}" + "}" * 150), 1),
    # a schema inside that names another version of the language, whose own checks have no limits
    (
        {
            "properties": {
                "a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}
            }
        },
        {"a": "a" * 40 + "b"},
    ),
    ({"items": {"pattern": "^(a|a)+$"}}, ["a" * 40 + "b"] * 5000),
    ({"uniqueItems": True}, [{"a": i} for i in range(50_000)]),
    ({"required": [1, *(f"a{i}" for i in range(50_000))]}, {}),
    (SLOW | {"unevaluatedProperties": False}, {"x": 1}),
    ({"unevaluatedProperties": False, "patternProperties": {"^(a+)+$": {}}}, {"a" * 40 + "b": 1}),
    ({"items": {"allOf": [True] * 50_000}}, [1] * 5000),
    ({"pattern": "a{1000000000}"}, "b"),
    ({"pattern": "(a{3,5}){1000000}"}, "b"),
    ({"pattern": "(" * 5000 + ")" * 5000}, "b"),
    ({"if": {"$ref": "#/$defs/x"}, "$defs": {"x": {"if": {"$ref": "#/$defs/x"}}}}, 1),
    ({"items": {"$ref": "#"}}, json.loads("[" * 190 + "]" * 190)),
]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the time that schemas may take, except in the thorough suite."""
    monkeypatch.setattr(json_schema, "_ALTOGETHER", either(0.4, 4.0))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(("schema", "value"), NASTY, ids=[json.dumps(s)[:40] for s, _ in NASTY])
def test_no_schema_stops_the_linter(schema: Any, value: Any) -> None:
    before = time.thread_time()
    record = chat(user(), assistant(json.dumps(value)), response_schema=schema)
    episode, findings = D.read(record)
    assert episode is not None
    codes = {f.code for f in findings + D.validate(episode)}
    assert codes <= {"MYP128", "MYP343"}
    assert time.thread_time() - before < 25


def large(kind: str, count: int) -> dict[str, Any]:
    """Returns a record that is large in one way."""
    numbers = range(count)
    called = [call(f"f{i}", {}, id=f"c{i}") for i in numbers]
    asked = [user(), {"role": "assistant", "tool_calls": called}]
    wide = {"type": "object", "properties": {f"p{i}": {} for i in numbers}}
    wide["required"] = [*wide["properties"]]
    return {
        "results in reverse": lambda: chat(*asked, *(tool("r", tool_call_id=f"c{i}") for i in reversed(numbers)), assistant()),
        "results of no call": lambda: chat(*asked, *(tool("r", tool_call_id=f"d{i}") for i in numbers), assistant()),
        "tags in tools": lambda: chat(*asked, functions=[{"name": f"f{i}", "description": "<end>"} for i in numbers]),
        "systems": lambda: chat(*[system("<end>")] * count, user(), assistant()),
        "properties": lambda: chat(user(), assistant(), functions=[{"name": "f", "parameters": wide}]),
    }[kind]()  # fmt: skip


def lint_all(record: Any) -> None:
    raw = json.dumps(record).encode()
    CleanFilter(Checker(D)).doubtful([raw])
    Checker(D).line(raw, row=1, filename="x.jsonl")


@pytest.mark.parametrize("kind", ["results in reverse", "results of no call", "tags in tools", "systems", "properties"])  # fmt: skip
def test_records_of_many_parts_take_time_in_proportion(kind: str) -> None:
    """What compares all with all would take minutes for 8,000 calls or properties."""
    if kind in ("results in reverse", "properties"):
        assert not D.check(large(kind, 9))[1]
    assert in_proportion(lambda n: lint_all(large(kind, n)), either(500, 2000))


@pytest.mark.usefixtures("limits")
def test_many_slow_schemas_share_one_limit() -> None:
    before = time.thread_time()
    lint_all(chat(user(), assistant(), functions=[{"name": f"f{i}", "parameters": SLOW} for i in range(50)]))  # fmt: skip
    assert time.thread_time() - before < either(6, 60)


def test_a_reference_to_another_document_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.request

    def refuse(*args: object, **more: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(SchemaError, match="example"):
        misfits(1, {"$ref": "https://example.org/x"})


def test_values_are_told_apart_as_schemas_do() -> None:
    unique = {"uniqueItems": True}
    assert misfits([1, True, "1", [1], {"a": 1}, None], unique) == []
    for same in ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[0], [0.0]]):
        assert misfits(same, unique)
    assert misfits([1, 1], {"uniqueItems": False}) == []
    integer = {"type": "integer"}
    some = {"patternProperties": {"^x-": integer}, "additionalProperties": integer}
    assert misfits({"x-1": 1, "y": 2}, some) == []
    assert misfits({"x-1": "1", "y": "2"}, some | {"additionalProperties": False}) != []
    nested: Any = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert [pointer for pointer, _ in misfits({"a": {"a": {}}}, nested)] == ["/a/a"]


def test_misfits_say_where() -> None:
    schema = {
        "type": "object",
        "properties": {"a/b": {"items": {"type": "integer"}}},
        "required": ["c"],
    }
    assert [pointer for pointer, _ in misfits({"a/b": [1, "x"]}, schema)] == ["", "/a~1b/1"]
    assert misfits({"a/b": [1], "c": 1}, schema) == []
