"""Serves editors as `mypt-lint server`: the language server, on standard input and output.

It sends diagnostics, the page of a rule under the pointer, fixes, and the loss mask as semantic
tokens: masked content as `comment`, which editors show faintly, trained content as `string`.
"""

import argparse
import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from io import BytesIO

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from mypt.lint.document import Document, Edit, encoded
from mypt.lint.session import known_keys
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.run.plan import planned
from mypt_lint.run.resolve import group_sources
from mypt_spec import __version__
from mypt_spec.rules.reference import page

MAX_ITEMS = 1000  # diagnostics of a document: more make editors slow, and nobody reads them
LEGEND = lsp.SemanticTokensLegend(
    token_types=["comment", "string"], token_modifiers=["masked", "trained"]
)
_PAUSE = 0.1  # seconds without a change after which a document is linted
_LINE_END = re.compile(r"\r\n|\n|\r")
_FIX_ALL = f"{lsp.CodeActionKind.SourceFixAll.value}.mypt-lint"
_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "info": lsp.DiagnosticSeverity.Information,
}


class Positions:
    """Turns offsets into positions of the protocol, and back: lines end at CR and CR LF too."""

    def __init__(self, text: str, units: Callable[[str], int]) -> None:
        self._text, self._units = text, units
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._last = 0, 0, 0  # line, offset and column of the last place, from which it goes on

    def position(self, offset: int) -> lsp.Position:
        line = bisect_right(self._starts, offset) - 1
        before, start, column = self._last
        if line != before or offset < start:
            start, column = self._starts[line], 0
        column += self._units(self._text[start:offset])
        self._last = line, offset, column
        return lsp.Position(line, column)

    def range(self, start: int, end: int) -> lsp.Range:
        return lsp.Range(self.position(start), self.position(end))

    def offset(self, position: lsp.Position) -> int:
        """Returns the offset of a position, clamped to the text."""
        if position.line >= len(self._starts):
            return len(self._text)
        start, last, *_ = (*self._starts[position.line : position.line + 2], len(self._text))

        def column(offset: int) -> int:
            return self._units(self._text[start:offset])

        return start + bisect_left(range(start, last), position.character, key=column)

    def pieces(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """Yields a range cut at line ends, which are left out."""
        for match in _LINE_END.finditer(self._text, start, end):
            yield start, match.start()
            start = match.end()
        yield start, end


class Desk:
    """Keeps the open documents, each with the findings of its last version."""

    def __init__(self, server: LanguageServer, options: argparse.Namespace) -> None:
        self.server = server
        self._options = options
        self._cache: dict[str, tuple[int | None, Document | None, Positions]] = {}

    def current_document(self, uri: str) -> tuple[Document, Positions] | None:
        """Returns a document as it is now; None if closed or (after a message) ill configured."""
        open_ = self.server.workspace.get_text_document(uri)
        if open_.version is None:
            return None  # it was closed while the client asked
        entry = self._cache.get(uri)
        if entry is None or entry[0] != open_.version:
            codec = self.server.workspace.position_codec
            positions = Positions(open_.source, codec.client_num_units)
            try:
                document = self._linted(open_)
            except UsageError as error:
                document = None
                self.server.window_show_message(
                    lsp.ShowMessageParams(lsp.MessageType.Error, f"mypt-lint: {error}")
                )
            entry = self._cache[uri] = (open_.version, document, positions)
        _, document, positions = entry
        return None if document is None else (document, positions)

    def forget(self, uri: str) -> None:
        self._cache.pop(uri, None)

    def _linted(self, open_: TextDocument) -> Document:
        path = open_.path or open_.filename or "untitled.jsonl"
        plan = planned(self._options, path.replace("\\", "/").rpartition("/")[0] or "/")
        plan.edits = True
        source = Source(path, stream=BytesIO(encoded(open_.source)))
        (group,) = group_sources(
            plan, [source], baseline=known_keys(self._options, plan), say=lambda _: None
        )
        return Document.from_text(
            open_.source, group._replace(sources=[replace(source, stream=None)])
        )

    def publish(self, uri: str) -> None:
        items: list[lsp.Diagnostic] = []
        current, excess = self.current_document(uri), 0
        if current is not None:
            document, positions = current
            items = [
                diagnostic(document, item, positions) for item in document.findings[:MAX_ITEMS]
            ]
            excess = len(document.findings) - MAX_ITEMS
        if excess > 0:
            message = f"{excess} more findings are not shown here; mypt-lint --show-all prints them"
            at, severity = positions.range(0, 0), lsp.DiagnosticSeverity.Warning
            items.append(lsp.Diagnostic(at, message, severity=severity, source="mypt-lint"))
        version = self.server.workspace.get_text_document(uri).version
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri, items, version)
        )


