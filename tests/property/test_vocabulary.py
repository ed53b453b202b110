"""The promises on another vocabulary: the grammar and the engine do not know which one it is."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext.openai_public import r50k_pat_str

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_spec.tokenizer.sources import read_vocabulary
from tests.property.test_decode_exhaustive import compare_with_validator
from tests.property.test_injection import hostile
from tests.support.decoding import DIALECTS, TOOLS, complete, generated, prompt
from tests.support.naive_mask import naive_mask
from tests.support.strategies import any_text, episodes
from tests.support.vocabulary import SIZE, path, small

TAGS = mypt_spec.dialect("mypt").table.special


@cache
def decoder(name: str) -> Decoder:
    return Decoder(small(name), TOOLS)


def naive_ids(text: str) -> list[int]:
    """Of all neighbours that make a token, those of the lowest rank are joined first, from the
    left.
    """
    ranks = read_vocabulary(path()).ranks
    out: list[int] = []
    for piece in regex.findall(r50k_pat_str, text):
        parts = [bytes([byte]) for byte in piece.encode()]
        while True:
            pairs = [
                (ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks
            ]
            if not pairs:
                break
            _, at = min(pairs)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        out += [ranks[part] for part in parts]
    return out


@given(any_text("mypt"))
def test_text_is_cut_as_the_ranks_say(text: str) -> None:
    tokenizer = small("mypt").tokenizer
    ids = tokenizer.encode(text)
    assert ids == naive_ids(text)
    assert all(i < SIZE for i in ids)
    assert tokenizer.decode(ids) == text
    joined, lengths = tokenizer.encode_batch([text, "", text])
    assert joined.tolist() == ids + ids
    assert lengths.tolist() == [len(ids), 0, len(ids)]


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_round_trip_through_ids(name: str, data: st.DataObject) -> None:
    d = small(name)
    episode = data.draw(episodes(name))
    usual, encoded = mypt_spec.dialect(name).encode(episode), d.encode(episode)
    assert d.parse_ids(encoded.ids)[0] == episode
    shift = d.tokenizer.pad - mypt_spec.dialect(name).tokenizer.pad
    tags = [i + shift for i in usual.ids.tolist() if i >= 50257]
    assert [i for i in encoded.ids.tolist() if i >= SIZE] == tags


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_the_naive_mask_agrees(name: str, data: st.DataObject) -> None:
    d = small(name)
    episode = data.draw(episodes(name, clean=False))
    encoded, text = d.encode(episode), d.serialize(episode)
    ids, loss = naive_mask(name, text, meta=episode.meta, encode=naive_ids, first_id=SIZE + 1)
    assert encoded.ids.tolist() == ids
    assert encoded.loss.tolist() == loss


@given(hostile("mypt"))
def test_content_never_becomes_a_tag(episode: mypt_spec.Episode) -> None:
    d = small("mypt")
    usual, found = mypt_spec.dialect("mypt").encode(episode), d.encode(episode)
    assert sum(i >= SIZE for i in found.ids.tolist()) == sum(i >= 50257 for i in usual.ids.tolist())
    assert d.parse_ids(found.ids)[0] == episode


def test_the_validator_has_the_same_allow_sets() -> None:
    compare_with_validator(decoder("mypt"))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_generation_ends_legal(name: str) -> None:
    made = decoder(name)
    before = made.ids_of(prompt(name))
    for seed in range(30):
        state = made.start(before, max_new_tokens=120)
        ids = [*before, *generated(made, state, random.Random(seed))]
        assert complete(made, ids), made.dialect.tokenizer.decode(ids)
