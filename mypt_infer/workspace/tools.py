"""Defines the tools of a workspace, which a model may call.

Input: a WorkspaceEngine. Output: a Toolbox with four tools. `docs/workspace_api.md` lists arguments
and results.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from mypt_infer.toolbox import Fits, Tool, Toolbox, ToolFault
from mypt_infer.truncate_result import largest
from mypt_infer.workspace.engine import MAX_TOP_K, WorkspaceEngine
from mypt_infer.workspace.excerpts import extract, snippet
from mypt_infer.workspace.index.model import CHUNK, Document

TOP_K = 5
# The most characters of a page of a document, the most rows of a page of a list, and the most
# characters that the hits of a search have together.
PAGE, ROWS, HITS = 16_000, 200, 1200
# The least characters of a snippet; a result that cannot have as many has fewer hits.
_LEAST = 80
_TEXT = {"type": "string", "minLength": 1}


class WorkspaceTools:
    """Functions from an object of arguments to a JSON object; `summarizer` shortens a long text."""

    def __init__(
        self, engine: WorkspaceEngine, *, summarizer: Callable[[str], str] = extract
    ) -> None:
        self.engine, self._summarizer = engine, summarizer

    def workspace_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns the passages that fit a query best, best first.

        A text is the passage of the chunk around the words of the query, as long as the number of
        hits allows.
        """
        query = args.get("query", "")
        chunks = self.engine.search(query, top_k=int(args.get("top_k", TOP_K)))
        docs = {key: self.engine.get_doc(key) for key in {c.doc_id for c in chunks}}
        letters = max(2 * _LEAST, HITS // max(1, len(chunks)))
        documents = [
            {
                "chunk_id": c.chunk_id,
                "doc_id": c.doc_id,
                "title": doc.title if (doc := docs[c.doc_id]) else "",
                "text": snippet(c.text, query, letters),
                "position": c.position,
                "score": round(c.score, 2),
            }
            for c in chunks
        ]
        return {"documents": documents, "total": len(documents)}

    def workspace_list_docs(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns documents with a prefix of their path, sorted by it, from number `offset` on.

        Case is ignored. "next" is the offset of the next page, or None.
        """
        prefix, offset = args.get("prefix", "").casefold(), _from(args, "offset")
        docs = [d for d in self.engine.list_docs() if d.path.casefold().startswith(prefix)]
        page = docs[offset : offset + ROWS]
        rows = [{"doc_id": d.doc_id, "title": d.title, "path": d.path} for d in page]
        return _rows({"total": len(docs)}, rows, offset)

    def workspace_get_doc(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns a page of the document with this id, or with this title, from `position` on.

        "position" and "next" are the numbers of the first chunk of the page and of the first one
        after it, or None. If the page ends within a chunk, "next" is that chunk, and "next_offset"
        is where in it to go on. Raises ToolFault if no document has the id or title, several have
        the title, or it has no such position.
        """
        return self._page(args, PAGE // CHUNK)

    def workspace_summarize(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns `{"summary"}` of a text, or of a document, then with its id and title.

        Raises ToolFault for an unknown id, and unless there is either an id or a text.
        """
        _one_of(args, "doc_id", "text")
        if "text" in args:
            return {"summary": self._summarizer(args["text"])}
        doc = self._document(args)
        return {
            "doc_id": doc.doc_id,
            "title": doc.title,
            "summary": self._summarizer(self.engine.get_doc_text(doc.doc_id) or ""),
        }

    def _page(
        self, args: dict[str, Any], chunks: int, letters: int | None = None
    ) -> dict[str, Any]:
        """Returns a page of so many chunks, or of so many letters of the first one."""
        doc = self._document(args)
        begin, offset = _from(args, "position"), _from(args, "offset")
        total = self.engine.count_chunks(doc.doc_id)
        if begin >= max(1, total):
            last = max(0, total - 1)
            raise ToolFault("not_found", f"{doc.doc_id!r} has the positions 0 to {last}")
        text = "".join(c.text for c in self.engine.get_chunks(doc.doc_id, begin, chunks))[offset:]
        page = {"doc_id": doc.doc_id, "title": doc.title, "text": text, "position": begin}
        after = begin + chunks if begin + chunks < total else None
        if letters is None or letters >= len(text):
            return page | {"next": after, "total": total}
        page["text"] = text[:letters]
        return page | {"next": begin, "total": total, "next_offset": offset + letters}

    def shorter_page(self, args: dict[str, Any], value: Any, fits: Fits) -> Any:
        """Returns the longest page that fits: whole chunks, or the beginning of one."""
        chunks = largest(PAGE // CHUNK, lambda n: fits(self._page(args, n)))
        if chunks:
            return self._page(args, chunks)
        page_text = self._page(args, 1)["text"]
        letters = largest(len(page_text), lambda n: fits(self._page(args, 1, n)))
        space = page_text.rfind(" ", letters // 2, letters) + 1
        return self._page(args, 1, space or letters) if letters else value

    def shorter_list(self, args: dict[str, Any], value: Any, fits: Fits) -> Any:
        """Returns the most rows that fit."""
        rows, offset = value["documents"], _from(args, "offset")
        count = largest(len(rows), lambda n: fits(_rows(value, rows[:n], offset)))
        return _rows(value, rows[:count], offset) if count else value

    def shorter_hits(self, args: dict[str, Any], value: Any, fits: Fits) -> Any:
        """Returns all hits with the longest snippets that fit, or with the shortest ones."""

        def hits_of(letters: int) -> Any:
            hits = value["documents"]
            shorter = [h | {"text": snippet(h["text"], args["query"], letters)} for h in hits]
            return value | {"documents": shorter}

        return hits_of(_LEAST + largest(HITS, lambda n: fits(hits_of(_LEAST + n))))

    def _document(self, args: dict[str, Any]) -> Document:
        key = _one_of(args, "doc_id", "title")
        value = args[key]
        docs = self.engine.find_docs(value) if key == "title" else []
        if len(docs) > 1:
            ids = ", ".join(doc.doc_id for doc in docs)
            message = f"{len(docs)} documents have that title; ask by doc_id: {ids}"
            raise ToolFault("ambiguous", message)
        doc = next(iter(docs), None) if key == "title" else self.engine.get_doc(value)
        if doc is None:
            raise ToolFault("not_found", f"no document has the {key} {value!r}")
        return doc


def _from(args: dict[str, Any], name: str) -> int:
    """Returns where a page begins. Raises ToolFault for a number below 0."""
    number = int(args.get(name, 0))
    if number < 0:
        raise ToolFault("bad_arguments", f'"{name}" is {number}, expected 0 or more')
    return number


def _one_of(args: dict[str, Any], first: str, second: str) -> str:
    if (first in args) == (second in args):
        count = "both" if first in args else "neither"
        raise ToolFault("bad_arguments", f'expected one of "{first}" and "{second}", got {count}')
    return first if first in args else second


def _rows(value: dict[str, Any], rows: list[Any], offset: int) -> dict[str, Any]:
    """Returns a page of a list, with the offset of the next one."""
    after = offset + len(rows)
    total = value["total"]
    return {"documents": rows, "total": total, "next": after if after < total else None}


def _object(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    rows = {"type": "object", "properties": properties, "required": list(required)}
    return rows | {"additionalProperties": False}


TOOL_REGISTRY: dict[str, Callable[[WorkspaceTools, dict[str, Any]], dict[str, Any]]] = {
    "workspace.search": WorkspaceTools.workspace_search,
    "workspace.list_docs": WorkspaceTools.workspace_list_docs,
    "workspace.get_doc": WorkspaceTools.workspace_get_doc,
    "workspace.summarize": WorkspaceTools.workspace_summarize,
}
_TOP_K = {"type": "integer", "minimum": 1, "maximum": MAX_TOP_K, "default": TOP_K}
# Without a least value, which the decoder's tables do not hold for an open range.
_FROM = {"type": "integer", "default": 0}
_PREFIX = {"type": "string", "default": ""}
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "workspace.search": ("find relevant documents", _object("query", query=_TEXT, top_k=_TOP_K)),
    "workspace.list_docs": ("list all documents", _object(prefix=_PREFIX, offset=_FROM)),
    "workspace.get_doc": (
        "get document text",
        _object(doc_id=_TEXT, title=_TEXT, position=_FROM, offset=_FROM),
    ),
    "workspace.summarize": ("summarize content", _object(doc_id=_TEXT, text=_TEXT)),
}


def toolbox(tools: WorkspaceTools) -> Toolbox:
    """Returns the four tools of a workspace.

    >>> from unittest.mock import Mock
    >>> print(toolbox(WorkspaceTools(Mock())).usage)
    Tools:
    - workspace.search(query, top_k=5) - find relevant documents
    - workspace.list_docs(prefix="", offset=0) - list all documents
    - workspace.get_doc(doc_id or title, position=0, offset=0) - get document text
    - workspace.summarize(doc_id or text) - summarize content
    """

    shorten = {
        "workspace.search": tools.shorter_hits,
        "workspace.list_docs": tools.shorter_list,
        "workspace.get_doc": tools.shorter_page,
    }
    return Toolbox(
        Tool(name, *SCHEMAS[name], partial(function, tools), shorten.get(name))
        for name, function in TOOL_REGISTRY.items()
    )
