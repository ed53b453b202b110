"""What a decoder takes in memory, with nothing compiled before it in the process."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from typing import Any

import pytest

from mypt_infer.decode import Decoder
from mypt_infer.decode.compile import build_tables, pieces
from mypt_spec.memo import Memo
from tests.support.build import function
from tests.support.decoding import in_call

GROWTH = """
import sys
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
assert "numpy.random" not in sys.modules, "1,500 objects more for the collector of garbage"
"""


def test_tables_of_a_dialect_are_small() -> None:
    """Neither while they are built nor after does any array have a column for each token."""
    done = subprocess.run([sys.executable, "-c", GROWTH], check=True, capture_output=True)
    peak, after = map(float, done.stdout.split())
    assert peak < 60
    assert after < 40


@pytest.mark.usefixtures("frozen_objects")
def test_requests_with_changing_tools_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nox -s requests` does this 10,000 times: what is kept are memos, each within its room."""
    pytest.importorskip("llguidance")
    from mypt_infer.decode.llguidance import tools as calls

    small: list[Memo[Any, Any]] = [Memo(2, room=1 << 20), Memo(8, room=1 << 18), Memo(2)]
    for module, name, memo in zip((build_tables, pieces, calls), ("_built", "_pieces", "_calls"), small, strict=True):  # fmt: skip
        monkeypatch.setattr(module, name, memo)

    def alive() -> int:
        gc.collect()
        return sum(isinstance(item, Decoder) for item in gc.get_objects())

    chance, before = random.Random(0), alive()
    for n in range(12):
        bound = {"type": "string", **({"pattern": f"^[a-f]{{{n}}}$"} if n % 3 == 0 else {})}
        properties = {"a": {"enum": [f"{n} {i}" for i in range(40)]}, "b": bound}
        made = Decoder("mypt", [function(f"t{n}", properties)], engine="auto")
        state = in_call(made, budget=40)
        for _ in range(5):
            state = made.next(state, int(chance.choice(made.near_ids(state))))
    for memo in (item for item in gc.get_objects() if isinstance(item, Memo)):
        assert memo.nbytes <= memo._room
        assert len(memo.entries) <= memo._limit
    assert all(memo.entries for memo in small)
    del made
    assert alive() <= before
