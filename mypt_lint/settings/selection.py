"""Selects which rules to report, by codes, beginnings of codes, names, and groups."""

from collections.abc import Iterable

from mypt_cli.errors import suggestion
from mypt_spec.findings import RULES, default_codes


class UnknownRuleError(ValueError):
    """A code or name that no rule has."""


def named(spelling: str) -> list[str]:
    """Returns the codes that a word means.

    It is a code, the beginning of one (`MYP2`), a name, a group (`content`), `all`, or `default`.
    Raises UnknownRuleError.
    """
    word = spelling.strip()
    if word.lower() in ("all", "default"):
        return sorted(RULES if word.lower() == "all" else default_codes())
    if group := [code for code, rule in RULES.items() if word.lower() == rule.group and word]:
        return group
    codes = [code for code in sorted(RULES) if code.startswith(word.upper())] if word else []
    codes = codes or [code for code, rule in RULES.items() if rule.name == word.lower()]
    if not codes:
        names = [*RULES, *groups(), *(rule.name for rule in RULES.values())]
        upper = suggestion(word.upper(), names, "`mypt-lint --explain all` lists them")
        raise UnknownRuleError(f"no rule is called {word!r}{suggestion(word, names) or upper}")
    return codes


def groups() -> list[str]:
    """Returns the words that select a group of rules."""
    return sorted({rule.group for rule in RULES.values()} - {""})


def selection(select: Iterable[str] | None, ignore: Iterable[str] | None) -> frozenset[str]:
    """Returns the codes to report. Raises UnknownRuleError."""
    selected = _all(select) if select else default_codes()
    return selected - _all(ignore or ())


def chosen(groups: Iterable[str]) -> tuple[str, ...]:
    """Returns the codes that words mean, comma-separated in each string; sorted.

    Raises UnknownRuleError.
    """
    return tuple(sorted(_all(groups)))


def _all(groups: Iterable[str]) -> frozenset[str]:
    words = [word for group in groups for word in group.split(",") if word.strip()]
    return frozenset(code for word in words for code in named(word))
