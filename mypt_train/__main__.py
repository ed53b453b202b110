"""`torchrun -m mypt_train`: as `mypt-train`."""

import sys

from mypt_train.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
