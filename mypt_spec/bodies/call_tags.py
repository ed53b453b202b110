"""Holds the tags of calls whose arguments are tags: a column of the token table."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Self


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
