"""Finds keys and personal data in texts. What is found is not quoted in full."""

from collections.abc import Iterator
from functools import partial

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.prefilter import prefilter
from mypt_records.private import holds, masked, needles, private
from mypt_spec.findings import Finding

_SHOWN, _AROUND = 12, 80  # characters of a masked value, and around it

for _code in ("MYP367", "MYP450", "MYP451"):
    prefilter(_code, needles=partial(needles, _code))(partial(holds, _code))


def _found(chat: Chat, code: str, what: str, hint: str) -> Iterator[Finding]:
    """Finds the values of a rule: the first of each kind in a text."""
    for message, text in chat.texts():
        names: set[str] = set()
        for name, start, end in private(text.text, code):
            if name not in names:
                names.add(name)
                first = max(0, start - _AROUND)  # a form may look at what is around it
                value = masked(text.text[first : end + _AROUND])[start - first :][:_SHOWN]
                why = f"`{value}` in the {message.alias} message {what} {name}"
                yield Finding(code, why, text.at, (start, end), help=hint)


@check("MYP367")
def key_in_text(chat: Chat) -> Iterator[Finding]:
    """Finds keys and tokens that give access to something."""
    hint = "revoke it, and write a made-up one: models repeat what they learn"
    return _found(chat, "MYP367", "looks like a secret:", hint)


@check("MYP450")
def personal_data(chat: Chat) -> Iterator[Finding]:
    """Finds ways to reach a person."""
    hint = "write a made-up one, such as name@example.com, unless it is public and may be learned"
    return _found(chat, "MYP450", "may be personal:", hint)


@check("MYP451")
def account_number(chat: Chat) -> Iterator[Finding]:
    """Finds numbers of cards and accounts whose check digits are right."""
    hint = "write a made-up one, such as 4111 1111 1111 1111: models repeat what they learn"
    return _found(chat, "MYP451", "is a valid", hint)