def diagnostic(document: Document, item: Diagnostic, positions: Positions) -> lsp.Diagnostic:
    """Returns a finding with its expected set and its help, for the protocol."""
    finding = item.finding
    lines = [finding.message]
    if finding.expected:
        lines.append(f"expected {', '.join(finding.expected)}")
    if finding.help:
        lines.append(f"help: {finding.help}")
    return lsp.Diagnostic(
        positions.range(*document.span(item)),
        "\n".join(lines),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        source="mypt-lint",
    )


def hover(desk: Desk, params: lsp.HoverParams) -> lsp.Hover | None:
    """Returns the pages of the rules whose findings are at a position."""
    if (current := desk.current_document(params.text_document.uri)) is None:
        return None
    document, positions = current
    at = positions.offset(params.position)
    spans = [(item, document.span(item)) for item in document.findings]
    here = [(item, span) for item, span in spans if span[0] <= at <= span[1]]
    if not here:
        return None
    pages = [page(code) for code in dict.fromkeys(item.finding.code for item, _ in here)]
    return lsp.Hover(
        lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n---\n\n".join(pages)),
        positions.range(*here[0][1]),
    )


def actions(desk: Desk, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Returns the fixes of the findings in a range, and one for all safe ones of the document."""
    if (current := desk.current_document(params.text_document.uri)) is None:
        return []
    document, positions = current
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    uri, out = params.text_document.uri, []
    for item in document.findings:
        fix, (first, last) = item.finding.fix, document.span(item)
        edits = document.fix(item)
        if fix is not None and edits and first <= end and start <= last:
            title = fix.title if fix.safe else f"{fix.title} (unsafe: may change what is meant)"
            action = lsp.CodeAction(
                f"{item.finding.code}: {title}",
                lsp.CodeActionKind.QuickFix,
                diagnostics=[diagnostic(document, item, positions)],
                is_preferred=fix.safe,
                edit=_edit(uri, edits, positions),
            )
            out.append(action)
    only = params.context.only or [""]
    if any(_FIX_ALL.startswith(kind) for kind in only) and (edits := document.fix_all()):
        edit = _edit(uri, edits, positions)
        out.append(lsp.CodeAction("mypt-lint: make all safe fixes", _FIX_ALL, edit=edit))
    return [action for action in out if str(action.kind).startswith(tuple(only))]


def _edit(uri: str, edits: list[Edit], positions: Positions) -> lsp.WorkspaceEdit:
    return lsp.WorkspaceEdit(
        changes={uri: [lsp.TextEdit(positions.range(start, end), new) for start, end, new in edits]}
    )


def tokens(
    desk: Desk, params: lsp.SemanticTokensParams | lsp.SemanticTokensRangeParams
) -> lsp.SemanticTokens:
    """Returns the loss mask, of the document or a range of it."""
    data: list[int] = []
    if (current := desk.current_document(params.text_document.uri)) is None:
        return lsp.SemanticTokens(data)
    document, positions = current
    bounds = (0, len(document.text))
    if isinstance(params, lsp.SemanticTokensRangeParams):
        bounds = positions.offset(params.range.start), positions.offset(params.range.end)
    line = column = 0
    for item in document.mask(*bounds):
        for first, last in positions.pieces(item.start, item.end):
            here, behind = positions.position(first), positions.position(last)
            if behind.character > here.character:
                data += [here.line - line, here.character - (column if here.line == line else 0)]
                data += [behind.character - here.character, item.loss, 1 << item.loss]
                line, column = here.line, here.character
    return lsp.SemanticTokens(data)


def serve(options: argparse.Namespace) -> None:
    """Serves until the client closes the connection."""
    # Changes come as whole texts: to apply parts of a text, the library counts lines at U+2028
    # too, where no line of JSONL ends.
    server = LanguageServer(
        "mypt-lint", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full
    )
    desk = Desk(server, options)

    def opened(params: lsp.DidOpenTextDocumentParams | lsp.DidSaveTextDocumentParams) -> None:
        desk.forget(params.text_document.uri)  # after saving, the settings may be others
        desk.publish(params.text_document.uri)

    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        await asyncio.sleep(_PAUSE)
        uri, version = params.text_document.uri, params.text_document.version
        if server.workspace.get_text_document(uri).version == version:
            desk.publish(uri)

    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        desk.forget(params.text_document.uri)
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(params.text_document.uri, [])
        )

    kinds: list[lsp.CodeActionKind | str] = [lsp.CodeActionKind.QuickFix, _FIX_ALL]
    server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)(opened)
    server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)(opened)
    server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)(changed)
    server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)(closed)
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(lambda params: hover(desk, params))
    server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=kinds))(
        lambda params: actions(desk, params)
    )
    for method in (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE):
        server.feature(method, LEGEND)(lambda params: tokens(desk, params))
    server.start_io()
