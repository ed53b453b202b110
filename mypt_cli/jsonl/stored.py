"""Finds the objects of a store that a URL means: one, those below a folder, or those that match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import MANIFEST, is_json, packing
from mypt_cli.jsonl.records import holds_records
from mypt_cli.store import find
from mypt_cli.urls import is_pattern

if TYPE_CHECKING:
    from mypt_cli.jsonl.left_out import LeftOut


def stored(path: str, endings: tuple[str, ...], left_out: LeftOut | None) -> list[Source]:
    """Returns the sources that a URL names, as `paths.expand` does for local paths.

    Patterns of `left_out` count from the folder that the URL names. Raises UsageError, also for a
    folder that is a prepared data set.
    """
    store, entries = find(path)
    itself = len(entries) == 1 and store.name(entries[0].key) == path
    pattern = is_pattern(path)
    if not itself and not pattern:
        if any(entry.key == MANIFEST for entry in entries):
            raise UsageError(
                f"{path}: is a prepared data set; mypt-train --data reads it from there. Copy it "
                "here to check it or to look at it"
            )
        entries = [entry for entry in entries if _matches(entry.key, endings)]
    if not itself and left_out is not None:
        entries = [e for e in entries if not left_out.excludes(e.key, store.name(e.key))]
    names = [(store.name(entry.key), entry) for entry in entries]
    sources = [Source(name, packing(name), e.size, etag=e.etag) for name, e in names]
    if not itself and not pattern:
        sources = [s for s in sources if not is_json(s.path) or holds_records(s)]
    if not sources:
        why = left_out.line() if left_out else ""
        why = why or "no file to read; name the objects themselves"
        raise UsageError(f"{path}: nothing to read; {why}")
    return sources


def _matches(key: str, endings: tuple[str, ...]) -> bool:
    hidden = any(part.startswith(".") for part in key.split("/")[:-1])
    return key.lower().endswith(endings) and not hidden
