"""Checks a prepared data set from its bytes: files, ids, episodes, masks, padding, counts.

Input: a folder. Output: findings, as `mypt-lint` reports them (MYP505 to MYP508). The check trusts
nothing that the preparation said: it reads each episode back from its ids and computes its mask
again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mypt_cli.jsonl.names import MANIFEST
from mypt_lint.check.diagnostic import Diagnostic, Summary
from mypt_lint.run.chunk import Chunk
from mypt_spec.dialect import Dialect
from mypt_spec.episode import Episode, blocks_of
from mypt_spec.findings import Finding
from mypt_spec.table import TEXT
from mypt_train.data.formats.manifest import TokenIds
from mypt_train.data.reader import ShardReader
from mypt_train.data.shard import Shard, ShardError, miscounted, misplaced, missummed


class ShardEpisode(NamedTuple):
    """An episode of a shard as it was read back: its place, ids, and what is wrong with it.

    `number` counts the episodes of the shard from 1, `start` is the first token in the shard.
    `episode` is None if the ids are no episode.
    """

    number: int
    start: int
    ids: TokenIds
    episode: Episode | None
    findings: tuple[Finding, ...]


def check_folder(path: str, codes: frozenset[str]) -> Iterator[Chunk]:
    """Yields all findings about a prepared folder: a Chunk for each shard, one for the manifest.

    In the findings, rows are numbers of episodes, and columns are tokens of the shard; both count
    from 1.
    """
    try:
        reader = ShardReader(path, verify=True)
        for split in reader.manifest["splits"]:
            entries = reader.manifest["splits"][split]["shards"]
            for entry, shard in zip(entries, reader.shards(split, check=False), strict=True):
                places = _shard(reader, shard, entry)
                name = str(Path(path) / min(entry["files"]))
                yield _report(places, name, reader.dialect.name, codes, shard)
        yield _report(_unnamed(reader), str(Path(path) / MANIFEST), reader.dialect.name, codes)
    except ShardError as error:
        yield _report([(0, 0, 0, Finding("MYP505", str(error)))], path, "", codes)


def episodes(
    dialect: Dialect, shard: Shard, policy: str = "model", *, weighed: bool = False
) -> Iterator[ShardEpisode]:
    """Yields each episode of a shard, read back from its ids, with its findings.

    The mask of the shard is compared with that of the episode, by the mask named `policy`.
    If messages are `weighed`, some of them may be trained nowhere.
    """
    for number, (entry, (ids, mask)) in enumerate(zip(shard.index, shard.episodes(), strict=True)):
        episode, findings = dialect.parse_ids(ids)
        if episode is not None:
            findings = [*findings, *dialect.validate(episode)]
            findings += _mask(dialect, episode, mask, policy, weighed)
        yield ShardEpisode(number + 1, int(entry["start"]), ids, episode, tuple(findings))


def _mask(
    dialect: Dialect, episode: Episode, mask: npt.NDArray[np.uint8], policy: str, weighed: bool
) -> list[Finding]:
    def masked(meta: dict[str, Any]) -> npt.NDArray[np.uint8]:
        """Returns the mask of the episode of a record with these options."""
        expected = dialect.encode(replace(episode, meta=meta), mask=policy).loss
        expected[:1] = 0
        if weighed and len(expected) == len(mask):
            _silence(dialect, episode, expected, mask)
        return expected

    expected = masked({})
    differs = np.flatnonzero(expected != mask) if len(expected) == len(mask) else np.zeros(1, int)
    # Ids do not say what the options of a record were.
    options = dialect.adapter.prompting if len(differs) else ()
    if not len(differs) or any(np.array_equal(masked(meta), mask) for meta in options):
        return []
    at = int(differs[0])
    message = (
        f"token {at} of the episode has mask {mask[at]}, expected {expected[at]}; {len(differs)} "
        "differ"
    )
    return [Finding("MYP506", message, span=(at, at + 1), help="prepare the data again")]


def _silence(
    dialect: Dialect, episode: Episode, expected: npt.NDArray[np.uint8], mask: npt.NDArray[np.uint8]
) -> None:
    """Clears `expected` in each message in which `mask` is 0: one of weight 0.

    A part of a text may have weight 0, too.
    """
    lengths = [len(segment.ids) for segment in dialect.segments(episode)]
    event = at = 0
    for events in blocks_of(episode.messages, dialect.table):
        size = sum(lengths[event : event + len(events)])
        if not mask[at : at + size].any():
            expected[at : at + size] = 0
        for one in events:
            if one.terminal == TEXT:
                expected[at : at + lengths[event]] &= mask[at : at + lengths[event]]
            event, at = event + 1, at + lengths[event]


# Number of the episode from 1, or 0 for none; its first token in the shard; the token after it.
_Place = tuple[int, int, int, Finding]


def _shard(reader: ShardReader, shard: Shard, entry: dict[str, int]) -> Iterator[_Place]:
    yield from _padding(shard, reader.dialect.tokenizer.pad)
    for number, start, end, why in misplaced(shard, len(reader.manifest["inputs"])):
        yield number, start, end, Finding("MYP507", why)
    for why in miscounted(shard, entry):
        yield 0, 0, 0, Finding("MYP508", why)
    for item in episodes(reader.dialect, shard, reader.mask, weighed="weighed" in reader.manifest):
        for finding in item.findings:
            start, end = (
                finding.span if finding.span and not finding.pointer else (0, len(item.ids))
            )
            yield item.number, item.start + start, item.start + end, finding


def _padding(shard: Shard, pad: int) -> Iterator[_Place]:
    covered = np.zeros(len(shard.ids) + 1, np.int8)
    for entry in shard.index:
        start = int(entry["start"])
        covered[start : start + int(entry["length"])] = 1
    between = np.flatnonzero((covered[:-1] == 0) & ((shard.ids != pad) | (shard.mask != 0)))
    if len(between):
        at = int(between[0])
        message = (
            f"token {at} belongs to no episode and has id {shard.ids[at]}, mask {shard.mask[at]}; "
            f"{len(between)} are like this"
        )
        yield 0, at, at + 1, Finding("MYP507", message, help=f"padding has id {pad} and mask 0")


def _unnamed(reader: ShardReader) -> Iterator[_Place]:
    files = reader.files
    for split, entry in reader.manifest["splits"].items():
        for why in missummed(entry):
            yield 0, 0, 0, Finding("MYP508", f"{split}: {why}")
        for path in sorted((reader.folder / split).glob("shard_*")):
            name = f"{split}/{path.name}"
            if name not in files:
                message = f"{name} is in the folder, and not in the manifest"
                hint = "delete it, or prepare the data again"
                yield 0, 0, 0, Finding("MYP508", message, help=hint)


def _report(
    places: Iterable[_Place], filename: str, dialect: str, codes: frozenset[str],
    shard: Shard | None = None,
) -> Chunk:  # fmt: skip
    diagnostics = []
    for number, start, end, finding in places:
        if finding.code in codes:
            row, after = max(1, number), max(end, start + 1) + 1
            place = row, start + 1, row, after
            diagnostics.append(Diagnostic(finding, filename, *place, dialect))
    diagnostics.sort(key=lambda item: item.sort_key)
    chunk = Chunk(diagnostics)
    if shard is not None:
        chunk.summary = Summary(units=len(shard.index), files=1, bytes=shard.ids.nbytes)
    return chunk.counted(len({item.row for item in diagnostics}) if shard is not None else 0)
