"""Says whether a file is what it was: its SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(path: str | Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal, read in pieces."""
    with open(path, "rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
