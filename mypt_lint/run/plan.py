"""Plans a run: which sources, in what order, and by which settings each is checked.

Output are groups of neighbouring sources with equal settings, each with its checker. Other commands
that read data plan by the same code, so all of them check a file alike.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.inputs import text_of
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.left_out import LeftOut
from mypt_cli.jsonl.names import MANIFEST, SUFFIXES
from mypt_cli.jsonl.paths import expand
from mypt_cli.parser import dialect_name
from mypt_cli.run import in_threads
from mypt_cli.words import either
from mypt_lint.check.baseline import Key
from mypt_lint.check.checker import Checker
from mypt_lint.check.detect import Guess, candidates, detect, elsewhere_than, in_order
from mypt_lint.check.foreign import ReadInDialect
from mypt_lint.check.from_settings import checker, hidden
from mypt_lint.run.shape import about, format_of_texts, shape_note, with_shape
from mypt_lint.settings.config import Config, config_of
from mypt_lint.settings.options import DEFAULTS
from mypt_lint.settings.rates import KEY as MAX_RATE
from mypt_lint.settings.rates import rates_in
from mypt_lint.settings.selection import UnknownRuleError, chosen
from mypt_lint.settings.settings import Settings, settings
from mypt_records.names import AUTO, DETECTABLE, OTHER, TEXTS
from mypt_spec.dialect import Dialect
from mypt_spec.tokenizer.vocabulary import COPIES

_THREADS = 32  # that wait for a store, or for a disk where there are _MANY files
_MANY = 100
_SUFFIXES = {
    "text": (".txt", ".text", ".log"),
    "generation": (".txt", ".text", ".jsonl", ".ndjson"),
}
Say = Callable[[str], None]
_Choice = tuple[str, Settings, Source]  # a dialect or shape, settings, and the source to read


class Group(NamedTuple):
    """Sources that one checker checks."""

    checker: Checker
    sources: list[Source]
    kind: str

    @property
    def about(self) -> str:
        """Returns what the sources hold, in words."""
        checker, name = self.checker, self.checker.dialect.name
        if self.kind != "record" or not checker.shape:
            return f"{name} {'records' if self.kind == 'record' else self.kind}"
        return about(checker.shape) + ("" if checker.formatless else f", checked as {name}")


class Resolved(NamedTuple):
    """How a source is checked.

    `others` are the dialects in which its faulty records may be; `source` is the one to read.
    `formatless`: its records are of other tools, and no dialect was named for them.
    """

    settings: Settings
    dialect: str
    others: tuple[Dialect, ...]
    source: Source
    formatless: bool = False

    def checker(
        self, vocabulary: str | None, *, baseline: frozenset[Key] | None = None, edits: bool = False
    ) -> Checker:
        """Returns the checker of the source. Raises UsageError."""
        return checker(
            self.settings,
            named_dialect(self.dialect, vocabulary),
            others=self.others,
            misnamed=self.settings["dialect"] != AUTO and bool(self.others),
            baseline=baseline,
            edits=edits,
            formatless=self.formatless,
        )


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
        return self._file("baseline")

    @property
    def eval_prompts(self) -> list[str]:
        """Returns the files of texts reserved for evaluation."""
        own = self.cli_options.get("eval-prompts")
        folder = "" if own else self.config.folder
        return [os.path.join(folder, path) for path in self.top["eval-prompts"] or ()]

    def _file(self, key: str) -> str | None:
        path: str | None = self.top[key]
        from_settings = path is not None and not self.cli_options.get(key)
        return os.path.join(self.config.folder, path or "") if from_settings else path

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

    def groups(
        self, sources: list[Source], *, baseline: frozenset[Key] | None, say: Say
    ) -> list[Group]:
        """Returns sources with checkers, which equal neighbours share; tells `say` the dialects."""
        out: list[Group] = []
        checkers: dict[tuple[Any, ...], Checker] = {}
        for source in sources:
            resolution = self.resolved(source, say)
            vocabulary = self.cli_options.get("vocab")
            if vocabulary is None and resolution.settings["kind"] == "rows":
                vocabulary = _prepared_with(source.path)
            key = (resolution.settings, resolution.dialect, resolution.others, vocabulary)
            if key not in checkers:
                plain = resolution.checker(vocabulary, baseline=baseline, edits=self.edits)
                checkers[key] = replace(plain, by_model=self.by_model)
            if out and out[-1].checker is checkers[key]:
                out[-1].sources.append(resolution.source)
            else:
                out.append(Group(checkers[key], [resolution.source], resolution.settings["kind"]))
        return out

    def dialect_of(self, source: Source, say: Say) -> _Choice:
        """Returns the dialect of a source; `say` is told what is found.

        Raises UsageError where only the user can say the dialect.
        """
        options = self.of(source.path)
        if options["dialect"] != AUTO:
            options, source = with_shape(options, source, definite=True)
            if options["records"] == TEXTS and options.origin("dialect") == "default":
                name, doubt, source = format_of_texts(source)
                if doubt:
                    raise UsageError(f"{source.path}: {doubt}")
                options = options.having(dialect=name or options["dialect"])
            shape = options["records"]
            if shape in DETECTABLE and self.of(source.path)["records"] != shape:
                sure = shape == TEXTS or options.origin("dialect") != "default"
                note = shape_note(shape, options["dialect"]) if sure else about(shape)
                say(f"{source.path}: {note}")
            _check_system(options, options["dialect"], source)
            return options["dialect"], options, source
        dialects = candidates(self.defaults["dialect"])
        guess = detect(source, options["kind"], dialects, hidden(options))
        if guess.sure:
            say(_guessed(source, guess))
            return guess.dialect.name, options, guess.source
        options, name, _, reread, formatless = self.resolved(guess.source, say)
        if formatless:
            raise UsageError(f"{source.path}: no dialect fits the records; choose --dialect")
        return name, options, reread

    def format_of(self, source: Source, say: Say) -> _Choice:
        """Returns the dialect or shape of the records of a source; `say` is told what is found."""
        options = self.of(source.path)
        name = options["dialect"]
        if name in DETECTABLE or (name != AUTO and options.origin("dialect") != "default"):
            return name, options, source
        lines: list[str] = []
        resolution = self.resolved(source, lines.append)
        if resolution.formatless:
            shape = resolution.settings["records"]
            say(f"{source.path}: {about(shape)}; use --from {shape} to choose this shape")
            return shape, options, resolution.source
        for line in lines:
            say(line.replace("--dialect", "--from"))
        return resolution.dialect, resolution.settings, resolution.source

    def one_dialect(
        self, sources: Sequence[Source], say: Say, *, what: str
    ) -> tuple[Dialect, list[Settings], list[Source]]:
        """Returns (dialect, settings of each, sources to read) for sources of one dialect.

        Raises UsageError, which says `what` holds one dialect, where they have several.
        """
        results = self._dialects_of(sources, say)
        first: dict[Dialect, str] = {}
        for (name, _, _), source in zip(results, sources, strict=True):
            first.setdefault(named_dialect(name), source.path)
        if len(first) > 1:
            listed = ", ".join(f"{path} is {d.name}" for d, path in first.items())
            raise UsageError(f"{what} holds one dialect: {listed}; choose with --dialect")
        (dialect,) = first
        return dialect, [settings for _, settings, _ in results], [s for *_, s in results]

    def of_model(self, sources: Sequence[Source], say: Say) -> tuple[list[Source], list[Settings]]:
        """Returns (sources to read, settings of each) for chats that a chat template writes."""
        results = [self.resolved(source, say) for source in sources]
        return [result.source for result in results], [result.settings for result in results]

    def _dialects_of(self, sources: Sequence[Source], say: Say) -> list[_Choice]:
        """Returns `dialect_of` each source; many files, and objects, are read side by side."""
        here = [self.dialect_of(source, say) for source in sources[:1]]
        others = sources[1:]
        if len(others) < _MANY and not any(source.remote for source in others):
            return here + [self.dialect_of(source, say) for source in others]
        step = 1 + len(others) // (_THREADS * 8)

        def some(first: int) -> tuple[list[_Choice], list[str]]:
            lines: list[str] = []
            return [self.dialect_of(s, lines.append) for s in others[first : first + step]], lines

        for results, lines in in_threads(some, range(0, len(others), step), _THREADS):
            here += results
            for line in lines:
                say(line)
        return here

    def resolved(self, source: Source, say: Say) -> Resolved:
        """Returns how a source is checked; `say` is told what is found. Raises UsageError."""
        options = self.of(source.path)
        requested, usual = options["records"], self.defaults["dialect"]
        sure = options["dialect"] != AUTO and options.origin("dialect") != "default"
        options, source = with_shape(options, source, definite=sure)
        name = options["dialect"]
        if options["records"] in DETECTABLE:
            if self.by_model:
                is_chat = options["records"] not in ("plain", TEXTS, OTHER)
                checked = "checked" if is_chat else "there is no chat to check"
                say(f"{source.path}: {about(options['records'])}; {checked} by the chat template")
            elif options["records"] not in (requested, OTHER):
                say(f"{source.path}: {shape_note(options['records'], name if sure else '')}")
            formatless = not sure or self.by_model is not None
            return Resolved(options, name if sure else DEFAULTS["dialect"], (), source, formatless)
        if self.by_model:
            fault = f"{source.path}: --model reads chats of other tools, such as openai"
            raise UsageError(f"{fault}; make them with mypt-convert, or use --dialect alone")
        _check_system(options, name, source)
        if name != AUTO:
            if options["kind"] != "record":
                return Resolved(options, name, (), source)
            others, source = elsewhere_than(source, mypt_spec.dialect(name), in_order(usual))
            if others and not sure:
                name = others[0].name
                names = either([d.name for d in others])
                say(f"{source.path}: {names}; use --dialect {name} to choose it")
                others = ()
            return Resolved(options, name, others, source)
        dialects = candidates(usual, options["kind"])
        guess = detect(source, options["kind"], dialects, hidden(options))
        say(_guessed(source, guess))
        others = tuple(d for d in dialects if d is not guess.dialect) if guess.sure else ()
        return Resolved(options, guess.dialect.name, others, guess.source)


def _check_system(options: Settings, name: str, source: Source) -> None:
    """Raises UsageError for a prompt of the command line that would change no record of a source.

    Settings may hold for many files, some of which have prompts of their own.
    """
    if options["system"] is None or options["records"] in DETECTABLE:
        return
    if options.origin("system") != "command line":
        return
    of = "a dialect" if name == AUTO else name
    fault = f"{source.path}: --system changes no records of {of}; remove it"
    raise UsageError(f"{fault}, or name their shape, such as --records openai, to read them by it")


def _prepared_with(path: str) -> str | None:
    """Returns the vocabulary in the prepared folder that a file of rows is in; None for none."""
    for folder in Path(path).absolute().parents[:2]:
        if (folder / MANIFEST).is_file():
            copies = (folder / name for name in COPIES)
            return next((str(copy) for copy in copies if copy.is_file()), None)
    return None


def _guessed(source: Source, guess: Guess) -> str:
    """Returns the line about a detected dialect."""
    more = ""
    if not guess.sure:
        more = (
            " is assumed, because nothing at the beginning is legal in any dialect; choose with "
            "--dialect"
        )
    elif guess.others:
        more = f" ({', '.join(guess.others)} are also possible; choose with --dialect)"
    return f"{source.path}: {guess.dialect.name}{more}"


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
    names = (
        "dialect", "records", "kind", "phase", "max-tokens", "fail-on", "baseline", "vocab",
        "mask",
    )  # fmt: skip
    out = {name: getattr(options, name.replace("-", "_"), None) for name in names}
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
