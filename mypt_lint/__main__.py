"""Runs `mypt-lint`, as `python -m mypt_lint`."""

import sys

from mypt.lint.cli import main

if __name__ == "__main__":
    sys.exit(main())
