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
from tests.support.training import THREADS, TRAIN, data, log, processes, small_data, weights
from tests.support.vocabulary import SIZE, small

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors.numpy import load_file  # noqa: E402

from mypt_infer.generate.cli import read_prompt  # noqa: E402
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_infer.generate.llama import load  # noqa: E402
from mypt_model.pretrained import Pretrained, open_model, open_pretrained  # noqa: E402
from mypt_model.shape import ModelError  # noqa: E402
from mypt_train.commands.train import main  # noqa: E402
from mypt_train.export.folder import export  # noqa: E402
from mypt_train.training.config import ConfigError  # noqa: E402
from mypt_train.training.parts import lora  # noqa: E402
from mypt_train.training.parts.attention import attend  # noqa: E402
from mypt_train.training.trainer import CheckpointError, TrainError, train  # noqa: E402

pytestmark = pytest.mark.numeric

SHAPE = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 1024,
}
SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama3": ("LlamaConfig", {"rope_parameters": SCALED | {
        "rope_theta": 500000.0, "original_max_position_embeddings": 512,
    }}),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {"head_dim": 12, "tie_word_embeddings": True}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
}  # fmt: skip
CONFIG = {"train": TRAIN | {"micro_rows": 2, "log_every": 1}}


IDS = 448  # of text, padding and tags


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
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        parts = [theirs(input_ids=part[None]).logits[0] for part in (ids[:25], ids[25:])]
    assert_close(own, torch.cat(parts), terms=forward_terms(SHAPE, 25))


def test_it_learns_and_runs(folder: Path, sft: Path, tmp_path: Path) -> None:
    """From the folder to new rows for the tags, a checkpoint that transformers reads, and text."""
    report = train(sft, CONFIG, tmp_path / "r", init_from=folder)
    told = log(tmp_path / "r")
    steps = [entry for entry in told if entry["event"] == "step"]
    assert told[0]["fresh_ids"] == IDS - SIZE
    assert 0 < steps[-1]["trained"] < 1
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.05
    theirs = transformers.AutoModelForCausalLM.from_pretrained(report.folder)
    assert theirs.config.vocab_size == IDS
    ids = torch.arange(20)
    with torch.no_grad():
        wanted = theirs(input_ids=ids[None]).logits[0]
    own = logits(open_model(report.folder), ids, [20])
    assert_close(own, wanted, terms=forward_terms(SHAPE, 20))
    prompt = json.dumps({"system": "Be brief.", **chat(user())})
    rows = [read_prompt(small("mypt"), prompt)]
    (answer,) = generate(
        load(report.folder), rows, dialect=small("mypt"), max_new_tokens=40, seed=1
    )
    assert answer.ids, "the decoder runs it"


def test_it_is_exported(qwen: Path, sft: Path, tmp_path: Path) -> None:
    """With its architecture, the tokenizer of the data and a chat template."""
    made = {"train": CONFIG["train"] | {"steps": 1}}
    report = train(sft, made, tmp_path / "r", init_from=qwen)
    out = export(tmp_path / "r", tmp_path / "exported")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(out)
    assert type(theirs).__name__ == "Qwen3ForCausalLM"
    ids = transformers.AutoTokenizer.from_pretrained(out).apply_chat_template(
        [system("S."), user()],
        add_generation_prompt=True,
        return_dict=False,
    )
    with torch.no_grad():
        wanted = theirs(input_ids=torch.tensor([ids])).logits[0]
    own = logits(open_model(report.folder), torch.tensor(ids), [len(ids)])
    assert_close(own, wanted, terms=forward_terms(SHAPE, len(ids)))


def test_resuming_is_exact(qwen: Path, sft: Path, tmp_path: Path) -> None:
    made = {"train": CONFIG["train"] | {"save_every": 4, "steps": 6}}
    train(sft, made, tmp_path / "whole", init_from=qwen)
    train(sft, made, tmp_path / "r", init_from=qwen, steps=4)
    train(sft, made, tmp_path / "r", resume=True)
    one, two = (weights(tmp_path / name / "step_000006") for name in ("whole", "r"))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at all
