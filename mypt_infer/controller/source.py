"""Defines a source of ids: whatever draws the next id of a conversation.

A model under a decoder is one (`model_source`); a list of ids is another, for tests and
demonstrations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable


class Source(Protocol):
    """A context of ids that grows, and draws the next id.

    No id is given to it twice, so that a model can keep its KV cache; only what a call that raised
    was given is given again.
    """

    def append(self, ids: Sequence[int]) -> None:
        """Appends ids to the context."""
        ...

    def next(self, left: int) -> int:
        """Draws the next id, and appends it; `left` ids may be drawn in this turn.

        May raise any exception, which ends the turn.
        """
        ...

    def truncate(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A source that says how many ids it has; then nothing is truncated that it does not have.

    Without it, a source is told to truncate after each failure.
    """

    @property
    def held(self) -> int:
        """Returns the number of ids of its context."""
        ...


@runtime_checkable
class Forbidding(Protocol):
    """A source that can be told not to open certain blocks in this conversation."""

    def forbid(self, kinds: frozenset[str]) -> None:
        """Opens no block of these kinds from now on; other kinds are no longer forbidden."""
        ...


class NoRoom(RuntimeError):
    """No legal ending fits into what is left of the turn."""


class ScriptEnd(RuntimeError):
    """A script has no further id."""


class Script:
    """Draws the ids of a list, whatever the context is; `context` is what was appended."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = iter(ids)
        self.context: list[int] = []

    @property
    def held(self) -> int:
        return len(self.context)

    def append(self, ids: Sequence[int]) -> None:
        self.context += ids

    def next(self, left: int = 0) -> int:
        """Returns the next id of the list. Raises ScriptEnd after the last one."""
        token = next(self._ids, None)
        if token is None:
            raise ScriptEnd("the script has no further id")
        self.context.append(token)
        return token

    def truncate(self, length: int) -> None:
        del self.context[length:]
