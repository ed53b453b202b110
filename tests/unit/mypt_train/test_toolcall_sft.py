"""docs/toolcall_sft.md: its example, prepared."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mypt_cli.jsonl.paths import expand
from mypt_spec import dialect
from mypt_train import Options, ShardReader, prepare
from mypt_train.data.packing import WINDOW
from mypt_train.data.shard import INDEX

PAGE = (Path(__file__).parents[3] / "docs" / "toolcall_sft.md").read_text(encoding="utf-8")


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
    pad = dialect("mypt").tokenizer.pad.to_bytes(2, "little")
    assert ids[2 * len(rows) :] == pad * (48 - len(rows))
    assert not any(mask[len(rows) :])
    (shard,) = ShardReader(tmp_path / "out", verify=True).shards()
    assert shard.index.tolist() == [(0, len(rows), 0, 0, 1)]


def test_what_the_page_says_of_the_index_and_the_window() -> None:
    assert INDEX.names == ("start", "length", "row", "file", "line")
    assert f"{WINDOW:,} episodes" in PAGE
    assert json.loads(fence("json"))["system"] == "You are MyPT."


def test_the_record_of_phase_3b_is_the_text_below_it() -> None:
    d = dialect("mypt-3b")
    episode, findings = d.check(json.loads(fence("json mypt-3b")))
    assert not findings
    assert episode is not None
    assert d.serialize(episode, layout="lines") + "\n" == fence("text mypt-3b")


def test_the_commands_of_the_page_are_accepted() -> None:
    """Options and names as the page spells them; what runs them is tested where it is made."""
    from mypt.chat import main as chat
    from mypt.lint.cli import main as lint
    from mypt.prepare.cli import main as prepare
    from mypt.synth import main as synth
    from mypt.train import main as train

    parsers = {"mypt-synth": synth, "mypt-lint": lint, "mypt-prepare": prepare, "mypt-train": train, "mypt-chat": chat}  # fmt: skip
    shown = [line for line in fence("sh").splitlines() if line.startswith("mypt-")]
    lines = [line.split("#")[0].split() for line in shown]
    assert {line[0] for line in lines} == set(parsers)
    for name, *rest in lines:
        parsers[name].parser().parse_args(rest)
