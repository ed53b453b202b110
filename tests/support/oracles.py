"""How many conversations are compared with what other libraries and official templates make of them.

`nox -s oracles` installs the libraries and compares 2,000.
"""

from __future__ import annotations

import os

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "75"))
