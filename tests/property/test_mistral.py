"""The dialects of Mistral: ids against mistral-common, on its own vocabulary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import mypt_spec
from mypt_infer.decode.prompt import opening
from tests.dialects import mistral
from tests.support.mistral import on_tekken, their_ids
from tests.support.vocabulary import texts

# The tags that mistral-common knows, and that a text may spell.
SPELLED = ("</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "<SPECIAL_20>", "[TOOL_CALLS]", "<pad>")


def ids_of(d: mypt_spec.Dialect, record: dict[str, Any]) -> list[int]:
    episode, _ = d.read(record)
    assert episode is not None
    ids: list[int] = d.encode(episode).ids.tolist()
    assert d.parse_ids(ids) == (episode, [])
    return ids


@settings(max_examples=300)
@given(mistral.records(clean=False))
def test_ids_of_chats(record: dict[str, Any]) -> None:
    for message in record["messages"]:
        if message["role"] == "assistant":  # one that mistral-common does not shorten, nor refuse
            message["content"] = message["content"].rstrip(" ") or "a"
    chat = {"messages": [{k: m[k] for k in ("role", "content")} for m in record["messages"]]}
    assert ids_of(on_tekken("mistral"), record) == their_ids(chat)


@pytest.mark.parametrize("text", [*texts(), *SPELLED, "a" + "".join(SPELLED)])
def test_no_text_becomes_a_special_id(text: str) -> None:
    """In any field; what it spells is the ids of its letters, for them and for us."""
    messages = [{"role": role, "content": f"{text}."} for role in ("system", "user", "assistant")]
    d = on_tekken("mistral")
    ids = ids_of(d, {"messages": messages})
    assert ids == their_ids({"messages": messages})
    tags = [i for i in ids if i not in d.tokenizer.ordinary]
    assert d.tokenizer.decode(tags) == "<s>[SYSTEM_PROMPT][/SYSTEM_PROMPT][INST][/INST]</s>"


def test_spaces_at_the_end_of_an_answer() -> None:
    """mistral-common leaves them out; here no text is changed in silence."""
    chat = {"messages": [{"role": "user", "content": "u "}, {"role": "assistant", "content": "a "}]}
    cut = {"messages": [chat["messages"][0], {"role": "assistant", "content": "a"}]}
    d = on_tekken("mistral")
    assert their_ids(chat) == their_ids(cut) == ids_of(d, cut)
    assert ids_of(d, chat) != ids_of(d, cut)


@pytest.mark.parametrize("opened", [False, True])
def test_a_prompt_ends_with_the_tag_that_opens_the_answer(opened: bool) -> None:
    d = mypt_spec.dialect("mistral")
    ids, _ = [50257, 50260, 17250], [50261]
    assert opening(d, ids + [50261] * opened) == [50261] * (not opened)
