"""Encodes text by a vocabulary, and decodes its ids; special tokens are none of it.

tiktoken cuts by one regular expression and joins bytes. Here is what it leaves to others: a
vocabulary that cuts text several times, text that no expression matches, which tiktoken would drop,
and white space so long that its engine runs out of stack.

Most expressions end alike: of white space before a word, the last character goes with the word.
Without that look-ahead, a finite automaton runs them, twice as fast, and cuts all but long runs of
white space in the same way; the long ones are cut here.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from mypt_spec.memo import lazy_re
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, Vocabulary

if TYPE_CHECKING:
    import tiktoken

# How Qwen's, Llama 3's, gpt-oss' and Mistral's vocabularies cut text.
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
)
_SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN2 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}" + _TAIL.replace("/", "")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = "".join(f"{cased}{_SHORT}?|" for cased in _CASED) + r"\p{N}{1,3}" + _TAIL
TEKKEN = "|".join(_CASED) + r"|\p{N}" + _TAIL
# The patterns that need no look-ahead, by those that have one.
PLAIN = {
    pattern: pattern.removesuffix(r"|\s+(?!\S)|\s+") + r"|\s"
    for pattern in (GPT2_PATTERN, QWEN2, LLAMA3, O200K, TEKKEN)
}
BETWEEN = "\0"  # of texts that are encoded at once
_BLANK = r"\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACE = rf"\r\n{_BLANK}"
_LONG_SPACE = lazy_re(f"[{_SPACE}]{{4000,}}")
# Patterns of a few texts, which may match at the beginning only.
_LITERALS = lazy_re(r"(?:\\A)?(?:[^\\.^$|?*+()\[\]{}\0]|\\[^\w\0]|\|)+")


@cache
def _uneven(plain: str) -> re.Pattern[str]:
    """Returns what finds white space that a plain pattern cuts otherwise."""
    if plain not in PLAIN.values():
        return _LONG_SPACE
    chars = _SPACE if plain == PLAIN[GPT2_PATTERN] else _BLANK  # in others, line ends are apart
    return re.compile(rf"[{chars}][{chars}](?:[{chars}]+(?![{_SPACE}])|[{chars}]*\Z)")


class Bpe:
    """Encodes and decodes text. `base` loads the encoding when it is first needed.

    Text is cut into parts by all patterns but the last, and each part into pieces by that.
    """

    def __init__(self, base: Callable[[], tiktoken.Encoding], patterns: tuple[str, ...]) -> None:
        self.base, self._patterns, self.pattern = base, patterns, patterns[-1]
        # What finds the places where the first patterns may match, in many texts at once.
        literals = all(map(_LITERALS.fullmatch, patterns[:-1]))
        near = "|".join(pattern.removeprefix(r"\A") for pattern in patterns[:-1])
        self._near = near if literals else None
        self.is_spaced = literals and " " not in near and self.pattern in PLAIN

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text. Raises ValueError for a lone surrogate."""
        return [i for part in self.parts(text) for i in self.part_ids(part)]

    def parts(self, text: str) -> list[str]:
        """Returns the parts of a text that the last pattern is to cut."""
        return cut(text, self._patterns[:-1])

    def parts_of(self, texts: list[str]) -> tuple[list[str], list[int]]:
        """Returns the parts of all texts, and how many each text has."""
        near = self._near
        if near == "" or (near and not _compiled(near).search(BETWEEN.join(texts))):
            return texts, [1] * len(texts)
        each = [self.parts(text) or [text] for text in texts]
        return [*chain.from_iterable(each)], [*map(len, each)]

    def pieces(self, text: str) -> list[str]:
        """Returns the pieces of a text, each of which is encoded by itself."""
        return cut(text, self._patterns)

    def part_ids(self, text: str) -> list[int]:
        """Returns the ids of a part. Raises ValueError for a lone surrogate."""
        text.encode()  # raises; tiktoken would replace a lone surrogate by U+FFFD in silence
        base = self.base()
        plain = getattr(base, "_pat_str", "")
        if _uneven(plain) is _LONG_SPACE and self.pattern != GPT2_PATTERN:
            if not _LONG_SPACE.search(text):
                return base.encode_ordinary(text)
            pieces = cut(text, self._patterns[-1:])
            return [i for piece in pieces for i in base._encode_single_piece(piece)]
        ids: list[int] = []
        for i, piece in enumerate(around_white(text, plain)):
            ids += base._encode_single_piece(piece) if i % 2 else base.encode_ordinary(piece)
        return ids

    def decode_bytes(self, ids: list[int]) -> bytes:
        """Returns the bytes of ids of text. Raises KeyError for another id."""
        return self.base().decode_bytes(ids)


def around_white(text: str, plain: str) -> list[str]:
    """Returns a text in pieces: every second is white space that a plain pattern cuts otherwise.

    The usual pattern makes one piece of it, less the last character where text follows; with a
    look-ahead, tiktoken's regex engine would run out of stack.
    """
    out: list[str] = []
    at = 0
    for run in _uneven(plain).finditer(text):
        end = run.end() if run.end() == len(text) else run.end() - 1
        out += [text[at : run.start()], text[run.start() : end]]
        at = end
    return [*out, text[at:]]


def cut(text: str, patterns: Iterable[str]) -> list[str]:
    """Returns a text in pieces: the matches of the first pattern and what is between, and so on."""
    pieces = [text]
    for pattern in patterns:
        parts: list[str] = []
        for piece in pieces:
            at = 0
            for match in _compiled(pattern).finditer(piece):
                parts += [piece[at : match.start()], match[0]]
                at = match.end()
            parts.append(piece[at:])
        pieces = [piece for piece in parts if piece]
    return pieces


@cache
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern, regex.VERSION1)


@cache
def encoding(vocabulary: Vocabulary) -> tiktoken.Encoding:
    """Returns tiktoken's encoding of a vocabulary, which cuts by its last pattern."""
    import tiktoken

    if vocabulary.by_character:
        from mypt_spec.tokenizer.by_character import CharacterEncoding

        return CharacterEncoding(vocabulary)
    last = vocabulary.patterns[-1]
    # tiktoken drops what its pattern does not match; here it is a piece by itself.
    pattern = PLAIN.get(last) or rf"{last}|(?:(?!{last})[\s\S])+"
    name, ranks, special = vocabulary.name, vocabulary.ranks, vocabulary.ids.ranges[-1].stop + 1
    special_ids = {BETWEEN: special}
    return immortal(
        tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_ids)
    )


def immortal(encoding: tiktoken.Encoding) -> tiktoken.Encoding:
    """Returns an encoding that is not freed at the end, which would take as long as loading it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(encoding))
    return encoding
