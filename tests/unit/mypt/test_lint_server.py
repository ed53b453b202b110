"""The language server, spoken to by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from mypt.lint.server import MAX_ITEMS, Positions
from tests.support.linting import ROOT, TEXT
from tests.support.messy import MESSY, MESSY_FIXED

# An emoji counts twice in the columns of the protocol; U+2028 ends lines for Python, and no line of
# JSONL.
RECORD = '{"system": "S😀", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ünï", "think": "why"}]}\n'
TIME = 300  # seconds, which only a server that hangs takes


class Editor:
    """A client with a server process of its own."""

    def __init__(self, *options: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.client: Any = LanguageClient("test", "1")
        self.diagnostics: dict[str, asyncio.Queue[list[lsp.Diagnostic]]] = defaultdict(
            asyncio.Queue
        )
        self.messages: list[str] = []

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.diagnostics[params.uri].put_nowait(list(params.diagnostics))

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def message(params: lsp.ShowMessageParams) -> None:
            self.messages.append(params.message)

        self.run(self.start(options))

    def run(self, steps: Awaitable[None]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(steps, TIME))

    async def start(self, options: tuple[str, ...]) -> None:
        command = (sys.executable, "-m", "mypt.lint.cli", "server", *options)
        await self.client.start_io(*command, cwd=str(ROOT))
        await self.client.initialize_async(
            lsp.InitializeParams(capabilities=lsp.ClientCapabilities())
        )
        self.client.initialized(lsp.InitializedParams())

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        status = await self.client._server.wait()
        await self.client.stop()
        assert status == 0

    async def kill(self) -> None:
        self.client._server.kill()  # the client has no other way to give up
        await self.client.stop()


class Session:
    """One document in an editor."""

    def __init__(self, editor: Editor, uri: str) -> None:
        self.client, self.uri, self.version = editor.client, uri, 0
        self.messages, self.published = editor.messages, editor.diagnostics[uri]
        self.document = lsp.TextDocumentIdentifier(uri)

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        self.client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(self.uri, "jsonl", 0, text))
        )
        return await self.next()

    async def change(self, text: str) -> list[lsp.Diagnostic]:
        self.version += 1
        identifier = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        changes = [lsp.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(identifier, changes)
        )  # fmt: skip
        return await self.next()

    async def next(self) -> list[lsp.Diagnostic]:
        return await self.published.get()

    async def hover(self, at: lsp.Position) -> Any:
        return await self.client.text_document_hover_async(lsp.HoverParams(self.document, at))

    async def actions(self, where: lsp.Range, only: list[Any] | None = None) -> list[Any]:
        params = lsp.CodeActionParams(self.document, where, lsp.CodeActionContext([], only=only))
        return list(await self.client.text_document_code_action_async(params) or [])

    async def tokens(self, where: lsp.Range | None = None) -> list[tuple[int, int, int, int]]:
        """`(line, column, length, type)`."""
        if where is None:
            whole = lsp.SemanticTokensParams(self.document)
            tokens = await self.client.text_document_semantic_tokens_full_async(whole)
        else:
            part = lsp.SemanticTokensRangeParams(self.document, where)
            tokens = await self.client.text_document_semantic_tokens_range_async(part)
        out, line, column = [], 0, 0
        for i in range(0, len(tokens.data), 5):
            down, right, length, kind, modifiers = tokens.data[i : i + 5]
            line, column = line + down, (0 if down else column) + right
            assert modifiers == 1 << kind
            out.append((line, column, length, kind))
        return out


Steps = Callable[[Session], Awaitable[None]]


@pytest.fixture(scope="module")
def editors() -> Iterator[dict[tuple[str, ...], Editor]]:
    """Editors that run, by the options of their servers."""
    running: dict[tuple[str, ...], Editor] = {}
    yield running
    for editor in running.values():
        editor.run(editor.stop())
        editor.loop.close()


@pytest.fixture
def serve(editors: dict[tuple[str, ...], Editor], tmp_path: Path) -> Callable[..., None]:
    """Opens a new document in an editor, and does something with it."""

    def run(steps: Steps, *options: str, name: str = "a.jsonl") -> None:
        editor = editors.pop(options, None) or Editor(*options)
        editor.messages.clear()
        try:
            editor.run(steps(Session(editor, (tmp_path / name).as_uri())))
        except BaseException:  # the next test begins with another server
            editor.run(editor.kill())
            raise
        editors[options] = editor

    return run


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def in_units(text: str, start: int, end: int) -> str:
    """The part of a line between two columns of the protocol."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def span(*numbers: int) -> lsp.Range:
    """A range, by the line and column of its start and of its end."""
    return lsp.Range(lsp.Position(*numbers[:2]), lsp.Position(*numbers[2:]))


