"""Encodes renderings of a chat template by the vocabulary of the model.

Input are renderings with the places of their texts. Output are ids, and where each begins. Texts
between special tokens that many renderings share, such as the names of roles, are encoded once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import is_normalized, normalize

from mypt_lint.template.align import Aligned, spelled
from mypt_spec.memo import Memo
from mypt_spec.tokenizer.bpe import Bpe, encoding
from mypt_spec.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    EncodeBatch = Callable[[list[str]], tuple[npt.NDArray[Any], npt.NDArray[Any]]]

_SHORT, _LITERALS = 256, 4096  # code points of a text whose ids are kept, and how many
_BY_ASCII = re.compile(r"[\x00-\x7f][^\x00-\x7f]*|[^\x00-\x7f]+")


class _Run(NamedTuple):
    """A text as it is encoded, the special token after it, "" for none, and where both begin."""

    text: str
    tag: str
    places: Sequence[int]  # of its characters in the rendering
    end: int  # where the tag begins there


class RenderingEncoder:
    """Encodes renderings by one vocabulary, and keeps the ids of literals."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._bpe = Bpe(partial(encoding, vocabulary), vocabulary.patterns)
        self._literals: Memo[str, npt.NDArray[Any]] = Memo(_LITERALS)

    def load(self) -> None:
        """Loads what the first rendering would load."""
        self._bpe.base()

    @cached_property
    def _sizes(self) -> npt.NDArray[np.int64]:
        """Returns how many bytes each token has, by its id."""
        import numpy as np

        sizes = np.zeros(self.vocabulary.size, np.int64)
        ranks = self.vocabulary.ranks
        sizes[np.fromiter(ranks.values(), np.int64, len(ranks))] = [*map(len, ranks)]
        for tag, i in self.vocabulary.special.items():
            sizes[i] = len(tag.encode())
        return sizes

    @cached_property
    def tags(self) -> re.Pattern[str]:
        """Returns what finds special tokens."""
        return spelled(frozenset(self.vocabulary.special))

    def encoded(
        self, renderings: Sequence[Aligned], encode_batch: EncodeBatch | None = None
    ) -> list[Ids | ValueError]:
        """Returns the ids of each rendering, and where in it each begins (code points).

        A special token has its id where the template writes it; in a text, it is what the
        tokenizer makes of its letters. Of a rendering with a lone surrogate, or one that the
        tokenizer of the model would encode otherwise, it returns a ValueError. `encode_batch`
        encodes many texts, as `Tokenizer.encode_batch`.
        """
        import numpy as np

        parts: list[list[_Run] | ValueError] = []
        for aligned in renderings:
            try:
                parts.append([*self._runs(aligned)])
            except ValueError as error:
                parts.append(error)
        texts = {run.text: None for runs in parts if isinstance(runs, list) for run in runs}
        known = self._literals.entries
        new = [text for text in texts if text not in known]
        arrays: dict[str, npt.NDArray[Any]]
        if encode_batch is None:
            arrays = {text: np.array(self._bpe.encode(text), np.int64) for text in new}
        else:
            ids, sizes = encode_batch(new)
            arrays = (
                dict(zip(new, np.split(ids, np.cumsum(sizes)[:-1]), strict=True)) if new else {}
            )
        arrays |= {text: known[text] for text in texts if text in known}
        for text in new:
            if len(text) <= _SHORT:
                self._literals.keep(text, arrays[text].copy())  # not a view of all others
        return [
            runs if isinstance(runs, ValueError) else self._joined(aligned.text, runs, arrays)
            for aligned, runs in zip(renderings, parts, strict=True)
        ]

    def _joined(self, text: str, runs: list[_Run], arrays: Mapping[str, npt.NDArray[Any]]) -> Ids:
        """Returns the ids of runs and of the tags after them, and where each begins."""
        import numpy as np

        special = self.vocabulary.special
        pieces: list[Any] = []
        for run in runs:
            pieces.append(arrays[run.text])
            if run.tag:
                pieces.append([special[run.tag]])
        ids = np.concatenate(pieces).astype(np.int64)
        sizes = self._sizes[ids]
        starts = np.cumsum(sizes) - sizes
        changed = not all(isinstance(run.places, range) for run in runs)
        whole = "".join(run.text + run.tag for run in runs) if changed else text
        if not whole.isascii():
            begins = (np.frombuffer(whole.encode(), np.uint8) & 0xC0) != 0x80
            starts = (np.cumsum(begins) - 1)[starts]
        if changed:
            origins = [(*run.places, *range(run.end, run.end + len(run.tag))) for run in runs]
            starts = np.array([*chain.from_iterable(origins)], np.int64)[starts]
        return ids, starts

    def _runs(self, aligned: Aligned) -> Iterator[_Run]:
        """Yields the parts of a rendering between special tokens. Raises ValueError."""
        text, at = aligned.text, 0
        for tag in self._tags_in(aligned):
            start, end = tag.span() if tag else (len(text), len(text))
            run, places = self._as_encoded(text, at, start)
            if not at and run and self.vocabulary.leads:
                raise ValueError(
                    "the template begins with text, before which the tokenizer puts a space; "
                    "begin it with a special token"
                )
            run.encode()  # raises for a lone surrogate
            if tag and (why := self.vocabulary.unfit.get(tag[0])):
                raise ValueError(f"the special token {tag[0]!r} {why}")
            yield _Run(run, tag[0] if tag else "", places, start)
            at = end

    def _as_encoded(self, text: str, start: int, end: int) -> tuple[str, Sequence[int]]:
        """Returns a part of a text as the tokenizer sees it, and from where each character is."""
        run = text[start:end]
        lacks = self.vocabulary.lacks
        if lacks and (absent := set(lacks).intersection(run.encode())):
            raise ValueError(f"the vocabulary has no token for the byte {min(absent):#04x}")
        if not self.vocabulary.composed or is_normalized("NFC", run):
            return run, range(start, end)
        out, origins = "", list[int]()
        for part in _BY_ASCII.finditer(run):  # nothing is composed across the beginning of a part
            composed = normalize("NFC", part[0])
            same = composed == part[0]
            origins += [start + part.start() + i * same for i in range(len(composed))]
            out += composed
        return out, origins

    def _tags_in(self, aligned: Aligned) -> Iterator[re.Match[str] | None]:
        """Yields the special tokens that the template writes, and None for the end."""
        inside = [(piece.start, piece.end) for piece in aligned.pieces]
        for tag in self.tags.finditer(aligned.text):
            n = max(bisect_right(inside, tag.span()) - 1, 0)
            if not any(a < tag.end() and tag.start() < b for a, b in inside[n : n + 2]):
                yield tag
        yield None
