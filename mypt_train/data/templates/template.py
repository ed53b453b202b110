"""Holds what records of one skeleton have in common as tokens, and encodes their texts between.

Input: templates, each with the values of a record. Output: the tokens of each, and how these are
trained.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_spec.bodies.call_tags import Tags
from mypt_spec.bodies.json_body import written
from mypt_spec.bodies.strict_json import NO_TAG, json_text
from mypt_spec.bodies.tagged import arguments_text
from mypt_spec.encoder import EncodedAlone
from mypt_spec.tokenizer.runs import encode_run
from mypt_spec.tokenizer.tokenizer import Tokenizer
from mypt_train.data.formats.manifest import SFT, TokenIds, dtype_of
from mypt_train.data.templates.marks import MARK, slot_of_weight

MARKS = re.compile(MARK.format("([0-9]+)"))

# How a value is written in a text: as it is; in a JSON string; as JSON; as arguments after the name
# of a tool in a "call"; as arguments between `Tags`.
PLAIN, QUOTED, VALUE, MEMBERS = range(4)
_WORTH = 30  # constant characters between values for which a text is cut
# The text before a value, which value, and how it is written.
Piece = tuple[str, int, int | Tags]
Text = tuple[int, tuple[Piece, ...], str]


class Template(NamedTuple):
    """The runs of one loss in a record's tokens: constant ones, and the texts.

    `texts` has for each text the value that it is, or -1 and its pieces and what follows them.
    `lengths` and `loss` are those of the runs; the length of a text is 0. A negative length is that
    of bytes at the beginning of the next text: what begins in these is a run. `ids` are those of
    the constant runs, one after another. `tags` counts terminals. `weights` are those of the runs,
    float32, 0 where there is no loss; None where all are 0 or 1. `weighed`: whether a message that
    the mask trains has another weight than 1. `owners` are the values by which weights of runs are
    multiplied, -1 for none.
    """

    texts: tuple[Text, ...]
    lengths: npt.NDArray[np.int64]
    loss: npt.NDArray[np.uint8]
    ids: TokenIds
    tags: Counter[str]
    owners: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32] | None = None
    weighed: bool = False

    def weights_of(self, values: list[Any]) -> npt.NDArray[np.float32]:
        """Returns the weight of each run in a record that has these values."""
        weights, owners = self.each_weight, self.owners
        free = np.flatnonzero(owners >= 0)
        if len(free):
            weights = weights.copy()
            weights[free] *= np.array([values[n] for n in owners[free]], np.float32)
        return weights

    @property
    def each_weight(self) -> npt.NDArray[np.float32]:
        return self.loss.astype(np.float32) if self.weights is None else self.weights

    def spell(self, values: list[Any]) -> list[str]:
        """Returns the texts of a record that has these values."""
        out = []
        for value_number, pieces, end in self.texts:
            if value_number >= 0:
                out.append(values[value_number])
                continue
            text = ""
            for before, number, how in pieces:
                text += before + (values[number] if how == PLAIN else in_json(values[number], how))
            out.append(text + end)
        return out


def template_of(
    encoded: Sequence[EncodedAlone],
    place: Mapping[int, int],
    around: Callable[[EncodedAlone, int, int], tuple[int | Tags, tuple[str, str]]],
    *,
    needed: Iterable[int],
    tags: Counter[str],
    tokenizer: Tokenizer,
) -> Template | None:
    """Returns the template of what is encoded by itself; None where a mark is out of place.

    `place` has the number of the value for each mark that may come out; those that are `needed`
    come out once. `around` takes a text, the number of a mark in it and where the mark begins. It
    returns how the value is written, and what is around the mark in its place. The template has
    weights if some are free, or not 0 or 1.
    """
    texts: list[Text] = []
    runs: list[tuple[int, int, float]] = []  # length, 0 for a text; loss; weight
    ids: list[int] = []
    met: Counter[int] = Counter()  # of each value, how often it comes out
    if any(run.loss < 0 for run in encoded):
        return None
    for run in encoded:
        if isinstance(run.content, list):
            ids += run.content
            runs.append((len(run.content), run.loss, run.weight))
            continue
        if not MARKS.search(run.content):
            both = [(0, run.lead), (1, run.content[len(run.lead) :])]
            for is_rest, run_ids in encode_run(both, tokenizer):
                ids += run_ids
                runs.append((len(run_ids), run.loss if is_rest else 1 - run.loss, run.weight))
            continue
        cut = None if MARKS.search(run.lead) else _cut_at_marks(run, run.content, place, around)
        if cut is None:
            return None
        met.update(number for _, number, _ in cut[1])
        lead = len(run.lead.encode())
        runs += [(-lead, 1 - run.loss, run.weight)] if lead else []
        for part in [cut] if lead else _apart(cut, tokenizer):
            constant = part if isinstance(part, list) else []
            ids += constant
            texts += [] if isinstance(part, list) else [part]
            runs.append((len(constant), run.loss, run.weight))
    slots = [slot_of_weight(weight) for _, _, weight in runs]
    if any(met[place[n]] != 1 for n in needed) or not {*slots} <= {None, *place}:
        return None  # a value is missing, or the weight is that of a message of another piece
    each_weight = {run.weight for run in encoded}
    weights = [
        loss * (weight if slot is None else 1)
        for (_, loss, weight), slot in zip(runs, slots, strict=True)
    ]
    return Template(
        tuple(texts),
        np.array([length for length, _, _ in runs], np.int64),
        np.array([loss for _, loss, _ in runs], np.uint8),
        np.array(ids, dtype_of(tokenizer.vocab_size)),
        tags,
        np.array([-1 if slot is None else place[slot] for slot in slots], np.int64),
        np.array(weights, np.float32) if each_weight - {0, 1} else None,
        weighed=bool(each_weight - {1}),
    )


def _cut_at_marks(
    run: EncodedAlone,
    text: str,
    place: Mapping[int, int],
    around: Callable[[EncodedAlone, int, int], tuple[int | Tags, tuple[str, str]]],
) -> Text | None:
    """Returns a text around its marks; None where a mark is out of place."""
    pieces: list[Piece] = []
    at = 0
    for match in MARKS.finditer(text):
        number = int(match[1])
        if number not in place:
            return None
        how, (before, after) = around(run, number, match.start())
        start, end = match.start() - len(before), match.end() + len(after)
        if text[start:end] != before + match[0] + after or start < at:
            return None
        pieces.append((text[at:start], place[number], how))
        at = end
    alone = len(pieces) == 1 and pieces[0][0] == "" and pieces[0][2] == PLAIN and at == len(text)
    return pieces[0][1] if alone else -1, tuple(pieces), text[at:]


def _apart(text: Text, tokenizer: Tokenizer) -> list[Text | list[int]]:
    """Returns a text in parts, and between them the ids that are the same around any values."""
    out: list[Text | list[int]] = []
    group: list[Piece] = []
    for before, number, how in (*text[1], (text[2], -1, PLAIN)):
        begin, end = tokenizer.constant(before)
        if end - begin > _WORTH:
            head, ids = before[:begin], tokenizer.encode(before[begin:end])
            out += [(-1, (*group,), head), ids] if group else [tokenizer.encode(head) + ids]
            group, before = [], before[end:]
        group.append((before, number, how))
    return [*out, (-1, (*group[:-1],), group[-1][0])] if out else [text]


def in_json(value: Any, how: int | Tags) -> str:
    """Returns a value as it is written in a JSON text, or in tags; it spells no tag."""
    if isinstance(how, Tags):
        return arguments_text(value, NO_TAG, how)
    if how == QUOTED:
        return json_text(value)[1:-1]
    if how == VALUE:
        return json_text(value)
    return ", " + json_text(written(value))[1:-1] if value else ""


class Sample(NamedTuple):
    """An episode as tokens.

    - `ids`: uint16 or uint32, see `manifest.dtype_of`, shape (n,). `mask`: uint8, shape (n,), 1
      where the token is a target.
    - `kind`: what the episode is for, as in `manifest`.
    - `weights`: float32, shape (n,), how much each token is trained; None if each is 0 or 1.
      `weighed`: whether a message that the mask trains has another weight than 1.
    - `messages`: int32, shape (n,), the message of the record that each token comes from, -1 for
      none; None if it was not asked for.
    """

    ids: TokenIds
    mask: npt.NDArray[np.uint8]
    kind: int = SFT
    weights: npt.NDArray[np.float32] | None = None
    weighed: bool = False
    messages: npt.NDArray[np.int32] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Returns the numbers of tokens and of those that are trained."""
        return {"tokens": len(self.ids), "trained_tokens": int(self.mask.sum())}

    @property
    def digest(self) -> bytes:
        """Returns 16 bytes that are equal for equal ids."""
        ids = self.ids.astype(self.ids.dtype.newbyteorder("<"), copy=False)
        return hashlib.blake2b(ids.data, digest_size=16).digest()


