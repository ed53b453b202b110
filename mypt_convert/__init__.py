"""Moving records between formats, knowing exactly what is lost. The command is `mypt-convert`."""

from mypt_convert.compare import Loss
from mypt_convert.engine import Converted, Converter, readable

__all__ = ["Converted", "Converter", "Loss", "readable"]
