"""Encodes many texts in one call.

Input are texts joined by NUL, which the pattern never merges with text; output are the ids of all,
each text as if encoded alone. There are two engines. gigatoken, where it is installed, is more than
ten times as fast as tiktoken; its Unicode tables may be newer, so each character is tried with both
before it is trusted. Without gigatoken, tiktoken itself runs a plain pattern. Each engine names
the texts that it may cut otherwise than the vocabulary's pattern; `Tokenizer.encode_batch` encodes
these one by one. `SCHEMES` has the patterns for which there are engines.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import re
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mypt_spec.tokenizer.bpe import BETWEEN, LLAMA3, O200K, PLAIN, QWEN2, TEKKEN, around_white
from mypt_spec.tokenizer.characters import Characters, small_ranks
from mypt_spec.tokenizer.vocabulary import FILE, GPT2_PATTERN, write_ranks

if TYPE_CHECKING:
    import gigatoken
    import tiktoken

# The name that gigatoken has for a pattern, "" where it has none.
SCHEMES = {GPT2_PATTERN: "gpt2", QWEN2: "qwen2", LLAMA3: "olmo3", O200K: "o200k", TEKKEN: ""}
# gigatoken's memory of words has no bound. It is emptied when the process has grown by so many
# bytes since it was empty, or, where the system does not tell its size, after so many characters.
# A vocabulary that takes longer to load may remember more. What grew after fewer characters than
# these for each of its tokens is something else of the process.
_GROWTH, _REMEMBERED, _LEAST = 24 << 20, 32 << 20, 32
_USUAL = 50_257  # tokens of a vocabulary
_WORTH = 128  # characters for each token from which on it pays to load gigatoken
_met = Counter[str]()  # characters that were to be encoded, by the name of the encoding


def engine_for(
    base: tiktoken.Encoding, between: int, pattern: str, size: int
) -> _Simple | _Giga | None:
    """Returns the engine for texts of so many characters, None where there is none for `pattern`.

    gigatoken's takes longer to load than a few files to encode.
    """
    if pattern not in SCHEMES:
        return None
    _met[base.name] += size
    pays = _met[base.name] >= _WORTH * base.n_vocab
    return (engine if pays or base.name == GPT2 else _simple)(base, between, pattern)


# Each token of this encoding comes of joining others: its file is pinned, and a test looks.
GPT2 = "gpt2"


@cache
def engine(base: tiktoken.Encoding, between: int, pattern: str) -> _Simple | _Giga:
    """Returns the fastest engine that is installed and can hold the vocabulary.

    `between` is the id of `BETWEEN`, which no other token has; `pattern` is one of `SCHEMES`.
    """
    installed = SCHEMES[pattern] and importlib.util.find_spec("gigatoken") is not None
    giga = installed and (base.name == GPT2 or _joined(base))
    return (_Giga if giga else _simple)(base, between, pattern)


def _joined(base: tiktoken.Encoding) -> bool:
    """Returns whether each token comes of joining others; gigatoken can hold no other.

    tiktoken takes a piece that is a token whole. Before a byte that is in no other token it joins.
    """
    ranks = base._mergeable_ranks
    long = [(token, i) for token, i in ranks.items() if len(token) > 1]
    inside = {*b"".join(token for token, _ in long)}
    last = next((token for token in ranks if len(token) == 1 and token[0] not in inside), b"")
    join = base._core_bpe.encode_single_piece
    return (
        last != b""
        and all(bytes([byte]) in ranks for byte in inside)
        and all(join(token + last) == [i, ranks[last]] for token, i in long)
    )


class _Simple:
    """tiktoken with a pattern that cuts all but long runs of white space as the usual one does.

    An engine encodes joined texts, each as if it were alone, with the package `library`.
    """

    library = "tiktoken"

    def __init__(self, base: tiktoken.Encoding, between: int, pattern: str) -> None:
        import tiktoken

        self.encoding, plain = base, PLAIN[pattern]
        if base._pat_str != plain or base._special_tokens.get(BETWEEN) != between:
            ranks, special = base._mergeable_ranks, {BETWEEN: between}
            self.encoding = tiktoken.Encoding(
                f"{base.name}-plain", pat_str=plain, mergeable_ranks=ranks, special_tokens=special
            )

    def encode(self, joined: str) -> npt.NDArray[np.uint32]:
        """Returns the ids (uint32, shape (n,)), with that of `BETWEEN` between texts."""
        ids: npt.NDArray[np.uint32] = self.encoding.encode_to_numpy(
            joined, allowed_special={BETWEEN}, disallowed_special=()
        )
        return ids

    def doubtful(self, joined: str) -> list[int]:
        """Returns the numbers of the texts that `cut` may have to cut.

        These may have a long run of white space. Raises ValueError for a lone surrogate.
        """
        data = joined.encode()
        chars = np.frombuffer(data, np.uint8)
        low = chars <= ord(" ")  # white space, control characters, and BETWEEN
        if self.encoding._pat_str != PLAIN[GPT2_PATTERN]:  # in others, line ends are apart
            low &= (chars != ord("\n")) & (chars != ord("\r"))
        blank = low & (chars != ord(BETWEEN))
        places = np.flatnonzero(blank[:-2] & blank[1:-1] & low[2:]).tolist()
        places += [len(data)] if blank[-2:].sum() == 2 else []
        places += [] if data.isascii() else _wide_spaces(data).tolist()
        ends = np.flatnonzero(chars == ord(BETWEEN))
        return sorted({*np.searchsorted(ends, places).tolist()})  # np.unique would load numpy.ma

    def cut(self, text: str) -> list[str]:
        """Returns a text in pieces; every second one must be encoded by itself."""
        return around_white(text, self.encoding._pat_str)


def _wide_spaces(data: bytes) -> npt.NDArray[np.int64]:
    """Returns the places of white space of two or three bytes; a regular expression is slow."""
    chars = np.frombuffer(data + b"\0\0", np.uint8)
    places = np.flatnonzero((chars == 0xC2) | (chars >= 0xE1) & (chars <= 0xE3))
    first, second, third = chars[places], chars[places + 1], chars[places + 2]
    of_two = (first == 0xC2) & ((second == 0x85) | (second == 0xA0))
    general = (third <= 0x8A) | (third == 0xA8) | (third == 0xA9) | (third == 0xAF)
    general = (second == 0x80) & general | (second == 0x81) & (third == 0x9F)
    others = (first == 0xE1) & (second == 0x9A) | (first == 0xE3) & (second == 0x80)
    is_wide = of_two | (first == 0xE2) & general | others & (third == 0x80)
    return np.extract(is_wide, places)


_simple = cache(_Simple)


class _Giga:
    """gigatoken, which remembers every word that it meets. Its ids count from 0, without gaps."""

    library = "gigatoken"

    def __init__(self, base: tiktoken.Encoding, between: int, pattern: str) -> None:
        ranks = sorted(base._mergeable_ranks.items(), key=lambda item: item[1])
        # gigatoken needs a token for each byte; no text comes here that has one without an id.
        bytes_ = {bytes([byte]): 0 for byte in range(256)}
        ranks += [item for item in bytes_.items() if item[0] not in base._mergeable_ranks]
        self.vocabulary = write_ranks({token: i for i, (token, _) in enumerate(ranks)})
        self.special, self.scheme = {BETWEEN: len(ranks)}, SCHEMES[pattern]
        self.ids = np.array([*(i for _, i in ranks), between], np.uint32)
        self.growth, self.least = _GROWTH * max(1, len(ranks) // _USUAL), _LEAST * len(ranks)
        self.characters = _characters(pattern)
        self._forget()

    def encode(self, joined: str) -> npt.NDArray[np.uint32]:
        now = _resident()
        grown = now - self.empty > self.growth and self.spent >= self.least
        if grown or (not now and self.spent > _REMEMBERED):
            del self.tokenizer  # first, so that its memory is free for the new one
            if now:
                _hand_back()
            self._forget()
        self.spent += len(joined)
        ids: npt.NDArray[np.uint32] = self.ids[self.tokenizer.encode(joined)]
        return ids

    def _forget(self) -> None:
        """Loads the vocabulary, with no word remembered."""
        self.tokenizer = _load(self.vocabulary, self.special, self.scheme)
        self.spent, self.empty = 0, _resident()

    def doubtful(self, joined: str) -> list[int]:
        odd = "" if joined.isascii() else self.characters.odd(joined)
        search = re.compile(f"[{re.escape(odd)}]").search if odd else None
        return [i for i, text in enumerate(joined.split(BETWEEN)) if search(text)] if search else []

    def cut(self, text: str) -> list[str]:
        return ["", text, ""]


def _resident() -> int:
    """Returns the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _hand_back() -> None:
    """Returns freed memory to the system, or the next words fill it and no growth is seen."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # of glibc alone
        trim(0)


def _load(vocabulary: bytes, special: dict[str, int], scheme: str) -> gigatoken.Tokenizer:
    import gigatoken

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        file.write_bytes(vocabulary)
        return gigatoken.Tokenizer.from_tiktoken(file, scheme, special)


@cache
def _characters(pattern: str) -> Characters:
    import tiktoken

    ranks = small_ranks()
    special = {BETWEEN: len(ranks)}
    usual = tiktoken.Encoding(
        "small", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
    )
    quick = _load(write_ranks(ranks), special, SCHEMES[pattern])

    def plain(text: str) -> npt.NDArray[np.uint32]:
        ids: npt.NDArray[np.uint32] = usual.encode_to_numpy(text, allowed_special={BETWEEN})
        return ids

    return Characters(plain, quick.encode)
