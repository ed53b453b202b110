"""Turns checked JSONL into training data, and training data into models.

Input: records of a dialect. Output: shards of packed rows with exact loss masks (`data`), and
checkpoints of a Llama (`training`). Both survive a kill: a run that was stopped continues to the
same bytes (invariant 9 of ARCHITECTURE.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypt_train.data.formats.options import Options
    from mypt_train.data.reader import ShardReader
    from mypt_train.data.shard import Shard, ShardError
    from mypt_train.scale.prepare import PrepareError, prepare

__all__ = ["Options", "PrepareError", "Shard", "ShardError", "ShardReader", "prepare"]
_MODULES = {
    "Options": "data.formats.options",
    "PrepareError": "scale.prepare",
    "Shard": "data.shard",
    "ShardError": "data.shard",
    "ShardReader": "data.reader",
    "prepare": "scale.prepare",
}


def __getattr__(name: str) -> Any:
    """Returns what a module defines, which is loaded now: no help needs numpy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
