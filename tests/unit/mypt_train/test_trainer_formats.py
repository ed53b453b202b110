"""mypt-prepare --format for trainers: rows that they read, with the same masks."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mypt_spec
from mypt.lint.cli import main as lint
from mypt.prepare.cli import main
from mypt_train import Options, ShardError, ShardReader
from mypt_train.data.formats import FORMATS, TRAINERS, in_parquet, trainer_of
from mypt_train.data.formats.indexed import index_of
from tests.support.build import read, write
from tests.support.dialects import DIALECTS
from tests.support.shards import manifest_of
from tests.support.vectors import HERE, load

PHASES = "examples/phase*.jsonl"
FOR_TRAINERS = [form for form in FORMATS if trainer_of(form) in TRAINERS]
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


def labels_of(row: dict[str, Any]) -> list[int]:
    """Returns the labels of a row, which may have a mask in their place."""
    if "labels" in row:
        return list(row["labels"])
    mask = row["loss_mask"]
    if "num_actions" in row:
        assert len(mask) == row["num_actions"]
        assert mask[:1] in ([1], []), "it begins at the first target"
        mask = [0] * (len(row["input_ids"]) - len(mask)) + mask
    return [i if one else -100 for i, one in zip(row["input_ids"], mask, strict=True)]


def episodes_of(rows: list[dict[str, Any]]) -> Episodes:
    """Returns the episodes of rows."""
    episodes: Episodes = Counter()
    for row in rows:
        row = row | {"labels": labels_of(row)}
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


ARGS = [PHASES, "--context-length", "600", "--tokens-per-shard", "2000"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of shards of the same records."""
    folder = tmp_path_factory.mktemp("shards")
    run(*ARGS, "--out", str(folder))
    return folder


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("form", MARKED)
def test_rows_hold_what_shards_hold(form: str, pack: bool, tmp_path: Path, shards: Path) -> None:
    args = ARGS
    if pack and trainer_of(form) != "trl":
        assert main([*args, "--out", str(tmp_path / "x"), "--format", form, "--pack"]) == 2
        return
    run(*args, "--out", str(tmp_path / "rows"), "--format", form, *["--pack"] * pack)
    rows = rows_of(tmp_path / "rows")
    columns = {*TRAINERS[trainer_of(form)], *(["seq_lengths"] if pack else [])}
    assert all(set(row) == columns for row in rows)
    assert all(set(row.get("attention_mask", [1])) == {1} for row in rows)
    for row in rows:
        assert row.get("position_ids", [0])[:] == [*range(len(row.get("position_ids", [0])))]
    assert episodes_of(rows) == expected(shards)
    most = max(len(row.get("seq_lengths", [1])) for row in rows)
    assert (most > 1) == pack
    one, other = manifest_of(shards), manifest_of(tmp_path / "rows")
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
    for form in ("axolotl", "skyrl", "verl-parquet", "megatron"):
        with pytest.raises(ValueError, match=rf"rows for {trainer_of(form)} hold one episode each"):
            Options(format=form)
    for form in ("bin", "parquet", "megatron"):
        with pytest.raises(ValueError, match="no place for message_indices; choose one of trl"):
            Options(format=form, pack=False, message_indices=True)
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


