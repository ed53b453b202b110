"""Decides which files in folders are not read.

These are files that the project's own commands write, files that are excluded, and files that git
ignores. A file or folder that is named by itself is always read, even if patterns from above it
would leave it out; but a baseline, which is never data.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.names import is_prepared
from mypt_cli.words import counted
from mypt_spec.compiled.toml import load

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_IGNORES = ".gitignore"
_HEAD = 1 << 20  # bytes read of a first line
EXCLUDED, IGNORED, PREPARED = "excluded", "ignored by git", "prepared data set"
_BASELINE = "baseline of mypt-lint"
_PROJECT_FILES = Path(__file__).with_name("project_files.toml")


@dataclass
class LeftOut:
    """The files that are left out, and why.

    `exclude` holds folders with patterns that count from them, written as in .gitignore; `git` says
    whether .gitignore counts. `why` collects what was left out, by path; a folder ends with a
    slash. With a list as `unreadable`, what cannot be read does not end the search.
    """

    exclude: Sequence[tuple[str, Sequence[str]]] = ()
    git: bool = True
    why: dict[str, str] = field(default_factory=dict)
    unreadable: list[str] | None = None

    def unread(self, error: UsageError) -> None:
        """Collects why something in a folder cannot be read, or raises it."""
        if self.unreadable is None:
            raise error
        self.unreadable.append(str(error))

    def below(self, root: str) -> Walk:
        """Returns the judge of paths below a folder that is named by itself."""
        return Walk(self, root)

    def excludes(self, key: str, name: str) -> bool:
        """Returns whether a pattern leaves out an object of a store, and notes it by its name."""
        patterns = tuple(pattern for _, group in self.exclude for pattern in group)
        if not patterns or not _spec(patterns).match_file(key):
            return False
        self.why[name] = EXCLUDED
        return True

    def is_baseline(self, path: str) -> bool:
        """Returns whether a file that is named by itself is a baseline, and notes it."""
        if not os.path.isfile(path) or _project_file(path) != _BASELINE:
            return False
        self.why[path] = _BASELINE
        return True

    def line(self, hint: str = "") -> str:
        """Returns a line that says how many were left out and why, with a hint; "" for none."""
        if not self.why:
            return ""
        folders = sum(path.endswith("/") for path in self.why)
        counts = ((len(self.why) - folders, "file"), (folders, "folder"))
        summary = " and ".join(counted(n, noun) for n, noun in counts if n)
        reasons = ", ".join(f"{n} {why}" for why, n in sorted(Counter(self.why.values()).items()))
        advice = "naming one reads it" if {*self.why.values()} - {_BASELINE} else "it is not data"
        return f"{summary} left out ({reasons}); {hint}{advice}."


class Walk:
    """Judges the paths below one folder."""

    def __init__(self, rules: LeftOut, root: str) -> None:
        self.rules = rules
        folder = os.path.abspath(root)
        self.exclude = [
            (base, spec)
            for base, patterns in rules.exclude
            if patterns and not _check(spec := _spec(tuple(patterns)), base, folder + os.sep)
        ]
        self.top = folder
        self.specs: dict[str, GitIgnoreSpec | None] = {}  # of folders with a .gitignore
        if rules.git:
            in_git = (base for base in _upwards(folder) if os.path.exists(f"{base}/.git"))
            above = next(in_git, "")  # the folder of the repository
            if above and not self._ignored(folder + os.sep, above):
                self.top = above

    def leaves_out(self, path: str, *, folder: bool) -> bool:
        """Returns whether a file or folder is not to be read, and notes why."""
        reason = self._reason(os.path.abspath(path) + (os.sep if folder else ""), path, folder)
        if reason:
            self.rules.why[path + ("/" if folder else "")] = reason
        return bool(reason)

    def _reason(self, full: str, path: str, folder: bool) -> str:
        if any(_check(spec, base, full) for base, spec in self.exclude):
            return EXCLUDED
        if self.rules.git and self._ignored(full, self.top):
            return IGNORED
        if folder:
            return PREPARED if is_prepared(path) else ""
        return _project_file(path)

    def _ignored(self, full: str, top: str) -> bool:
        """Returns whether the .gitignore files from `top` down to a path ignore it.

        The nearest that says anything decides.
        """
        for base in _upwards(os.path.dirname(full.rstrip(os.sep))):
            if not base.startswith(top):
                break
            if base not in self.specs:
                self.specs[base] = _gitignore(base)
            is_ignored = _check(self.specs[base], base, full)
            if is_ignored is not None:
                return is_ignored
        return False


def _project_file(path: str) -> str:
    """Returns what a file is that a command of the project has written, by its first line.

    It is empty for any other file.
    """
    try:
        with open(path, "rb") as stream:
            first = json.loads(stream.readline(_HEAD))
    except (OSError, ValueError, RecursionError):
        return ""
    keys = set(first) if isinstance(first, dict) else set()
    rows = load(_PROJECT_FILES)["file"]
    return next((row["what"] for row in rows if keys.issuperset(row["keys"])), "")


def _upwards(folder: str) -> Iterator[str]:
    """Yields a folder and all above it, the nearest first."""
    yield folder
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def _gitignore(folder: str) -> GitIgnoreSpec | None:
    try:
        with open(os.path.join(folder, _IGNORES), encoding="utf-8", errors="replace") as lines:
            return _spec(tuple(lines))
    except OSError:
        return None


def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


def _check(spec: GitIgnoreSpec | None, base: str, full: str) -> bool | None:
    """Returns whether patterns leave out a path below their folder; None where they do not say."""
    name = os.path.relpath(full, base).replace(os.sep, "/")
    if spec is None or name.startswith(".."):
        return None
    return spec.check_file(name + "/" * full.endswith(os.sep)).include
