"""Encodes text as ids and decodes ids: GPT-2's byte-pair encoding, and a dialect's special ids.

Content is only ever encoded as ordinary text, and tags only by id, so text never becomes a tag
(invariant 6). A file of ranks can replace GPT-2's vocabulary.

There is no network, ever. GPT-2's vocabulary is part of the package, as data: `gpt2/vocab.bpe.gz`,
checked against the SHA-256 that tiktoken pins for it. GPT-2's other file, `encoder.json`, follows
from that one: tests/unit/mypt_spec/test_tokenizer.py makes its bytes and compares their SHA-256.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from mypt_spec.memo import lazy_re
from mypt_spec.table import TokenTable
from mypt_spec.tokenizer.bpe import BETWEEN, Bpe, encoding, immortal
from mypt_spec.tokenizer.vocabulary import GPT2_PATTERN, Vocabulary, VocabularyError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import tiktoken

FILES = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
_SPACED = lazy_re("(?<=[A-Za-z]) (?=[A-Za-z])")
_PACKED = Path(__file__).parent / "gpt2" / "vocab.bpe.gz"
_HELP = "install mypt-tags again: pip install --force-reinstall --no-deps mypt-tags"


@cache
def gpt2_letters() -> tuple[str, ...]:
    """Returns the character that spells each byte in GPT-2's files: itself, or one above U+00FF."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return tuple(chr(byte if byte in plain else 256 + others.index(byte)) for byte in range(256))


def gpt2_merges() -> list[str]:
    """Returns the lines of GPT-2's `vocab.bpe`: two tokens each, to be joined in this order.

    Raises VocabularyError where the package's copy is missing or altered.
    """
    try:
        data = zlib.decompress(_PACKED.read_bytes(), wbits=31)
    except (OSError, zlib.error) as error:
        raise VocabularyError(f"cannot read {_PACKED}: {error}; {_HELP}") from None
    digest, expected = hashlib.sha256(data).hexdigest(), FILES["vocab.bpe"]
    if digest != expected:
        digests = f"SHA-256 {digest}, expected {expected}"
        raise VocabularyError(f"{_PACKED} was altered ({digests}); {_HELP}")
    return data.decode().splitlines()[1:]


def gpt2_ranks() -> dict[bytes, int]:
    """Returns the id of each token of GPT-2: single bytes by their letters, then the merges."""
    letters = gpt2_letters()
    bytes_of = {ord(letter): byte for byte, letter in enumerate(letters)}
    singles = [bytes([byte]) for byte in sorted(range(256), key=letters.__getitem__)]
    # Two tokens of a line have one space between them, and no token is spelled with a space.
    merged = (line.replace(" ", "").translate(bytes_of) for line in gpt2_merges())
    tokens = [*singles, *(token.encode("latin-1") for token in merged)]
    return {token: rank for rank, token in enumerate(tokens)}


@cache
def gpt2() -> tiktoken.Encoding:
    """Returns the GPT-2 encoding: text is 0-50255; no dialect uses 50256, <|endoftext|>."""
    import tiktoken
    from tiktoken_ext.openai_public import r50k_pat_str

    return immortal(
        tiktoken.Encoding(
            "gpt2",
            pat_str=r50k_pat_str,
            mergeable_ranks=gpt2_ranks(),
            special_tokens={"<|endoftext|>": 50256},
            explicit_n_vocab=50257,
        )
    )


def _absent(name: str, kind: str) -> tiktoken.Encoding:
    hint = "name one, with --vocab for instance"
    raise VocabularyError(f"{name} has ids only on a vocabulary ({kind}): {hint}")


