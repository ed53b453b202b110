"""Checks records of other tools: as chats, and in a dialect if there is one.

Input is a JSON value and the shape of its file; output are findings with pointers into the record
as the user wrote it. A dialect reads what the record becomes when it is converted: what it finds
there, and what the record cannot say in it, is found here at the place in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mypt_spec.episode import Episode
from mypt_spec.findings import Finding, regraded

if TYPE_CHECKING:
    from mypt_records.chat import Chat

_THOUGHT = "MYP370"  # a format says where thoughts belong
ReadInDialect = Callable[[object, "Chat"], tuple[Episode | None, list[Finding]]]


def check_foreign(
    record: object, shape: str, read_in_dialect: ReadInDialect | None, chat: Chat | None = None
) -> tuple[Episode | None, list[Finding]]:
    """Returns the Episode of a record in a dialect, if any, and all findings.

    `shape` is that of its file. Without `read_in_dialect`, the record is a chat and no more. `chat`
    is the chat, if it was read before.
    """
    from mypt_records import checks
    from mypt_records.shapes import SHAPES, read, shape_of
    from mypt_records.written import read_out

    shape_here = shape_of(record)
    if shape_here not in ("", shape, getattr(SHAPES[shape], "ALSO", "")):
        about = SHAPES[shape_here].ABOUT
        message = f"this is one of {about}; the file has {SHAPES[shape].ABOUT}"
        add = ", or add the rejected answer" * (shape == "preference" and shape_here == "openai")
        return None, [Finding("MYP113", message, help=f"one file, one shape: move it{add}")]
    chat = chat or read(record, shape)
    of_chat = checks.findings(read_out(chat))
    if read_in_dialect is None:
        return None, of_chat
    episode, in_dialect = read_in_dialect(record, chat)
    return episode, _joined([f for f in of_chat if f.code != _THOUGHT], in_dialect)


def _joined(of_chat: list[Finding], others: list[Finding]) -> list[Finding]:
    """Returns the findings of a chat, and of those in the dialect the ones that say more.

    What is an error in the dialect is an error, also where the chat by itself has a warning.
    """
    errors = {(f.pointer, f.span): f.code for f in others if f.severity == "error"}
    out = []
    for finding in of_chat:
        code = errors.get((finding.pointer, finding.span)) if finding.severity != "error" else None
        if code == finding.code:
            out.append(regraded(finding, "error"))
        elif code is None or finding.span is None:
            out.append(finding)  # else the dialect has a name for these very characters
    codes = {(f.code, _message(f.pointer)) for f in out}
    refused = {(f.code, _message(f.pointer)) for f in out if f.severity == "error"}
    of = {"error": refused}
    return out + [
        f for f in others if (f.code, _message(f.pointer)) not in of.get(f.severity, codes)
    ]


def _message(pointer: str) -> str:
    """Returns the pointer of the message that a pointer leads into.

    A rule that means the same with a dialect and without one may point to other parts of it.
    """
    tokens = pointer.split("/")
    return "/".join(tokens[: 3 if tokens[2:3] and tokens[2].isdigit() else 2])
