"""The formats for other programs, read by parsers: every finding and every string is there, and
limits are kept.
"""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from mypt.lint.cli import main
from mypt_cli.terminal import Display
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.report.formats import junit
from mypt_lint.report.paths import relative
from mypt_spec.findings import Finding, Fix
from tests.support.examples import examples
from tests.support.messy import MESSY, MESSY_FIXED
from tests.support.rendering import as_json, placed, rendered

# What GitLab's documentation says that a Code Quality report holds.
_NUMBER, _TEXT = {"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}
_PLACE = {
    "type": "object",
    "properties": {"line": _NUMBER, "column": _NUMBER},
    "required": ["line"],
}
GITLAB: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": _TEXT,
            "check_name": _TEXT,
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "positions"],
                "properties": {
                    "path": {"type": "string"},
                    "positions": {
                        "type": "object",
                        "properties": {"begin": _PLACE, "end": _PLACE},
                        "required": ["begin"],
                    },
                },
            },
        },
    },
}  # fmt: skip


def finding(
    code: str = "MYP001", row: int = 1, message: str = "m", name: str = "a.jsonl"
) -> Diagnostic:
    return Diagnostic(Finding(code, message), name, row, 1, row, 2, "mypt")


def report(name: str, items: Sequence[Diagnostic]) -> str:
    """The output of a format, with a summary that counts the findings."""
    total = Summary(files=1, units=len(items), faulty=len(items))
    total.tally(items)
    return rendered(name, items, summary=total)


@settings(max_examples=examples(60))
@given(placed, placed)
def test_gitlab_gives_every_string_back(one: Diagnostic, two: Diagnostic) -> None:
    items = [one, two, one]
    issues = json.loads(rendered("gitlab", items))
    jsonschema.validate(issues, GITLAB)
    assert [i["description"] for i in issues] == [
        as_json(f"{item.finding.name}: {item.finding.message}") for item in items
    ]
    assert len({i["fingerprint"] for i in issues}) == 3


