"""Finds answers that are none: copies, punctuation, cut sentences, another script."""

import re
from collections.abc import Iterator, Sequence
from string import ascii_letters, digits

from mypt_records.chat import Chat
from mypt_records.checks.registry import check
from mypt_records.patterns import first
from mypt_records.prefilter import prefilter
from mypt_spec.findings import Finding

_FEW = 10  # punctuation marks, and characters of the end of an answer
COPY = 20  # the least characters of a copy, of several words
_MARKS = ".,!?"
_ONLY_MARKS = re.compile(f"[{_MARKS}][{_MARKS}\\s]+")
# Words that end no sentence, and a comma.
_ENDS = (
    "the", "a", "an", "and", "or", "of", "but", "because", "which", "from", "by", "into", "with",
    "their", "its", "your", "our", "his", "her", "my", "is", "are", "was", "were", "be", "to",
    "that",
)  # fmt: skip
_BEFORE = f"{ascii_letters}{digits})"  # a comma
_CUT = re.compile(rf"(?:[{_BEFORE}],| (?:{'|'.join(_ENDS)}))\Z")
_SCRIPTS = {
    "Chinese, Japanese or Korean": "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af",
    "Cyrillic": "\u0400-\u04ff", "Arabic": "\u0600-\u06ff", "Hebrew": "\u0590-\u05ff",
    "Devanagari": "\u0900-\u097f", "Thai": "\u0e00-\u0e7f", "Greek": "\u0370-\u03ff",
}  # fmt: skip
_LETTERS = 20  # of the script, at the least
_OTHER = f"[{''.join(_SCRIPTS.values())}]"  # compiled when needed, which takes long


def script_of_one(texts: Sequence[str]) -> tuple[int, str]:
    """Returns the number of the only text with letters of a script other than Latin, and its name.

    -1 where none has, several have, or less than half of its letters are of the script.
    """
    numbers = [i for i, text in enumerate(texts) if re.search(_OTHER, text)]
    for number in numbers if len(numbers) == 1 else ():
        text = texts[number]
        letters = {name: re.findall(f"[{script}]", text) for name, script in _SCRIPTS.items()}
        name = next(filter(letters.get, letters))
        count = len(letters[name])
        if count >= _LETTERS and 2 * count >= sum(map(str.isalpha, text)):
            return number, name
    return -1, ""


@prefilter("MYP454", needles=lambda: [("\0", _MARKS, f"{_MARKS} \n", f"{_MARKS} \n\0")])
def _is_marks(text: str) -> bool:
    """Returns whether a text is a few punctuation marks and nothing else."""
    return len(text) <= _FEW and _ONLY_MARKS.fullmatch(text) is not None


@prefilter("MYP456", needles=lambda: [(_BEFORE, ",", "\0"), *(f" {word}\0" for word in _ENDS)])
def _is_cut(text: str) -> bool:
    return bool(_CUT.search(text, max(0, len(text) - _FEW)) and first("unfinished", text))


@prefilter("MYP457")
def _has_script(text: str) -> bool:
    return not text.isascii() and re.search(_OTHER, text) is not None


@check("MYP454")
def no_answer(chat: Chat) -> Iterator[Finding]:
    """Finds answers that copy the question, and those of a few punctuation marks."""
    hint = "write an answer, or drop the record"
    roles = {message.role for message in chat.messages}
    for before, message in zip(chat.messages, chat.messages[1:], strict=False):
        text = message.text.strip()
        if message.role != "assistant" or not message.content or message.calls or message.thoughts:
            continue
        at = message.content[0].at
        if _is_marks(message.text):
            yield Finding("MYP454", f"the {message.alias} message is only {text!r}", at, help=hint)
        copied = before.role == "user" and text == before.text.strip() and "system" not in roles
        if copied and len(text) >= COPY and " " in text:
            why = f"the {message.alias} message copies the question"
            yield Finding("MYP454", why, at, help=hint)


@check("MYP463")
def thought_is_answer(chat: Chat) -> Iterator[Finding]:
    """Finds the first thought that is the same text as its answer."""
    for message in chat.messages:
        answer = message.text.strip()
        if answer and any(thought.text.strip() == answer for thought in message.thoughts):
            why = f"the thought of the {message.alias} message is the same text as its answer"
            hint = "delete the thought, or write the one that led to the answer"
            yield Finding("MYP463", why, message.thoughts[0].at, help=hint)
            return


@check("MYP456")
def unfinished_answer(chat: Chat) -> Iterator[Finding]:
    """Finds last answers that stop in the middle of a sentence."""
    last = chat.messages[-1]
    for text in (last.content or ())[-1:] if last.role == "assistant" and not last.calls else ():
        if _is_cut(text.text):
            why = f"the answer ends with {text.text[-20:]!r}, in the middle of a sentence"
            hint = "generate it again with more tokens, or drop the record"
            span = len(text.text) - 1, len(text.text)
            yield Finding("MYP456", why, text.at, span, help=hint)


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
        hint = "answer in the language of the question, or say in it why not"
        yield Finding("MYP457", why, text.at, help=hint)
