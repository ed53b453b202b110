"""Reading a prepared data set, and refusing what is not one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mypt_spec
from mypt_spec.lint.files import MANIFEST
from mypt_spec.ranks import FILE, VocabularyError
from mypt_train import durable, parquet
from mypt_train.kinds import KINDS
from mypt_train.prepare import SCHEMA, VERSION
from mypt_train.shards import INDEX


class ShardError(Exception):
    """A folder is no data set that can be trained on; the message says which file, what was expected, and what to do."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard, mapped from the disk (of Parquet: read). `ids`: uint16, shape (n,); `mask`: uint8, shape (n,), 1 where the token is a target.

    `index`: one entry an episode, with the fields `start`, `length`, `row`, `file`, `line`. `row_length` is 0 where episodes
    follow one another without rows. `kinds`: what the episodes are for in data with preferences, an entry of KINDS each, or None.
    """

    name: str
    ids: npt.NDArray[np.uint16]
    mask: npt.NDArray[np.uint8]
    index: npt.NDArray[np.void]
    row_length: int
    kinds: npt.NDArray[np.void] | None = None

    def episodes(self) -> Iterator[tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]]:
        """The ids and targets of each episode."""
        for entry in self.index:
            start, end = int(entry["start"]), int(entry["start"]) + int(entry["length"])
            yield self.ids[start:end], self.mask[start:end]


class ShardReader:
    """A data set that `mypt-prepare` has made. `verify` reads all files and compares their SHA-256.

    `dialect` is on the vocabulary of the data set. Raises ShardError for a folder without a manifest, a file that is missing, short
    or altered, another version, or another grammar or vocabulary than the installed one.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        self.manifest = self._manifest()
        self.dialect = self._dialect()
        if self.manifest["spec_fingerprint"] != self.dialect.fingerprint:
            raise ShardError(
                f"{self.folder}: was prepared with another grammar of {self.dialect.name} ({self.manifest['spec_fingerprint'][:12]}, "
                f"installed is {self.dialect.fingerprint[:12]}); prepare it again"
            )
        for split in self.manifest["splits"].values():
            for shard in split["shards"]:
                for name, entry in shard["files"].items():
                    self._check(name, entry, verify=verify)

    def shards(self, split: str = "train") -> Iterator[Shard]:
        """All shards of a split ("train" or "val"), in order. Raises KeyError for another split."""
        options = self.manifest["options"]
        for entry in self.manifest["splits"][split]["shards"]:
            base = self.folder / entry["name"]
            ids, mask, index = self._arrays(base, entry, options.get("format", "bin"))
            if index.dtype != INDEX or len(index) != entry["episodes"]:
                raise ShardError(
                    f"{base}: the index holds {len(index)} entries of {index.dtype}, expected {entry['episodes']} of {INDEX}"
                )
            kinds = self._kinds(base, entry) if options.get("preferences") else None
            yield Shard(
                entry["name"],
                ids,
                mask,
                index,
                options["context_length"] if options["pack"] else 0,
                kinds,
            )

    def _arrays(self, base: Path, entry: dict[str, Any], form: str) -> tuple[Any, Any, Any]:
        if form == "bin":
            index = np.load(base.with_name(f"{base.name}_idx.npy"), allow_pickle=False)
            bins = (
                (base.with_name(f"{base.name}.bin"), "<u2"),
                (base.with_name(f"{base.name}_mask.bin"), "u1"),
            )
            ids, mask = (_mapped(path, dtype, entry["tokens"]) for path, dtype in bins)
            return ids, mask, index
        path = base.with_name(f"{base.name}.parquet")
        lacks = parquet.missing()
        if lacks:
            raise ShardError(f"{path}: {lacks}")
        try:
            ids, mask, index = parquet.load(path, INDEX)
        except (ValueError, KeyError) as error:
            raise ShardError(f"{path}: cannot be read: {error}; prepare the data again") from None
        if not len(ids) == len(mask) == entry["tokens"]:
            raise ShardError(
                f"{path}: holds {len(ids)} ids and {len(mask)} masks, expected {entry['tokens']}; prepare the data again"
            )
        return ids, mask, index

    def _kinds(self, base: Path, entry: dict[str, Any]) -> npt.NDArray[np.void]:
        path = base.with_name(f"{base.name}_kinds.npy")
        kinds: npt.NDArray[np.void] = np.load(path, allow_pickle=False)
        if kinds.dtype != KINDS or len(kinds) != entry["episodes"]:
            raise ShardError(
                f"{path}: holds {len(kinds)} entries of {kinds.dtype}, expected {entry['episodes']} of {KINDS}; prepare the data again"
            )
        return kinds

    def _dialect(self) -> mypt_spec.Dialect:
        """The dialect on the vocabulary that the data was prepared with: the usual one, or the copy of another that lies in the folder."""
        expected = self.manifest["vocabulary_sha256"]
        try:
            dialect = mypt_spec.dialect(
                self.manifest["options"]["dialect"],
                vocabulary=self.folder / FILE if FILE in expected else None,
            )
        except (VocabularyError, KeyError) as error:
            raise ShardError(f"{error.args[0]}; prepare the data again") from None
        if dialect.tokenizer.files != expected:
            found = ", ".join(
                f"{name} {digest[:12]}" for name, digest in sorted(dialect.tokenizer.files.items())
            )
            wanted = ", ".join(f"{name} {digest[:12]}" for name, digest in sorted(expected.items()))
            raise ShardError(
                f"{self.folder}: was prepared with another vocabulary ({wanted}, found is {found}); prepare it again"
            )
        return dialect

    def _manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        try:
            manifest = json.loads(path.read_bytes())
        except FileNotFoundError:
            stopped = (self.folder / ".work").exists()
            cure = (
                "its preparation did not end: run mypt-prepare with --resume"
                if stopped
                else "name a folder that mypt-prepare has made"
            )
            raise ShardError(f"{self.folder}: has no {MANIFEST}; {cure}") from None
        except (OSError, ValueError) as error:
            raise ShardError(f"{path}: cannot be read: {error}; prepare the data again") from None
        if not isinstance(manifest, dict) or (manifest.get("schema"), manifest.get("version")) != (
            SCHEMA,
            VERSION,
        ):
            raise ShardError(
                f"{path}: is no manifest of schema {SCHEMA}, version {VERSION}; prepare the data again"
            )
        return manifest

    def _check(self, name: str, entry: dict[str, Any], *, verify: bool) -> None:
        path = self.folder / name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise ShardError(f"{path}: {error.strerror or error}; prepare the data again") from None
        if size != entry["bytes"]:
            raise ShardError(
                f"{path}: has {size} bytes, expected {entry['bytes']}; copy or prepare it again"
            )
        if verify:
            digest = durable.sha256(path)
            if digest != entry["sha256"]:
                raise ShardError(
                    f"{path}: was altered (SHA-256 {digest[:12]}, expected {entry['sha256'][:12]}); copy or prepare it again"
                )


def _mapped(path: Path, dtype: str, count: int) -> Any:
    return np.memmap(path, dtype, "r", shape=(count,)) if count else np.zeros(0, dtype)
