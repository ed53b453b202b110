"""Holds the episodes of prepared data, and makes rows of them for training.

Input: prepared folders. Output: a Corpus for each split, which returns rows (lists of episodes) and
the tokens of an episode. Tokens stay on the disk, mapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mypt_cli.jsonl.names import MANIFEST
from mypt_spec import Dialect
from mypt_spec.lexer import lex_ids
from mypt_train.data.formats.manifest import CHOSEN, GOOD, REJECTED, SFT, TokenIds
from mypt_train.data.packing import pack
from mypt_train.data.reader import ShardReader
from mypt_train.data.shard import Shard, ShardError

Row = npt.NDArray[np.int64]
"""The numbers of the episodes in a row, in their order."""
EPISODE = np.dtype(
    {
        "names": ["shard", "start", "length", "row", "source", "line", "kind", "pair"],
        "formats": ["<u4", "<u8", "<u4", "<u8", "<u4", "<u8", "u1", "<u8"],
    }
)


@dataclass(frozen=True, eq=False)
class Corpus:
    """One split of one or several data sets of the same dialect.

    - `episodes`: one entry of EPISODE for each episode, in a fixed order.
    - `labels`: for each shard the phase that its data was prepared for (`mypt-prepare --phase`), or
      None.
    - `sources`: the paths of all inputs.
    - `packed`: the length of the rows of the data, 0 if it has none.
    """

    dialect: Dialect
    shards: tuple[Shard, ...]
    labels: tuple[int | None, ...]
    episodes: npt.NDArray[np.void]
    sources: tuple[str, ...]
    packed: int

    def tokens(self, number: int) -> tuple[TokenIds, npt.NDArray[np.uint8]]:
        """Returns the ids and targets of an episode."""
        entry = self.episodes[number]
        shard, begin = self.shards[int(entry["shard"])], int(entry["start"])
        end = begin + int(entry["length"])
        return shard.ids[begin:end], shard.mask[begin:end]

    def weights(self, number: int) -> npt.NDArray[np.float32] | None:
        """Returns how much each token of an episode is trained; None if each target counts 1."""
        entry = self.episodes[number]
        weights, begin = self.shards[int(entry["shard"])].weights, int(entry["start"])
        return None if weights is None else weights[begin : begin + int(entry["length"])]

    @cached_property
    def weighed(self) -> bool:
        """Returns whether some shards have weights."""
        return any(shard.weights is not None for shard in self.shards)

    def place(self, number: int) -> str:
        """Returns the file of the input and the line from which an episode was read."""
        entry = self.episodes[number]
        return f"{self.sources[int(entry['source'])]}:{int(entry['line'])}"

    @cached_property
    def phase(self) -> npt.NDArray[np.uint8]:
        """Returns the phase of each episode: that of its data, or that of its tags."""
        both = zip(self.shards, self.labels, strict=True)
        phases = [
            phases_of(self.dialect, shard)
            if label is None
            else np.full(len(shard.index), label, np.uint8)
            for shard, label in both
        ]
        return np.concatenate(phases) if phases else np.zeros(0, np.uint8)

    def rows(
        self,
        context_length: int | None = None,
        *,
        phase: int | None = None,
        kinds: tuple[int, ...] = (SFT, CHOSEN, GOOD),
    ) -> list[Row]:
        """Returns the episodes of some kinds in rows.

        These are the rows of the data, unless `context_length` is another one or one phase is asked
        for; then episodes are packed again. Raises ShardError for an episode that is longer than a
        row.
        """
        length = context_length or self.packed
        if not length:
            raise ShardError(
                "the data was prepared without rows (--no-pack): set train.context_length"
            )
        is_kind = np.isin(self.episodes["kind"], kinds)
        if phase is None and length == self.packed and is_kind.all():
            bounds = np.flatnonzero(np.diff(self.episodes["row"])) + 1
            return np.split(np.arange(len(self.episodes)), bounds) if len(self.episodes) else []
        picks = np.flatnonzero(is_kind if phase is None else is_kind & (self.phase == phase))
        self._fits(picks, length)
        sizes = self.episodes["length"][picks].tolist()
        return [picks[row] for row in pack(zip(sizes, range(len(picks)), strict=True), length)]

    def pairs(self, context_length: int | None = None) -> list[Row]:
        """Returns pairs in rows, each chosen episode directly before the rejected one.

        A row holds at most twice the tokens of a usual row. Raises ShardError for a pair that lacks
        one of its answers.
        """
        length = 2 * (context_length or self.packed or int(self.episodes["length"].max(initial=1)))
        chosen = np.flatnonzero(self.episodes["kind"] == CHOSEN)
        rejected = np.flatnonzero(self.episodes["kind"] == REJECTED)
        chosen, rejected = (
            numbers[np.argsort(self.episodes["pair"][numbers], kind="stable")]
            for numbers in (chosen, rejected)
        )
        if not np.array_equal(self.episodes["pair"][chosen], self.episodes["pair"][rejected]):
            raise ShardError(
                "a pair of the data has only one of its answers; prepare the data again"
            )
        self._fits(np.concatenate([chosen, rejected]), length // 2)
        sizes = self.episodes["length"][chosen].astype(np.int64) + self.episodes["length"][rejected]
        both = np.stack([chosen, rejected], axis=1)
        rows = pack(zip(sizes.tolist(), range(len(sizes)), strict=True), length)
        return [both[row].reshape(-1) for row in rows]

    def _fits(self, numbers: Row, length: int) -> None:
        longest = int(self.episodes["length"][numbers].max(initial=0))
        if longest > length:
            number = int(numbers[self.episodes["length"][numbers].argmax()])
            raise ShardError(
                f"{self.place(number)}: the episode has {longest} tokens, a row {length}; set "
                f"train.context_length to {longest} or more"
            )

    def is_distinct(self, phase: int) -> bool:
        """Returns whether the episodes of a phase can be told from those of other phases.

        This is False for a phase of the curriculum that brings neither a tag nor further turns, in
        data that was prepared for no phase.
        """
        table = self.dialect.table
        return (
            not 1 <= phase <= len(table.phases)
            or any(self.labels)
            or phase in {table.multi_turn_phase, *(t.phase for t in table.terminals.values())}
        )

    @property
    def phases(self) -> tuple[int, ...]:
        """Returns the phases that have episodes; () if the dialect has no curriculum."""
        return tuple(np.unique(self.phase).tolist()) if self.dialect.table.phases else ()


def expand(folder: str | Path) -> list[str | Path]:
    """Returns a prepared folder, or all prepared folders in a folder, sorted by name."""
    inside = (
        []
        if (Path(folder) / MANIFEST).exists()
        else sorted(path.parent for path in Path(folder).glob(f"*/{MANIFEST}"))
    )
    return [*inside] or [folder]


def open_data(folders: Sequence[str | Path], *, verify: bool = True) -> list[ShardReader]:
    """Returns readers of prepared folders, or folders of these, that may be trained on together.

    Raises ShardError for folders that are not whole, that differ in grammar or vocabulary, or in
    which no token is a target.
    """
    paths = [path for folder in folders for path in expand(folder)]
    readers = [ShardReader(path, verify=verify) for path in paths]
    if not readers:
        raise ShardError("name at least one folder that mypt-prepare has made")
    first = readers[0]
    for other in readers[1:]:
        for key in ("spec_fingerprint", "vocabulary_sha256", "vocab_size"):
            if other.manifest[key] != first.manifest[key]:
                raise ShardError(
                    f"{other.name}: {key} is {other.manifest[key]}, {first.name} has "
                    f"{first.manifest[key]}; prepare both alike"
                )
        if other.mask != first.mask:
            raise ShardError(
                f"{other.name}: is masked by {other.mask!r}, {first.name} by {first.mask!r}; "
                "prepare both alike (mypt-prepare --mask)"
            )
    if not sum(reader.manifest["splits"]["train"]["trained_tokens"] for reader in readers):
        raise ShardError(
            f"{first.name}: no token of the data is a target, so there is nothing to learn; look "
            "at it with mypt-view --mask"
        )
    return readers


def corpus(readers: Sequence[ShardReader], split: str) -> Corpus:
    """Returns the episodes of a split. Raises ShardError as `ShardReader.shards` does."""
    shards: list[Shard] = []
    tables: list[npt.NDArray[np.void]] = []
    sources: list[str] = []
    labels: list[int | None] = []
    row = pair = 0
    lengths = {
        reader.manifest["options"]["context_length"] if reader.manifest["options"]["pack"] else 0
        for reader in readers
    }
    for reader in readers:
        pairs = 0
        for shard in reader.shards(split):
            table = np.zeros(len(shard.index), EPISODE)
            for name in ("start", "length", "line"):
                table[name] = shard.index[name]
            table["shard"], table["source"] = len(shards), shard.index["file"] + len(sources)
            table["row"] = shard.index["row"].astype(np.int64) + row
            if shard.kinds is not None:
                table["kind"] = shard.kinds["kind"]
                table["pair"] = shard.kinds["pair"].astype(np.int64) + pair
                pairs = max(pairs, int(shard.kinds["pair"].max(initial=0)))
            row += int(shard.index["row"].max(initial=0)) + 1
            shards.append(shard)
            labels.append(reader.manifest["options"]["phase"])
            tables.append(table)
        pair += pairs
        sources += [entry["path"] for entry in reader.manifest["inputs"]]
    episodes: Any = np.concatenate(tables) if tables else np.zeros(0, EPISODE)
    return Corpus(
        readers[0].dialect,
        tuple(shards),
        tuple(labels),
        episodes,
        tuple(sources),
        max(lengths) if all(lengths) else 0,
    )


def phases_of(dialect: Dialect, shard: Shard) -> npt.NDArray[np.uint8]:
    """Returns the phase of each episode: uint8, (episodes,), 0 without a curriculum.

    It is the latest phase to which one of its tags belongs, or the phase of several turns.
    """
    table = dialect.table
    out: Any = np.zeros(len(shard.index), np.uint8)
    if not table.phases or not len(out):
        return np.asarray(out, np.uint8)
    by_id, opens = (np.zeros(dialect.tokenizer.vocab_size, np.uint8) for _ in range(2))
    for terminal in table.terminals.values():
        if [piece.kind for piece in terminal.spelling] != ["special"]:
            return np.array([_phase(dialect, ids) for ids, _ in shard.episodes()], np.uint8)
        token = dialect.tokenizer.special[terminal.spelling[0].value]
        by_id[token], opens[token] = terminal.phase, terminal.opens == table.turn_opener
    order = np.argsort(shard.index["start"], kind="stable")
    starts = shard.index["start"][order].astype(np.int64)
    latest = np.maximum.reduceat(by_id[shard.ids], starts)
    several = np.add.reduceat(opens[shard.ids], starts, dtype=np.int64) > 1
    out[order] = np.where(several, np.maximum(latest, table.multi_turn_phase), latest)
    return np.asarray(out, np.uint8)


def _phase(dialect: Dialect, ids: TokenIds) -> int:
    """Returns the phase of an episode in a dialect whose tags are text."""
    table, tokenizer = dialect.table, dialect.tokenizer
    events, _ = lex_ids(ids.tolist(), table, tokenizer.decode_bytes, tokenizer.ordinary)
    tags = [
        table.terminals[event.terminal] for event in events if event.terminal in table.terminals
    ]
    turns = sum(tag.opens == table.turn_opener for tag in tags)
    return max([tag.phase for tag in tags] + [table.multi_turn_phase] * (turns > 1))
