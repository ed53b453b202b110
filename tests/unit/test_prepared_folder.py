"""mypt-lint and mypt-view on a prepared folder: every kind of fault has its code and place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mypt_spec.lint.cli import main as lint
from mypt_spec.lint.files import expand
from mypt_spec.view.cli import main as view
from mypt_train import Options, prepare

ROOT = Path(__file__).parent.parent.parent
PHASES = sorted(str(path) for path in (ROOT / "examples").glob("phase*.jsonl"))
IDS, MASK, INDEX = (f"train/shard_00000{end}" for end in (".bin", "_mask.bin", "_idx.npy"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(expand(PHASES), tmp_path / "set", Options(context_length=1024, val_fraction=0.2))
    return tmp_path / "set"


def sign(folder: Path, name: str) -> None:
    """Make the manifest agree with a file, so that only its content is wrong."""
    path = folder / "dataset_metadata.json"
    manifest = json.loads(path.read_bytes())
    data = (folder / name).read_bytes()
    manifest["splits"]["train"]["shards"][0]["files"][name] = {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
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


def found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[tuple[str, int, int]]]:
    status = lint(["--format", "jsonl", "-q", str(folder)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return status, [(f["code"], f["location"]["row"], f["location"]["column"]) for f in lines[:-1]]


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


def test_a_clean_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint([str(folder)]) == 0
    assert capsys.readouterr().err == "26 episodes clean (2 files)\n"


def test_contents_that_are_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = np.load(folder / INDEX)
    second = int(index[1]["start"])
    length = int(index[1]["length"])
    mask = np.fromfile(folder / MASK, np.uint8)
    trained = second + int(np.flatnonzero(mask[second : second + length])[0])
    last = len(mask) - 1  # padding
    for name, change, want in [
        (MASK, put(trained, 0), [("MYP506", 2, trained + 1), ("MYP508", 1, 1)]),
        (MASK, put(second, 1), [("MYP506", 2, second + 1), ("MYP508", 1, 1)]),
        (MASK, put(last, 1), [("MYP507", 1, last + 1), ("MYP508", 1, 1)]),
        (IDS, put(last, 13), [("MYP507", 1, last + 1)]),
        (IDS, put(trained, 50300), [("MYP503", 2, trained + 1)]),
        (INDEX, field(1, "start", second - 1), [("MYP507", 2, second)]),
        (INDEX, field(1, "row", 9), [("MYP507", 2, second + 1)]),
    ]:
        before = (folder / name).read_bytes(), (folder / "dataset_metadata.json").read_bytes()
        array(folder, name, change)
        status, codes = found(folder, capsys)
        assert status == 1
        assert [item for item in want if item not in codes] == [], (name, want, codes)
        (folder / name).write_bytes(before[0])
        (folder / "dataset_metadata.json").write_bytes(before[1])
    assert found(folder, capsys) == (0, [])


def test_files_that_are_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = folder / "train" / "shard_00009.bin"
    copy.write_bytes((folder / IDS).read_bytes())
    assert found(folder, capsys) == (1, [("MYP508", 1, 1)])
    copy.unlink()
    array(folder, INDEX, lambda data: data)
    manifest = json.loads((folder / "dataset_metadata.json").read_bytes())
    manifest["splits"]["train"]["shards"][0]["rows"] += 1
    (folder / "dataset_metadata.json").write_text(json.dumps(manifest))
    assert found(folder, capsys) == (1, [("MYP508", 1, 1)])
    (folder / IDS).write_bytes((folder / IDS).read_bytes()[:-2] + b"\x00\x00")
    assert found(folder, capsys) == (1, [("MYP505", 1, 1)])
    (folder / "dataset_metadata.json").unlink()
    (folder / ".work").mkdir()
    (folder / ".work" / "plan.json").write_text("{}")
    assert found(folder, capsys) == (1, [("MYP505", 1, 1)])


def test_selection_and_other_files_beside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array(folder, MASK, np.zeros_like)
    assert lint(["--ignore", "MYP506,MYP508", "-q", str(folder)]) == 0
    assert lint([str(folder), str(ROOT / "examples" / "broken.jsonl"), "--statistics"]) == 1
    out = capsys.readouterr()
    assert "MYP506" in out.out
    assert "MYP202" in out.out
    assert "3 files" in out.err


def test_view(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert view([f"{folder}:2"]) == 0
    assert f"{folder}:2 (train/shard_00000, episode 2): mypt" in capsys.readouterr().out
    assert view([str(folder), "--all", "--text"]) == 0
    assert capsys.readouterr().out.count("<myPT_system>") == 26
    assert view([f"{folder}:27"]) == 2
    assert "there is no episode 27; the data set has 26" in capsys.readouterr().err
    array(folder, MASK, np.zeros_like)
    assert view([str(folder), "--mask"]) == 1
    assert "MYP506" in capsys.readouterr().out
    (folder / IDS).unlink()
    assert view([str(folder)]) == 2
    assert "No such file" in capsys.readouterr().err
