"""Lines that grow: one fault of a record, a text, a JSON value or a list of keys, n times.

`kinds(form)` names them all, `line(form, kind, n)` makes one; a form is a dialect, or a shape of
records of other tools. Kinds come from a sample (growing_samples.py), and from the schema and the
tags of a dialect: a new dialect or shape only needs a sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import mypt_spec
from fuzz.growing_samples import ID, SAMPLES
from mypt_records import names

Record = dict[str, Any]
Make = Callable[[int], Record]  # a record of size n

_LISTS = ("plain", "turns", "claude-code", "codex", "pi", "sts", "openhands")  # no key of turns
SHAPES = tuple(name for name in names.NAMES if name not in (names.TEXTS, *_LISTS))
_TAGS_OF = "qwen3"  # what texts of records of other tools may quote
_TAGS = ("role", "from", "type")  # keys whose values are words of the format
_PIECES = [
    " ",
    "\n",
    "\u2028",
    "e\u0301",
    "\u0301",
    "\u1100",
    '"',
    "\\",
    "{",
    "[",
    "<",
    "ab ",
    "d{i} ",
    "e\u0301{i} ",
]


def forms() -> list[str]:
    """Returns the names of all dialects and shapes."""
    return [*mypt_spec.dialects(), *SHAPES]


def line(form: str, kind: str, n: int) -> bytes:
    """Returns a record of a kind and a size as a line of JSONL."""
    record = _makers(form)[kind](n)
    return json.dumps(record, ensure_ascii="halves" in kind).encode() + b"\n"


def kinds(form: str) -> list[str]:
    """Returns the names of all kinds of a form."""
    return list(_makers(form))


@cache
def _makers(form: str) -> dict[str, Make]:
    head, turn, key = SAMPLES[form]
    out: dict[str, Make] = {"turns": lambda n: {**head, key: turn * n}}
    if ID in json.dumps(turn):
        out["turns with ids of their own"] = lambda n: {
            **head,
            key: [m for i in range(n) for m in _numbered(turn, i)],
        }
    for name, faulty in _faulty_turns(form, turn):
        out[f"turns with {name}"] = lambda n, t=faulty: {**head, key: t * n}  # type: ignore[misc]
    whole = {**head, key: turn}
    for path, value in _paths(whole):
        at = "/".join(map(str, path))
        if isinstance(value, str) and path[-1] not in _TAGS:
            for piece in _pieces(form):
                out[f"{at} of {piece!r}"] = _put(whole, path, lambda n, p=piece: _many(p, n))  # type: ignore[misc]
        if isinstance(value, dict):
            for name, make in _VALUES.items():
                out[f"{at} with keys to {name}"] = _put(
                    whole,
                    path,
                    lambda n, v=value, m=make: v | {f"k{i}": m(i) for i in range(n)},  # type: ignore[misc]
                )
        if isinstance(value, list) and path:
            out[f"{at} repeated"] = _put(whole, path, lambda n, v=value: v * n)  # type: ignore[misc]
        if (
            isinstance(value, dict | str)
            and path
            and path[-1] in ("arguments", "content", "parameters")
        ):
            for name, make in _VALUES.items():
                out[f"{at} as a list of {name}"] = _put(
                    whole,
                    path,
                    lambda n, m=make: [m(i) for i in range(n)],  # type: ignore[misc]
                )
                out[f"{at} as documents, {name}"] = _put(
                    whole,
                    path,
                    lambda n, m=make: {"doc_id": "x", "of": [{"doc_id": m(i)} for i in range(n)]},  # type: ignore[misc]
                )
    out["opt-outs"] = lambda n: {**whole, "_mypt_lint": {"ignore": ["MYP314"] * n}}
    return out


def _numbered(turn: list[Any], i: int) -> list[Any]:
    """Returns a turn whose calls have the ids of turn `i`."""
    made: list[Any] = json.loads(json.dumps(turn).replace(ID, f"call{i:05}"))
    return made


_VALUES: dict[str, Callable[[int], Any]] = {
    "numbers": lambda i: i,
    "texts": lambda i: f"d{i}",
    "tags": lambda i: f"<myPT_eot>{i}",
    "NaN": lambda i: float("nan"),
    "halves of characters": lambda i: "\udc80",
    "objects": lambda i: {"type": "string", "k": i},
    "text that is long": lambda i: "x" * 100,
}


def _many(piece: str, n: int) -> str:
    return "".join(piece.replace("{i}", str(i)) for i in range(n)) if "{i}" in piece else piece * n


def _pieces(form: str) -> Iterator[str]:
    """Returns pieces that a text may repeat: tags, pairs of tags, almost-tags, and letters."""
    table = mypt_spec.dialect(_TAGS_OF if form in SHAPES else form).table
    yield from _PIECES
    for terminal in table.terminals.values():
        tag = terminal.spell(tuple((key, "n") for key in terminal.patterns))
        yield from (tag, tag + " ", tag.upper(), tag[:-1])
        if terminal.opens and terminal.opens in table.closers:
            close = table.closers[terminal.opens].spell()
            yield from (
                f"{tag}d{{i}}{close}",
                f'{tag}{{"name": "f", "doc_id": "{{i}}"}}{close}',
                f"a {close}",
            )


def _put(record: Record, path: tuple[Any, ...], make: Callable[[int], Any]) -> Make:
    """Returns a record with another value at a path."""

    def made(n: int) -> Record:
        out: Any = {"": deepcopy(record)}
        owner, key = out, ""
        for step in path:
            owner, key = owner[key], step
        owner[key] = make(n)
        return out[""]  # type: ignore[no-any-return]

    return made


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yields every value with the way to it."""
    yield path, value
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from _paths(item, (*path, key))


