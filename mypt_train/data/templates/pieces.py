"""Joins the templates of the pieces of chats, and tells which piece something of a chat is in.

Input: pieces, as chats.py learns them, and blocks and segments with their places in a record.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mypt_spec.encoder import Segment
from mypt_spec.episode import Message, Part
from mypt_spec.record_schema import WEIGHT, is_free_weight
from mypt_train.data.templates.template import Template

_MESSAGE = re.compile("/messages/([0-9]+)")

_FREE = "free"  # in place of a weight
Path = tuple[str | int | None, ...]


class PieceTemplate(NamedTuple):
    """The template of a piece, or of a chat, with the paths of its values.

    Paths of a piece count messages from its first one.
    """

    template: Template
    paths: tuple[Path, ...]


def weights_of_turns(
    messages: list[Any], starts: list[int], questions: list[int]
) -> list[tuple[Any, ...]]:
    """Returns the weights of the messages of the turn of each piece, and of the message before.

    Weights that are free are equal: a template takes them from the record.

    Pieces, and these of them that begin with a question, are those that `starts` begins.
    """
    weights = [message.get(WEIGHT) for message in messages]
    weights = [_FREE if is_free_weight(weight) else weight for weight in weights]
    if not any(weight is not None for weight in weights):
        return [()] * len(starts)
    bounds = [0, *[starts[n] for n in questions], len(weights)]
    turns = [tuple(weights[max(a - 1, 0) : b]) for a, b in pairwise(bounds)]  # a tag may stop one
    return [turns[bisect_right(questions, n)] for n in range(len(starts))]


def place_of(item: Message | Part) -> int:
    """Returns the number of the message of a record that a block was read from."""
    match = _MESSAGE.match(item.at.pointer)
    return int(match[1]) if match else 0


def moved(path: Path, by: int) -> Path:
    first = path[0]
    return (first + by, *path[1:]) if isinstance(first, int) else path


def join(parts: Sequence[PieceTemplate], starts: Sequence[int]) -> PieceTemplate:
    """Returns the templates of pieces as one; `starts` are the numbers of their first messages."""
    paths: list[Path] = []
    each: list[Template] = []
    for part, start in zip(parts, starts, strict=False):
        numbers = range(len(paths), len(paths) + len(part.paths))
        each.append(renumbered(part.template, numbers))
        paths += [moved(path, start) for path in part.paths]
    tags = Counter[str]()
    for template in each:
        tags.update(template.tags)
    parted = any(t.weights is not None for t in each)
    joined = Template(
        tuple(text for t in each for text in t.texts),
        np.concatenate([t.lengths for t in each]),
        np.concatenate([t.loss for t in each]),
        np.concatenate([t.ids for t in each]),
        tags,
        np.concatenate([t.owners for t in each]),
        np.concatenate([t.each_weight for t in each]) if parted else None,
        any(t.weighed for t in each),
    )
    return PieceTemplate(joined, tuple(paths))


def renumbered(template: Template, numbers: Sequence[int]) -> Template:
    """Returns a template whose values have other numbers."""
    number_of = [*numbers, -1]  # -1 stays
    texts = tuple(
        (
            number_of[value_number],
            tuple((before, number_of[number], how) for before, number, how in pieces),
            end,
        )
        for value_number, pieces, end in template.texts
    )
    owners = np.array([number_of[n] for n in template.owners], np.int64)
    return template._replace(texts=texts, owners=owners)


def owners_of(segments: Sequence[Segment], starts: list[int]) -> list[int]:
    """Returns the number of the piece of each segment, 0 for the head.

    A tag that closes a block has the place of the block, which an earlier piece may have begun.
    What has no place in messages, such as definitions of tools, is of what comes after it.
    """
    places = [_MESSAGE.match(segment.event.at.pointer) for segment in segments]
    out: list[int] = []
    now = waiting = 0
    for place in places:
        if place is None:
            waiting += 1
            continue
        now = max(now, bisect_right(starts, int(place[1])))
        out += [now] * (waiting + 1)
        waiting = 0
    return [*out, *[now] * waiting]
