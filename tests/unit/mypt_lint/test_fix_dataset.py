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
from mypt_cli.jsonl.paths import source_of
from mypt_lint.check.checker import Checker
from mypt_lint.check.diagnostic import Diagnostic
from mypt_lint.cli import main
from mypt_lint.dataset.compare import DataSet
from mypt_lint.dataset.whitespace import CODES
from mypt_lint.fix.dataset import Repairs
from mypt_lint.fix.files import fix_sources
from mypt_lint.run.plan import Group
from tests.support.examples import examples
from tests.support.strategies import DIALECTS, records

TIDY = ["--no-config", "--data-set", "--unsafe-fixes", "--fix-only"]


def chat(question: str, answer: str = "A", **more: Any) -> dict[str, Any]:
    return {
        "system": "S",
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ],
        **more,
    }


def write(path: Path, *lines: Any) -> Path:
    path.write_text(
        "".join(
            (x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)) + "\n" for x in lines
        ),
        encoding="utf-8",
    )
    return path


def found(path: Path, checker: Checker) -> list[Diagnostic]:
    return [
        item
        for chunk in DataSet([Group(checker, [source_of(str(path))], "record")]).chunks()
        for item in chunk.found
    ]


def fixed(path: Path, checker: Checker) -> Counter[str]:
    groups = [Group(checker, [source_of(str(path))], "record")]
    return fix_sources(groups, unsafe=True, repairs=Repairs(groups))[1].by_code


MYPT = Checker(mypt_spec.dialect("mypt"))


@pytest.mark.parametrize(
    ("text", "code", "message", "source"),
    [
        (" Hi", "MYP608", "the text begins with U+0020", " "),
        ("Hi \n", "MYP608", "the text ends in U+0020 U+000A", " \\n"),
        ("\u00a0Hi\t", "MYP608", "the text begins with U+00A0 and ends in U+0009", "\u00a0"),
        ("Hi" + " " * 30, "MYP608", "the text ends in " + "U+0020 " * 8 + "and 22 more", " " * 30),
        (
            "Cafe\u0301!",
            "MYP609",
            '"e\u0301" is spelled U+0065 U+0301; in NFC it is U+00E9',
            "e\u0301",
        ),
        ("5 \u2126", "MYP609", '"\u2126" is spelled U+2126; in NFC it is U+03A9', "\u2126"),
        (
            "q\u0301\u0323",
            "MYP609",
            '"\u0301\u0323" is spelled U+0301 U+0323; in NFC it is U+0323 U+0301',
            "\u0301\u0323",
        ),
        (
            "\u1112\u1161\u11ab",
            "MYP609",
            '"\u1112\u1161\u11ab" is spelled U+1112 U+1161 U+11AB; in NFC it is U+D55C',
            "\u1112\u1161\u11ab",
        ),
    ],
)
def test_what_is_said(tmp_path: Path, text: str, code: str, message: str, source: str) -> None:
    path = write(tmp_path / "a.jsonl", chat(text))
    (item,) = found(path, MYPT)
    line = path.read_text(encoding="utf-8").rstrip("\n")
    assert (item.finding.code, item.finding.message, item.finding.pointer) == (
        code,
        message,
        "/messages/0/content",
    )
    assert line[item.column - 1 : item.end_column - 1] == source


@pytest.mark.parametrize("text", ["", "  ", "Hi", "a \n b", "Caf\u00e9", " \u0301a", "q\u0301"])
def test_what_is_left_alone(tmp_path: Path, text: str) -> None:
    """Blank texts are another rule's; an accent on a space stays on it."""
    assert (
        not {
            item.finding.code for item in found(write(tmp_path / "a.jsonl", chat("Q", text)), MYPT)
        }
        & CODES
    )


def test_only_that_text_changes(tmp_path: Path) -> None:
    """Escapes, spacing and all the rest of the line stay; bodies of calls are no texts."""
    call = '{"role": "assistant_toolcall", "name": "t", "arguments": {"q":  " e\u0301 "}}, {"role": "toolresult", "name": "t", "content": " x "}'
    line = '{"system" : " S", "messages": [{"role": "user", "content": "e\u0301\\u00e9 caf\\u0065\\u0301\\n" }, %s, {"role":"assistant", "think": "t ", "content":"A\\u0020"}], "_n": " 1 "}'
    path = write(tmp_path / "a.jsonl", chat("Q"), line % call, chat("R"))
    assert fixed(path, MYPT) == {"MYP608": 4, "MYP609": 1}
    first, new, last = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(first), json.loads(last)] == [chat("Q"), chat("R")]
    want = json.loads(line % call)
    want["system"], want["messages"][0]["content"] = "S", "\u00e9\u00e9 caf\u00e9"
    want["messages"][-1] |= {"think": "t", "content": "A"}
    assert json.loads(new) == want
    assert call in new
    assert new.startswith('{"system" : "S", "messages": [{"role": "user", "content": "')
    assert new.endswith(', {"role":"assistant", "think": "t", "content":"A"}], "_n": " 1 "}')
    assert fixed(path, MYPT) == {}


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ([chat("Q", "A")], True),  # it would be a duplicate
        ([chat("Q", "B")], True),  # the same prompt would have another answer
        ([chat("Q ", "B")], False),  # it has now
        ([chat("R", "A")], False),
    ],
)
def test_no_finding_comes_of_it(tmp_path: Path, others: list[Any], kept: bool) -> None:
    for order in (1, -1):
        path = write(tmp_path / "a.jsonl", *[chat("Q ", "A"), *others][::order])
        before = Counter(item.finding.code for item in found(path, MYPT))
        fixed(path, MYPT)
        assert (json.dumps(chat("Q ", "A")) in path.read_text().splitlines()) == kept
        assert not Counter(item.finding.code for item in found(path, MYPT)) - before
        assert fixed(path, MYPT) == {}


