"""Conversations by number, for comparisons with other libraries: the same ones in each run.

There is no shrinking: a failure names its number, and `conversation(shape, number)` makes it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

import mypt_spec
from tests.support.chat_shapes import Shape, chat
from tests.support.maker import Maker, Record
from tests.support.oracles import EXAMPLES


def conversation(shape: Shape, number: int, *, clean: bool = False, tags: bool = True) -> Record:
    """Returns the conversation of a number.

    A `clean` one has no finding at all, others may have warnings. Strings of JSON may spell whole
    `tags`, but for those of clean ones.
    """
    d = mypt_spec.dialect(shape.name)
    for again in count():
        random = Random(f"{shape.name} {number + again * 10**6}")
        record = chat(Maker(random, shape.name, clean=clean, tags=tags and not clean), shape)
        findings = d.check(record)[1]
        if not findings if clean else all(f.severity != "error" for f in findings):
            return record
    raise AssertionError


def conversations(
    shape: Shape, *, clean: bool = False, tags: bool = True
) -> Iterator[tuple[int, Record]]:
    """Yields as many conversations as oracles are asked about, with their numbers."""
    return ((n, conversation(shape, n, clean=clean, tags=tags)) for n in range(EXAMPLES))
