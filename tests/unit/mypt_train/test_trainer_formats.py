"""mypt-prepare --format trl and axolotl: rows that these trainers read, with the same masks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt_train import Options, ShardError, ShardReader
from mypt_train.data.formats import FORMATS, TRAINERS, in_parquet, trainer_of
from tests.support.build import read, write
from tests.support.dialects import DIALECTS
from tests.support.shards import manifest_of
from tests.support.vectors import HERE, load

PHASES = "examples/phase*.jsonl"
FOR_TRAINERS = [form for form in FORMATS if trainer_of(form)]
MARKED = [pytest.param(form, marks=[pytest.mark.extra("pyarrow")] * in_parquet(form)) for form in FOR_TRAINERS]  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Returns all rows of the split `train` of a folder."""
    out: list[dict[str, Any]] = []
    for path in sorted((folder / "train").iterdir()):
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            out += pq.read_table(path).to_pylist()
        else:
            out += read(path)
    return out


# Episodes, as ids and labels.
Episodes = Counter[tuple[tuple[int, ...], tuple[int, ...]]]


def episodes_of(rows: list[dict[str, Any]]) -> Episodes:
    """Returns the episodes of rows."""
    episodes: Episodes = Counter()
    for row in rows:
        at = 0
        for size in row.get("seq_lengths", [len(row["input_ids"])]):
            piece = slice(at, at + size)
            episodes[tuple(row["input_ids"][piece]), tuple(row["labels"][piece])] += 1
            at += size
        assert at == len(row["input_ids"])
    return episodes


def expected(folder: Path) -> Episodes:
    """Returns the episodes of shards."""
    return Counter(
        (tuple(ids.tolist()), tuple(i if m else -100 for i, m in zip(ids, mask, strict=True)))
        for shard in ShardReader(folder).shards()
        for ids, mask in shard.episodes()
    )


def run(*words: str) -> None:
    assert main([*words, "--no-config", "-q"]) == 0


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("form", MARKED)
def test_rows_hold_what_shards_hold(form: str, pack: bool, tmp_path: Path) -> None:
    args = [PHASES, "--context-length", "600", "--tokens-per-shard", "2000"]
    if pack and trainer_of(form) == "axolotl":
        assert main([*args, "--out", str(tmp_path / "x"), "--format", form, "--pack"]) == 2
        return
    run(*args, "--out", str(tmp_path / "shards"))
    run(*args, "--out", str(tmp_path / "rows"), "--format", form, *["--pack"] * pack)
    rows = rows_of(tmp_path / "rows")
    columns = {*TRAINERS[trainer_of(form)], *(["seq_lengths"] if pack else [])}
    assert all(set(row) == columns for row in rows)
    assert all(set(row.get("attention_mask", [1])) == {1} for row in rows)
    assert episodes_of(rows) == expected(tmp_path / "shards")
    most = max(len(row.get("seq_lengths", [1])) for row in rows)
    assert (most > 1) == pack
    one, other = (manifest_of(tmp_path / name) for name in ("shards", "rows"))
    assert one["lines"] == other["lines"]
    assert one["inputs"] == other["inputs"]
    splits = [manifest["splits"]["train"] for manifest in (one, other)]
    for name in ("episodes", "episode_tokens", "trained_tokens"):
        assert splits[0][name] == splits[1][name]
    assert len(splits[1]["shards"]) > 1
    # The linter knows nothing against them.
    split = str(tmp_path / "rows" / "train")
    assert lint(["--no-config", "--dialect", "mypt", "--trainer-rows", split]) == 0


@pytest.mark.parametrize("name", DIALECTS)
def test_rows_of_each_dialect_lint_clean(name: str, tmp_path: Path) -> None:
    vectors = load(HERE / name.replace("-", "_"), "valid_records")
    data = write(tmp_path / "in.jsonl", *[vector["record"] for vector in vectors[:20]])
    run = [data, "--dialect", name, "--vocab", "gpt2", "--out", str(tmp_path / "rows")]
    assert main([*run, "--format", "trl", "--pack", "--on-error", "reject", "-q"]) in (0, 1)
    split = str(tmp_path / "rows" / "train")
    assert lint(["--no-config", "--dialect", name, "--trainer-rows", split]) == 0


def test_they_are_no_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(PHASES, "--out", str(tmp_path), "--format", "trl")
    with pytest.raises(ShardError, match=r"mypt-lint --trainer-rows .*train --dialect mypt"):
        ShardReader(tmp_path)
    assert lint(["--no-config", str(tmp_path)]) == 1
    assert "--trainer-rows" in capsys.readouterr().out


def test_options_say_what_excludes_what() -> None:
    for form in FOR_TRAINERS:
        with pytest.raises(ValueError, match="preferences"):
            Options(format=form, pack=False, preferences=True)
    with pytest.raises(ValueError, match="one episode each"):
        Options(format="axolotl")
    assert not in_parquet("trl")


@pytest.mark.filterwarnings("ignore")  # of libraries that are only read here
def test_trl_sees_the_same_labels(tmp_path: Path) -> None:
    """Three steps of SFTTrainer on a tiny random Llama, on the CPU."""
    trl = pytest.importorskip("trl", reason="trl is not installed: nox -s trl")
    import torch
    from datasets import load_dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    run(PHASES, "--out", str(tmp_path / "rows"), "--format", "trl")
    run(PHASES, "--out", str(tmp_path / "shards"))
    episodes, tokenizer = expected(tmp_path / "shards"), mypt_spec.dialect("mypt").tokenizer
    files, cache = str(tmp_path / "rows" / "train" / "*.jsonl"), str(tmp_path / "cache")
    data = load_dataset("json", data_files=files, split="train", cache_dir=cache)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=tokenizer.vocab_size, max_position_embeddings=1024, hidden_size=16, intermediate_size=16,
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    seen: list[dict[str, Any]] = []
    words = Tokenizer(WordLevel({"<pad>": tokenizer.pad, "<unk>": 0}, unk_token="<unk>"))
    fast = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<unk>")
    chosen = trl.SFTConfig(
        output_dir=str(tmp_path / "out"), max_steps=3, per_device_train_batch_size=2, max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True}, use_cpu=True, report_to=[], save_strategy="no",
        logging_steps=1, disable_tqdm=True, bf16=False,
    )  # fmt: skip
    trainer = trl.SFTTrainer(
        model=LlamaForCausalLM(shape), args=chosen, train_dataset=data, processing_class=fast
    )
    compute_loss = trainer.compute_loss

    def spy(model: Any, inputs: dict[str, Any], *args: Any, **given: Any) -> Any:
        seen.append({key: value.clone() for key, value in inputs.items()})
        return compute_loss(model, inputs, *args, **given)

    trainer.compute_loss = spy
    trainer.train()
    columns = ("input_ids", "labels", "attention_mask")
    rows = [
        (tuple(ids[at != 0].tolist()), tuple(labels[at != 0].tolist()))
        for batch in seen
        for ids, labels, at in zip(*(batch[name] for name in columns), strict=True)
    ]
    assert len(rows) == 6
    assert all(row in episodes for row in rows)
    assert any(label != -100 for _, labels in rows for label in labels)
