"""Many texts encoded at once have the ids that tiktoken makes of each.

That holds whichever library cuts them.
"""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from fuzz.driver import run
from mypt_spec.tokenizer import batch
from mypt_spec.tokenizer.tokenizer import gpt2
from tests.support.pieces import PIECES, SPACES

STRATEGY = st.lists(
    st.lists(PIECES | st.sampled_from(SPACES) | st.text(max_size=20), max_size=40).map("".join),
    min_size=1,
    max_size=20,
)
BETWEEN = 50257
engines = [batch.engine, cache(batch._Simple)]


def check(texts: list[str]) -> None:
    texts = [text for text in texts if batch.BETWEEN not in text]
    for choose in engines:
        quick = choose(gpt2(), BETWEEN, batch.GPT2_PATTERN)
        doubtful = quick.doubtful(batch.BETWEEN.join(texts))
        sure = [text for i, text in enumerate(texts) if i not in doubtful]
        expected = [i for text in sure for i in [*gpt2().encode_ordinary(text), BETWEEN]]
        assert quick.encode(batch.BETWEEN.join(sure)).tolist() == expected[:-1], quick.library


if __name__ == "__main__":
    run("batch")
