"""Finds the files that a command's arguments name: files, folders, patterns, standard input."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mypt_cli.errors import UsageError, unreadable
from mypt_cli.jsonl.blocks import STDIN, Source
from mypt_cli.jsonl.names import JSON, MANIFEST, PACKED, SUFFIXES, is_json, packing
from mypt_cli.jsonl.records import holds_records
from mypt_cli.urls import address, is_pattern

if TYPE_CHECKING:
    from mypt_cli.jsonl.left_out import LeftOut, Walk


def expand(
    paths: Sequence[str], *, suffixes: Sequence[str] = SUFFIXES, left_out: LeftOut | None = None
) -> list[Source]:
    """Returns the sources that arguments name, each once, in the order given.

    They are sorted inside a folder or pattern. A folder means the files below it whose name ends in
    one of `suffixes` (in any case, with or without .gz or .zst), without hidden folders, without
    what is not a regular file, and without .json that is no array of records. A pattern (`*`, `?`,
    `[..]`, `**`) means the files and folders that match, unless something has literally that name.
    `-` is stdin. The URL of a store means the same for its objects (`mypt_cli.store`). A file that
    is named by itself is read, whatever its name, unless it is a baseline of the linter; of folders
    and patterns, `left_out` says what is not, and may collect what is unreadable. Raises UsageError
    for anything else that is missing or unreadable, and for a folder or pattern without any file.
    """
    endings = tuple(suffix.lower() + packed for suffix in suffixes for packed in ("", *PACKED))
    sources: dict[str, Source] = {}
    for path in paths:
        if path == "-":
            sources.setdefault("-", Source(STDIN, stdin=True))
            continue
        if "://" in path and not os.path.lexists(path):
            for source in _stored(path, endings, left_out):
                sources.setdefault(source.path, source)
            continue
        if os.path.isdir(path):
            names = _folder(path, endings, left_out)
            fault = (
                f"no {', '.join(suffixes)} file (nor one in .gz or .zst) in this folder"
                f"{', of .json only arrays of records' * (JSON in suffixes)}; name the files "
                "themselves"
            )
        elif not os.path.lexists(path) and is_pattern(path):
            matches = _glob(path, left_out)
            names = [name for match in matches for name in _folder(match, endings, left_out)]
            fault = "the pattern matches no file; in a shell, quote a pattern with ** in it"
        elif left_out is not None and left_out.is_baseline(path):
            continue  # a hook of git names every file that was changed
        else:
            names, fault = [path], ""
        if not names:
            why = left_out.line() if left_out else ""
            raise UsageError(f"{path}: nothing to read; {why}" if why else f"{path}: {fault}")
        for name in names:
            try:
                source = source_of(name)
                sources.setdefault(os.path.realpath(name), source)
            except UsageError as error:
                if left_out is None or name == path:
                    raise
                left_out.unread(error)
    return list(sources.values())


def _stored(path: str, endings: tuple[str, ...], left_out: LeftOut | None) -> list[Source]:
    """Returns the sources that a URL names: an object, those below a folder, or those that match.

    Patterns of `left_out` count from the folder that the URL names. Raises UsageError, also for a
    folder that is a prepared data set.
    """
    from mypt_cli.store import find  # not loaded at every start

    try:
        path = address(path)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    store, entries = find(path)
    itself = len(entries) == 1 and store.name(entries[0].key) == path
    pattern = is_pattern(path)
    if not itself and not pattern:
        if any(entry.key == MANIFEST for entry in entries):
            raise UsageError(
                f"{path}: is a prepared data set; copy it here to train on it, or to look at it"
            )
        # Not those in hidden folders.
        visible = (e for e in entries if "/." not in f"/{e.key.rpartition('/')[0]}")
        entries = [e for e in visible if e.key.lower().endswith(endings)]
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


def source_of(path: str) -> Source:
    """Returns the source of one file, once it is proved that it can be opened.

    A pipe is not tried, because it can be opened only once.
    """
    compressed = packing(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return Source(path, compressed)
        with open(path, "rb"):
            return Source(path, compressed, status.st_size)
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:  # a NUL byte in the name
        raise unreadable(path, FileNotFoundError()) from None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder or "."))
    except OSError as error:
        raise unreadable(folder or ".", error) from None


def _walk(folder: str, judge: Walk | None = None) -> Iterator[tuple[str, bool]]:
    """Yields (path, is a folder) for the folder and all below it, depth first, each level sorted.

    Hidden folders are left out, and those that `judge` leaves out. Links are followed, but each
    real folder is entered once, so that a loop of links ends. Of a file, it yields the file itself.
    """
    visited: set[str] = set()
    stack = [folder]
    while stack:
        path = stack.pop()
        if not os.path.isdir(path or "."):
            yield path, False
            continue
        real = os.path.realpath(path)
        if real in visited:
            continue
        visited.add(real)
        yield path, True
        try:
            names = _names(path)
        except UsageError as error:
            if judge is None or path == folder:
                raise
            judge.rules.unread(error)
            continue
        inner = [(name, os.path.join(path, name)) for name in reversed(names)]
        stack.extend(below for name, below in inner if not _passed_over(name, below, judge))


def _passed_over(name: str, path: str, judge: Walk | None) -> bool:
    if not os.path.isdir(path):
        return False
    return name.startswith(".") or (judge is not None and judge.leaves_out(path, folder=True))


def _folder(folder: str, endings: tuple[str, ...], left_out: LeftOut | None) -> list[str]:
    """Returns the files in a folder that a wanted suffix ends; of a file, the file itself."""
    judge = left_out.below(folder) if left_out and os.path.isdir(folder) else None
    files = (path for path, is_folder in _walk(folder, judge) if not is_folder)
    matches = (path for path in files if path == folder or path.lower().endswith(endings))
    # A pipe in a folder could block for ever; a dangling link stays in the list, to be refused.
    there = (path for path in matches if os.path.isfile(path) or not os.path.exists(path))
    return [
        path
        for path in there
        # Of .json, only arrays of records. What cannot be read stays in the list, to be refused.
        if (
            path == folder
            or not (is_json(path) and os.access(path, os.R_OK))
            or holds_records(source_of(path))
        )
        and (judge is None or not judge.leaves_out(path, folder=False))
    ]


def _glob(pattern: str, left_out: LeftOut | None) -> list[str]:
    """Returns the paths that match.

    Not by `glob.glob`, whose `**` follows loops of links for exponential time.
    """
    pattern = pattern.replace(os.sep, "/")
    paths = ["/" if pattern.startswith("/") else ""]
    parts = [part for part in pattern.split("/") if part]
    fixed = re.split(r"[^/]*[*?[]", pattern, maxsplit=1)[0] or "."  # before its first wild part
    judge = left_out.below(fixed) if left_out else None
    for index, part in enumerate(parts):
        if part == "**":
            # A last `**` is everything below, which a folder means anyway.
            if index < len(parts) - 1:
                paths = [
                    path for base in paths for path, is_folder in _walk(base, judge) if is_folder
                ]
        elif re.search(r"[*?[]", part):
            match = re.compile(fnmatch.translate(part)).match
            paths = [
                os.path.join(base, name)
                for base in paths
                if os.path.isdir(base or ".")
                for name in _names(base)
                if match(name) and (part.startswith(".") or not name.startswith("."))
            ]
        else:
            paths = [
                os.path.join(base, part)
                for base in paths
                if os.path.lexists(os.path.join(base, part))
            ]
    return [
        path
        for path in dict.fromkeys(paths)
        if judge is None or not judge.leaves_out(path, folder=os.path.isdir(path))
    ]