@pytest.mark.parametrize("ways", [{"recompute": True}, {"recompute": True, "compile": True}])
def test_other_ways_to_the_same_place(
    ways: dict[str, bool], qwen: Path, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch, "compile", partial(torch.compile, backend=either("eager", "aot_eager"))
    )
    for name, keys in (("plain", {}), ("other", ways)):
        made = {"train": CONFIG["train"] | {"steps": 2, "save_every": 1} | keys}
        train(sft, made, tmp_path / name, init_from=qwen)
    one, two = (weights(tmp_path / name / "step_000002") for name in ("plain", "other"))
    allowed = {"terms": forward_terms(SHAPE, 512), "path": path_of(made)}
    assert tensors_apart(two, one, **allowed) == []
    earlier = weights(tmp_path / "plain" / "step_000001")
    assert tensors_apart(earlier, one, **allowed) == list(one), "a step lost"


def test_tags_begin_as_words(tmp_path: Path, sft: Path) -> None:
    """In the embedding and in a head of its own."""
    folder = pretrained("mistral", tmp_path / "m")
    words = {"<myPT_user>": " user"}
    made = {"train": CONFIG["train"] | {"lr": 1e-9, "steps": 1, "weight_decay": 0.0}}
    made["train"]["tag_words"] = words
    report = train(sft, made, tmp_path / "r", init_from=folder)
    t = small("mypt").tokenizer
    before, after = weights(folder), weights(report.folder)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        wanted = before[name][t.encode(" user")].mean(0)
        assert_close(after[name][t.special["<myPT_user>"]], wanted, terms=4)
        assert_close(after[name][:SIZE], before[name], terms=1)


def test_the_best_checkpoint_is_kept(qwen: Path, sft: Path, tmp_path: Path) -> None:
    """A rate that is too high: the loss gets worse after the first steps, and the run ends."""
    made = {"train": TRAIN | {"lr": 3.0, "steps": 40, "val_every": 1, "patience": 3, "keep": 2}}
    report = train(sft, made, tmp_path / "r", init_from=qwen)
    found = [e["loss"] for e in log(tmp_path / "r") if e["event"] == "validation"]
    best = min(range(len(found)), key=found.__getitem__)
    assert len(found) == best + 1 + 3 < 40
    assert report.folder.name == f"step_{best + 1:06}"
    again = train(sft, made, tmp_path / "r", init_from=qwen, resume=True)
    assert again.folder == report.folder, "the best loss is known after a resume, too"
    with pytest.raises(ConfigError, match=r"set train\.val_every"):
        train(sft, {"train": TRAIN | {"patience": 1}}, tmp_path / "x", init_from=qwen)


