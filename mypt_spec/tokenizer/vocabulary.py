"""Holds a vocabulary that replaces GPT-2's: the ids of text, how text is cut, and special tokens.

All are BPE: text is cut into pieces by regular expressions; in a piece, of all
neighbours that make a token, those of the lowest id are joined first. A piece begins as its bytes.
Or the vocabulary is `by_character`: a piece begins as its characters, those without a token as
their bytes, and the order of joining is that of the tokens. `sources` reads the files
that users have; here are the two that are kept beside data and models made with a vocabulary. A
file of ranks, as tiktoken writes them, has lines of a token in base64 and its id, from 0; its text
is cut as GPT-2's. All others are kept as one JSON object, which needs no other library to be read
again:

- `mypt_vocabulary`: 1, the version.
- `patterns`: regular expressions. Text is cut at the matches of each, and then each piece by the
  next.
- `special`: the special tokens that the vocabulary had, and their ids. No text becomes one.
- `by_character`: true, where the vocabulary is; its lists are in the order of joining.
- `composed`, `leads`: true, where the vocabulary is; see `Vocabulary`.
- `tokens`: lists of a first id, and the tokens that have the ids from there on, in base64.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mypt_spec.table import IdSet, RequiredVocabulary

FILE = "vocabulary.tiktoken"  # the name of a copy, which is kept with data made with it
JSON_FILE = "vocabulary.json"  # the same of what is more than ranks
COPIES = (FILE, JSON_FILE)
FLAGS = ("by_character", "composed", "leads")  # fields of a Vocabulary
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
VERSION = "mypt_vocabulary"
# Bytes without a token are those of characters that a vocabulary was not made for; never of these.
_NEEDED = frozenset([*b"\t\n", *range(0x20, 0x7F)])
_NO_TOKEN = "has no token for the byte {:#04x} ({} of 256 bytes lack)"
_SHAPE = "expected lines of a token in base64 and its rank, as tiktoken writes them"
Patterns = tuple[str, ...]


class VocabularyError(RuntimeError):
    """A vocabulary is missing, altered or damaged; the message says which file, and what to do."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A vocabulary that was read.

    `ranks[token]` is the id, and the lower it is, the sooner the token is joined; `by_character`,
    the order of `ranks` decides, and only whole characters are joined. `special` are
    the vocabulary's own special tokens with their ids. `patterns` cut text, one after another.
    `file` and `data` are the name and the bytes of a copy, of which `sha256` is the digest; `name`
    is made of that. `unfit` says of tokens why they cannot be tags of a format, `strips` of special
    tokens whether its own tokenizer drops white space before and after them, `composed` whether
    text is encoded in NFC, and `leads` whether its own tokenizer puts a space before an input that
    begins with text.
    """

    name: str
    sha256: str
    ranks: dict[bytes, int]
    data: bytes
    file: str
    special: dict[str, int]
    patterns: Patterns
    ids: IdSet
    unfit: Mapping[str, str] = field(default_factory=dict)
    strips: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    composed: bool = False
    by_character: bool = False
    leads: bool = False

    @cached_property
    def lacks(self) -> bytes:
        """Returns the bytes that have no token; what is written without them can be encoded."""
        return _lacking(self.ranks)

    @property
    def size(self) -> int:
        """Returns one more than the highest id."""
        return max(1, self.ids.ranges[-1].stop, *(1 + i for i in self.special.values()))

    @property
    def copy(self) -> dict[str, bytes]:
        """Returns the file that is kept beside what was made with it, by its name."""
        return {self.file: self.data}


def with_texts(vocabulary: Vocabulary, tags: Iterable[str]) -> Vocabulary:
    """Returns the vocabulary with some of its special tokens as text, each a piece by itself."""
    texts = {tag: vocabulary.special[tag] for tag in sorted(tags)}
    if not texts:
        return vocabulary
    words = "|".join(map(re.escape, texts))
    ranks = vocabulary.ranks | {tag.encode(): i for tag, i in texts.items()}
    return replace(
        vocabulary,
        name=f"{vocabulary.name} {' '.join(texts)}",
        ranks=ranks,
        special={tag: i for tag, i in vocabulary.special.items() if tag not in texts},
        patterns=(words, *(f"{words}|{pattern}" for pattern in vocabulary.patterns)),
        ids=IdSet.from_ids(ranks.values()),
    )


def from_ranks(data: bytes, path: str) -> Vocabulary:
    """Returns the vocabulary of a file of ranks. Raises VocabularyError, which names the line."""
    return _vocabulary(FILE, data, _ranks(data, path), {}, (GPT2_PATTERN,))


def from_tokens(
    ranks: dict[bytes, int], special: dict[str, int], patterns: Patterns, **flags: bool
) -> Vocabulary:
    """Returns the vocabulary of these tokens; equal ones have equal bytes.

    `flags` are those of FLAGS, false where left out. Raises ValueError for a vocabulary that has no
    token for a letter of ASCII.
    """
    rows = [*ranks.items()]
    if not flags.get("by_character"):
        rows.sort(key=lambda item: item[1])
    plain = not special and patterns == (GPT2_PATTERN,) and not any(flags.values())
    if plain and not _lacking(ranks) and [rank for _, rank in rows] == list(range(len(rows))):
        return _vocabulary(FILE, write_ranks(ranks), ranks, {}, patterns)
    runs: list[tuple[int, list[str]]] = []
    for token, rank in rows:
        if not runs or rank != runs[-1][0] + len(runs[-1][1]):
            runs.append((rank, []))
        runs[-1][1].append(base64.b64encode(token).decode())
    ordered = dict(sorted(special.items(), key=lambda item: item[1]))
    content: dict[str, Any] = {VERSION: 1, "patterns": patterns, "special": ordered}
    content |= {flag: True for flag in FLAGS if flags.get(flag)} | {"tokens": runs}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    return _vocabulary(JSON_FILE, data, ranks, ordered, patterns, **flags)


def match_required(vocabulary: Vocabulary, required: RequiredVocabulary) -> Vocabulary:
    """Returns the vocabulary with what a table says of ranks. Raises ValueError for another one."""
    if vocabulary.file == FILE and (required.pattern or required.special):
        patterns = (required.pattern,) if required.pattern else vocabulary.patterns
        vocabulary = from_tokens(vocabulary.ranks, dict(required.special), patterns)
    if required.sha256 not in ("", vocabulary.sha256):
        says = f"[vocabulary] in tokens.toml says {required.sha256}"
        raise ValueError(f"the vocabulary is another one: SHA-256 {vocabulary.sha256}, {says}")
    return vocabulary


def from_json_file(data: bytes, content: dict[str, Any], path: str) -> Vocabulary:
    """Returns the vocabulary of a JSON copy, whose JSON is `content`. Raises VocabularyError."""
    try:
        if content[VERSION] != 1:
            raise ValueError(f"is of version {content[VERSION]}, expected 1")
        ranks = {
            base64.b64decode(token, validate=True): first + i
            for first, tokens in content["tokens"]
            for i, token in enumerate(tokens)
        }
        special = {str(tag): int(i) for tag, i in content["special"].items()}
        patterns = tuple(map(str, content["patterns"]))
        flags = {flag: bool(content.get(flag)) for flag in FLAGS}
        again = from_tokens(ranks, special, patterns, **flags)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VocabularyError(f"{path}: is not a complete vocabulary: {error!r}") from None
    if again.data != data:
        raise VocabularyError(f"{path}: was altered; name the vocabulary that it was made from")
    return again


def _vocabulary(
    file: str, data: bytes, ranks: dict[bytes, int], special: dict[str, int], patterns: Patterns,
    **flags: bool,
) -> Vocabulary:  # fmt: skip
    lacks = _lacking(ranks)
    if _NEEDED.intersection(lacks):
        raise ValueError(_NO_TOKEN.format(lacks[0], len(lacks)))
    ids = IdSet.from_ids(ranks.values())
    twice = [tag for tag, i in special.items() if i in ids]
    if len(ids) != len(ranks) or twice or len(set(special.values())) != len(special):
        raise ValueError(f"gives one id to two tokens {', '.join(twice[:3])}".rstrip())
    digest = hashlib.sha256(data).hexdigest()
    name = f"{'ranks' if file == FILE else 'vocabulary'}-{digest[:16]}"
    return Vocabulary(name, digest, ranks, data, file, special, patterns, ids, {}, {}, **flags)


def _lacking(ranks: dict[bytes, int]) -> bytes:
    return bytes(byte for byte in range(256) if bytes([byte]) not in ranks)


def write_ranks(ranks: dict[bytes, int]) -> bytes:
    """Returns the bytes of a file that holds these ranks."""
    rows = sorted(ranks.items(), key=lambda item: item[1])
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in rows)


def _ranks(data: bytes, path: str) -> dict[bytes, int]:
    out: dict[bytes, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            word, rank_text = line.split()
            token, rank = base64.b64decode(word, validate=True), int(rank_text)
        except (ValueError, binascii.Error):
            raise VocabularyError(f"{path}:{number}: {_SHAPE}") from None
        if not token or token in out or rank != len(out):
            message = f"rank {rank} stands where {len(out)} is expected"
            if not token or token in out:
                message = "the token is empty, or occurs twice"
            rule = "ranks count from 0, in order, and every token has one"
            raise VocabularyError(f"{path}:{number}: {message}; {rule}")
        out[token] = rank
    lacks = _lacking(out)
    if lacks:
        raise VocabularyError(f"{path}: {_NO_TOKEN.format(lacks[0], len(lacks))}; {_SHAPE}")
    return out
