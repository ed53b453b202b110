"""Loads dialects: one object for each, with all that is derived from its grammar.

Input is a folder of `grammar/`: a Lark grammar and a token table. A `Dialect` reads, checks, writes
and encodes by the same automaton, so that these cannot disagree.
"""

import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

from mypt_spec import automaton as _automaton
from mypt_spec.adapters.base import Adapter, Reader, Unread
from mypt_spec.automaton import Automaton
from mypt_spec.compiled.toml import load as load_toml
from mypt_spec.damage.untagged import with_tags
from mypt_spec.encoder import Encoded, Mask, Segment, encode_events, segments
from mypt_spec.episode import Episode, Event, Place, events_of
from mypt_spec.findings import Finding
from mypt_spec.history import check as check_history
from mypt_spec.history import episodes
from mypt_spec.lexer import lex, lex_ids
from mypt_spec.masks.failures import FAILED, failed_calls
from mypt_spec.masks.record import Cuts, cut_texts, weights_of
from mypt_spec.parser import build, parse_text, spacing
from mypt_spec.rules import Limits, check_episode
from mypt_spec.rules.shared_mistakes import shared_mistakes
from mypt_spec.serializer import ended, legal_events, prove, to_text
from mypt_spec.states import result_opener, split_states
from mypt_spec.table import SpecError, TokenTable
from mypt_spec.table_file import as_texts, grammar_root, load_table
from mypt_spec.tokenizer.tokenizer import Tokenizer
from mypt_spec.tokenizer.vocabulary import Vocabulary, VocabularyError, match_required, with_texts
from mypt_spec.validator import Outcome, Run

_PACKAGE = Path(__file__).parent
_COMPILED = _PACKAGE / "compiled"
_LARGEST = 16 << 20  # bytes of a file that says what a format is
TOKENS = "tokens.toml"  # the token table
RECORDS = "records.toml"  # says how to read the records of a dialect
_FAMILIES = "families"  # in the root, a folder for each
_LIKE = re.compile('^like = "(.*)"\n', re.MULTILINE)
SHARED = "mistakes.toml"  # in the root of all grammars: names for what those of chats refuse
CODE = "adapter.py"  # reads the records of a dialect of one's own; run where its folder is named


