"""Adds the options of a command, which are in a table beside its module; options.toml says how."""

from __future__ import annotations

import re
from argparse import SUPPRESS, BooleanOptionalAction
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from mypt_cli.parser import Parser, dialect_name, positive
from mypt_lint.report import FORMATS
from mypt_lint.settings.options import KINDS, mask_name, model_path, template_path
from mypt_records.names import AUTO, NAMES, NATIVE
from mypt_spec.compiled.toml import load

_LIST = re.compile(r"\{(\w+)\}")
_SHARED = Path(__file__).with_suffix(".toml")
_NAMED: dict[str, Any] = {
    "int": int, "float": float, "positive": positive, "mask": mask_name, "model": model_path,
    "template": template_path, "dialect": dialect_name, "yes_or_no": BooleanOptionalAction,
    "any_dialect": partial(dialect_name, more=(AUTO,)), "shapes": (AUTO, NATIVE, *NAMES),
    "source": partial(dialect_name, more=(*NAMES, AUTO, NATIVE), what="format"),
    "names": NAMES, "reports": FORMATS, "kinds": KINDS,
}  # fmt: skip


def options(file: str, part: str = "", **named: Any) -> Callable[[Parser], None]:
    """Returns what adds to a parser the options of the table beside a module, or in a part of it.

    `named` are further types and choices that the table names.
    """
    return partial(_add, Path(file).with_suffix(".toml"), part, _NAMED | named)


def _add(path: Path, part: str, named: dict[str, Any], out: Parser) -> None:
    table = load(path)
    for title, rows in (table[part] if part else table).items():
        if isinstance(rows, str):  # what the command does
            out.description = out.description or rows
            continue
        add, either = out.group(title), None
        for names, settings in _rows(rows):
            for key in {"type", "choices", "action"} & settings.keys():
                if isinstance(settings[key], str):
                    settings[key] = named.get(settings[key], settings[key])
            if about := settings.pop("about", ""):
                about = _LIST.sub(lambda match: ", ".join(named[match[1]]), about)
            either = (either or add.one_of()) if settings.pop("one_of", False) else None
            (either or add)(names, about or SUPPRESS, **settings)


def _rows(rows: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the options of a group: their names, and what argparse is told of them."""
    for names, row in rows.items():
        if names.isidentifier() and names.islower():  # shared
            for shared, settings in _rows(_shared()[names]):
                yield shared, {key: _filled(value, row) for key, value in settings.items()}
        else:
            yield names, {"about": row} if isinstance(row, str) else dict(row)


@cache
def _shared() -> dict[str, Any]:
    return load(_SHARED)


def _filled(value: Any, row: Any) -> Any:
    """Returns what argparse is told of a shared option, with what a table says of it."""
    if value == "{}":
        return row
    return value.replace("{}", str(row)) if isinstance(value, str) else value
