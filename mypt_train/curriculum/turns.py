"""Makes the turns of MyPT's five phases (`grammar/mypt/SPEC.md` section 9).

Each function takes a Draw (chance and the data of one language) and the turn before, and returns
the messages of a turn: what the user says, then what follows from it and from chance.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from mypt_train.curriculum.world import ASPECTS, Document, Draw, Thing

Message = dict[str, Any]
Turn = list[Message]
# Makes a turn from chance and the turn before.
Make = Callable[[Draw, Turn], Turn]


class Phase(NamedTuple):
    """How the episodes of a phase are made.

    `makes`: kinds of turns. `later`: kinds of turns that only follow another turn. `turns`: numbers
    of turns in an episode, one of which is drawn. `tools`: the key of the system prompt that
    declares the tools, in the data of the language; empty for a phase without tools.
    """

    makes: tuple[Make, ...]
    later: tuple[Make, ...] = ()
    turns: tuple[int, ...] = (1,)
    tools: str = ""


def from_user(content: str, **keys: Any) -> Message:
    return {"role": "user", "content": content, **keys}


def from_assistant(content: str, **keys: Any) -> Message:
    return {"role": "assistant", "content": content, **keys}


def called(name: str, arguments: dict[str, Any], content: Any, **keys: Any) -> Turn:
    """Returns two messages: a call of the tool `workspace.<name>`, and its result."""
    tool = f"workspace.{name}"
    return [
        {"role": "assistant_toolcall", "name": tool, "arguments": arguments, **keys},
        {"role": "toolresult", "name": tool, "content": content},
    ]


def searched(draw: Draw, thing: Thing, result: Message) -> Turn:
    arguments: Message = {"query": thing.name}
    if draw.often(0.5):
        arguments["top_k"] = draw.pick((3, 5, 10))
    return called("search", arguments, result)


def titles(draw: Draw, thing: Thing, hits: list[Document]) -> Message:
    """Returns the answer to a search: the titles of what was found."""
    phase = draw.data["phase4"]
    answer = phase["none"] if not hits else phase["found1"] if len(hits) == 1 else phase["found"]
    listed = draw.listed(hits) if hits else ""
    return from_assistant(answer.format(n=len(hits), titles=listed, **thing.fields))


def short(draw: Draw, *documents: Document) -> Message:
    """Returns the answer to a request for summaries."""
    gist = " ".join(document.gist for document in documents)
    return from_assistant(draw.data["phase4"]["short"].format(fact=gist))


def summarized(draw: Draw, document: Document, call: Turn) -> Turn:
    """Returns a turn that summarizes a document which the user names, by a call and its result."""
    question = draw.question(draw.data["phase4"]["summarize"], doc_id=document.doc_id)
    return [from_user(question), *call, short(draw, document)]


# Phases 1 and 2: one question, one short answer.


def _pattern(section: str) -> Make:
    def make(draw: Draw, _: Turn) -> Turn:
        question, answer = draw.pick(list(draw.data[section].values()))
        slots = draw.words()
        return [from_user(question.format(**slots)), from_assistant(answer.format(**slots))]

    return make


# Phase 3: questions about things, one after another.


def facts(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that asks what a thing is, where it is, or what it is used for."""
    kind = draw.pick(("is", "place", "use"))
    *phrases, answer = draw.data["phase3"][kind]
    thing = draw.thing()
    question = from_user(draw.question(phrases, **thing.fields))
    return [question, from_assistant(answer.format(**thing.fields))]


def follow(draw: Draw, before: Turn) -> Turn:
    """Returns a turn that asks the question before again, about another thing.

    The user does not repeat the question: only the answer before tells which one it is.
    """
    thing = draw.thing()
    phrases = draw.data["phase3"]["follow"]
    for kind in ("is", "place", "use"):
        answer = draw.data["phase3"][kind][-1]
        if before[-1]["content"] in (answer.format(**other.fields) for other in draw.things):
            question = from_user(draw.question(phrases, **thing.fields))
            return [question, from_assistant(answer.format(**thing.fields))]
    return facts(draw, before)


def courtesy(draw: Draw, _: Turn) -> Turn:
    """Returns a turn in which the user says thanks or goodbye."""
    question, answer = draw.data["phase3"][draw.pick(("thanks", "bye"))]
    slots = {"name": draw.pick(draw.data["names"])}
    return [from_user(question.format(**slots)), from_assistant(answer.format(**slots))]


# Phase 4: one call, then the answer.


def search(draw: Draw, _: Turn) -> Turn:
    """Returns a turn with one search, answered by the titles of what was found."""
    thing = draw.thing()
    documents = draw.documents(draw.pick((0, 1, 1, 2, 3)), lambda: _document(draw, thing))
    calls = searched(draw, thing, _hits(documents))
    question = draw.question(draw.data["phase4"]["search"], **thing.fields)
    return [from_user(question), *calls, titles(draw, thing, documents)]


