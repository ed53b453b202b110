"""Reads settings from `mypt-lint.toml`, or from `[tool.mypt-lint]` in pyproject.toml.

The nearest file is read, from the working folder upwards. It is checked as a whole: an unknown key,
a value of another kind or a rule that does not exist is an error with a suggestion. Globs and paths
in it count from the file's folder.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mypt_cli.errors import UsageError, suggestion
from mypt_cli.inputs import json_of, refuse_pipe, text_of
from mypt_cli.urls import matcher
from mypt_lint.settings.options import KINDS
from mypt_lint.settings.rates import KEY as MAX_RATE
from mypt_lint.settings.rates import Rates, rates_of
from mypt_lint.settings.selection import UnknownRuleError, named
from mypt_records.names import AUTO, NAMES, NATIVE
from mypt_spec.bodies.json_schema import SchemaError, check_schema
from mypt_spec.compiled.toml import loads
from mypt_spec.findings import SEVERITIES

FILES = ("mypt-lint.toml", "pyproject.toml")
_TABLE = "tool.mypt-lint"


@dataclass(frozen=True)
class Config:
    """A file of settings, as read. `files` are its sections for globs, in order; later ones win."""

    path: str = ""
    top: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.path)) if self.path else os.getcwd()

    def matching(self, path: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Returns the sections whose glob a file matches."""
        name = path
        if "://" not in path:
            name = os.path.relpath(os.path.abspath(path), self.folder).replace(os.sep, "/")
        return tuple(section for section in self.files if matches(section[0], name))


def matches(pattern: str, name: str) -> bool:
    """Returns whether a glob matches a name below the folder of the configuration.

    `*` and `?` stay inside one folder, `**` does not; a pattern without `/` matches the name in any
    folder, and one that ends in `/` all names in that folder.

    >>> matches("*.jsonl", "a/b.jsonl"), matches("a/*.jsonl", "a/b/c.jsonl")
    (True, False)
    >>> matches("a/**", "a/b/c.jsonl"), matches("a/", "a/b/c")
    (True, True)
    """
    pattern = pattern.removeprefix("./").replace("[", "[[]")  # here it is only itself
    pattern += "**" * pattern.endswith("/")
    return matcher(pattern if "/" in pattern else f"**/{pattern}")(name)


def config_of(options: argparse.Namespace, start: str | None = None) -> Config:
    """Returns the configuration that a command line asks for: none, a file, or the nearest."""
    if options.no_config:
        return Config()
    return read(options.config) if options.config else find(start)


def find(start: str | None = None) -> Config:
    """Returns the nearest configuration in `start` (the working folder) or above, or none."""
    here = Path(os.path.abspath(start or ""))
    for path in (str(folder / name) for folder in (here, *here.parents) for name in FILES):
        if os.path.isfile(path):
            data = _load(path)
            if not path.endswith("pyproject.toml") or "mypt-lint" in data.get("tool", {}):
                return read(path)
    return Config()


def read(path: str) -> Config:
    """Returns a configuration file. Raises UsageError, which names the fault."""
    data = _load(path)
    where = short(path)
    if os.path.basename(path) == "pyproject.toml":
        data, where = data.get("tool", {}).get("mypt-lint", {}), f"{where} [{_TABLE}]"
    top = _section(data, {**_ANYWHERE, **_ON_TOP}, where, path)
    files = top.pop("files", {})
    return Config(path, top, tuple((glob, section) for glob, section in files.items()))