@dataclass(frozen=True, eq=False)
class Dialect:
    """One format. `mypt_spec.dialect(name)` returns it; it is immutable and threads may share it.

    `fingerprint` is a SHA-256 in hexadecimal, equal for equal grammar, token table and vocabulary.
    `folder` is where a dialect of one's own was loaded from, None for those of the package.

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
    vocabulary: Vocabulary | None = None
    folder: Path | None = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def spec(self) -> str:
        """Returns what `mypt_spec.dialect` takes to load it again: its name or its folder."""
        if self.folder is None or self.folder == families().get(self.name):
            return self.name
        return f"{self.folder.as_posix()}/"

    @property
    def files(self) -> dict[str, bytes]:
        """Returns the files that a copy of a folder of one's own needs, by name; else none.

        They are written beside data and models, so that these need no other place. An `adapter.py`
        is not among them: nothing runs code that came with data.
        """
        if self.folder is None:
            return {}
        records = self.folder / RECORDS
        return {
            f"{self.name}.lark": _grammar_file(self.folder).read_bytes(),
            TOKENS: table_text(self.folder).encode(),
        } | ({records.name: records.read_bytes()} if records.is_file() else {})

    @property
    def all_files(self) -> dict[str, bytes]:
        """Returns `files`, and the vocabulary where it is another than the dialect's, by name."""
        return self.files | ({} if self.vocabulary is None else self.vocabulary.copy)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Returns the tokenizer of the base vocabulary and of the dialect's special ids.

        Its `encode(text)` returns ordinary ids only; see `mypt_spec.Tokenizer`.
        """
        return Tokenizer(self.table, self.vocabulary)

    @property
    def new_tags(self) -> dict[str, int]:
        """Returns the tags that the vocabulary itself did not have, with their ids."""
        known = set() if self.vocabulary is None else set(self.vocabulary.special.values())
        return {tag: i for tag, i in self.tokenizer.special.items() if i not in known}

    def read(self, record: object) -> tuple[Episode | None, list[Finding]]:
        """Reads a JSON object, as `json.loads` returns it, into an Episode.

        Returns None for the Episode where the record cannot be read without loss. The findings are
        about the record's shape (families 0 and 1), and about what an Episode cannot hold, such as
        a result that has another name than its call. `validate` says whether the Episode is legal.
        Never raises. Implements "Records" of each grammar/*/SPEC.md.
        """
        checked, findings, lifted = self.adapter.check(record)
        if checked is None:
            return None, findings
        messages = self.adapter.read(checked, Reader(self.table, findings, lifted))
        meta = self.adapter.metadata(checked)
        return Episode(self.name, tuple(messages), checked.get("language"), meta), findings

    def write(self, episode: Episode) -> dict[str, Any]:
        """Returns the canonical record of an Episode, a fixed point of `read` and `write`.

        Raises ValueError when no record can hold the Episode, for instance when text of an
        assistant spells a whole citation. The proof is that the record is read back.
        """
        return self.canonical(episode)[0]

    def canonical(
        self, episode: Episode, source: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], Episode]:
        """Returns the canonical record, as `write` does, and the Episode that is read from it.

        `source` is the record that the Episode was read from. Where it is canonical, keys in order,
        that reading is the proof.
        """
        record = self.adapter.write(episode, self.table)
        if episode.language is not None:
            record["language"] = episode.language
        record |= episode.meta
        if source is not None and repr(source) == repr(record):
            return record, episode
        back, findings = self.read(record)
        if back != episode:
            why = findings[0].message if findings else "it comes back as another"
            raise ValueError(f"no record can hold this Episode: {why}")
        return record, back

    def serialize(self, episode: Episode, *, layout: str = "compact") -> str:
        """Returns the text of an Episode in a layout of the token table.

        Every dialect takes "compact" and "lines". Raises ValueError for an unknown layout, and for
        an Episode that no legal text can express. Implements "Layouts" of grammar/mypt/SPEC.md.
        """
        return to_text(episode, self.table, self.automaton, layout=layout)

    def parse(self, text: str) -> tuple[Episode | None, list[Finding]]:
        """Reads text in any layout into an Episode; None when a finding is an error. Never raises.

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
        """Returns all findings about an Episode: placement, payload, and what the limits ask for.

        `phase` is 1 to 5; it is ignored where `limits` are given, which hold a phase too. An
        Episode without errors is exactly one that `serialize` can write and the decoder can
        generate. Never raises.
        """
        limits, adapter = limits or Limits(phase=phase), self.adapter
        objects = self.table, self.automaton, self.tokenizer
        return check_episode(episode, *objects, limits, adapter.validate, adapter.tools)

    def check(
        self, record: object, *, limits: Limits | None = None
    ) -> tuple[Episode | None, list[Finding]]:
        """Reads a record and validates its Episode: returns all findings about the record.

        Never raises.
        """
        episode, findings = self.read(record)
        findings += [] if episode is None else self.validate(episode, limits=limits)
        return episode, findings

    def preference(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, bool | None]:
        """Returns (other, label), the judgement on its answer that a legal record holds.

        `other` is the record with the rejected answer in place of the chosen one, or None; `label`
        says whether the answer is good, or None.
        """
        return self.adapter.preference(record)

    def encode(
        self, episode: Episode, *, partial: bool = False, mask: str = "model", proved: bool = False
    ) -> Encoded:
        """Returns token ids (uint32, shape (n,)) and loss mask (uint8, shape (n,)) of an Episode.

        Text that spells a single-id tag becomes the ordinary ids of its letters. `partial` allows a
        legal beginning, such as a prompt. `mask` is one of `encoder.MASKS`, or several with "+"
        between them. Raises ValueError for misplaced blocks, for content that spells a tag of plain
        text, and for another mask. A message whose `meta` has a "weight" is trained as much, not at
        all if it is 0. The blocks of an episode that is `proved`, because `validate` finds nothing
        in it, are not checked again. Implements "Loss" and "Ids" of each grammar/*/SPEC.md.
        """
        events = self._encodable(episode, partial, proved)
        how = self.mask(episode, mask), *self._weights(episode)
        key = self.adapter.SCHEMA.messages
        return encode_events(events, self.table, self.tokenizer, *how, messages=key)

    def segments(
        self, episode: Episode, *, partial: bool = False, mask: str = "model"
    ) -> list[Segment]:
        """Returns what `encode` joins: each tag and text run with ids, loss and open blocks.

        Raises ValueError where `encode` does.
        """
        events = self._encodable(episode, partial)
        how = self.mask(episode, mask), *self._weights(episode)
        return list(segments(events, self.table, self.tokenizer, *how))

    def _weights(self, episode: Episode) -> tuple[list[float] | None, Cuts]:
        """Returns the weight of each event, and the parts of texts with weights of their own."""
        where = episode.messages, self.table, self.adapter.SCHEMA.text
        weights = weights_of(*where)
        return weights, cut_texts(*where) if weights else {}

    def mask(self, episode: Episode, name: str) -> Mask:
        """Returns the mask of a name for an Episode. Raises ValueError where `encode` does."""
        mask = Mask.from_name(name)._replace(prompted=self.adapter.prompted(episode.meta))
        if mask.failed_calls:
            return mask
        return mask._replace(failed=frozenset(self.failed_calls(episode)))

    def failed_calls(self, episode: Episode) -> dict[int, Place]:
        """Returns the blocks of calls whose results say that a call failed: numbers and places."""
        opener, known = result_opener(self.automaton, self.table), episode.meta.get(FAILED, ())
        result = opener.opens if opener is not None else ""
        return failed_calls(episode.messages, self.table, result, known)

    def trained(self, episode: Episode, *, history: str) -> list[Episode]:
        """Returns the episodes that a policy of `mypt_spec.history.HISTORIES` makes of one.

        Of "per-turn", `encode` with the mask "last" trains each answer once. Raises ValueError for
        another policy, and for "per-turn" where the token table has no `turn_opener`.
        """
        steps = self.table.history.answered or bool(self.adapter.prompted(episode.meta))
        return episodes(episode, history, self.table, self.automaton, steps=steps)

    def refusal(self, episode: Episode) -> str:
        """Returns why `encode` refuses an Episode; empty where it does not."""
        try:
            self._encodable(episode, partial=False)
        except ValueError as error:
            return str(error)
        return ""

    def _encodable(self, episode: Episode, partial: bool, proved: bool = False) -> list[Event]:
        if proved:
            events = list(events_of(episode.messages, self.table))
        else:
            events = legal_events(episode, self.table, self.automaton, complete=not partial)
        # Where tags are ordinary text, content that spells one would come back as structure.
        if self.table.plain_tags or self.table.untagged or any(self.table.edges):
            prove(events, self.table, ids=True)
        return events if partial else ended(events, self.table)

    def parse_ids(self, ids: Iterable[int]) -> tuple[Episode | None, list[Finding]]:
        """Reads token ids (any integers, shape (n,)) into an Episode; None when there is an error.

        Spans of the findings count tokens. Never raises. Implements "Ids" of each
        grammar/*/SPEC.md.
        """
        events, findings = self.lex_ids(ids)
        outcome = Run(self.table, self.automaton, spaces=False).check(events)
        episode, body_findings = build(outcome, self.table)
        return (None if findings else episode), findings + body_findings + spacing(outcome)

    def lex(self, text: str) -> list[Event]:
        """Returns the events of a serialised text, whether they are legal or not."""
        return list(with_tags(lex(text, self.table), self.table))

    def lex_ids(self, ids: Iterable[int]) -> tuple[list[Event], list[Finding]]:
        """Returns the events of token ids (any integers, shape (n,)), and ids that mean nothing.

        Spans count tokens. Never raises.
        """
        try:
            items: list[object] = list(ids)
        except TypeError:
            items = [ids]
        tokens = self.tokenizer
        events, findings = lex_ids(items, self.table, tokens.decode_bytes, tokens.ordinary)
        return list(with_tags(events, self.table)), findings

    def check_prefix(self, text: str) -> Outcome:
        """Runs a text that may stop anywhere through the automaton.

        In the result, `.findings` is empty for a legal beginning, and `.state` is the state at its
        end.
        """
        return Run(self.table, self.automaton, complete=False).check(self.lex(text))


def load(
    path: str | Path, adapter: Adapter | None = None, *, vocabulary: str | Path | None = None
) -> Dialect:
    """Loads a grammar folder of your own: a `.lark` file, `tokens.toml`, and how to read records.

    Records are read by `adapter`, or as `records.toml` in the folder says, or by `ADAPTER` of an
    `adapter.py` there, which is run; without any of these, no record can be read. The vocabulary is
    GPT-2's, the file that `tokens.toml` names, or that of the path `vocabulary`, as for `dialect`.
    Raises SpecError, which names the file and what is wrong in it, and VocabularyError.
    """
    return _on(_vocabulary(vocabulary), _bare(Path(path), adapter), Path(path))


def _bare(folder: Path, adapter: Adapter | None = None) -> Dialect:
    """Returns a dialect without the vocabulary that its token table may name."""
    grammar, tokens = _text(_grammar_file(folder)), table_text(folder)
    table = load_table(tokens, where=str(folder / TOKENS))
    shipped = folder.parent == grammar_root()
    if not shipped and table.name in _folders():
        message = f"{table.name!r} is the name of a dialect of mypt-tags; choose another"
        raise SpecError(f"{folder / TOKENS}: [dialect]: {message}")
    machine = _compiled(folder.name, grammar)
    if machine is None:
        try:
            machine = _automaton.extract(grammar)
        except SpecError as error:
            raise SpecError(f"{_grammar_file(folder)}: {error}") from None
    _check_terminals(table, machine, folder)
    try:
        machine = split_states(machine, table)
        check_history(table, machine)
    except SpecError as error:
        raise SpecError(f"{folder / TOKENS}: {error}") from None
    digest = hashlib.sha256(f"{grammar}\0{tokens}".encode()).hexdigest()
    adapter = adapter or _adapter(folder, table, lambda: machine)
    if adapter.chat is not None:
        shared = shared_mistakes(_text(grammar_root() / SHARED), adapter.chat, table)
        table = replace(table, mistakes=(*table.mistakes, *shared))
    return Dialect(table, machine, adapter, digest, folder=None if shipped else folder)


def _text(file: Path) -> str:
    try:
        if file.exists() and not (file.is_file() and file.stat().st_size <= _LARGEST):
            raise SpecError(f"{file}: must be a regular file of at most {_LARGEST:,} bytes")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: is not UTF-8: byte {error.start}") from None


def table_text(folder: Path) -> str:
    """Returns the token table of a folder, with the rows of the dialect that it is `like`."""
    text, base = _text(folder / TOKENS), _like(folder)
    if base is None:
        return text
    tables = table_text(base), _LIKE.sub("", text)
    rows = [r for t in tables for r in re.split(r"\n\n(?=(?:#.*\n)*\[+\w+\])", t.strip())]
    named = {(re.search(r"(?m)^(?:\[\[.*\n.*|\[.*)", row) or [""])[0]: row for row in rows}
    return "\n\n".join(named.values()) + "\n"


def _like(folder: Path) -> Path | None:
    """Returns the folder whose grammar and rows a folder has where it has none of its own."""
    like = _LIKE.findall(_text(folder / TOKENS))
    if like and like[0] not in (known := _folders() | families()):
        raise SpecError(f'{folder / TOKENS}: [dialect]: "like" names no dialect: {like[0]!r}')
    return known[like[0]] if like else None


def _grammar_file(folder: Path) -> Path:
    """Returns the file of the grammar: that of the folder's name, or the only one."""
    usual = folder / f"{folder.name}.lark"
    if usual.is_file():
        return usual
    if not folder.is_dir():
        text = f"{folder}: is not a folder; expected one with a grammar and tokens.toml"
        name = str(folder)
        raise SpecError(text + f"; dialect({name!r}) is that of this name" * (name in _folders()))
    files = sorted(folder.glob("*.lark"))
    if not files and (folder / TOKENS).is_file() and (base := _like(folder)):
        return _grammar_file(base)
    if len(files) != 1:
        text = ", ".join(file.name for file in files) or "none"
        if (folder / "config.json").is_file():
            text += f"; it is a model: mypt-lint derive {folder} -o FOLDER writes its format"
        raise SpecError(f"{folder}: expected {usual.name} or one other .lark file, found {text}")
    return files[0]


def _adapter(folder: Path, table: TokenTable, machine: Callable[[], Automaton]) -> Adapter:
    """Returns what reads the records of a dialect."""
    records, code = folder / RECORDS, folder / CODE
    if records.is_file() and code.is_file():
        raise SpecError(f"{folder}: records.toml and adapter.py both say how to read records")
    if records.is_file():
        from mypt_spec.adapters.declared import declared

        return declared(_text(records), table, machine, where=str(records))
    if folder.parent == grammar_root():
        return cast(Adapter, importlib.import_module(f"mypt_spec.adapters.{folder.name}").ADAPTER)
    if code.is_file():
        import runpy

        adapter = runpy.run_path(str(code)).get("ADAPTER")
        if not isinstance(adapter, Adapter):
            raise SpecError(f"{code}: has no ADAPTER that is a mypt_spec.adapters.base.Adapter")
        return adapter
    return Unread()


def shaped(record: object, name: str) -> bool:
    """Returns whether a record has the shape of a dialect's, without loading its automaton."""
    where = folder(name)
    adapter = _adapter(where, load_table(table_text(where)), lambda: dialect(name).automaton)
    return not any(finding.severity == "error" for finding in adapter.check(record)[1])


def _compiled(name: str, grammar: str) -> Automaton | None:
    """Returns the shipped automaton if it was extracted from this very grammar, else None.

    Extraction takes longer than linting a small file.
    """
    try:
        data = json.loads((_COMPILED / f"{name}.json").read_bytes())
    except (OSError, ValueError):
        return None
    same = data.get("grammar_sha256") == _automaton.fingerprint(grammar)
    return Automaton.from_dict(data) if same else None


def _check_terminals(table: TokenTable, machine: Automaton, folder: Path) -> None:
    used = {t for row in machine.steps for t in row} - {"TEXT"}
    for name in sorted(used ^ set(table.terminals)):
        where = "tokens.toml has no row for it" if name in used else "the grammar never uses it"
        raise SpecError(f"{folder}: terminal {name}: {where}")


@cache
def _folders() -> dict[str, Path]:
    files = sorted(grammar_root().glob(f"*/{TOKENS}"))
    return {load_toml(path)["dialect"]["name"]: path.parent for path in files}


