"""Findings that a file has once, however many of its records have them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mypt.convert import main as convert
from mypt.lint.document import Document
from mypt_cli.jsonl.blocks import Source
from mypt_lint.run.plan import Plan
from mypt_lint.run.resolve import group_sources
from mypt_lint.settings.config import Config
from tests.support.build import assistant, chat, lines, user
from tests.support.linting import Linter
from tests.unit.mypt_lint.test_model_folder import TOOLS, findings, folder

TEXT = b"".join(line + b"\n" for line in lines(*[{"note": i} | chat() for i in range(9)])).decode()


def test_an_editor_shows_them_once() -> None:
    source = Source("a.jsonl", stream=io.BytesIO(TEXT.encode()))
    (group,) = group_sources(Plan({}, Config()), [source], baseline=None, say=lambda _: None)
    findings = Document.from_text(TEXT, group._replace(sources=[Source("a.jsonl")])).findings
    assert [(item.finding.code, item.row) for item in findings] == [("MYP112", 1)]


@pytest.mark.usefixtures("folder")
def test_the_summary_says_that_they_are_of_the_file(lint: Linter) -> None:
    status, _, err = lint.of(TEXT, "--no-config")
    assert status == 0
    assert "1 warning about the file; 9 lines clean (1 file)" in err
    _, _, err = lint.of(TEXT.replace("Hi", "Dear {{name}}", 1), "--no-config")
    assert "2 warnings in 1 of 9 lines (8 clean, 1 faulty; 1 file)" in err


def test_records_is_the_name_of_the_option_in_all_commands(tmp_path: Path) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_text(TEXT)
    call = [str(path), "-o", str(out), "--to", "mypt"]
    assert convert([*call, "--system", "S", "--records", "openai"]) == 0
    first = out.read_bytes()
    assert convert([*call, "--system", "S", "--from", "openai"]) == 0
    assert out.read_bytes() == first
    assert convert([*call, "--records", "native"]) == 1  # records of mypt have a system prompt


@pytest.mark.usefixtures("folder")
def test_line_ends_of_windows_are_one_warning(lint: Linter) -> None:
    text = "".join(line.decode() + "\r\n" for line in lines(*[chat()] * 9))
    _, (found,), err = lint.of(text, "--no-config", "--select", "MYP010")
    assert found["message"] == "the line ends in CR LF: in 9 of 9 records"
    assert "1 warning about the file; 9 lines clean (1 file)" in err
    Path("mypt-lint.toml").write_text('[severity]\nMYP010 = "error"\n')
    _, found, err = lint.of(text)
    assert (len(found), "(0 clean, 9 faulty" in err) == (9, True), "mypt-prepare refuses these"


def labelled(*labels: bool) -> str:
    return "".join(
        json.dumps({"prompt": f"Q{i}", "completion": "A", "label": label}) + "\n"
        for i, label in enumerate(labels)
    )


@pytest.mark.usefixtures("folder")
def test_a_file_of_one_label_is_one_remark(lint: Linter) -> None:
    status, found, _ = lint.of(labelled(*[True] * 20), "--no-config")
    assert status == 0
    assert [(item["code"], item["message"]) for item in found] == [
        ("MYP611", "all 20 labels are true")
    ]
    for labels in ([True] * 19 + [False], [False] * 9):
        assert lint.of(labelled(*labels), "--no-config")[1] == []


def calling(arguments: str, tools: str) -> str:
    called = f'[{{"id": "1", "type": "function", "function": {{"name": "f", "arguments": {arguments}}}}}]'
    asked = '{"role": "user", "content": "arguments"}'
    return f'{{"messages": [{asked}, {{"role": "assistant", "tool_calls": {called}}}], "tools": {tools}}}'


TEXT_FORM, OBJECT_FORM = r'"{\"arguments\": {}}"', '{"arguments": {}}'
FUNCTION = '{"name": "f", "parameters": {"type": "object", "properties": {"arguments": {"type": "object"}}}}'
AS_LIST, AS_TEXT = f"[{FUNCTION}]", json.dumps(f"[{FUNCTION}]")
ARRAY = [calling(OBJECT_FORM, AS_LIST), calling(TEXT_FORM, AS_LIST)]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([calling(TEXT_FORM, AS_LIST)] * 3, []),
        ([calling(OBJECT_FORM, AS_TEXT)] * 3, []),
        ([calling(TEXT_FORM, AS_TEXT), calling(TEXT_FORM, "null"), calling(TEXT_FORM, "[]")], []),
        ([calling(TEXT_FORM, AS_LIST), *[calling(OBJECT_FORM, AS_LIST)] * 2], [(2, '"arguments" is an object, on line 1 it is JSON text')]),
        ([calling(TEXT_FORM, AS_TEXT)] * 400 + [calling(TEXT_FORM, AS_LIST)], [(401, '"tools" is a list, on line 1 it is JSON text')]),
        (["[" + ",\n".join(ARRAY) + "]"], [(2, '"arguments" is JSON text, on line 1 it is an object')]),
    ],
)  # fmt: skip
def test_forms_that_a_file_mixes(
    lint: Linter, text: list[str], expected: list[tuple[int, str]]
) -> None:
    _, findings, _ = lint.of("\n".join(text) + "\n", "--no-config", "--select", "MYP135")
    assert [(item["location"]["row"], item["message"]) for item in findings] == expected


def test_tools_that_servers_write_otherwise_are_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}
    wrapped = {"type": "function", "function": tool}
    records = [chat(user("a"), assistant("b"), tools=[each]) for each in (wrapped, tool, tool)]
    (item,) = findings(folder(tmp_path, TOOLS), records, capsys)
    assert (item["code"], item["severity"], item["pointer"]) == ("MYP138", "info", "/tools/0")
    assert item["message"].endswith("which servers add: in 2 of 3 records")
    alike = TOOLS.replace("tools | tojson", "tools[0].function or tools[0]")
    assert findings(folder(tmp_path, alike), records, capsys) == []
