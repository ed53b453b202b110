"""Finds keys and personal data in texts by their form, and masks them. The list is private.toml.

Whatever quotes a user's text in a report masks it first, so that no report spreads what its
findings warn of. A form alone is not enough: check digits must be right, and samples do not count.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from string import digits
from typing import Any, NamedTuple

from mypt_spec.compiled.toml import load

_DISTINCT = 12  # characters of a real key, at the least
_SHOWN = 4  # characters of a value that reports show
_NEAR = 60  # characters in which a word for a card is near


class _Kind(NamedTuple):
    code: str
    name: str
    pattern: str
    needs: tuple[str, ...]
    judge: Callable[[re.Match[str]], bool]
    needles: tuple[str | tuple[str, ...], ...]

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Returns what is found of this kind in a text."""
        if self.needs and not any(map(text.__contains__, self.needs)):
            return iter(())
        return filter(self.judge, re.finditer(self.pattern, text))

    def is_in(self, text: str) -> bool:
        return any(self.matches(text))


@cache
def _tables() -> dict[str, Any]:
    return load(Path(__file__).with_suffix(".toml"))


@cache
def _words(name: str) -> re.Pattern[str]:
    return re.compile(_tables()["words"][name], re.IGNORECASE)


@cache
def kinds() -> tuple[_Kind, ...]:
    """Returns the rows of private.toml."""
    return tuple(
        _Kind(
            row["code"], row["name"], row["pattern"], tuple(row.get("needs", ())),
            _JUDGES[row["judge"]], tuple(map(_needle, row.get("needles", row.get("needs", ())))),
        )
        for row in _tables()["kind"]
    )  # fmt: skip


def _needle(value: str | list[str]) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else tuple(v.replace("#", digits) for v in value)


def private(text: str, *codes: str) -> Iterator[tuple[str, int, int]]:
    """Yields (name, start, end) of what is found, by the rules `codes`, or by all for none."""
    for kind in kinds():
        for match in kind.matches(text) if not codes or kind.code in codes else ():
            yield kind.name, *match.span()


def masked(text: str) -> str:
    """Returns a text of the same length with stars in place of what is found in it.

    >>> masked("Write to jane.doe@gmail.com")
    'Write to j*****************'
    """
    for _, start, end in [*private(text)]:
        first = start + (1 if "@" in text[start:end] else _SHOWN)
        text = text[:first] + "*" * (end - first) + text[end:]
    return text


def _random(match: re.Match[str]) -> bool:
    return len({*match[0]}) >= _DISTINCT and not _words("sample").search(match[0])


def _web_token(match: re.Match[str]) -> bool:
    head = match[0].partition(".")[0]
    try:
        known = "alg" in json.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return False
    # The claims and the signature with which jwt.io explains what a token is.
    return (
        known
        and "eyJzdWIiOiIxMjM0NTY3ODkwI" not in match[0]
        and not _words("sample").search(match[0])
    )


def _card(match: re.Match[str]) -> bool:
    number = re.sub(r"\D", "", match[0])
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2]]
    right = (sum(doubled) + sum(map(int, number[::-2]))) % 10 == 0
    if not right or number in _tables()["published"] or len({*number}) < 5 or "1234" in number:
        return False
    # One number of sixteen in ten has right check digits, so one in a row needs a word for it.
    near = match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    return number != match[0] or _words("card").search(near) is not None


def _iban(match: re.Match[str]) -> bool:
    value = match[0].replace(" ", "")
    number = "".join(str(int(char, 36)) for char in value[4:] + value[:4])
    return len(value) >= 15 and int(number) % 97 == 1 and value not in _tables()["published"]


def _phone(match: re.Match[str]) -> bool:
    number = re.sub(r"\D", "", match[0])
    return (
        8 <= len(number) <= 15
        and "555" not in number
        and "1234" not in number
        and len({*number}) > 3
    )


def _password(match: re.Match[str]) -> bool:
    sample = _words("password").search(match["word"]) or _words("mailbox").search(
        f"a@{match['host']}"
    )
    return len({*match["word"]}) > 4 and not sample


def _address(match: re.Match[str]) -> bool:
    private = match[0].startswith(("10.", "127.", "192.168.", "192.0.2.", "198.51.", "203.0.113."))
    few = match[0].split(".")[:2] in (["8", "8"], ["1", "1"], ["1", "2"])
    return not (private or few or re.match(r"172\.(?:1[6-9]|2\d|3[01])\.", match[0]))


def _social_security(match: re.Match[str]) -> bool:
    near = match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    made_up = match[0] in ("123-45-6789", "078-05-1120", "219-09-9999") or len({*match[0]}) < 5
    return not made_up and _words("social").search(near) is not None


def _turkish_id(match: re.Match[str]) -> bool:
    number = [int(digit) for digit in match[0]]
    tenth = (7 * sum(number[0:9:2]) - sum(number[1:8:2])) % 10
    return number[9] == tenth and number[10] == sum(number[:10]) % 10


_JUDGES = {
    "random": _random, "web_token": _web_token, "card": _card, "iban": _iban,
    "mailbox": lambda match: not _words("mailbox").search(match[0]),
    "phone": _phone, "turkish_id": _turkish_id, "password": _password, "address": _address,
    "social_security": _social_security,
}  # fmt: skip
