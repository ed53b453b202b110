"""Faults of the call, not of the data."""

from __future__ import annotations


class UsageError(Exception):
    """The command cannot do what it was asked to; exit status 2.

    The message is one line for the user: where, what was expected, and what to do about it.
    """
