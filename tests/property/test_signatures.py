"""Definitions of tools as TypeScript: the text against OpenAI's library, and what comes back of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.bodies.read_signatures import read_signatures
from mypt_spec.bodies.signatures import compact, lost, write_signatures
from mypt_spec.bodies.strict_json import DefinitionsError
from tests.support.chat_shapes import typed_tools
from tests.support.harmony import library, theirs
from tests.support.maker import Maker, drawn
from tests.support.oracles import EXAMPLES

D = mypt_spec.dialect("harmony")
TURN = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]


class Speaker(Maker):
    """Says in definitions what TypeScript could take for more than a text."""

    def text(self, *, empty: int = 0) -> str:
        return self.choice(("Where.", "two\nlines", " a ", 'See "x".', "default: 3", "note: it", "// c"))  # fmt: skip


def tools(*, clean: bool) -> st.SearchStrategy[list[Any]]:
    return drawn(lambda random: readable_tools(Speaker(random, "harmony", clean=clean)))


def readable_tools(make: Maker) -> list[Any]:
    """Returns definitions whose text can be read."""
    while True:
        made = typed_tools(make)
        with suppress(DefinitionsError):
            read_signatures(write_signatures(made))
            return made


def function(schema: Any, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def field(schema: Any) -> dict[str, Any]:
    return function({"type": "object", "properties": {"n": schema}})


@settings(max_examples=EXAMPLES)
@given(tools(clean=False))
def test_text_is_that_of_the_library(given: list[Any]) -> None:
    (message, *_) = theirs({"messages": [], "tools": given})
    text = library().decode(library().render(message)[3:-1])
    head = "# Tools\n\n## functions\n\nnamespace functions {\n\n"
    assert head + write_signatures(given) == text


@given(tools(clean=True))
def test_all_comes_back_that_types_say(given: list[Any]) -> None:
    read = read_signatures(write_signatures(given))
    assert lost(given, read) == lost(read, given) == []


@given(tools(clean=False), st.text(alphabet='{}[]|/:?,\n ab"', max_size=3), st.data())
def test_what_is_read_is_written_so(given: list[Any], piece: str, data: st.DataObject) -> None:
    text = write_signatures(given)
    at, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    text = text[:at] + piece + text[min(end, at + 3) :]
    try:
        read = read_signatures(text)
    except DefinitionsError:
        return
    assert write_signatures(read) == text


def test_what_is_lost_is_said() -> None:
    for schema, names in [
        ({"type": "integer", "minimum": 1}, ['type "integer"', '"minimum"']),
        ({"anyOf": [{"type": "string"}]}, ['"anyOf"']),
        ({"type": "string", "enum": ["a", 1]}, ['"enum"']),
        ({"type": "string", "examples": ["a", 1]}, ['"examples"']),
        ({"type": "number", "examples": [1]}, ['"examples"', '"description"']),
        ({"type": "array", "items": {"type": "string", "description": "d"}}, ['"description"']),
        ({"type": "object", "additionalProperties": False}, ['"additionalProperties"']),
        ({"type": "string", "enum": ["1"], "default": 1}, ['"default"']),
        ({"type": "boolean", "const": True}, ['"const"']),
        ({"type": "string", "nullable": True, "description": ""}, []),
    ]:
        given = [field(schema)]
        assert lost(given, read_signatures(write_signatures(given))) == names, schema
    assert lost([{"name": "f", "strict": True}], [{"name": "f"}]) == ['"strict"']


@given(tools(clean=False))
def test_definitions_return_to_the_record(given: list[Any]) -> None:
    record = {"messages": TURN, "tools": given}
    episode, _ = D.check(record)
    assert episode is not None
    assert D.write(episode)["tools"] == given
    other, findings = D.parse(D.serialize(episode))
    assert (other, findings) == (episode, [])
    again = D.write(other)["tools"]
    assert write_signatures(again) == write_signatures(given)


def test_types_that_are_read_as_others_are_refused() -> None:
    for schema in ({"type": "string", "enum": ["a\n"]}, {"type": "string", "enum": ['a", b']}):
        _, findings = D.check({"messages": TURN, "tools": [function(schema)]})
        assert [f.code for f in findings] == ["MYP340"]


def test_numbers_are_those_of_the_library() -> None:
    values = [1e-5, -1.5e-5, 1e-6, 1e16, 1e15, 0.1, 2**64, -1, True, None, {"a": [1.5, "ü\n"]}]
    shown = '0.00001 -0.000015 1e-6 1e16 1000000000000000.0 0.1 18446744073709551616 -1 true null {"a":[1.5,"ü\\n"]}'  # fmt: skip
    assert " ".join(map(compact, values)) == shown
