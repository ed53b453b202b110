"""Texts with white space at an end, and texts that are not in NFC: their findings, and their fixes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mypt_spec
from mypt.lint.cli import main
from mypt_cli.jsonl.paths import source_of
from mypt_cli.progress import Bar
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.dataset.compare import DataSet
from mypt_lint.dataset.whitespace import CODES
from mypt_lint.fix.dataset import Repairs
from mypt_lint.fix.files import fix_sources
from mypt_lint.run.resolve import Group
from tests.support.build import Record, assistant, lines, native, read, write
from tests.support.examples import examples
from tests.support.linting import codes_of
from tests.support.strategies import DIALECTS, records

TIDY = ["--no-config", "--data-set", "--unsafe-fixes", "--fix-only"]
MYPT = Checker(mypt_spec.dialect("mypt"))


def chat(question: str, answer: str = "A", **more: Any) -> Record:
    return native(question, answer, **more)


def groups(path: str, checker: Checker) -> list[Group]:
    return [Group(checker, [source_of(path)], "record")]


def findings_of(path: str, checker: Checker = MYPT) -> list[Diagnostic]:
    return [item for chunk in DataSet(groups(path, checker)).chunks() for item in chunk.findings]


def counts(path: str, checker: Checker = MYPT) -> Counter[str]:
    """Returns how many findings of each code the data has."""
    return Counter(item.finding.code for item in findings_of(path, checker))


def fix(path: str, checker: Checker = MYPT) -> Counter[str]:
    """Fixes a file, unsafely; returns how many findings of each code are gone."""
    here = groups(path, checker)
    return fix_sources(here, unsafe=True, repairs=Repairs(here), bar=Bar([], quiet=True))[1].by_code


@pytest.mark.parametrize(
    ("text", "code", "message", "source"),
    [
        (" Hi", "MYP608", "the text begins with U+0020", " "),
        ("Hi \n", "MYP608", "the text ends in U+0020 U+000A", " \\n"),
        ("\u00a0Hi\t", "MYP608", "the text begins with U+00A0 and ends in U+0009", "\u00a0"),
        ("Hi" + " " * 30, "MYP608", "the text ends in " + "U+0020 " * 8 + "and 22 more", " " * 30),
        ("Cafe\u0301!", "MYP609", '"e\u0301" is spelled U+0065 U+0301; in NFC it is U+00E9', "e\u0301"),
        ("5 \u2126", "MYP609", '"\u2126" is spelled U+2126; in NFC it is U+03A9', "\u2126"),
        ("q\u0301\u0323", "MYP609", '"\u0301\u0323" is spelled U+0301 U+0323; in NFC it is U+0323 U+0301', "\u0301\u0323"),
        ("\u1112\u1161\u11ab", "MYP609", '"\u1112\u1161\u11ab" is spelled U+1112 U+1161 U+11AB; in NFC it is U+D55C', "\u1112\u1161\u11ab"),
    ],
)  # fmt: skip
def test_the_finding_and_its_place(
    tmp_path: Path, text: str, code: str, message: str, source: str
) -> None:
    path = write(tmp_path / "a.jsonl", chat(text))
    (item,) = findings_of(path)
    line = Path(path).read_text(encoding="utf-8").rstrip("\n")
    finding = item.finding
    assert (finding.code, finding.message) == (code, message)
    assert finding.pointer == "/messages/0/content"
    assert line[item.column - 1 : item.end_column - 1] == source


@pytest.mark.parametrize("text", ["", "  ", "Hi", "a \n b", "Caf\u00e9", " \u0301a", "q\u0301"])
def test_no_finding(tmp_path: Path, text: str) -> None:
    """Blank texts are another rule's; an accent on a space stays on it."""
    assert not CODES & set(counts(write(tmp_path / "a.jsonl", chat("Q", text))))


def test_only_that_text_changes(tmp_path: Path) -> None:
    """Escapes, spacing and all the rest of the line stay; bodies of calls are no texts."""
    call = '{"role": "assistant_toolcall", "name": "t", "arguments": {"q":  " e\u0301 "}}, {"role": "toolresult", "name": "t", "content": " x "}'
    line = '{"system" : " S", "messages": [{"role": "user", "content": "e\u0301\\u00e9 caf\\u0065\\u0301\\n" }, %s, {"role":"assistant", "think": "t ", "content":"A\\u0020"}], "_n": " 1 "}'
    path = write(tmp_path / "a.jsonl", chat("Q"), line % call, chat("R"))
    assert fix(path) == {"MYP608": 4, "MYP609": 1}
    first, new, last = Path(path).read_text(encoding="utf-8").splitlines()
    assert [json.loads(first), json.loads(last)] == [chat("Q"), chat("R")]
    want = json.loads(line % call)
    want["system"], want["messages"][0]["content"] = "S", "\u00e9\u00e9 caf\u00e9"
    want["messages"][-1] |= {"think": "t", "content": "A"}
    assert json.loads(new) == want
    assert call in new
    assert new.startswith('{"system" : "S", "messages": [{"role": "user", "content": "')
    assert new.endswith(', {"role":"assistant", "think": "t", "content":"A"}], "_n": " 1 "}')
    assert fix(path) == {}


