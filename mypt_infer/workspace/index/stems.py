"""Cuts words to their stems, by the language of a document.

Input: words without case and accents. Output: stems, by which inflected forms meet. English loses
its plural, -ing and -ed, German its inflections (CISTEM: Weissweiler and Fraser, 2017). Words of
other languages stay as they are. Snowball's stemmers find no more on the judged queries of
`bench/search.py`, and would be one more package of every installation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

# Words that say nothing of what a text is about. They tell the language of a text, too.
_ENGLISH = """
a about above after again against all am an and any are as at be because been before being below
between both but by can could did do does doing down during each few for from further get got
had has have having he her here hers him his how i if in into is it its itself just let me more
most my no nor not of off on once only or other our out over own s same she should so some such
t than that the their them then there these they this those through to too under until up us
very was we were what when where which while who whom why will with would you your
"""
_GERMAN = """
aber alle allem allen aller alles als also am an ander andere anderen anderer anderes auch auf
aus bei beim bin bis bist da damit dann das dass dein deine dem den der des dich die dies diese
diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines einig einige
er es etwas euch euer fur gegen habe haben hat hatte hier hin hinter ich ihm ihn ihnen ihr ihre
im in ins ist ja jede jedem jeden jeder jedes jetzt kann kein keine konnen konnte man manche
mein meine mich mir mit muss mussen nach nicht nichts noch nun nur ob oder ohne sehr sein seine
seinen seiner sich sie sind so soll sollte uber um und uns unser unter vom von vor war waren was
weil welche welchem welchen welcher welches wenn wer werden wie wieder will wir wird wo wohl
wurde wurden zu zum zur zwar zwischen
"""
STOP: dict[str, frozenset[str]] = {
    "en": frozenset(_ENGLISH.split()),
    "de": frozenset(_GERMAN.split()),
}
_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"(.)\1")
_AGAIN = re.compile(r"(.)\*")
# A text is of the language with most stop words among its first words, if they are so many.
_FIRST_WORDS, _SHARE = 400, 0.1


def language_of(words: Iterable[str]) -> str:
    """Returns the language of a text, of STOP, by its first words; an empty string for others.

    >>> language_of("wie alt ist die katze".split())
    'de'
    """
    first = [word for word, _ in zip(words, range(_FIRST_WORDS), strict=False)]
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