def _roles(form: str) -> list[str]:
    """Returns words that a message may have as its role, and one that it may not."""
    schema = mypt_spec.dialect(_TAGS_OF if form in SHAPES else form).adapter.SCHEMA
    return [*schema.aliases, *schema.lifted, *schema.folded, *schema.roles, "robot"]


def _faulty_turns(form: str, turn: list[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Yields a turn with one fault, for every fault."""
    roles = _roles(form)
    for i, message in enumerate(turn):
        yield f"message {i} gone", turn[:i] + turn[i + 1 :]
        yield f"message {i} twice", turn[: i + 1] + turn[i:]
        if i:
            yield f"message {i} early", [*turn[: i - 1], message, turn[i - 1], *turn[i + 1 :]]
    for path, value in _paths(turn):
        at = "/".join(map(str, path))

        def put(new: Any, path: tuple[Any, ...] = path) -> list[Record]:
            return _put({"t": turn}, ("t", *path), lambda n: new)(1)["t"]  # type: ignore[no-any-return]

        if not path:
            continue
        if isinstance(path[-1], str):
            owner: Any = turn
            for step in path[:-1]:
                owner = owner[step]
            less = {key: item for key, item in owner.items() if key != path[-1]}
            for name, new in (("gone", less), ("renamed", {**less, f"{path[-1]}s": value})):
                yield (
                    f"{at} {name}",
                    _put({"t": turn}, ("t", *path[:-1]), lambda n, new=new: new)(1)["t"],
                )  # type: ignore[misc]
        for name, new in [("null", None), ("1", 1), ("[]", []), ("text", "x"), ("empty", "")]:
            yield f"{at} as {name}", put(new)
        if isinstance(value, dict):
            yield f"{at} as JSON", put(json.dumps(value))
            yield f"{at} as JSON not canonical", put(json.dumps(value, indent=1))
            yield f"{at} with another key", put({**value, "note": 1})
        if path[-1] in _TAGS:
            for role in roles:
                yield f"{at} {role}", put(role)
        if isinstance(value, str):
            for piece in _pieces(form):
                yield f"{at} before {piece!r}", put(value + piece)
                yield f"{at} after {piece!r}", put(piece + value)
