"""Makes the turns of a workspace chat (`grammar/mypt_3b/SPEC.md`): one tool after another.

The functions have the signature of those in `turns`. Results of tools look like those of
`mypt_infer.workspace`, so that a model that was trained on them can use the real tools.
"""

from mypt_train.curriculum.turns import (
    Message,
    Phase,
    Turn,
    called,
    courtesy,
    facts,
    follow,
    from_assistant,
    from_user,
    searched,
    short,
    summarized,
    titles,
)
from mypt_train.curriculum.world import ASPECTS, Document, Draw, Thing


def _document(draw: Draw, thing: Thing | None = None) -> Document:
    chosen = draw.chance.sample(ASPECTS, draw.pick((1, 1, 2)))
    aspects = tuple(aspect for aspect in ASPECTS if aspect in chosen)
    return draw.document(thing or draw.thing(), aspects=aspects)


def _search(draw: Draw, thing: Thing, documents: list[Document]) -> Turn:
    hits = [
        {
            "chunk_id": f"{d.doc_id}#0",
            **_reference(d),
            "text": " ".join(d.content.split()),
            "position": 0,
            "score": round(0.9 - 0.1 * place, 2),
        }
        for place, d in enumerate(documents)
    ]
    return searched(draw, thing, {"documents": hits, "total": len(hits)})


def _summary(document: Document) -> Turn:
    result = {**_reference(document), "summary": document.gist}
    return called("summarize", {"doc_id": document.doc_id}, result)


def _reference(document: Document) -> Message:
    return {"doc_id": document.doc_id, "title": document.title}


# With the text in the context.


def context(draw: Draw, _: Turn) -> Turn:
    """Returns a question about a document that comes along as context."""
    document = _document(draw)
    aspect = draw.pick(list(document.facts))
    phrases = draw.data["documents"][aspect][:-1]
    question = draw.question(phrases, **document.thing.fields)
    return [from_user(question, context=document.content), from_assistant(document.facts[aspect])]


def condensed(draw: Draw, _: Turn) -> Turn:
    """Returns a request to summarize a text, in the words of the tool workspace.summarize."""
    document = _document(draw)
    question = draw.question(draw.data["workspace"]["condense"])
    return [from_user(question, context=document.content), from_assistant(document.gist)]


# With tools.


def lookup(draw: Draw, _: Turn) -> Turn:
    """Returns a turn with one search, answered by the titles of what was found."""
    thing = draw.thing()
    documents = draw.documents(draw.pick((0, 1, 1, 2)), lambda: _document(draw, thing))
    question = draw.question(draw.data["phase4"]["search"], **thing.fields)
    return [from_user(question), *_search(draw, thing, documents), titles(draw, thing, documents)]


def search_and_summarize(draw: Draw, _: Turn) -> Turn:
    """Returns a turn with a search and a summary of each document found."""
    thing = draw.thing()
    documents = draw.documents(draw.pick((1, 1, 2)), lambda: _document(draw, thing))
    question = draw.question(draw.data["workspace"]["find"], **thing.fields)
    summaries = [message for document in documents for message in _summary(document)]
    search = _search(draw, thing, documents)
    return [from_user(question), *search, *summaries, short(draw, *documents)]


def list_read_and_summarize(draw: Draw, _: Turn) -> Turn:
    documents = draw.documents(draw.pick((2, 3, 4)), lambda: _document(draw))
    document = draw.pick(documents)
    rows = [{**_reference(d), "path": f"{d.doc_id}.txt"} for d in documents]
    page = _reference(document) | {"text": document.content, "position": 0}
    page |= {"next": None, "total": 1}
    question = draw.question(draw.data["workspace"]["tour"], title=draw.listed([document]))
    return [
        from_user(question),
        *called("list_docs", {}, {"documents": rows, "total": len(rows), "next": None}),
        *called("get_doc", {"doc_id": document.doc_id}, page),
        *_summary(document),
        short(draw, document),
    ]


def summary(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that summarizes a document which the user names."""
    document = _document(draw)
    return summarized(draw, document, _summary(document))


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
