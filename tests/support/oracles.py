"""How many conversations are compared with what other libraries and official templates make of them.

`nox -s oracles` installs the libraries and compares 2,000.
"""

from __future__ import annotations

import os

from tests.support.examples import either

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", either("20", "150")))
