"""Runs `mypt-convert`, as `python -m mypt_convert`."""

import sys

from mypt_convert.cli import main

if __name__ == "__main__":
    sys.exit(main())
