"""Pieces of text that tokenizers cut in ways of their own."""

from __future__ import annotations

from hypothesis import strategies as st

SPACES = [
    " ",
    "\n",
    "\t",
    "\r\n",
    "\x0b",
    "\x1c",
    "\x85",
    "\xa0",
    "\u2003",
    "\u2028",
    "\u3000",
    "\u200b",
    "\0",
    "  ",
    "   ",
    "\n\n\n",
]
PIECES = st.sampled_from(
    [
        *SPACES,
        "a",
        "word",
        "'ll",
        "'",
        "1",
        "12",
        "é",
        "日本",
        "…",
        "「",
        "🙂",
        "-",
        "<myPT_user>",
        "e\u0301",
    ]
)