def dialects() -> tuple[str, ...]:
    """Returns the names of the installed dialects, sorted."""
    return tuple(sorted(_folders()))


def detectable_dialects() -> tuple[str, ...]:
    """Returns the names of the installed dialects whose records nobody else's look like, sorted.

    Where `records.toml` names a shape, records are those of chats in general, so nothing in them
    says for which format they are meant: such a dialect is named, never guessed from records.
    """
    files = {name: _folders()[name] / RECORDS for name in dialects()}
    return tuple(n for n, f in files.items() if not f.is_file() or "shape" not in load_toml(f))


def dialect(name: str | Path, *, vocabulary: str | Path | None = None) -> Dialect:
    """Returns the dialect of that name, or of a grammar folder, loaded once.

    A name with a slash is a folder, such as `./my_format`; see `load`. `vocabulary` is the
    path of a vocabulary that replaces the one which the dialect names: the same grammar, other ids.
    It is a file of ranks as tiktoken writes them, a `tokenizer.json`, a `tekken.json`, or a folder
    with one of these. Raises KeyError, which names the known dialects, SpecError for a folder that
    holds none, and VocabularyError for a file that is no such vocabulary.
    """
    name = str(name.absolute()) if isinstance(name, Path) else name
    return _loaded(name, _vocabulary(vocabulary))


