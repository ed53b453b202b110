"""`mypt-lint new-dialect` and `check-dialect`, and the page that shows them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mypt_spec
from mypt_lint.cli import main
from tests.support.foreign import tekken
from tests.unit.mypt_spec.test_own_folder import GABGPT_RECORDS, MYPT_RECORDS, TOY_RECORDS, made

ROOT = Path(__file__).parents[3]


def checked(
    folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, str]]:
    """Returns (exit status, results by name) of check-dialect."""
    capsys.readouterr()
    status = main(["check-dialect", str(folder), *options])
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    return status, {name.removesuffix(":"): f"{mark} {said}" for mark, name, said in rows}


def test_a_new_dialect_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my_format"
    assert main(["new-dialect", str(folder)]) == 0
    assert f"next: mypt-lint check-dialect {folder}" in capsys.readouterr().out
    status, found = checked(folder, capsys)
    assert status == 0
    assert {said.split()[0] for said in found.values()} == {"ok"}
    assert [*found] == ["load", "grammar", "text", "ids", "records", "vectors", "decoder"]
    assert mypt_spec.load(folder).name == "my-format"
    assert "./my_format" in (folder / "SPEC.md").read_text()
    assert main(["new-dialect", str(folder)]) == 2
    assert "is here already" in capsys.readouterr().err
    assert main(["new-dialect", str(tmp_path / "Ä")]) == 2


def test_on_another_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "own"
    assert main(["new-dialect", str(folder)]) == 0
    status, found = checked(folder, capsys, "--vocab", str(tekken()))
    assert status == 0
    assert {said.split()[0] for said in found.values()} == {"ok"}
    table = folder / "tokens.toml"
    own = re.sub("base_vocabulary.*\nfirst_special_id.*\n", "", table.read_text())
    wanted = own.replace("[[terminal]]", '[vocabulary]\nkind = "tekken"\n\n[[terminal]]', 1)
    table.write_text(wanted)
    assert "name one with --vocab" in checked(folder, capsys)[1]["ids"]
    status, found = checked(folder, capsys, "--vocab", str(tekken()))
    assert status == 0
    assert found["decoder"].startswith("ok 30 turns")
    table.write_text(
        wanted.replace("<|user|>", "<s>").replace('opens = "user"', 'opens = "user"\nid = 7')
    )
    status, found = checked(folder, capsys, "--vocab", str(tekken()))
    assert status == 1
    assert "id 7 of '<s>' does not fit the vocabulary: it has id 1 there" in found["load"]
    assert "cannot be read" in checked(folder, capsys, "--vocab", "none.json")[1]["load"]


@pytest.mark.parametrize(
    ("name", "records"),
    [("toy", TOY_RECORDS), ("mypt", MYPT_RECORDS), ("gabgpt", GABGPT_RECORDS)],
)
def test_formats_that_are_known_to_be_right_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, records: str
) -> None:
    status, found = checked(made(tmp_path, name, records), capsys)
    assert status == 0
    assert found["vectors"].startswith("note there is no vectors.json")
    assert found["decoder"].startswith("ok 30 turns")


@pytest.mark.parametrize(
    ("file", "before", "after", "name", "said"),
    [
        (
            "tokens.toml",
            'origin = "model"',
            'origin = "model"\nloss = 0',
            "episodes",
            "no token of this episode is trained",
        ),
        (
            "tokens.toml",
            '"<|think|>"',
            '"<|user|>"',
            "load",
            "[[terminal]] THINK: is spelled as USER is",
        ),
        (
            "tokens.toml",
            'name = "END"',
            'name = "FINISH"',
            "load",
            "terminal END: tokens.toml",
        ),
        ("my_format.lark", "think? TEXT+", "think? TEXT+ TEXT+", "load", "not LALR(1)"),
        ("my_format.lark", "USER TEXT+ END", "USER TEXT+", "load", "has no tag that closes 'user'"),
        ("my_format.lark", "USER TEXT+ END", "USER TEXT+ END TEXT?", "load", "takes text where"),
        (
            "my_format.lark",
            "THINK TEXT+ THINK_END",
            "THINK_END TEXT+ THINK",
            "load",
            "has it inside 'assistant'",
        ),
        (
            "tokens.toml",
            'closes = "think"\n',
            "",
            "load",
            "has it inside 'think': a mark is between",
        ),
        ("my_format.lark", "turn: user", "turn: usr", "load", "not define: Rule 'usr' used"),
        ("my_format.lark", "start:", "begin:", "load", "no rule start"),
        (
            "tokens.toml",
            "layouts =",
            "first_special_id = 100\nlayouts =",
            "load",
            "must be at least 50257",
        ),
        (
            "tokens.toml",
            "layouts =",
            'base_vocabulary = "llama"\nlayouts =',
            "load",
            "[vocabulary] says another, not 'llama'",
        ),
        ("tokens.toml", 'opener = "user"', 'opener = "me"', "load", "opens: 'me'; blocks are"),
        ("my_format.lark", "turn: user", "turn ::= user", "load", "no Lark grammar: Expecting"),
        (
            "my_format.lark",
            "turn: user",
            "turn: user?",
            "vectors",
            "has other findings than ['MYP219']",
        ),
        (
            "records.toml",
            '"think", "content"',
            '"content"',
            "vectors",
            "has other findings than []",
        ),
        ("vectors.json", "<|/think|>4", "<|/think|>5", "vectors", "is written as"),
        ("vectors.json", '"trained": "', '"trained": "x', "vectors", "other trained tokens"),
        ("vectors.json", '"findings"', '"codes"', "vectors", "unknown key codes"),
        ("vectors.json", "[\n", "", "vectors", "vectors.json"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, before: str, after: str,
    name: str, said: str,
) -> None:  # fmt: skip
    folder = tmp_path / "my_format"
    main(["new-dialect", str(folder)])
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    status, found = checked(folder, capsys)
    assert status == 1
    assert found[name].startswith("error")
    assert said in found[name]


def test_the_page(tmp_path: Path) -> None:
    """Every command of docs/your_format.md does what the page says, one after another."""
    page = (ROOT / "docs/your_format.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    python = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    (tmp_path / "page.py").write_text("\n".join(python))
    script = "\n".join([*blocks, f"{sys.executable} page.py"])
    run = subprocess.run(
        ["sh", "-e"], input=script, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("ok    decoder") == 2
    assert "2 lines clean" in run.stderr
    assert "assistant:" in run.stdout


def test_other_spellings_in_content_are_named_as_they_are_there(tmp_path: Path) -> None:
    assert main(["new-dialect", str(tmp_path / "own")]) == 0
    table = tmp_path / "own/tokens.toml"
    row = 'spelling = [{ special = "<|user|>" }]'
    also = f'{row}\nalso = [[{{ text = "[[" }}, {{ special = "<|human|>" }}]]'
    table.write_text(table.read_text().replace(row, also))
    d = mypt_spec.load(tmp_path / "own")
    said = [{"role": "user", "content": "a [[<|human|>"}, {"role": "assistant", "content": "b"}]
    (found,) = d.check({"messages": said})[1]
    assert (found.code, found.span) == ("MYP301", (2, 13))
    assert found.message == "`[[<|human|>` in the content of `<|user|>`"
