"""Defines a source of ids: whatever draws the next id of a conversation.

A model under a decoder is one (`model_source`); a list of ids is another, for tests and
demonstrations. A `Feeder` keeps the ids of a source equal to what the model sees of a history.
The source reports how many ids it has, so the next draw repeats whatever failed, even halfway.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from mypt_infer.controller.history import History


@runtime_checkable
class Source(Protocol):
    """A context of ids that grows, and draws the next id.

    It gets each id once, so that a model can keep its KV cache; only the ids of a call that raised
    an exception are repeated. `truncate` is called with a length below `held`.
    """

    @property
    def held(self) -> int:
        """Returns the number of ids of its context."""
        ...

    def append(self, ids: Sequence[int]) -> None:
        """Appends ids to the context."""
        ...

    def next(self, left: int) -> int:
        """Draws and appends the next of at most `left` ids; an exception ends the turn."""
        ...

    def truncate(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        ...


@runtime_checkable
class Forbidding(Protocol):
    """A source that can be told not to open certain blocks in this conversation."""

    def forbid(self, kinds: frozenset[str]) -> None:
        """Opens no block of these kinds from now on; other kinds are no longer forbidden."""
        ...


class NoRoom(RuntimeError):
    """No legal ending fits into the remaining tokens of the turn."""


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


class Feeder:
    """Sends a source the ids of a history that it does not have yet."""

    def __init__(self, source: Source) -> None:
        if not isinstance(source, Source):
            members = ("append", "next", "truncate", "held")
            lacks = ", ".join(name for name in members if not hasattr(source, name))
            raise TypeError(f"{type(source).__name__} is not a source of ids: it lacks {lacks}")
        self.source = source
        # How many ids the source has taken; those before `history.unchanged` are up to date.
        self._length = 0

    def draw(self, history: History, remaining: int) -> int:
        """Returns the source's next id, after giving it all that the model is to see.

        Raises what the source raises.
        """
        source, ids, length = self.source, history.context(), 0
        same = min(history.unchanged, self._length)
        try:
            if source.held > same:
                source.truncate(same)
            source.append(ids[min(same, source.held) :])
            length = len(ids)
            token = int(source.next(remaining))
            length += 1
        finally:
            if length:  # else what the source has taken is unknown
                # If the turn does not keep the drawn id, it lowers `unchanged` again.
                history.unchanged = self._length = length
        return token