def _vocabulary(path: str | Path | None) -> Vocabulary | None:
    if path is None:
        return None
    from mypt_spec.tokenizer.sources import read_vocabulary  # here: few ask for another vocabulary

    return read_vocabulary(path)


@cache
def _loaded(name: str, vocabulary: Vocabulary | None) -> Dialect:
    return _on(vocabulary, _bare_of(name), folder(name))


@cache
def _bare_of(name: str) -> Dialect:
    bare = _bare(folder(name))
    if not is_folder(name) and bare.name != name:
        message = f"tokens.toml calls it {bare.name!r}, the package {name!r}; make them one name"
        raise SpecError(f"{bare.folder}: {message}")
    return bare


def _on(vocabulary: Vocabulary | None, bare: Dialect, folder: Path) -> Dialect:
    """Returns a dialect on a vocabulary, by default on the file that its token table names."""
    required = bare.table.required
    if vocabulary is None and required is not None and required.file:
        vocabulary = _vocabulary(folder / required.file)
    if vocabulary is None:
        return bare
    try:
        if required is not None:
            vocabulary = match_required(vocabulary, required)
        if (body := bare.table.tagged) is not None:
            written = (*body.marks, *getattr(body, "argument", ()))
            tags = {tag for tag in vocabulary.special if any(tag in text for text in written)}
            vocabulary = with_texts(vocabulary, tags - {*bare.table.special})
        if texts := {*bare.table.texts} - {*vocabulary.special}:
            bare = replace(bare, table=as_texts(bare.table, texts))
        unfit = next((tag for tag in bare.table.special if tag in vocabulary.unfit), None)
        if unfit is not None:
            raise ValueError(f"the vocabulary: the tag {unfit!r} {vocabulary.unfit[unfit]}")
        table = bare.table.with_vocabulary(vocabulary.name, vocabulary.ids, vocabulary.special)
        spaced = vocabulary.by_character
        table = replace(table, composed=vocabulary.composed, spaced=spaced)
        first = [
            bare.table.terminals.get(name) for name in bare.automaton.steps[bare.automaton.start]
        ]
        begins = (p for t in first for p in (t.spelling[:1] if t else ()) if p.kind == "special")
        if vocabulary.leads and len([*begins]) < len(first):
            raise ValueError(
                "the vocabulary: its tokenizer puts a space before what begins with text, as a "
                "conversation does here; let the format begin with a special token"
            )
    except ValueError as error:
        raise VocabularyError(f"{bare.spec}: {error}") from None
    fingerprint = hashlib.sha256(f"{bare.fingerprint}\0{vocabulary.sha256}".encode()).hexdigest()
    return replace(bare, table=table, vocabulary=vocabulary, fingerprint=fingerprint)


