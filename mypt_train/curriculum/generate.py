"""Makes records of a phase of a dialect, from a seed.

Input: dialect, phase, number, seed and split. Output: an iterator of JSON records that the dialect
reads without findings. The message with which a user begins a turn belongs to one split by its
hash, whatever the seed and the phase, so no prompt of the held-out split is ever trained on.
"""

import hashlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import mypt_spec
from mypt_train.curriculum import turns, workspace
from mypt_train.curriculum.turns import Phase, Turn
from mypt_train.curriculum.world import LANGUAGES, Draw

SPLITS = ("train", "heldout")
CURRICULA: dict[str, dict[int, Phase]] = {"mypt": turns.PHASES, "mypt-3b": workspace.PHASES}
# Of 256 messages of users, how many are held out.
_HELD_OUT = 26
# The most episodes in a row that were made before.
_TRIES = 3000


class CurriculumError(ValueError):
    """The episodes asked for cannot be made; the message says which can."""


def split_of(content: str) -> str:
    """Returns the split that a user's message belongs to, "train" or "heldout", by its hash."""
    return "heldout" if hashlib.sha256(content.encode()).digest()[0] < _HELD_OUT else "train"


def episodes(
    phase: int, n: int, *, seed: int = 0, split: str = "train", dialect: str = "mypt"
) -> Iterator[dict[str, Any]]:
    """Yields `n` different records of a phase; about half of them are German.

    Equal arguments give equal records, and a smaller `n` gives the beginning of a larger one.
    Phases are those of `grammar/<dialect>/SPEC.md` (MyPT section 9; phase 3B makes two of its own).
    Raises CurriculumError for an unknown dialect, phase or split, and, while iterating, when the
    phase has fewer than `n` episodes.
    """
    if dialect not in CURRICULA:
        raise CurriculumError(f"dialect is {dialect!r}, expected {' or '.join(CURRICULA)}")
    phases = CURRICULA[dialect]
    if phase not in phases:
        raise CurriculumError(f"phase is {phase}, expected 1 to {len(phases)}")
    if split not in SPLITS:
        raise CurriculumError(f"split is {split!r}, expected {' or '.join(SPLITS)}")
    if n < 0:
        raise CurriculumError(f"n is {n}, expected 0 or more")
    return _episodes(dialect, phase, n, seed, split)


def _episodes(dialect: str, phase: int, n: int, seed: int, split: str) -> Iterator[dict[str, Any]]:
    chance = Random(f"{dialect} curriculum {phase} {split} {seed}")
    recipe, roles = CURRICULA[dialect][phase], mypt_spec.dialect(dialect).adapter.SCHEMA.aliases
    draws = [Draw(chance, language) for language in LANGUAGES]
    digests: set[bytes] = set()
    tries = 0
    while len(digests) < n:
        record = _episode(recipe, draws[chance.randrange(len(draws))], split)
        for message in record["messages"]:
            message["role"] = roles.get(message["role"], message["role"])
        key = hashlib.sha256(json.dumps(record).encode()).digest()[:16]
        if key in digests:
            tries += 1
            if tries == _TRIES:
                raise CurriculumError(
                    f"phase {phase} has hardly more than {len(digests)} episodes in the split "
                    f"{split!r}; {n} were asked for"
                )
            continue
        digests.add(key)
        tries = 0
        yield record


def _episode(recipe: Phase, draw: Draw, split: str) -> dict[str, Any]:
    messages: Turn = []
    turn: Turn = []
    for _ in range(draw.pick(recipe.turns)):
        make = draw.pick(recipe.makes + recipe.later * bool(turn))
        before, turn = turn, make(draw, turn)
        while split_of(turn[0]["content"]) != split:
            turn = make(draw, before)
        messages += turn
    plain = not any(m["role"] == "assistant_toolcall" for m in messages) and draw.often(0.7)
    system = draw.data[recipe.tools] if recipe.tools and not plain else draw.data["system"]
    return {"system": system, "messages": messages, "language": draw.data["language"]}
