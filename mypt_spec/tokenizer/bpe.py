"""Encodes text by a vocabulary, and decodes its ids; special tokens are none of it.

tiktoken cuts by one regular expression and joins bytes. Here is what it leaves to others: a
vocabulary that cuts text several times, text that no expression matches, which tiktoken would drop,
and white space so long that its engine runs out of stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, Vocabulary

if TYPE_CHECKING:
    import tiktoken

_LONG_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]{4000,}")


class Bpe:
    """Encodes and decodes text. `base` loads the encoding when it is first needed.

    Text is cut into parts by all patterns but the last, and each part into pieces by that.
    """

    def __init__(self, base: Callable[[], tiktoken.Encoding], patterns: tuple[str, ...]) -> None:
        self.base, self._patterns, self.pattern = base, patterns, patterns[-1]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text. Raises ValueError for a lone surrogate."""
        return [i for part in self.parts(text) for i in self.part_ids(part)]

    def parts(self, text: str) -> list[str]:
        """Returns the parts of a text that the last pattern is to cut."""
        return cut(text, self._patterns[:-1])

    def pieces(self, text: str) -> list[str]:
        """Returns the pieces of a text, each of which is encoded by itself."""
        return cut(text, self._patterns)

    def part_ids(self, text: str) -> list[int]:
        """Returns the ids of a part. Raises ValueError for a lone surrogate."""
        text.encode()  # raises; tiktoken would replace a lone surrogate by U+FFFD in silence
        base = self.base()
        if self._patterns[-1] != GPT2_PATTERN:
            if not _LONG_SPACE.search(text):
                return base.encode_ordinary(text)
            pieces = cut(text, self._patterns[-1:])
            return [i for piece in pieces for i in base._encode_single_piece(piece)]
        ids: list[int] = []
        at = 0
        for run in _LONG_SPACE.finditer(text):
            # tiktoken's regex engine runs out of stack on long white space; its pattern makes one
            # piece of it, less the last character where something follows.
            end = run.end() if run.end() == len(text) else run.end() - 1
            ids += base.encode_ordinary(text[at : run.start()])
            ids += base._encode_single_piece(text[run.start() : end])
            at = end
        return ids + base.encode_ordinary(text[at:])

    def decode_bytes(self, ids: list[int]) -> bytes:
        """Returns the bytes of ids of text. Raises KeyError for another id."""
        return self.base().decode_bytes(ids)


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
    from tiktoken_ext.openai_public import r50k_pat_str

    if vocabulary.by_character:
        from mypt_spec.tokenizer.by_character import CharacterEncoding

        return CharacterEncoding(vocabulary)
    last = vocabulary.patterns[-1]
    # tiktoken drops what its pattern does not match; here it is a piece by itself.
    pattern = r50k_pat_str if last == GPT2_PATTERN else rf"{last}|(?:(?!{last})[\s\S])+"
    return tiktoken.Encoding(
        vocabulary.name, pat_str=pattern, mergeable_ranks=vocabulary.ranks, special_tokens={}
    )
