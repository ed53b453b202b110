"""Classes of characters in exported grammars: no letter of a tag has a meaning there."""

from __future__ import annotations

import re

import mypt_spec
from mypt_train.export.answers import Answers, Way
from mypt_train.export.gbnf import gbnf


def test_a_letter_in_a_class_is_itself() -> None:
    """What may follow leaves out what begins a tag or goes on with one, and nothing else.

    In a class, an unescaped `-` after another letter would be a range, here from `+` to `<`.
    """
    tags = ("+x>", "->", "<y>")
    answers = Answers({0: (Way((("body", "call"),), None),)}, (0,), tags)
    grammar = gbnf(mypt_spec.dialect("mypt"), answers)
    rules = re.findall(r"^string-(\d+) ::= .*?(\[\^\S+\]) string-0", grammar, re.MULTILINE)
    going_on = {"": "", "+": "x", "-": ">", "<": "y", "+x": ">", "<y": ">"}
    assert [int(number) for number, _ in rules] == [*range(len(going_on))]
    for (_, others), letter in zip(rules, going_on.values(), strict=True):
        left_out = {c for c in map(chr, range(0x20, 0x7F)) if not re.fullmatch(others, c)}
        assert left_out == {'"', "\\", "+", "-", "<", *letter}