def folder(name: str) -> Path:
    """Returns the grammar folder of a dialect, which a name with a slash is itself.

    Other names are those of `dialects()`, of `families()`, and those that packages register, as
    entry points of the group `mypt_spec.dialects` whose values are grammar folders, as modules.
    Raises KeyError, which names the known dialects, and SpecError for one that is registered, but
    not installed.
    """
    if is_folder(name):
        return Path(name).expanduser()
    folders = _folders()
    if name in folders:
        return folders[name]
    registered = _registered().get(name)
    if isinstance(registered, str):
        raise SpecError(f"dialect {name!r}: {registered}")
    if registered is not None:
        return registered
    names = ", ".join(sorted([*folders, *_registered()]))
    raise KeyError(f"no dialect {name!r}; known are {names}; a folder has a slash: ./{name}")


def copied_to(folder: Path) -> str | None:
    """Returns what `dialect` takes where a folder of data or of a model has `Dialect.files`.

    Returns None where it has none: its dialect is one of the package. Raises SpecError for a folder
    with an `adapter.py`, which nobody here has named and which is never run.
    """
    if not (folder / TOKENS).is_file():
        return None
    if (folder / CODE).exists():
        raise SpecError(f"{folder / CODE}: came with data or a model and is not run; remove it")
    return f"{folder.as_posix()}/"


