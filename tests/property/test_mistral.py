"""The dialects of Mistral: ids against mistral-common, on its own vocabulary."""

from __future__ import annotations

from typing import Any

import pytest

import mypt_spec
from mypt.own_format.check import check
from mypt_infer.decode.prompt import opening
from tests.dialects import mistral, mistral_v13
from tests.support.conversations import conversations
from tests.support.examples import either
from tests.support.mistral import EFFORTS, V11, VERSIONS, on_tekken, their_ids
from tests.support.vocabulary import texts

# The tags that mistral-common knows, and that a text may spell.
SPELLED = ("</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "<SPECIAL_40>", "[TOOL_CALLS]", "<pad>")
SPELLED += ("[ARGS]", "[/THINK]", "[CALL_ID]")
SHAPES = {shape.name: shape for shape in (mistral.SHAPE, mistral_v13.SHAPE)}
SHAPES["mistral-small4-thinking"] = mistral_v13.SHAPE


def ids_of(d: mypt_spec.Dialect, record: dict[str, Any]) -> list[int]:
    episode, _ = d.read(record)
    assert episode is not None
    ids: list[int] = d.encode(episode).ids.tolist()
    assert d.parse_ids(ids) == (episode, [])
    return ids


def chat(text: str, value: str) -> dict[str, Any]:
    """A record with a text in all of its messages and definitions, and a value in its arguments."""
    call = {
        "id": "abcdefgh1",
        "type": "function",
        "function": {"name": "f", "arguments": {value: value}},
    }
    schema = {"type": "object", "properties": {text: {"type": "string", "description": text}}}
    tool = {"name": "f", "description": text, "parameters": schema}
    return {
        "messages": [
            {"role": "system", "content": text},
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "abcdefgh1", "content": text},
            {"role": "assistant", "content": text},
        ],
        "tools": [{"type": "function", "function": tool}],
    }  # fmt: skip


@pytest.mark.parametrize("name", [*VERSIONS, "mistral-v11", *either((), tuple(EFFORTS))])
def test_ids_of_chats(name: str) -> None:
    """With tools, calls and results, thoughts, and calls without results at the end.

    JSON spells no tag, which is escaped here, and not there. Version 15 has a system prompt, and no
    empty thoughts.
    """
    d = on_tekken(name)
    for number, record in conversations(SHAPES.get(name, mistral.SHAPE), tags=False):
        if name in EFFORTS and record["messages"][0]["role"] != "system":
            record["messages"].insert(0, {"role": "system", "content": "S"})
        for message in record["messages"]:
            if name in EFFORTS and message.get("reasoning_content") == "":
                del message["reasoning_content"]
            if message["role"] == "assistant" and message.get("content") is not None:
                message["content"] = message["content"].rstrip(" ") or "a"  # as mistral-common does
        assert ids_of(d, record) == their_ids(record, name), number


def test_version_11_is_a_folder_of_ones_own() -> None:
    assert [result for result in check(V11) if result.fine is not True] == []


@pytest.mark.parametrize("name", VERSIONS)
def test_a_tag_in_json_is_escaped(name: str) -> None:
    """mistral-common writes it as it is; both are ordinary ids."""
    record = chat("[INST]", "[/INST]")
    d = on_tekken(name)
    ids, theirs = ids_of(d, record), their_ids(record, name)
    assert ids != theirs
    assert "\\u005bINST]" in d.tokenizer.decode(ids)
    ordinary = d.tokenizer.ordinary
    assert [i for i in ids if i not in ordinary] == [i for i in theirs if i not in ordinary]


@pytest.mark.parametrize("name", VERSIONS)
def test_definitions_are_kept_as_they_are(name: str) -> None:
    """mistral-common adds an empty description, and leaves out what it does not know."""
    d, record = on_tekken(name), chat("a", "b")
    del record["tools"][0]["function"]["description"]
    assert ids_of(d, record) != their_ids(record, name)
    record["tools"][0]["function"] = {"name": "f", "description": ""} | record["tools"][0][
        "function"
    ]
    assert ids_of(d, record) == their_ids(record, name)


def test_tools_are_before_the_last_question() -> None:
    """A conversation that goes on has them earlier: legal, but no record says so, and a finding does."""
    d = mypt_spec.dialect("mistral")
    text = '<s>[AVAILABLE_TOOLS][{"name": "f"}][/AVAILABLE_TOOLS]' + "[INST]u[/INST]a</s>" * 2
    episode, findings = d.parse(text)
    assert findings == []
    assert [(f.code, f.severity) for f in d.validate(episode)] == [("MYP258", "warning")]
    with pytest.raises(ValueError, match="not before the last question"):
        d.write(episode)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("text", [*texts(), *SPELLED, "a" + "".join(SPELLED)])
def test_no_text_becomes_a_special_id(name: str, text: str) -> None:
    """In any field; what it spells is the ids of its letters, for them and for us."""
    record, plain = chat(f"{text}.", f"{text}."), chat("a", "b")
    if name != "mistral":
        record["messages"][2]["reasoning_content"] = f"{text}."
        plain["messages"][2]["reasoning_content"] = "a"
    d = on_tekken(name)
    ids, usual = ids_of(d, record), ids_of(d, plain)
    ordinary = d.tokenizer.ordinary
    assert [i for i in ids if i not in ordinary] == [i for i in usual if i not in ordinary]
    if not d.table.literals.search(text):
        assert ids == their_ids(record, name)


@pytest.mark.parametrize("name", VERSIONS)
def test_spaces_at_the_end_of_an_answer(name: str) -> None:
    """mistral-common leaves them out; here no text is changed in silence."""
    chat = {"messages": [{"role": "user", "content": "u "}, {"role": "assistant", "content": "a "}]}
    cut = {"messages": [chat["messages"][0], {"role": "assistant", "content": "a"}]}
    d = on_tekken(name)
    assert their_ids(chat, name) == their_ids(cut, name) == ids_of(d, cut)
    assert ids_of(d, chat) != ids_of(d, cut)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("opened", [False, True])
def test_a_prompt_ends_with_the_tag_that_opens_the_answer(name: str, opened: bool) -> None:
    d = mypt_spec.dialect(name)
    ids, _ = [50257, 50262, 17250], [50263]
    assert opening(d, ids + [50263] * opened) == [50263] * (not opened)
