"""What the episodes of a data set are for, where it keeps preferences."""

from __future__ import annotations

import numpy as np

SFT, CHOSEN, REJECTED, GOOD, BAD = range(5)
KINDS = np.dtype([("kind", "u1"), ("pair", "<u4")])
"""An entry for each episode of a shard.

`pair` is the same number, from 1 on, for a chosen and a rejected answer; 0 for all others.
"""
