"""Keeps 64-bit keys and values in bounded memory: a full table takes no new keys."""

from typing import Any

import numpy as np

_SIZE = 1 << 22  # slots of 16 bytes, of which the system gives memory as they are used


class DigestTable:
    """Open addressing over two arrays. Keys are digests; 0 marks an empty slot."""

    def __init__(self, size: int = _SIZE) -> None:
        self._keys: Any = np.zeros(size, np.uint64)
        self._values: Any = np.zeros(size, np.uint64)
        self._mask, self._most = size - 1, size * 3 // 4
        self.count = 0

    @property
    def full(self) -> bool:
        """Returns whether new keys are no longer taken."""
        return self.count >= self._most

    def put(self, key: int, value: int) -> int | None:
        """Returns the value that the key has; None for a new one, which gets `value` if it fits."""
        key, at, is_present = self._find(key)
        if not is_present and not self.full:
            self._keys[at], self._values[at] = key, value
            self.count += 1
        return int(self._values[at]) if is_present else None

    def get(self, key: int) -> int | None:
        _, at, is_present = self._find(key)
        return int(self._values[at]) if is_present else None

    def _find(self, key: int) -> tuple[int, int, bool]:
        """Returns the key as it is kept, its slot (or the empty one for it), and if it is there."""
        key = key or 1
        at = key & self._mask
        while (stored := int(self._keys[at])) not in (0, key):
            at = (at + 1) & self._mask
        return key, at, stored == key
