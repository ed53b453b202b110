"""Turns the JSONL record of MyPT's phase 3B into messages and back.

Implements section 7 of grammar/mypt_3b/SPEC.md.
"""

from mypt_spec.adapters.mypt import MyPT
from mypt_spec.adapters.tool_chat import CALL, MAYBE, TEXT, tool_chat


class Phase3B(MyPT):
    """Knows the JSON of phase 3B's records."""

    SCHEMA = tool_chat(
        "tool_result", system=MAYBE, assistant={"content": TEXT}, call=CALL, extra_roles={}
    )
    _RESULT = "tool_result"


ADAPTER = Phase3B()
