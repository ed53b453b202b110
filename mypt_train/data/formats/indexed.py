"""Writes the index of a file as Megatron's IndexedDataset reads it, a sequence for each episode.

A data set is two files, `NAME.bin` and `NAME.idx`. The first holds the items of all sequences, the
index says where each begins: "MMIDIDX", two zero bytes, the version 1 (uint64), the code of the
type of items (uint8), the number of sequences and that of documents and one more (uint64 each);
then for each sequence its items (int32) and its first byte (int64); then the first sequence of each
document, and their number (int64). All are little-endian. Each sequence is a document.
"""

import struct

import numpy as np
import numpy.typing as npt

# The bytes of an item -> its code. Ids of four bytes are int32 there: no vocabulary needs more.
_CODES = {1: 1, 2: 8, 4: 4}


def index_of(lengths: npt.NDArray[np.uint32], width: int) -> memoryview:
    """Returns the bytes of an index of sequences of these lengths, of items of `width` bytes."""
    first_bytes = width * (np.cumsum(lengths, dtype=np.int64) - lengths)
    documents = np.arange(len(lengths) + 1, dtype="<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX", 1, _CODES[width], len(lengths), len(documents))
    arrays = lengths.astype("<i4"), first_bytes.astype("<i8"), documents
    return memoryview(head + b"".join(array.tobytes() for array in arrays))
