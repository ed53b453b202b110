"""Turns checked JSONL into training data, and training data into models.

Input: records of a dialect. Output: shards of packed rows with exact loss masks (`data`), and
checkpoints of a Llama (`training`). Both survive a kill: a run that was stopped continues to the
same bytes (invariant 9 of ARCHITECTURE.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypt_train.data.options import Options
    from mypt_train.data.prepare import PrepareError, prepare
    from mypt_train.data.reader import Shard, ShardError, ShardReader

__all__ = ["Options", "PrepareError", "Shard", "ShardError", "ShardReader", "prepare"]
_MODULES = {"Options": "options", "PrepareError": "prepare", "prepare": "prepare"}


def __getattr__(name: str) -> Any:
    """Returns what its module in `data` defines, which is loaded now: no help needs numpy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.data.{_MODULES.get(name, 'reader')}"), name)
