"""Reads manual pages as documents: roff in, plain text out.

Input: a folder as /usr/share/man. Output: the text of each page, by its name and section. Debian's
packages of pages that the judged queries ask for are named in `bench/judged/README.md`.
"""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

_FONT = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\s[-+]?\d|\\[&|^%:/,]")
_CHARS = {
    r"\-": "-",
    r"\(aq": "'",
    r"\(cq": "'",
    r"\(oq": "'",
    r"\(dq": '"',
    r"\e": "\\",
    r"\ ": " ",
    r"\(em": "-",
    r"\(bu": "-",
}


def plain(source: str) -> str:
    """Returns the text of a manual page, without its macros: good enough to search."""
    lines = []
    for line in source.splitlines():
        if line.startswith(('.\\"', "'\\\"", "..")):
            continue
        if line.startswith((".", "'")):
            macro, _, rest = line[1:].strip().partition(" ")
            line = (
                f"\n{rest}"
                if macro in ("SH", "SS", "Sh", "Ss")
                else ""
                if macro in ("TH", "Dd", "Dt", "Os", "so", "de", "ds", "nr", "if", "ie", "el")
                else rest
            )
        for spelled, char in _CHARS.items():
            line = line.replace(spelled, char)
        lines.append(_FONT.sub("", line).replace('"', ""))
    return "\n".join(lines)


def pages(root: Path, wanted: set[str], most: int) -> dict[str, str]:
    """Returns the texts of pages, by names such as `ls.1`: those wanted, and others to make `most`.

    Links and pages that only name another page are left out. The others are the same each time.
    """
    files: dict[str, Path] = {}
    for folder in sorted(root.glob("man[1-9]*")):
        for file in sorted(folder.glob("*.gz")):
            if not file.is_symlink():
                files[file.name[:-3]] = file
    names = sorted(files)
    random.Random(1).shuffle(names)
    names.sort(key=lambda name: name not in wanted)
    out: dict[str, str] = {}
    for name in names:
        source = gzip.decompress(files[name].read_bytes()).decode("utf-8", "replace")
        if len(out) < most and len(source) >= 400 and not source.startswith(".so "):
            out[name] = plain(source)
    return out