def listing(draw: Draw, _: Turn) -> Turn:
    documents = draw.documents(draw.pick((2, 3, 4)), lambda: _document(draw))
    rows = [{"doc_id": d.doc_id, "title": d.title} for d in documents]
    answer = draw.data["phase4"]["listed"].format(n=len(documents), titles=draw.listed(documents))
    return [
        from_user(draw.question(draw.data["phase4"]["list"])),
        *called("list_docs", {}, {"documents": rows}),
        from_assistant(answer),
    ]


def reading(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that reads a document which the user names."""
    document = _document(draw)
    question = draw.question(draw.data["phase4"]["get"], doc_id=document.doc_id)
    answer = draw.data["phase4"]["says"].format(title=draw.listed([document]), fact=document.gist)
    return [
        from_user(question),
        *called("get_doc", {"doc_id": document.doc_id}, {"content": document.content}),
        from_assistant(answer),
    ]


def summary(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that summarizes a document which the user names."""
    document = _document(draw)
    call = called("summarize", {"doc_id": document.doc_id}, {"summary": document.gist})
    return summarized(draw, document, call)


def _document(draw: Draw, thing: Thing | None = None) -> Document:
    return draw.document(thing or draw.thing(), aspects=(draw.pick(ASPECTS),))


def _hits(documents: list[Document]) -> Message:
    rows = [
        {"doc_id": d.doc_id, "title": d.title, "snippet": next(iter(d.facts.values()))}
        for d in documents
    ]
    return {"documents": rows, "total": len(rows)}


# Phase 5: thoughts, several calls, contexts, citations.


def _question(draw: Draw) -> tuple[str, str, Document]:
    aspect = draw.pick(ASPECTS)
    others = draw.chance.sample([a for a in ASPECTS if a != aspect], draw.pick((0, 1)))
    aspects = tuple(a for a in ASPECTS if a == aspect or a in others)
    document = draw.document(draw.thing(), aspects=aspects)
    phrases = draw.data["documents"][aspect][:-1]
    return draw.question(phrases, **document.thing.fields), aspect, document


def research(draw: Draw, _: Turn) -> Turn:
    """Returns a turn that searches, reads and answers with a citation, or finds nothing."""
    question, aspect, document = _question(draw)
    phase, thing = draw.data["phase5"], document.thing
    think = draw.pick(phase["think"]).format(**thing.fields)
    out = [from_user(question)]
    if draw.often(0.15):
        nothing = from_assistant(draw.data["phase4"]["none"].format(**thing.fields))
        return [*out, *called("search", {"query": thing.name}, _hits([]), think=think), nothing]
    out += called("search", {"query": thing.name}, _hits([document]), think=think)
    if aspect != next(iter(document.facts)) or draw.often(0.6):
        keys = {}
        if draw.often(0.5):
            keys = {"think": draw.pick(phase["think_read"]).format(title=document.title)}
        out += called("get_doc", {"doc_id": document.doc_id}, {"content": document.content}, **keys)
    keys = {"think": draw.pick(phase["think_answer"])} if draw.often(0.3) else {}
    return [*out, from_assistant(document.facts[aspect], cite=document.doc_id, **keys)]


def retrieved(draw: Draw, _: Turn) -> Turn:
    """Returns a turn whose user message brings the document along as its context."""
    question, aspect, document = _question(draw)
    phase, chunk = draw.data["phase5"], str(draw.chance.randrange(1, 6))
    context = phase["context"].format(
        title=document.title, chunk=chunk, facts="\n".join(document.facts.values())
    )
    cite = phase["cite"].format(title=document.title, chunk=chunk)
    return [from_user(question, context=context), from_assistant(document.facts[aspect], cite=cite)]


def counted(draw: Draw, _: Turn) -> Turn:
    """Returns a turn about the workspace, whose state is given as the context of the assistant."""
    phase = draw.data["phase5"]
    date = f"2026-{draw.chance.randrange(1, 13):02}-{draw.chance.randrange(1, 29):02}"
    space, n = draw.pick(phase["spaces"]), str(draw.chance.randrange(2, 100))
    slots = {"space": space, "n": n, "date": date}
    about = {"role": "assistant_context", "content": phase["workspace"].format(**slots)}
    question = from_user(draw.question(phase["count"]))
    return [question, about, from_assistant(phase["counted"].format(**slots))]


PHASES: dict[int, Phase] = {
    1: Phase((_pattern("phase1"),)),
    2: Phase((_pattern("phase2"),)),
    3: Phase((facts,), (follow, follow, courtesy), turns=(2, 2, 3, 4)),
    4: Phase(
        (search, search, listing, reading, summary, facts),
        (courtesy,),
        turns=(1, 1, 1, 2),
        tools="tools",
    ),
    5: Phase((research, research, research, retrieved, counted), turns=(1, 1, 1, 2), tools="tools"),
}
