"""Every history stays legal and replays, whatever models, tools and users do.

Models break, tools raise, hang and return garbage, users cancel. `python -m fuzz.turns --count
10000` runs so many turns, from seed 0 on, and does not search for a time.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from hypothesis import strategies as st

from fuzz.driver import run
from tests.support.dialects import ALL
from tests.support.faults import conversation

STRATEGY = st.fixed_dictionaries({"dialect": st.sampled_from(ALL), "seed": st.integers(0, 2**63)})
TURNS = 4  # of a conversation


def check(value: dict[str, Any]) -> None:
    conversation(value["dialect"], value["seed"], turns=TURNS)


if __name__ == "__main__":
    if "--count" not in sys.argv:
        run("turns")
    count, began = int(sys.argv[sys.argv.index("--count") + 1]), time.monotonic()
    for i in range(-(-count // TURNS)):
        check({"dialect": ALL[i % len(ALL)], "seed": i})
    print(f"turns: held for {-(-count // TURNS) * TURNS} turns in {time.monotonic() - began:.0f} s")
