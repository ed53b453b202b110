"""Finds answers that loop, and wordings by their patterns (content.toml)."""

from collections.abc import Iterator
from functools import partial

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.patterns import first, has, needles, rows, table
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding

_LOOP, _TIMES, _PERIOD, _END = 500, 10, 250, 40  # characters, repeats, characters of one, compared
_SHORT, _OFTEN = 400, 100  # characters, repeats: of one character or word
_SHOWN = 60  # characters of a match
_MOST = 1000  # repeats that are counted


def loop(text: str) -> tuple[int, int]:
    """Returns the length of what a text repeats up to its end, and how often; 0 for few repeats."""
    last = text[-_END:]
    size = len(text)
    if size < _SHORT:
        return 0, 0
    before = text.rfind(last, size - _END - _PERIOD, size - 1)
    period = size - _END - before if before >= 0 else 0
    unit = text[size - period :]
    letters = len({char for char in unit if char.isalnum()}) if period else 0
    times = 1
    while letters and times < _MOST and text.endswith(unit, 0, size - times * period):
        times += 1
    spoken = sum(map(str.isalpha, {*unit})) > 1 and times >= _TIMES and period * times >= _LOOP
    many = times >= _OFTEN and period * times >= _SHORT
    return (period, times) if period and (spoken or many) else (0, 0)


@prefilter("MYP365", least=_SHORT)
def _may_repeat(text: str) -> bool:
    return loop(text)[0] > 0


@check("MYP365")
def repeated_text(chat: Chat) -> Iterator[Finding]:
    """Finds answers that say the same again and again up to their end."""
    for message, text in chat.answers("MYP365"):
        period, times = loop(text.text)
        if period:
            size = len(text.text)
            why = f"the {message.alias} message ends with the same {times} times over"
            yield Finding("MYP365", why, text.at, (size - period * times, size))


def _in_texts(names: list[str], chat: Chat) -> Iterator[Finding]:
    """Finds the patterns of a rule: in answers, or in questions, too, unless others say why."""
    for name in names:
        row = table(name)
        for message, text in (chat.texts if row.get("questions") else chat.answers)(row["code"]):
            match = first(name, text.text) if message.role in ("user", "assistant") else None
            others = [t.text for m, t in chat.texts() if m is not message] if match else []
            unless = row.get("unless")
            if match and not (unless and any(has(unless, other) for other in others)):
                shown = match[0].strip().splitlines()[-1][:_SHOWN]
                why = f"`{shown}` in the {message.alias} message {row['why']}"
                yield Finding(row["code"], why, text.at, match.span(), help=row["help"])


for _code, _names in rows().items():
    check(_code)(partial(_in_texts, _names))
    for _name in _names:
        prefilter(_code, needles=partial(needles, _name))(partial(has, _name))
