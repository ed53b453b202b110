"""Holds the token table of a dialect: how its terminals are spelled, and what they mean.

`table_file` reads it from `grammar/<dialect>/tokens.toml`; lexer, encoder and decoder ask it.
Nothing here knows any dialect.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

TEXT, END = "TEXT", "$END"
# A single-id tag by itself, in a dialect where only longer spellings hold it.
STRAY = "$STRAY"
# Kinds of body: one tool call; a list, with an id in each call (or one call alone), or at its end.
CALLS = ("call", "arguments", "function", "parameters", "tagged", "bare_keys")
WITH_IDS, IDS_LAST = ("calls", "functions"), ("functions",)
LISTS = (*WITH_IDS, "keywords")
# That declare tools: TypeScript (all, or what it can say), JSON, nested tags, a template's text.
TOOL_TAGS = ("tool_tags", "ordered_tool_tags")
DEFINITIONS = ("namespace", "signatures", "tool_lines", "tool_list", *TOOL_TAGS, "template")
# Kinds of body in which nothing is escaped: they cannot say a tag.
UNESCAPED = ("text", "signatures", "tagged", "bare_keys", "keywords", *TOOL_TAGS, "template")
# Ids above a vocabulary that tags may have: models have spare rows of embeddings, Qwen3 has 267.
UNUSED = 4096
# Special tokens of vocabularies that fill up rows, the best first.
PADDING: tuple[str, ...] = ("<pad>", "<|pad|>", "[PAD]", "<|finetune_right_pad_id|>")
PADDING += ("<|endoftext|>", "<|end_of_text|>")


class SpecError(ValueError):
    """A grammar folder that cannot be used: names the file, the entry, and what was expected."""


@dataclass(frozen=True)
class IdSet:
    """A set of token ids as ranges, in order and without overlap."""

    ranges: tuple[range, ...]

    @classmethod
    def from_ids(cls, ids: Iterable[int]) -> IdSet:
        """Returns the set of some ids."""
        ranges: list[range] = []
        for i in sorted(set(ids)):
            start = ranges.pop().start if ranges and ranges[-1].stop == i else i
            ranges.append(range(start, i + 1))
        return cls(tuple(ranges))

    @cached_property
    def parts(self) -> tuple[int, int, frozenset[int]]:
        """Returns (start, stop, others): the longest range, and all other ids.

        Loops over ids ask for these, because comparing is several times as fast as a call.
        """
        longest = max(self.ranges, key=len, default=range(0))
        others = frozenset(i for run in self.ranges if run != longest for i in run)
        return longest.start, longest.stop, others

    def __contains__(self, i: Any) -> bool:
        """Returns whether an integer, of numpy too, is in the set."""
        first, stop, others = self.parts
        return bool(first <= i < stop or i in others)

    def __iter__(self) -> Iterator[int]:
        return (i for run in self.ranges for i in run)

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __str__(self) -> str:
        """Returns the ranges for people, at most the first three."""
        ranges = [f"{r[0]}-{r[-1]}" if len(r) > 1 else str(r[0]) for r in self.ranges[:3]]
        return ", ".join(ranges) + ", ..." * (len(self.ranges) > 3) or "not known"


class Piece(NamedTuple):
    """One piece of a terminal's spelling, as `grammar/tokens.schema.json` describes it.

    `kind` is "special" (one id), "text", "space" or "attr", and `value` what that column says.
    """

    kind: str
    value: str
    pattern: str = ""
    exact: bool = False
    loss: int = 1
    usual: str = ""
    prompts: bool = True
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Terminal:
    """One row of the table: a tag or mark; `grammar/tokens.schema.json` describes its columns.

    `closes` is the first kind of block that the column names, `shared` are the others. A terminal
    that neither opens nor closes a block is a mark, which is complete by itself. `joins`, `after`
    and `first` are those of a row that joins another terminal. `body` may be "text", which is not
    checked, or one of those in `CALLS`, `LISTS` and `DEFINITIONS`, "json", or a pattern of JSON.

    The remaining fields follow from these; they are stored because every tag of every record asks
    for them. `ends`: all kinds of block that it closes. `led`: whether it begins with white space.
    `trail`: white space at its end that only the system writes. `stem`: the spelling without it.
    `spaced`: whether white space is part of the spelling, and may be read otherwise. `patterns`:
    attribute to the pattern of its values. `shown`: the spelling for people, attributes as `...`.
    `bare`: the spelling with empty attributes.
    """

    name: str
    spelling: tuple[Piece, ...]
    loss: int
    origin: str
    phase: int
    doc: str
    opens: str = ""
    closes: str = ""
    body: str = "text"
    quotes: bool = False
    body_loss: int = 0
    body_origin: str = ""
    shared: tuple[str, ...] = ()
    mark: bool = False
    again: bool = False
    both: bool = False
    role: str = ""
    joins: str = ""
    after: str = ""
    first: bool = False
    before: str = ""
    stops: tuple[str, ...] = ()
    strip: str = ""
    prefix: str = ""
    suffix: str = ""
    blank: bool = True
    also: tuple[tuple[Piece, ...], ...] = ()
    ends: tuple[str, ...] = field(init=False, repr=False, compare=False)
    led: bool = field(init=False, repr=False, compare=False)
    trail: str = field(init=False, repr=False, compare=False)
    stem: tuple[Piece, ...] = field(init=False, repr=False, compare=False)
    spaced: bool = field(init=False, repr=False, compare=False)
    patterns: dict[str, str] = field(init=False, repr=False, compare=False)
    shown: str = field(init=False, repr=False, compare=False)
    bare: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in {
            "ends": (self.closes, *self.shared) if self.closes else (),
            "led": bool(pieces := self.spelling) and pieces[0].kind == "space",
            "trail": "".join(p.value for p in pieces if not p.loss),
            "stem": tuple(p for p in pieces if p.loss),
            "spaced": any(p.kind == "space" for p in pieces),
            "patterns": {p.value: p.pattern for p in pieces if p.kind == "attr"},
            "shown": "".join("..." if p.kind == "attr" else p.value for p in pieces).strip("\n"),
            "bare": "".join("" if p.kind == "attr" else p.value for p in pieces),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def closing(self) -> tuple[str, ...]:
        """Returns the kinds of block, one of which is the innermost where it comes."""
        return self.ends[:1] if self.both else self.ends

    @property
    def by_model(self) -> bool:
        """Returns whether the model writes it at run time."""
        return self.origin == "model"

    @property
    def body_by_model(self) -> bool:
        """Returns whether the model writes the text in the block that it opens."""
        return self.body_origin == "model" if self.body_origin else bool(self.body_loss)

    def stripped(self, text: str) -> str:
        """Returns a text of the block that it opens without the white space that is stripped."""
        how, characters = self.strip, "\n" if self.strip.endswith("lines") else None
        text = text.lstrip(characters) if how and not how.startswith("right") else text
        return text.rstrip(characters) if how and not how.startswith("left") else text

    def written(self, text: str) -> str:
        """Returns a text of a record as the block that it opens has it."""
        return self.prefix + self.stripped(text) + self.suffix

    def spell(
        self, attrs: tuple[tuple[str, str], ...] = (), special: dict[str, str] | None = None
    ) -> str:
        """Returns the spelling, absent attributes empty; `special` replaces single-id tags."""
        if not attrs and special is None:
            return self.bare
        values, out = dict(attrs), ""
        for piece in self.spelling:
            text = piece.value if piece.kind != "attr" else values.get(piece.value, "")
            out += special[text] if piece.kind == "special" and special is not None else text
        return out


class Mistake(NamedTuple):
    """A name for a refusal; the comment above `[[mistake]]` in mypt's tokens.toml explains it."""

    code: str
    terminal: str = ""
    inside: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    expected: str = ""
    help: str = ""


