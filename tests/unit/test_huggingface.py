"""Against Hugging Face: a chat template that says the same gives the same ids, and its generation blocks the same mask."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import bench.data
import mypt_spec
from mypt_train.encoded import Encoder
from mypt_train.options import Options
from tests.huggingface import encode, tokenizer
from tests.strategies import records

pytest.importorskip("transformers")

D = mypt_spec.dialect("mypt")
ENCODER = Encoder(Options(pack=False))


@pytest.fixture(scope="module")
def theirs() -> Any:
    return tokenizer()


def comparable(record: dict[str, Any]) -> bool:
    """No tag in content, which their template cannot tell from a tag; and no null, which they drop from a message."""
    if any("content" in m and m["content"] is None for m in record["messages"]):
        return False
    return not D.table.literals.search(json.dumps(record, ensure_ascii=False))


def agree(theirs: Any, record: dict[str, Any]) -> None:
    found = encode(theirs, [record])
    (sample,) = ENCODER.record(record).samples
    assert found["input_ids"][0] == sample.ids.tolist()
    assert np.array_equal(found["assistant_masks"][0], sample.mask)


@given(records("mypt").filter(comparable))
@settings(max_examples=100)
def test_same_ids_and_masks_on_odd_records(theirs: Any, record: dict[str, Any]) -> None:
    agree(theirs, record)


def test_same_ids_and_masks_on_a_thousand_episodes(theirs: Any) -> None:
    rng = random.Random(1)
    made = [record | {"system": "S"} for record in (bench.data.record(rng) for _ in range(1000))]
    for record in made:
        agree(theirs, record)
