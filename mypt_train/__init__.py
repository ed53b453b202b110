"""From checked JSONL to training data: exact masks, packed rows, shards that survive a kill."""

from mypt_train.data.options import Options
from mypt_train.data.prepare import PrepareError, prepare
from mypt_train.data.reader import Shard, ShardError, ShardReader

__all__ = ["Options", "PrepareError", "Shard", "ShardError", "ShardReader", "prepare"]
