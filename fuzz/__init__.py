"""Fuzzers: one invariant a file.

`python -m fuzz --minutes 5 [--seed N]` runs them all; see driver.py.
"""