class RequiredVocabulary(NamedTuple):
    """The vocabulary of a table, in place of GPT-2's: columns of `[vocabulary]`, "" for any."""

    kind: str
    file: str = ""
    sha256: str = ""
    pattern: str = ""
    special: tuple[tuple[str, int], ...] = ()


class History(NamedTuple):
    """What the official template writes of earlier turns: the columns of `[history]`, as
    `grammar/tokens.schema.json` describes them. `last` is the column `empty`.
    """

    drops: tuple[str, ...] = ()
    last: str = ""
    strip: str = ""
    strip_before_calls: str = ""
    leaves: str = ""
    leaves_empty: bool = False
    each: bool = False
    answered: bool = False
    keeps_with_tools: bool = False


@dataclass(frozen=True)
class TokenTable:
    """All of a tokens.toml.

    `special` maps each single-id tag to its id, `ordinary` are the ids of text, and `pad` is an id
    that means nothing: it fills up rows. All other ids below `vocab_size` mean nothing either.
    Where the table is made for another vocabulary than GPT-2's, `required` is it; `declared_ids`
    are the ids that it says of tags. Before `with_vocabulary` was called, there are no ids of text
    then, and ids of other tags are below zero. `composed` says that models with the vocabulary see
    texts in NFC, and `spaced` that they see a space for U+2581. Other fields are columns of
    `[dialect]`, which `grammar/tokens.schema.json` describes.
    """

    name: str
    title: str
    doc: str
    base_vocabulary: str
    ordinary: IdSet
    pad: int
    vocab_size: int
    terminals: dict[str, Terminal]
    special: dict[str, int]
    layouts: dict[str, str]
    mistakes: tuple[Mistake, ...]
    phases: tuple[str, ...] = ()
    multi_turn_phase: int = 1
    turn_opener: str = ""
    tool_declaration: str = ""
    prompts: bool = False
    models: str = ""
    texts_of: str = ""
    texts: tuple[str, ...] = ()
    untagged: str = ""
    pad_vocabulary_to: int = 64
    required: RequiredVocabulary | None = None
    declared_ids: tuple[tuple[str, int], ...] = ()
    glue: bool = False
    bare_end: bool = False
    composed: bool = False
    spaced: bool = False
    history: History = field(default=History())

    def with_vocabulary(self, base: str, ordinary: IdSet, ids: Mapping[str, int]) -> TokenTable:
        """Returns the same table on another base vocabulary, which has these ids of text.

        `ids` are the ids of its own special tokens. A tag that is one of them has its id, then
        come the ids that the table gives; other tags get ids after all of these, in the order of
        the table. The id of padding comes before them, unless a special token is left that no tag
        uses. Raises ValueError where the table gives an id that the vocabulary gives to another, or
        one that is far above all of the vocabulary.
        """
        owner = {i: tag for tag, i in ids.items()}
        fixed = dict(self.declared_ids) | dict(self.required.special if self.required else ())
        end = max([ordinary.ranges[-1][-1], *(i for tag, i in ids.items() if tag not in fixed)])
        for tag, i in fixed.items():
            if i > end + UNUSED:
                raise ValueError(
                    f"id {i:,} of {tag!r} does not fit the vocabulary: its last id is {end:,}, and "
                    f"a model would have a row of embeddings for each id up to {i:,}; choose one "
                    f"up to {end + UNUSED:,}"
                )
        for tag, i in self.declared_ids:
            if i in ordinary or owner.get(i, tag) != tag or ids.get(tag, i) != i:
                theirs = "of text" if i in ordinary else f"of {owner[i]!r}" if i in owner else ""
                now = f"has id {ids[tag]}" if tag in ids else f"is {theirs}"
                raise ValueError(f"id {i} of {tag!r} does not fit the vocabulary: it {now} there")
        ids = dict(self.declared_ids) | dict(ids)
        unused = {tag: i for tag, i in ids.items() if tag not in self.special}
        last = max([ordinary.ranges[-1][-1], *ids.values()])
        free = min([last + 1, *unused.values()])
        pad = next((unused[tag] for tag in PADDING if tag in unused), free)
        after = itertools.count(max(last, pad) + 1)
        special = {tag: ids[tag] if tag in ids else next(after) for tag in self.special}
        size = padded(max(last, pad, *special.values()) + 1, self.pad_vocabulary_to)
        return replace(
            self, base_vocabulary=base, ordinary=ordinary, pad=pad, special=special, vocab_size=size
        )

    @cached_property
    def trails(self) -> dict[str, str]:
        """Maps each single-id tag with which a tag ends to the white space that the system adds."""
        return {t.stem[-1].value: t.trail for t in self.terminals.values() if t.trail}

    @cached_property
    def stops(self) -> dict[str, frozenset[str]]:
        """Maps opening tags whose first id ends blocks of the model to the kinds of these."""
        rows = [t for t in self.terminals.values() if t.body_loss]
        return {n: frozenset(t.opens for t in rows if n in t.stops) for r in rows for n in r.stops}

    @cached_property
    def openers(self) -> dict[str, Terminal]:
        """Maps each kind of block to its opening tag, without those of some places alone."""
        rows = (t for t in self.terminals.values() if t.opens)
        return {t.opens: t for t in rows if not (t.joins or t.before or t.after)}

    @cached_property
    def between(self) -> dict[str, Terminal]:
        """Maps kinds of block to the tag that ends one and opens the next in one message."""
        return {t.opens: t for t in self.terminals.values() if t.again and not t.joins}

    @cached_property
    def resumed(self) -> dict[str, Terminal]:
        """Maps closing tags to the tag without a spelling with which a block goes on after them."""
        return {self.closers[kind].name: t for kind, t in self.between.items() if not t.spelling}

    @cached_property
    def leaders(self) -> dict[tuple[str, str], Terminal]:
        """Maps (kind, first inner kind) to the opening tag of a block that begins with another."""
        rows = (t for t in self.terminals.values() if t.before and not (t.joins or t.after))
        return {(t.opens, t.before): t for t in rows}

    @cached_property
    def placed(self) -> dict[tuple[str, str], Terminal]:
        """Maps (name, kind) to the terminal written where a block, or "text", is just before it."""
        rows = [t for t in self.terminals.values() if t.after not in ("", t.opens)]
        usual = {(kind, ""): t for kind, t in self.openers.items()} | self.leaders
        return {(t.joins or usual[t.opens, t.before].name, t.after): t for t in rows}

    @cached_property
    def joined(self) -> dict[str, Terminal]:
        """Maps the name of a terminal to the one that is written where it follows on something."""
        rows = (t for t in self.terminals.values() if t.after == t.opens * (not t.joins))
        return {t.joins or self.openers[t.opens].name: t for t in rows if t.opens and not t.again}

    @cached_property
    def followed(self) -> frozenset[str]:
        """Returns the names of terminals that are written otherwise where they follow something."""
        return frozenset({*self.joined, *(t.joins for t in self.placed.values() if t.joins)})

    def join(self, name: str, last: str) -> str:
        """Returns the terminal written for `name` after `last`, a terminal, TEXT or ""."""
        joined, before = self.joined.get(name), self.terminals.get(last)
        if placed := self.placed.get((name, before.closes if before else last.lower())):
            return placed.name
        if joined is None or not last or (joined.led and before and before.bare[-1:].isspace()):
            return name
        return name if before and not (before.closes or joined.first) else joined.name

    def kinds(self, role: str) -> frozenset[str]:
        """Returns the kinds of block that have this role."""
        return frozenset(kind for kind, t in self.openers.items() if t.role == role)

    def begins_turn(self, kind: str, first: str) -> bool:
        """Returns whether a block of a kind begins a turn. `first` is the kind of the block that it
        begins with, or "" where it begins with text.
        """
        return bool(kind) and kind == self.turn_opener and first not in self.kinds("result")

    @cached_property
    def tagged(self) -> Any:
        """Returns the `Tags` or `BareKeys` of calls whose arguments are no JSON, or None."""
        return next((t.body for t in self.terminals.values() if hasattr(t.body, "marks")), None)

    @cached_property
    def closers(self) -> dict[str, Terminal]:
        """Maps each kind of block that has one to its closing tag."""
        return {kind: t for t in self.terminals.values() if not t.mark for kind in t.closing}

    @cached_property
    def marks(self) -> dict[str, Terminal]:
        """Maps each mark to its terminal, by the terminal's name in lower case."""
        rows = (t for t in self.terminals.values() if t.mark or not (t.opens or t.closes))
        return {t.name.lower(): t for t in rows}

    @cached_property
    def order(self) -> dict[str, int]:
        """Maps names of terminals to ranks, so that messages list them in a fixed order.

        Text comes first, then opening tags and marks, then closing tags, then the end.
        """
        names = sorted(self.terminals, key=lambda n: bool(self.terminals[n].closes))
        return {name: i for i, name in enumerate([TEXT, *names, END])}

    def describe(self, names: frozenset[str] | set[str]) -> tuple[str, ...]:
        """Returns the spellings of terminals in a fixed order; TEXT is "text", END is "the end"."""
        words = {TEXT: "text", END: "the end"}
        ranked = sorted(names, key=self.order.__getitem__)
        return tuple(words[n] if n in words else self.terminals[n].shown for n in ranked)

    @cached_property
    def literals(self) -> re.Pattern[str]:
        """Matches each string that is read as structure: single-id tags, and tags of plain text."""
        patterns = sorted({re.escape(s) for s in self.special}, key=len, reverse=True)
        patterns += [pattern(t, core=True) for t in self.plain_tags]
        return re.compile("|".join(patterns))

    @cached_property
    def plain_tags(self) -> tuple[Terminal, ...]:
        """Returns the terminals whose spelling has no single-id tag: text to the tokenizer."""
        rows = (t for t in self.terminals.values() if not t.joins)
        return tuple(t for t in rows if t.bare and all(p.kind != "special" for p in t.spelling))

    @cached_property
    def late(self) -> dict[str, int]:
        """Maps closing tags that end as another tag is spelled to the length of the text before it.

        Where their block is not open, that text is content, and the other tag follows. Without a
        text, white space alone differs: it is the tag that closes the open block.
        """
        rows = {t.name: t.spelling[t.led :] for t in self.terminals.values() if not t.joins}
        texts = {name: "".join(p.value for p in row) for name, row in rows.items()}
        mixed = [n for n, row in rows.items() if any(p.kind == "special" for p in row)]
        lead = {n: text_at(rows[n]) for n in mixed if self.terminals[n].closes}
        return {
            name: len(text)
            for name, text in lead.items()
            if text.strip() or not text
            for rest in [texts[name][len(text) :]]
            for others in [[other for n, other in texts.items() if n != name]]
            if any(s.startswith(rest) if text else s.strip() == rest.strip() for s in others)
        }

    @cached_property
    def edges(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns ends and beginnings of texts that may spell a tag with the tag beside them."""
        rows = [t for t in self.terminals.values() if not t.joins]
        forms = [[p for p in t.spelling if p.kind != "space"] for t in rows]
        begins = (s[::-1] for s in _overlaps([form[::-1] for form in forms], -1))
        return tuple(_overlaps(forms, 1)), tuple(begins)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Returns all tags as people write them, except those with attributes."""
        return (*self.special, *(t.shown for t in self.plain_tags if not t.patterns))

    @cached_property
    def attributed(self) -> tuple[str, ...]:
        """Returns the tags with attributes, as people write them."""
        return tuple(t.shown for t in self.plain_tags if t.patterns)

    @cached_property
    def spellings(self) -> tuple[Terminal, ...]:
        """Returns the terminals with a spelling, and one for each other spelling; see `spelled`."""
        others = (
            replace(t, name=f"{t.name}{_ALSO}{i}", spelling=pieces, also=())
            for t in self.terminals.values()
            for i, pieces in enumerate(t.also)
        )
        return (*filter(lambda t: t.spelling, self.terminals.values()), *others)

    def spelled(self, name: str) -> tuple[Terminal | None, bool]:
        """Returns (terminal, whether it is another spelling of it) of the name of a spelling."""
        base, also, _ = name.partition(_ALSO)
        return self.terminals.get(base), bool(also)

    @cached_property
    def lexer(self) -> re.Pattern[str]:
        """Matches any tag in serialised text, with one named group for each terminal."""
        return self._lexer(None)

    @cached_property
    def sentinels(self) -> dict[str, str]:
        """Maps each special tag to a lone surrogate, which no legal text has, for lexing ids."""
        return {spelling: chr(0xD800 + i) for i, spelling in enumerate(self.special)}

    @cached_property
    def id_lexer(self) -> re.Pattern[str]:
        """Matches as `lexer` does, in decoded ids where special ids are sentinels."""
        return self._lexer(self.sentinels)

    def _lexer(self, special: dict[str, str] | None) -> re.Pattern[str]:
        rows = sorted((t for t in self.spellings if not t.joins), key=lambda t: -len(t.shown))
        cores = [[p for p in t.spelling if p.kind != "space"] for t in self.terminals.values()]
        single = {row[0].value for row in cores if len(row) == 1 and row[0].kind == "special"}
        forms = [(t.name, replace(t, spelling=t.spelling[t.led :])) for t in rows]
        parts = {special[s] if special else s for s in self.special if s not in single}
        spelled = [(name, _first(t, special), pattern(t, special)) for name, t in forms]
        alone = enumerate(sorted(parts))
        spelled += [(f"{_ALONE}{i}", part[0], re.escape(part)) for i, part in alone]
        if not all(first for _, first, _ in spelled):
            return re.compile("|".join(f"(?P<{name}>{body})" for name, _, body in spelled))
        # The regex engine skips to a set of characters fast, if that comes before all groups.
        firsts = "".join(re.escape(c) for c in sorted({first for _, first, _ in spelled}))
        alternatives = (
            f"(?<={re.escape(first)})(?P<{name}>{body[len(re.escape(first)) :]})"
            for name, first, body in spelled
        )
        return re.compile(f"[{firsts}](?:{'|'.join(alternatives)})")

    @cached_property
    def tool_names(self) -> re.Pattern[str] | None:
        """Matches the declaration of a tool in a system prompt; None where the dialect has none."""
        return re.compile(self.tool_declaration, re.MULTILINE) if self.tool_declaration else None


_ALSO = "also"  # after the name of a terminal: the group of another spelling, with its number
_ALONE = "alone_"  # begins the names of the groups for STRAY; no terminal can be called so


def text_at(pieces: Iterable[Piece]) -> str:
    """Returns the text with which a spelling begins, before any other piece."""
    return "".join(p.value for p in itertools.takewhile(lambda p: p.kind == "text", pieces))


def _overlaps(forms: list[list[Piece]], way: int) -> list[str]:
    """Returns texts that begin a spelling and go on as another; `way` is -1 for reversed ones.

    White space between the two is left out, too: the other tag may have it.
    """
    texts = [
        "".join(p.value[::way] for p in itertools.takewhile(lambda p: p.kind != "attr", form))
        for form in forms
    ]
    return [
        part
        for form, text in zip(forms, texts, strict=True)
        for at in range(1, len(text_at(form)) + 1)
        if any(o.startswith(text[at:]) or text[at:].startswith(o) for o in texts if o)
        if text[:at].strip() and len(form) + len(text) > at + 1
        for part in {text[:at], text[:at].rstrip()}
    ]


def _first(terminal: Terminal, special: dict[str, str] | None) -> str:
    """Returns the character that each spelling of a terminal begins with, or "" for none."""
    piece = terminal.spelling[0]
    if piece.kind == "special" and special is not None:
        return special[piece.value][0]
    return piece.value[0] if piece.kind in ("special", "text") else ""


def pattern(
    terminal: Terminal, special: dict[str, str] | None = None, *, core: bool = False
) -> str:
    """Returns a regular expression for a terminal.

    `special` replaces the spelling of single-id tags (by sentinels, for ids). White space at its
    beginning is left out: the lexer looks back for it. `core` leaves out all white space.
    """
    out: list[str] = []
    for piece in terminal.spelling:
        if piece.kind == "attr":
            values = piece.pattern if special is None else _without_sentinels(piece.pattern)
            out.append(f"(?P<{terminal.name}__{piece.value}>{values})")
        elif piece.kind == "space" and (core or not out):
            continue
        elif piece.kind == "space":
            # Where white space ends a word and is missing, the word must end by itself: `<users`
            # is no `<user`.
            missing = r"(?!\w)" if out and re.search(r"\w$", out[-1]) else ""
            out.append(f"(?:{re.escape(piece.value)}|{missing})" if piece.exact else r"\s*+")
        elif piece.kind == "special" and special is not None:
            out.append(re.escape(special[piece.value]))
        else:
            out.append(re.escape(piece.value))
    return "".join(out)


_SURROGATES = "\ud800-\udfff"
# What may match a sentinel in a regular expression, and what must be skipped to find it.
_CLASSES = re.compile(
    r"\[(?P<not>\^?)(?P<rest>\]?(?:\\.|[^\]\\])*\])|\\(?P<kind>.)|(?P<any>\.)", re.DOTALL
)


def _without_sentinels(values: str) -> str:
    """Returns a pattern that matches as `values` does, but for texts with a special id in them."""

    def narrow(match: re.Match[str]) -> str:
        if match["not"]:
            # A bracket that comes first is one of the characters.
            first = "\\" if len(match["rest"]) > 1 and match["rest"][0] == "]" else ""
            return f"[^{_SURROGATES}{first}{match['rest']}"
        if match["any"]:
            return f"[^\\n{_SURROGATES}]"
        if match["kind"] in ("S", "W", "D"):
            return f"[^\\{match['kind'].lower()}{_SURROGATES}]"
        return match[0]

    return _CLASSES.sub(narrow, values)


def padded(used: int, to: int) -> int:
    """Returns `used` rounded up to a multiple of `to`."""
    return -(-used // to) * to
