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
    folder_name = folder.absolute().name
    name = folder_name.replace("_", "-").lower()
    if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name):
        raise UsageError(f"{folder}: a dialect is named by letters, digits and hyphens")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists; name a new folder")
    paths: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(_STARTER.iterdir()):
            text = file.read_text(encoding="utf-8").replace("FOLDER", folder_name)
            paths.append(folder / (f"{folder_name}.lark" if file.suffix == ".lark" else file.name))
            paths[-1].write_text(text.replace("NAME", name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None
    return paths
