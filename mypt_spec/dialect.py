"""The front door: one object for each dialect, with all that is derived from its grammar."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

from mypt_spec import automaton as _automaton
from mypt_spec.adapters.base import Adapter, Reader
from mypt_spec.automaton import Automaton
from mypt_spec.encoder import Encoded, Segment, encode_events, segments
from mypt_spec.episode import Episode, Event
from mypt_spec.findings import Finding
from mypt_spec.lexer import lex, lex_ids
from mypt_spec.parser import build, parse_text, spacing
from mypt_spec.record_schema import check_record, metadata
from mypt_spec.rules import Limits, check_episode
from mypt_spec.serializer import legal_events, prove, to_text
from mypt_spec.table import SpecError, TokenTable
from mypt_spec.table_file import load_table
from mypt_spec.tokenizer.tokenizer import Tokenizer
from mypt_spec.tokenizer.vocabulary import Ranks, read_ranks
from mypt_spec.validator import Outcome, Run

_PACKAGE = Path(__file__).parent
_COMPILED = _PACKAGE / "compiled"


def grammar_root() -> Path:
    """The folder of grammar folders: inside the package when installed, beside it in a checkout."""
    inside = _PACKAGE / "grammar"
    return inside if inside.is_dir() else _PACKAGE.parent / "grammar"


@dataclass(frozen=True, eq=False)
class Dialect:
    """One format. Get it with `mypt_spec.dialect(name)`; it is immutable and can be shared between
    threads.

    `fingerprint` is equal for equal grammar, token table and vocabulary.

    >>> import mypt_spec
    >>> d = mypt_spec.dialect("mypt")
    >>> ep, findings = d.read({"system": "S", "messages": [{"role": "user", "content": "Hi"},
    ...                                                    {"role": "assistant", "content": "Yo"}]})
    >>> d.serialize(ep)
    '<myPT_system>S</myPT_system><myPT_user>Hi</myPT_user><myPT_assistant>Yo</myPT_assistant><myPT_eot>'
    >>> d.parse(d.serialize(ep, layout="lines"))[0] == ep
    True
    """

    table: TokenTable
    automaton: Automaton
    adapter: Adapter
    fingerprint: str
    ranks: Ranks | None = None

    @property
    def name(self) -> str:
        return self.table.name

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """`.encode(text)` (ordinary ids only), `.decode(ids)`, `.special`, `.vocab_size`; see
        `mypt_spec.Tokenizer`.
        """
        return Tokenizer(self.table, self.ranks)

    def read(self, record: object) -> tuple[Episode | None, list[Finding]]:
        """A JSON object (as `json.loads` gives it) to an Episode; None when it cannot be read
        without loss.

        The findings are about the record's shape (families 0 and 1) and about what an Episode
        cannot hold (a result under another name than its call). Whether the Episode is *legal* is
        for `validate` to say. Never raises.
        """
        check = getattr(self.adapter, "check", None)
        checked, findings, lifted = (
            check(record) if check else check_record(record, self.adapter.SCHEMA)
        )
        if checked is None:
            return None, findings
        messages = self.adapter.read(checked, Reader(self.table, findings, lifted))
        kept = getattr(self.adapter, "metadata", metadata)(checked)
        return Episode(self.name, tuple(messages), checked.get("language"), kept), findings

    def write(self, episode: Episode) -> dict[str, Any]:
        """An Episode to its canonical record: a fixed point of `read` and `write`.

        Raises ValueError when no record can hold it (text of an assistant that spells a whole
        citation, for instance), which is proved by reading the record back.
        """
        record = self.adapter.write(episode, self.table)
        if episode.language is not None:
            record["language"] = episode.language
        record |= episode.meta
        back, findings = self.read(record)
        if back != episode:
            raise ValueError(
                "no record can hold this Episode: "
                f"{findings[0].message if findings else 'it comes back as another'}"
            )
        return record

    def serialize(self, episode: Episode, *, layout: str = "compact") -> str:
        """An Episode to text. Layouts are those of the token table ("compact"; mypt also has
        "lines").

        Raises ValueError for an unknown layout, and for an Episode that no legal text can express.
        """
        return to_text(episode, self.table, self.automaton, layout=layout)

    def parse(self, text: str) -> tuple[Episode | None, list[Finding]]:
        """Text, in any layout, to an Episode; None when there is an error among the findings. Never
        raises.

        >>> import mypt_spec
        >>> cut_short = "<myPT_system>S</myPT_system><myPT_user>Hi<myPT_eot>"
        >>> ep, findings = mypt_spec.dialect("mypt").parse(cut_short)
        >>> ep is None, findings[0].code, findings[0].expected
        (True, 'MYP203', ('text', '</myPT_user>'))
        """
        return parse_text(text, self.table, self.automaton)

    def validate(
        self, episode: Episode, phase: int | None = None, *, limits: Limits | None = None
    ) -> list[Finding]:
        """Everything that can be said of an Episode: placement, payload, and, if given, the phase
        (1-5) and other limits.

        An Episode without errors is exactly one that `serialize` can write and the decoder can
        generate. Never raises.
        """
        limits = limits or Limits(phase=phase)
        return check_episode(
            episode,
            self.table,
            self.automaton,
            self.tokenizer,
            limits,
            getattr(self.adapter, "validate", None),
        )

    def check(
        self, record: object, *, limits: Limits | None = None
    ) -> tuple[Episode | None, list[Finding]]:
        """`read`, and where that gives an Episode `validate`: all that can be said of a record.

        Never raises.
        """
        episode, findings = self.read(record)
        return episode, findings if episode is None else [
            *findings,
            *self.validate(episode, limits=limits),
        ]

    @property
    def preferences(self) -> bool:
        """Whether records of the dialect can say which of two answers is preferred, or whether an
        answer is good.
        """
        return hasattr(self.adapter, "preference")

    def preference(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, bool | None]:
        """What a legal record says beside its answer: the record with the rejected answer in its
        place, and the label; None each if not.
        """
        ask: Any = getattr(self.adapter, "preference", None)
        found: tuple[dict[str, Any] | None, bool | None] = ask(record) if ask else (None, None)
        return found

    def encode(self, episode: Episode, *, partial: bool = False) -> Encoded:
        """Token ids (uint32, shape (n,)) and loss (uint8, shape (n,)) of an Episode.

        Text that spells a single-id tag becomes the ordinary ids of its letters. Raises ValueError
        for misplaced blocks, and for content that spells a tag of plain text. `partial` allows a
        legal beginning, a prompt.
        """
        return encode_events(self._encodable(episode, partial), self.table, self.tokenizer)

    def segments(self, episode: Episode, *, partial: bool = False) -> list[Segment]:
        """What `encode` joins: every tag and text run with its ids, its loss and the blocks around
        it. Raises as `encode`.
        """
        return list(segments(self._encodable(episode, partial), self.table, self.tokenizer))

    def refusal(self, episode: Episode) -> str:
        """Why `encode` refuses an Episode; empty where it does not."""
        try:
            self._encodable(episode, partial=False)
        except ValueError as error:
            return str(error)
        return ""

    def _encodable(self, episode: Episode, partial: bool) -> list[Event]:
        events = legal_events(episode, self.table, self.automaton, complete=not partial)
        if self.table.plain_tags:
            prove(
                events, self.table, ids=True
            )  # where tags are ordinary text, content that spells one would come back as structure
        return events

    def parse_ids(self, ids: Sequence[int] | Iterable[int]) -> tuple[Episode | None, list[Finding]]:
        """Token ids (any integers, shape (n,)) to an Episode; spans of the findings count tokens.

        Never raises.
        """
        try:
            items: list[object] = list(ids)
        except TypeError:
            items = [ids]
        events, findings = lex_ids(
            items, self.table, self.tokenizer.decode_bytes, self.tokenizer.ordinary
        )
        outcome = Run(self.table, self.automaton, spaces=False).check(events)
        episode, found = build(outcome, self.table)
        return (None if findings else episode), findings + found + spacing(outcome)

    def lex(self, text: str) -> list[Event]:
        """Serialised text cut into events, whether legal or not."""
        return list(lex(text, self.table))

    def check_prefix(self, text: str) -> Outcome:
        """Run a text that may stop anywhere:

        `.findings` is empty for a legal beginning, `.state` is where it stops.
        """
        return Run(self.table, self.automaton, complete=False).check(self.lex(text))


def load(folder: Path, adapter: Adapter | None = None) -> Dialect:
    """Load a grammar folder (`<folder>.lark`, `tokens.toml`). Raises SpecError naming the file and
    what is wrong.

    The adapter is the module `mypt_spec.adapters.<folder>` unless another is given.
    """
    try:
        grammar = (folder / f"{folder.name}.lark").read_text(encoding="utf-8")
        tokens = (folder / "tokens.toml").read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{folder}: cannot read {error.filename}: {error.strerror}") from None
    table = load_table(tokens, where=str(folder / "tokens.toml"))
    if adapter is None:
        adapter = cast(Adapter, importlib.import_module(f"mypt_spec.adapters.{folder.name}"))
    machine = _compiled(folder.name, grammar) or _automaton.extract(grammar)
    _check(table, machine, folder)
    return Dialect(
        table, machine, adapter, hashlib.sha256(f"{grammar}\0{tokens}".encode()).hexdigest()
    )


def _compiled(name: str, grammar: str) -> Automaton | None:
    """The shipped table, when it was extracted from this very grammar.

    Extraction takes longer than linting a small file.
    """
    path = _COMPILED / f"{name}.json"
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return (
        Automaton.from_dict(data)
        if data.get("grammar_sha256") == _automaton.fingerprint(grammar)
        else None
    )


def _check(table: TokenTable, machine: Automaton, folder: Path) -> None:
    used = {t for row in machine.steps for t in row} - {"TEXT"}
    for name in sorted(used ^ set(table.terminals)):
        where = "tokens.toml has no row for it" if name in used else "the grammar never uses it"
        raise SpecError(f"{folder}: terminal {name}: {where}")


@cache
def _folders() -> dict[str, Path]:
    import tomllib

    found = {}
    for path in sorted(grammar_root().glob("*/tokens.toml")):
        found[tomllib.loads(path.read_text(encoding="utf-8"))["dialect"]["name"]] = path.parent
    return found


def dialects() -> tuple[str, ...]:
    """Names of the dialects that are installed, sorted."""
    return tuple(sorted(_folders()))


def dialect(name: str, *, vocabulary: str | Path | None = None) -> Dialect:
    """The dialect of that name, loaded once. Raises KeyError naming the known ones.

    `vocabulary` is a file of ranks, as tiktoken writes them, that stands in for the vocabulary that
    the dialect names: the same grammar, other ids. Raises VocabularyError for a file that is none.
    """
    return _loaded(name) if vocabulary is None else _on(name, read_ranks(vocabulary))


@cache
def _loaded(name: str) -> Dialect:
    return load(folder(name))


@cache
def _on(name: str, ranks: Ranks) -> Dialect:
    base = _loaded(name)
    fingerprint = hashlib.sha256(f"{base.fingerprint}\0{ranks.sha256}".encode()).hexdigest()
    return replace(
        base,
        table=base.table.on(ranks.name, len(ranks.ranks)),
        ranks=ranks,
        fingerprint=fingerprint,
    )


def folder(name: str) -> Path:
    """The grammar folder of a dialect. Raises KeyError naming the known ones."""
    folders = _folders()
    if name not in folders:
        raise KeyError(f"no dialect {name!r}; known are {', '.join(sorted(folders))}")
    return folders[name]
