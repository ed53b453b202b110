"""Defines the tools of a workspace, which a model may call.

Input: a WorkspaceEngine. Output: a Toolbox with four tools. `docs/workspace_api.md` lists arguments
and results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypt_infer.toolbox import Tool, Toolbox, ToolFault
from mypt_infer.workspace.engine import MAX_TOP_K, WorkspaceEngine
from mypt_infer.workspace.model import Document
from mypt_infer.workspace.summary import extract

TOP_K = 5
_TEXT = {"type": "string", "minLength": 1}


class WorkspaceTools:
    """Functions from an object of arguments to a JSON object.

    `summarizer` makes a short text of a long one; the default needs no model.
    """

    def __init__(
        self, engine: WorkspaceEngine, *, summarizer: Callable[[str], str] = extract
    ) -> None:
        self.engine, self._summarizer = engine, summarizer

    def workspace_search(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns the chunks that fit a query best, best first.

        The result is `{"documents": [{"chunk_id", "doc_id", "title", "text", "position"}],
        "total"}`.
        """
        chunks = self.engine.search(args.get("query", ""), top_k=int(args.get("top_k", TOP_K)))
        titles = {
            key: doc.title
            for key in {c.doc_id for c in chunks}
            if (doc := self.engine.get_doc(key)) is not None
        }
        documents = [
            {
                "chunk_id": c.chunk_id,
                "doc_id": c.doc_id,
                "title": titles.get(c.doc_id, ""),
                "text": c.text.strip(),
                "position": c.position,
            }
            for c in chunks
        ]
        return {"documents": documents, "total": len(documents)}

    def workspace_list_docs(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns all documents, sorted by their path inside the workspace.

        The result is `{"documents": [{"doc_id", "title", "path"}], "total"}`.
        """
        documents = [
            {"doc_id": d.doc_id, "title": d.title, "path": d.path} for d in self.engine.list_docs()
        ]
        return {"documents": documents, "total": len(documents)}

    def workspace_get_doc(self, args: dict[str, Any]) -> dict[str, Any]:
        """Returns `{"doc_id", "title", "text"}` of the document with this id, or with this title.

        Raises ToolFault if no document has it, or several have the title.
        """
        doc = self._document(args)
        return {
            "doc_id": doc.doc_id,
            "title": doc.title,
            "text": self.engine.get_doc_text(doc.doc_id) or "",
        }

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

    def _document(self, args: dict[str, Any]) -> Document:
        key = _one_of(args, "doc_id", "title") if "text" not in args else "doc_id"
        wanted = args[key]
        found = (
            [self.engine.get_doc(wanted)] if key == "doc_id" else [*self.engine.find_docs(wanted)]
        )
        if not found or found[0] is None:
            raise ToolFault("not_found", f"no document has the {key} {wanted!r}")
        if len(found) > 1:
            raise ToolFault(
                "ambiguous",
                f"{len(found)} documents have that title; ask by doc_id: "
                f"{', '.join(d.doc_id for d in found if d)}",
            )
        return found[0]


def _one_of(args: dict[str, Any], first: str, second: str) -> str:
    if (first in args) == (second in args):
        raise ToolFault(
            "bad_arguments",
            f'expected one of "{first}" and "{second}", got '
            f"{'both' if first in args else 'neither'}",
        )
    return first if first in args else second


def _object(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TOOL_REGISTRY: dict[str, Callable[[WorkspaceTools, dict[str, Any]], dict[str, Any]]] = {
    "workspace.search": WorkspaceTools.workspace_search,
    "workspace.list_docs": WorkspaceTools.workspace_list_docs,
    "workspace.get_doc": WorkspaceTools.workspace_get_doc,
    "workspace.summarize": WorkspaceTools.workspace_summarize,
}
_TOP_K = {"type": "integer", "minimum": 1, "maximum": MAX_TOP_K, "default": TOP_K}
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "workspace.search": ("find relevant documents", _object(("query",), query=_TEXT, top_k=_TOP_K)),
    "workspace.list_docs": ("list all documents", _object()),
    "workspace.get_doc": ("get document text", _object(doc_id=_TEXT, title=_TEXT)),
    "workspace.summarize": ("summarize content", _object(doc_id=_TEXT, text=_TEXT)),
}


def toolbox(tools: WorkspaceTools) -> Toolbox:
    """Returns the four tools of a workspace.

    >>> from unittest.mock import Mock
    >>> print(toolbox(WorkspaceTools(Mock())).usage)
    Tools:
    - workspace.search(query, top_k=5) - find relevant documents
    - workspace.list_docs() - list all documents
    - workspace.get_doc(doc_id or title) - get document text
    - workspace.summarize(doc_id or text) - summarize content
    """

    def bound(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda args: TOOL_REGISTRY[name](tools, args)

    return Toolbox(
        Tool(name, description, schema, bound(name))
        for name, (description, schema) in SCHEMAS.items()
    )
