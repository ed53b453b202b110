"""Draws things, documents and phrases from the small world that the curriculum speaks of.

The world of a language is a file of data next to this module (`en.toml`, `de.toml`). `Draw`
combines it with a source of random numbers; equal seeds give equal draws.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

LANGUAGES = ("en", "de")
_ASCII = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", " ": "-"})
_SYLLABLES = (
    "bla", "dri", "fen", "gor", "hul", "jep", "kro", "lim", "mox", "nar", "pli", "quo", "rud",
    "sti", "tra", "vel", "wim", "xan", "yor", "zup",
)  # fmt: skip


class Thing(NamedTuple):
    """Something to speak of: its name, the prefix of its documents' ids, its forms for phrases."""

    name: str
    slug: str
    fields: dict[str, str]


class Document(NamedTuple):
    """A document of a workspace: the thing that it is about, and one sentence for each aspect."""

    thing: Thing
    doc_id: str
    title: str
    facts: dict[str, str]

    @property
    def content(self) -> str:
        """Returns the text of the document: its title, and a line for each fact."""
        return f"{self.title}\n\n" + "\n".join(self.facts.values())

    @property
    def gist(self) -> str:
        return " ".join(self.facts.values())


ASPECTS = ("hours", "price", "person", "closed")


@cache
def world(language: str) -> tuple[dict[str, Any], tuple[Thing, ...]]:
    """Returns the data of one of LANGUAGES, as in its file, and the things in it; read once."""
    data = tomllib.loads((Path(__file__).parent / f"{language}.toml").read_text(encoding="utf-8"))
    things = (_thing(name, row, data["articles"]) for name, row in data["things"].items())
    return data, tuple(things)


def _thing(name: str, row: list[str], articles: dict[str, list[str]]) -> Thing:
    one, the, kind, place, use = row
    article, _, noun = the.partition(" ")
    acc, dat = (f"{word} {noun}" for word in articles[article])
    fields = {"one": one, "the": the, "acc": acc, "dat": dat, "is": kind, "place": place}
    fields |= {"use": use, "name_of": name}
    fields |= {"One": capital(one), "The": capital(the), "Name": capital(name)}
    return Thing(name, name.lower().translate(_ASCII), fields)


def capital(text: str) -> str:
    """Returns a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


class Draw:
    """Draws from the world of one language.

    Each call uses up random numbers of `chance`, so equal calls on equal seeds give equal draws.
    """

    def __init__(self, chance: Random, language: str) -> None:
        self.chance = chance
        self.data, self.things = world(language)

    def pick(self, items: Any) -> Any:
        return items[self.chance.randrange(len(items))]

    def often(self, share: float) -> bool:
        """Draws True in a `share` of all cases, False in the others."""
        return self.chance.random() < share

    def words(self) -> dict[str, str]:
        """Draws the slots of phases 1 and 2: names, words, numbers, a word that does not exist."""
        name, other = self.chance.sample(self.data["names"], 2)
        a, b, c = self.chance.sample(self.data["words"], 3)
        low = self.chance.randrange(1, 6)
        high = low + self.chance.randrange(2, 7)
        x = capital("".join(self.chance.choices(_SYLLABLES, k=self.chance.randrange(2, 4)))) + str(
            self.chance.randrange(1, 10)
        )
        numbers = self.data["numbers"]
        return {
            "name": name, "other": other, "a": a, "b": b, "c": c, "A": capital(a), "B": capital(b),
            "x": x,
            "low": numbers[low], "high": numbers[high],
            "count": capital(", ".join(numbers[low : high + 1])),
            "ab_upper": f"{a} {b}".upper(), "a_back": a[::-1],
            "a_letters": capital(numbers[len(a)]), "a_first": a[0],
        }  # fmt: skip

    def question(self, phrases: list[str], **slots: str) -> str:
        """Draws one of some phrases, with or without words that introduce it."""
        text = self.pick(phrases).format(**slots)
        return str(
            self.pick(self.data["openers"]).format(q=text, name=self.pick(self.data["names"]))
        )

    def thing(self) -> Thing:
        thing: Thing = self.pick(self.things)
        return thing

    def document(self, thing: Thing, *, aspects: tuple[str, ...]) -> Document:
        """Draws a document about a thing that says one sentence about each of these aspects."""
        kind, title = self.pick(self.data["documents"]["kinds"])
        low, high = self.chance.randrange(6, 11), self.chance.randrange(14, 21)
        slots = {
            "low": str(low), "high": str(high), "euros": str(self.chance.randrange(2, 60)),
            "person": self.pick(self.data["names"]), "day": self.pick(self.data["days"]),
        }  # fmt: skip
        facts = {a: self.data["documents"][a][-1].format(**thing.fields, **slots) for a in aspects}
        return Document(thing, f"{thing.slug}-{kind}", title.format(**thing.fields), facts)

    def documents(self, count: int, draw: Callable[[], Document]) -> list[Document]:
        """Draws `count` documents with different ids; `draw` draws one."""
        documents: dict[str, Document] = {}
        while len(documents) < count:
            document = draw()
            documents.setdefault(document.doc_id, document)
        return list(documents.values())

    def listed(self, documents: list[Document]) -> str:
        """Returns the titles of documents as they are listed in a sentence."""
        *titles, last = (self.data["quoted"].format(d.title) for d in documents)
        return f"{', '.join(titles)} {self.data['and']} {last}" if titles else str(last)
