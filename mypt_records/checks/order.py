"""Finds messages whose roles are out of order."""

from collections.abc import Iterator
from itertools import pairwise, takewhile

from mypt_records.chat import Call, Chat, Message
from mypt_records.checks.registry import check, once_per_chat
from mypt_spec.findings import Finding, regraded

_INSTRUCTING = ("system", "developer")
_LISTS = ("openai", "sharegpt", "turns")  # shapes whose records are a list of messages
SHORT = 40  # characters of a turn, or a text, that may be said again


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
            yield Finding("MYP250", f"a {message.alias} message after the beginning", message.at)


@check("MYP209")
def second_system(chat: Chat) -> Iterator[Finding]:
    """Finds two system prompts at the beginning, which many templates do not take.

    A message of the system and one of the developer are two things.
    """
    head = [*takewhile(lambda message: message.role in _INSTRUCTING, chat.messages)]
    for before, message in pairwise(head):
        if message.role == before.role:
            text = f"a second {message.alias} message at the beginning"
            yield regraded(Finding("MYP209", text, message.at), "warning")


@check("MYP251")
def answer_without_user(chat: Chat) -> Iterator[Finding]:
    """Finds conversations that begin with an answer; one alone may be a text to train."""
    spoken = talk(chat)
    instructed = chat.shape in _LISTS and chat.messages[0].role in _INSTRUCTING
    if spoken and spoken[0].role == "assistant" and (len(spoken) > 1 or instructed):
        text = f"the conversation begins with the {spoken[0].alias} message"
        yield Finding("MYP251", text, spoken[0].at)


@check("MYP501")
def nothing_trained(chat: Chat) -> Iterator[Finding]:
    """Finds conversations with answers, none of which is trained."""
    answers = [m for m in chat.messages if m.role == "assistant"]
    trained = (m.weight is None or m.weight.value for m in answers)
    weights = (m.weight is not None and m.weight.value for m in chat.messages)
    if answers and not any(trained) and not any(weights):
        text = "no message of this record is trained: the model has nothing to learn from it"
        yield Finding("MYP501", text)


@check("MYP133")
def partial_weight(chat: Chat) -> Iterator[Finding]:
    """Finds the first `weight` other than 0, and 1 of an answer."""
    weights = [(m.weight, m.role) for m in chat.messages if m.weight is not None]
    for weight, role in weights:
        one = weight.value.__class__ is not bool and weight.value == 1 and role == "assistant"
        if weight.at.endswith("/weight") and not one and (weight.value or weight.value is False):
            yield Finding("MYP133", "a weight that is not 0, or 1 of an answer", weight.at)
            return


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
        hint = "add the answer, or drop the message" if chat.shape != "prompt" else ""
        yield Finding("MYP252", text, last.at, help=hint)


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
            yield Finding("MYP257", f"two {message.alias} messages in a row", message.at)


@check("MYP259")
def repeated_turn(chat: Chat) -> Iterator[Finding]:
    """Finds turns, each a question and all up to the next, that a conversation has twice.

    A question or an answer that comes again is a remark, the first of a record.
    """
    starts = [i for i, m in enumerate(chat.messages) if m.role == "user"]
    turns: set[tuple[object, ...]] = set()
    for start, end in pairwise([*starts, len(chat.messages)] if chat.shape in _LISTS else ()):
        messages = chat.messages[start:end]
        turn = tuple((m.role, m.text, repr(m.media), *map(_called, m.calls)) for m in messages)
        if turn in turns and sum(len(m.text) for m in messages) >= SHORT and len(messages) > 1:
            text = "a question and its answer are here again, word for word"
            yield Finding("MYP259", text, messages[0].at)
            return
        turns.add(turn)
    texts: set[tuple[str, str]] = set()
    for message in chat.messages if chat.shape in _LISTS else ():
        said = message.role, message.text
        if said in texts and message.content:
            text = f"a text of the {message.alias} is here again, word for word"
            yield regraded(Finding("MYP259", text, message.at, help="is it what was said?"), "info")
            return
        if message.role in ("user", "assistant") and len(message.text) >= SHORT:
            texts.add(said)


def _called(call: Call) -> tuple[str, str]:
    return call.name.text, repr(call.arguments and call.arguments.value)
