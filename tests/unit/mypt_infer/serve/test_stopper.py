"""A text to stop at is found wherever the pieces of an answer end."""

from __future__ import annotations

import pytest

from mypt_infer.serve.deltas import Stopper

STOPS = ["END", "\n\n"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ab END c", "ab "), ("a\n\nEND", "a"), ("a\nb EN", "a\nb EN"), ("END", ""), ("EEND", "E")],
)
def test_every_way_to_cut_an_answer_gives_the_same_text(text: str, expected: str) -> None:
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            stopper = Stopper(STOPS)
            pieces = [text[:first], text[first:second], text[second:]]
            told = [stopper.push(piece) for piece in pieces] + [stopper.push("", last=True)]
            assert "".join(told) == expected, pieces
            assert stopper.stopped == (expected != text)