@pytest.mark.parametrize(
    ("others", "stays"),
    [
        ([chat("Q", "A")], True),  # it would be a duplicate
        ([chat("Q", "B")], True),  # the same prompt would have another answer
        ([chat("Q ", "B")], False),  # it has now
        ([chat("R", "A")], False),
    ],
)
def test_no_finding_comes_of_it(tmp_path: Path, others: list[Any], stays: bool) -> None:
    for order in (1, -1):
        path = write(tmp_path / "a.jsonl", *[chat("Q ", "A"), *others][::order])
        before = counts(path)
        fix(path)
        assert (lines(chat("Q ", "A"))[0] in Path(path).read_bytes().splitlines()) == stays
        assert not counts(path) - before
        assert fix(path) == {}


def test_a_fix_that_brings_another_code_is_refused(tmp_path: Path) -> None:
    """Without the space before it, the word takes a token more."""
    d = mypt_spec.dialect("mypt")
    sizes = [len(d.encode(d.read(chat("Q", text))[0]).ids) for text in (" apologize", "apologize")]
    assert sizes[0] + 1 == sizes[1]
    for most, codes in ((sizes[0], {"MYP608": 1}), (sizes[1], {"MYP608": 2})):
        path = write(tmp_path / "a.jsonl", chat("Q", " apologize"), chat("R\t", "A"))
        assert fix(path, Checker(d, mypt_spec.Limits(max_tokens=most), codes=CODES)) == codes


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opted_out = {"_mypt_lint": {"ignore": ["MYP608"], "reason": "an indent"}}
    texts = [chat("1 "), chat("2"), chat(" 3", **opted_out), chat("4\u0301 "), chat("2")]
    path = Path(write("a.jsonl", *texts))
    data = path.read_bytes()
    assert main(["--no-config", "--fix-only", "--unsafe-fixes", "a.jsonl"]) == 0
    assert main(["--no-config", "--fix-only", "--data-set", "a.jsonl"]) == 0
    assert path.read_bytes() == data
    capsys.readouterr()
    assert main(["--no-config", "--data-set", "--unsafe-fixes", "--diff", "a.jsonl"]) == 1
    diff = capsys.readouterr().out.splitlines()[2:]
    assert [line[0] for line in diff if line[0] != "@"] == [*"-+-+-"]
    assert path.read_bytes() == data
    assert main([*TIDY, "--ignore", "MYP601", "--ignore", "MYP608", "a.jsonl"]) == 0
    assert path.read_bytes() == data
    assert main(["--no-config", "-q", "--data-set", "--write-baseline", "known", "a.jsonl"]) == 0
    assert main([*TIDY, "--baseline", "known", "a.jsonl"]) == 0
    assert path.read_bytes() == data
    capsys.readouterr()
    assert main([*TIDY, "a.jsonl"]) == 0
    assert "Fixed 3 findings in 1 file." in capsys.readouterr().err
    questions = [record["messages"][0]["content"] for record in read(path)]
    assert questions == ["1", "2", " 3", "4\u0301"]
    assert main([*TIDY, "a.jsonl"]) == 0
    assert "Nothing to fix." in capsys.readouterr().err


def test_what_another_fix_makes_is_tidied_too(tmp_path: Path) -> None:
    """So that a second run has nothing to do."""
    path = write(tmp_path / "a.jsonl", chat("Q", "<myPT_think>so</myPT_think> Yes."))
    assert fix(path)["MYP608"] == 1
    assert read(path)[0]["messages"][1] == assistant("Yes.", think="so")
    assert fix(path) == {}


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


ENDS = st.sampled_from(
    ["", " ", "\n", "e\u0301", "\u0301", "\u2126", "\u2000", "\u1112\u1161", "<\u0338"]
)


@st.composite
def untidied(draw: st.DrawFn) -> tuple[str, list[Record]]:
    """A dialect, and records of it whose texts have odd ends; one may be there twice."""
    name = draw(st.sampled_from(DIALECTS))
    out = [json.loads(json.dumps(draw(records(name)))) for _ in range(draw(st.integers(1, 2)))]
    for record in out:
        for message in record[mypt_spec.dialect(name).adapter.SCHEMA.messages]:
            for key, text in message.items():
                odd = isinstance(text, str) and key not in ("role", "name") and draw(st.booleans())
                message[key] = draw(ENDS) + text + draw(ENDS) if odd else text
    return name, [*out, *draw(st.lists(st.sampled_from(out), max_size=1))]


@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip
@given(untidied())
def test_fixing_keeps_its_word(tmp_path: Path, value: tuple[str, list[Record]]) -> None:
    """Texts change to what they look like and nothing else does; no code comes.

    Fixing twice is fixing once.
    """
    name, untidy = value
    checker = Checker(mypt_spec.dialect(name), codes=CODES)
    full = Checker(mypt_spec.dialect(name))
    path = write(tmp_path / "a.jsonl", *untidy)

    def codes() -> Counter[str]:
        raw = Path(path).read_bytes().split(b"\n")[:-1]
        return counts(path, full) + Counter(code for line in raw for code in codes_of(full, line))

    def texts(records: list[Record]) -> list[list[str]]:
        return [[normalize("NFC", t).strip() for t in strings(record)] for record in records]

    before = codes()
    done = fix(path, checker)
    assert set(done) <= CODES
    after = [json.loads(line) for line in Path(path).read_bytes().split(b"\n")[:-1]]
    assert texts(after) == texts(untidy)
    remaining = codes()
    assert not remaining - before
    assert all(remaining[code] == before[code] - done[code] for code in CODES)
    data = Path(path).read_bytes()
    assert fix(path, checker) == {}
    assert Path(path).read_bytes() == data
