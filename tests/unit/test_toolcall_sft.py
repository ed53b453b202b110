"""docs/toolcall_sft.md: its example, prepared."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mypt_spec import dialect
from mypt_spec.lint.files import expand
from mypt_train import Options, ShardReader, prepare
from mypt_train.packing import WINDOW
from mypt_train.shards import INDEX

PAGE = (Path(__file__).parent.parent.parent / "docs" / "toolcall_sft.md").read_text(
    encoding="utf-8"
)


def fence(kind: str) -> str:
    match = re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def test_the_example(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(fence("json"), encoding="utf-8")
    prepare(expand([str(path)]), tmp_path / "out", Options(context_length=48))
    ids = (tmp_path / "out/train/shard_00000.bin").read_bytes()
    mask = (tmp_path / "out/train/shard_00000_mask.bin").read_bytes()
    rows = [line.split(" ", 3) for line in fence("tokens").splitlines()]
    decode = dialect("mypt").tokenizer.decode
    for place, token, target, text in rows:
        at = int(place)
        assert int.from_bytes(ids[2 * at : 2 * at + 2], "little") == int(token)
        assert mask[at] == int(target)
        assert decode([int(token)]) == text
    assert ids[2 * len(rows) :] == dialect("mypt").tokenizer.pad.to_bytes(2, "little") * (
        48 - len(rows)
    )
    assert not any(mask[len(rows) :])
    (shard,) = ShardReader(tmp_path / "out", verify=True).shards()
    assert shard.index.tolist() == [(0, len(rows), 0, 0, 1)]


def test_what_the_page_says_of_the_index_and_the_window() -> None:
    assert INDEX.names == ("start", "length", "row", "file", "line")
    assert f"{WINDOW:,} episodes" in PAGE
    assert json.loads(fence("json"))["system"] == "You are MyPT."
