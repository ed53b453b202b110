"""Says what a kind of store must do, and how its faults are named."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["missing", "changed", "denied", "refused", "transient"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An object: its key, its bytes, and its ETag.

    The ETag is another one when the content is another one.
    """

    key: str
    size: int
    etag: str


class Fault(Exception):
    """A store did not do what it was asked to.

    `kind` is "transient" where it may do so when it is asked again. `why` is for people, and holds
    no text of the store's, which may hold credentials.
    """

    def __init__(self, kind: Kind, why: str = "") -> None:
        super().__init__(why or kind)
        self.kind: Kind = kind
        self.why = why


class Backend(Protocol):
    """A bucket. Keys have `/` between their parts. All methods raise Fault."""

    def entries(self, folder: str) -> Iterable[Entry]:
        """Yields all objects below a folder ("" for all), in any order."""

    def head(self, key: str) -> Entry:
        """Returns what is known of an object."""

    def get(self, key: str, start: int, end: int | None) -> tuple[Entry, bytes | memoryview]:
        """Returns the bytes from `start` to before `end`, and what is known of the object."""
