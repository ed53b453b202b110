"""Legal records of mistral."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.dialects.chatml import chats
from tests.support.strategies import Record

NAME = "mistral"


def records(clean: bool = True) -> st.SearchStrategy[Record]:
    return chats(NAME, clean, empty=False)
