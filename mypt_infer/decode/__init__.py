"""Constrains decoding: no illegal tag, no illegal call, and each budget ends legally.

`docs/decoding.md` describes it. The tables come from the automaton from which the linter and the
loss mask come, too. This package needs numpy, not torch: samplers that need torch are in
`mypt_infer.generate`.
"""

from mypt_infer.decode.base.allow import AllowSet, BudgetError, ForgottenState, Holder, Refused
from mypt_infer.decode.base.schemas import SchemaWarning
from mypt_infer.decode.base.tools import SchemaFault, ToolSpec, declare
from mypt_infer.decode.batch import BatchDecoder
from mypt_infer.decode.decoder import Decoder
from mypt_infer.decode.llguidance.response import Response, ResponseError
from mypt_infer.decode.prompt import PromptError
from mypt_infer.decode.readable import Skipped

__all__ = [
    "AllowSet",
    "BatchDecoder",
    "BudgetError",
    "Decoder",
    "ForgottenState",
    "Holder",
    "PromptError",
    "Refused",
    "Response",
    "ResponseError",
    "SchemaFault",
    "SchemaWarning",
    "Skipped",
    "ToolSpec",
    "declare",
]
