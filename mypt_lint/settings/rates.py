"""Reads and writes the rates up to which rules may find faults: shares of all records.

They are given as words such as `MYP353=0.5%`, or as TOML files with a table `[max-rate]`, which is
also how the settings and `--write-rates` spell them.
"""

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping

from mypt_cli.atomic import replacing
from mypt_cli.errors import UsageError
from mypt_cli.inputs import text_of
from mypt_lint.settings.selection import UnknownRuleError, named

KEY = "max-rate"
Rates = tuple[tuple[str, float], ...]  # codes and shares from 0 to 1, sorted
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*", re.ASCII)


def rates_of(table: Mapping[str, object]) -> Rates:
    """Returns the rates in a table of rules and percentages, each of every code that a word means.

    Raises ValueError.
    """
    rates: dict[str, float] = {}
    for word, value in table.items():
        percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        if percent is None or float(percent[1]) > 100:
            raise ValueError(f'{word}: expected a percentage such as "0.5%", got {value!r}')
        rates |= dict.fromkeys(named(word), float(percent[1]) / 100)
    return tuple(sorted(rates.items()))


def rates_in(words: Iterable[str]) -> Rates:
    """Returns the rates that words give, or the files that they name; the last one holds.

    Raises UsageError.
    """
    rates: dict[str, float] = {}
    for word in words:
        rule, equals, value = word.partition("=")
        try:
            if equals and not os.path.exists(word):
                rates |= rates_of({rule: value})
            else:
                rates |= rates_of(tomllib.loads(text_of(word))[KEY])
        except KeyError:
            raise UsageError(f"{word}: has no table [{KEY}]; --write-rates writes one") from None
        except (ValueError, AttributeError, UnknownRuleError) as error:
            raise UsageError(f"--max-rate {word}: {error}") from None
    return tuple(sorted(rates.items()))


def spelled(rates: Rates) -> dict[str, str]:
    """Returns rates as the settings spell them, rounded up to four places of the percentage."""
    return {code: f"{math.ceil(share * 1e6 - 1e-6) / 1e4:g}%" for code, share in rates}


def write_rates(path: str, rates: Rates) -> None:
    """Writes rates as settings. Raises UsageError."""
    lines = [f"[{KEY}]", *(f'{code} = "{rate}"' for code, rate in spelled(rates).items())]
    try:
        with replacing(path) as out:
            out.write("\n".join([*lines, ""]).encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
