"""Writes a grammar folder to begin with: a small chat format that passes all checks."""

from __future__ import annotations

import re
from pathlib import Path

from mypt_cli.errors import UsageError

_STARTER = Path(__file__).parent / "starter"


def begin(folder: Path) -> list[Path]:
    """Writes the files of a new dialect, named as its folder; returns their paths.

    Raises UsageError when the folder holds something, or its name is none for a dialect.
    """
    name = folder.absolute().name.replace("_", "-").lower()
    if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name):
        raise UsageError(f"{folder}: a dialect is named by letters, digits and hyphens")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is here already; name a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write(folder, file, name) for file in sorted(_STARTER.iterdir())]
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None


def _write(folder: Path, file: Path, name: str) -> Path:
    """Writes a file of the starter, with the names of the dialect and of its folder in it."""
    folder_name = folder.absolute().name
    path = folder / (f"{folder_name}.lark" if file.suffix == ".lark" else file.name)
    text = file.read_text(encoding="utf-8").replace("FOLDER", folder_name).replace("NAME", name)
    path.write_text(text, encoding="utf-8")
    return path
