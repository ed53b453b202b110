"""Writes a grammar folder to begin with: a small chat format that passes all checks."""

import re
from collections.abc import Mapping
from pathlib import Path

from mypt_cli.errors import UsageError

_STARTER = Path(__file__).parent / "starter"


def begin(folder: Path) -> list[Path]:
    """Writes the files of a new dialect, named as its folder; returns their paths.

    Raises UsageError when the folder holds something, or its name is none for a dialect.
    """
    name, texts = dialect_name(folder), dict[str, str]()
    for file in sorted(_STARTER.iterdir()):
        text = file.read_text(encoding="utf-8").replace("FOLDER", folder.absolute().name)
        texts[file.name] = text.replace("NAME", name)
    return write(folder, texts)


def dialect_name(folder: Path) -> str:
    """Returns the name of the dialect in a new folder. Raises UsageError as `begin` does."""
    name = folder.absolute().name.replace("_", "-").lower()
    if not re.fullmatch("[a-z0-9]+([-.][a-z0-9]+)*", name):
        raise UsageError(f"{folder}: a dialect is named by letters, digits, hyphens and dots")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists; name a new folder")
    return name


def write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Writes texts by file name, the grammar under the name of the folder; returns the paths."""
    paths: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            grammar = name.endswith(".lark")
            paths.append(folder / (f"{folder.absolute().name}.lark" if grammar else name))
            paths[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None
    return paths
