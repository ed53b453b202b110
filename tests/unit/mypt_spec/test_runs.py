"""Texts that are encoded together: whose token is which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mypt_spec
from mypt_spec.tokenizer.runs import encode_run

TOKENIZER = mypt_spec.dialect("mypt").tokenizer
# Letters of one to four bytes, and pieces that join into one token with their neighbours.
PIECES = [
    "a",
    "}",
    "\n",
    "\n\n",
    " ",
    "}\n",
    "Grüße",
    "é",
    "世界",
    "\U0001f600",
    "e\u0301",
    "x" * 40,
]


def naive(texts: list[str]) -> list[tuple[int, int]]:
    """Returns each id of the joined texts with the number of the text that has its first byte."""
    owners = [number for number, text in enumerate(texts) for _ in text.encode()]
    at, pairs = 0, []
    for token in TOKENIZER.encode("".join(texts)):
        pairs.append((owners[at], token))
        at += TOKENIZER.length(token)
    return pairs


def owned(texts: list[str]) -> list[tuple[int, int]]:
    run = list(enumerate(texts))
    return [(number, token) for number, ids in encode_run(run, TOKENIZER) for token in ids]


@pytest.mark.parametrize(
    "texts",
    [
        ["世界", "}", "\n"],
        ["é" * 30, "\n", "a"],
        ["a", "\n", "é" * 30],
        ["\U0001f600"],
        ["}", "\n"] * 3,
    ],
)
def test_a_token_belongs_to_the_text_in_which_it_begins(texts: list[str]) -> None:
    assert owned(texts) == naive(texts)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
def test_it_does_so_for_any_texts(texts: list[str]) -> None:
    assert owned(texts) == naive(texts)
