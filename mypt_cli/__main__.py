"""Runs `mypt`, as `python -m mypt_cli`."""

import sys

from mypt_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
