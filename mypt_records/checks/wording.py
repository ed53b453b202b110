"""Finds answers that loop, and phrases by which another model speaks of itself."""

from collections.abc import Iterator

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.patterns import first, needles
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding

_LOOP, _TIMES, _PERIOD, _END = 500, 10, 250, 40  # characters, repeats, characters of one, compared
_MOST = 1000  # repeats that are counted


def loop(text: str) -> tuple[int, int]:
    """Returns the length of what a text repeats up to its end, and how often; 0 for few repeats."""
    last = text[-_END:]
    size = len(text)
    if size < _LOOP:
        return 0, 0
    before = text.rfind(last, size - _END - _PERIOD, size - 1)
    period = size - _END - before if before >= 0 else 0
    unit = text[size - period :]
    spoken = period and len({char for char in unit if char.isalpha()}) > 1
    times = 1
    while spoken and times < _MOST and text.endswith(unit, 0, size - times * period):
        times += 1
    return (period, times) if times >= _TIMES and period * times >= _LOOP else (0, 0)


@prefilter("MYP365", least=_LOOP)
def _may_repeat(text: str) -> bool:
    return loop(text)[0] > 0


@prefilter("MYP366", needles=lambda: needles("phrase"))
def _may_be_phrase(text: str) -> bool:
    return first("phrase", text) is not None


@check("MYP365")
def repeated_text(chat: Chat) -> Iterator[Finding]:
    """Finds answers that say the same again and again up to their end."""
    for message, text in chat.answers():
        period, times = loop(text.text)
        if period:
            size = len(text.text)
            why = f"the {message.alias} message ends with the same {times} times over"
            hint = "cut it, or drop the record: a model that learns it does not stop"
            span = size - period * times, size
            yield Finding("MYP365", why, text.at, span, help=hint)


@check("MYP366")
def chatbot_phrase(chat: Chat) -> Iterator[Finding]:
    """Finds phrases by which another model speaks of itself."""
    for message, text in chat.answers():
        if match := first("phrase", text.text):
            why = f"{match[0]!r} in the {message.alias} message is a phrase of another model"
            yield Finding("MYP366", why, text.at, match.span(), help="write the answer without it")
