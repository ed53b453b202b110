"""Where sampled ids come from.

A model behind a decoder is one; a list of ids is another, for tests and demonstrations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable


class Source(Protocol):
    """A context of ids that grows, and draws the next one.

    What it has taken in is never given to it again.
    """

    def append(self, ids: Sequence[int]) -> None:
        """Take ids behind all that it has."""
        ...

    def next(self, left: int) -> int:
        """Draw the next id and take it in;

        `left` ids may be drawn in this turn. May raise anything; the turn then ends.
        """
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` ids."""
        ...


@runtime_checkable
class Forbidding(Protocol):
    """A source that draws tags by what may stand somewhere, and can be told of a block that this
    conversation does not want.
    """

    def bar(self, kinds: frozenset[str]) -> None:
        """From now on open no block of these kinds, of the dialect's; of others again."""
        ...


class NoRoom(RuntimeError):
    """What a source raises when no legal ending fits into what is left of the turn."""


class ScriptEnd(RuntimeError):
    """A script has no further id."""


class Script:
    """Draws the ids of a list, whatever the context is; `context` is what it has taken in."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = iter(ids)
        self.context: list[int] = []

    def append(self, ids: Sequence[int]) -> None:
        self.context += ids

    def next(self, left: int = 0) -> int:
        token = next(self._ids, None)
        if token is None:
            raise ScriptEnd("the script has no further id")
        self.context.append(token)
        return token

    def truncate(self, length: int) -> None:
        del self.context[length:]
