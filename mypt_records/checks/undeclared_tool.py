"""Finds calls of tools that the record does not declare."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.inside import located
from mypt_spec.findings import Finding


@check("MYP313")
def undeclared_tool(chat: Chat) -> Iterator[Finding]:
    """Finds calls of tools that are declared nowhere; silent where no tool is declared.

    A declaration without a name, such as that of a code interpreter, brings names of its own.
    """
    declared = {tool.name.text for tool in chat.tools or () if tool.name is not None}
    if not declared or any(tool.name is None for tool in chat.tools or ()):
        return
    for message in (*chat.messages, *chat.rejected):
        for call in message.calls:
            if call.name.text not in declared:
                yield located(
                    "MYP313",
                    f"the tool {call.name.text!r} is declared nowhere",
                    call.name,
                    hint=f"declared are {', '.join(sorted(declared))}",
                )
