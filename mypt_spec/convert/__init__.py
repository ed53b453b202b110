"""Moving records between formats, knowing exactly what is lost. The command is `mypt-convert`."""

from mypt_spec.convert.compare import Loss
from mypt_spec.convert.engine import Converted, Converter, readable

__all__ = ["Converted", "Converter", "Loss", "readable"]
