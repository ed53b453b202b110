"""What a decoder takes in memory, with nothing compiled before it in the process."""

from __future__ import annotations

import subprocess
import sys

GROWTH = """
import mypt_spec
from mypt_infer.decode import Decoder

def resident():
    for line in open("/proc/self/status"):
        if line.startswith(("VmRSS", "VmHWM")):
            yield int(line.split()[1]) / 1024

dialect = mypt_spec.dialect("mypt")
dialect.tokenizer.decode_bytes(dialect.tokenizer.encode("text"))
_, before = resident()
decoder = Decoder(dialect)
peak, after = resident()
print(peak - before, after - before)
"""


def test_tables_of_a_dialect_are_small() -> None:
    """Neither while they are built nor after does any array have a column for each token."""
    done = subprocess.run([sys.executable, "-c", GROWTH], check=True, capture_output=True)
    peak, after = map(float, done.stdout.split())
    assert peak < 60
    assert after < 40
