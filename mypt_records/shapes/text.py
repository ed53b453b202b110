"""Reads records whose `text` is serialised already, in the format of a dialect that is known here.

The tags tell the dialect, which reads the text. The chat has no messages: the dialect knows more of
them than a chat could say.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import mypt_spec
from mypt_records.chat import Chat
from mypt_records.reading import Reader
from mypt_spec.compiled.toml import load
from mypt_spec.dialect import families, folder, table_text
from mypt_spec.episode import Episode
from mypt_spec.findings import Finding
from mypt_spec.parser import parse_text
from mypt_spec.table import TEXT

ABOUT = "serialised texts (text)"
PROMPT = ""
TOP = frozenset({"text", "language"})
_BEGINNING = 20_000  # characters that are looked at for tags
_CONTROL = Path(__file__).parents[1] / "checks" / "control.toml"


def fit(record: dict[str, Any]) -> int:
    text = record.get("text")
    return 1 if isinstance(text, str) and formats_of(text) else 0


@lru_cache(maxsize=16)
def parsed(name: str, text: str) -> tuple[Episode | None, list[Finding], str]:
    """Returns the Episode of a text in a format, its findings, and the text that was read.

    Of an illegal text, the findings say no more. Trainers frame texts: the token that begins those
    of the format may be missing, or come before each question, and another one may be the last.
    White space after the last tag may be missing.
    """
    dialect = mypt_spec.dialect(name)
    first, *others = dialect.automaton.steps[dialect.automaton.start]
    row, special = dialect.table.terminals[first], dialect.table.special
    begin = "" if others or row.opens or len(row.spelling) > 1 else row.shown
    own = "|".join(re.escape(tag) for tag in _ends() if tag in special) or "(?!)"
    added = "|".join(re.escape(tag) for tag in _ends() if tag not in special) or "(?!)"
    again = rf"({own})\s*{re.escape(begin)}"
    framed = begin + re.sub(again, r"\1", text.removeprefix(begin)) if begin else text
    for whole in dict.fromkeys((text, framed, re.sub(rf"(?:{added})\s*\Z", "", framed))):
        episode, findings = parse_text(whole, dialect.table, dialect.automaton, 0)
        if episode is not None:
            end = "MYP230", len(whole)
            return episode, [f for f in findings if (f.code, f.span and f.span[1]) != end], whole
    return None, findings, text


@cache
def _ends() -> list[str]:
    """Returns the tokens that end turns or texts."""
    control = load(_CONTROL)
    return [*control["ends"]["a turn"], *control["added"]["a text"]]


@cache
def _around() -> re.Pattern[str]:
    """Returns a pattern of the tokens that trainers put around any text."""
    begins = load(_CONTROL)["begins"]["a text"]
    begin, end = ("|".join(map(re.escape, tags)) for tags in (begins, _ends()))
    return re.compile(rf"\A\s*(?:{begin})|(?:{end})\s*\Z")


def _fit(name: str, text: str) -> int:
    """Returns how well a format fits a text: 0 if it is illegal there, 2 if it has no findings."""
    episode, findings, _ = parsed(name, text)
    return (episode is not None) + (not findings)


@lru_cache(maxsize=16)  # the shape is asked for, and then the text is read
def formats_of(text: str, fit: Callable[[str, str], int] = _fit) -> tuple[str, ...]:
    """Returns the dialects that explain a text best, or families that are better.

    They have most tags: a format in which tags of others are text allows faults beside them. Of
    those that have them in common, they fit best. A text without tags has none.
    """
    for others in ((), families()):
        names = _with_most_tags((*mypt_spec.dialects(), *with_tags(others, text)), text)
        fits = {name: fit(name, text) for name in names}
        best = tuple(name for name in fits if fits[name] == max(fits.values()))
        if 2 in fits.values():
            break
    if best and fit is _fit and not any(fits.values()):
        ends = [tag for tag in _ends() if tag in text]
        if ends and not any(tag in mypt_spec.dialect(best[0]).table.special for tag in ends):
            return ()  # models that have `<|user|>`, too, end turns otherwise
    return tuple(name for name in best if name not in families()) or best


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Returns formats without those that give a text the ids and masks of another one of them."""
    names = tuple(names)
    return tuple(n for n in names if mypt_spec.dialect(n).table.texts_of not in names)


def _with_most_tags(names: Iterable[str], text: str) -> tuple[str, ...]:
    """Returns the formats whose tags are most of a text; none where it has but some around it."""
    inner = _around().sub("", text[:_BEGINNING])
    lengths = {
        name: sum(len(e.text.strip()) for e in dialect.lex(text[:_BEGINNING]) if e.terminal != TEXT)
        for name in names
        if (dialect := mypt_spec.dialect(name)).table.literals.search(inner)  # most have none
    }
    most = max(lengths.values(), default=0)
    return tuple(name for name, length in lengths.items() if length == most > 0)


def with_tags(names: Iterable[str], text: str) -> list[str]:
    """Returns the formats of which the tag of a question is in a text; they are not loaded."""
    return [name for name in names if all(tag in text for tag in _of_question(name))]


@cache
def _of_question(name: str) -> tuple[str, ...]:
    table = table_text(folder(name))
    opens = "\nopens" + re.findall("turn_opener( = .+\n)", table)[0]
    row = next(row for row in table.split("[[terminal]]") if opens in row)
    return tuple(re.findall(r'(?:special|text) = "([^"\\]+)"', row))


def read(record: dict[str, Any]) -> Chat:
    """Returns a record as a chat without messages. Never raises."""
    reader = Reader()
    text = reader.string(record.get("text"), "/text", "text")
    formats = formats_of(text.text) if text is not None else ()
    name = next(iter(formats), "")
    if record.get("text") is None:
        reader.add("MYP102", 'the record has no "text"', "", hint='add "text": "..."')
    elif text is not None and not name:
        names = ", ".join(mypt_spec.dialects())
        reader.add("MYP104", f"the text has tags of no known format; known are {names}", "/text")
    elif text is not None:
        dialect = mypt_spec.dialect(name)
        episode, faults, whole = parsed(name, text.text)
        faults = dialect.parse(whole)[1] if episode is None else faults + dialect.validate(episode)
        if episode is None and name in families():  # nobody knows which of them is meant
            fault = f"the text has tags of {', '.join(formats)}, and is not legal"
            faults = [Finding("MYP104", fault, help=f"use --dialect {name} to see why")]
        same = whole == text.text
        more = [replace(f, pointer="/text", span=f.span if same else None) for f in faults]
        reader.findings += [replace(f, fix=None) for f in more]
    chat = reader.chat("text", record, (), None, top=TOP, used=("text",))
    return replace(chat, serialised=name)
