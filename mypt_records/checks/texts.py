"""Finds questions and answers that say nothing, and answers not in the format asked for."""

from collections.abc import Iterator
from functools import partial

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_spec.bodies.json_schema import Patience
from mypt_spec.episode import Place
from mypt_spec.findings import Finding, regraded
from mypt_spec.rules.answer_format import answer_misfits, asks_for_json

_ROLES = ("user", "assistant")  # of messages that must say something

_HINTS = {"tool": 'say so in words, such as "no output", if the tool returned nothing'}


def _silent(code: str, what: str, chat: Chat) -> Iterator[Finding]:
    """Finds messages with no text, or for MYP314 with a blank one; `what` says what they are."""
    blank = code == "MYP314"
    first = next((m for m in chat.messages if m.role == "user"), None)
    others: set[str] = set()
    for message in (*chat.messages, *chat.rejected):
        if message.content and message.content[0].text[:1].strip():
            continue
        if message.calls or message.media or message.content is None:
            continue
        if message.role == "assistant" and message.weight and not message.weight.value:
            continue  # is not trained
        if not message.text.strip() and bool(message.text) == blank:
            at = message.content[0].at if message.content else message.at
            if message.role not in _ROLES:  # the first is enough: an empty result may be true
                if message.role not in others and message.at != "/system":
                    why = f"the {message.alias} message {what}"
                    hint = _HINTS.get(message.role, "write the prompt, or delete the message")
                    yield regraded(Finding(code, why, at, help=hint), "info")
                others.add(message.role)
                continue
            why = f"the {'first ' * (message is first)}{message.alias} message {what}"
            yield Finding(code, why, at, help="write what was said, or drop the record")


for _code, _what in (("MYP214", "is empty"), ("MYP314", "is nothing but white space")):
    check(_code)(partial(_silent, _code, _what))


@check("MYP342")
def answer_in_another_format(chat: Chat) -> Iterator[Finding]:
    """Finds a final answer that is no JSON, or does not fit the schema (MYP343, MYP344)."""
    answer = chat.messages[-1]
    if not asks_for_json(chat.extras) or answer.calls or not answer.content:
        return
    if answer.role == "assistant":
        yield from answer_misfits(answer.text, Place(answer.content[0].at), chat.extras, Patience())
