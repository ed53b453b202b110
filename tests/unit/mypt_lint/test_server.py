"""The language server, spoken to by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from mypt_lint.editor.server import SHOWN, Positions
from tests.unit.mypt_lint.test_fix_files import MESSY, MESSY_FIXED

ROOT = Path(__file__).parents[3]
# An emoji counts twice in the columns of the protocol; U+2028 ends lines for Python, and no line of
# JSONL.
RECORD = '{"system": "S😀\u2028", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ünï", "think": "why"}]}\n'


class Session:
    """A client with one document."""

    def __init__(self, client: Any, uri: str) -> None:
        self.client, self.uri, self.version = client, uri, 0
        self.published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []

        @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

        @client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def said(params: lsp.ShowMessageParams) -> None:
            self.messages.append(params.message)

    @property
    def document(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri)

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        self.client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(self.uri, "jsonl", 0, text))
        )
        return await self.next()

    async def change(self, text: str) -> None:
        self.version += 1
        whole = [lsp.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(self.version, self.uri), whole
            )
        )

    async def next(self) -> list[lsp.Diagnostic]:
        return list((await asyncio.wait_for(self.published.get(), 30)).diagnostics)

    async def actions(self, where: lsp.Range, only: list[Any] | None = None) -> list[Any]:
        context = lsp.CodeActionContext([], only=only)
        return list(
            await self.client.text_document_code_action_async(
                lsp.CodeActionParams(self.document, where, context)
            )
            or []
        )

    async def tokens(self, where: lsp.Range | None = None) -> list[tuple[int, int, int, int]]:
        """`(line, column, length, type)`."""
        if where is None:
            found = await self.client.text_document_semantic_tokens_full_async(
                lsp.SemanticTokensParams(self.document)
            )
        else:
            found = await self.client.text_document_semantic_tokens_range_async(
                lsp.SemanticTokensRangeParams(self.document, where)
            )
        out, line, column = [], 0, 0
        for i in range(0, len(found.data), 5):
            down, right, length, kind, modifiers = found.data[i : i + 5]
            line, column = line + down, (0 if down else column) + right
            assert modifiers == 1 << kind
            out.append((line, column, length, kind))
        return out


def serve(path: Path, steps: Callable[[Session], Awaitable[None]], *options: str) -> None:
    """Run `steps` against a fresh server."""

    async def talk() -> None:
        client = LanguageClient("test", "1")
        session = Session(client, path.as_uri())
        await client.start_io(
            sys.executable, "-m", "mypt_lint.cli", "server", *options, cwd=str(ROOT)
        )
        try:
            await client.initialize_async(
                lsp.InitializeParams(capabilities=lsp.ClientCapabilities())
            )
            client.initialized(lsp.InitializedParams())
            await asyncio.wait_for(steps(session), 60)
            await client.shutdown_async(None)
            client.exit(None)
        except BaseException:
            client._server.kill()  # type: ignore[union-attr]  # the client has no other way to give up
            raise
        finally:
            await client.stop()

    asyncio.run(talk())


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def applied(text: str, edits: list[Any]) -> str:
    """As an editor does it: columns count UTF-16, lines end at LF here."""
    places = Positions(text, units)
    for edit in sorted(
        edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True
    ):
        start, end = places.offset(edit.range.start), places.offset(edit.range.end)
        text = text[:start] + edit.new_text + text[end:]
    return text


def test_diagnostics_follow_the_text(tmp_path: Path) -> None:
    async def steps(s: Session) -> None:
        bad = RECORD.replace("Ünï", "😀 <myPT_user> x")
        (found,) = await s.open(RECORD + bad)
        assert (found.code, found.source, found.severity) == (
            "MYP201",
            "mypt-lint",
            lsp.DiagnosticSeverity.Error,
        )
        assert "expected" in found.message
        assert "help: " in found.message
        line = bad.encode("utf-16-le")
        marked = line[2 * found.range.start.character : 2 * found.range.end.character].decode(
            "utf-16-le"
        )
        assert (found.range.start.line, marked) == (1, "<myPT_user>")
        await s.change(RECORD)
        assert await s.next() == []
        await s.change("{\n" * (SHOWN + 7))
        flood = await s.next()
        assert len(flood) == SHOWN + 1
        assert "7 more findings are not shown" in flood[-1].message
        await s.change("\ud83d\n")  # what no file holds
        assert [d.code for d in await s.next()] == ["MYP002"]
        s.client.text_document_did_close(lsp.DidCloseTextDocumentParams(s.document))
        assert await s.next() == []

    serve(tmp_path / "a.jsonl", steps)


def test_hover_is_the_page_of_the_rule(tmp_path: Path) -> None:
    async def steps(s: Session) -> None:
        (found,) = await s.open(RECORD.replace('"role": "user"', '"role": "robot"'))
        shown = await s.client.text_document_hover_async(
            lsp.HoverParams(s.document, found.range.start)
        )
        assert shown.contents.kind == lsp.MarkupKind.Markdown
        assert shown.contents.value.startswith("# unknown-role (MYP105)")
        assert shown.range == found.range
        assert (
            await s.client.text_document_hover_async(
                lsp.HoverParams(s.document, lsp.Position(0, 0))
            )
            is None
        )
        assert (
            await s.client.text_document_hover_async(
                lsp.HoverParams(s.document, lsp.Position(99, 99))
            )
            is None
        )

    serve(tmp_path / "a.jsonl", steps)


def test_fixes_are_those_of_the_command(tmp_path: Path) -> None:
    text = MESSY.decode()

    async def steps(s: Session) -> None:
        found = await s.open(text)
        everywhere = lsp.Range(lsp.Position(0, 0), lsp.Position(999, 0))
        listed = await s.actions(everywhere)
        single = [a for a in listed if a.kind == lsp.CodeActionKind.QuickFix]
        assert {a.diagnostics[0].code for a in single} <= {d.code for d in found}
        assert all(a.is_preferred != ("unsafe" in a.title) for a in single)
        for action in single:  # each takes its finding away
            await s.change(applied(text, action.edit.changes[s.uri]))
            left = [d.code for d in await s.next()]
            assert left.count(action.diagnostics[0].code) < [d.code for d in found].count(
                action.diagnostics[0].code
            )
        await s.change(text)
        await s.next()
        (all_,) = await s.actions(
            lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)),
            only=[lsp.CodeActionKind.SourceFixAll],
        )
        assert applied(text, all_.edit.changes[s.uri]) == MESSY_FIXED.decode()
        await s.change(MESSY_FIXED.decode())
        await s.next()
        assert not await s.actions(everywhere, only=[lsp.CodeActionKind.SourceFixAll])

    serve(tmp_path / "a.jsonl", steps)


def test_the_loss_mask_is_that_of_the_encoder(tmp_path: Path) -> None:
    broken = RECORD.replace("Ünï", "<myPT_user>")

    async def steps(s: Session) -> None:
        await s.open(RECORD + broken + RECORD.replace("Hi", 'a\\n\\"😀'))
        lines = [RECORD, broken, RECORD.replace("Hi", 'a\\n\\"😀')]

        def text(line: int, column: int, length: int) -> str:
            return (
                lines[line]
                .encode("utf-16-le")[2 * column : 2 * (column + length)]
                .decode("utf-16-le")
            )

        found = [
            (line, text(line, column, length), kind)
            for line, column, length, kind in await s.tokens()
        ]
        assert found[:4] == [(0, "S😀\u2028", 0), (0, "Hi", 0), (0, "Ünï", 1), (0, "why", 1)]
        assert found[4:] == [
            (2, "S😀\u2028", 0),
            (2, 'a\\n\\"😀', 0),
            (2, "Ünï", 1),
            (2, "why", 1),
        ], "what is not legal has no mask"
        part = await s.tokens(lsp.Range(lsp.Position(2, 0), lsp.Position(2, 5)))
        assert {line for line, *_ in part} == {2}

    serve(tmp_path / "a.jsonl", steps)


def test_serialised_text(tmp_path: Path) -> None:
    episode = "<myPT_system>S</myPT_system>\n<myPT_user>Hi\nthere</myPT_user>\n<myPT_assistant>Yo</myPT_assistant>\n<myPT_eot>\n"

    async def steps(s: Session) -> None:
        assert await s.open(episode) == []
        masked = {
            line: {kind for row, _, _, kind in await s.tokens() if row == line} for line in range(5)
        }
        assert masked == {0: {0}, 1: {0}, 2: {0}, 3: {1}, 4: {1}}
        await s.change(episode + episode.replace("</myPT_user>", ""))
        (found,) = await s.next()
        assert found.range.start.line == 8
        fixes = await s.actions(found.range)
        assert any("</myPT_user>" in str(a.title) and a.edit.changes[s.uri] for a in fixes)

    serve(tmp_path / "a.txt", steps, "--kind", "text")


def test_settings_and_their_faults(tmp_path: Path) -> None:
    (tmp_path / "mypt-lint.toml").write_text(
        '[files."*.jsonl"]\nignore = ["unknown-role"]\nmax-tokens = 3\n'
    )

    async def steps(s: Session) -> None:
        text = RECORD.replace('"role": "user"', '"role": "robot"') + RECORD
        assert [d.code for d in await s.open(text)] == ["MYP906", "MYP502"]
        (tmp_path / "mypt-lint.toml").write_text("max-token = 3\n")
        s.client.text_document_did_save(lsp.DidSaveTextDocumentParams(s.document))
        assert await s.next() == []
        assert len(s.messages) == 1
        assert "did you mean" in s.messages[0]
        assert not await s.actions(lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0)))
        assert await s.tokens() == []

    serve(tmp_path / "a.jsonl", steps)


def test_without_its_library_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mypt_lint.cli import main

    assert main(["server", "x.jsonl"]) == 2
    assert "leave out x.jsonl" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "mypt_lint.editor.server")
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
