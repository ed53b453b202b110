"""Choose how much the tests try: little by default, everything in `nox -s thorough`.

The profile is named by `HYPOTHESIS_PROFILE`. `quick`, the default, draws few examples, the same
ones in each run. `thorough` draws as many as a test names, from a new seed. `deep` searches for
hours.
"""

from __future__ import annotations

import os
from typing import TypeVar

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
THOROUGH = PROFILE != "quick"
FULL = 40  # examples of a test that names no number, in `thorough`
QUICK_SHARE = 10  # `quick` draws one example in so many, and at least QUICK_LEAST
QUICK_LEAST = 4

Choice = TypeVar("Choice")


def examples(full: int) -> int:
    """Returns the number of examples of a test that has `full` of them in `thorough`."""
    return full if THOROUGH else min(full, max(QUICK_LEAST, full // QUICK_SHARE))


def either(quick: Choice, thorough: Choice) -> Choice:
    """Returns the first where the tests are to be quick, and the second in `thorough`."""
    return thorough if THOROUGH else quick
