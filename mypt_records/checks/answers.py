"""Finds answers that are not in the format that the record asks for."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_spec.bodies.json_schema import Patience
from mypt_spec.episode import Place
from mypt_spec.findings import Finding
from mypt_spec.rules.answer_format import answer_misfits, asks_for_json


@check("MYP342")
def answer_in_another_format(chat: Chat) -> Iterator[Finding]:
    """Finds a final answer that is no JSON, or does not fit the schema (MYP343, MYP344)."""
    answer = chat.messages[-1]
    if not asks_for_json(chat.extras) or answer.calls or not answer.content:
        return
    if answer.role == "assistant":
        at = Place(answer.content[0].at)
        yield from answer_misfits(answer.text, at, chat.extras, Patience())
