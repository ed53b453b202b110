"""`mypt-lint new-dialect` and `check-dialect`, and the page that shows them."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mypt_spec
from mypt.lint.cli import main
from mypt.own_format import check as checks
from tests.support.build import assistant, chat, user
from tests.support.examples import THOROUGH, either
from tests.support.foreign import tekken
from tests.support.linting import ROOT
from tests.support.own_folders import GABGPT_RECORDS, MYPT_RECORDS, TOY_RECORDS, write_folder
from tests.support.pages import blocks, commands, run

Check = Callable[..., tuple[int, dict[str, str]]]
GENERATIONS = either(6, checks.GENERATIONS)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the quick suite, few episodes are made by chance."""
    monkeypatch.setattr(checks, "EPISODES", either(40, checks.EPISODES))
    monkeypatch.setattr(checks, "GENERATIONS", GENERATIONS)


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs check-dialect; returns (exit status, results by name)."""

    def run(folder: Path, *options: str) -> tuple[int, dict[str, str]]:
        capsys.readouterr()
        status = main(["check-dialect", str(folder), *options])
        rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
        return status, {name.removesuffix(":"): f"{mark} {text}" for mark, name, text in rows}

    return run


def marks(results: dict[str, str]) -> set[str]:
    return {text.split()[0] for text in results.values()}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder as new-dialect writes it."""
    assert main(["new-dialect", str(tmp_path / "my_format")]) == 0
    return tmp_path / "my_format"


