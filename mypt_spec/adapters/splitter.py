"""States how records are split for the fast paths, so that no adapter has to know of these.

Most records of a file differ only in values of which rules see no more than whether they are clean.
A splitter takes these values out of a record. What remains is its skeleton: records with equal
skeletons have the same findings or none, as long as the values are clean. So the linter judges each
skeleton once (mypt_lint/fast/adapter_scan.py), and `mypt-prepare` encodes what is constant in it
once (mypt_train/data/templates/).

`splitter(adapter)` returns the splitter of an adapter, or None if `SCHEMA` describes its records:
then the linter makes one from that (mypt_lint/fast/schema_splitter.py). For a class of adapters
whose `check`, `read` or `validate` see more of a record than its `SCHEMA` says, register a function
that returns a splitter. `Splitter` itself is one that splits no record, so each is judged by
itself.
"""

from collections.abc import Hashable, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

from mypt_spec.adapters.base import Adapter

METADATA_DEPTH = 6


class Split(NamedTuple):
    """The values of a record, besides texts, that any clean value can replace.

    - `notes`: values of metadata, and of keys that may be null, of which rules see nothing.
    - `values`: the arguments of each call, of which rules see only whether their strings are clean,
      and whether they fit their tool. `quoted` is how many quotes those have that are in texts.
    - `tools`: the definitions of tools, as JSON; None without any. Of these, rules see no more than
      whether they are clean by themselves, beside one question and its answer.
    - `called`: the names of the tools that are called.
    - `tagged`: texts with tags; of these, the skeleton has the kinds of blocks.
    """

    notes: Sequence[Any] = ()
    values: Sequence[Any] = ()
    quoted: int = 0
    tools: bytes | None = None
    called: Sequence[str] = ()
    tagged: Sequence[str] = ()


class Splits(NamedTuple):
    """Lines as skeletons, and the values that any clean value can replace.

    - `keys`: the skeleton of each line; None for a line that only the checker can judge. A skeleton
      tells how many strings there are besides those in `more`, never more than a line has.
    - `texts`: the texts of all lines, one line after another; `ends` is how many there are up to
      the end of each line. Rules see only whether they are clean; they may not be blank.
    - `more`: the other values of lines that have some, by the number of the line.
    - `records`: each line as the splitter decoded it, if it splits records of messages.
    """

    keys: list[Hashable | None]
    texts: list[str]
    ends: list[int]
    more: dict[int, Split]
    records: Sequence[Any] = ()


class Piece(NamedTuple):
    """A piece of a skeleton: a record that is clean where it is, and what has its strings."""

    record: dict[str, Any] | None  # None: the piece is judged with the pieces after it
    content: Any


class WholeRecord(Exception):
    """Only the whole record tells what rules find: it has no skeleton."""


class Splitter:
    """Splits lines into skeletons and values; belongs to one thread."""

    tools_body = ""  # the kind of the text that definitions of tools are written as
    tools_as_json = False  # whether this is JSON of which nothing is lost if tools are plain

    def split(self, lines: list[bytes]) -> Splits:
        """Returns what lines split into."""
        return Splits([None] * len(lines), [], [0] * len(lines), {})

    def keys(self, key: Any) -> list[bytes]:
        """Returns the key of each piece of a skeleton: what decides about the findings in it."""
        raise NotImplementedError

    def pieces(self, raw: bytes) -> list[Piece]:
        """Returns the pieces of a line, one for each key. Where all are clean, the line is."""
        raise NotImplementedError

    def learn(self, raw: bytes) -> bool:
        """Counts strings of keys like this line's from now on. Returns whether any were new."""
        return False

    def tools_text(self, tools: Any) -> str:
        """Returns what an Episode says of the tools of a record that is clean."""
        raise NotImplementedError


@singledispatch
def splitter(adapter: Adapter, opt_out: str = "") -> Splitter | None:
    """Returns a new splitter of the records of an adapter, None if its `SCHEMA` describes them.

    A record that has the key `opt_out` is not split.
    """
    return None


def shallow(value: Any, depth: int = METADATA_DEPTH) -> None:
    """Raises WholeRecord for metadata that is nested too deep."""
    if value.__class__ in (dict, list):
        if not depth:
            raise WholeRecord
        for inner in value.values() if value.__class__ is dict else value:
            shallow(inner, depth - 1)
