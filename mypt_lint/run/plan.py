"""Plans a run: the settings of the command line and of configurations, and the sources in order.

Other commands plan by the same code, so all check a file alike; `resolve` detects as what.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.inputs import text_of
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.left_out import LeftOut
from mypt_cli.jsonl.names import SUFFIXES
from mypt_cli.jsonl.paths import expand
from mypt_cli.parser import dialect_name
from mypt_lint.settings.config import Config, config_of
from mypt_lint.settings.options import DEFAULTS
from mypt_lint.settings.rates import KEY as MAX_RATE
from mypt_lint.settings.rates import rates_in
from mypt_lint.settings.selection import UnknownRuleError, chosen
from mypt_lint.settings.settings import Settings, settings
from mypt_records.names import AUTO

if TYPE_CHECKING:
    from mypt_lint.check.foreign import ReadInDialect
    from mypt_spec import Dialect

_SUFFIXES = {
    "text": (".txt", ".text", ".log"),
    "generation": (".txt", ".text", ".jsonl", ".ndjson"),
}
Say = Callable[[str], None]


class Plan:
    """The settings of one call: the defaults, the configuration, and the command line."""

    def __init__(
        self, cli_options: Mapping[str, Any], config: Config, defaults: Mapping[str, Any] = DEFAULTS
    ) -> None:
        self.cli_options, self.config, self.defaults = cli_options, config, defaults
        self.by_model: ReadInDialect | None = None  # finds what the template of a model makes
        self.edits = False  # to find what a fix changes in its line takes time; few formats show it
        self.top = self.of(None)
        self.left_out = LeftOut()

    def of(self, path: str | None) -> Settings:
        return settings(path, self.config, self.defaults, self.cli_options)

    @property
    def baseline(self) -> str | None:
        """Returns the baseline file; one from a configuration counts from that file's folder."""
        path: str | None = self.top["baseline"]
        from_settings = path is not None and not self.cli_options.get("baseline")
        return os.path.join(self.config.folder, path or "") if from_settings else path

    @property
    def eval_prompts(self) -> list[str]:
        """Returns the files of texts reserved for evaluation."""
        own = self.cli_options.get("eval-prompts")
        folder = "" if own else self.config.folder
        return [os.path.join(folder, path) for path in self.top["eval-prompts"] or ()]

    def files(
        self, paths: Sequence[str], suffixes: Sequence[str] = SUFFIXES, *, say: Say | None = None,
        unreadable: list[str] | None = None,
    ) -> list[Source]:  # fmt: skip
        """Returns the files that paths name; `say` is told how many are left out, and why."""
        exclude = (
            (self.config.folder, self.config.top.get("exclude", ())),
            (os.getcwd(), self.cli_options.get("exclude") or ()),
        )
        git = self.top["respect-gitignore"] is not False
        self.left_out = LeftOut(exclude, git=git, unreadable=unreadable)
        sources = expand(paths, suffixes=suffixes, left_out=self.left_out)
        if say is not None and (line := self.left_out.line()):
            say(line)
        return sources

    def sources(self, paths: list[str]) -> list[Source]:
        """Returns the files that paths name, sorted; in folders, those with a fitting suffix."""
        of_sections = {section["kind"] for _, section in self.config.files if "kind" in section}
        kinds = sorted({self.top["kind"]} | of_sections)
        suffixes = dict.fromkeys(chain(*(_SUFFIXES.get(kind, SUFFIXES) for kind in kinds)))
        exact = {os.path.realpath(path) for path in paths}

        def fits(path: str) -> bool:
            bare = path.lower().removesuffix(".gz").removesuffix(".zst")
            return (
                len(kinds) == 1
                or path.startswith("<")
                or bare.endswith(_SUFFIXES.get(self.of(path)["kind"], SUFFIXES))
                or os.path.realpath(path) in exact
            )

        out = self.files(paths, tuple(suffixes), unreadable=[])
        return sorted((s for s in out if fits(s.path)), key=lambda source: source.path)


def planned(
    options: argparse.Namespace,
    start: str | None = None,
    usual: Mapping[str, Any] = DEFAULTS,
    **extra: Any,
) -> Plan:
    """Returns the plan that a command line asks for, with the nearest settings from `start` up.

    `usual` holds where nobody says anything; `extra` is said by options of other names.
    """
    return Plan(cli_options(options) | extra, config_of(options, start), usual)


def cli_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what a command line sets; None for options that are missing.

    Raises UsageError.
    """
    names = "dialect records kind phase max-tokens fail-on baseline vocab mask"
    out = {name: getattr(options, name.replace("-", "_"), None) for name in names.split()}
    try:
        select, ignore = (getattr(options, name, None) for name in ("select", "ignore"))
        out["select"] = chosen(select) if select else None
        out["ignore"] = chosen(ignore or ())
    except UnknownRuleError as error:
        raise UsageError(str(error)) from None
    path = getattr(options, "system_file", None)
    out["system"] = getattr(options, "system", None)
    if path is not None:
        out["system"] = text_of(path).removesuffix("\n")
    out["tools"] = tuple((name, "", "") for name in getattr(options, "tool", ()))
    out["data-set"] = getattr(options, "data_set", None) or None
    out["eval-prompts"] = tuple(getattr(options, "eval_prompts", None) or ()) or None
    out["eval"] = tuple(getattr(options, "eval", None) or ()) or None
    out["exclude"] = tuple(getattr(options, "exclude", ()))
    out[MAX_RATE] = rates_in(getattr(options, "max_rate", ()))
    out["respect-gitignore"] = False if getattr(options, "no_respect_gitignore", False) else None
    return out


def named_dialect(name: str, vocabulary: str | None = None) -> Dialect:
    """Returns the dialect of that name, on a vocabulary if one is named. Raises UsageError."""
    try:
        return mypt_spec.dialect(dialect_name(name, more=(AUTO,)), vocabulary=vocabulary)
    except mypt_spec.VocabularyError as error:
        raise UsageError(str(error)) from None
