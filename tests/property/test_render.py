"""Any text, in every format: nothing raises, nothing is lost, and carets are under the mark."""

from __future__ import annotations

import hashlib
import json
import re
from urllib.parse import unquote_to_bytes

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mypt_cli.terminal import HIDDEN
from mypt_lint.check.diagnostic import Diagnostic, Snippet, Summary
from mypt_lint.report import FORMATS
from mypt_lint.report.totals import statistics, summary_line
from mypt_spec.findings import RULES, Finding
from tests.support.rendering import as_json, numbers, placed, texts
from tests.support.rendering import rendered as run

quick = settings(deadline=None)
encodings = st.sampled_from(
    ["utf-8", "ascii", "latin-1", "cp1252", "shift_jis", "utf-16", "utf-8-sig"]
)


@quick
@given(
    st.lists(placed, max_size=3),
    encodings,
    st.sampled_from([None, True, False]),
    st.none() | st.integers(1, 120),
)
def test_no_text_raises_in_any_format(
    items: list[Diagnostic], encoding: str, color: bool | None, width: int | None
) -> None:
    for name in FORMATS:
        options = {"color": color, "width": width} if name == "text" else {}
        run(name, items, encoding, **options)


@quick
@given(st.lists(placed, max_size=3), encodings)
def test_json_and_jsonl_give_every_string_back(items: list[Diagnostic], encoding: str) -> None:
    want = [
        as_json(
            {
                "code": item.finding.code,
                "name": RULES[item.finding.code].name,
                "severity": RULES[item.finding.code].severity,
                "message": item.finding.message,
                "filename": item.filename,
                "location": {"row": item.row, "column": item.column},
                "end_location": {"row": item.end_row, "column": item.end_column},
                "pointer": item.finding.pointer,
                "span": item.finding.span,
                "expected": item.finding.expected,
                "dialect": item.dialect,
                "fix": item.finding.fix and item.finding.fix.as_dict(),
            }
        )
        for item in items
    ]
    assert json.loads(run("json", items, encoding)) == want
    *records, last = map(json.loads, run("jsonl", items, encoding).splitlines())
    assert records == want
    assert last["type"] == "summary"
    assert all(list(record) == list(wanted) for record, wanted in zip(records, want, strict=True))


@quick
@given(st.lists(placed, max_size=3))
def test_sarif_gives_every_string_back(items: list[Diagnostic]) -> None:
    (once,) = json.loads(run("sarif", items))["runs"]
    for item, result in zip(items, once["results"], strict=True):
        assert result["message"]["text"] == as_json(item.finding.message)
        assert result["properties"]["pointer"] == as_json(item.finding.pointer)
        assert result["properties"]["expected"] == as_json(item.finding.expected)
        assert once["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == item.finding.code
        place = result["locations"][0]
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~/%:-]*", uri)
        if not item.filename.startswith(("/", "./")):
            try:
                want = item.filename.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                want = item.filename.encode("utf-8", "surrogatepass")
            assert unquote_to_bytes(uri) == want
        assert (
            len(result["partialFingerprints"]["myptFindingHash/v1"])
            == hashlib.sha256().digest_size * 2
        )


@quick
@given(st.lists(placed, max_size=3), encodings)
def test_line_formats_keep_to_one_line_a_finding(items: list[Diagnostic], encoding: str) -> None:
    for name in ("concise", "github"):
        lines = run(name, items, encoding).splitlines()
        assert len(lines) == len(items)
        assert not any(HIDDEN.search(line) for line in lines)
    for item, line in zip(items, run("github", items).splitlines(), strict=True):
        match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert match is not None
        keys = [part.split("=")[0] for part in match[2].split(",")]
        columns = ["col", "endColumn"] if item.row == item.end_row else []
        assert keys == ["file", "line", "endLine", *columns, "title"]


@quick
@given(placed, encodings, st.integers(1, 120))
def test_text_shows_no_control_character_and_fits(
    item: Diagnostic, encoding: str, width: int
) -> None:
    out = run("text", [item], encoding, width=width, color=False)
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", out
    )
    assert (
        re.sub(r"\x1b\[[0-9;]*m", "", run("text", [item], encoding, width=width, color=True)) == out
    )
    if item.snippet is not None:
        source = out.split("\n")[3]
        gutter = len(f"{item.row} | ")
        assert cell_len(source) <= max(width, gutter + 20)


def excerpt_lines(snippet: Snippet, encoding: str) -> tuple[str, str]:
    item = Diagnostic(Finding("MYP001", "m"), "f", 1, 1, 1, 1, "", snippet)
    source, under = run("text", [item], encoding, width=10**6, color=False).split("\n")[3:5]
    return source[4:], under[4:]


# rich takes any character behind a joiner for a part of what is before it; terminals do so for
# emoji only.
measured = texts.map(lambda text: re.sub("\u200d(?!🚀)", "", text))


@quick
@given(measured, measured.filter(bool), measured, st.sampled_from(["utf-8", "ascii", "latin-1"]))
def test_carets_stand_under_the_mark(before: str, mark: str, after: str, encoding: str) -> None:
    # A NUL is never part of a cluster, so what it ends can be measured by itself.
    left = f"{before}\0"
    source, under = excerpt_lines(
        Snippet(f"{left}{mark}\0{after}", (len(left), len(left) + len(mark))), encoding
    )
    shown_left, _ = excerpt_lines(Snippet(left, (0, 0)), encoding)
    shown, _ = excerpt_lines(Snippet(left + mark, (0, 0)), encoding)
    assert source.startswith(shown)
    assert shown.startswith(shown_left)
    assert under == " " * cell_len(shown_left) + "^" * (cell_len(shown) - cell_len(shown_left))


@quick
@given(
    st.dictionaries(st.sampled_from(sorted(RULES)), numbers),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 3),
)
def test_totals_never_fail(codes: dict[str, int], clean: int, faulty: int, files: int) -> None:
    summary = Summary(files, clean + faulty, clean, faulty)
    for code, count in codes.items():
        summary.by_code[code] = summary.units_by_code[code] = count
        summary.by_severity[RULES[code].severity] += count
    assert "\n" not in summary_line(summary)
    rows = statistics(summary)
    assert [row.split()[1] for row in rows] == sorted(codes, key=lambda code: (-codes[code], code))
