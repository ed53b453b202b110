"""Compiling has a bound of work that is named where it is reached, and can be stopped from outside."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("llguidance")

from mypt_infer.decode import Decoder, Response, ResponseError
from mypt_infer.decode.base.tools import SchemaFault
from mypt_infer.decode.base.work import watched
from mypt_infer.decode.compile import nfa
from mypt_infer.decode.llguidance import answers
from tests.support.build import function
from tests.support.decoding import prompt
from tests.support.examples import either


def strings(count: int) -> dict[str, Any]:
    keys = [f"field_{i}" for i in range(count)]
    properties = {key: {"type": "string"} for key in keys}
    return {"type": "object", "properties": properties, "required": keys, "additionalProperties": False}  # fmt: skip


LONG: dict[str, dict[str, Any]] = {
    "members": strings(either(1200, 3000)),
    "items": {"type": "array", "items": {"type": "integer"}, "minItems": 4000},
    "letters": {"type": "string", "minLength": 8000},
}


@pytest.mark.parametrize("schema", LONG.values(), ids=LONG)
def test_a_long_answer_is_found(schema: dict[str, Any]) -> None:
    of = Decoder("gabgpt", response=Response(schema=schema))
    state = of.start(prompt("gabgpt"))
    assert 400 < of.minimum(state) < 100_000


def test_a_search_that_is_cut_says_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST", 5)
    with pytest.raises(ResponseError, match="in 5 steps of a search, which is its bound"):
        Decoder("gabgpt", response=Response(regex="([ab]c|d[ef]){40}"))


def values(count: int) -> dict[str, Any]:
    words = ("".join(word) for word in itertools.product("abcdefgh", repeat=8))
    return function("t", {"a": {"enum": list(itertools.islice(words, count))}}, required=["a"])


def test_very_many_values_are_read_by_llguidance() -> None:
    assert not Decoder("mypt", [values(3000)], engine="auto").engine.tables_only
    assert Decoder("mypt", [values(30)], engine="auto").engine.tables_only


def test_tables_name_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nfa, "MOST", 1000)
    with pytest.raises(SchemaFault, match="tool 't': its tables would have more than 1,000 states"):
        Decoder("mypt", [function("other"), values(1500)], engine="table")
    assert not Decoder("mypt", [values(1501)], engine="auto").engine.tables_only


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [values(997)], "engine": "table"},
        {"response": Response(schema=strings(1003))},
        {"response": Response(regex="([ab]c|d[ef]){400}")},
    ],
    ids=["values", "members", "search"],
)
def test_a_compile_is_stopped_from_outside(options: dict[str, Any]) -> None:
    def look() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError), watched(look):
        Decoder("gabgpt" if "response" in options else "mypt", **options)