def name_in(data: object) -> str:
    """Returns the name of a dialect that data, a model or a server says.

    Raises SpecError for a folder: an `adapter.py` there would be run, and nobody here has named it.
    """
    name = str(data)
    if is_folder(name):
        raise SpecError(f"the dialect {name!r} is a folder; only a name is taken from data")
    return name


def is_folder(name: str) -> bool:
    """Returns whether a dialect is named by its folder."""
    return "/" in name or os.sep in name or name in (".", "..")


@cache
def families() -> dict[str, Path]:
    """Returns the folders of the formats of models that are shipped as data alone, by name."""
    tables = sorted(grammar_root().glob(f"{_FAMILIES}/*/tokens.toml"))
    return {table.parent.name: table.parent for table in tables}


def registered() -> tuple[str, ...]:
    """Returns the names of `families()` and of the dialects that packages register, sorted."""
    return tuple(sorted(_registered()))


@cache
def _registered() -> dict[str, Path | str]:
    """Returns the folders of formats that are not in `dialects()`, by name, or why one has none."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    folders: dict[str, Path | str] = {}
    for point in entry_points(group="mypt_spec.dialects"):
        try:
            place = find_spec(point.value)
        except (ImportError, ValueError):  # the package around it is missing
            place = None
        # A folder without __init__.py is a module, too, but has no origin.
        where = place and place.submodule_search_locations
        owner = point.dist.name if point.dist is not None else "a package"
        why = f"{owner} registers it as {point.value}, which is not installed, or is not a folder"
        folders[point.name] = Path(next(iter(where))) if where else why
    return folders | families()
