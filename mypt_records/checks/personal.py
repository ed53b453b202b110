"""Finds keys and personal data in texts. What is found is not quoted in full."""

from collections.abc import Iterator
from functools import partial

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.prefilter import prefilter
from mypt_records.private import kinds, masked, private
from mypt_spec.findings import Finding

_SHOWN, _AROUND = 12, 80  # characters of a masked value, and around it

_SAYS = {"MYP367": "looks like a secret:", "MYP450": "may be personal:", "MYP451": "is a valid"}


def _found(code: str, what: str, chat: Chat) -> Iterator[Finding]:
    """Finds the values of a rule: the first of each kind in a text."""
    for message, text in chat.texts(code):
        names: set[str] = set()
        for name, start, end in private(text.text, code):
            if name not in names:
                names.add(name)
                first = max(0, start - _AROUND)  # a form may look at what is around it
                value = masked(text.text[first : end + _AROUND])[start - first :][:_SHOWN]
                why = f"`{value}` in the {message.alias} message {what} {name}"
                yield Finding(code, why, text.at, (start, end))


for _code, _what in _SAYS.items():
    check(_code)(partial(_found, _code, _what))
for _kind in kinds():
    prefilter(_kind.code, needles=partial(tuple, _kind.needles))(_kind.is_in)