@adapters
@pytest.mark.parametrize("kind", ["qwen3", "mistral"])
def test_adapters(kind: str, sft: Path, tmp_path: Path) -> None:
    """Text keeps its embedding; the merged weights are what peft makes of base and adapter."""
    import peft

    base = pretrained(kind, tmp_path / "base")
    made = {"train": CONFIG["train"] | {"lora_rank": 4, "lr": 0.01, "steps": 6, "save_every": 3}}
    report = train(sft, made, tmp_path / "r", init_from=base)
    steps = [entry["loss"] for entry in log(tmp_path / "r") if entry["event"] == "validation"]
    assert steps == []
    before, after = weights(base), weights(report.folder)
    name = "model.embed_tokens.weight"
    first = small("mypt").table.special["<myPT_user>"]
    assert np.array_equal(after[name][:SIZE], before[name])
    assert not np.array_equal(after[name][first], after[name][first + 1]), "tags are trained"
    q = "model.layers.0.self_attn.q_proj.weight"
    assert not np.array_equal(before[q], after[q])
    assert np.array_equal(before["model.norm.weight"], after["model.norm.weight"])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(base)
    theirs.resize_token_embeddings(IDS, mean_resizing=False)
    theirs = peft.PeftModel.from_pretrained(theirs, report.folder / "adapter")
    ids = torch.arange(IDS - 104, IDS)
    with torch.no_grad():
        wanted = theirs(input_ids=ids[None]).logits[0]
    own = logits(open_model(report.folder), ids, [104])
    assert_close(own, wanted, terms=forward_terms(SHAPE, 104))
    train(sft, made, tmp_path / "two", init_from=base, steps=3)
    again = train(sft, made, tmp_path / "two", resume=True)
    found = weights(again.folder)
    assert all(np.array_equal(after[name], found[name]) for name in after)
    (base / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is no longer the model"):
        train(sft, made, tmp_path / "two", resume=True)


# Of two processes, the second one reads no model and draws no weights.
SECOND = """
import os, sys
from mypt_train.__main__ import main
from mypt_train.training import begin, checkpoint

def refused(*given, **more):
    raise AssertionError("this process makes the whole model")

if os.environ["RANK"] == "1":
    begin.open_pretrained = begin.random_transformer = checkpoint.open_model = refused
sys.exit(main(sys.argv[1:]))
"""


@adapters
def test_adapters_of_shared_weights(sft: Path, tmp_path: Path) -> None:
    """Two processes, whole checkpoints and pieces: the steps of one, and its files for peft."""
    base = pretrained("qwen3", tmp_path / "base")
    made = {"train": CONFIG["train"] | {"lora_rank": 4, "steps": 3}}
    chosen = write(tmp_path / "c.json", made)
    one = train(sft, made, tmp_path / "one", init_from=base)
    words = ["--data", str(sft), "--config", chosen, "--init-from", str(base)]
    words += ["--set", "train.parallel=fsdp", "--out", str(tmp_path / "two"), "-q"]
    for way in (["--steps", "2", "--set", "train.checkpoint=sharded"], ["--resume"]):
        for done in processes(
            ["-c", SECOND, *words, *way],
            2,
            modules=["transformers.models.qwen3.modeling_qwen3", "peft"],
        ):
            assert done.returncode == 0, done.stderr
    kept, ended = tmp_path / "two" / "step_000002", tmp_path / "two" / "step_000003"
    assert not (kept / "model.safetensors").exists(), "in pieces"
    assert set(dict(open_model(kept).named_parameters())) == set(weights(base))
    for mine, theirs in (
        (weights(ended), weights(one.folder)),
        *([dict(load_file(f / "adapter/adapter_model.safetensors")) for f in (ended, one.folder)],),
    ):
        terms = forward_terms(SHAPE, 512)
        assert tensors_apart(mine, theirs, terms=terms, path=path_of(made)) == []


@adapters
def test_frozen_weights_are_narrow(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products in bfloat16 read weights of bfloat16 as they are: to the same bits, in half."""
    base = pretrained("qwen3", tmp_path / "base")
    keys = CONFIG["train"] | {"lora_rank": 4, "steps": 2, "dtype": "bfloat16"}
    kinds, narrow = [], lora.narrow
    monkeypatch.setattr(lora, "narrow", lambda m, w: (narrow(m, w), kinds.append(_kinds(m))))
    train(sft, {"train": keys}, tmp_path / "wide", init_from=base)
    net = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    net.save_pretrained(base)
    train(sft, {"train": keys}, tmp_path / "narrow", init_from=base)
    assert kinds == [{torch.float32: 24}, {torch.bfloat16: 14, torch.float32: 10}]
    monkeypatch.setattr(lora, "narrow", lambda m, w: None)
    train(sft, {"train": keys}, tmp_path / "plain", init_from=base)
    one, two = (weights(tmp_path / name / "step_000002") for name in ("narrow", "plain"))
    assert {weight.dtype.name for weight in one.values()} == {"float32"}
    assert all(np.array_equal(one[name], two[name]) for name in two)


def _kinds(model: Any) -> dict[Any, int]:
    """Counts weights of the model itself, by dtype."""
    return dict(Counter(w.dtype for n, w in model.named_parameters() if ".lora_" not in n))


def test_what_cannot_be_trained_is_refused(qwen: Path, sft: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    with pytest.raises(ConfigError, match="the config has no model"):
        train(sft, CONFIG, out)
    with pytest.raises(ConfigError, match="its shape is not for a config to say"):
        train(sft, "tiny", out, init_from=qwen)
    with pytest.raises(ConfigError, match="adapts a model"):
        train(sft, {"model": {k: v for k, v in SHAPE.items() if k != "vocab_size"},
                    "train": TRAIN | {"lora_rank": 2}}, out)  # fmt: skip
    other = tmp_path / "other"
    shutil.copytree(qwen, other)
    (other / "vocabulary.tiktoken").write_bytes(b"IQ== 0\n")
    with pytest.raises((CheckpointError, TrainError), match="vocabulary"):
        train(sft, CONFIG, out, init_from=other)
    short = pretrained("qwen2", tmp_path / "short", max_position_embeddings=100)
    with pytest.raises(ModelError, match="reads at most 100 tokens"):
        train(sft, CONFIG, out, init_from=short)
    wide = pretrained("qwen2", tmp_path / "wide", vocab_size=600)
    with pytest.raises(CheckpointError, match="different vocabularies"):
        train(sft, CONFIG, out, init_from=wide)
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("Gemma2Config", {"head_dim": 8}, "sliding_attention"),
        ("MistralConfig", {"sliding_window": 64}, "a window of 64 tokens"),
        ("GraniteConfig", {"logits_scaling": 8.0}, "in a way that is not supported"),
        ("PhiConfig", {}, "a head with a bias"),
        ("GPT2Config", {}, "no `model` and `lm_head`"),
    ],
)
def test_models_that_run_in_another_way(
    name: str, more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    shape = getattr(transformers, name)(**SHAPE | {"vocab_size": 300} | more)
    transformers.AutoModelForCausalLM.from_config(shape).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=said):
        open_pretrained(tmp_path)


def test_a_folder_with_code_runs_none(tmp_path: Path) -> None:
    shape = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    write(tmp_path / "config.json", shape)
    (tmp_path / "mine.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ModelError, match="transformers cannot read this model"):
        open_pretrained(tmp_path)


def test_the_command(qwen: Path, sft: Path, tmp_path: Path) -> None:
    words = ["--data", str(sft), "--out", str(tmp_path / "r"), "--init-from", str(qwen), "--steps"]
    few = ["--set", "train.val_every=-1", "--set", "train.legality_every=-1"]
    assert main([*words, "1", "--quiet", "--threads", str(THREADS), *few]) == 0
    assert isinstance(open_model(tmp_path / "r" / "step_000001"), Pretrained)
    assert main(["--data", str(sft), "--out", str(tmp_path / "x")]) == 2


def test_checkpoints_in_pieces(qwen: Path, sft: Path, tmp_path: Path) -> None:
    """transformers knows no pieces, but a run goes on from them, and is the same to the bit."""
    made = {"train": CONFIG["train"] | {"steps": 4}}
    train(sft, made, tmp_path / "whole", init_from=qwen)
    pieces = {"train": made["train"] | {"checkpoint": "sharded"}}
    train(sft, pieces, tmp_path / "r", init_from=qwen, steps=2)
    report = train(sft, pieces, tmp_path / "r", resume=True)
    assert not (report.folder / "model.safetensors").exists()
    mine, theirs = (
        dict(open_model(tmp_path / name / report.folder.name).named_parameters())
        for name in ("r", "whole")
    )
    assert set(mine) == set(theirs)
    assert all(torch.equal(weight, theirs[name]) for name, weight in mine.items())


@adapters
def test_adapters_train_tags_with_words(tmp_path: Path) -> None:
    """A special token that the vocabulary has, and the model has never seen: a reserved one."""
    pytest.importorskip("tokenizers")
    vocabulary = foreign("own")
    sft = data(tmp_path / "sft", vocabulary=str(vocabulary))
    special = mypt_spec.dialect("mypt", vocabulary=vocabulary).tokenizer.special
    base = pretrained("qwen3", tmp_path / "base", vocab_size=422)
    for words, trained in (({}, False), ({"</myPT_assistant>": " user"}, True)):
        made = {"train": CONFIG["train"] | {"lora_rank": 4, "lr": 0.01, "steps": 3}}
        made["train"]["tag_words"] = words
        report = train(sft, made, tmp_path / f"r{trained}", init_from=base)
        embedding = weights(report.folder)["model.embed_tokens.weight"]
        row, other = (weights(base)["model.embed_tokens.weight"][i] for i in (421, 30))
        assert special["</myPT_assistant>"] == 421
        assert np.array_equal(embedding[30], other)
        ids = mypt_spec.dialect("mypt", vocabulary=vocabulary).tokenizer.encode(" user")
        begun = embedding[ids].mean(0) if trained else row
        assert is_close(embedding[421], begun, terms=4) != trained
