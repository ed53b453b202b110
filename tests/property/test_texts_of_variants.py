"""Formats that give a text the ids and masks of another one, so that nobody needs to choose."""

from __future__ import annotations

from itertools import starmap

import pytest

import mypt_spec
from mypt_records.shapes.text import distinct, parsed
from mypt_spec.dialect import families
from mypt_spec.encoder import MASKS as NAMES
from tests.support.examples import either
from tests.support.families import ALL

MASKS = either(["model", "calls"], [*NAMES])
BASES = {name: base for name in families() if (base := mypt_spec.dialect(name).table.texts_of)}
OTHERS = {  # the same text has another mask: an empty thought, or one that is text elsewhere
    "qwen3.5-small": "qwen3.5", "kimi-k2.7": "kimi-k2.5",
}  # fmt: skip


def texts(name: str) -> list[str]:
    read = map(ALL[name].dialect.read, ALL[name].records(either(1, 100)))
    return [ALL[name].dialect.serialize(episode) for episode, _ in read if episode is not None]


def encodings(name: str, text: str) -> list[list[tuple[str | int, int]]] | None:
    """Returns (tag or id, loss) of each token by every mask; None where the text is illegal."""
    dialect = mypt_spec.dialect(name)
    episode, _, _ = parsed(name, text)
    if episode is None:
        return None
    tags = {number: tag for tag, number in dialect.table.special.items()}
    encoded = [dialect.encode(episode, mask=mask) for mask in MASKS]
    return [
        [(tags.get(int(i), int(i)), int(w)) for i, w in zip(e.ids, e.loss, strict=True)]
        for e in encoded
    ]


def common(name: str, base: str) -> list[bool]:
    """Returns of each text that is legal in both whether it is the same there."""
    pairs = [
        (encodings(name, text), encodings(base, text)) for n in (name, base) for text in texts(n)
    ]
    return list(starmap(lambda one, two: one == two, (p for p in pairs if None not in p)))


@pytest.mark.parametrize(("name", "base"), BASES.items(), ids=[*BASES])
def test_a_text_is_the_same_in_both(name: str, base: str) -> None:
    same = common(name, base)
    assert same
    assert all(same)
    assert distinct([base, "mypt", name]) == (base, "mypt")


@pytest.mark.parametrize(("name", "base"), OTHERS.items(), ids=[*OTHERS])
def test_where_masks_differ_both_are_named(name: str, base: str) -> None:
    assert not all(common(name, base))
    assert distinct([base, name]) == (base, name)
