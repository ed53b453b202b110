"""What `mypt-export` writes for servers, against transformers, xgrammar and llguidance.

`nox -s exports` compares 500 chats a dialect.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_train.export.tokenizer_file import padding
from tests.support.chats import EXAMPLES, chats, cut_short, joins, spells
from tests.support.huggingface import tokenizer

NAMES = mypt_spec.dialects()
pytest.importorskip("transformers")
few = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    deadline=None,
)


@cache
def theirs(name: str) -> Any:
    return tokenizer(mypt_spec.dialect(name))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few
def test_the_template_gives_our_ids_and_mask(name: str, data: st.DataObject) -> None:
    d = mypt_spec.dialect(name)
    drawn = data.draw(chats(name, clean=data.draw(st.booleans())))
    if drawn is None:
        return
    record, episode = drawn
    if spells(d, (padding(d),), record) or joins(d, episode):
        return
    found = theirs(name).apply_chat_template(
        record["messages"],
        tools=record.get("tools"),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    encoded = d.encode(episode)
    assert theirs(name).decode(found["input_ids"]) == d.serialize(episode)
    assert found["input_ids"] == encoded.ids.tolist()
    if not cut_short(d, episode):
        assert np.array_equal(found["assistant_masks"], encoded.loss)