def applied(text: str, edits: list[Any]) -> str:
    """As an editor does it: columns count UTF-16, lines end at LF here."""
    places = Positions(text, units)
    spans = [(places.offset(e.range.start), places.offset(e.range.end), e.new_text) for e in edits]
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def test_diagnostics_follow_the_text(serve: Any) -> None:
    async def steps(s: Session) -> None:
        bad = RECORD.replace("Ünï", "😀 <myPT_user> x")
        (finding,) = await s.open(RECORD + bad)
        assert (finding.code, finding.source) == ("MYP201", "mypt-lint")
        assert finding.severity == lsp.DiagnosticSeverity.Error
        assert "expected" in finding.message
        assert "help: " in finding.message
        place = finding.range
        assert place.start.line == 1
        assert in_units(bad, place.start.character, place.end.character) == "<myPT_user>"
        assert await s.change(RECORD) == []
        flood = await s.change("{\n" * (MAX_ITEMS + 7))
        assert len(flood) == MAX_ITEMS + 1
        assert "7 more findings are not shown" in flood[-1].message
        # What no file holds.
        assert [d.code for d in await s.change("\ud83d\n")] == ["MYP002"]
        s.client.text_document_did_close(lsp.DidCloseTextDocumentParams(s.document))
        assert await s.next() == []

    serve(steps)


def test_a_name_with_a_space(serve: Any) -> None:
    """Its URI is percent-encoded."""

    async def steps(s: Session) -> None:
        (finding,) = await s.open("{\n")
        assert finding.code == "MYP001"
        assert await s.hover(finding.range.start) is not None

    serve(steps, name="a b.jsonl")


def test_hover_is_the_page_of_the_rule(serve: Any) -> None:
    async def steps(s: Session) -> None:
        (finding,) = await s.open(RECORD.replace('"role": "user"', '"role": "robot"'))
        page = await s.hover(finding.range.start)
        assert page.contents.kind == lsp.MarkupKind.Markdown
        assert page.contents.value.startswith("# unknown-role (MYP105)")
        assert page.range == finding.range
        assert await s.hover(lsp.Position(0, 0)) is None
        assert await s.hover(lsp.Position(99, 99)) is None

    serve(steps)


def test_fixes_are_those_of_the_command(serve: Any) -> None:
    text = MESSY.decode()

    async def steps(s: Session) -> None:
        codes = [d.code for d in await s.open(text)]
        everywhere, only_all = span(0, 0, 999, 0), [lsp.CodeActionKind.SourceFixAll]
        listed = await s.actions(everywhere)
        single = [a for a in listed if a.kind == lsp.CodeActionKind.QuickFix]
        assert {a.diagnostics[0].code for a in single} <= {*codes}
        assert all(a.is_preferred != ("unsafe" in a.title) for a in single)
        for action in single:  # each takes its finding away
            after = [d.code for d in await s.change(applied(text, action.edit.changes[s.uri]))]
            code = action.diagnostics[0].code
            assert after.count(code) < codes.count(code)
        await s.change(text)
        (fix_all,) = await s.actions(span(0, 0, 0, 0), only=only_all)
        assert applied(text, fix_all.edit.changes[s.uri]) == MESSY_FIXED.decode()
        await s.change(MESSY_FIXED.decode())
        assert not await s.actions(everywhere, only=only_all)

    serve(steps)


