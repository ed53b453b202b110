"""Reads a prepared data set, and refuses a folder that is none.

Input: a folder that `mypt-prepare` wrote. Output: its shards, mapped from the disk, and the dialect
that they were prepared with. All that could let a model train on wrong tokens is checked here,
once.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import mypt_spec
from mypt_cli import atomic
from mypt_cli.errors import UsageError
from mypt_cli.jsonl.names import MANIFEST, REJECTS, WORK
from mypt_cli.urls import is_url, redacted
from mypt_spec.dialect import copied_to, name_in
from mypt_spec.tokenizer.vocabulary import COPIES, VocabularyError
from mypt_train.data.formats import MEGATRON, manifest, parquet, trainer_of
from mypt_train.data.formats.manifest import BAD, KINDS
from mypt_train.data.formats.model import model_format
from mypt_train.data.shard import INDEX, Shard, ShardError, miscounted, misplaced, missummed


class ShardReader:
    """Reads a data set that `mypt-prepare` has made.

    `manifest` is its manifest, `dialect` the dialect on the vocabulary of the data set, `mask` the
    name of the mask by which tokens are targets (`mypt_spec.encoder.MASKS`). `folder` is where its
    files are, `name` what messages call it.

    Raises ShardError for a folder without a manifest, for a file that is missing, short or altered,
    for another version, grammar or vocabulary than the installed one, and for a URL. With `verify`,
    reads all files and compares their SHA-256; without it, their sizes.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.name, self.folder = str(folder), Path(folder)
        if is_url(self.name):
            raise ShardError(
                f"{redacted(self.name)}: shards are read from a disk; copy the folder to this "
                "machine first, with the client of the store"
            )
        self.manifest = self._manifest()
        self.mask: str = self.manifest["options"].get("mask", "model")
        self._refuse_rows()
        self.dialect = self._dialect()
        if self.manifest["spec_fingerprint"] != self.dialect.fingerprint:
            raise ShardError(
                f"{self.name}: was prepared with another grammar of {self.dialect.name} "
                f"({self.manifest['spec_fingerprint'][:12]}, "
                f"installed is {self.dialect.fingerprint[:12]}); prepare it again"
            )
        tokenizer = self.dialect.tokenizer
        for key, number in (
            ("vocab_size", tokenizer.vocab_size),
            ("pad_id", tokenizer.pad),
            ("dtype", manifest.dtype_of(tokenizer.vocab_size)),
        ):
            if self.manifest[key] != number:
                why = f"{key} is {self.manifest[key]}, {self.dialect.name} has {number}"
                raise _spoilt(f"{self.name}/{MANIFEST}", why)
        for name, entry in self.files.items():
            self._check(name, entry, verify=verify)

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        """Returns what the manifest says of the files of all shards, by name."""
        splits = self.manifest["splits"].values()
        shards = [shard for split in splits for shard in split["shards"]]
        return {name: entry for shard in shards for name, entry in shard["files"].items()}

    def shards(self, split: str = "train", *, check: bool = True) -> Iterator[Shard]:
        """Yields the shards of a split, "train" or "val", in order.

        Raises KeyError for another split, and ShardError for a file that cannot be read. With
        `check`, also raises ShardError for an index, mask, id or count that no preparation writes.
        """
        split_entry = self.manifest["splits"][split]
        for why in missummed(split_entry) if check else ():
            raise _spoilt(f"{self.name}/{MANIFEST}", f"{split}: {why}")
        for entry in split_entry["shards"]:
            shard = self._loaded(entry)
            if check:
                self._refuse(shard, entry)
            yield shard

    def _loaded(self, entry: dict[str, Any]) -> Shard:
        options, base = self.manifest["options"], str(self.folder / entry["name"])
        ids, mask, index = self._arrays(base, entry)
        kinds = weights = None
        if options.get("preferences"):
            kinds = _saved(Path(f"{base}_kinds.npy"), KINDS, entry["episodes"])
        if "weights_dtype" in self.manifest:
            weights = _mapped(Path(f"{base}_weights.bin"), np.dtype("<f4"), entry["tokens"])
        row_length = options["context_length"] if options["pack"] else 0
        return Shard(entry["name"], ids, mask, index, row_length, kinds, weights)

    def _refuse(self, shard: Shard, entry: dict[str, Any]) -> None:
        """Raises ShardError for content that no preparation writes.

        The message names the first fault; `mypt-lint` lists all.
        """
        vocabulary, kinds = self.manifest["vocab_size"], shard.kinds
        highest = int(shard.ids.max(initial=0))
        marked = int(shard.mask.max(initial=0))
        wrong = ""
        if highest >= vocabulary:
            wrong = f"has id {highest}, the vocabulary has {vocabulary}"
        elif marked > 1:
            wrong = f"has mask {marked} at token {int(shard.mask.argmax())}, expected 0 or 1"
        elif kinds is not None and int(kinds["kind"].max(initial=0)) > BAD:
            wrong = f"has an episode of kind {int(kinds['kind'].max())}, expected 0 to {BAD}"
        elif (weights := shard.weights) is not None:
            is_valid = np.isfinite(weights) & (weights >= 0) & ((weights > 0) == (shard.mask > 0))
            if not is_valid.all():
                at = int(is_valid.argmin())
                wrong = f"has weight {weights[at]} at token {at}, whose mask is {shard.mask[at]}"
        misplaces = (why for *_, why in misplaced(shard, len(self.manifest["inputs"])))
        wrong = wrong or next(chain(misplaces, miscounted(shard, entry)), "")
        if wrong:
            raise _spoilt(f"{self.name}/{shard.name}", wrong)

    def _refuse_rows(self) -> None:
        options = self.manifest["options"]
        trainer = trainer_of(options.get("format", "bin"))
        if trainer:
            rows = "rows" if trainer != MEGATRON else "an indexed data set"
            mask_option = "" if self.mask == "model" else f" --mask {self.mask}"
            check = f"mypt-lint --trainer-rows {self.folder / 'train'}{mask_option} --dialect"
            copy = next((n for n in COPIES if n in self.manifest["vocabulary_sha256"]), None)
            if trainer == MEGATRON or "model" in options:
                check = ""
            else:
                check += f" {self._spoken()}" + (f" --vocab {self.folder / copy}" if copy else "")
                check = f"check them with {check}, or "
            raise ShardError(
                f"{self.name}: holds {rows} for {trainer}, which are no shards; {check}prepare the "
                "data again with --format bin"
            )

    def _arrays(self, base: str, entry: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Returns the ids, targets and index of a shard."""
        tokens, episodes = entry["tokens"], entry["episodes"]
        dtype = np.dtype(self.manifest["dtype"]).newbyteorder("<")
        if self.manifest["options"].get("format", "bin") == "bin":
            ids = _mapped(Path(f"{base}.bin"), dtype, tokens)
            mask = _mapped(Path(f"{base}_mask.bin"), np.dtype("u1"), tokens)
            return ids, mask, _saved(Path(f"{base}_idx.npy"), INDEX, episodes)
        path = Path(f"{base}.parquet")
        lacks = parquet.missing()
        if lacks:
            raise ShardError(f"{path}: {lacks}")
        try:
            ids, mask, index = parquet.load(path, INDEX)
        except Exception as error:  # pyarrow raises errors of all kinds for bad files
            why = " ".join(str(error).split())
            raise _spoilt(path, f"cannot be read: {why}") from None
        if len(ids) and ids.dtype != dtype:
            raise _spoilt(path, f"holds ids of type {ids.dtype}, expected {dtype}")
        if not (len(ids) == len(mask) == tokens and len(index) == episodes):
            found = f"{len(ids)} ids, {len(mask)} masks and {len(index)} episodes"
            expected = f"{tokens}, {tokens} and {episodes}"
            raise _spoilt(path, f"holds {found}, expected {expected}")
        return ids, mask, index

    def _spoken(self) -> str:
        """Returns the folder of the dialect's files in the data, or its name."""
        try:
            return copied_to(self.folder) or name_in(self.manifest["options"]["dialect"])
        except mypt_spec.SpecError as error:
            raise _spoilt(self.name, error) from None

    def _dialect(self) -> mypt_spec.Dialect:
        """Returns the dialect on the vocabulary that the data was prepared with.

        This is the usual vocabulary, or the copy of another one in the folder.
        """
        expected = self.manifest["vocabulary_sha256"]
        dialect: mypt_spec.Dialect
        try:
            if "model" in self.manifest["options"]:
                dialect = model_format(str(self.folder))
            else:
                dialect = mypt_spec.dialect(
                    self._spoken(),
                    vocabulary=next((self.folder / n for n in COPIES if n in expected), None),
                )
        except (UsageError, VocabularyError, KeyError, mypt_spec.SpecError) as error:
            raise ShardError(f"{error.args[0]}; prepare the data again") from None
        if dialect.tokenizer.files != expected:
            actual_digests, expected_digests = (
                ", ".join(f"{name} {digest[:12]}" for name, digest in sorted(files.items()))
                for files in (dialect.tokenizer.files, expected)
            )
            raise ShardError(
                f"{self.name}: was prepared with another vocabulary ({expected_digests}, found is "
                f"{actual_digests}); prepare it again"
            )
        return dialect

    def _manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        if self.folder.is_file():
            raise ShardError(
                f"{self.folder}: is a file, expected a folder that mypt-prepare has made; run "
                f"mypt-prepare {self.folder} --out DIR first"
            )
        try:
            return manifest.read(path)
        except FileNotFoundError:
            if not self.folder.exists():
                advice = "there is no such folder; run mypt-prepare first"
            elif (self.folder / WORK).exists():
                advice = (
                    f"has no {MANIFEST}; its preparation did not end: run mypt-prepare with "
                    "--resume"
                )
            elif (self.folder / REJECTS).exists():
                advice = (
                    f"has no {MANIFEST}; lines were refused: repair what {REJECTS} names, and "
                    "prepare again"
                )
            else:
                advice = f"has no {MANIFEST}; name a folder that mypt-prepare has made"
            raise ShardError(f"{self.folder}: {advice}") from None
        except OSError as error:
            raise ShardError(f"{path}: cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise _spoilt(path, error) from None

    def _check(self, name: str, entry: dict[str, Any], *, verify: bool) -> None:
        path = self.folder / name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise _spoilt(path, error.strerror or error) from None
        if size != entry["bytes"]:
            raise ShardError(
                f"{self.name}/{name}: has {size} bytes, expected {entry['bytes']}; copy or prepare "
                "it again"
            )
        if verify:
            digest = atomic.sha256(path)
            if digest != entry["sha256"]:
                raise ShardError(
                    f"{path}: was altered (SHA-256 {digest[:12]}, expected "
                    f"{entry['sha256'][:12]}); copy or prepare it again"
                )


def _spoilt(where: object, why: object) -> ShardError:
    return ShardError(f"{where}: {why}; prepare the data again")


def _mapped(path: Path, dtype: np.dtype[Any], count: int) -> Any:
    """Returns an array of `count` items that fills a file, mapped.

    Raises ShardError if the file has another size.
    """
    try:
        size = path.stat().st_size
        if size != count * dtype.itemsize:
            raise _spoilt(path, f"has {size} bytes, {count} items need {count * dtype.itemsize}")
        return np.memmap(path, dtype, "r", shape=(count,)) if count else np.zeros(0, dtype)
    except OSError as error:
        raise _spoilt(path, error.strerror or error) from None


def _saved(path: Path, dtype: np.dtype[np.void], count: int) -> Any:
    """Returns the array of records that `np.save` wrote to a file, mapped.

    Raises ShardError for any other file.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise _spoilt(path, error.strerror or error) from None
    except Exception:  # numpy raises errors of many kinds for a bad header
        array = None
    if array is None or array.dtype != dtype or array.shape != (count,):
        raise _spoilt(path, f"is not an array of {count} entries of {dtype}")
    return array
