"""Selects which rules to report, by codes, beginnings of codes, and names."""

from collections.abc import Iterable

from mypt_cli.errors import suggestion
from mypt_spec.findings import RULES


class UnknownRuleError(ValueError):
    """A code or name that no rule has."""


def named(spelling: str) -> list[str]:
    """Returns the codes that a word means: a code, the beginning of one (`MYP2`), a name, or `all`.

    Raises UnknownRuleError.
    """
    word = spelling.strip()
    if word.lower() == "all":
        return sorted(RULES)
    codes = [code for code in sorted(RULES) if code.startswith(word.upper())] if word else []
    codes = codes or [code for code, rule in RULES.items() if rule.name == word.lower()]
    if not codes:
        names = [*RULES, *(rule.name for rule in RULES.values())]
        upper = suggestion(word.upper(), names, "`mypt-lint --explain all` lists them")
        raise UnknownRuleError(f"no rule is called {word!r}{suggestion(word, names) or upper}")
    return codes


def selection(select: Iterable[str] | None, ignore: Iterable[str] | None) -> frozenset[str]:
    """Returns the codes to report. Raises UnknownRuleError."""
    selected = frozenset(RULES) if not select else _all(select)
    return selected - _all(ignore or ())


def chosen(groups: Iterable[str]) -> tuple[str, ...]:
    """Returns the codes that words mean, comma-separated in each string; sorted.

    Raises UnknownRuleError.
    """
    return tuple(sorted(_all(groups)))


def _all(groups: Iterable[str]) -> frozenset[str]:
    words = [word for group in groups for word in group.split(",") if word.strip()]
    return frozenset(code for word in words for code in named(word))