def _load(path: str) -> dict[str, Any]:
    refuse_pipe(path)
    try:
        return loads(text_of(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from None


def short(path: str) -> str:
    """Returns a path relative to the working folder, if it is below."""
    name = os.path.relpath(path)
    return path if name.startswith("..") else name


class _Bad(Exception):
    """Why a value cannot be used."""


_Check = Callable[[Any, str], Any]  # value, path of the file -> value to keep


def _section(data: Any, checks: Mapping[str, _Check], where: str, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UsageError(f"{where}: expected a table, got {data!r}")
    out = {}
    for key, value in data.items():
        if key not in checks:
            hint = suggestion(key, checks, f"settings are {', '.join(checks)}", show=json.dumps)
            raise UsageError(f'{where}: no setting is called "{key}"{hint}')
        try:
            out[key] = checks[key](value, path)
        except _Bad as fault:
            raise UsageError(f"{where}: {key} {fault}") from None
        except UnknownRuleError as fault:
            raise UsageError(f"{where}: {key}: {fault}") from None
    return out


def _text(value: Any, _: str) -> str:
    if not isinstance(value, str) or not value:
        raise _Bad(f"must be a string, got {value!r}")
    return value


def _dialect(value: Any, path: str) -> str:
    """Returns the name of a dialect; of a folder, which is relative to the file, its path."""
    from mypt_spec.dialect import CODE, is_folder

    name = _text(value, path)
    if not is_folder(name):
        return name
    folder = os.path.join(os.path.dirname(path), name)
    if os.path.exists(os.path.join(folder, CODE)):
        raise _Bad(f"names a folder with {CODE}, which only the command line may run: --dialect")
    return folder


def _one_of(*choices: str) -> _Check:
    def check(value: Any, _: str) -> str:
        if value not in choices:
            hint = suggestion(str(value), choices, show=repr)
            raise _Bad(f"must be one of {', '.join(choices)}, got {value!r}{hint}")
        return str(value)

    return check


def _number(value: Any, _: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _Bad(f"must be a number from 1 on, got {value!r}")
    return value


def _yes(value: Any, _: str) -> bool:
    if not isinstance(value, bool):
        raise _Bad(f"must be true or false, got {value!r}")
    return value


def _list(value: Any, _: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _Bad(f"must be a list of strings, got {value!r}")
    return tuple(value)


def _paths(value: Any, path: str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) and value else _list(value, path)


def _rules(value: Any, path: str) -> tuple[str, ...]:
    return tuple(sorted({code for word in _list(value, path) for code in named(word)}))


def _severity(value: Any, _: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise _Bad(f'must be a table such as {{"MYP314" = "error"}}, got {value!r}')
    for level in value.values():
        if level not in SEVERITIES:
            raise _Bad(
                f"must be one of {', '.join(SEVERITIES)}, got {level!r}; to leave a rule out, "
                "ignore it"
            )
    return tuple(sorted((code, level) for word, level in value.items() for code in named(word)))


def _rates(value: Any, _: str) -> Rates:
    try:
        return rates_of(value)
    except ValueError as fault:
        raise _Bad(f"of {fault}") from None


def _tools(value: Any, path: str) -> tuple[tuple[str, str, str], ...]:
    """Returns (name, schema of the arguments, schema of the result), the schemas as JSON or ""."""
    if isinstance(value, list):
        return tuple((name, "", "") for name in _list(value, path))
    if not isinstance(value, dict):
        raise _Bad(f"must be a list of names, or a table of them, got {value!r}")
    tools = []
    for name, schemas in value.items():
        section = _section(
            schemas, {"arguments": _schema, "result": _schema}, f"{short(path)}: tool {name}", path
        )
        tools.append((name, section.get("arguments", ""), section.get("result", "")))
    return tuple(tools)


def _schema(value: Any, path: str) -> str:
    """Returns a JSON Schema as JSON text; the value may name a file that holds one."""
    if isinstance(value, str):
        try:
            value = json_of(os.path.join(os.path.dirname(os.path.abspath(path)), value))
        except UsageError as error:
            raise _Bad(f"names the file {value!r}: {error}") from None
    try:
        check_schema(value)
        return json.dumps(value)
    except (SchemaError, TypeError, ValueError, RecursionError) as error:
        unchecked = getattr(error, "unchecked", False)
        problem = "cannot be checked" if unchecked else "is not a valid JSON Schema"
        raise _Bad(f"{problem}: {error}") from None


def _metadata(value: Any, path: str) -> tuple[str, ...]:
    if not isinstance(value, dict):
        raise _Bad(f'must be a table such as [metadata] keys = ["id"], got {value!r}')
    section = _section(value, {"keys": _list}, f"{short(path)}: metadata", path)
    return tuple(sorted(set(section.get("keys", ()))))


def _files(value: Any, path: str) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise _Bad(f'must be a table of globs such as [files."phase3/*.jsonl"], got {value!r}')
    return {
        glob: _section(section, _ANYWHERE, f'{short(path)}: files "{glob}"', path)
        for glob, section in value.items()
    }


_ANYWHERE: dict[str, _Check] = {
    "dialect": _dialect,
    "records": _one_of(AUTO, NATIVE, *NAMES),
    "kind": _one_of(*KINDS),
    "system": _text,
    "phase": _number,
    "max-tokens": _number,
    "select": _rules,
    "ignore": _rules,
    "severity": _severity,
    "tools": _tools,
    "metadata": _metadata,
}
_ON_TOP: dict[str, _Check] = {
    "fail-on": _one_of(*SEVERITIES),
    MAX_RATE: _rates,
    "format": _text,
    "baseline": _text,
    "data-set": _yes,
    "eval": _list,
    "eval-prompts": _paths,
    "exclude": _list,
    "respect-gitignore": _yes,
    "files": _files,
}