def test_the_loss_mask_is_that_of_the_encoder(serve: Any) -> None:
    """What is not legal has no mask."""
    record = RECORD.replace("S😀", "S😀\u2028")
    lines = [record, record.replace("Ünï", "<myPT_user>"), record.replace("Hi", 'a\\n\\"😀')]

    async def steps(s: Session) -> None:
        await s.open("".join(lines))
        assert [
            (line, in_units(lines[line], column, column + length), kind)
            for line, column, length, kind in await s.tokens()
        ] == [
            (0, "S😀\u2028", 0), (0, "Hi", 0), (0, "Ünï", 1), (0, "why", 1),
            (2, "S😀\u2028", 0), (2, 'a\\n\\"😀', 0), (2, "Ünï", 1), (2, "why", 1),
        ]  # fmt: skip
        part = await s.tokens(span(2, 0, 2, 5))
        assert {line for line, *_ in part} == {2}

    serve(steps)


def test_serialised_text(serve: Any) -> None:
    episode = TEXT.replace("Q", "Hi\nthere").replace("><myPT_", ">\n<myPT_") + "\n"

    async def steps(s: Session) -> None:
        assert await s.open(episode) == []
        kinds: dict[int, set[int]] = defaultdict(set)
        for line, _, _, kind in await s.tokens():
            kinds[line].add(kind)
        assert kinds == {0: {0}, 1: {0}, 2: {0}, 3: {1}, 4: {1}}
        (finding,) = await s.change(episode + episode.replace("</myPT_user>", ""))
        assert finding.range.start.line == 8
        fixes = await s.actions(finding.range)
        assert any("</myPT_user>" in str(a.title) and a.edit.changes[s.uri] for a in fixes)

    serve(steps, "--kind", "text", name="a.txt")


def test_settings_and_their_faults(serve: Any, tmp_path: Path) -> None:
    settings = tmp_path / "mypt-lint.toml"
    settings.write_text('[files."*.jsonl"]\nignore = ["unknown-role"]\nmax-tokens = 3\n')

    async def steps(s: Session) -> None:
        text = RECORD.replace('"role": "user"', '"role": "robot"') + RECORD
        assert [d.code for d in await s.open(text)] == ["MYP906", "MYP502"]
        settings.write_text("max-token = 3\n")
        s.client.text_document_did_save(lsp.DidSaveTextDocumentParams(s.document))
        assert await s.next() == []
        assert len(s.messages) == 1
        assert "did you mean" in s.messages[0]
        assert not await s.actions(span(0, 0, 9, 0))
        assert await s.tokens() == []

    serve(steps)


def test_without_its_library_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mypt.lint.cli import main

    assert main(["server", "x.jsonl"]) == 2
    assert "leave out x.jsonl" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "mypt.lint.server")
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert main(["server"]) == 2
    assert "pip install 'mypt-tags[lsp]'" in capsys.readouterr().err


def test_places_as_the_protocol_counts_them() -> None:
    text = "a😀b\r\nc\rd\n"
    places = Positions(text, units)
    assert [(p.line, p.character) for p in map(places.position, range(len(text) + 1))] == [
        (0, 0), (0, 1), (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0),
    ]  # fmt: skip
    for offset in range(len(text)):
        assert places.offset(places.position(offset)) == offset
    assert (
        json.dumps([places.offset(lsp.Position(9, 0)), list(places.pieces(0, len(text)))])
        == "[9, [[0, 3], [5, 6], [7, 8], [9, 9]]]"
    )


def test_places_of_a_long_line_are_counted_once() -> None:
    """In any order they are the same; in order, each part of the line is counted once."""
    counted: list[int] = []

    def units(text: str) -> int:
        counted.append(len(text))
        return len(text.encode("utf-16-le")) // 2

    text = "😀ü\n" + "a😀" * 500
    positions = Positions(text, units)
    there = [positions.position(at) for at in range(len(text))]
    assert sum(counted) < 2 * len(text)
    again = [positions.position(at) for at in reversed(range(len(text)))]
    assert again[::-1] == there
    assert there[-1] == lsp.Position(1, 1499 - 1)


def test_a_closed_document_has_nothing(serve: Any) -> None:
    async def look(session: Session) -> None:
        client = session.client
        name = lsp.TextDocumentIdentifier("file:///tmp/x.jsonl")
        place = lsp.HoverParams(name, lsp.Position(0, 0))
        assert await client.text_document_hover_async(place) is None
        whole = lsp.SemanticTokensParams(name)
        tokens = await client.text_document_semantic_tokens_full_async(whole)
        assert not tokens.data

    serve(look)
