"""Finds questions and answers that say nothing, and answers not in the format asked for."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_records.chat import Chat, Message
from mypt_records.checks.registry import check
from mypt_spec.bodies.json_schema import Patience
from mypt_spec.episode import Place
from mypt_spec.findings import Finding
from mypt_spec.rules.answer_format import answer_misfits, asks_for_json

_ROLES = ("user", "assistant")


def _silent(chat: Chat, *, blank: bool) -> Iterator[tuple[Message, str]]:
    """Yields messages with no text, or with `blank` text, and what they are."""
    first = next((m for m in chat.messages if m.role == "user"), None)
    for message in (*chat.messages, *chat.rejected):
        if message.content and message.content[0].text[:1].strip():
            continue
        if message.role not in _ROLES or message.calls or message.media or message.content is None:
            continue
        if not message.text.strip() and bool(message.text) == blank:
            subject = f"the {message.alias} message"
            yield message, f"the first {subject[4:]}" if message is first else subject


def _at(message: Message) -> str:
    return message.content[0].at if message.content else message.at


@check("MYP214")
def empty_message(chat: Chat) -> Iterator[Finding]:
    """Finds questions and answers that are empty."""
    for message, subject in _silent(chat, blank=False):
        hint = "write what was said, or drop the record"
        yield Finding("MYP214", f"{subject} is empty", _at(message), help=hint)


@check("MYP314")
def blank_message(chat: Chat) -> Iterator[Finding]:
    """Finds questions and answers that are nothing but white space."""
    for message, subject in _silent(chat, blank=True):
        hint = "write what was said, or drop the record"
        yield Finding("MYP314", f"{subject} is nothing but white space", _at(message), help=hint)


@check("MYP342")
def answer_in_another_format(chat: Chat) -> Iterator[Finding]:
    """Finds a final answer that is no JSON, or does not fit the schema (MYP343, MYP344)."""
    answer = chat.messages[-1]
    if not asks_for_json(chat.extras) or answer.calls or not answer.content:
        return
    if answer.role == "assistant":
        at = Place(answer.content[0].at)
        yield from answer_misfits(answer.text, at, chat.extras, Patience())
