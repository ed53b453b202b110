"""Classes of characters in exported grammars: no letter of a tag has a meaning there."""

from __future__ import annotations

import re

import mypt_spec
from mypt_train.export.answers import Answers, Way
from mypt_train.export.gbnf import gbnf


def test_a_letter_in_a_class_is_itself() -> None:
    """After each beginning of a tag, what may follow leaves out what goes on with the tag, only.

    An unescaped `-` would be a range, from the control characters to `<`.
    """
    tag = "<a-z]^>"
    answers = Answers({0: (Way((("body", "call"),), None),)}, (0,), (tag,))
    grammar = gbnf(mypt_spec.dialect("mypt"), answers)
    rules = re.findall(r"^string-(\d+) ::= .*?(\[\^\S+\]) string-0", grammar, re.MULTILINE)
    assert [int(number) for number, _ in rules] == [*range(len(tag))]
    for (_, others), letter in zip(rules, tag, strict=True):
        left_out = {c for c in map(chr, range(0x20, 0x7F)) if not re.fullmatch(others, c)}
        assert left_out == {'"', "\\", "<", letter}