@pytest.mark.parametrize("variable", ["CI_PROJECT_DIR", "GITHUB_WORKSPACE"])
def test_names_are_relative_to_the_checkout_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Also where the job runs in a folder of it; elsewhere they are as before."""
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    names = [
        "a.jsonl",
        "./b/a.jsonl",
        "../a.jsonl",
        str(tmp_path / "a.jsonl"),
        "<stdin>",
        "s3://b/a.jsonl",
    ]
    monkeypatch.setenv(variable, str(tmp_path))
    inside = ["sub/a.jsonl", "sub/b/a.jsonl", "a.jsonl", "a.jsonl", "<stdin>", "s3://b/a.jsonl"]
    assert [*map(relative, names)] == inside
    monkeypatch.setenv(variable, str(tmp_path / "other"))
    outside = [
        "a.jsonl",
        "b/a.jsonl",
        "../a.jsonl",
        str(tmp_path / "a.jsonl"),
        "<stdin>",
        "s3://b/a.jsonl",
    ]
    assert [*map(relative, names)] == outside


def test_gitlab_fingerprints_stay_when_lines_move() -> None:
    def prints(row: int) -> list[str]:
        issues = json.loads(report("gitlab", [finding(row=row), finding(row=row + 1)]))
        return [issue["fingerprint"] for issue in issues]

    assert prints(1) == prints(70)
    assert json.loads(report("gitlab", [])) == []


@settings(max_examples=examples(60))
@given(placed, placed)
def test_junit_gives_every_string_back(one: Diagnostic, two: Diagnostic) -> None:
    suites = ET.fromstring(rendered("junit", [one, two]))
    cases = [case for suite in suites for case in suite]
    show = Display(io.StringIO()).line
    for case, item in zip(cases, [one, two], strict=True):
        want = re.sub("[\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", show(item.finding.message))
        assert case[0].get("message") == want
        place = f"{item.finding.code} {item.finding.name} {item.at}"
        assert (case.get("name") or "").startswith(place)
    assert sum(int(suite.get("tests") or 0) for suite in suites) == 2
    assert ET.fromstring(rendered("junit", [one, two], "ascii")).tag == "testsuites"


def test_junit_holds_no_more_than_a_file_s_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit, "MOST", 3)
    many = [finding(row=i, name=name) for name in "ab" for i in range(1, 6)]
    suites = ET.fromstring(report("junit", many))
    assert [(s.get("name"), s.get("tests"), s[-1].get("name")) for s in suites] == [
        (name, "4", "2 more findings are not listed") for name in "ab"
    ]
    (suite,) = ET.fromstring(report("junit", []))
    # Attributes that the schema of Jenkins' xunit plugin (junit-10.xsd) requires of a suite.
    assert all({"name", "tests", "failures", "errors"} <= set(s.keys()) for s in (*suites, suite))
    assert (suite.get("failures"), suite[0].get("name")) == ("0", "no findings")


def test_github_chooses_one_of_each_rule_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    hostile = finding("MYP105", 801, "##[error] a|b\n<script>", "x\n::error::y")
    items = [*(finding(row=i) for i in range(1, 700)), finding("MYP104", 800), hostile]
    lines = report("github", items).splitlines()
    commands = "\n".join(line for line in lines if line.startswith("::error"))
    assert re.findall(r",line=(\d+)", commands) == [*"12345678", "800", "801"]
    assert commands.count("\n") == 9
    assert len(lines) == 10 + 691 + 1
    beginnings = ("::error file=", "::notice title=mypt-lint", "- a.jsonl")
    assert all(line.startswith(beginnings) for line in lines)
    text = page.read_text()
    assert text.startswith("before\n")
    assert "| MYP001 | invalid-json | 699 | 699 |" in text
    assert "and 191 more, in the log of the step" in text
    assert "<script>" not in text
    listed = report("github", [finding("MYP105", 1, "##[error]x")] * 21).splitlines()
    assert not any("##[" in line for line in listed if line.startswith("- "))


def test_the_summary_is_a_table() -> None:
    text = report("summary", [finding(row=3), finding(row=9), finding("MYP105", 4, "a|b `c` <d>")])
    rows = [line for line in text.splitlines() if line.startswith("| MYP")]
    assert rows[0] == r"| MYP001 | invalid-json | 2 | 2 | a.jsonl:3:1 m |"
    assert r"a\|b \`c\` &lt;d&gt;" in rows[1]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)


def test_sarif_carries_fixes_that_a_viewer_can_make(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made one after another, from the end of each line, they are what `--fix` does."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(MESSY)
    main(["-q", "--format", "sarif", "--select", "MYP009,MYP108,MYP010", str(path)])
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    lines = MESSY.decode().split("\n")
    fixable = [result for result in results if "fixes" in result]
    assert [result["ruleId"] for result in fixable] == ["MYP009", "MYP108", "MYP010"]
    assert {result["ruleId"] for result in results if result not in fixable} == {"MYP906"}
    for result in reversed(fixable):
        (change,) = result["fixes"][0]["artifactChanges"]
        place = result["locations"][0]["physicalLocation"]
        assert change["artifactLocation"] == place["artifactLocation"]
        (part,) = change["replacements"]
        region, new = part["deletedRegion"], part["insertedContent"]["text"]
        row, start, end = (
            region["startLine"] - 1,
            region["startColumn"] - 1,
            region["endColumn"] - 1,
        )
        lines[row] = lines[row][:start] + new + lines[row][end:]
    assert lines[:2] == MESSY_FIXED.decode().split("\n")[:2]


def test_sarif_without_a_place_for_it_has_no_fix() -> None:
    item = Diagnostic(Finding("MYP001", "m", fix=Fix("f", True)), "a", 1, 1, 1, 1, "mypt")
    assert "fixes" not in json.loads(report("sarif", [item]))["runs"][0]["results"][0]
