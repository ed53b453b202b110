"""Defines what an episode is for, in a data set with preferences."""

from __future__ import annotations

import numpy as np

SFT, CHOSEN, REJECTED, GOOD, BAD = range(5)
KINDS = np.dtype([("kind", "u1"), ("pair", "<u4")])
"""One entry for each episode of a shard: one of the kinds above, and the number of its pair.

A chosen and a rejected answer have the same number, from 1 on. All other episodes have 0.
"""
