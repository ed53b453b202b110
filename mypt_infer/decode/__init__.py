"""Constrained decoding: no illegal tag, no illegal call, every budget ends legal. See
docs/decoding.md.

The tables come from the automaton that the linter and the loss mask come from. Nothing here needs
torch; what does (`device`, `sample`, `generate`) is imported by name.
"""

from mypt_infer.decode.decoder import AllowSet, BudgetError, Decoder
from mypt_infer.decode.prompt import PromptError
from mypt_infer.decode.tools import SchemaFault, ToolSpec, declare

__all__ = [
    "AllowSet",
    "BudgetError",
    "Decoder",
    "PromptError",
    "SchemaFault",
    "ToolSpec",
    "declare",
]
