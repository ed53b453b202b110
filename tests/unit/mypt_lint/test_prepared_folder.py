"""mypt-lint and mypt-view on a prepared folder: every kind of fault has its code and place."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt.lint.cli import main
from mypt.train import main as train
from mypt.view import main as view
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, ShardError, ShardReader, prepare
from tests.support.build import write
from tests.support.linting import ROOT, Linter

PHASES = sorted(str(path) for path in (ROOT / "examples").glob("phase*.jsonl"))
IDS, MASK, INDEX = (f"train/shard_00000{end}" for end in (".bin", "_mask.bin", "_idx.npy"))
MANIFEST = "dataset_metadata.json"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared") / "set"
    prepare(expand(PHASES), out, Options(context_length=1024, val_fraction=0.2))
    return out


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> Path:
    """A copy of a prepared folder, which a test may alter."""
    return Path(shutil.copytree(prepared, tmp_path / "set"))


def check(lint: Linter, data: Path) -> tuple[int, list[tuple[str, int, int]]]:
    """Lints a folder; returns the exit status, and (code, row, column) of each finding."""
    status, findings, _ = lint("-q", data)
    places = [(f["code"], f["location"]) for f in findings]
    return status, [(code, place["row"], place["column"]) for code, place in places]


def sign(folder: Path, name: str) -> None:
    """Make the manifest agree with a file, so that only its content is wrong."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_bytes())
    data = (folder / name).read_bytes()
    entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest["splits"]["train"]["shards"][0]["files"][name] = entry
    path.write_text(json.dumps(manifest))


def array(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    path = folder / name
    if name == INDEX:
        data = np.load(path)
        np.save(path, change(data))
    else:
        data = np.fromfile(path, np.uint8 if name == MASK else "<u2")
        change(data).tofile(path)
    sign(folder, name)


def put(at: int, value: int) -> Callable[[Any], Any]:
    def change(data: Any) -> Any:
        data[at] = value
        return data

    return change


def field(at: int, name: str, value: int) -> Callable[[Any], Any]:
    def change(data: Any) -> Any:
        data[at][name] = value
        return data

    return change


def test_a_clean_folder(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(data)]) == 0
    assert capsys.readouterr().err == "26 episodes clean (2 files)\n"


def test_contents_that_are_wrong(data: Path, lint: Linter) -> None:
    index = np.load(data / INDEX)
    second, length = int(index[1]["start"]), int(index[1]["length"])
    mask = np.fromfile(data / MASK, np.uint8)
    trained = second + int(np.flatnonzero(mask[second : second + length])[0])
    last = len(mask) - 1  # padding
    for name, change, expected in [
        (MASK, put(trained, 0), [("MYP506", 2, trained + 1), ("MYP508", 1, 1)]),
        (MASK, put(second, 1), [("MYP506", 2, second + 1), ("MYP508", 1, 1)]),
        (MASK, put(last, 1), [("MYP507", 1, last + 1), ("MYP508", 1, 1)]),
        (IDS, put(last, 13), [("MYP507", 1, last + 1)]),
        (IDS, put(trained, 50300), [("MYP503", 2, trained + 1)]),
        (INDEX, field(1, "start", second - 1), [("MYP507", 2, second)]),
        (INDEX, field(1, "row", 9), [("MYP507", 2, second + 1)]),
    ]:
        before = {path: (data / path).read_bytes() for path in (name, MANIFEST)}
        array(data, name, change)
        status, places = check(lint, data)
        assert status == 1
        assert [place for place in expected if place not in places] == [], (name, expected, places)
        for path, content in before.items():
            (data / path).write_bytes(content)
    assert check(lint, data) == (0, [])