def test_a_fix_that_brings_another_code_is_refused(tmp_path: Path) -> None:
    """Without the space before it, the word takes a token more."""
    d = mypt_spec.dialect("mypt")
    sizes = [len(d.encode(d.read(chat("Q", text))[0]).ids) for text in (" apologize", "apologize")]
    assert sizes[0] + 1 == sizes[1]
    for most, codes in ((sizes[0], {"MYP608": 1}), (sizes[1], {"MYP608": 2})):
        path = write(tmp_path / "a.jsonl", chat("Q", " apologize"), chat("R\t", "A"))
        assert fixed(path, Checker(d, mypt_spec.Limits(max_tokens=most), codes=CODES)) == codes


def test_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ignored = {"ignore": ["MYP608"], "reason": "an indent"}
    path = write(
        tmp_path / "a.jsonl",
        chat("1 "),
        chat("2"),
        chat(" 3", _mypt_lint=ignored),
        chat("4\u0301 "),
        chat("2"),
    )
    data = path.read_bytes()
    assert main(["--no-config", "--fix-only", "--unsafe-fixes", "a.jsonl"]) == 0
    assert main(["--no-config", "--fix-only", "--data-set", "a.jsonl"]) == 0
    assert path.read_bytes() == data
    capsys.readouterr()
    assert main(["--no-config", "--data-set", "--unsafe-fixes", "--diff", "a.jsonl"]) == 1
    diff = capsys.readouterr().out
    assert [line[0] for line in diff.splitlines()[2:] if line[0] != "@"] == [
        "-",
        "+",
        "-",
        "+",
        "-",
    ]
    assert path.read_bytes() == data
    assert main([*TIDY, "--ignore", "MYP601", "--ignore", "MYP608", "a.jsonl"]) == 0
    assert path.read_bytes() == data
    assert main(["--no-config", "-q", "--data-set", "--write-baseline", "known", "a.jsonl"]) == 0
    assert main([*TIDY, "--baseline", "known", "a.jsonl"]) == 0
    assert path.read_bytes() == data
    capsys.readouterr()
    assert main([*TIDY, "a.jsonl"]) == 0
    assert "Fixed 1 warning, 2 infos in 1 file." in capsys.readouterr().err
    assert [
        json.loads(line)["messages"][0]["content"] for line in path.read_bytes().splitlines()
    ] == ["1", "2", " 3", "4\u0301"]
    assert main([*TIDY, "a.jsonl"]) == 0
    assert "Nothing to fix." in capsys.readouterr().err


def test_what_another_fix_makes_is_tidied_too(tmp_path: Path) -> None:
    """So that a second run has nothing to do."""
    path = write(tmp_path / "a.jsonl", chat("Q", "<myPT_think>so</myPT_think> Yes."))
    assert fixed(path, MYPT)["MYP608"] == 1
    assert json.loads(path.read_text())["messages"][1] == {
        "role": "assistant",
        "think": "so",
        "content": "Yes.",
    }
    assert fixed(path, MYPT) == {}


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


@st.composite
def untidied(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    name = draw(st.sampled_from(DIALECTS))
    made = [json.loads(json.dumps(draw(records(name)))) for _ in range(draw(st.integers(1, 2)))]
    for record in made:
        for message in record[mypt_spec.dialect(name).adapter.SCHEMA.messages]:
            for key in [
                k
                for k in message
                if isinstance(message[k], str) and k not in ("role", "name") and draw(st.booleans())
            ]:
                ends = st.sampled_from(
                    [
                        "",
                        " ",
                        "\n",
                        "e\u0301",
                        "\u0301",
                        "\u2126",
                        "\u2000",
                        "\u1112\u1161",
                        "<\u0338",
                    ]
                )
                message[key] = draw(ends) + message[key] + draw(ends)
    return name, [*made, *draw(st.lists(st.sampled_from(made), max_size=1))]


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(untidied())
def test_fixing_keeps_its_word(tmp_path: Path, value: tuple[str, list[dict[str, Any]]]) -> None:
    """Texts change to what they look like and nothing else does; no code comes.

    Fixing twice is fixing once.
    """
    name, made = value
    checker = Checker(mypt_spec.dialect(name), codes=CODES)
    whole = Checker(mypt_spec.dialect(name))
    path = write(tmp_path / "a.jsonl", *made)

    def codes() -> Counter[str]:
        lines = path.read_bytes().split(b"\n")[:-1]
        return Counter(
            [i.finding.code for raw in lines for i in whole.line(raw, row=2, filename="")]
            + [i.finding.code for i in found(path, whole)]
        )

    before = codes()
    done = fixed(path, checker)
    assert set(done) <= CODES
    after = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert [[normalize("NFC", t).strip() for t in strings(r)] for r in after] == [
        [normalize("NFC", t).strip() for t in strings(r)] for r in made
    ]
    left = codes()
    assert not left - before
    assert all(left[code] == before[code] - done[code] for code in CODES)
    data = path.read_bytes()
    assert fixed(path, checker) == {}
    assert path.read_bytes() == data
