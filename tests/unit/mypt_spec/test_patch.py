"""Applying fixes: RFC 6902 operations and edits, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from mypt_spec import Fix
from mypt_spec.patch import apply


@pytest.mark.parametrize(
    ("data", "patch", "expected"),
    [
        ({"a": 1}, {"op": "replace", "path": "/a", "value": [2]}, {"a": [2]}),
        ({"a/b": {"~": 1}}, {"op": "remove", "path": "/a~1b/~0"}, {"a/b": {}}),
        ([1, 2], {"op": "add", "path": "/0", "value": 0}, [0, 1, 2]),
        ([1, 2], {"op": "add", "path": "/-", "value": 3}, [1, 2, 3]),
        ({"": {"": 1}}, {"op": "replace", "path": "//", "value": 2}, {"": {"": 2}}),
        ({"a": 1}, {"op": "add", "path": "/a", "value": 2}, {"a": 2}),
        ({"a": 1}, {"op": "replace", "path": "", "value": []}, []),
    ],
)
def test_patch(data: Any, patch: dict[str, Any], expected: Any) -> None:
    before = repr(data)
    assert apply(data, Fix("", True, patch=(patch,))) == expected
    assert repr(data) == before


@pytest.mark.parametrize(
    ("data", "patch"),
    [
        ({}, {"op": "remove", "path": "/a"}),
        ({}, {"op": "replace", "path": "/a", "value": 1}),
        ([], {"op": "replace", "path": "/0", "value": 1}),
        ([], {"op": "remove", "path": "/x"}),
        ("text", {"op": "remove", "path": "/0"}),
        ({}, {"op": "add", "path": "/a/b", "value": 1}),
        ({}, {"op": "move", "path": "/a", "from": "/b"}),
        ({}, {"op": "remove", "path": "a/b"}),
    ],
)
def test_patch_that_does_not_fit(data: Any, patch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="fix"):
        apply(data, Fix("", True, patch=(patch,)))


def test_edits_count_in_the_text_as_it_was() -> None:
    assert apply("a  b  c", Fix("", True, edits=((4, 6, " "), (1, 3, "-")))) == "a-b c"
    assert apply("ab", Fix("", True, edits=((1, 1, "x"), (2, 2, "y")))) == "axby"


@pytest.mark.parametrize(
    ("data", "edits"),
    [("ab", ((0, 2, ""), (1, 2, ""))), ("ab", ((1, 3, ""),)), ({}, ((0, 0, "x"),))],
)
def test_edits_that_do_not_fit(data: Any, edits: Any) -> None:
    with pytest.raises(ValueError, match="edit"):
        apply(data, Fix("", True, edits=edits))
