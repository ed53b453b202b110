"""Takes texts apart into terms: what the search compares.

Input: the text of a document, or a query. Output: terms. A term is the stem of a word, without case
and accents. Scripts that put no spaces between words, and Korean, whose particles are written on to
the words, become pairs of neighbouring letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from mypt_infer.workspace.index.stems import STEMMERS, STOP, language_of

# The most letters of a word that count.
_LETTERS = 60
# Thai, Lao, Burmese, Khmer, kana, Han, Hangul.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowels of Indian scripts are marks, which \w leaves out.
_WORD = re.compile(rf"[{_DENSE}]+|(?:[^\W_{_DENSE}]|[\u0900-\u0dff])+")
_IS_DENSE = re.compile(f"[{_DENSE}]")
_ACCENTS = re.compile("[\u0300-\u036f]")
# The number of words whose terms are kept.
_REMEMBERED = 300_000


def folded(text: str) -> str:
    """Returns a text without case, accents and variants of letters.

    >>> folded("Größe ﬁ Ａ 비밀")
    'grosse fi a 비밀'
    """
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def words_of(text: str) -> list[str]:
    """Returns the words of a text, folded.

    >>> words_of("Don't use MAX_SIZE: 有給休暇!")
    ['don', 't', 'use', 'max', 'size', '有給休暇']
    """
    return _WORD.findall(folded(text))


def pairs(run: str) -> Iterator[str]:
    """Yields the pairs of neighbouring letters, and the last letter alone.

    >>> list(pairs("有給休"))
    ['有給', '給休', '休']
    """
    for i in range(len(run)):
        yield run[i : i + 2]


class Analyzer(dict[str, tuple[str, ...]]):
    """Terms by word, in one language; a stop word has none.

    A dict, so that a word that was seen before costs one look-up.
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stem, self._stop = STEMMERS[language], STOP.get(language, frozenset())

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= _REMEMBERED:
            self.clear()
        stems = () if word in self._stop else self.anyway(word)
        self[word] = stems
        return stems

    def anyway(self, word: str) -> tuple[str, ...]:
        """Returns the terms of a word, even of a stop word."""
        if _IS_DENSE.match(word):
            return tuple(pairs(word))
        return (self._stem(word[:_LETTERS]),)


ANALYZERS = {language: Analyzer(language) for language in STEMMERS}


def terms_of(text: str, analyzer: Analyzer, *, stop: bool = True) -> list[str]:
    """Returns the terms of a text, in order; without `stop`, those of stop words, too."""
    analyze = analyzer.__getitem__ if stop else analyzer.anyway
    return [term for terms in map(analyze, words_of(text)) for term in terms]


def language_for(text: str) -> str:
    """Returns the language of a text, of `stems.STOP`; an empty string for others."""
    return language_of(words_of(text[:4000]))


def concepts(query: str, languages: list[str], most: int) -> list[tuple[str, list[str]]]:
    """Returns the words of a query, each with the terms that it may be in texts of `languages`.

    At most `most` words, each once, without those that are stop words in one of the languages,
    unless all are. Of a dense script, each pair of letters counts as a word; a letter alone has
    itself as term.

    >>> concepts("the users' files", ["en", "de"], 9)
    [('users', ['user']), ('files', ['fil'])]
    """
    groups: dict[str, list[str]] = {}
    words = list(dict.fromkeys(words_of(query)))
    stop = frozenset[str]().union(*(STOP.get(name, ()) for name in languages))
    for word in [w for w in words if w not in stop] or words:
        if _IS_DENSE.match(word):
            shared = [*pairs(word)]
            groups |= {pair: [pair] for pair in (shared[:-1] or shared)}
        else:
            stems = (ANALYZERS[name].anyway(word)[0] for name in languages)
            groups[word] = list(dict.fromkeys(stems))
    return list(groups.items())[:most]
