"""Reads the episodes of a prepared folder, for `mypt-view`."""

from __future__ import annotations

from collections.abc import Iterator

from mypt_cli.errors import UsageError
from mypt_train.data.reader import ShardReader
from mypt_train.data.shard import ShardError
from mypt_train.data.verify import episodes
from mypt_view.items import Item, encoded


def shard_items(folder: str, number: int) -> Iterator[Item]:
    """Yields the episodes of a prepared folder from `number` on.

    Episodes are counted from 1 through all shards, train before val. Raises UsageError for a folder
    that is no data set, or has no such episode.
    """
    try:
        reader = ShardReader(folder)
        total = sum(split["episodes"] for split in reader.manifest["splits"].values())
        if number > total:
            raise UsageError(
                f"{folder}:{number}: there is no episode {number}; the data set has {total}"
            )
        at = 0
        for split in reader.manifest["splits"]:
            for shard in reader.shards(split, check=False):
                if at + len(shard.index) < number:
                    at += len(shard.index)
                    continue
                for item in episodes(
                    reader.dialect, shard, reader.mask, weighed="weighed" in reader.manifest
                ):
                    at += 1
                    if at >= number:
                        segments, lacks = encoded(reader.dialect, item.episode, reader.mask)
                        label = f"{folder}:{at} ({shard.name}, episode {item.number})"
                        text = (
                            reader.dialect.tokenizer.decode(item.ids)
                            if item.episode is None
                            else "ids"
                        )
                        yield Item(
                            label,
                            reader.dialect,
                            item.episode,
                            segments,
                            item.findings,
                            text,
                            lacks=lacks,
                        )
    except ShardError as error:
        raise UsageError(str(error)) from None
