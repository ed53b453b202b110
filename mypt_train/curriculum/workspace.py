"""Makes the turns of a workspace chat (`grammar/mypt_3b/SPEC.md`): one tool after another.

The functions have the signature of those in `turns`. Results of tools look like those of
`mypt_infer.workspace`, so that a model that was trained on them can use the real tools.
"""

from __future__ import annotations

from mypt_train.curriculum.turns import (
    Message,
    Phase,
    Turn,
    asked,
    called,
    courtesy,
    facts,
    follow,
    said,
)
from mypt_train.curriculum.world import ASPECTS, Document, Draw, Thing


def _document(draw: Draw, thing: Thing | None = None) -> Document:
    """Draws a document that says one or two things."""
    chosen = draw.chance.sample(ASPECTS, draw.pick((1, 1, 2)))
    aspects = tuple(aspect for aspect in ASPECTS if aspect in chosen)
    return draw.document(thing or draw.thing(), aspects=aspects)


def _documents(draw: Draw, count: int, thing: Thing | None = None) -> list[Document]:
    """Draws `count` documents with different ids; all are about `thing` if one is given."""
    found: dict[str, Document] = {}
    while len(found) < count:
        document = _document(draw, thing)
        found.setdefault(document.doc_id, document)
    return list(found.values())


def _search(draw: Draw, thing: Thing, found: list[Document]) -> Turn:
    arguments: Message = {"query": thing.name}
    if draw.often(0.5):
        arguments["top_k"] = draw.pick((3, 5, 10))
    hits = [
        {"chunk_id": f"{d.doc_id}#0", **_named(d), "text": d.content, "position": 0} for d in found
    ]
    return called("search", arguments, {"documents": hits, "total": len(hits)})


def _summary(document: Document) -> Turn:
    result = {**_named(document), "summary": " ".join(document.facts.values())}
    return called("summarize", {"doc_id": document.doc_id}, result)


def _named(document: Document) -> Message:
    return {"doc_id": document.doc_id, "title": document.title}


def _short(draw: Draw, *documents: Document) -> Message:
    shown = " ".join(fact for document in documents for fact in document.facts.values())
    return said(draw.data["phase4"]["short"].format(fact=shown))


# With the text in the context.


def context(draw: Draw, _: Turn) -> Turn:
    """Returns a question about a document that comes along as context."""
    document = _document(draw)
    aspect = draw.pick(list(document.facts))
    phrases = draw.data["documents"][aspect][:-1]
    question = draw.question(phrases, **document.thing.fields)
    return [asked(question, context=document.content), said(document.facts[aspect])]


def condensed(draw: Draw, _: Turn) -> Turn:
    """Returns a request to summarize a text, in the words of the tool workspace.summarize."""
    document = _document(draw)
    question = draw.question(draw.data["workspace"]["condense"])
    return [
        asked(question, context=document.content),
        said(" ".join(document.facts.values())),
    ]


# With tools.


def lookup(draw: Draw, _: Turn) -> Turn:
    """Returns a turn with one search, answered by the titles of what was found."""
    thing, phase = draw.thing(), draw.data["phase4"]
    found = _documents(draw, draw.pick((0, 1, 1, 2)), thing)
    question = draw.question(phase["search"], **thing.fields)
    answer = phase["none"] if not found else phase["found1"] if len(found) == 1 else phase["found"]
    titles = draw.listed(found) if found else ""
    told = answer.format(n=len(found), titles=titles, **thing.fields)
    return [asked(question), *_search(draw, thing, found), said(told)]


def search_and_summarize(draw: Draw, _: Turn) -> Turn:
    """Returns a turn with a search and a summary of each document found."""
    thing = draw.thing()
    found = _documents(draw, draw.pick((1, 1, 2)), thing)
    question = draw.question(draw.data["workspace"]["find"], **thing.fields)
    summaries = [message for document in found for message in _summary(document)]
    return [asked(question), *_search(draw, thing, found), *summaries, _short(draw, *found)]


def list_read_and_summarize(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that lists all documents, reads one and summarizes it."""
    found = _documents(draw, draw.pick((2, 3, 4)))
    document = draw.pick(found)
    rows = [{**_named(d), "path": f"{d.doc_id}.txt"} for d in found]
    question = draw.question(draw.data["workspace"]["tour"], title=draw.listed([document]))
    return [
        asked(question),
        *called("list_docs", {}, {"documents": rows, "total": len(rows)}),
        *called(
            "get_doc", {"doc_id": document.doc_id}, _named(document) | {"text": document.content}
        ),
        *_summary(document),
        _short(draw, document),
    ]


def summary(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that summarizes a document which the user names."""
    document = _document(draw)
    question = draw.question(draw.data["phase4"]["summarize"], doc_id=document.doc_id)
    return [asked(question), *_summary(document), _short(draw, document)]


PHASES: dict[int, Phase] = {
    1: Phase((context, context, condensed, facts), (follow, courtesy), turns=(1, 1, 2, 3)),
    2: Phase(
        (
            *(search_and_summarize, search_and_summarize, lookup),
            *(list_read_and_summarize, list_read_and_summarize, summary, facts),
        ),
        (courtesy,),
        turns=(1, 1, 1, 2),
        tools="tools_of_the_workspace",
    ),
}
