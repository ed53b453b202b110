"""Encodes many texts in one call.

Input are texts joined by NUL, which the pattern never merges with text; output are the ids of all,
each text as if encoded alone. There are two engines. gigatoken, where it is installed, is more than
ten times as fast as tiktoken; its Unicode tables may be newer, so each character is tried with both
before it is trusted. Without gigatoken, tiktoken itself runs a simpler pattern. Each engine names
the texts that it may cut otherwise than GPT-2's pattern; `Tokenizer.encode_batch` encodes these one
by one.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from mypt_spec.tokenizer.vocabulary import FILE, write_ranks

if TYPE_CHECKING:
    import gigatoken
    import tiktoken

BETWEEN = "\0"
# gigatoken's memory of words has no bound. It is emptied when the process has grown by so many
# bytes since it was empty, or, where the system does not tell its size, after so many characters.
_GROWTH, _REMEMBERED = 24 << 20, 32 << 20


class Engine(Protocol):
    """Encodes joined texts, each as if it were alone.

    `library` is the package that does it.
    """

    library: str

    def encode(self, joined: str) -> npt.NDArray[np.uint32]:
        """Returns the ids (uint32, shape (n,)), with that of `BETWEEN` between texts."""

    def doubts(self, joined: str) -> re.Pattern[str] | None:
        """Returns a pattern that finds the texts which must be encoded one by one, None for none.

        Raises ValueError for a lone surrogate.
        """


@cache
def engine(base: tiktoken.Encoding, between: int) -> Engine:
    """Returns the fastest engine that is installed and can hold the vocabulary.

    `between` is the id of `BETWEEN`, which no other token has.
    """
    if importlib.util.find_spec("gigatoken") is not None:
        try:
            return _Giga(base, between)
        except RuntimeError:  # ranks with gaps
            pass
    return _Simple(base, between)


# GPT-2's pattern cuts a run of white space so that its last character goes with the following
# piece. This pattern cuts runs of one or two, followed by something, alike. It needs no look-ahead,
# so a finite automaton runs it, twice as fast.
_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s"
_LONG_RUN = re.compile(r"\s\s\s|\s\s\Z")
_WIDE_SPACES = (
    0xE19A80,
    0xE2819F,
    0xE38080,
    *range(0xE28080, 0xE2808B),
    0xE280A8,
    0xE280A9,
    0xE280AF,
)


class _Simple:
    """tiktoken with a pattern that cuts all but long runs of white space as GPT-2's does."""

    library = "tiktoken"

    def __init__(self, base: tiktoken.Encoding, between: int) -> None:
        import tiktoken

        special = {BETWEEN: between}
        self.encoding = tiktoken.Encoding(
            f"{base.name}-simple",
            pat_str=_PATTERN,
            mergeable_ranks=base._mergeable_ranks,
            special_tokens=special,
        )

    def encode(self, joined: str) -> npt.NDArray[np.uint32]:
        found: npt.NDArray[np.uint32] = self.encoding.encode_to_numpy(
            joined, allowed_special={BETWEEN}, disallowed_special=()
        )
        return found

    def doubts(self, joined: str) -> re.Pattern[str] | None:
        return _LONG_RUN if _long_runs(joined.encode()) else None


def _long_runs(data: bytes) -> bool:
    """Returns whether joined texts may hold white space that `_PATTERN` does not cut alike."""
    chars = np.frombuffer(data, np.uint8)
    low = chars <= ord(" ")  # white space, control characters, and BETWEEN
    if (low[:-2] & low[1:-1] & low[2:]).any() or low[-2:].sum() == 2:
        return True
    if data.isascii():
        return False
    if np.isin(chars[np.flatnonzero(chars == 0xC2) + 1], (0x85, 0xA0)).any():
        return True
    wide = np.flatnonzero(chars - np.uint8(0xE1) < 3)  # below it, the difference wraps around
    codes = (
        chars[wide].astype(np.int64) << 16 | chars[wide + 1].astype(np.int64) << 8 | chars[wide + 2]
    )
    return bool(np.isin(codes, _WIDE_SPACES).any())


class _Giga:
    """gigatoken, which remembers every word that it meets."""

    library = "gigatoken"

    def __init__(self, base: tiktoken.Encoding, between: int) -> None:
        self.vocabulary, self.special = write_ranks(base._mergeable_ranks), {BETWEEN: between}
        self._forget()

    def encode(self, joined: str) -> npt.NDArray[np.uint32]:
        now = _resident()
        if now - self.empty > _GROWTH or (not now and self.spent > _REMEMBERED):
            del self.tokenizer  # first, so that its memory is free for the new one
            if now:
                _hand_back()
            self._forget()
        self.spent += len(joined)
        return self.tokenizer.encode(joined)

    def _forget(self) -> None:
        """Loads the vocabulary, with no word remembered."""
        self.tokenizer = _load(self.vocabulary, self.special)
        self.spent, self.empty = 0, _resident()

    def doubts(self, joined: str) -> re.Pattern[str] | None:
        if joined.isascii():
            return None
        odd = _characters().odd(joined)
        return re.compile(f"[{re.escape(odd)}]") if odd else None


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


def _load(vocabulary: bytes, special: dict[str, int]) -> gigatoken.Tokenizer:
    import gigatoken

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        file.write_bytes(vocabulary)
        return gigatoken.Tokenizer.from_tiktoken(file, "gpt2", special)


@cache
def _characters() -> _Characters:
    return _Characters()


class _Characters:
    """Knows which characters both libraries take for the same.

    That is for a letter, a number, white space, or something else.
    """

    def __init__(self) -> None:
        import tiktoken

        # Text that a pattern does not match has no ids.
        ranks = {bytes([byte]): byte for byte in range(256)}
        self.kinds = [
            tiktoken.Encoding(p, pat_str=p, mergeable_ranks=ranks, special_tokens={})
            for p in (r"\p{L}", r"\p{N}", r"\s")
        ]
        self.known = np.zeros(0x110000, np.uint8)  # by code point: 1 alike, 2 not
        self.known[:128] = 1

    def odd(self, text: str) -> str:
        """Returns the characters of a text that the two libraries do not take for the same."""
        import gigatoken

        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        found = self.known[codes]
        if found.all() and found.max() == 1:
            return ""
        for char in map(chr, np.unique(codes[found == 0]).tolist()):
            number = next((i for i, kind in enumerate(self.kinds) if kind.encode_ordinary(char)), 3)
            pieces = [
                piece.decode() for piece in gigatoken.pretokenizer(f"a{char}1.{char}.".encode())
            ]
            alike = pieces == [
                [f"a{char}", "1", ".", char, "."], ["a", f"{char}1", ".", char, "."],
                ["a", char, "1", ".", char, "."], ["a", char, "1", f".{char}."],
            ][number]  # fmt: skip
            self.known[ord(char)] = 1 if alike else 2
        return "".join(map(chr, np.unique(codes[self.known[codes] == 2]).tolist()))
