"""Converts records from one format to another, and says exactly what is lost: `mypt-convert`."""

from mypt_convert.compare import Loss
from mypt_convert.engine import Converted, Converter, readable

__all__ = ["Converted", "Converter", "Loss", "readable"]
