"""Applies a finding's fix: RFC 6902 operations to a record, or edits to a serialised text.

Input is a JSON value or a text, and a `Fix`; output is a new value, and the old one stays as it is.
All that fixes data goes through here, so that a fix does what its report shows. What two texts have
in common at their beginning is told here, too.
"""

from collections.abc import Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any

from mypt_spec.bodies.strict_json import unescape

if TYPE_CHECKING:
    from mypt_spec.findings import Fix


def apply(data: Any, fix: "Fix") -> Any:
    """Returns the fixed record (any JSON value) or text; `data` stays as it is.

    Raises ValueError when the fix was made for other data.

    >>> from mypt_spec import Fix
    >>> apply({"a": [1, 2]}, Fix("drop it", True, patch=({"op": "remove", "path": "/a/0"},)))
    {'a': [2]}
    >>> apply("one  two", Fix("one space", True, edits=((3, 5, " "),)))
    'one two'
    """
    if fix.edits:
        return _edit(data, fix.edits)
    for operation in fix.patch:
        data = _operate(data, operation)
    return data


def _edit(text: Any, edits: tuple[tuple[int, int, str], ...]) -> str:
    if not isinstance(text, str):
        raise ValueError(f"edits are for text, got {type(text).__name__}")
    out = []
    at = 0
    for start, end, new in sorted(edits):
        if not at <= start <= end <= len(text):
            why = "it overlaps another, or lies outside the text"
            raise ValueError(f"an edit of {start}..{end} does not fit: {why}")
        out += [text[at:start], new]
        at = end
    return "".join([*out, text[at:]])


def _operate(data: Any, operation: dict[str, Any]) -> Any:
    op, path = operation["op"], operation["path"]
    *parents, last = map(unescape, path.split("/"))
    if op not in ("add", "remove", "replace") or (parents and parents[0]):
        raise ValueError(f"no fix does {op!r} at {path!r}")
    if not parents:  # the path "": the record itself
        return deepcopy(operation["value"])
    try:
        owner = data = copy(data)  # values around the change are copied, the rest is shared
        for token in parents[1:]:
            inner: Any = int(token) if isinstance(owner, list) else token
            owner[inner] = copy(owner[inner])
            owner = owner[inner]
        key: Any = last
        if isinstance(owner, list):
            key = len(owner) if last == "-" else int(last)
        if op == "add" and isinstance(owner, list):
            owner.insert(key, deepcopy(operation["value"]))
            return data
        if op != "add":
            owner[key]  # it must be there
        if op == "remove":
            del owner[key]
        else:
            owner[key] = deepcopy(operation["value"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise ValueError(f"the fix does not fit: nothing to {op} at {path!r}") from None
    return data


def in_common(one: Sequence[object], two: Sequence[object]) -> int:
    """Returns how many items two sequences of a type have in common at their beginning.

    >>> in_common("prefix", "prepare"), in_common([1, 2], [1, 2, 3])
    (3, 2)
    """
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
