"""Finds answers that are none: copies, punctuation, cut sentences, another script."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from string import ascii_letters, digits, whitespace

from mypt_records.chat import Chat, Text
from mypt_records.checks.registry import check
from mypt_records.checks.wording import loop
from mypt_records.patterns import first
from mypt_records.prefilter import prefilter
from mypt_spec.compiled.toml import load
from mypt_spec.findings import Finding
from mypt_spec.memo import lazy_re

_FEW = 10  # punctuation marks, and characters of the end of an answer
COPY = 20  # the least characters of a copy, of several words
_MARKS = ".,!?"
_MORE = _MARKS + whitespace
_ONLY_MARKS = lazy_re(f"[{_MARKS}][{_MORE}]+")
_ENDS, _SCRIPTS = load(Path(__file__).with_name("answers.toml")).values()
_BEFORE = f"{ascii_letters}{digits})"  # a comma
_CUT = re.compile(rf"(?:[{_BEFORE}],| (?:{'|'.join(_ENDS)}))\Z")
# A line that opens a block, and may say of which language it is, or one that closes it.
_CODE = "python|py|javascript|js|typescript|java|cpp|go|rust|ruby|php|sql|html|css|bash|sh|json"
_FENCE = lazy_re(rf"^[ \t>*+\d.-]*```(?:[ \t]*({_CODE})[ \t\r]*$)?", re.MULTILINE)
_NESTED = lazy_re("```(?i:markdown|md)\\b")  # where fences may be inside of a block
_END, _WORDS = 150, re.compile(r"(?:(?<= )[A-Za-z',’-]+ ){9}[a-z]+\Z")  # characters; of prose
_LONG = 100  # characters of a question that an answer may begin with
_LETTERS = 20  # of the script, at the least
_OTHER = f"[{''.join(_SCRIPTS.values())}]"  # compiled when needed, which takes long


def script_of_one(texts: Sequence[str]) -> tuple[int, str]:
    """Returns the number of the only text with letters of a script other than Latin, and its name.

    -1 where none has, several have, or less than half of its letters are of the script.
    """
    numbers = [i for i, text in enumerate(texts) if _has_script(text)]
    for number in numbers if len(numbers) == 1 else ():
        text = texts[number]
        letters = {name: re.findall(f"[{script}]", text) for name, script in _SCRIPTS.items()}
        name = next(filter(letters.get, letters))
        count = len(letters[name])
        if count >= _LETTERS and 2 * count >= sum(map(str.isalpha, text)):
            return number, name
    return -1, ""


@prefilter("MYP454", needles=lambda: [("\0", _MARKS, _MORE, f"{_MORE}\0")])
def _is_marks(text: str) -> bool:
    """Returns whether a text is a few punctuation marks and nothing else."""
    return len(text) <= _FEW and _ONLY_MARKS.fullmatch(text) is not None


@prefilter("MYP456", needles=lambda: ["```"])
def _is_open(text: str) -> bool:
    """Returns whether a text opens a code block of a language, and does not close it."""
    count = text.count("```")
    if count % 2 == 0 or "````" in text or "~~~" in text:
        return False
    fences = _FENCE.findall(text)  # one in a line may open or close a block
    return len(fences) == count and fences[-1] != "" and _NESTED.search(text) is None


@prefilter("MYP456", needles=lambda: [(_BEFORE, ",", "\0"), *(f" {word}\0" for word in _ENDS)])
def _is_cut(text: str) -> bool:
    return bool(_CUT.search(text, max(0, len(text) - _FEW)) and first("unfinished", text))


@prefilter("MYP457")
def _has_script(text: str) -> bool:
    if text.isascii():
        return False
    near = ("\u0370" <= c < "\u1000" or "\u3040" <= c < "\ud7b0" for c in {*text})
    return any(near) and re.search(_OTHER, text) is not None


@check("MYP454")
def no_answer(chat: Chat) -> Iterator[Finding]:
    """Finds answers that copy the question, and those of a few punctuation marks."""
    roles = {message.role for message in chat.messages}
    for before, message in zip(chat.messages, chat.messages[1:], strict=False):
        text = message.text.strip()
        if message.role != "assistant" or not message.content or message.calls or message.thoughts:
            continue
        at = message.content[0].at
        if _is_marks(message.text):
            yield Finding("MYP454", f"the {message.alias} message is only {text!r}", at)
        copied = before.role == "user" and text == before.text.strip() and "system" not in roles
        if copied and len(text) >= COPY and " " in text:
            yield Finding("MYP454", f"the {message.alias} message copies the question", at)


@check("MYP463")
def thought_is_answer(chat: Chat) -> Iterator[Finding]:
    """Finds the first thought that is the same text as its answer."""
    for message in chat.messages:
        answer = message.text.strip()
        if answer and any(thought.text.strip() == answer for thought in message.thoughts):
            why = f"the thought of the {message.alias} message is the same text as its answer"
            yield Finding("MYP463", why, message.thoughts[0].at)
            return


def _last_answer(chat: Chat) -> Sequence[Text]:
    """Returns the last text of an answer that ends a chat; none if it is a call."""
    last = chat.messages[-1]
    return (last.content or ())[-1:] if last.role == "assistant" and not last.calls else ()


@check("MYP456")
def unfinished_answer(chat: Chat) -> Iterator[Finding]:
    """Finds last answers that stop in the middle of a sentence, or of a code block."""
    for text in _last_answer(chat):
        if (is_open := _is_open(text.text)) or _is_cut(text.text):
            what = "a code block" if is_open else "a sentence"
            why = f"the answer ends with {text.text[-20:]!r}, in the middle of {what}"
            yield Finding("MYP456", why, text.at, (len(text.text) - 1, len(text.text)))


@check("MYP457")
def another_script(chat: Chat) -> Iterator[Finding]:
    """Finds an answer in a script that nothing else in the conversation has or asks for."""
    texts = [*chat.texts()]
    number, name = script_of_one([text.text for _, text in texts])
    if number < 1 or texts[number][0].role != "assistant":
        return
    message, text = texts[number]
    if not any(first("languages", other.text) for _, other in texts):
        why = f"the {message.alias} message is {name}, and nothing else is"
        yield Finding("MYP457", why, text.at)


@prefilter("MYP330")
def _has_no_end(text: str) -> bool:
    """Returns whether a text ends with many words, the last in small letters; loops are others."""
    return _WORDS.search(text, max(0, len(text) - _END)) is not None and not loop(text)[0]


@check("MYP330")
def unended_answer(chat: Chat) -> Iterator[Finding]:
    """Finds last answers whose last sentence has no end."""
    for text in _last_answer(chat):
        if _has_no_end(text.text):
            why = f"the answer ends with {text.text[-20:]!r}, and not with a sentence"
            yield Finding("MYP330", why, text.at)


prefilter("MYP331", least=_LONG)(bool)


@check("MYP331")
def answer_repeats_question(chat: Chat) -> Iterator[Finding]:
    """Finds answers that begin with the question, or are the end of it."""
    for before, message in pairwise(chat.messages):
        asked, text = before.text.strip(), message.text.strip()
        if before.role == "user" and message.role == "assistant" and message.content:
            begins = len(asked) >= _LONG and text.startswith(asked) and text != asked
            ends = len(text) >= _LONG and asked.endswith(f"\n{text}")
            if begins or ends:
                what = "begins with the whole question" if begins else "is the text of the question"
                why = f"the {message.alias} message {what}"
                yield Finding("MYP331", why, message.content[0].at)
