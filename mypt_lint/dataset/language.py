"""Guesses the language of a text by its script and common words, if there is little doubt."""

from __future__ import annotations

import re
from collections import Counter

_SCRIPTS = {
    "Cyrillic": re.compile("[\u0400-\u04ff]"),
    "Greek": re.compile("[\u0370-\u03ff]"),
    "Hebrew": re.compile("[\u0590-\u05ff]"),
    "Arabic": re.compile("[\u0600-\u06ff]"),
    "Devanagari": re.compile("[\u0900-\u097f]"),
    "Thai": re.compile("[\u0e00-\u0e7f]"),
    "Kana": re.compile("[\u3040-\u30ff]"),
    "Hangul": re.compile("[\uac00-\ud7af]"),
    "Han": re.compile("[\u4e00-\u9fff]"),
    "Latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
_OF = {
    "ru": {"Cyrillic"}, "uk": {"Cyrillic"}, "bg": {"Cyrillic"}, "el": {"Greek"}, "he": {"Hebrew"},
    "ar": {"Arabic"},
    "fa": {"Arabic"}, "hi": {"Devanagari"}, "th": {"Thai"}, "ja": {"Kana", "Han"},
    "ko": {"Hangul"}, "zh": {"Han"},
}  # fmt: skip
_WORDS = {
    "en": "the and of to is in that it for you with are this not have be on can was as from",
    "de": "der die das und ist nicht ich sie mit ein eine zu den auf für von dem es auch wie "
    "werden",
    "fr": "le les des et est pas une dans pour que vous qui sur avec ce il sont du au nous",
    "es": "el los las y es una que por para con no se lo como más pero su del al está",
    "it": "il di che è un una per non con sono del della le gli anche come più nel si questo",
    "pt": "o os as e é um uma que não para com do da em por mais como seu você está",
    "nl": "de het een en van is dat niet ik je op te voor met zijn er maar ook als deze",
}
_COMMON = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_LEAST = 6  # common words of another language that it takes
_WORD = re.compile(r"[^\W\d_]+")
_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]*`|https?://\S+", re.DOTALL)


def other_language(text: str, tag: str) -> str:
    """Returns the language of a text if that is surely not the one of a BCP 47 tag; else "".

    >>> other_language("Das ist nicht der Text, den ich mit dem Titel und für dich wollte.", "en")
    'de'
    >>> other_language("Short.", "de"), other_language("Привет, как дела сегодня?", "en")
    ('', 'Cyrillic')
    >>> other_language("これは何ですか", "ja")
    ''
    """
    language = tag.split("-", maxsplit=1)[0].lower()
    text = _CODE.sub(" ", text)
    letters = {script: len(regex.findall(text)) for script, regex in _SCRIPTS.items()}
    total = sum(letters.values())
    wanted = _OF.get(language, {"Latin"} if language in _COMMON else set())
    if not wanted or total < 8:
        return ""
    script = max(letters, key=lambda name: letters[name])
    if not any(letters[name] for name in wanted) and letters[script] > 0.9 * total:
        return next(
            (
                code
                for code, scripts in _OF.items()
                if scripts == {script} and script not in ("Cyrillic", "Arabic")
            ),
            script,
        )
    if language not in _COMMON:
        return ""
    words = Counter(_WORD.findall(text.lower()))
    hits = {
        code: sum(count for word, count in words.items() if word in common)
        for code, common in _COMMON.items()
    }
    best = max(hits, key=lambda code: hits[code])
    return best if hits[best] >= _LEAST and hits[best] > 4 * hits[language] else ""
