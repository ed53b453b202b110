"""Tells which lines the fast ways must leave to the checker, because of the rules that are on.

A rule's column `sees` says what decides its findings. The fast ways see all structure. Of texts
and of whole episodes they see only what the rules of `ANSWERED` need; any other rule that looks at
these must be asked about each line.
"""

import sys

from mypt_lint.check.checker import Checker
from mypt_spec.findings import RULES

_LINE = "a line that is not strict JSON, or has a line end of its own, is not decoded"
_TAGS = "a text with a tag, a piece of one, or what is almost one, is not clean"
_VALUES = "a value with a schema is not taken for any other"
_FLAGS = "an adapter's skeleton holds what decides"
_BODY = "only serialised text, or a tag typed into a text, has such a body"
_TRACES = "records of these shapes have no skeletons"
_LATER = "made of other findings, after these are known"
# How the fast ways know of a line that a rule finds nothing in it.
ANSWERED = {
    **dict.fromkeys(["MYP001", "MYP002", "MYP005", "MYP006", "MYP008"], _LINE),
    **dict.fromkeys(["MYP009", "MYP010", "MYP011"], _LINE),
    "MYP019": "a line with such a character is left to the checker (`has_separator`)",
    **dict.fromkeys(["MYP014", "MYP902", "MYP904", "MYP905", "MYP906"], _LATER),
    "MYP110": "an object that is written as a string has the wrong type",
    "MYP111": "each language is asked about by itself",
    **dict.fromkeys(["MYP128", "MYP129", "MYP342", "MYP343", "MYP344", "MYP345"], _FLAGS),
    **dict.fromkeys(["MYP240", "MYP301", "MYP302", "MYP303", "MYP801"], _TAGS),
    **dict.fromkeys(
        ["MYP280", "MYP281", "MYP282", "MYP283", "MYP284", "MYP285", "MYP287"], _TRACES
    ),
    **dict.fromkeys(["MYP304", "MYP305", "MYP306", "MYP307", "MYP308", "MYP309"], _BODY),
    **dict.fromkeys(["MYP332", "MYP333", "MYP340", "MYP341", "MYP354"], _BODY),
    **dict.fromkeys(["MYP353", "MYP356"], _VALUES),
    "MYP369": "where the vocabulary composes texts, one that is not composed is not clean",
    "MYP362": "arguments written as tags are proved to come back, by their types",
    **dict.fromkeys(["MYP502", "MYP514"], "see `longest`"),
}


def longest(checker: Checker) -> int:
    """Returns the length in bytes of the longest line that may be judged fast; -1 for none.

    Rules that are ignored count if they find errors: a hidden error may leave no episode (MYP906).
    """
    if checker.dialect.tokenizer.lacks:
        return -1
    for code, rule in RULES.items():
        on = checker.selects(code) or rule.severity == "error"
        if on and rule.sees in ("text", "episode") and code not in ANSWERED:
            return -1
    limit = checker.limits.max_tokens
    # `test_tokens_are_at_most_twice_the_bytes` holds this.
    return sys.maxsize if limit is None else limit // 2
