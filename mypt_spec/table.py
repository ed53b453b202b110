"""The token table of a dialect: how its terminals are spelled, and what they mean.

A table is loaded from `grammar/<dialect>/tokens.toml` and checked while it is loaded; nothing here
knows any dialect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

TEXT = "TEXT"
END = "$END"
STRAY = "$STRAY"  # a single-id tag that stands alone, where only longer spellings hold it
CALLS = ("call", "arguments", "function")  # bodies of one tool call
LISTS = ("calls",)  # bodies of a list of calls, each with an id or one alone
ROLES = ("thought", "citation")
BODIES = ("text", "json", *CALLS, *LISTS, "namespace")


class SpecError(ValueError):
    """A grammar folder that cannot be used: says which file, which entry, what was expected."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a terminal's spelling: a `special` token (one id), plain `text`, white `space`, or
    an `attr`ibute.

    Attributes have a pattern. White space is written as it stands; any other, or none, is read in
    its place (MYP230). If it is `exact`, only itself or none is: other white space there is
    content.
    """

    kind: str
    value: str
    pattern: str = ""
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Terminal:
    """One row of the table. `loss` is 1 when the model learns to produce it, `origin` is who writes
    it at run time.

    `opens`/`closes` name a block; a terminal with neither is a *mark* (it stands alone). `shared`
    are other kinds of block that it closes too. `mark`: it closes its block in place of the closing
    tag, and is a message of its own. `body` says what the opened block holds: "text", "json" (one
    JSON value), "call" (a JSON object, "name" first), "arguments" (a JSON object; the tool's name
    is the attribute "name" of the tag), "function" (a JSON object of "name" and "arguments"),
    "calls" (an array of function calls) or "namespace" (definitions of functions). `quotes`: blocks
    inside are quotations, neither calls nor checked as JSON. `body_loss` is the loss of what stands
    inside, where a tag itself has another. `role` is what the block is to people: "thought" (not
    shown, with a budget of its own), "citation", or "" for all others.
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
    shared: tuple[str, ...] = ()
    mark: bool = False
    role: str = ""
    # What follows from these; asked for at every tag of every record.
    ends: tuple[str, ...] = field(
        init=False, repr=False, compare=False
    )  # all kinds of block that it closes
    led: bool = field(init=False, repr=False, compare=False)  # whether white space stands in front
    spaced: bool = field(
        init=False, repr=False, compare=False
    )  # whether white space is part of the spelling, and may be read otherwise
    patterns: dict[str, str] = field(
        init=False, repr=False, compare=False
    )  # attribute -> the pattern of its values
    shown: str = field(
        init=False, repr=False, compare=False
    )  # the spelling for people: attributes as `...`
    bare: str = field(init=False, repr=False, compare=False)  # the spelling, attributes empty

    def __post_init__(self) -> None:
        pieces = self.spelling
        patterns = (
            {p.value: p.pattern for p in pieces if p.kind == "attr"} if len(pieces) > 1 else {}
        )
        for name, value in {
            "ends": (self.closes, *self.shared) if self.closes else (),
            "led": bool(pieces) and pieces[0].kind == "space",
            "spaced": any(p.kind == "space" for p in pieces),
            "patterns": patterns,
            "shown": "".join("..." if p.kind == "attr" else p.value for p in pieces).strip("\n"),
            "bare": "".join("" if p.kind == "attr" else p.value for p in pieces),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def by_model(self) -> bool:
        """Whether the model writes it at run time."""
        return self.origin == "model"

    def spell(
        self, attrs: tuple[tuple[str, str], ...] = (), special: dict[str, str] | None = None
    ) -> str:
        """The spelling; an attribute without a value is empty.

        `special` replaces the spelling of single-id tags.
        """
        if not attrs and special is None:
            return self.bare
        values = dict(attrs)
        out = ""
        for piece in self.spelling:
            if piece.kind == "attr":
                out += values.get(piece.value, "")
            elif piece.kind == "special" and special is not None:
                out += special[piece.value]
            else:
                out += piece.value
        return out


@dataclass(frozen=True, slots=True)
class Mistake:
    """A name for a refusal; see the comment above `[[mistake]]` in tokens.toml."""

    code: str
    terminal: str = ""
    inside: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    expected: str = ""
    help: str = ""


@dataclass(frozen=True)
class TokenTable:
    """All of tokens.toml.

    `special` maps each single-id tag to its id; ids beyond it up to `vocab_size` are padding.
    """

    name: str
    title: str
    doc: str
    base_vocabulary: str
    first_special_id: int
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
    pad_vocabulary_to: int = 64

    def on(self, base: str, ordinary: int) -> TokenTable:
        """The same table on another base vocabulary with so many ids of text: the ids of tags
        follow these, and one for padding.
        """
        first = ordinary + 1
        special = {
            tag: token - self.first_special_id + first for tag, token in self.special.items()
        }
        size = padded(first + len(special), self.pad_vocabulary_to)
        return replace(
            self, base_vocabulary=base, first_special_id=first, special=special, vocab_size=size
        )

    @cached_property
    def openers(self) -> dict[str, Terminal]:
        return {t.opens: t for t in self.terminals.values() if t.opens}

    def kinds(self, role: str) -> frozenset[str]:
        """The kinds of block with that role."""
        return frozenset(kind for kind, t in self.openers.items() if t.role == role)

    @cached_property
    def closers(self) -> dict[str, Terminal]:
        return {kind: t for t in self.terminals.values() if not t.mark for kind in t.ends}

    @cached_property
    def marks(self) -> dict[str, Terminal]:
        return {
            t.name.lower(): t
            for t in self.terminals.values()
            if t.mark or not (t.opens or t.closes)
        }

    @cached_property
    def order(self) -> dict[str, int]:
        """Terminal name -> rank, for stable messages: text, opening tags and marks, closing tags,
        the end.
        """
        names = sorted(self.terminals, key=lambda n: bool(self.terminals[n].closes))
        return {name: i for i, name in enumerate([TEXT, *names, END])}

    def describe(self, names: frozenset[str] | set[str]) -> tuple[str, ...]:
        """Spellings of a set of terminals in a fixed order; TEXT is "text" and END is "the end"."""
        words = {TEXT: "text", END: "the end"}
        return tuple(
            words[n] if n in words else self.terminals[n].shown
            for n in sorted(names, key=self.order.__getitem__)
        )

    @cached_property
    def literals(self) -> re.Pattern[str]:
        """Every string that would be read as structure: single-id tags, and tags spelled in plain
        text.
        """
        found = sorted({re.escape(s) for s in self.special}, key=len, reverse=True)
        found += [pattern(t, core=True) for t in self.plain_tags]
        return re.compile("|".join(found))

    @cached_property
    def plain_tags(self) -> tuple[Terminal, ...]:
        """Terminals spelled without any single-id tag: for the tokenizer they are text."""
        return tuple(
            t for t in self.terminals.values() if not any(p.kind == "special" for p in t.spelling)
        )

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """All tags as people write them, but for those with attributes."""
        return (*self.special, *(t.shown for t in self.plain_tags if not t.patterns))

    @cached_property
    def attributed(self) -> tuple[str, ...]:
        """The tags with attributes, as people write them."""
        return tuple(t.shown for t in self.plain_tags if t.patterns)

    @cached_property
    def attributes(self) -> tuple[re.Pattern[str], ...]:
        """The patterns of attribute values."""
        return tuple(
            re.compile(p)
            for p in sorted({p for t in self.terminals.values() for p in t.patterns.values()})
        )

    @cached_property
    def first_characters(self) -> frozenset[str]:
        """What a tag can begin with: text without these holds no tag and nothing that is almost
        one.
        """
        return frozenset(t.shown[0] for t in self.terminals.values()) | {s[0] for s in self.special}

    @cached_property
    def lexer(self) -> re.Pattern[str]:
        """One named group a terminal, over serialised text."""
        return self._lexer(None)

    @cached_property
    def sentinels(self) -> dict[str, str]:
        """Special tag -> a lone surrogate that stands for its id where ids are lexed; no legal text
        holds one.
        """
        return {spelling: chr(0xD800 + i) for i, spelling in enumerate(self.special)}

    @cached_property
    def id_lexer(self) -> re.Pattern[str]:
        """As `lexer`, over decoded ids in which special ids are sentinels."""
        return self._lexer(self.sentinels)

    def _lexer(self, special: dict[str, str] | None) -> re.Pattern[str]:
        rows = sorted(self.terminals.values(), key=lambda t: -len(t.shown))
        named = [(t.name, replace(t, spelling=t.spelling[t.led :])) for t in rows]
        parts = {special[s] if special else s for s in self.special if s not in self._whole}
        spelled = [(name, _first(t, special), pattern(t, special)) for name, t in named]
        spelled += [
            (f"{_ALONE}{i}", part[0], re.escape(part)) for i, part in enumerate(sorted(parts))
        ]
        if not all(first for _, first, _ in spelled):
            return re.compile("|".join(f"(?P<{name}>{body})" for name, _, body in spelled))
        # The regex engine skips to a set of characters quickly, but only if no group stands before
        # the set.
        firsts = "".join(re.escape(c) for c in sorted({first for _, first, _ in spelled}))
        rest = (
            f"(?<={re.escape(first)})(?P<{name}>{body[len(re.escape(first)) :]})"
            for name, first, body in spelled
        )
        return re.compile(f"[{firsts}](?:{'|'.join(rest)})")

    @cached_property
    def _whole(self) -> set[str]:
        """The single-id tags that are terminals by themselves, but for white space."""
        rows = [[p for p in t.spelling if p.kind != "space"] for t in self.terminals.values()]
        return {row[0].value for row in rows if len(row) == 1 and row[0].kind == "special"}

    @cached_property
    def tool_names(self) -> re.Pattern[str] | None:
        return re.compile(self.tool_declaration, re.MULTILINE) if self.tool_declaration else None


_ALONE = "alone_"  # the lexers' groups of what is STRAY; no terminal can be called this


def _first(terminal: Terminal, special: dict[str, str] | None) -> str:
    """The character that every spelling begins with; "" where there is none."""
    piece = terminal.spelling[0]
    if piece.kind == "special" and special is not None:
        return special[piece.value][0]
    return piece.value[0] if piece.kind in ("special", "text") else ""


def pattern(
    terminal: Terminal, special: dict[str, str] | None = None, *, core: bool = False
) -> str:
    """A regular expression for a terminal; `special` replaces the spelling of single-id tags (by
    sentinels, for ids).

    White space in front of it is not in the expression: `surface` looks back for it. `core` leaves
    out all other, too.
    """
    out: list[str] = []
    for piece in terminal.spelling:
        if piece.kind == "attr":
            out.append(f"(?P<{terminal.name}__{piece.value}>{piece.pattern})")
        elif piece.kind == "space" and (core or not out):
            continue
        elif piece.kind == "space":
            # A word that the white space would have ended must end without it: `<users` is no
            # `<user`.
            missing = r"(?!\w)" if out and re.search(r"\w$", out[-1]) else ""
            out.append(f"(?:{re.escape(piece.value)}|{missing})" if piece.exact else r"\s*+")
        elif piece.kind == "special" and special is not None:
            out.append(re.escape(special[piece.value]))
        else:
            out.append(re.escape(piece.value))
    return "".join(out)


def padded(used: int, to: int) -> int:
    return -(-used // to) * to
