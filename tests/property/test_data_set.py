"""The fast rules of the data set find the same as a plain comparison."""

from __future__ import annotations

import json
from typing import Any
from unicodedata import normalize
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_lint.check.checker import Checker
from mypt_lint.dataset import compare
from mypt_lint.dataset.compare import first_ends, within
from mypt_lint.dataset.fingerprints import nfc, plain
from mypt_lint.dataset.passages import first_near, passages, signatures
from mypt_lint.dataset.passages import words as hashed

LETTERS = st.text(st.sampled_from("aab \u0301\u00c9\n"), max_size=8)
MARKS = st.sampled_from("e\u0301\u0323\u0344\u0f73\u0f71\u1100\u1161\u05b0x \u00e9\u1ebf\u093c")


@given(
    st.text(st.sampled_from("abc"), max_size=60),
    st.sets(st.text(st.sampled_from("abc"), min_size=1, max_size=5), max_size=60),
)
def test_names_end_where_they_end(text: str, names: set[str]) -> None:
    expected = {name: text.find(name) + len(name) for name in names if name in text}
    assert first_ends(text, names) == expected
    with patch.object(compare, "_FEW", 2):
        assert first_ends(text, names) == expected
    long = {name * 300 for name in names}
    assert first_ends(text * 300, names | long) == {
        name: (text * 300).find(name) + len(name) for name in names | long if name in text * 300
    }


@given(st.text(MARKS, max_size=100) | st.text(max_size=100))
def test_nfc_is_nfc(text: str) -> None:
    assert nfc(text) == normalize("NFC", text)


@given(
    st.lists(st.tuples(LETTERS, st.lists(LETTERS, max_size=30), LETTERS), min_size=1, max_size=6)
)
def test_what_no_text_before_it_mentions(turns: list[tuple[str, list[str], str]]) -> None:
    messages: list[dict[str, Any]] = []
    for said, documents, cited in turns:
        messages += [
            {"role": "user", "content": said},
            {"role": "assistant_toolcall", "name": "f", "arguments": {"of": [{"doc_id": d} for d in documents]}},
            {"role": "toolresult", "name": "f", "content": said},
            {"role": "assistant", "content": "A", "cite": cited},
        ]  # fmt: skip
    d = mypt_spec.dialect("mypt")
    episode, _ = d.read({"system": "S", "messages": messages})
    assert episode is not None
    expected, before = [], ""
    for message in episode.messages:
        for part in message.parts:
            values = (
                [item["doc_id"] for item in json.loads(part.text)["of"]]
                if part.kind == "toolcall"
                else [part.text] if part.kind == "cite" else []
            )  # fmt: skip
            expected += [
                part.at.pointer for v in values if plain(v) and plain(v) not in plain(before)
            ]
        before += "\n".join(["", *[part.text for part in message.parts]])
    assert [f.pointer for f in within(episode, Checker(d))] == expected


WORDS = st.lists(st.sampled_from(["a", "bc", "12", "d\u00e9", "\u4e16", "x.y", ""]), max_size=60)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_a_text_is_hashed_by_itself(texts: list[list[str]]) -> None:
    """Which texts are hashed with it changes nothing; nor do punctuation and white space."""
    lines = [plain(" ".join(words)) for words in texts]
    together, spaced = hashed(lines), hashed([plain(" ; ".join(words)) for words in texts])
    for some, alike in ((signatures(together), signatures(spaced)), (together, spaced)):
        for here, there in zip(some, alike, strict=False):
            assert here is there or np.array_equal(here, there)
    for i, line in enumerate(lines):
        alone = hashed([line])
        assert np.array_equal(signatures(alone)[0], signatures(together)[i])
        for all_of, one in ((together, alone), (passages(together, 3), passages(alone, 3))):
            part = all_of.values[all_of.bounds[i] : all_of.bounds[i + 1]]
            assert np.array_equal(part, one.values)
            assert len(set(part.tolist())) <= len(part)


@given(st.data())
def test_records_are_alike_in_any_order(data: st.DataObject) -> None:
    """A record is like the first one that is the same, and never like another."""
    bases = [[f"w{i}{j}" for j in range(40)] for i in range(3)]
    numbers = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=9))
    texts = [" ".join(bases[n]) for n in numbers]
    first = first_near(signatures(hashed(texts)))
    assert first.tolist() == [numbers.index(n) for n in numbers]
