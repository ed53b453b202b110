"""Keeps findings that are accepted, by code, pointer, and a hash of the canonical episode.

So they stay known when data is shuffled, joined, cut into other shards or packed, and an edited
episode loses its exemption. Metadata is no part of an episode, nor of its hash.
"""

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

from mypt_cli.errors import UsageError
from mypt_cli.inputs import refuse_pipe
from mypt_lint.check.diagnostic import Diagnostic
from mypt_spec.bodies.strict_json import Fault, loads

VERSION = 1
_HEAD = "mypt-lint-baseline"
# Known wherever they are found: shards come and go.
_OF_THE_FILE = {"MYP009", "MYP012", "MYP013", "MYP112", "MYP113"}
_NEVER = {"MYP003", "MYP901"}  # damaged data, and faults of the linter
_NO_VALUE = {"MYP004", "MYP005"}  # to read such a line loses something, so its bytes are hashed


class Key(NamedTuple):
    """Identifies a known finding."""

    episode: str
    code: str
    pointer: str


def keys(findings: Iterable[Diagnostic], raw: bytes) -> list[Key | None]:
    """Returns the keys of the findings of one line; None for a finding that no baseline takes."""
    listed = list(findings)
    exact = any(item.finding.code in _NO_VALUE for item in listed)
    digest = _digest(raw.removesuffix(b"\r"), exact)
    return [
        None
        if (code := item.finding.code) in _NEVER
        else Key("" if code in _OF_THE_FILE else digest, code, item.finding.pointer)
        for item in listed
    ]


def _digest(raw: bytes, exact: bool) -> str:
    """Returns 32 hexadecimal digits."""
    data = raw
    if not exact:
        try:
            record = loads(raw.decode("utf-8-sig"))
        except (Fault, UnicodeDecodeError):
            pass
        else:
            data = json.dumps(_bare(record), sort_keys=True, ensure_ascii=False).encode(
                "utf-8", "surrogatepass"
            )
    return blake2b(data, digest_size=16).hexdigest()


def _bare(item: Any, *, inner: bool = False) -> Any:
    """Returns a record, or an item of one of its lists, without metadata."""
    if not isinstance(item, dict):
        return item
    bare = {key: value for key, value in item.items() if not key.startswith("_")}
    for key, value in bare.items() if not inner else ():
        if isinstance(value, list):
            bare[key] = [_bare(one, inner=True) for one in value]
    return bare


def read(path: str) -> frozenset[Key]:
    """Returns the keys in a baseline file. Raises UsageError for a missing or other file."""
    refuse_pipe(path)
    try:
        with open(path, encoding="utf-8") as lines:
            head = json.loads(next(lines, "null"))
            if not isinstance(head, dict) or _HEAD not in head:
                raise UsageError(
                    f"{path}: no baseline of mypt-lint; make one with --write-baseline {path}"
                )
            if head[_HEAD] != VERSION:
                raise UsageError(
                    f"{path}: a baseline of version {head[_HEAD]}, expected {VERSION}; write it "
                    "anew with --write-baseline"
                )
            return frozenset(
                Key(episode, *finding.split(" ", 1))
                for line in lines
                if line.strip()
                for episode, entries in [json.loads(line)]
                for finding in entries
            )
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such baseline; make one with --write-baseline {path}"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{path}: not a whole baseline ({error}); take it from version control, or write it "
            "anew"
        ) from None


def write(path: str, keys: Iterable[Key]) -> None:
    """Writes a baseline, sorted, one episode a line, so that version control shows what changed.

    Raises UsageError.
    """
    episodes: dict[str, list[str]] = {}
    for key in keys:
        episodes.setdefault(key.episode, []).append(f"{key.code} {key.pointer}")
    lines = [[episode, sorted(set(entries))] for episode, entries in sorted(episodes.items())]
    from mypt_cli.atomic import replacing

    try:
        with replacing(path) as out:
            for line in [{_HEAD: VERSION}, *lines]:
                out.write(json.dumps(line).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
