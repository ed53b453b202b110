"""Which rules words select: codes, names, groups, and what is on by default."""

import pytest

from mypt_lint.settings.selection import UnknownRuleError, groups, named, selection
from mypt_spec.findings import RULES, Rule, default_codes


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "MYP398", Rule("MYP398", "odd-one", "info", group="odd", off=True))


def test_a_group_is_selected_as_one() -> None:
    assert {"MYP363", "MYP367"} <= {*named("content")} < {*RULES}
    assert all(RULES[code].group == "content" for code in named(" Content"))
    assert groups() == ["content", "odd"]
    assert selection(None, ["content"]) == default_codes() - {*named("content")}


@pytest.mark.parametrize("word", ["MYP398", "odd-one", "odd", "all", "MYP39"])
def test_a_rule_that_is_off_is_on_where_it_is_selected(word: str) -> None:
    assert "MYP398" not in selection(None, None)
    assert "MYP398" in selection([word], None)
    assert selection(["default,odd"], None) == default_codes() | {"MYP398"}


def test_the_message_names_a_group_that_is_near() -> None:
    with pytest.raises(UnknownRuleError, match="content"):
        named("contents")
