"""Faults of the call, not of the data."""

from __future__ import annotations

import os


class UsageError(Exception):
    """The command cannot do what it was asked to; exit status 2.

    The message is one line for the user: where, what was expected, and what to do about it.
    """


def unreadable(path: str, error: OSError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            return UsageError(
                f"{path}: a symbolic link to nothing; restore its target or remove the link"
            )
        return UsageError(
            f"{path}: no such file or folder; name a file, a folder, a pattern ('data/**/*.jsonl') "
            "or -"
        )
    return UsageError(
        f"{path}: cannot be read: {error.strerror or error}; check its permissions and links"
    )
