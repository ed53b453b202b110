"""Finds what a model should not learn to write: loops, phrases of a chatbot, and keys."""

import re
from collections.abc import Iterator

from mypt_records.chat import Chat, Message, Text
from mypt_records.checks.registry import check
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding

_LOOP, _TIMES, _PERIOD, _END = 500, 10, 250, 40  # characters, repeats, characters of one, compared
_MOST = 1000  # repeats that are counted
_PHRASE = re.compile(
    r"\b(?:as an?|I am an?|I'm an?|I am just an?|I'm just an?) (?:AI|large|artificial intelligence)"
    r"(?: large)?,? language model\b",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\bsk-(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[A-Z])(?:proj-|svcacct-|ant-[a-z0-9]+-|or-v1-)?[A-Za-z0-9_-]{32,}"
    r"|\bsk_live_[A-Za-z0-9]{24,}"
    r"|\bghp_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{60,}"
    r"|\bglpat-[A-Za-z0-9_-]{20}\b|\bhf_[A-Za-z]{34}\b|\bAKIA[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{35}|\bxox[abprs]-[A-Za-z0-9-]{20,}"
    r"|-----BEGIN (?:RSA |EC |DSA |OPENSSH |ENCRYPTED )?PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"
)
_SAMPLE = re.compile(r"example|sample|your|dummy|fake|test|x{4}|\.{3}|0000|1234", re.IGNORECASE)
_DISTINCT = 12  # characters of a real key, at the least
_ABOUT = ("anguage model", "anguage Model")
_KEYS = (
    "sk-", "sk_live_", "ghp_", "github_pat_", "glpat-", "hf_", "AKIA",
    "AIza", "xox", "PRIVATE KEY",
)  # fmt: skip


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


def _first(pattern: re.Pattern[str], text: str, words: tuple[str, ...]) -> re.Match[str] | None:
    """Returns the first match in a text; each match has one of `words`."""
    return pattern.search(text) if any(map(text.__contains__, words)) else None


@prefilter("MYP365", least=_LOOP)
def _may_repeat(text: str) -> bool:
    return loop(text)[0] > 0


@prefilter("MYP366", needles=lambda: ["uage model"])
def _may_be_phrase(text: str) -> bool:
    return _first(_PHRASE, text, _ABOUT) is not None


@prefilter("MYP367", needles=lambda: ["b_pa", *(key for key in _KEYS if key != "github_pat_")])
def _may_be_key(text: str) -> bool:
    return _first(_KEY, text, _KEYS) is not None


def _answers(chat: Chat) -> Iterator[tuple[Message, Text]]:
    """Yields the texts that a model learns to write; not those of bad answers."""
    good = chat.label is None or chat.label.value
    items = chat.texts(rejected=False) if good else ()
    return (item for item in items if item[0].role == "assistant")


@check("MYP365")
def repeated_text(chat: Chat) -> Iterator[Finding]:
    """Finds answers that say the same again and again up to their end."""
    for message, text in _answers(chat):
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
    for message, text in _answers(chat):
        if match := _first(_PHRASE, text.text, _ABOUT):
            why = f"{match[0]!r} in the {message.alias} message is a phrase of another model"
            yield Finding("MYP366", why, text.at, match.span(), help="write the answer without it")


@check("MYP367")
def key_in_text(chat: Chat) -> Iterator[Finding]:
    """Finds keys and tokens that give access to something."""
    for message, text in chat.texts():
        for match in _KEY.finditer(text.text) if _first(_KEY, text.text, _KEYS) else ():
            if not _SAMPLE.search(match[0]) and len({*match[0]}) >= _DISTINCT:
                why = f"`{match[0][:8]}...` in the {message.alias} message looks like a secret key"
                hint = "revoke it, and write a made-up one: models repeat what they learn"
                yield Finding("MYP367", why, text.at, match.span(), help=hint)
                break
