"""States what the records of MyPT and of its phase 3B share: keys, roles and their other names.

A conversation of user and assistant, a call that is a message, a result that is another, and a
context that is a key of the user's message. The two differ in the name of a result's role, and in
what else a message may hold.
"""

from mypt_spec.adapters.base import CHAT_ROLES
from mypt_spec.record_schema import JSON, LANGUAGE, LIST, NAME, OBJECT, STRING, Field, RecordSchema

Fields = dict[str, Field]
TEXT, MAYBE = Field(STRING), Field(STRING, required=False)
CALL: Fields = {"name": Field(NAME), "arguments": Field(OBJECT)}
_RESULTS = ("tool", "toolresult", "tool_result")  # what people call a result
_CONTEXT = ("user", "context")


def tool_chat(
    result: str, *, system: Field, assistant: Fields, call: Fields, extra_roles: dict[str, Fields]
) -> RecordSchema:
    """Returns the shape of the records: `result` is the role of a tool's result.

    `system` is the field of the system prompt, `assistant` and `call` are the keys of these two
    messages, and `extra_roles` are the roles that only this dialect has.
    """
    aliases = {name: result for name in _RESULTS if name != result}
    return RecordSchema(
        {"system": system, "messages": Field(LIST), "language": Field(LANGUAGE, required=False)},
        roles={
            "user": {"content": TEXT, "context": MAYBE},
            "assistant": assistant,
            "assistant_toolcall": call,
            result: {"name": Field(NAME), "content": Field(JSON)},
            **extra_roles,
        },
        aliases=CHAT_ROLES | {"toolcall": "assistant_toolcall"} | aliases,
        lifted={"system": "system"},
        folded={"user_context": _CONTEXT, "context": _CONTEXT},
        weighs=frozenset({"assistant", "assistant_toolcall"}),
    )
