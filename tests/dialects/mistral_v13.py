"""Legal records of mistral-v13."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.dialects.mistral import tool_chats
from tests.support.strategies import Record

NAME = "mistral-v13"


def records(clean: bool = True) -> st.SearchStrategy[Record]:
    return tool_chats(NAME, clean, thoughts=True)
