"""Encodes renderings of a chat template by the vocabulary of the model.

Input are renderings with the places of their texts. Output are ids, and where each begins. Texts
between special tokens that several renderings share, such as the names of roles, are encoded once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import is_normalized, normalize

from mypt_lint.template.align import Aligned, spelled
from mypt_spec.tokenizer.bpe import Bpe, encoding
from mypt_spec.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    EncodeBatch = Callable[[list[str]], tuple[npt.NDArray[Any], npt.NDArray[Any]]]

# The white space that the library drops is Unicode's: that of str.strip without U+001C to U+001F.
_SPACES = "".join(map(chr, range(0x2000, 0x200B)))
_BLANKS = f"\t\n\v\f\r \x85\xa0\u1680{_SPACES}\u2028\u2029\u202f\u205f\u3000"
_BY_ASCII = re.compile(r"[\x00-\x7f][^\x00-\x7f]*|[^\x00-\x7f]+")


class _Parts(NamedTuple):
    """What a rendering is made of: texts to encode, and ids; the text of all of them as encoded.

    `origins` are the places of its characters in the rendering, None where both are equal.
    """

    parts: list[str | int]
    whole: str
    origins: list[int] | None


class RenderingEncoder:
    """Encodes renderings by one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._bpe = Bpe(partial(encoding, vocabulary), vocabulary.patterns)
        self._lacks = frozenset(vocabulary.lacks)

    def load(self) -> None:
        """Loads what the first rendering would load."""
        self._bpe.base()

    @cached_property
    def _sizes(self) -> npt.NDArray[np.int64]:
        """Returns how many bytes each token has, by its id; 0 for text that was not met yet."""
        import numpy as np

        sizes = np.zeros(self.vocabulary.size, np.int64)
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

        parts: list[_Parts | ValueError] = []
        for aligned in renderings:
            try:
                parts.append(self._parts(aligned))
            except ValueError as error:
                parts.append(error)
        some = [each.parts for each in parts if isinstance(each, _Parts)]
        texts = [*{part: None for each in some for part in each if isinstance(part, str)}]
        if encode_batch is None:
            arrays = [np.array(self._bpe.encode(text), np.int64) for text in texts]
        else:
            ids, sizes = encode_batch(texts)
            arrays = np.split(ids.astype(np.int64), np.cumsum(sizes)[:-1])
        tags = {part for each in some for part in each if isinstance(part, int)}
        by_part: Any = {i: np.array([i]) for i in tags} | dict(zip(texts, arrays, strict=False))
        return [
            each if isinstance(each, ValueError) else self._joined(each, by_part) for each in parts
        ]

    def _joined(self, parts: _Parts, by_part: Mapping[str | int, npt.NDArray[np.int64]]) -> Ids:
        """Returns the ids of parts, and where each begins in the rendering."""
        import numpy as np

        each = [by_part[part] for part in parts.parts]
        ids = np.concatenate(each or [np.zeros(0, np.int64)])
        sizes = self._sizes[ids]
        if not sizes.all():
            for i in {*ids[sizes == 0].tolist()}:
                self._sizes[i] = len(self._bpe.decode_bytes([i]))
            sizes = self._sizes[ids]
        starts = np.cumsum(sizes) - sizes
        if not parts.whole.isascii():
            begins = (np.frombuffer(parts.whole.encode(), np.uint8) & 0xC0) != 0x80
            starts = (np.cumsum(begins) - 1)[starts]
        return ids, starts if parts.origins is None else np.array(parts.origins, np.int64)[starts]

    def _parts(self, aligned: Aligned) -> _Parts:
        """Returns the parts of a rendering: texts between special tokens. Raises ValueError."""
        text, at, parts, whole, origins = aligned.text, 0, list[Any](), "", list[int]()
        text.encode()  # raises for a lone surrogate
        strips, after = self.vocabulary.strips, False
        composes = self.vocabulary.composed and not is_normalized("NFC", text)
        alters = composes or bool(strips)
        for tag in self._tags_in(aligned):
            start, end = tag.span() if tag else (len(text), len(text))
            run = text[at:start].lstrip(_BLANKS) if after else text[at:start]
            places: Sequence[int] = range(start - len(run), start)
            before, after = strips.get(tag[0], (False, False)) if tag else (False, False)
            run = run.rstrip(_BLANKS) if before else run
            if absent := self._lacks and self._lacks.intersection(run.encode()):
                raise ValueError(f"the vocabulary has no token for the byte {min(absent):#04x}")
            if composes:
                run, places = _composed(run, places[0] if run else start)
            if alters:
                origins += [*places[: len(run)], *range(start, end)]
                whole += run + text[start:end]
            if not at and run and self.vocabulary.leads:
                raise ValueError(
                    "the template begins with text, before which the tokenizer puts a space; "
                    "begin it with a special token"
                )
            if tag and tag[0] not in strips and (why := self.vocabulary.unfit.get(tag[0])):
                raise ValueError(f"the special token {tag[0]!r} {why}")
            parts += [run, self.vocabulary.special[tag[0]]] if tag else [run]
            at = end
        return _Parts(parts, whole, origins) if alters else _Parts(parts, text, None)

    def _tags_in(self, aligned: Aligned) -> Iterator[re.Match[str] | None]:
        """Yields the special tokens that the template writes, and None for the end."""
        inside = [(piece.start, piece.end) for piece in aligned.pieces]
        for tag in self.tags.finditer(aligned.text):
            start, end = tag.span()
            n = bisect_right(inside, (start, end))
            before, after = inside[n - 1 : n], inside[n : n + 1]
            if not (before and start < before[0][1]) and not (after and after[0][0] < end):
                yield tag
        yield None


def _composed(run: str, start: int) -> tuple[str, list[int]]:
    """Returns a text in NFC, and from where each of its characters is, counted from `start`."""
    out, origins = "", list[int]()
    for part in _BY_ASCII.finditer(run):  # nothing is composed across the beginning of a part
        composed = normalize("NFC", part[0])
        pairs = enumerate(zip(composed, part[0], strict=False))
        same = next((i for i, (now, before) in pairs if now != before), len(composed))
        origins += [start + part.start() + min(i, same) for i in range(len(composed))]
        out += composed
    return out, origins
