"""Reads TOML: tables of the package from their copies as JSON, which take no time to parse.

A line of `toml.txt`, beside this, is the SHA-256 of a text and what is in it. A start reads about
20 files; one that was changed since, or is the user's, is parsed.
"""

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

COPIES = Path(__file__).with_name("toml.txt")


@cache
def _copies() -> dict[str, str]:
    lines = COPIES.read_text(encoding="utf-8").splitlines() if COPIES.exists() else []
    return {digest: data for digest, _, data in (line.partition(" ") for line in lines)}


def copy_of(text: str) -> Any:
    """Returns the data in a text of TOML that has a copy; None for another."""
    copy = _copies().get(sha256(text.encode()).hexdigest())
    return None if copy is None else json.loads(copy)


def loads(text: str) -> dict[str, Any]:
    """Returns the data in a text of TOML. Raises ValueError, and RecursionError."""
    data: dict[str, Any] | None = copy_of(text)
    if data is not None:
        return data
    import tomllib

    return tomllib.loads(text)


def load(path: Path) -> dict[str, Any]:
    """Returns the data of a file. Raises OSError too."""
    return loads(path.read_text(encoding="utf-8"))
