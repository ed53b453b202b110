"""Runs `python -m fuzz --minutes 5 [--seed N]`: all invariants, which share the time."""

import sys

from fuzz.driver import INVARIANTS, main

sys.exit(main(INVARIANTS))
