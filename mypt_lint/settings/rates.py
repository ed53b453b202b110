"""Reads and writes the rates up to which rules may find faults: shares of all records, 0 to 1.

A word such as `MYP353=0.5%` gives one; a TOML file with a table `[max-rate]`, as `--write-rates`
writes it and as it is in the settings, gives several.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence

from mypt_cli.errors import UsageError
from mypt_cli.inputs import text_of
from mypt_lint.settings.selection import named
from mypt_spec.compiled.toml import loads

KEY = "max-rate"
Rates = tuple[tuple[str, float], ...]  # by code, sorted
_PERCENT = re.compile(r"(100(?:\.0+)?|\d{1,2}(?:\.\d+)?) ?%", re.ASCII)


def rates_of(table: object) -> Rates:
    """Returns the rate of every code that the words of a table mean. Raises ValueError."""
    rates: dict[str, float] = {}
    if not isinstance(table, dict):
        raise ValueError(f'expected a table such as {{"MYP353" = "0.5%"}}, got {table!r}')
    for word, value in table.items():
        percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        if percent is None:
            raise ValueError(f'{word}: expected a percentage such as "0.5%", got {value!r}')
        rates |= dict.fromkeys(named(word), float(percent[1]) / 100)
    return tuple(sorted(rates.items()))


def rates_in(words: Iterable[str]) -> Rates:
    """Returns the rates of words and files, of which the last holds. Raises UsageError."""
    rates: dict[str, float] = {}
    for word in words:
        rule, equals, value = word.partition("=")
        is_file = not equals or os.path.exists(word)
        try:
            rates |= rates_of(loads(text_of(word))[KEY] if is_file else {rule: value})
        except KeyError:
            raise UsageError(f"{word}: has no table [{KEY}]; --write-rates writes one") from None
        except ValueError as error:
            raise UsageError(f"--max-rate {word}: {error}") from None
    return tuple(sorted(rates.items()))


def spelled(rate: float) -> str:
    """Returns a rate as a percentage, rounded up to four places."""
    return f"{math.ceil(rate * 1e6 - 1e-6) / 1e4:g}%"


def write_rates(path: str, rates: Rates, inputs: Sequence[str]) -> None:
    """Writes rates as settings. Raises UsageError, also for a path among the inputs."""
    from mypt_cli.jsonl.output import Output

    with Output(path, inputs) as out:
        for line in (f"[{KEY}]", *(f'{code} = "{spelled(rate)}"' for code, rate in rates)):
            out.write_bytes(line.encode() + b"\n")
