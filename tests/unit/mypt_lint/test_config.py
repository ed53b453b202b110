"""Settings: where they are found, which wins, which are refused and in what words.

And opt-outs of records.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mypt.lint.cli import main
from mypt_cli.errors import UsageError
from mypt_lint.settings.config import find, matches, read
from tests.support.build import assistant, chat, user
from tests.support.linting import GOOD, TEXT, Linter, write_texts

BLANK = GOOD.replace("Yo", " ")
TWO_TURNS = GOOD.replace("}]", "}, " + json.dumps([user(), assistant("Yo")])[1:])


@pytest.fixture
def lint(folder: Path, lint: Linter) -> Any:
    """Lints files in a folder with settings.

    Returns the exit status, `file code severity`, and stderr.
    """

    def run(
        settings: str, files: str | dict[str, str], *options: str, name: str = "mypt-lint.toml"
    ) -> tuple[int, list[str], str]:
        files = {"a.jsonl": files} if isinstance(files, str) else files
        write_texts({name: settings} | files)
        status, findings, err = lint(*options, *files)
        return status, [f"{f['filename']} {f['code']} {f['severity']}" for f in findings], err

    return run


def test_settings_for_all_and_for_some_files(lint: Any) -> None:
    settings = """
    fail-on = "warning"
    ignore = ["MYP013"]
    [severity]
    blank-content = "info"
    [files."phase2/"]
    phase = 2
    [files."**/odd.jsonl"]
    ignore = ["turn-of-later-phase"]
    """
    files = {
        "a.jsonl": TWO_TURNS + BLANK + GOOD.rstrip(),
        "phase2/b.jsonl": TWO_TURNS,
        "phase2/odd.jsonl": TWO_TURNS,
    }
    assert lint(settings, files)[:2] == (1, ["a.jsonl MYP314 info", "phase2/b.jsonl MYP402 error"])
    assert lint(settings, BLANK)[0] == 0
    assert lint(settings, BLANK, "--fail-on", "info")[0] == 1
    assert lint(settings, files, "--ignore", "MYP4")[1] == ["a.jsonl MYP314 info"]
    assert lint(settings, files, "--phase", "5")[1] == ["a.jsonl MYP314 info"]
    without = ["a.jsonl MYP314 warning", "a.jsonl MYP013 info"]
    assert lint(settings, files, "--no-config")[1] == without


def test_pyproject_and_the_way_up(lint: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = '[tool.mypt-lint]\nignore = ["MYP3"]\n'
    assert lint(settings, {"sub/a.jsonl": BLANK}, name="pyproject.toml")[1] == []
    monkeypatch.chdir(folder / "sub")
    assert find().path == str(folder / "pyproject.toml")
    write_texts({"pyproject.toml": "[tool.other]\n"})
    nearest = "a project file that has no settings is not the nearest"
    assert find().path == str(folder / "pyproject.toml"), nearest
    write_texts({"mypt-lint.toml": ""})
    assert find().path == str(folder / "sub/mypt-lint.toml")


def test_kinds_and_dialects_by_file(lint: Any) -> None:
    settings = '[files."*.txt"]\nkind = "text"\n[files."chat/*"]\ndialect = "gabgpt"\n'
    files = {
        "data/a.jsonl": GOOD,
        "data/b.txt": f"{TEXT}\n" + TEXT.replace("<myPT_eot>", "\n"),
        "data/c.text": "not named\n",
        "chat/d.jsonl": '{"messages": [{"role": "user", "content": "Q"}]}\n',
    }
    status, lines, _ = lint(settings, files)
    assert status == 1
    assert {row for row in lines if "chat" not in row} == {
        "data/b.txt MYP216 error",
        "data/c.text MYP001 error",
    }
    assert main(["-q", "data"]) == 1
    assert main(["-q", "data/a.jsonl", "data/b.txt", "--ignore", "MYP216"]) == 0
    assert not any("MYP208" in row for row in lines if "chat" in row)


def test_tools_and_tokens(lint: Any) -> None:
    call = json.dumps({"role": "assistant_toolcall", "name": "t", "arguments": {}})
    result = json.dumps({"role": "toolresult", "name": "t", "content": 1})
    answer = '{"role": "assistant"'
    line = GOOD.replace(answer, f"{call}, {result}, {answer}")
    assert lint('tools = ["u"]', line)[1] == ["a.jsonl MYP313 warning"]
    assert lint('tools = ["u"]\n[files."a.jsonl"]\ntools = ["t"]', line)[1] == []
    assert lint('tools = ["u"]', line, "--tool", "t")[1] == []
    assert lint("max-tokens = 9", GOOD)[1] == ["a.jsonl MYP502 error"]


def test_schemas_of_tools(lint: Any, folder: Path) -> None:
    def call(arguments: Any, result: Any) -> str:
        calling = {"role": "assistant_toolcall", "name": "t", "arguments": arguments}
        returned = {"role": "toolresult", "name": "t", "content": result}
        record = {"system": "S"} | chat(user(), calling, returned, assistant())
        return json.dumps(record) + "\n"

    (folder / "result.json").write_text('{"type": "array"}')
    settings = """
    [tools.t]
    result = "result.json"
    [tools.t.arguments]
    type = "object"
    required = ["q"]
    properties = {q = {type = "string"}}
    """
    good, bad = call({"q": "x"}, []), call({"q": 1}, {})
    assert lint(settings, good * 3 + bad + call({}, []) + good)[1] == [
        "a.jsonl MYP353 warning",
        "a.jsonl MYP356 warning",
        "a.jsonl MYP353 warning",
    ]
    assert lint("tools = ['t']", bad)[1] == []


WRONG = {
    "max_tokens = 3": 'no setting is called "max_tokens"; did you mean "max-tokens"?',
    'colour = "x"': 'no setting is called "colour"; settings are dialect,',
    'phase = "3"': "phase must be a number from 1 on, got '3'",
    "phase = true": "phase must be a number",
    'fail-on = "errors"': "fail-on must be one of info, warning, error, got 'errors'; did you mean 'error'?",
    'ignore = ["MYP9999"]': "ignore: no rule is called 'MYP9999'",
    'ignore = "MYP314"': "ignore must be a list of strings",
    'severity = {MYP314 = "off"}': "to leave a rule out, ignore it",
    'severity = {blank-contents = "error"}': "did you mean blank-content?",
    '[files."*.jsonl"]\nfail-on = "error"': 'files "*.jsonl": no setting is called "fail-on"',
    "tools = 3": "tools must be a list of names",
    "[tools.t]\nargument = {}": 'tool t: no setting is called "argument"; did you mean "arguments"?',
    '[tools.t]\narguments = {type = "objekt"}': "arguments is not a valid JSON Schema",
    '[tools.t]\narguments = "none.json"': "names the file 'none.json': cannot read ",
    "x = [": "not TOML",
    f"x = {'[' * 10_000}": "mypt-lint.toml: not TOML: ",
    '[tools.t]\narguments = "deep.json"': "deep.json is not JSON: ",
    'dialect = "none"': "no dialect 'none'",
    'format = "xml"': "no format is called 'xml'",
}


@pytest.mark.parametrize("settings", WRONG)
@pytest.mark.usefixtures("folder")
def test_a_wrong_setting_is_named(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_texts({"a.jsonl": GOOD, "mypt-lint.toml": settings, "deep.json": "[" * 100_000})
    assert main(["a.jsonl"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("mypt-lint: error: ")
    assert WRONG[settings] in err


def test_show_settings_says_where_each_comes_from(
    lint: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = 'phase = 3\nignore = ["MYP013"]\n[files."b.jsonl"]\nphase = 2\n'
    settings += '[severity]\nMYP314 = "error"\n'
    lint(settings, {"a.jsonl": GOOD, "b.jsonl": GOOD})
    assert main(["--show-settings", "--ignore", "MYP011", "a.jsonl", "b.jsonl"]) == 0
    first, second = capsys.readouterr().out.strip().split("\n\n")
    rows = {
        line.split(" = ")[0]: [part.strip() for part in line.rsplit("  # ", 1)]
        for line in first.splitlines()[1:]
    }
    assert first.startswith("[a.jsonl]\n")
    assert rows["phase"] == ["phase = 3", "mypt-lint.toml"]
    assert rows["ignore"] == ['ignore = ["MYP011", "MYP013"]', "mypt-lint.toml; command line"]
    assert rows["dialect"] == ['dialect = "mypt"', "default"]
    assert rows["severity"] == ['severity = { MYP314 = "error" }', "mypt-lint.toml"]
    assert "phase = 2" in second
    assert '# mypt-lint.toml, files "b.jsonl"' in second
    assert main(["--show-settings", "--no-config"]) == 0
    assert "phase" not in capsys.readouterr().out


def test_the_baseline_of_a_configuration_counts_from_its_folder(
    lint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"sub/a.jsonl": BLANK}
    lint("", files)
    assert main(["-q", "--write-baseline", "known.jsonl", "sub"]) == 0
    assert lint('baseline = "known.jsonl"', files)[1] == []
    monkeypatch.chdir("sub")
    assert main(["-q", "--fail-on", "info", "a.jsonl"]) == 0


@pytest.mark.parametrize(
    ("pattern", "name", "wanted"),
    [
        ("*.jsonl", "a.jsonl", True), ("*.jsonl", "x/y/a.jsonl", True), ("a/*.jsonl", "a/b.jsonl", True), ("a/*.jsonl", "b/a/b.jsonl", False),
        ("a/**/*.jsonl", "a/b.jsonl", True), ("a/**/*.jsonl", "a/x/y/b.jsonl", True), ("a?.jsonl", "ab.jsonl", True), ("a?.jsonl", "a/.jsonl", False),
        ("./a/", "a/b", True), ("a.jsonl", "aXjsonl", False), ("[a].jsonl", "[a].jsonl", True), ("../x/*", "../x/y", True),
    ],
)  # fmt: skip
def test_globs(pattern: str, name: str, wanted: bool) -> None:
    assert matches(pattern, name) == wanted


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read(str(tmp_path / "none.toml"))


def opted(line: str, ignore: Any) -> str:
    """A line whose record opts out of rules."""
    options = {"_mypt_lint": {"ignore": ignore, "reason": "test"}}
    return json.dumps(json.loads(line) | options) + "\n"


ROBOT = GOOD.replace('"user"', '"robot"')
REPEATED = opted(GOOD, ["MYP0"]).replace('"Yo"', '"Yo", "content": "X"')
ESCAPED = opted(GOOD, ["MYP314"]).replace('"_mypt', '"\\u005fmypt')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (opted(BLANK, ["MYP314"]) + BLANK, ["MYP314 warning"]),
        (opted(BLANK, ["blank-content"]), []),
        (opted(GOOD, ["MYP314"]), ["MYP904 warning"]),
        (opted(BLANK, ["MYP314", "MYP3"]), ["MYP904 warning"]),
        (opted(GOOD, ["MYP999"]), ["MYP905 error"]),
        (opted(GOOD, "MYP314"), ["MYP905 error"]),
        (REPEATED, ["MYP004 error", "MYP904 warning"]),
        # A rule whose check does not run may have something to find.
        (opted(ROBOT, ["MYP314"]), ["MYP105 error"]),
        (ESCAPED * 3, ["MYP904 warning"] * 3),
    ],
)
def test_records_opt_out(lint: Any, text: str, expected: list[str]) -> None:
    assert lint("", text)[1] == [f"a.jsonl {row}" for row in expected]
    if text == opted(GOOD, ["MYP314"]):
        assert lint("", text, "--ignore", "MYP314")[1] == []


EMPTY = GOOD.replace("Yo", "")
VAIN = ["a.jsonl MYP906 error"]


@pytest.mark.parametrize(
    ("line", "code"),
    [(ROBOT, "MYP105"), (EMPTY, "MYP214"), ("{\n", "MYP001"), ('{"messages": NaN}\n', "MYP005")],
)
def test_what_leaves_no_episode_cannot_be_ignored(lint: Any, line: str, code: str) -> None:
    for setting in (f'ignore = ["{code}"]', f'[severity]\n{code} = "warning"', 'select = ["MYP6"]'):
        status, findings, _ = lint(setting, line)
        assert status == 1
        assert "a.jsonl MYP906 error" in findings, setting
    assert lint('ignore = ["MYP"]', line)[:2] == (1, VAIN)
    assert lint("", line, "--ignore", "MYP")[:2] == (1, VAIN)
    assert lint('ignore = ["MYP"]\n[severity]\nMYP906 = "info"', line)[:2] == (1, VAIN)
    if line.startswith('{"system'):
        assert lint("", opted(line, [code]))[1] == VAIN


def test_a_line_that_holds_nothing_cannot_be_ignored(lint: Any) -> None:
    assert lint('ignore = ["blank-line"]', GOOD + "\n")[:2] == (1, VAIN)


def test_what_leaves_an_episode_can_be_ignored(lint: Any) -> None:
    noted = GOOD.replace('"user"', '"user", "note": 1')
    tagged = GOOD.replace("Hi", "Hi <myPT_user>")
    for line, code in [(noted, "MYP103"), (tagged, "MYP301")]:
        assert lint(f'ignore = ["{code}"]', line)[:2] == (0, [])
        assert lint("", opted(line, [code]))[:2] == (0, [])
    # Where tags are plain text, content that spells one has no token ids that could be read back.
    plain = json.dumps(chat(user("Hi <user>"), assistant())) + "\n"
    assert lint('dialect = "mypt-3b"\nignore = ["MYP301"]', plain)[1] == VAIN


def test_what_is_ignored_in_vain_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_texts({"a.jsonl": ROBOT.replace('"messages"', '"note": 1, "messages"')})
    assert main(["a.jsonl", "--ignore", "MYP103,MYP105"]) == 1
    out = capsys.readouterr().out
    assert 'MYP105 cannot be ignored, nothing could be trained on: unknown role "robot"' in out
    assert "a.jsonl:1:" in out
    assert "/messages/0/role" in out, "at its place"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("option", ["--config", "--baseline"])
@pytest.mark.usefixtures("folder")
def test_a_pipe_is_not_waited_for(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    write_texts({"a.jsonl": GOOD})
    assert main(["a.jsonl", option, "pipe"]) == 2
    assert "pipe: is not a regular file; name one" in capsys.readouterr().err
