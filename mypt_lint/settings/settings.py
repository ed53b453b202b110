"""Decides which settings a file has, and where each value comes from.

That is the defaults, the configuration, its sections for files, or the command line: the last one
wins, but `exclude`, `ignore`, `tools`, `severity`, `metadata` and `max-rate` add up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mypt_lint.settings.config import Config, short
from mypt_lint.settings.rates import KEY as MAX_RATE
from mypt_lint.settings.rates import spelled
from mypt_spec.findings import SEVERITIES

_ADDED = ("exclude", "ignore", "tools", "severity", "metadata", "max-rate")
_JUDGING = (
    "phase", "max-tokens", "select", "ignore", "severity", "tools", "fail-on", "records",
    "metadata", "system",
)  # fmt: skip
_Value = tuple[Any, tuple[str, ...]]  # a value, and where it comes from


@dataclass(frozen=True)
class Settings:
    """The settings of one file."""

    values: tuple[tuple[str, Any], ...]
    origins: tuple[tuple[str, str], ...]

    def __getitem__(self, key: str) -> Any:
        return dict(self.values).get(key)

    def origin(self, key: str) -> str:
        """Returns where a value comes from, in words."""
        return dict(self.origins)[key]

    @property
    def counting(self) -> tuple[str, ...]:
        """Returns the severities that fail a check."""
        return SEVERITIES[SEVERITIES.index(self["fail-on"] or "error") :]

    def having(self, **changes: Any) -> Settings:
        """Returns the settings with values that were found in a file."""
        values = dict(self.values) | changes
        origins = dict(self.origins) | dict.fromkeys(changes, "found")
        return Settings(tuple(sorted(values.items())), tuple(sorted(origins.items())))

    def judging(self, usual: Mapping[str, Any]) -> Settings:
        """Returns the settings that decide over lines and are not as usual, without origins."""
        values = (pair for pair in self.values if pair[0] in _JUDGING)
        return Settings(tuple((k, v) for k, v in values if usual.get(k) != v), ())

    def lines(self) -> list[str]:
        """Returns a line of TOML for each setting, with where it comes from."""
        rows = [(f"{key} = {_toml(key, value)}", self.origin(key)) for key, value in self.values]
        width = min(60, max((len(row) for row, _ in rows), default=0))
        return [f"{row:<{width}}  # {origin}" for row, origin in rows]


NO_SETTINGS = Settings((), ())


def settings(
    path: str | None, config: Config, defaults: Mapping[str, Any], cli_options: Mapping[str, Any]
) -> Settings:
    """Returns the settings of a file (None: of no file), with those of the command line."""
    where = short(config.path) if config.path else ""
    sections = config.matching(path) if path is not None else ()
    layers = [("default", defaults), (where, config.top)]
    layers += [(f'{where}, files "{glob}"', section) for glob, section in sections]
    layers.append(("command line", cli_options))
    merged: dict[str, _Value] = {}
    for origin, layer in layers:
        for key, value in layer.items():
            if value is None or (key in _ADDED and not value):
                continue
            if key in _ADDED and key in merged:
                before, origins = merged[key]
                merged[key] = _sum(key, before, value), (*origins, origin)
            else:
                merged[key] = value, (origin,)
    ordered = sorted(merged.items())
    return Settings(
        tuple((key, value) for key, (value, _) in ordered),
        tuple((key, "; ".join(o)) for key, (_, o) in ordered),
    )


def _sum(key: str, before: Any, later: Any) -> Any:
    if key == "exclude":
        return (*before, *later)
    if key in ("ignore", "metadata"):
        return tuple(sorted({*before, *later}))
    by_name = {item[0]: item for item in before} | {item[0]: item for item in later}
    return tuple(by_name.values())


def _toml(key: str, value: Any) -> str:
    if key in ("severity", MAX_RATE):
        pairs = ((code, v if isinstance(v, str) else spelled(v)) for code, v in value)
        return "{ " + ", ".join(f"{code} = {json.dumps(level)}" for code, level in pairs) + " }"
    if key == "metadata":
        return "{ keys = " + json.dumps(list(value), ensure_ascii=False) + " }"
    if key == "tools":
        return json.dumps([name for name, _, _ in value], ensure_ascii=False)
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
