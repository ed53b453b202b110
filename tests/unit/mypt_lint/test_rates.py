"""Rates: rules that may find faults in a share of the records, by option, settings and file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mypt.lint.cli import main
from mypt_lint.settings.rates import rates_in, spelled
from tests.support.build import native, write
from tests.support.linting import Linter, codes

pytestmark = pytest.mark.usefixtures("folder")
BLANK, TAG = native(answer=" "), native(answer="</myPT_user>")  # MYP314, MYP301


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 1),
        (["--max-rate", "MYP301=10%"], 0),  # a tenth of the records is not above
        (["--max-rate", "tag-in-content=9.9%"], 3),
        (["--max-rate", "MYP3=9.9%"], 3),
        (["--max-rate", "MYP301=10%", "--max-rate", "MYP314=0%"], 3),  # a warning, which has a rate
        (["--max-rate", "MYP314=10%"], 1),  # says nothing about the error
        (["--max-rate", "MYP301=0%", "--max-rate", "MYP301=50%"], 0),  # the last one holds
        (["--max-rate", "MYP301=0%", "--exit-zero"], 0),
        (["--max-rate", "MYP301=0%", "--fail-on", "warning"], 1),
    ],
)
def test_the_exit_status(lint: Linter, options: list[str], status: int) -> None:
    path = write("a.jsonl", *[native()] * 8, BLANK, TAG)
    result, findings, _ = lint(*options, path)
    assert (result, sorted(codes(findings))) == (status, ["MYP301", "MYP314"])


def test_what_is_exceeded_is_named(lint: Linter) -> None:
    path = write("a.jsonl", native(), TAG, TAG)
    assert (
        "MYP301 tag-in-content: in 2 of 3 lines, 66.6667%; --max-rate allows 5%\n"
        in lint("--max-rate", "MYP301=5%", path)[2]
    )


def test_rates_of_the_settings_add_up(lint: Linter, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mypt-lint.toml").write_text('[max-rate]\nblank-content = "0%"\nMYP301 = "0.5%"\n')
    path = write("a.jsonl", *[native()] * 8, BLANK, TAG)
    assert lint("--max-rate", "MYP314=10%", "--max-rate", "MYP301=10%", path)[0] == 0
    assert lint("--max-rate", "MYP314=10%", path)[0] == 3
    assert main(["--show-settings"]) == 0
    assert 'max-rate = { MYP301 = "0.5%", MYP314 = "0%" }' in capsys.readouterr().out


def test_rates_that_were_written_accept_the_same_data(lint: Linter) -> None:
    path = write("a.jsonl", *[native()] * 4, BLANK, TAG, TAG)
    assert lint("--write-rates", "rates.toml", path)[0] == 1
    assert (
        Path("rates.toml").read_text() == '[max-rate]\nMYP301 = "28.5715%"\nMYP314 = "14.2858%"\n'
    )
    assert lint("--max-rate", "rates.toml", path)[0] == 0
    worse = write("b.jsonl", native(), native(), BLANK, TAG)
    status, _, err = lint("--max-rate", "rates.toml", worse)
    assert (status, err.count("--max-rate allows")) == (3, 1)
    new = write("c.jsonl", *[native()] * 20, TAG, "{")
    assert lint("--max-rate", "rates.toml", new)[0] == 1, "a rule without a rate fails as ever"


def test_rates_are_not_written_over_data(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.jsonl", native())
    assert main(["--write-rates", f"./{path}", path]) == 2
    assert "is read from" in capsys.readouterr().err
    assert Path(path).read_text() == Path(write("b.jsonl", native())).read_text()


@pytest.mark.parametrize("share", [0.0, 1e-6, 1 / 3, 1 / 7, 0.123456, 0.999999, 1.0])
def test_rates_are_rounded_up(share: float) -> None:
    ((_, back),) = rates_in([f"MYP301={spelled(share)}"])
    assert share - 1e-9 <= back <= share + 1e-6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("MYP301=5", "expected a percentage such as \"0.5%\", got '5'"),
        ("MYP301=101%", "expected a percentage"),
        ("MYP301=-1%", "expected a percentage"),
        ("MYP999=1%", "no rule is called 'MYP999'"),
        ("absent.toml", "cannot read absent.toml"),
        ("settings.toml", "settings.toml: has no table [max-rate]; --write-rates writes one"),
    ],
)
def test_what_is_no_rate(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("settings.toml").write_text('fail-on = "error"\n')
    assert main(["--max-rate", words, write("a.jsonl", native())]) == 2
    assert message in capsys.readouterr().err


def test_a_bad_rate_in_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mypt-lint.toml").write_text("[max-rate]\nMYP301 = 0.5\n")
    assert main([write("a.jsonl", native())]) == 2
    assert 'max-rate of MYP301: expected a percentage such as "0.5%", got 0.5' in (
        capsys.readouterr().err
    )
