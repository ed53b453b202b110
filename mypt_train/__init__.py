"""Turns checked JSONL into training data, and training data into models.

Input: records of a dialect. Output: shards of packed rows with exact loss masks (`data`), and
checkpoints of a Llama (`training`). Both survive a kill: a run that was stopped continues to the
same bytes (invariant 9 of ARCHITECTURE.md).
"""

from mypt_train.data.options import Options
from mypt_train.data.prepare import PrepareError, prepare
from mypt_train.data.reader import Shard, ShardError, ShardReader

__all__ = ["Options", "PrepareError", "Shard", "ShardError", "ShardReader", "prepare"]
