"""Takes texts apart into terms: what the search compares.

Input: the text of a document, or a query. Output: terms. A term is the stem of a word, without case
and accents, so that inflected forms meet: English loses its plural, -ing and -ed, German its
inflections (CISTEM: Weissweiler and Fraser, 2017), and words of other languages stay as they are.
Snowball's stemmers find no more on the judged queries of `bench/search.py`, and would be one more
package of every installation. Scripts that put no spaces between words, and Korean, whose particles
are written on to the words, become pairs of neighbouring letters.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path

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
# By language, words that say nothing of what a text is about.
STOP: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in tomllib.loads(
        Path(__file__).with_name("stop_words.toml").read_text("utf-8")
    ).items()
}
_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"(.)\1")
_AGAIN = re.compile(r"(.)\*")
# A text is of the language with most stop words among its first words, if they are so many.
_FIRST_WORDS, _SHARE = 400, 0.1


def folded(text: str) -> str:
    """Returns a text without case, accents and variants of letters.

    >>> folded("Größe ﬁ Ａ 비밀")
    'grosse fi a 비밀'
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed))


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


def language_for(text: str) -> str:
    """Returns the language of a text, of STOP, by its first words; an empty string for others.

    >>> language_for("Wie alt ist die Katze?")
    'de'
    """
    first = words_of(text[:4000])[:_FIRST_WORDS]
    counts = {name: sum(word in stop for word in first) for name, stop in STOP.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > _SHARE * len(first) else ""


def english(word: str) -> str:
    """Returns a word without its plural, -ing or -ed.

    >>> [english(word) for word in ("policies", "files", "stopping", "moved", "status")]
    ['polici', 'fil', 'stop', 'mov', 'status']
    """
    if len(word) > 3 and word.endswith("s") and word[-2] not in "sui":
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2 and not word.endswith("eed") and _VOWEL.search(stem):
            word = stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 4 and word.endswith("y") else word


def german(word: str) -> str:
    """Returns a word without the endings of German inflection, and without ge-.

    >>> [german(word) for word in ("kennworter", "kennwort", "gespeichert", "dateien")]
    ['kennwor', 'kennwor', 'speich', 'datei']
    """
    if word.startswith("ge") and len(word) >= 6:
        word = word[2:]
    # Sounds of several letters count as one, and doubled letters are no endings.
    word = word.replace("sch", "$").replace("ei", "%").replace("ie", "&")
    word = _DOUBLED.sub(r"\1*", word)
    while len(word) > 3:
        if len(word) > 5 and word.endswith(("em", "er", "nd")):
            word = word[:-2]
        elif word[-1] in "tesn":
            word = word[:-1]
        else:
            break
    word = _AGAIN.sub(r"\1\1", word)
    return word.replace("%", "ei").replace("&", "ie").replace("$", "sch")


STEMMERS: dict[str, Callable[[str], str]] = {"en": english, "de": german, "": str}


def _terms(language: str, word: str) -> tuple[str, ...]:
    """Returns the terms of a word, even of a stop word."""
    return tuple(pairs(word)) if _IS_DENSE.match(word) else (STEMMERS[language](word[:_LETTERS]),)


_CACHED = {language: lru_cache(_REMEMBERED)(partial(_terms, language)) for language in STEMMERS}


def terms_of(text: str, language: str, *, stop: bool = True) -> list[str]:
    """Returns the terms of a text, in order; without `stop`, those of stop words, too."""
    words, stop_words = words_of(text), STOP.get(language, frozenset()) if stop else ()
    analyze = _CACHED[language]
    return [term for word in words if word not in stop_words for term in analyze(word)]


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
            stems = (_terms(name, word)[0] for name in languages)
            groups[word] = list(dict.fromkeys(stems))
    return list(groups.items())[:most]
