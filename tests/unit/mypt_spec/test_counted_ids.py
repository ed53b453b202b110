"""Ids of calls that are their numbers in the conversation: records, their own ids, and the column."""

from __future__ import annotations

from typing import Any

import pytest

import mypt_spec
from mypt_spec.dialect import families, load
from mypt_spec.table import SpecError

D = mypt_spec.dialect("kimi-k2")


def called(*calls: tuple[str, str]) -> dict[str, Any]:
    """Returns a message with calls: ids, "" for none, and names."""
    return {
        "role": "assistant",
        "tool_calls": [
            ({"id": ident} if ident else {})
            | {"type": "function", "function": {"name": name, "arguments": {}}}
            for ident, name in calls
        ],
    }


def result(ident: str, **more: str) -> dict[str, Any]:
    return {"role": "tool"} | ({"tool_call_id": ident} if ident else {}) | more | {"content": "1"}


def record(*messages: dict[str, Any]) -> dict[str, Any]:
    end = {"role": "assistant", "content": "Done."}
    return {"messages": [{"role": "user", "content": "Hi"}, *messages, end]}


OWN = record(
    called(("a", "f"), ("b", "g")),
    result("b"),
    result("a", name="f"),
    called(("a", "f")),
    result("a"),
)
NONE = record(called(("", "f"), ("", "g")), result(""), result(""))
SOME = record(called(("", "f"), ("b", "g")), result("b"), result(""))
LIKE = record(called(("", "f"), ("functions.f:0", "g")), result("functions.f:0"), result(""))
SPELLED = record(called(("functions.f:0", "f")), result("functions.f:0"))


@pytest.mark.parametrize(
    ("given", "numbers"),
    [(OWN, ["f:0", "g:1", "g:1", "f:0", "f:2", "f:2"]), (NONE, ["f:0", "g:1", "f:0", "g:1"]),
     (SOME, ["f:0", "g:1", "g:1", "f:0"]), (SPELLED, ["f:0", "f:0"]),
     (LIKE, ["f:0", "g:1", "g:1", "f:0"])],
)  # fmt: skip
def test_calls_and_results_have_numbers(given: dict[str, Any], numbers: list[str]) -> None:
    episode, findings = D.check(given)
    assert episode is not None
    assert not findings
    text = D.serialize(episode)
    assert [
        part.partition("<")[0].partition("\n")[0] for part in text.split("functions.")[1:]
    ] == numbers
    back, findings = D.parse(text)
    assert back is not None
    assert [*findings, *D.validate(back)] == []
    assert D.serialize(D.read(D.write(back))[0]) == text
    canonical = D.write(episode)
    assert D.read(canonical)[0] == episode
    assert D.write(episode) == canonical


def test_own_ids_come_back_and_others_are_those_of_the_template() -> None:
    written = D.write(D.read(OWN)[0])["messages"]
    assert [m.get("tool_call_id") for m in written] == [
        m.get("tool_call_id") for m in OWN["messages"]
    ]
    assert written[1]["tool_calls"][1]["id"] == "b"
    assert written[3]["name"] == "f"
    assert D.write(D.read(NONE)[0])["messages"][2]["tool_call_id"] == "functions.f:0"


def test_a_result_must_answer_a_call() -> None:
    _, findings = D.check(record(called(("a", "f")), result("b")))
    assert findings[0].code == "MYP310"


def test_only_ids_are_counted(tmp_path: Any) -> None:
    for file in families()["kimi-k2"].iterdir():
        text = file.read_text(encoding="utf-8")
        text = text.replace(
            '{ attr = "id", pattern = "[0-9]+", counted',
            '{ attr = "key", pattern = "[0-9]+", counted',
        )
        (tmp_path / file.name).write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match='"counted" is true or false, of the attr "id"'):
        load(tmp_path)