def test_files_that_are_wrong(data: Path, lint: Linter) -> None:
    copy = data / "train" / "shard_00009.bin"
    copy.write_bytes((data / IDS).read_bytes())
    assert check(lint, data) == (1, [("MYP508", 1, 1)])
    copy.unlink()
    array(data, INDEX, lambda data: data)
    manifest = json.loads((data / MANIFEST).read_bytes())
    manifest["splits"]["train"]["shards"][0]["rows"] += 1
    (data / MANIFEST).write_text(json.dumps(manifest))
    assert check(lint, data) == (1, [("MYP508", 1, 1)] * 2), "of the shard, and the sum"
    (data / IDS).write_bytes((data / IDS).read_bytes()[:-2] + b"\x00\x00")
    assert check(lint, data) == (1, [("MYP505", 1, 1)])
    (data / MANIFEST).unlink()
    (data / ".work").mkdir()
    (data / ".work" / "plan.json").write_text("{}")
    assert check(lint, data) == (1, [("MYP505", 1, 1)])


def test_selection_and_other_files_beside(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array(data, MASK, np.zeros_like)
    assert main(["--ignore", "MYP506,MYP508", "-q", str(data)]) == 0
    assert main([str(data), str(ROOT / "examples" / "broken.jsonl"), "--statistics"]) == 1
    out, err = capsys.readouterr()
    assert "MYP506" in out
    assert "MYP202" in out
    assert "3 files" in err


def test_view(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert view([f"{data}:2"]) == 0
    assert f"{data}:2 (train/shard_00000, episode 2): mypt" in capsys.readouterr().out
    assert view([str(data), "--all", "--text"]) == 0
    assert capsys.readouterr().out.count("<myPT_system>") == 26
    assert view([f"{data}:27"]) == 2
    assert "there is no episode 27; the data set has 26" in capsys.readouterr().err
    array(data, MASK, np.zeros_like)
    assert view([str(data), "--mask"]) == 1
    assert "MYP506" in capsys.readouterr().out
    (data / IDS).unlink()
    assert view([str(data)]) == 2
    assert "No such file" in capsys.readouterr().err


def manifest(*path: str | int, value: Any = ...) -> Callable[[Path], None]:
    """What sets a value in the manifest, or takes it out."""

    def change(folder: Path) -> None:
        file = folder / MANIFEST
        values = here = json.loads(file.read_bytes())
        for key in path[:-1]:
            here = here[key]
        if value is ...:
            del here[path[-1]]
        else:
            here[path[-1]] = value
        file.write_text(json.dumps(values))

    return change


def content(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda folder: array(folder, name, change)


def raw(name: str, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(data)
        sign(folder, name)

    return change


def nested(folder: Path) -> None:
    (folder / MANIFEST).write_text("[" * 100_000 + "]" * 100_000)


FIRST = ("splits", "train", "shards", 0)
ALTERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "huge tokens": (manifest(*FIRST, "tokens", value=10**18), "the manifest says|items need"),
    "tokens beyond all": (manifest(*FIRST, "tokens", value=10**30), r"<= .*shards\[0\]\.tokens"),
    "negative tokens": (manifest(*FIRST, "tokens", value=-1), r">= 0.*shards\[0\]\.tokens"),
    "tokens a float": (manifest(*FIRST, "tokens", value=1.5), "Expected `int`, got `float`"),
    "tokens a text": (manifest(*FIRST, "tokens", value="many"), "Expected `int`, got `str`"),
    "no splits": (manifest("splits"), "missing required field `splits`"),
    "splits a list": (manifest("splits", value=[]), "Expected `object`, got `array`"),
    "a split too many": (manifest("splits", "test", value={}), "Invalid enum value 'test'"),
    "one split only": (manifest("splits", "val"), "length >= 2"),
    "shards null": (manifest("splits", "val", "shards", value=None), "got `null`"),
    "no vocabulary": (manifest("vocabulary_sha256"), "`vocabulary_sha256`"),
    "vocabulary a text": (manifest("vocabulary_sha256", value="x"), "got `str`"),
    "vocabulary of numbers": (manifest("vocabulary_sha256", value={"a": 1}), "got `int`"),
    "no fingerprint": (manifest("spec_fingerprint"), "`spec_fingerprint`"),
    "dialect a list": (manifest("options", "dialect", value=["mypt"]), "options.dialect"),
    "no such dialect": (manifest("options", "dialect", value="nope"), "nope"),
    "huge vocab_size": (manifest("vocab_size", value=10**9), "mypt has 50304"),
    "another pad_id": (manifest("pad_id", value=5), "pad_id is 5"),
    "deep nesting": (nested, "cannot be read"),
    "no files": (manifest(*FIRST, "files", value={}), "with no files; expected"),
    "a file elsewhere": (manifest(*FIRST, "files", "/dev/zero", value={"bytes": 0, "sha256": "0"}), "/dev/zero'; expected"),
    "another shard's name": (manifest(*FIRST, "name", value="val/shard_00000"), "expected 'train/"),
    "context_length 1": (manifest("options", "context_length", value=1), "context_length"),
    "other rows": (manifest("options", "context_length", value=1023), "after a gap|its row|rows"),
    "phase a text": (manifest("options", "phase", value="5"), "options.phase"),
    "an input too few": (manifest("inputs", value=[{"path": "a"}]), "there are 1"),
    "a sum": (manifest("splits", "train", "episodes", value=9999), "train: episodes"),
    "index a pickle": (lambda folder: raw(INDEX, pickled(folder))(folder), "is not an array of"),
    "index garbage": (raw(INDEX, b"garbage" * 100), "is not an array of"),
    "index empty": (raw(INDEX, b""), "is not an array of"),
    "index short": (content(INDEX, lambda data: data[:-1]), "is not an array of"),
    "row": (content(INDEX, field(1, "row", 4_000_000_000)), "does not lie in its row"),
    "file": (content(INDEX, field(1, "file", 99)), "is of input 99, there are"),
    "length": (content(INDEX, field(1, "length", 1 << 31)), "does not lie in its row"),
    "length 0": (content(INDEX, field(1, "length", 0)), "does not lie in its row"),
    "start": (content(INDEX, field(1, "start", (1 << 64) - 1)), "does not lie in its row"),
    "overlap": (content(INDEX, field(1, "start", 0)), "reaches into another one|in its row"),
    "mask": (content(MASK, put(3, 2)), "mask 2"),
    "id": (content(IDS, put(3, 65_535)), "65535"),
    "mask all": (content(MASK, np.zeros_like), "trained_tokens"),
}  # fmt: skip


def pickled(folder: Path) -> bytes:
    index = np.load(folder / INDEX)
    out = io.BytesIO()
    np.save(out, index.astype(object), allow_pickle=True)
    return out.getvalue()


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_folder_is_one_clear_line(name: str, data: Path, lint: Linter) -> None:
    """Of the reader, the trainer, and the linter."""
    change, message = ALTERED[name]
    change(data)
    with pytest.raises(ShardError, match=message) as refused:
        read_all(data)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 900  # it may name all formats
    run = data / "r"
    assert train(["--data", str(data), "--config", "tiny", "--out", str(run), "-q"]) == 2
    err = lint.capsys.readouterr().err
    assert err.startswith("mypt-train: error: ")
    assert err.count("\n") == 1
    assert not run.exists()
    status, places = check(lint, data)
    assert status == 1
    assert places


def read_all(folder: Path) -> None:
    reader = ShardReader(folder, verify=True)
    for split in ("train", "val"):
        for shard in reader.shards(split):
            for ids, mask in shard.episodes():
                assert len(ids) == len(mask) > 0


def test_a_file_is_told_from_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, none = write(tmp_path / "x.jsonl", {}), str(tmp_path / "none")
    options = ["--config", "tiny", "--out", str(tmp_path / "r")]
    for data, advice in [
        (path, f"run mypt-prepare {path} --out DIR first"),
        (none, "there is no such folder; run mypt-prepare first"),
        ("s3://me:pw@bucket/sft", "s3://***@bucket/sft: shards are read from a disk; copy"),
    ]:
        assert train(["--data", data, *options]) == 2
        assert advice in capsys.readouterr().err
