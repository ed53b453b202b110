"""A prepared folder that was altered anywhere is refused with the documented error, or read as what
it says; never anything else.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_cli.jsonl.names import MANIFEST
from mypt_cli.jsonl.paths import expand
from mypt_spec.findings import RULES
from mypt_train import Options, ShardError, prepare
from mypt_train.data.shard import INDEX
from mypt_train.data.verify import check_folder
from mypt_train.training.corpus import corpus, open_data
from tests.support.examples import examples

ROOT = Path(__file__).parent.parent.parent
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.sampled_from([2**31, 2**62, 2**64, -1, 0, 1, 2, "mypt", "parquet", "/dev/zero", "../x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


FORMS = ["bin", pytest.param("parquet", marks=pytest.mark.extra("pyarrow"))]


@cache
def made(form: str) -> Path:
    folder = Path(mkdtemp()) / "set"
    paths = [str(path) for path in sorted((ROOT / "examples").glob("phase*.jsonl"))]
    prepare(expand(paths), folder, Options(context_length=512, val_fraction=0.2, format=form))
    return folder


@pytest.fixture(scope="module", autouse=True)
def swept() -> Iterator[None]:
    yield
    for form in ["bin", *(["parquet"] if find_spec("pyarrow") else [])]:
        shutil.rmtree(made(form).parent)
    made.cache_clear()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON value, but its own."""
    if not isinstance(value, dict | list):
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*at, key)
        yield from places(inner, (*at, key))


def altered(manifest: Any, data: st.DataObject) -> Any:
    """The manifest with one to three values that are others, or not there."""
    manifest = copy.deepcopy(manifest)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(manifest))))
        here = manifest
        for key in path[:-1]:
            here = here[key]
        if data.draw(st.booleans()):
            here[path[-1]] = data.draw(VALUES)
        else:
            del here[path[-1]]
    return manifest


def use(folder: Path) -> None:
    """Read all that a trainer reads."""
    readers = open_data([folder], verify=False)
    for split in ("train", "val"):
        found = corpus(readers, split)
        assert len(found.phase) == len(found.episodes)
        for row in found.rows():
            assert sum(len(found.tokens(number)[0]) for number in row) <= 512
        for number in range(len(found.episodes)):
            ids, mask = found.tokens(number)
            assert len(ids) == len(mask) > 0
            assert mask.max() <= 1
            assert found.place(number)


def read(folder: Path) -> bool:
    """Whether a folder is read. Whatever is refused is a finding of the linter, too."""
    chunks = [*check_folder(str(folder), frozenset(RULES))]
    said = ""
    try:
        use(folder)
    except ShardError as error:
        said = str(error)
    assert "\n" not in said
    assert any(chunk.findings for chunk in chunks) or not said, said
    return not said


def entry(manifest: Any, name: str, data: bytes) -> None:
    import hashlib

    files = manifest["splits"]["train"]["shards"][0]["files"]
    files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_an_altered_manifest(form: str, data: st.DataObject) -> None:
    folder = made(form)
    whole = (folder / MANIFEST).read_bytes()
    try:
        manifest = altered(json.loads(whole), data)
        (folder / MANIFEST).write_text(json.dumps(manifest))
        read(folder)
    finally:
        (folder / MANIFEST).write_bytes(whole)
    assert read(folder)


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_an_altered_file_that_the_manifest_agrees_with(form: str, data: st.DataObject) -> None:
    folder = made(form)
    ends = [".parquet"] if form == "parquet" else ["_idx.npy", "_mask.bin", ".bin"]
    name = f"train/shard_00000{data.draw(st.sampled_from(ends))}"
    whole, before = (folder / MANIFEST).read_bytes(), (folder / name).read_bytes()
    try:
        now = bytearray(before)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(now) - 1) | st.integers(0, min(200, len(now) - 1)))
            now[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
        manifest = json.loads(whole)
        entry(manifest, name, bytes(now))
        (folder / name).write_bytes(now)
        (folder / MANIFEST).write_text(json.dumps(manifest))
        read(folder)
    finally:
        (folder / name).write_bytes(before)
        (folder / MANIFEST).write_bytes(whole)


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_an_index_of_other_numbers(data: st.DataObject) -> None:
    folder = made("bin")
    name = "train/shard_00000_idx.npy"
    whole, before = (folder / MANIFEST).read_bytes(), (folder / name).read_bytes()
    index = np.load(folder / name)
    assert index.dtype == INDEX
    try:
        field = data.draw(st.sampled_from(INDEX.names))
        row = data.draw(st.integers(0, len(index) - 1))
        old = int(index[row][field])
        top = np.iinfo(INDEX[field]).max
        new = data.draw(st.integers(0, int(top)) | st.integers(max(0, old - 2), old + 2))
        index[row][field] = new
        np.save(folder / name, index)
        manifest = json.loads(whole)
        entry(manifest, name, (folder / name).read_bytes())
        (folder / MANIFEST).write_text(json.dumps(manifest))
        assert not read(folder) or new == old or field in ("file", "line")
    finally:
        (folder / name).write_bytes(before)
        (folder / MANIFEST).write_bytes(whole)
