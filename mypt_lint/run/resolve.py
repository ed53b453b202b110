"""Detects how each source of a plan is checked, and groups neighbours that are checked alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mypt_spec
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.blocks import Source
from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.run import in_threads
from mypt_cli.words import either
from mypt_lint.check.baseline import Key
from mypt_lint.check.checker import Checker
from mypt_lint.check.detect import Guess, candidates, detect, elsewhere_than, in_order
from mypt_lint.check.from_settings import checker, hidden
from mypt_lint.run.plan import Plan, Say, named_dialect
from mypt_lint.run.shape import about, format_of_texts, shape_note, with_shape
from mypt_lint.settings.options import DEFAULTS
from mypt_lint.settings.settings import Settings
from mypt_records.names import AUTO, DETECTABLE, OTHER, TEXTS
from mypt_spec.dialect import Dialect
from mypt_spec.tokenizer.vocabulary import COPIES

_THREADS = 32  # that wait for a store, or for a disk where there are _MANY files
_MANY = 100
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
            self.settings, named_dialect(self.dialect, vocabulary), others=self.others,
            misnamed=self.settings["dialect"] != AUTO and bool(self.others), baseline=baseline,
            edits=edits, formatless=self.formatless,
        )  # fmt: skip


def group_sources(
    plan: Plan, sources: list[Source], *, baseline: frozenset[Key] | None, say: Say
) -> list[Group]:
    """Returns sources with checkers, which equal neighbours share; tells `say` the dialects."""
    out: list[Group] = []
    checkers: dict[tuple[Any, ...], Checker] = {}
    for source in sources:
        resolution = resolved(plan, source, say)
        vocabulary = plan.cli_options.get("vocab")
        if vocabulary is None and resolution.settings["kind"] == "rows":
            vocabulary = _prepared_with(source.path)
        key = (resolution.settings, resolution.dialect, resolution.others, vocabulary)
        if key not in checkers:
            plain = resolution.checker(vocabulary, baseline=baseline, edits=plan.edits)
            checkers[key] = replace(plain, by_model=plan.by_model)
        if out and out[-1].checker is checkers[key]:
            out[-1].sources.append(resolution.source)
        else:
            out.append(Group(checkers[key], [resolution.source], resolution.settings["kind"]))
    return out


def dialect_of(plan: Plan, source: Source, say: Say) -> _Choice:
    """Returns the dialect of a source; `say` is told what is found.

    Raises UsageError where only the user can say the dialect.
    """
    options = plan.of(source.path)
    if options["dialect"] != AUTO:
        options, source = with_shape(options, source, definite=True)
        if options["records"] == TEXTS and options.origin("dialect") == "default":
            name, doubt, source = format_of_texts(source)
            if doubt:
                raise UsageError(f"{source.path}: {doubt}")
            options = options.having(dialect=name or options["dialect"])
        shape = options["records"]
        if shape in DETECTABLE and plan.of(source.path)["records"] != shape:
            sure = shape == TEXTS or options.origin("dialect") != "default"
            note = shape_note(shape, options["dialect"]) if sure else about(shape)
            say(f"{source.path}: {note}")
        _check_system(options, options["dialect"], source)
        return options["dialect"], options, source
    dialects = candidates(plan.defaults["dialect"])
    guess = detect(source, options["kind"], dialects, hidden(options))
    if guess.sure:
        say(_guessed(source, guess))
        return guess.dialect.name, options, guess.source
    options, name, _, reread, formatless = resolved(plan, guess.source, say)
    if formatless:
        raise UsageError(f"{source.path}: no dialect fits the records; choose --dialect")
    return name, options, reread


def format_of(plan: Plan, source: Source, say: Say) -> _Choice:
    """Returns the dialect or shape of the records of a source; `say` is told what is found."""
    options = plan.of(source.path)
    name = options["dialect"]
    if name in DETECTABLE or (name != AUTO and options.origin("dialect") != "default"):
        return name, options, source
    lines: list[str] = []
    resolution = resolved(plan, source, lines.append)
    if resolution.formatless:
        shape = resolution.settings["records"]
        say(f"{source.path}: {about(shape)}; use --from {shape} to choose this shape")
        return shape, options, resolution.source
    for line in lines:
        say(line.replace("--dialect", "--from"))
    return resolution.dialect, resolution.settings, resolution.source


def one_dialect(
    plan: Plan, sources: Sequence[Source], say: Say, *, what: str
) -> tuple[Dialect, list[Settings], list[Source]]:
    """Returns (dialect, settings of each, sources to read) for sources of one dialect.

    Raises UsageError, which says `what` holds one dialect, where they have several.
    """
    results = _dialects_of(plan, sources, say)
    first: dict[Dialect, str] = {}
    for (name, _, _), source in zip(results, sources, strict=True):
        first.setdefault(named_dialect(name), source.path)
    if len(first) > 1:
        listed = ", ".join(f"{path} is {d.name}" for d, path in first.items())
        raise UsageError(f"{what} holds one dialect: {listed}; choose with --dialect")
    (dialect,) = first
    return dialect, [settings for _, settings, _ in results], [s for *_, s in results]


def _dialects_of(plan: Plan, sources: Sequence[Source], say: Say) -> list[_Choice]:
    """Returns `dialect_of` each source; many files, and objects, are read side by side."""
    here = [dialect_of(plan, source, say) for source in sources[:1]]
    others = sources[1:]
    if len(others) < _MANY and not any(source.remote for source in others):
        return here + [dialect_of(plan, source, say) for source in others]
    step = 1 + len(others) // (_THREADS * 8)

    def some(first: int) -> tuple[list[_Choice], list[str]]:
        lines: list[str] = []
        return [dialect_of(plan, s, lines.append) for s in others[first : first + step]], lines

    for results, lines in in_threads(some, range(0, len(others), step), _THREADS):
        here += results
        for line in lines:
            say(line)
    return here


def resolved(plan: Plan, source: Source, say: Say) -> Resolved:
    """Returns how a source is checked; `say` is told what is found. Raises UsageError."""
    options = plan.of(source.path)
    requested, usual = options["records"], plan.defaults["dialect"]
    sure = options["dialect"] != AUTO and options.origin("dialect") != "default"
    foreign = plan.by_model is not None
    options, source = with_shape(options, source, definite=sure, foreign=foreign)
    name = options["dialect"]
    if options["records"] in DETECTABLE:
        if plan.by_model:
            is_chat = options["records"] not in ("plain", TEXTS, OTHER)
            checked = "checked" if is_chat else "there is no chat to check"
            say(f"{source.path}: {about(options['records'])}; {checked} by the chat template")
        elif options["records"] not in (requested, OTHER):
            say(f"{source.path}: {shape_note(options['records'], name if sure else '')}")
        formatless = not sure or plan.by_model is not None
        return Resolved(options, name if sure else DEFAULTS["dialect"], (), source, formatless)
    if plan.by_model:
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

    Settings may apply to many files, and some of these may already have a system prompt.
    """
    is_option = options["system"] is not None and options.origin("system") == "command line"
    if not is_option or options["records"] in DETECTABLE:
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
