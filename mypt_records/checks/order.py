"""Finds messages whose roles are out of order."""

from collections.abc import Iterator
from itertools import pairwise

from mypt_records.chat import Chat, Message
from mypt_records.checks.registry import check, once_per_chat
from mypt_spec.findings import Finding

_INSTRUCTING = ("system", "developer")


@once_per_chat
def talk(chat: Chat) -> list[Message]:
    """Returns the messages without instructions."""
    return [m for m in chat.messages if m.role not in _INSTRUCTING]


@check("MYP250")
def late_instruction(chat: Chat) -> Iterator[Finding]:
    """Finds system messages after the beginning, which many templates refuse or move."""
    begun = False
    for message in chat.messages:
        begun = begun or message.role not in _INSTRUCTING
        if begun and message.role in _INSTRUCTING:
            text = f"a {message.alias} message after the beginning"
            hint = (
                "put it first: many chat templates refuse it here, or read it as if it were first"
            )
            yield Finding("MYP250", text, message.at, help=hint)


@check("MYP251")
def answer_without_user(chat: Chat) -> Iterator[Finding]:
    """Finds conversations that begin with an answer."""
    spoken = talk(chat)
    if len(spoken) > 1 and spoken[0].role == "assistant":
        hint = "put the user's message before it, or delete it: many chat templates refuse it"
        text = f"the conversation begins with the {spoken[0].alias} message"
        yield Finding("MYP251", text, spoken[0].at, help=hint)


@check("MYP501")
def nothing_trained(chat: Chat) -> Iterator[Finding]:
    """Finds conversations with answers, none of which is trained."""
    answers = [m for m in chat.messages if m.role == "assistant"]
    trained = (m.weight is None or m.weight.value for m in answers)
    weights = (m.weight is not None and m.weight.value for m in chat.messages)
    if answers and not any(trained) and not any(weights):
        text = "no message of this record is trained: the model has nothing to learn from it"
        hint = "give an answer a weight above 0, or drop the record"
        yield Finding("MYP501", text, help=hint)


@check("MYP252")
def prompt_only(chat: Chat) -> Iterator[Finding]:
    """Finds conversations that end before an answer, or consist of instructions."""
    spoken = talk(chat)
    if not spoken:
        fault, at = "there is nothing but instructions: nothing is learnt", chat.messages[0].at
        yield Finding("MYP252", fault, at, help="add a question and its answer, or drop the record")
    if spoken and spoken[-1].role == "user":
        last = spoken[-1]
        text = f"the conversation ends with the {last.alias} message: nothing after it is learnt"
        yield Finding("MYP252", text, last.at, help="add the answer, or drop the message")


@check("MYP257")
def same_role_twice(chat: Chat) -> Iterator[Finding]:
    """Finds two questions, or two answers, one directly after the other.

    An answer and a call after it may be two messages where a message holds one of them.
    """
    spoken = talk(chat)
    for before, message in pairwise(spoken):
        if (
            message.role == before.role in ("user", "assistant")
            and not (before.calls or message.calls)
            and (message.name and message.name.text) == (before.name and before.name.text)
        ):
            text = f"two {message.alias} messages in a row"
            hint = "join the two, or put what was said between them back: in many chat templates "
            hint += "roles must alternate"
            yield Finding("MYP257", text, message.at, help=hint)
