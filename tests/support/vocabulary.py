"""A small vocabulary in the place of GPT-2's, learnt from the examples."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import mypt_spec
from mypt_spec.episode import events_of
from mypt_spec.table import TEXT
from mypt_spec.tokenizer.vocabulary import write_ranks
from mypt_train.curriculum.bpe import learn

ROOT = Path(__file__).parents[2]
SIZE = 380  # ids of text


@cache
def texts() -> tuple[str, ...]:
    """All texts of the examples."""
    d = mypt_spec.dialect("mypt")
    lines = [
        line
        for path in sorted((ROOT / "examples").glob("phase*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    episodes = [d.read(json.loads(line))[0] for line in lines]
    return tuple(
        event.text
        for e in episodes
        if e is not None
        for event in events_of(e.messages, d.table)
        if event.terminal == TEXT
    )


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def path() -> Path:
    """The file of the vocabulary."""
    file = Path(folder().name) / "small.tiktoken"
    file.write_bytes(write_ranks(learn(texts(), SIZE)))
    return file


def small(name: str) -> mypt_spec.Dialect:
    """A dialect on the small vocabulary."""
    return mypt_spec.dialect(name, vocabulary=path())
