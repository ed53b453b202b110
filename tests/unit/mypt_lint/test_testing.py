"""`mypt_lint.testing.assert_clean`, as tests of other projects call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mypt_cli.errors import UsageError
from mypt_lint.testing import assert_clean
from tests.support.build import assistant, chat, native, user, write
from tests.support.linting import Linter

pytestmark = pytest.mark.usefixtures("folder")
TAG = native(answer="</myPT_user>")


def test_clean_data_passes() -> None:
    write("a.jsonl", native(), native("Who?"))
    assert assert_clean(Path("a.jsonl")).units == 2
    assert assert_clean(".", dialect="mypt").files == 1


def test_the_message_is_that_of_the_command() -> None:
    write("a.jsonl", native(), TAG, TAG, TAG, TAG)
    with pytest.raises(AssertionError) as error:
        assert_clean("a.jsonl")
    text = str(error.value)
    assert text.startswith("failed: 4 errors in 4 of 5 lines (1 clean, 4 faulty; 1 file)\n")
    assert "error[MYP301] tag-in-content:" in text
    assert "--> a.jsonl:2:" in text
    assert "... and 1 more MYP301 tag-in-content in a.jsonl" in text
    assert "^^^" in text


def test_options_are_those_of_the_command() -> None:
    path = write("a.jsonl", native(), TAG)
    assert_clean(path, ignore=["tag-in-content"])
    assert_clean(path, ignore="tag-in-content")
    assert_clean(path, select=["MYP0"])
    assert_clean(path, select="MYP0,MYP1")
    for wrong in ({"records": "opnai"}, {"fail_on": "errors"}):
        with pytest.raises(UsageError, match="is none of"):
            assert_clean(path, **wrong)
    assert_clean(path, max_rate={"MYP301": "50%"})
    with pytest.raises(AssertionError, match=r"MYP301 .* --max-rate allows 1%"):
        assert_clean(path, max_rate={"MYP301": "1%"})
    blank = write("b.jsonl", native(answer=" "))
    assert_clean(blank)
    with pytest.raises(AssertionError, match="1 warning"):
        assert_clean(blank, fail_on="warning")
    Path("other.toml").write_text('fail-on = "warning"\n')
    with pytest.raises(AssertionError, match="1 warning"):
        assert_clean(blank, config="other.toml")


def test_settings_are_those_of_the_command(lint: Linter) -> None:
    path = write("a.jsonl", native(), TAG, native())
    lint("--write-baseline", "known.jsonl", path)
    Path("mypt-lint.toml").write_text('baseline = "known.jsonl"\n')
    assert assert_clean(path).in_baseline == 1
    Path("mypt-lint.toml").write_text('data-set = true\nfail-on = "info"\nignore = ["MYP301"]\n')
    with pytest.raises(AssertionError, match="MYP601"):
        assert_clean(path)


def test_records_of_other_tools_and_a_dialect() -> None:
    path = write("c.jsonl", chat(user("Hi"), assistant("Yes.")))
    assert_clean(path, dialect="chatml")
    with pytest.raises(AssertionError, match="MYP208"):
        assert_clean(path, dialect="mypt", records="native")


def test_nothing_to_check_is_no_success() -> None:
    Path("empty.jsonl").touch()
    with pytest.raises(AssertionError, match="MYP012"):
        assert_clean("empty.jsonl", fail_on="info")
    with pytest.raises(AssertionError, match=r"^nothing to check"):
        assert_clean("empty.jsonl", ignore=["MYP0"])
    with pytest.raises(UsageError, match=r"absent\.jsonl"):
        assert_clean("absent.jsonl")
