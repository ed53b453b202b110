"""Runs `mypt-view`, as `python -m mypt_view`."""

import sys

from mypt_view.cli import main

if __name__ == "__main__":
    sys.exit(main())
