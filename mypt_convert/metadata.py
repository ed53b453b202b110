"""Keeps unknown keys of a record as metadata: `note` becomes `_note`, and its value is the same.

No format trains on metadata, and each has a place for it: on the record and on its messages.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mypt_convert.bridges.steps import IDS, UNNAMED
from mypt_convert.compare import Loss
from mypt_records.names import OPT_OUT
from mypt_spec.bodies.strict_json import escape, unescape, value_at
from mypt_spec.findings import Finding

_RESERVED = {IDS, UNNAMED, OPT_OUT}  # metadata that means something to the commands
_Tree = dict[str, "_Tree"]  # the tokens of pointers; an empty one ends a pointer


def in_the_way(record: Any, unknown: Iterable[Finding]) -> list[Finding]:
    """Returns findings about unknown keys that cannot be kept as metadata; each points to one."""
    out = []
    for finding in unknown:
        parent, _, last = finding.pointer.rpartition("/")
        key = unescape(last)
        if f"_{key}" in value_at(record, parent):
            why = "which is there: rename one of them"
        elif f"_{key}" in _RESERVED:
            why = "which has a meaning of its own: rename it"
        else:
            continue
        message = f'unknown key "{key}" cannot be kept as "_{key}", {why}'
        out.append(replace(finding, message=message))
    return out


def renamed(record: Any, unknown: Sequence[Finding]) -> Any:
    """Returns a record whose unknown keys begin with `_`; parts without such keys are shared."""
    tree: _Tree = {}
    for finding in unknown:
        node = tree
        for token in finding.pointer.split("/")[1:]:
            node = node.setdefault(token, {})
    return _renamed(record, tree) if tree else record


def _renamed(value: Any, tree: _Tree) -> Any:
    if isinstance(value, list):
        return [
            _renamed(item, tree[str(i)]) if str(i) in tree else item for i, item in enumerate(value)
        ]
    out = {}
    for key, item in value.items():
        below = tree.get(escape(key))
        if below is None:
            out[key] = item
        elif below:
            out[key] = _renamed(item, below)
        else:
            out[f"_{key}"] = item
    return out


def with_source_names(losses: Iterable[Loss], unknown: Sequence[Finding]) -> list[Loss]:
    """Returns losses with the names and places of the record before unknown keys were renamed."""
    sources = {"/_".join(finding.pointer.rsplit("/", 1)): finding.pointer for finding in unknown}
    return [_with_source_name(loss, sources) for loss in losses] if sources else list(losses)


def _with_source_name(loss: Loss, sources: dict[str, str]) -> Loss:
    tokens = loss.pointer.split("/")
    for end in range(2, len(tokens) + 1):
        if (before := sources.get("/".join(tokens[:end]))) is not None:
            pointer = "/".join([before, *tokens[end:]])
            field = unescape(before.rpartition("/")[2]) if end == len(tokens) else loss.field
            return loss._replace(field=field, pointer=pointer)
    return loss


def metadata_pointers(unknown: Sequence[Finding], losses: Sequence[Loss]) -> tuple[str, ...]:
    """Returns the pointers of the unknown keys of which nothing is lost; `losses` are as given."""
    pointers = [loss.pointer.split("/") for loss in losses]
    heads = {"/".join(tokens[:end]) for tokens in pointers for end in range(2, len(tokens) + 1)}
    return tuple(finding.pointer for finding in unknown if finding.pointer not in heads)
