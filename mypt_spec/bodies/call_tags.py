"""Holds how calls are written whose arguments are no JSON: columns of the token table."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from mypt_spec.bodies.strict_json import canonical, loads

NO_JSON = ("tagged", "bare_keys")  # kinds of body
ALONE = ("arguments", "bare_keys")  # arguments, with the name in the tag
_KEY = r'[^\s{}\[\],:"](?:[^{}\[\],:"]*[^\s{}\[\],:"])?'  # of `BareKeys`


class Tags(str):
    """The body "tagged", with the tags of a call and of each argument.

    `function` and `argument` are what is before a name, after it, and at the end. With `python`,
    an argument that is true, false or null is written as True, False or None; if it is "values",
    arrays and objects are in Python's words, too. `wrap` is empty, or says of strings that have one
    of some characters what is around them. Each is equal to "tagged", so what is cached for one is
    cached by its `pattern`.
    """

    function: tuple[str, ...]
    argument: tuple[str, ...]
    python: bool | str
    wrap: tuple[str, ...]

    def __new__(
        cls,
        function: Iterable[str] = ("<function=", ">\n", "</function>"),
        argument: Iterable[str] = ("<parameter=", ">\n", "\n</parameter>\n"),
        python: bool | str = False,
        wrap: Iterable[str] = (),
    ) -> Self:
        """Returns the body with these tags."""
        tags = super().__new__(cls, "tagged")
        tags.function, tags.argument, tags.python = (*function,), (*argument,), python
        tags.wrap = (*wrap,)
        return tags

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Returns the tags, without white space around. No name and no value spells one."""
        tags = (*self.function[::2], *self.argument[::2])
        return tuple(filter(None, map(str.strip, tags)))

    @property
    def end(self) -> str:
        """Returns what ends a value, without white space after it."""
        return self.argument[2].rstrip()

    def wrapped(self, text: str) -> str:
        """Returns a string as it is written: wrapped if it has one of the characters."""
        if not self.wrap or set(self.wrap[0]).isdisjoint(text):
            return text
        return text.join(self.wrap[1:])

    def unwrapped(self, text: str) -> str | None:
        """Returns the string in a text that is wrapped; None if it is not."""
        before, after = self.wrap[1:] or ("", "")
        is_wrapped = before and text.startswith(before) and text.endswith(after)
        return text[len(before) : -len(after)] if is_wrapped else None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches these tags in a text."""
        return re.compile("|".join(map(re.escape, self.marks)))

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Matches names of functions and arguments."""
        no = "<>\n" + re.escape(self.function[1][:1] + self.argument[1][:1])
        return re.compile(rf"[^\s{no}](?:[^{no}]*[^\s{no}])?")


class BareKeys(str):
    """The body "bare_keys": JSON without spaces, nor quotes around keys; `null` is that word.

    `end` is around strings, and nothing in them is escaped. Keys are sorted as Jinja's `dictsort`
    sorts them.

    >>> bare = BareKeys("~", null="None")
    >>> bare.write({"n": [None, 1.5, True], "City": "Oslo"})
    '{City:~Oslo~,n:[None,1.5,true]}'
    >>> bare.read('{City:~Oslo~,n:[None,1.5,true]}')
    {'City': 'Oslo', 'n': [None, 1.5, True]}
    """

    end: str
    null: str
    marks: tuple[str, ...]  # what no string spells
    wrap: tuple[str, ...]
    pattern: re.Pattern[str]  # of what JSON writes otherwise

    def __new__(cls, quote: str, null: str = "null") -> Self:
        """Returns the body with these words."""
        bare = super().__new__(cls, "bare_keys")
        bare.end, bare.null, bare.marks, bare.wrap = quote, null, (quote,), ()
        edge = re.escape(quote)
        words = rf"{edge}(?P<text>.*?){edge}|(?P<key>{_KEY}):|(?P<null>\b{re.escape(null)}\b)"
        bare.pattern = re.compile(words, re.DOTALL)
        return bare

    def write(self, value: Any) -> str:
        """Returns the text of a value."""
        if isinstance(value, str):
            return self.end + value + self.end
        if isinstance(value, Mapping):
            return f"{{{','.join(f'{k}:{self.write(v)}' for k, v in ordered(value).items())}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self.write, value))}]"
        return self.null if value is None else json.dumps(value)

    def read(self, text: str) -> Any:
        """Returns the value of a text. Raises Fault."""
        return loads(self.pattern.sub(_in_json, text))

    def is_sayable(self, value: Any) -> bool:
        """Returns whether a value is read as it is written."""
        try:
            return bool(self.read(self.write(value)) == value)
        except ValueError:
            return False


def ordered(members: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the members of an object in the order in which they are written."""
    return dict(sorted(members.items(), key=lambda member: member[0].lower()))


def value_text(value: Any, literals: re.Pattern[str], kind: str) -> str:
    """Returns the canonical text of a value in a body of `BareKeys`, or of JSON."""
    return kind.write(value) if isinstance(kind, BareKeys) else canonical(value, literals)


def _in_json(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    text = "null" if kind == "null" else json.dumps(match[kind], ensure_ascii=False)
    return text + ":" * (kind == "key")