def replace(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_a_new_dialect_passes(
    tmp_path: Path, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = tmp_path / "my_format"
    assert main(["new-dialect", str(begun)]) == 0
    assert f"next: mypt-lint check-dialect {begun}" in capsys.readouterr().out
    status, results = check(begun)
    assert (status, marks(results)) == (0, {"ok"})
    assert [*results] == ["load", "grammar", "text", "ids", "records", "vectors", "decoder"]
    assert mypt_spec.load(begun).name == "my-format"
    assert "./my_format" in (begun / "SPEC.md").read_text()
    assert main(["new-dialect", str(begun)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["new-dialect", str(tmp_path / "Ä")]) == 2


def test_on_another_vocabulary(begun: Path, check: Check) -> None:
    with_vocabulary = (begun, "--vocab", str(tekken()))
    status, results = check(*with_vocabulary)
    assert (status, marks(results)) == (0, {"ok"})
    table = begun / "tokens.toml"
    own = re.sub("base_vocabulary.*\nfirst_special_id.*\n", "", table.read_text())
    with_kind = own.replace("[[terminal]]", '[vocabulary]\nkind = "tekken"\n\n[[terminal]]', 1)
    table.write_text(with_kind)
    assert "name one with --vocab" in check(begun)[1]["ids"]
    status, results = check(*with_vocabulary)
    assert status == 0
    assert results["decoder"].startswith(f"ok {GENERATIONS} turns")
    replace(table, "<|user|>", "<s>")
    replace(table, 'opens = "user"', 'opens = "user"\nid = 7')
    status, results = check(*with_vocabulary)
    assert status == 1
    assert "id 7 of '<s>' does not fit the vocabulary: it has id 1 there" in results["load"]
    assert "cannot be read" in check(begun, "--vocab", "none.json")[1]["load"]


@pytest.mark.parametrize(
    ("name", "records"),
    [("toy", TOY_RECORDS), ("mypt", MYPT_RECORDS), ("gabgpt", GABGPT_RECORDS)],
    ids=["toy", "mypt", "gabgpt"],
)
def test_formats_that_are_known_to_be_right_pass(
    tmp_path: Path, check: Check, name: str, records: str
) -> None:
    status, results = check(write_folder(tmp_path, name, records))
    assert status == 0
    assert results["vectors"].startswith("note there is no vectors.json")
    assert results["decoder"].startswith(f"ok {GENERATIONS} turns")


TOKENS, GRAMMAR, VECTORS = "tokens.toml", "my_format.lark", "vectors.json"


@pytest.mark.parametrize(
    ("file", "before", "after", "name", "message"),
    [
        (TOKENS, 'origin = "model"', 'origin = "model"\nloss = 0', "episodes", "no token of this episode is trained"),
        (TOKENS, '"<|think|>"', '"<|user|>"', "load", "[[terminal]] THINK: is spelled as USER is"),
        (TOKENS, 'name = "END"', 'name = "FINISH"', "load", "terminal END: tokens.toml"),
        (GRAMMAR, "think? TEXT+", "think? TEXT+ TEXT+", "load", "not LALR(1)"),
        (GRAMMAR, "USER TEXT+ END", "USER TEXT+", "load", "has no tag that closes 'user'"),
        (GRAMMAR, "USER TEXT+ END", "USER TEXT+ END TEXT?", "load", "takes text where"),
        (GRAMMAR, "THINK TEXT+ THINK_END", "THINK_END TEXT+ THINK", "load", "has it inside 'assistant'"),
        (TOKENS, 'closes = "think"\n', "", "load", "has it inside 'think': a mark is between"),
        (GRAMMAR, "turn: user", "turn: usr", "load", "not define: Rule 'usr' used"),
        (GRAMMAR, "start:", "begin:", "load", "no rule start"),
        (TOKENS, "layouts =", "first_special_id = 100\nlayouts =", "load", "must be at least 50257"),
        (TOKENS, "layouts =", 'base_vocabulary = "llama"\nlayouts =', "load", "[vocabulary] says another, not 'llama'"),
        (TOKENS, 'opener = "user"', 'opener = "me"', "load", "opens: 'me'; blocks are"),
        (GRAMMAR, "turn: user", "turn ::= user", "load", "not a valid Lark grammar: Expecting"),
        (GRAMMAR, "turn: user", "turn: user?", "vectors", "has other findings than ['MYP219']"),
        ("records.toml", '"think", "content"', '"content"', "vectors", "has other findings than []"),
        (VECTORS, "<|/think|>4", "<|/think|>5", "vectors", "is written as"),
        (VECTORS, '"trained": "', '"trained": "x', "vectors", "other trained tokens"),
        (VECTORS, '"findings"', '"codes"', "vectors", "unknown key codes"),
        (VECTORS, "[\n", "", "vectors", "vectors.json"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(
    begun: Path, check: Check, file: str, before: str, after: str, name: str, message: str
) -> None:
    replace(begun / file, before, after)
    status, results = check(begun)
    assert status == 1
    assert results[name].startswith("error")
    assert message in results[name]


def test_the_page(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every command of docs/custom_format.md does what the page says, one after another.

    In the quick suite our commands run in this process, and the rest of the page in a shell.
    """
    page = (ROOT / "docs/custom_format.md").read_text(encoding="utf-8")
    # A process loads a folder once by its name, and other tests have one of this name elsewhere.
    page = page.replace("tutor", "teacher")
    shell, python = blocks(page, "sh"), blocks(page, "python")
    assert len(shell) >= 6
    (folder / "page.py").write_text("\n".join(python))
    if THOROUGH:
        script = "".join([*shell, f"{sys.executable} page.py\n"])
        subprocess.run(["sh", "-e"], input=script, text=True, check=True)
    else:
        for step in commands("".join(shell)):
            run(step)
        runpy.run_path("page.py")
    out, err = capfd.readouterr()
    assert out.count("ok    decoder") == 2
    assert "2 lines clean" in err
    assert "assistant:" in out


def test_other_spellings_in_content_are_named_as_they_are_there(begun: Path) -> None:
    row = 'spelling = [{ special = "<|user|>" }]'
    also = 'also = [[{ text = "[[" }, { special = "<|human|>" }]]'
    replace(begun / "tokens.toml", row, f"{row}\n{also}")
    _, findings = mypt_spec.load(begun).check(chat(user("a [[<|human|>"), assistant("b")))
    (finding,) = findings
    assert (finding.code, finding.span) == ("MYP301", (2, 13))
    assert finding.message == "`[[<|human|>` in the content of `<|user|>`"
