"""Runs `mypt-train` as `torchrun -m mypt_train`."""

import sys

from mypt_train.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