def messages_of(dialect: mypt_spec.Dialect, record: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the ids of a record, and the message that each comes from."""
    episode, findings = dialect.read(record)
    assert episode is not None, findings
    encoded = dialect.encode(episode)
    assert encoded.message_indices is not None
    return tuple(encoded.ids.tolist()), encoded.message_indices.tolist()


@pytest.mark.parametrize("form", MARKED)
def test_rows_name_the_message_of_each_token(form: str, tmp_path: Path) -> None:
    """Also where records were split: they count the messages of the whole record."""
    d = mypt_spec.dialect("mypt")
    turn = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    records = [{"system": "S", "messages": [*turn, *turn]}, {"system": "T", "messages": turn}]
    data = write(tmp_path / "in.jsonl", *records)
    run(data, "--out", str(tmp_path / "rows"), "--format", form, "--message-indices")
    rows = {tuple(row["input_ids"]): row["message_indices"] for row in rows_of(tmp_path / "rows")}
    assert rows == dict(messages_of(d, record) for record in records)
    assert manifest_of(tmp_path / "rows")["options"]["message_indices"] is True
    split = ["--long", "split-turns", "--context-length", "12", "--pack"]
    if form == "trl":
        run(data, "--out", str(tmp_path / "parts"), "--format", form, "--message-indices", *split)
        rows_split = rows_of(tmp_path / "parts")
        indices = [
            row["message_indices"] for row in rows_split if len(set(row["message_indices"])) > 1
        ]
        assert sorted({*map(max, indices)}) == [1, 3]
        assert {-1, 2, 3} in [set(one) for one in indices]
        assert (
            lint(
                [
                    "--no-config",
                    "--dialect",
                    "mypt",
                    "--trainer-rows",
                    str(tmp_path / "parts/train"),
                ]
            )
            == 0
        )


def sequences(prefix: Path) -> list[list[int]]:
    """Returns the sequences of a data set of Megatron, by the layout in its documentation."""
    index = prefix.with_suffix(".idx").read_bytes()
    magic, version, code, count, documents = struct.unpack_from("<9sQBQQ", index)
    assert (magic, version, documents) == (b"MMIDIDX\0\0", 1, count + 1)
    lengths = np.frombuffer(index, "<i4", count, 34)
    begins = np.frombuffer(index, "<i8", count, 34 + 4 * count)
    firsts = np.frombuffer(index, "<i8", documents, 34 + 12 * count)
    assert firsts.tolist() == [*range(count + 1)], "a document for each sequence"
    assert len(index) == 34 + 12 * count + 8 * documents
    content, dtype = prefix.with_suffix(".bin").read_bytes(), {1: "u1", 8: "<u2", 4: "<i4"}[code]
    out = [np.frombuffer(content, dtype, n, at) for n, at in zip(lengths, begins, strict=True)]
    assert sum(array.nbytes for array in out) == len(content)
    return [array.tolist() for array in out]


@pytest.mark.filterwarnings("ignore")  # of megatron-core, which is only read here
def test_megatron_reads_its_data_set(
    tmp_path: Path, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*ARGS, "--out", str(tmp_path / "data"), "--format", "megatron")
    entries = manifest_of(tmp_path / "data")["splits"]["train"]["shards"]
    assert len(entries) > 1
    ends = (".bin", ".idx", "_mask.bin", "_mask.idx")
    assert sorted(entries[0]["files"]) == sorted(entries[0]["name"] + end for end in ends)
    rows = []
    for shard in entries:
        prefix = tmp_path / "data" / shard["name"]
        both = [sequences(prefix), sequences(Path(f"{prefix}_mask"))]
        rows += [{"input_ids": ids, "loss_mask": mask} for ids, mask in zip(*both, strict=True)]
    assert episodes_of(rows) == expected(shards)
    with pytest.raises(ShardError, match=r"an indexed data set for megatron, .* --format bin"):
        ShardReader(tmp_path / "data")
    assert lint(["--no-config", str(tmp_path / "data")]) == 1
    assert "--format bin" in capsys.readouterr().out
    reader = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed"
    )
    theirs = reader.IndexedDataset(str(prefix))
    assert [theirs[n].tolist() for n in range(len(theirs))] == both[0]
    masks = reader.IndexedDataset(f"{prefix}_mask")
    assert [masks[n].tolist() for n in range(len(masks))] == both[1]


def test_ids_of_a_large_vocabulary_are_int32() -> None:
    index = bytes(index_of(np.array([3, 1], np.uint32), 4))
    assert struct.unpack_from("<9sQBQQ", index) == (b"MMIDIDX\0\0", 1, 4, 2, 3)
    assert np.frombuffer(index, "<i8", 2, 34 + 8).tolist() == [0, 12]


@pytest.mark.filterwarnings("ignore")
def test_skyrl_sees_the_same_mask(tmp_path: Path) -> None:
    """Its collator pads at the left; the mask is that of the last tokens."""
    trainer = pytest.importorskip("skyrl.train.sft_trainer", reason="skyrl is not installed")
    run(PHASES, "--out", str(tmp_path / "rows"), "--format", "skyrl", "--message-indices")
    rows = rows_of(tmp_path / "rows")
    batch = trainer.collate_sft_batch(rows, SimpleNamespace(pad_token_id=0))
    columns = ("sequences", "attention_mask", "loss_mask")
    out = []
    for ids, at, mask in zip(*(batch[name] for name in columns), strict=True):
        whole = [0] * (len(ids) - len(mask)) + mask.tolist()
        row_mask = [one for one, here in zip(whole, at, strict=True) if here]
        out.append({"input_ids": ids[at != 0].tolist(), "loss_mask": row_mask})
    assert episodes_of(out) == episodes_of(rows)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.extra("pyarrow")
def test_verl_sees_the_same_mask(tmp_path: Path) -> None:
    """By the class in the docs, which verl loads, and verl's own collator."""
    sft = pytest.importorskip("verl.trainer.sft_trainer", reason="verl is not installed")
    from omegaconf import OmegaConf

    run(PHASES, "--out", str(tmp_path / "rows"), "--format", "verl-parquet")
    files = sorted(map(str, (tmp_path / "rows/train").glob("*.parquet")))
    source = "examples/verl_rows.py"
    config = OmegaConf.create({"custom_cls": {"path": source, "name": "PreparedRows"}})
    data = sft.create_sft_dataset(files, config, None, None)
    collate = sft.SFTTensorCollator("no_padding")
    batch = collate([data[n] for n in range(len(data))])
    assert batch.keys() == {"input_ids", "position_ids", "loss_mask"}
    columns = (batch["input_ids"].unbind(), batch["loss_mask"].unbind())
    pairs = zip(*columns, strict=True)
    rows = [{"input_ids": ids.tolist(), "loss_mask": mask.tolist()} for ids, mask in pairs]
    assert episodes_of(rows) == episodes_of(rows_of(tmp_path / "rows"))
