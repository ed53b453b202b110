"""The promises on other vocabularies: the grammar and the engine do not know which one it is.

One is small and of the form of GPT-2's. The others were made elsewhere: our ids are the library's,
the ids of text do not begin at 0, special tokens are among them and after them, and some tags of a
dialect are special tokens already.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from unittest import mock

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext.openai_public import r50k_pat_str

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.stream_parser import StreamParser
from mypt_spec.lexer import lex_ids
from mypt_spec.table import TEXT
from mypt_spec.tokenizer import batch
from mypt_spec.tokenizer.sources import read_vocabulary
from tests.support.allow_sets import check_allow_sets
from tests.support.decoding import DIALECTS, TOOLS, complete, generated, prompt
from tests.support.dialects import FEW
from tests.support.examples import either
from tests.support.foreign import KINDS, library, on, tekken
from tests.support.hostile import hostile
from tests.support.naive_mask import naive_mask
from tests.support.strategies import any_text, episodes
from tests.support.vocabulary import SIZE, path, small

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


def dialect(kind: str, name: str = "mypt") -> mypt_spec.Dialect:
    """A dialect on one of the vocabularies."""
    if kind == "tekken":
        return mypt_spec.dialect(name, vocabulary=tekken())
    return small(name) if kind == "small" else on(kind, name)


@cache
def decoder(kind: str, name: str) -> Decoder:
    return Decoder(dialect(kind, name), TOOLS)


@pytest.fixture(scope="module", autouse=True)
def engines_at_once() -> Iterator[None]:
    """Engines for large vocabularies are loaded before it pays."""
    with mock.patch.object(batch, "_WORTH", 0):
        yield


def naive_ids(text: str) -> list[int]:
    """Of all neighbours that make a token, those of the lowest rank are joined first, from the
    left.
    """
    ranks, ids = read_vocabulary(path()).ranks, list[int]()
    for piece in regex.findall(r50k_pat_str, text):
        parts = [bytes([byte]) for byte in piece.encode()]
        while pairs := [(ranks[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]:  # fmt: skip
            _, at = min(pairs)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        ids += [ranks[part] for part in parts]
    return ids


def check_ids(d: mypt_spec.Dialect, text: str, expected: list[int]) -> None:
    ids = d.tokenizer.encode(text)
    assert ids == expected
    assert all(i in d.tokenizer.ordinary for i in ids)
    assert d.tokenizer.decode(ids) == text
    joined, lengths = d.tokenizer.encode_batch([text, "", text])
    assert joined.tolist() == ids + ids
    assert lengths.tolist() == [len(ids), 0, len(ids)]


@given(any_text("mypt"))
def test_text_is_cut_as_the_ranks_say(text: str) -> None:
    check_ids(small("mypt"), text, naive_ids(text))


@pytest.mark.parametrize("kind", KINDS)
@given(WRITTEN)
def test_ids_are_those_of_the_library(kind: str, text: str) -> None:
    theirs = library(kind, as_text=True)  # as it always is here
    check_ids(on(kind), text, theirs.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("kind", ["small", "deepseek", "own"])
@settings(max_examples=either(24, 440))
@given(st.sampled_from(DIALECTS), st.data())
def test_round_trip_through_ids(kind: str, name: str, data: st.DataObject) -> None:
    d, usual = dialect(kind, name), mypt_spec.dialect(name)
    episode = data.draw(episodes(name))
    encoded = d.encode(episode)
    assert d.parse_ids(encoded.ids)[0] == episode
    assert d.tokenizer.decode(encoded.ids) == d.serialize(episode)
    tag_of = {i: tag for tag, i in usual.tokenizer.special.items()}
    tags = [tag_of[i] for i in usual.encode(episode).ids.tolist() if i in tag_of]
    others = [i for i in encoded.ids.tolist() if i not in d.tokenizer.ordinary]
    assert others == [d.tokenizer.special[tag] for tag in tags]


@pytest.mark.parametrize("name", DIALECTS)
@given(st.data())
def test_the_naive_mask_agrees(name: str, data: st.DataObject) -> None:
    d = small(name)
    episode = data.draw(episodes(name, clean=False))
    encoded, text = d.encode(episode), d.serialize(episode)
    ids, loss = naive_mask(name, text, meta=episode.meta, encode=naive_ids, first_id=SIZE + 1)
    assert encoded.ids.tolist() == ids
    assert encoded.loss.tolist() == loss


@pytest.mark.parametrize("kind", ["small", "deepseek", "own", "tekken"])
@given(hostile("mypt"))
def test_content_never_becomes_a_tag(kind: str, episode: mypt_spec.Episode) -> None:
    d = dialect(kind)
    ids = d.encode(episode).ids.tolist()
    usual = mypt_spec.dialect("mypt").encode(episode).ids.tolist()
    assert sum(i not in d.tokenizer.ordinary for i in ids) == sum(i > 50256 for i in usual)
    assert d.parse_ids(ids)[0] == episode
    assert min(ids) >= 10 or kind != "tekken", "its first ids are special tokens"
    parser = StreamParser(d)
    pieces = [piece for i in ids for piece in parser.push(i)] + parser.flush()
    events, _ = lex_ids(ids, d.table, d.tokenizer.decode_bytes, d.tokenizer.ordinary)
    assert [p.event.terminal for p in pieces if p.event.terminal != TEXT] == [
        e.terminal for e in events if e.terminal != TEXT
    ]


@given(any_text("mypt"), st.integers(0, 600))
def test_special_tokens_that_no_tag_uses_mean_nothing(text: str, i: int) -> None:
    d = on("own")
    known = {*d.tokenizer.ordinary, *d.tokenizer.special.values()}
    _, findings = d.parse_ids([*d.tokenizer.encode(text), i])
    assert (i in known) == ("MYP503" not in [f.code for f in findings])


@pytest.mark.parametrize("kind", ["small", "own"])
def test_the_validator_has_the_same_allow_sets(kind: str) -> None:
    check_allow_sets(decoder(kind, "mypt"))


@pytest.mark.parametrize("kind", ["small", "own"])
@pytest.mark.parametrize("name", FEW)
def test_every_generation_ends_legal(name: str, kind: str) -> None:
    made = decoder(kind, name)
    before = made.ids_of(prompt(name))
    known = {*made.dialect.tokenizer.ordinary, *made.dialect.tokenizer.special.values()}
    for seed in range(either(2, 30)):
        state = made.start(before, max_new_tokens=120)
        ids = [*before, *generated(made, state, random.Random(seed))]
        assert set(ids) <= known, "a special token that no tag uses is never offered"
        assert complete(made, ids), made.dialect.tokenizer.decode(ids)