class Tokenizer:
    """A base encoding and the special ids of one dialect.

    `special` maps each single-id tag to its id, `vocab_size` is the padded size of the model's
    vocabulary, ids in `ordinary` are text, `lacks` are bytes without a token, and `pad` is an id
    that means nothing: it fills up rows. `files` maps the files of the vocabulary to their SHA-256.
    `vocabulary` replaces the one that the table names. Either is loaded when it is first needed.
    """

    def __init__(self, table: TokenTable, vocabulary: Vocabulary | None = None) -> None:
        self.special = dict(table.special)
        self.vocab_size = table.vocab_size
        self.ordinary, self.pad, self._composes = table.ordinary, table.pad, table.composed
        self.files, self.lacks = dict(FILES), b""
        if vocabulary is not None:
            self.files, self.lacks = {vocabulary.file: vocabulary.sha256}, vocabulary.lacks
            self._text = Bpe(partial(encoding, vocabulary), vocabulary.patterns)
        elif table.required is not None:
            self.files, absent = {}, partial(_absent, table.name, table.required.kind)
            self._text = Bpe(absent, (GPT2_PATTERN,))
        else:
            self._text = Bpe(gpt2, (GPT2_PATTERN,))
        self._by_id = {i: s.encode() for s, i in self.special.items()}
        self._lengths: dict[int, int] = {}

    def encode(self, text: str) -> list[int]:
        """Returns ordinary ids only: a tag in the text becomes the ordinary tokens of its letters.

        The text is encoded in NFC if the vocabulary's own tokenizer does that; `decode` then
        returns that form. Raises ValueError when the text holds a lone surrogate, which has no
        bytes, or a character that has no token.
        """
        return self.encode_as_written(self.composed(text))

    def composed(self, text: str) -> str:
        """Returns a text in NFC if the vocabulary's own tokenizer writes it so, else as it is."""
        return normalize("NFC", text) if self._composes else text

    def encode_as_written(self, text: str) -> list[int]:
        """Returns ids that `decode` turns into this text, in NFC or not. Raises as `encode`."""
        if at := self.unspelled(text):
            raise ValueError(f"the vocabulary has no token for U+{ord(text[at[0]]):04X}")
        return self._text.encode(text)

    def unspelled(self, text: str) -> list[int]:
        """Returns the places of characters that have no token; most vocabularies have all."""
        data = text.encode("utf-8", "ignore") if self.lacks else b""
        if len(data.translate(None, self.lacks)) == len(data):
            return []
        lacks, chars = frozenset(self.lacks), (char.encode("utf-8", "ignore") for char in text)
        return [at for at, char in enumerate(chars) if lacks.intersection(char)]

    def pieces(self, text: str) -> list[str]:
        """Returns the pieces into which a text is cut before each is encoded by itself.

        In GPT-2's vocabulary, `{"name": 5` is cut into `{"`, `name`, `":` and ` 5`.
        """
        return self._text.pieces(text)

    def constant(self, text: str) -> tuple[int, int]:
        """Returns the first and last place where a text is cut, whatever is around it.

        These are spaces between letters. Both are the same where there are no two of them.
        """
        places = [match.start() for match in _SPACED.finditer(text)] if self._text.is_spaced else []
        return (places[0], places[-1]) if places else (0, 0)

    def encode_batch(
        self, texts: list[str]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Returns the ids of all texts, one after another, and how many each text has.

        The ids (uint32, shape (n,)) are those of `encode`, several times as fast; the lengths are
        int64, shape (len(texts),). Raises ValueError for a lone surrogate, and VocabularyError if
        an engine encodes otherwise than tiktoken.
        """
        import numpy as np

        from mypt_spec.tokenizer.batch import engine_for

        composed = [*map(self.composed, texts)] if self._composes else texts
        parts, counts = self._text.parts_of(composed)
        joined = BETWEEN.join(parts)
        between = self.ordinary.ranges[-1].stop + 1  # no id of text
        quick = engine_for(self._text.base(), between, self._text.pattern, len(joined))
        if quick is None or self.unspelled("".join(parts)):
            each = [self.encode(text) for text in texts]
            sizes = np.fromiter(map(len, each), np.int64, len(each))
            joins = itertools.chain.from_iterable(each)
            return np.fromiter(joins, np.uint32, int(sizes.sum())), sizes
        # Parts of which every second piece is encoded by itself.
        cuts: dict[int, list[str]] = {}
        if joined.count(BETWEEN) >= max(1, len(parts)):
            cuts = {i: ["", part, ""] for i, part in enumerate(parts) if BETWEEN in part}
            joined = BETWEEN.join("" if i in cuts else part for i, part in enumerate(parts))
        cuts |= {i: quick.cut(parts[i]) for i in quick.doubtful(joined)}
        alone: list[int] = []
        held = np.zeros(len(parts), np.int64)  # ids of such pieces; each has a place in `joined`
        if cuts:
            parts, ids_of = [*parts], cache(self._text.part_ids)
            for i, (text, *pieces) in sorted(cuts.items()):
                for piece, after in zip(pieces[::2], pieces[1::2], strict=True):
                    alone += (piece_ids := ids_of(piece))
                    held[i] += len(piece_ids)
                    text += BETWEEN * len(piece_ids) + after
                parts[i] = text
            joined = BETWEEN.join(parts)
        encoded = quick.encode(joined)
        ends = np.flatnonzero(encoded == between)[np.cumsum(held + 1)[:-1] - 1]
        ids = np.delete(encoded, ends)
        if alone:
            ids[ids == between] = alone
        ends = np.append(ends - np.arange(len(ends)), len(ids))
        lengths = np.diff(ends[np.cumsum(counts, dtype=np.int64) - 1], prepend=0)
        # One of them is encoded by itself too: a release of a library may have a fault that no test
        # here has seen.
        if texts:
            at = len(joined) % len(texts)
            begin = int(lengths[:at].sum())
            if ids[begin : begin + int(lengths[at])].tolist() != self.encode(texts[at]):
                raise VocabularyError(
                    f"{quick.library} encodes {texts[at][:60]!r} otherwise than tiktoken's "
                    "encode_ordinary; install another version of it, and please report this"
                )
        return ids, lengths

    def length(self, i: int) -> int:
        """Returns how many bytes an ordinary id has."""
        size = self._lengths.get(i)
        if size is None:
            size = self._lengths[i] = len(self._text.decode_bytes([i]))
        return size

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Returns the bytes of the ids; special ids become their spelling.

        Raises ValueError for an id that means nothing.
        """
        out = []
        run: list[int] = []
        first, stop, others = self.ordinary.parts
        for i in map(int, ids):
            if first <= i < stop or i in others:
                run.append(i)
                continue
            if i not in self._by_id:
                meanings = f"ordinary ids are {self.ordinary}, tags {sorted(self._by_id)}"
                raise ValueError(f"id {i} means nothing: {meanings}")
            out += [self._text.decode_bytes(run), self._by_id[i]]
            run = []
        out.append(self._text.decode_bytes(run))
        return b"".join(out)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids; half a character becomes U+FFFD.

        Raises ValueError for an id that means nothing.
        """
        return self.decode_bytes(ids).decode("utf-8", errors="replace")
