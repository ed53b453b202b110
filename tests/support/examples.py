"""How many examples the tests with Hypothesis take, by profile.

`ci`, which every run of the tests has, takes half of each number that a test names; `nox -s
thorough` takes them whole. In both, the examples are the same in each run.
"""

from __future__ import annotations

from hypothesis import settings

FULL = 40  # what a test has in the profile `thorough` when it names no number
CI = 20


def examples(full: int) -> int:
    """Returns the number of examples of a test that has `full` of them in `thorough`."""
    return max(1, min(full, full * settings().max_examples // FULL))
