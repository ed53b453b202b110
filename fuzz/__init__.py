"""Fuzzers: one invariant a file.

`python -m fuzz --minutes 5 [--seed N]` runs them all; see driver.py.
"""

import time

STARTED = time.monotonic()  # imports count: they take part of the time that is asked for
