"""Vocabularies that were made elsewhere: our ids are the library's, and all promises hold on them.

Their ids of text do not begin at 0, special tokens are among them and after them, and some tags of
a dialect are special tokens already.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from functools import cache
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.stream_parser import StreamParser
from mypt_spec.lexer import lex_ids
from mypt_spec.table import TEXT
from mypt_spec.tokenizer import batch
from tests.property.test_decode_exhaustive import compare_with_validator
from tests.property.test_injection import hostile
from tests.support.decoding import DIALECTS, TOOLS, complete, generated, prompt
from tests.support.examples import examples
from tests.support.foreign import KINDS, library, on, tekken
from tests.support.strategies import any_text, episodes

pytest.importorskip("tokenizers", reason="reads tokenizer.json")

# Characters that every library knows: their kinds differ where one library's Unicode is newer.
KNOWN = st.characters(
    exclude_categories=["Cs", "Cn"],
    max_codepoint=0x1FAFF,
).filter(lambda c: bool(unicodedata.ucd_3_2_0.name(c, "")) or c.isascii())
SPELLED = [
    tag for _, front, back in KINDS.values() for tag in (*front, *back)
] + ["<|im_", "start|>", "'s", "'LL", "  ", "\r\n", "\n\n", "123", " 4567", "\t", "é", "字"]  # fmt: skip
WRITTEN = st.lists(st.text(KNOWN, max_size=6) | st.sampled_from(SPELLED), max_size=8).map("".join)


@pytest.fixture(scope="module", autouse=True)
def engines_at_once() -> Iterator[None]:
    """Engines for large vocabularies are loaded before it pays."""
    with mock.patch.object(batch, "_WORTH", 0):
        yield


@pytest.mark.parametrize("kind", KINDS)
@given(WRITTEN)
def test_ids_are_those_of_the_library(kind: str, text: str) -> None:
    tokenizer, theirs = on(kind).tokenizer, library(kind)
    theirs.encode_special_tokens = True  # text stays text, as it always does here
    ids = tokenizer.encode(text)
    assert ids == theirs.encode(text, add_special_tokens=False).ids
    assert all(i in tokenizer.ordinary for i in ids)
    assert tokenizer.decode(ids) == text
    joined, lengths = tokenizer.encode_batch([text, "", text])
    assert joined.tolist() == ids + ids
    assert lengths.tolist() == [len(ids), 0, len(ids)]


@pytest.mark.parametrize("kind", ["deepseek", "own"])
@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_round_trip_through_ids(name: str, kind: str, data: st.DataObject) -> None:
    d = on(kind, name)
    episode = data.draw(episodes(name))
    encoded = d.encode(episode)
    assert d.parse_ids(encoded.ids)[0] == episode
    assert d.tokenizer.decode(encoded.ids) == d.serialize(episode)
    usual = mypt_spec.dialect(name)
    tag_of = {i: tag for tag, i in usual.tokenizer.special.items()}
    tags = [
        d.tokenizer.special[tag_of[i]] for i in usual.encode(episode).ids.tolist() if i in tag_of
    ]
    assert [i for i in encoded.ids.tolist() if i not in d.tokenizer.ordinary] == tags


@pytest.mark.parametrize("kind", ["deepseek", "own"])
@given(hostile("mypt"))
def test_content_never_becomes_a_tag(kind: str, episode: mypt_spec.Episode) -> None:
    d = on(kind)
    found = d.encode(episode).ids.tolist()
    usual = mypt_spec.dialect("mypt").encode(episode).ids.tolist()
    assert sum(i not in d.tokenizer.ordinary for i in found) == sum(i > 50256 for i in usual)
    assert d.parse_ids(found)[0] == episode
    parser = StreamParser(d)
    pieces = [piece for i in found for piece in parser.push(i)] + parser.flush()
    events, _ = lex_ids(found, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    assert [p.event.terminal for p in pieces if p.event.terminal != TEXT] == [
        e.terminal for e in events if e.terminal != TEXT
    ]


@given(any_text("mypt"), st.integers(0, 600))
def test_special_tokens_that_no_tag_uses_mean_nothing(text: str, i: int) -> None:
    d = on("own")
    known = {*d.tokenizer.ordinary, *d.tokenizer.special.values()}
    _, findings = d.parse_ids([*d.tokenizer.encode(text), i])
    assert (i in known) == ("MYP503" not in [f.code for f in findings])


@cache
def decoder(name: str) -> Decoder:
    return Decoder(on("own", name), TOOLS)


def test_the_validator_has_the_same_allow_sets() -> None:
    compare_with_validator(decoder("mypt"))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_generation_ends_legal(name: str) -> None:
    made = decoder(name)
    before = made.ids_of(prompt(name))
    known = {*made.dialect.tokenizer.ordinary, *made.dialect.tokenizer.special.values()}
    for seed in range(20):
        state = made.start(before, max_new_tokens=120)
        ids = [*before, *generated(made, state, random.Random(seed))]
        assert set(ids) <= known, "a special token that no tag uses is never offered"
        assert complete(made, ids), made.dialect.tokenizer.decode(ids)


@settings(max_examples=examples(30))
@given(hostile("mypt"))
def test_ids_of_tekken(episode: mypt_spec.Episode) -> None:
    d = mypt_spec.dialect("mypt", vocabulary=tekken())
    ids = d.encode(episode).ids.tolist()
    assert min(ids) >= 10
    assert d.parse_ids(ids)[0] == episode
