"""Fuzzers: one invariant a file.

`python -m fuzz --minutes 5 [--seed N]` runs them all; see driver.py.
"""

import os
import sys
import time

STARTED = time.monotonic()  # imports count: they take part of the time that is asked for
if sys.argv[0] == "-m":  # in a command, not where a test imports a fuzzer
    # Hypothesis draws each choice, so it can make what it found smaller (tests/support/maker.py).
    os.environ.setdefault("HYPOTHESIS_PROFILE", "thorough")
