"""Holds the tags of calls whose arguments are tags: a column of the token table."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Self


class Tags(str):
    """The body "tagged", with the tags of a call and of each argument.

    `function` and `argument` are what is before a name, after it, and at the end. With `python`,
    an argument that is true, false or null is written as True, False or None. Each is equal to
    "tagged", so what is cached for one is cached by its `pattern`.
    """

    function: tuple[str, ...]
    argument: tuple[str, ...]
    python: bool

    def __new__(
        cls,
        function: Iterable[str] = ("<function=", ">\n", "</function>"),
        argument: Iterable[str] = ("<parameter=", ">\n", "\n</parameter>\n"),
        python: bool = False,
    ) -> Self:
        """Returns the body with these tags."""
        tags = super().__new__(cls, "tagged")
        tags.function, tags.argument, tags.python = (*function,), (*argument,), python
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

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches these tags in a text."""
        return re.compile("|".join(map(re.escape, self.marks)))

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Matches names of functions and arguments."""
        no = "<>\n" + re.escape(self.function[1][:1] + self.argument[1][:1])
        return re.compile(rf"[^\s{no}](?:[^{no}]*[^\s{no}])?")