def filled(
    pairs: Sequence[tuple[Template, list[Any]]], tokenizer: Tokenizer, dtype: np.dtype[Any]
) -> Iterator[Sample]:
    """Yields the tokens of templates whose free values are known; equal texts are encoded once.

    Their arrays are parts of larger ones. The first token of each is never a target, because no
    token before it could predict it.
    """
    if not pairs:
        return
    texts = [text for template, values in pairs for text in template.spell(values)]
    numbers: dict[str, int] = {}
    which = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    every_id, lengths = tokenizer.encode_batch(list(numbers))
    starts = np.cumsum(lengths) - lengths
    runs = [template.lengths for template, _ in pairs]
    sizes = np.concatenate(runs)
    is_text, leads = sizes == 0, np.flatnonzero(sizes < 0)
    sizes[is_text] = lengths[which]
    if len(leads):
        led = which[np.cumsum(is_text)[leads + 1] - 1]
        begun = [
            _begun(every_id[start : start + length], lead, tokenizer)
            for start, length, lead in zip(starts[led], lengths[led], -sizes[leads], strict=True)
        ]
        sizes[leads] = begun
        sizes[leads + 1] -= begun
        is_text[leads] = True
    places = np.repeat(is_text, sizes)
    mask = np.repeat(np.concatenate([template.loss for template, _ in pairs]), sizes)
    tokens = np.empty(len(mask), dtype)
    tokens[~places] = np.concatenate([template.ids for template, _ in pairs])
    tokens[places] = every_id[_ranges(starts[which], lengths[which])]
    bounds = np.cumsum(np.add.reduceat(sizes, np.cumsum([0, *map(len, runs[:-1])])))
    firsts = np.append(0, bounds[:-1])
    mask[firsts] = 0
    weights = None
    if any(template.weights is not None for template, _ in pairs):
        weights = np.repeat(np.concatenate([t.weights_of(values) for t, values in pairs]), sizes)
        weights[firsts] = 0
    begin = 0
    for end, (template, _) in zip(bounds.tolist(), pairs, strict=True):
        row_weights = None if template.weights is None or weights is None else weights[begin:end]
        ids, targets = tokens[begin:end], mask[begin:end]
        yield Sample(ids, targets, weights=row_weights, weighed=template.weighed)
        begin = end


def _begun(ids: npt.NDArray[np.uint32], lead: int, tokenizer: Tokenizer) -> int:
    """Returns how many of the ids of a text begin in its first `lead` bytes."""
    at = count = 0
    while at < lead and count < len(ids):
        at += tokenizer.length(int(ids[count]))
        count += 1
    return count


def _ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the numbers from each start on, as many as its length, one after another."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
