"""One pass over decoded records: count their strings, collect their texts, note their shape.

The pass is written out as source for one schema and compiled once: a loop over field descriptions takes three times as
long, and this is where the linter spends its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from mypt_spec.episode import Part, Place
from mypt_spec.schema import LANGUAGE, NAME, STRING, Field

BITS = 12  # keys a message can have; the role's number stands above them
DEPTH = 60  # deeper values are left to the checker
Rows = tuple[tuple[str, Field], ...]
_STRINGS = (STRING, NAME, LANGUAGE)


class Seen:
    """What the pass saw of one record. `texts` are contents, `inner` the strings inside JSON values.

    `shape`: the top-level keys that are present, then for each message its role and present keys, as bits. `marks`, in
    order: the number of each name; for each string that may hold inline tags the kinds of its parts (0: plain text).
    """

    __slots__ = ("heads", "inner", "marks", "names", "shape", "texts")

    def __init__(self) -> None:
        self.shape: list[int] = []
        self.marks: list[Any] = []
        self.texts: list[str] = []
        self.inner: list[str] = []
        self.names: dict[str, int] = {}
        self.heads: list[tuple[str, str]] = []


def compile_scan(
    top: Rows,
    roles: tuple[tuple[str, Rows], ...],
    types: list[type],
    key: str,
    first: tuple[str, ...],
    inline: Callable[..., list[Part]],
    fine: Callable[[Seen], bool],
) -> Callable[[list[Any], list[int]], list[int]]:
    """A function `scan(records, quotes)` that gives the indexes of the records that are not proved clean.

    `types` are the message types in the order of `roles`; `first` are the first characters of tags; `inline` cuts a string
    into parts; `fine` judges what was seen. Raises ValueError where a value nests deep.
    """
    suspicious = " or ".join(f"{c!r} in v" for c in first)
    code = ["def scan(records, quotes):", " bad = []", " for i, record in enumerate(records):", "  seen = Seen()"]
    code += ["  names, texts, inner, marks, shape = seen.names, seen.texts, seen.inner, seen.marks, seen.shape"]
    code += ["  text = texts.append; strings = 1; have = 0"]
    for bit, (name, _) in enumerate(top):
        if name != key:
            code += [f"  v = record.{name}", "  if v is not UNSET:"]
            code += [f"   have |= {1 << bit}; strings += 2; seen.heads.append(({name!r}, v))"]
    code += ["  shape.append(have)", f"  for m in record.{key}:", "   kind = m.__class__"]
    for number, (_, rows) in enumerate(roles):
        code.append(f"   {'el' if number else ''}if kind is types[{number}]:")
        code += ["    " + line for line in _message(number, rows, suspicious)]
    code += ["  if 2 * (strings + len(inner)) != quotes[i] or not fine(seen):", "   bad.append(i)", " return bad"]
    scope: dict[str, Any] = {"Seen": Seen, "UNSET": UNSET, "Place": Place, "collect": strings_of}
    scope |= {"types": types, "inline": inline, "fine": fine}
    exec("\n".join(code), scope)  # built from the adapter's schema alone, never from data
    return scope["scan"]  # type: ignore[no-any-return]


def _message(number: int, rows: Rows, suspicious: str) -> list[str]:
    """The lines that look at a message of one role."""
    required = [spec for _, spec in rows if spec.required]
    have = number << BITS | sum(1 << bit for bit, (_, spec) in enumerate(rows) if spec.required)
    code = [f"strings += {2 + sum(1 + (spec.kind in _STRINGS) for spec in required)}; have = {have}"]
    for bit, (name, spec) in enumerate(rows):
        code.append(f"v = m.{name}")
        pad = ""
        if not spec.required:
            pad = " "
            code += ["if v is not UNSET:", f" have |= {1 << bit}; strings += {1 + (spec.kind in _STRINGS)}"]
        if spec.kind == NAME:
            code.append(f"{pad}marks.append(names.setdefault(v, len(names)))")
        elif spec.inline:
            code += [f"{pad}if {suspicious}:", f"{pad} parts = inline(v, Place(), *{spec.inline!r})"]
            code += [f"{pad} marks.append(tuple([p.kind for p in parts])); texts += [p.text for p in parts]"]
            code += [f"{pad}else:", f"{pad} marks.append(0); text(v)"]
        elif spec.kind in _STRINGS:
            code.append(f"{pad}text(v)")
        else:
            code += [f"{pad}if {word!r} in v: strings -= 1 << 40" for word in spec.reserved]  # never equal to any count
            code.append(f"{pad}collect(v, inner, 0)")
    return [*code, "shape.append(have)"]


def strings_of(value: Any, out: list[str], depth: int) -> None:
    """Collect all strings of a JSON value, keys too. Raises ValueError where it nests deep."""
    kind = value.__class__
    if kind is str:
        out.append(value)
        return
    if depth > DEPTH:
        raise ValueError("deep")
    if kind is dict:
        out += value
        value = value.values()
    elif kind is not list:
        return
    for item in value:
        kind = item.__class__
        if kind is str:
            out.append(item)
        elif kind is dict or kind is list:
            strings_of(item, out, depth + 1)
