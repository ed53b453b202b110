"""Holds faults of the call, not of the data, and suggests what was probably meant."""

import os
from collections.abc import Callable, Iterable, Sequence


class UsageError(Exception):
    """The command cannot do what it was asked to; exit status 2.

    The message is one line for the user: where, what was expected, and what to do about it.
    """


def unreadable(path: str, error: OSError) -> UsageError:
    """Returns the UsageError for a path that the system cannot read."""
    if not isinstance(error, FileNotFoundError):
        why = f"cannot be read: {error.strerror or error}; check its permissions and links"
    elif os.path.islink(path):
        why = "a symbolic link to nothing; restore its target or remove the link"
    else:
        why = "no such file or folder; name a file, a folder, a pattern ('data/**/*.jsonl') or -"
    return UsageError(f"{path}: {why}")


def refuse_url(path: str, *, what: str = "a file", then: str = "copy it to the store then") -> None:
    """Raises UsageError for an output that is a URL where only a local one can be written."""
    if "://" in path:
        from mypt_cli.urls import redacted  # pure, but its package is not needed before

        raise UsageError(f"{redacted(path)}: is a URL; name {what} here, and {then}")


def nearest(word: str, candidates: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Returns the candidate that was probably meant; "" where none is near."""
    import difflib

    return next(iter(difflib.get_close_matches(word, candidates, 1, cutoff)), "")


def suggestion(
    word: str, candidates: Iterable[str], otherwise: str = "", *, show: Callable[[str], str] = str
) -> str:
    """Returns the end of a message: what was probably meant, or `otherwise` where nothing is near.

    >>> suggestion("lnit", ["lint", "view"]), suggestion("x", ["lint"], "there is only lint")
    ('; did you mean lint?', '; there is only lint')
    """
    near = nearest(word, list(candidates))
    return f"; did you mean {show(near)}?" if near else otherwise and f"; {otherwise}"
