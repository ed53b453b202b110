"""Training begins with models of other architectures, which run by transformers' own code."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mypt_spec
from tests.support.build import chat, system, user, write
from tests.support.examples import either
from tests.support.foreign import path as foreign
from tests.support.tolerance import (
    assert_close,
    forward_terms,
    is_close,
    path_of,
    tensors_apart,
)
from tests.support.training import SHAPE as LLAMA
from tests.support.training import THREADS, TRAIN, data, log, processes, small_data, weights
from tests.support.vocabulary import SIZE, small

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors.numpy import load_file  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from mypt.train import main  # noqa: E402
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.llama import load  # noqa: E402
from mypt_infer.generate.opened import read_prompt  # noqa: E402
from mypt_model.pretrained import Pretrained, open_model, open_pretrained  # noqa: E402
from mypt_model.shape import ModelError  # noqa: E402
from mypt_train.export.folder import export  # noqa: E402
from mypt_train.training.begin import begun  # noqa: E402
from mypt_train.training.parts import lora  # noqa: E402
from mypt_train.training.parts.attention import attend  # noqa: E402
from mypt_train.training.parts.checkpoint import size_of  # noqa: E402
from mypt_train.training.parts.config import Config, ConfigError  # noqa: E402
from mypt_train.training.trainer import CheckpointError, TrainError, train  # noqa: E402

pytestmark = pytest.mark.numeric

SHAPE = LLAMA | {"vocab_size": SIZE, "max_position_embeddings": 1024}
IDS = 448  # of text, padding and tags
TABLE = "model.embed_tokens.weight"
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama3": ("LlamaConfig", {"rope_parameters": SCALED | {
        "rope_theta": 500000.0, "original_max_position_embeddings": 512,
    }}),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {"head_dim": 12, "tie_word_embeddings": True}),
    "mistral": ("MistralConfig", {"sliding_window": 6}),
    "gemma3": ("Gemma3TextConfig", {
        "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 6, "pad_token_id": None,
        "layer_types": ["sliding_attention", "full_attention"],
    }),
}  # fmt: skip
PLAIN = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}  # runs by our own code


def config(**train: Any) -> dict[str, Any]:
    return {"train": TRAIN | {"micro_rows": 2, "log_every": 1} | train}


def pretrained(kind: str, out: Path, **more: Any) -> Path:
    """Writes a model of random weights, as people have one on disk."""
    name, facts = KINDS[kind]
    torch.manual_seed(7)
    shape = getattr(transformers, name)(**SHAPE | facts | more)
    transformers.AutoModelForCausalLM.from_config(shape).save_pretrained(out)
    return out


def adapters(test: Any) -> Any:
    """Marks a test of adapters, which are those of peft."""
    of_peft = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
    return pytest.mark.extra("peft")(of_peft(test))


@pytest.fixture(scope="module")
def sft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("set") / "sft")


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrained(request.param, tmp_path_factory.mktemp("models") / request.param)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrained("qwen3", tmp_path_factory.mktemp("models") / "qwen3")


def logits(model: Any, ids: Any, lengths: list[int], backend: str = "slices") -> Any:
    """Returns the logits of one row that holds episodes of these lengths."""
    at = torch.cat([torch.arange(n) for n in lengths])
    seen = attend(backend, [tuple(lengths)], len(at), torch.device("cpu"))
    with torch.no_grad():
        return model(ids[None], at[None], seen, torch.arange(len(at)), torch.nn.functional.linear)


def theirs_on(theirs: Any, ids: Any) -> Any:
    """Returns the logits of a model of transformers for one episode."""
    with torch.no_grad():
        return theirs(input_ids=ids[None]).logits[0]


def opened_by_transformers(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder)


def test_training_widens_no_constant_that_was_rounded(tmp_path: Path) -> None:
    """Gemma scales embeddings by the root of their size: in bfloat16, 25.25 for 25.298."""
    folder = pretrained("gemma3", tmp_path / "gemma3", hidden_size=24)
    opened_by_transformers(folder).to(torch.bfloat16).save_pretrained(folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model, _ = begun(Config.load({}), SIZE, None, folder)
    ids = torch.arange(20)
    assert torch.equal(logits(model, ids, [20]), logits(Pretrained(theirs), ids, [20]))


@pytest.mark.parametrize("backend", ["slices", "mask"])
def test_no_episode_sees_another(folder: Path, backend: str) -> None:
    """Changing one episode of a row leaves the logits of the others as they are, to the bit."""
    model = open_model(folder)
    ids = torch.randint(0, 300, (30,), generator=torch.Generator().manual_seed(1))
    before = logits(model, ids, [11, 9, 10], backend)
    for begin, end in ((0, 11), (11, 20), (20, 30)):
        other = ids.clone()
        other[begin:end] = (other[begin:end] + 13) % 300
        same = torch.ones(30, dtype=torch.bool)
        same[begin:end] = False
        after = logits(model, other, [11, 9, 10], backend)
        assert torch.equal(before[same], after[same])
        assert not torch.equal(before[~same], after[~same])


def test_an_episode_is_read_as_transformers_reads_it(folder: Path) -> None:
    ids = torch.randint(0, 300, (40,), generator=torch.Generator().manual_seed(2))
    own = logits(open_model(folder), ids, [25, 15])
    theirs = opened_by_transformers(folder)
    parts = [theirs_on(theirs, part) for part in (ids[:25], ids[25:])]
    assert_close(own, torch.cat(parts), terms=forward_terms(SHAPE, 25))


def test_pieces_are_read_as_transformers_reads_the_whole(folder: Path) -> None:
    """With a KV cache, by rows that are read up to different places."""
    model, theirs = load(folder), opened_by_transformers(folder)
    rows = torch.randint(0, 300, (2, 20), generator=torch.Generator().manual_seed(3))
    cache, whole = model.begin(2, 24), [theirs_on(theirs, row) for row in rows]
    done = [0, 0]
    for sizes in ((9, 4), (1, 1), (1, 0), (3, 11), (1, 1)):
        parts = [row[n : n + size] for row, n, size in zip(rows, done, sizes, strict=True)]
        padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        out = model(padded, torch.tensor(sizes), cache)
        done = [n + size for n, size in zip(done, sizes, strict=True)]
        for row, (n, size) in enumerate(zip(done, sizes, strict=True)):
            if size:
                assert_close(out[row], whole[row][n - 1], terms=forward_terms(SHAPE, 20))


def test_it_learns_and_runs(folder: Path, sft: Path, tmp_path: Path) -> None:
    """From the folder to new rows for the tags, a checkpoint that transformers reads, and text."""
    report = train(sft, config(), tmp_path / "r", init_from=folder)
    steps = [entry for entry in log(tmp_path / "r") if entry["event"] == "step"]
    assert log(tmp_path / "r")[0]["fresh_ids"] == IDS - SIZE
    assert 0 < steps[-1]["trained"] < 1
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.05
    theirs, ids, d = opened_by_transformers(report.folder), torch.arange(20), small("mypt")
    assert theirs.config.vocab_size == IDS
    own = logits(open_model(report.folder), ids, [20])
    assert_close(own, theirs_on(theirs, ids), terms=forward_terms(SHAPE, 20))
    rows = [read_prompt(d, json.dumps({"system": "Be brief.", **chat(user())}))[0]]
    (answer,) = generate(load(report.folder), rows, dialect=d, max_new_tokens=40, seed=1)
    assert answer.ids, "the decoder runs it"


def test_it_is_exported(qwen: Path, sft: Path, tmp_path: Path) -> None:
    """With its architecture, the tokenizer of the data and a chat template."""
    report = train(sft, config(steps=1), tmp_path / "r", init_from=qwen)
    out = export(tmp_path / "r", tmp_path / "exported")
    theirs, tokenizer = opened_by_transformers(out), transformers.AutoTokenizer.from_pretrained(out)
    assert type(theirs).__name__ == "Qwen3ForCausalLM"
    prompt = {"add_generation_prompt": True, "return_dict": False}
    ids = torch.tensor(tokenizer.apply_chat_template([system("S."), user()], **prompt))
    own = logits(open_model(report.folder), ids, [len(ids)])
    assert_close(own, theirs_on(theirs, ids), terms=forward_terms(SHAPE, len(ids)))


def test_resuming_is_exact(qwen: Path, sft: Path, tmp_path: Path) -> None:
    chosen = config(save_every=4, steps=6)
    train(sft, chosen, tmp_path / "whole", init_from=qwen)
    train(sft, chosen, tmp_path / "r", init_from=qwen, steps=4)
    train(sft, chosen, tmp_path / "r", resume=True)
    one, two = (weights(tmp_path / name / "step_000006") for name in ("whole", "r"))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    configs = [tmp_path / name / "step_000006" / "config.json" for name in ("whole", "r")]
    assert configs[0].read_bytes() == configs[1].read_bytes()


WAYS = [{"recompute": True}, *either([], [{"recompute": True, "compile": True}])]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at all
@pytest.mark.parametrize("ways", WAYS)
def test_other_ways_to_the_same_place(
    ways: dict[str, bool], qwen: Path, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = either("eager", "aot_eager")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiler))
    plain = config(steps=2, save_every=1)
    train(sft, plain, tmp_path / "plain", init_from=qwen)
    train(sft, config(steps=2, save_every=1, **ways), tmp_path / "other", init_from=qwen)
    one, two = (weights(tmp_path / name / "step_000002") for name in ("plain", "other"))
    allowed = {"terms": forward_terms(SHAPE, 512), "path": path_of(plain)}
    assert tensors_apart(two, one, **allowed) == []
    earlier = weights(tmp_path / "plain" / "step_000001")
    assert tensors_apart(earlier, one, **allowed) == list(one), "a step lost"


def test_tags_begin_as_words(tmp_path: Path, sft: Path) -> None:
    """In the embedding and in a head of its own."""
    folder = pretrained("mistral", tmp_path / "m")
    chosen = config(lr=1e-9, steps=1, weight_decay=0.0, tag_words={"<myPT_user>": " user"})
    report = train(sft, chosen, tmp_path / "r", init_from=folder)
    tokenizer = small("mypt").tokenizer
    before, after = weights(folder), weights(report.folder)
    for name in (TABLE, "lm_head.weight"):
        mean = before[name][tokenizer.encode(" user")].mean(0)
        assert_close(after[name][tokenizer.special["<myPT_user>"]], mean, terms=4)
        assert_close(after[name][:SIZE], before[name], terms=1)


def test_the_best_checkpoint_is_kept(qwen: Path, sft: Path, tmp_path: Path) -> None:
    """A rate that is too high: the loss gets worse after the first steps, and the run ends."""
    chosen = config(lr=3.0, steps=40, val_every=1, patience=3, keep=2)
    report = train(sft, chosen, tmp_path / "r", init_from=qwen)
    losses = [e["loss"] for e in log(tmp_path / "r") if e["event"] == "validation"]
    best = losses.index(min(losses))
    assert len(losses) == best + 1 + 3 < 40
    assert report.folder.name == f"step_{best + 1:06}"
    again = train(sft, chosen, tmp_path / "r", init_from=qwen, resume=True)
    assert again.folder == report.folder, "the best loss is known after a resume, too"
    with pytest.raises(ConfigError, match=r"set train\.val_every"):
        train(sft, config(patience=1), tmp_path / "x", init_from=qwen)


@adapters
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kind", "more"), [("qwen3", {}), ("llama3", PLAIN)])
def test_adapters(
    kind: str, more: dict[str, Any], tied: bool, sft: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Text keeps its embedding; the merged weights are what peft makes of base and adapter."""
    import peft

    base = pretrained(kind, tmp_path / "base", tie_word_embeddings=tied, **more)
    chosen = config(lora_rank=4, lr=0.01, steps=6, save_every=3)
    report = train(sft, chosen, tmp_path / "r", init_from=base, quiet=False)
    before, after = weights(base), weights(report.folder)
    first = small("mypt").table.special["<myPT_user>"]
    assert np.array_equal(after[TABLE][:SIZE], before[TABLE])
    assert not np.array_equal(after[TABLE][first], after[TABLE][first + 1]), "tags are trained"
    q = "model.layers.0.self_attn.q_proj.weight"
    assert not np.array_equal(before[q], after[q])
    assert np.array_equal(before["model.norm.weight"], after["model.norm.weight"])
    theirs = opened_by_transformers(base)
    theirs.resize_token_embeddings(IDS, mean_resizing=False)
    theirs = peft.PeftModel.from_pretrained(theirs, report.folder / "adapter")
    tags = sorted(small("mypt").table.special.values())
    ids = torch.tensor([*range(SIZE), *tags])  # what is between them is no id of anything
    own = logits(open_model(report.folder), ids, [len(ids)])[:, ids]
    assert_close(own, theirs_on(theirs, ids)[:, ids], terms=forward_terms(SHAPE, len(ids)))
    theirs.save_pretrained(tmp_path / "again", save_embedding_layers=False)
    stored, again = (
        dict(load_file(folder / "adapter_model.safetensors"))
        for folder in (report.folder / "adapter", tmp_path / "again")
    )
    assert set(stored) == set(again), "the names of peft"
    assert all(np.array_equal(stored[name], again[name]) for name in stored)
    rows = [weight.shape for name, weight in stored.items() if "lora" not in name]
    assert rows == [(len(tags), 16)] * (1 if tied else 2)
    size = sum(weight.size for weight in stored.values())
    moments = load_file(report.folder / "optimizer.safetensors").items()
    assert sum(moment.size for name, moment in moments if "exp_avg" in name) == 2 * size
    assert f"{size:,} of " in capsys.readouterr().err
    train(sft, chosen, tmp_path / "two", init_from=base, steps=3)
    resumed = weights(train(sft, chosen, tmp_path / "two", resume=True).folder)
    assert all(np.array_equal(after[name], resumed[name]) for name in after)
    (base / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is no longer the model"):
        train(sft, chosen, tmp_path / "two", resume=True)


@adapters
def test_room_is_asked_for_moments_of_what_is_trained(qwen: Path) -> None:
    model = open_pretrained(qwen)
    lora.add(model, Config.load(config(lora_rank=4)).train, [30, 31])
    with_moments, trained = size_of(model), lora.trained(model).values()
    model.requires_grad_(requires_grad=False)
    assert with_moments - size_of(model) == 8 * sum(weight.numel() for weight in trained)


@adapters
def test_adapters_without_rows_of_tags_are_refused(qwen: Path, tmp_path: Path) -> None:
    """Those of an earlier version, which held all of the embedding."""
    model = open_pretrained(qwen)
    lora.add(model, Config.load(config(lora_rank=4)).train, [30, 31])
    stored = {"base_model.model.model.embed_tokens.weight" if "token" in name else name: weight
              for name, weight in lora.trained(model).items()}  # fmt: skip
    (tmp_path / "adapter").mkdir()
    save_file(stored, tmp_path / lora.WEIGHTS)
    with pytest.raises(ConfigError, match=r"lacks .*_tokens_delta; begin a new run"):
        lora.restore(model, tmp_path)


# Of two processes, the second one reads no model and draws no weights.
SECOND = """
import os, sys
from mypt.train import main
from mypt_train.training import begin
from mypt_train.training.parts import checkpoint

def refused(*given, **more):
    raise AssertionError("this process makes the whole model")

if os.environ["RANK"] == "1":
    begin.open_pretrained = begin.random_transformer = checkpoint.open_model = refused
sys.exit(main(sys.argv[1:]))
"""


@adapters
@pytest.mark.parametrize(("kind", "more"), [("qwen3", {}), ("llama3", PLAIN)])  # one head is tied
def test_adapters_of_shared_weights(
    kind: str, more: dict[str, Any], sft: Path, tmp_path: Path
) -> None:
    """Two processes: the steps of one, and its files for peft."""
    base = pretrained(kind, tmp_path / "base", **more)
    chosen = config(lora_rank=4, steps=3)
    one = train(sft, chosen, tmp_path / "one", init_from=base).folder
    words = ["--config", write(tmp_path / "c.json", chosen), "--init-from", str(base)]
    words += ["--set", "train.parallel=fsdp", "--out", str(tmp_path / "two"), "-q"]
    modules = [f"transformers.models.{kind}.modeling_{kind}".replace("llama3", "llama"), "peft"]
    for way in (["--steps", "2"], ["--resume"]):
        code = ["-c", SECOND, "--data", str(sft), *words, *way]
        for end in processes(code, 2, modules=modules):
            assert end.returncode == 0, end.stderr
    last = tmp_path / "two" / "step_000003"
    adapters_of = [dict(load_file(f / "adapter/adapter_model.safetensors")) for f in (last, one)]
    allowed = {"terms": forward_terms(SHAPE, 512), "path": path_of(chosen)}
    for mine, theirs in ((weights(last), weights(one)), adapters_of):
        assert tensors_apart(mine, theirs, **allowed) == []


@adapters
def test_frozen_weights_are_narrow(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products in bfloat16 read weights of bfloat16 as they are: to the same bits, in half."""
    base = pretrained("qwen3", tmp_path / "base")
    chosen = config(lora_rank=4, steps=2, dtype="bfloat16")
    kinds, narrow = [], lora.narrow
    monkeypatch.setattr(lora, "narrow", lambda m, w: (narrow(m, w), kinds.append(_kinds(m))))
    train(sft, chosen, tmp_path / "wide", init_from=base)
    net = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    net.save_pretrained(base)
    train(sft, chosen, tmp_path / "narrow", init_from=base)
    assert kinds == [{torch.float32: 25}, {torch.bfloat16: 14, torch.float32: 11}]
    monkeypatch.setattr(lora, "narrow", lambda m, w: None)
    train(sft, chosen, tmp_path / "plain", init_from=base)
    one, two = (weights(tmp_path / name / "step_000002") for name in ("narrow", "plain"))
    assert {weight.dtype.name for weight in one.values()} == {"float32"}
    assert all(np.array_equal(one[name], two[name]) for name in two)


def _kinds(model: Any) -> dict[Any, int]:
    """Counts weights of the model itself, by dtype."""
    return dict(Counter(w.dtype for n, w in model.named_parameters() if ".lora_" not in n))


def test_what_cannot_be_trained_is_refused(qwen: Path, sft: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    with pytest.raises(ConfigError, match="the config has no model"):
        train(sft, config(), out)
    with pytest.raises(ConfigError, match="its shape is not for a config to say"):
        train(sft, "tiny", out, init_from=qwen)
    with pytest.raises(ConfigError, match="adapts a model"):
        train(sft, {"model": LLAMA} | config(lora_rank=2), out)
    other = tmp_path / "other"
    shutil.copytree(qwen, other)
    (other / "vocabulary.tiktoken").write_bytes(b"IQ== 0\n")
    with pytest.raises((CheckpointError, TrainError), match="vocabulary"):
        train(sft, config(), out, init_from=other)
    short = pretrained("qwen2", tmp_path / "short", max_position_embeddings=100)
    with pytest.raises(ModelError, match="reads at most 100 tokens"):
        train(sft, config(), out, init_from=short)
    wide = pretrained("qwen2", tmp_path / "wide", vocab_size=600)
    with pytest.raises(CheckpointError, match="different vocabularies"):
        train(sft, config(), out, init_from=wide)
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("Gemma2Config", {"head_dim": 8}, "attn_logit_softcapping"),
        ("Llama4TextConfig", {"head_dim": 8}, "chunked_attention"),
        ("GraniteConfig", {"logits_scaling": 8.0}, "in a way that is not supported"),
        ("PhiConfig", {}, "a head with a bias"),
        ("GPT2Config", {}, "no `model` and `lm_head`"),
    ],
)
def test_models_that_run_in_another_way(
    name: str, more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    shape = getattr(transformers, name)(**SHAPE | {"vocab_size": 300} | more)
    transformers.AutoModelForCausalLM.from_config(shape).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=says):
        open_pretrained(tmp_path)


def test_a_folder_with_code_runs_none(tmp_path: Path) -> None:
    shape = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    write(tmp_path / "config.json", shape)
    (tmp_path / "mine.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ModelError, match="transformers cannot read this model"):
        open_pretrained(tmp_path)


def test_a_shape_that_transformers_divides_by(tmp_path: Path) -> None:
    shape = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 0}
    write(tmp_path / "config.json", shape)
    with pytest.raises(ModelError, match="by zero"):
        open_pretrained(tmp_path)


def test_the_command(qwen: Path, sft: Path, tmp_path: Path) -> None:
    words = ["--data", str(sft), "--out", str(tmp_path / "r"), "--init-from", str(qwen), "--steps"]
    few = ["--set", "train.val_every=-1", "--set", "train.legality_every=-1"]
    assert main([*words, "1", "--quiet", "--threads", str(THREADS), *few]) == 0
    assert isinstance(open_model(tmp_path / "r" / "step_000001"), Pretrained)
    assert main(["--data", str(sft), "--out", str(tmp_path / "x")]) == 2


@adapters
def test_adapters_train_tags_with_words(tmp_path: Path) -> None:
    """A special token that the vocabulary has, and the model has never seen: a reserved one."""
    pytest.importorskip("tokenizers")
    vocabulary = foreign("own")
    sft = data(tmp_path / "sft", vocabulary=str(vocabulary))
    special = mypt_spec.dialect("mypt", vocabulary=vocabulary).tokenizer.special
    base = pretrained("qwen3", tmp_path / "base", vocab_size=422)
    for words, trained in (({}, False), ({"</myPT_assistant>": " user"}, True)):
        chosen = config(lora_rank=4, lr=0.01, steps=3, tag_words=words)
        report = train(sft, chosen, tmp_path / f"r{trained}", init_from=base)
        embedding, before = weights(report.folder)[TABLE], weights(base)[TABLE]
        assert special["</myPT_assistant>"] == 421
        assert np.array_equal(embedding[30], before[30])
        ids = mypt_spec.dialect("mypt", vocabulary=vocabulary).tokenizer.encode(" user")
        first = embedding[ids].mean(0) if trained else before[421]
        assert is_close(embedding[421], first, terms=4) != trained
