"""What is to be checked, and how: sources grouped by their settings, in order, each group with its checker."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mypt_spec
from mypt_spec.lint.baseline import Key
from mypt_spec.lint.check import Checker
from mypt_spec.lint.config import Config
from mypt_spec.lint.detect import candidates, detect
from mypt_spec.lint.errors import UsageError
from mypt_spec.lint.files import SUFFIXES, expand
from mypt_spec.lint.selection import UnknownRuleError, chosen, selection
from mypt_spec.lint.settings import Settings, settings
from mypt_spec.lint.sources import Source
from mypt_spec.rules.context import ToolSchema

AUTO = "auto"
_SUFFIXES = {
    "text": (".txt", ".text", ".log"),
    "generation": (".txt", ".text", ".jsonl", ".ndjson"),
}
Say = Callable[[str], None]


class Group(NamedTuple):
    """Sources that one checker checks."""

    checker: Checker
    sources: list[Source]
    kind: str


class Plan:
    """The settings of one call: the defaults, the configuration, and what the command line says."""

    def __init__(
        self, options: argparse.Namespace, config: Config, defaults: Mapping[str, Any]
    ) -> None:
        self.config, self.defaults = config, defaults
        # What a fix changes in its line costs time, and only editors and one format ask for it.
        self.edits = any(
            name.startswith("sarif") for name in options.format or (config.top.get("format", ""),)
        )
        try:
            self.given = {
                "dialect": options.dialect,
                "kind": options.kind,
                "phase": options.phase,
                "max-tokens": options.max_tokens,
                "select": chosen(options.select) if options.select else None,
                "ignore": chosen(options.ignore or ()),
                "tools": tuple((name, "", "") for name in options.tool),
                "fail-on": options.fail_on,
                "baseline": options.baseline,
                "data-set": options.data_set or None,
                "eval": tuple(options.eval) if options.eval else None,
                "eval-prompts": options.eval_prompts,
            }
        except UnknownRuleError as error:
            raise UsageError(str(error)) from None
        self.top = self.of(None)

    def of(self, path: str | None) -> Settings:
        """The settings of a file."""
        return settings(path, self.config, self.defaults, self.given)

    @property
    def baseline(self) -> str | None:
        """The baseline file; in a configuration it counts from its folder."""
        return self._file("baseline")

    @property
    def eval_prompts(self) -> list[str]:
        """The prompts that are reserved for evaluation, one a line of the file that is named. Raises UsageError."""
        path = self._file("eval-prompts")
        if path is None:
            return []
        try:
            with open(path, encoding="utf-8") as lines:
                return [line.rstrip("\n") for line in lines if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: the prompts cannot be read: {error}") from None

    def _file(self, key: str) -> str | None:
        """A file that the settings name."""
        path: str | None = self.top[key]
        return path if path is None or self.given[key] else os.path.join(self.config.folder, path)

    def sources(self, paths: list[str]) -> list[Source]:
        """The files that paths name, sorted; in folders, those with a suffix of their kind."""
        kinds = {
            self.top["kind"],
            *(section["kind"] for _, section in self.config.files if "kind" in section),
        }
        suffixes = tuple(
            dict.fromkeys(
                suffix for kind in sorted(kinds) for suffix in _SUFFIXES.get(kind, SUFFIXES)
            )
        )
        found = expand(paths, suffixes=suffixes)
        if len(kinds) > 1:
            named = {os.path.realpath(path) for path in paths}
            found = [
                s
                for s in found
                if os.path.realpath(s.path) in named or s.path.startswith("<") or self._fits(s.path)
            ]
        return sorted(found, key=lambda source: source.path)

    def _fits(self, path: str) -> bool:
        bare = path.lower().removesuffix(".gz").removesuffix(".zst")
        return bare.endswith(_SUFFIXES.get(self.of(path)["kind"], SUFFIXES))

    def groups(
        self, sources: list[Source], *, known: frozenset[Key] | None, say: Say
    ) -> list[Group]:
        """The sources with their checkers; neighbours that are checked alike share one. Says which dialects it finds."""
        out: list[Group] = []
        checkers: dict[tuple[Settings, str, bool], Checker] = {}
        for source in sources:
            own = self.of(source.path)
            name, sure, looked = own["dialect"], False, source
            if name == AUTO:
                name, sure, looked = self._detected(source, own, say)
            key = (own, name, sure)
            if key not in checkers:
                checkers[key] = self._checker(
                    own, name, known, others=own["dialect"] == AUTO and sure
                )
            if out and out[-1].checker is checkers[key]:
                out[-1].sources.append(looked)
            else:
                out.append(Group(checkers[key], [looked], own["kind"]))
        return out

    def _detected(self, source: Source, own: Settings, say: Say) -> tuple[str, bool, Source]:
        guess = detect(source, own["kind"], candidates(self.defaults["dialect"]))
        also = (
            f" ({', '.join(guess.others)} would fit as well; choose with --dialect)"
            if guess.others and guess.sure
            else ""
        )
        doubt = (
            ""
            if guess.sure
            else " is taken for it: nothing at its beginning is legal in any dialect; choose with --dialect"
        )
        say(f"{source.path}: {guess.dialect.name}{also}{doubt}")
        return guess.dialect.name, guess.sure, guess.source

    def _checker(
        self, own: Settings, name: str, known: frozenset[Key] | None, *, others: bool
    ) -> Checker:
        if name not in mypt_spec.dialects():
            raise UsageError(
                f"no dialect {name!r}; known are {AUTO}, {', '.join(mypt_spec.dialects())}"
            )
        dialect = mypt_spec.dialect(name)
        phases = len(dialect.table.phases)
        if own["phase"] is not None and not 1 <= own["phase"] <= phases:
            has = f"has phases 1 to {phases}" if phases else "has no phases"
            raise UsageError(f"--phase {own['phase']}: {dialect.name} {has}")
        tools = own["tools"] or ()
        schemas = tuple(ToolSchema(*tool) for tool in tools if tool[1] or tool[2])
        limits = mypt_spec.Limits(
            own["phase"], own["max-tokens"], frozenset(tool[0] for tool in tools), schemas
        )
        if own["max-tokens"]:
            dialect.tokenizer.encode(
                ""
            )  # a missing vocabulary is said now, not on the first long line
        rest = (
            tuple(d for d in candidates(self.defaults["dialect"]) if d is not dialect)
            if others
            else ()
        )
        return Checker(
            dialect,
            limits,
            self.codes(own),
            rest,
            known=known,
            severities=own["severity"] or (),
            edits=self.edits,
        )

    @staticmethod
    def codes(own: Settings) -> frozenset[str]:
        """The rules to report."""
        return selection(own["select"], own["ignore"])
