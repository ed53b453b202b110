"""The toy dialect, and a strategy of its records."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from mypt_spec.damage.near_miss import near_miss
from mypt_spec.dialect import load
from tests.toy.adapter import ADAPTER

FOLDER = Path(__file__).parent
D = load(FOLDER, ADAPTER)


def _is_clean(text: str) -> bool:
    tag = D.table.literals.search(text) or near_miss(text, D.table)
    return bool(text.strip()) and tag is None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(_is_clean)
ANSWERS = st.fixed_dictionaries(
    {"role": st.just("answer"), "content": TEXTS}, optional={"work": TEXTS, "_note": st.integers()}
)
TURNS = st.tuples(st.fixed_dictionaries({"role": st.just("ask"), "content": TEXTS}), ANSWERS)
RECORDS = st.lists(TURNS, min_size=1, max_size=3).map(
    lambda turns: {"messages": [message for turn in turns for message in turn]}
)
