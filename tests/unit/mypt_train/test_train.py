"""mypt-train: exact resuming, also after a kill; checkpoints that others read.

And clear refusals with nothing lost.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mypt_spec
from tests.support.build import native, write
from tests.support.children import child
from tests.support.tolerance import assert_close, forward_terms, is_close
from tests.support.training import PHASES, ROOT, SHAPE, config, data, log, weights

torch = pytest.importorskip("torch")
from mypt_infer.generate.llama import load  # noqa: E402
from mypt_model.folder import checkpoints  # noqa: E402
from mypt_train.commands.train import main  # noqa: E402
from mypt_train.training import checkpoint  # noqa: E402
from mypt_train.training.config import Config, ConfigError, configs_folder  # noqa: E402
from mypt_train.training.corpus import corpus, open_data  # noqa: E402
from mypt_train.training.trainer import CheckpointError, ShardError, TrainError, train  # noqa: E402


@pytest.fixture(scope="module")
def sft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data(tmp_path_factory.mktemp("set") / "sft")


@pytest.fixture(scope="module")
def run(sft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of 8 steps."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    report = train(
        sft,
        config(
            save_every=4,
            val_every=4,
            legality_every=0,
            legality_prompts=3,
            legality_tokens=40,
            log_every=1,
        ),
        out,
    )
    assert report.folder == out / "step_000008"
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != "trainer.json"}


def test_it_learns_and_tells(run: Path) -> None:
    told = log(run)
    steps = [entry for entry in told if entry["event"] == "step"]
    assert [entry["step"] for entry in steps] == list(range(1, 9))
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.1
    found = [entry for entry in told if entry["event"] == "validation"][-1]
    assert (
        found["tokens"]
        == sum(tag["tokens"] for tag in found["tags"].values())
        == sum(p["tokens"] for p in found["phases"].values())
    )
    by_tag = sum(t["loss"] * t["tokens"] for t in found["tags"].values()) / found["tokens"]
    assert_close(found["loss"], by_tag, terms=found["tokens"], dtype=np.float32)
    assert {"text", "<myPT_eot>", "<myPT_assistant>"} <= set(found["tags"])
    legality = told[-1]
    assert legality["event"] == "legality"
    assert legality["constrained"]["legal"] == 1.0
    assert (
        legality["unconstrained"]["legal"]
        + sum(legality["unconstrained"]["reasons"].values()) / legality["prompts"]
        == 1.0
    )
    assert [p.name for p in checkpoints(run)] == ["step_000004", "step_000008"]


def test_validation_is_the_loss_of_each_episode_alone(run: Path, sft: Path) -> None:
    """Against logits of the model that generates, one episode at a time."""
    model, val = load(run), corpus(open_data([sft]), "val")
    total, count = 0.0, 0
    for number in range(len(val.episodes)):
        ids, mask = val.tokens(number)
        at = torch.arange(len(ids))[None]
        with torch.no_grad():
            logits = model.net(
                torch.tensor(ids.astype(np.int64))[None],
                at,
                _causal,
                torch.arange(len(ids)),
                torch.nn.functional.linear,
            )
        losses = torch.nn.functional.cross_entropy(
            logits[:-1], torch.tensor(ids[1:].astype(np.int64)), reduction="none"
        )
        total += float(losses[torch.tensor(mask[1:] == 1)].sum())
        count += int(mask.sum())
    found = [entry for entry in log(run) if entry["event"] == "validation"][-1]
    assert found["tokens"] == count
    terms = forward_terms(SHAPE, 512)
    assert_close(found["loss"], total / count, terms=terms, dtype=np.float32)


def _causal(_: int, q: Any, k: Any, v: Any) -> Any:
    repeat = q.shape[1] // k.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(
        q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1), is_causal=True
    )


def test_resuming_is_exact(run: Path, sft: Path, tmp_path: Path) -> None:
    made = config(save_every=4, val_every=4, legality_every=-1, log_every=1)
    train(sft, made, tmp_path / "r", steps=3)
    with (tmp_path / "r" / "log.jsonl").open("a") as out:
        # Of a run that was killed behind its checkpoint.
        out.write('{"event": "step", "step": 4}\n{"event": "st')
    train(sft, made, tmp_path / "r", resume=True)
    assert contents(tmp_path / "r" / "step_000008") == contents(run / "step_000008")
    assert [entry["step"] for entry in log(tmp_path / "r") if entry["event"] == "step"] == list(
        range(1, 9)
    )
    assert train(sft, made, tmp_path / "r", resume=True).step == 8, "there is nothing left to do"


def test_a_killed_run_goes_on_to_the_same_bytes(run: Path, sft: Path, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(
        json.dumps(config(save_every=1, val_every=4, legality_every=-1, log_every=1))
    )
    out = tmp_path / "r"
    command = [
        sys.executable,
        "-m",
        "mypt_train",
        "--data",
        str(sft),
        "--config",
        str(tmp_path / "c.json"),
        "--out",
        str(out),
        "-q",
    ]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    deadline = time.monotonic() + 120
    with child(command, env=env, stdout=subprocess.DEVNULL) as process:
        while (
            not any(out.glob("step_000003*"))
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.002)  # while the third is being written
        process.send_signal(signal.SIGKILL)
    (out / "step_000099.part").mkdir()  # as it would be left of a checkpoint that was not finished
    assert 1 <= len(checkpoints(out)) <= 2
    assert main([*command[3:], "--resume"]) == 0
    assert contents(out / "step_000008") == contents(run / "step_000008")


def test_others_read_the_checkpoint(run: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(
        run / "step_000008", output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    mine = load(run)
    ids = torch.randint(0, 50276, (2, 30), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = theirs.eval()(ids).logits[:, -1]
    ours = mine(ids, torch.tensor([30, 30]), mine.begin(2, 30))
    assert_close(ours, logits, terms=forward_terms(SHAPE, 30))


def test_no_file_is_pickled() -> None:
    """The job of a linter's launcher is, but goes only to processes that this one has started."""
    sent = ROOT / "mypt_train" / "scale" / "lint" / "job.py"
    for path in [*(ROOT / "mypt_train").rglob("*.py"), *(ROOT / "mypt_model").rglob("*.py")]:
        if path == sent:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not names & {"pickle", "torch.serialization", "cloudpickle", "dill", "joblib"}, path
        called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not {"torch.save", "torch.load", "np.save"} & set(called) - {"np.save"}, path


def test_beginning_from_a_model(run: Path, sft: Path, tmp_path: Path) -> None:
    """Weights are taken over; new ids get embeddings; tags may begin as words."""
    d = mypt_spec.dialect("mypt")
    from safetensors.torch import save_file

    base = {k: torch.tensor(v) for k, v in weights(run / "step_000008").items()}
    old = base | {"model.embed_tokens.weight": base["model.embed_tokens.weight"][:50257].clone()}
    (tmp_path / "base").mkdir()
    save_file(old, tmp_path / "base" / "model.safetensors")
    shape = json.loads((run / "step_000008" / "config.json").read_text()) | {"vocab_size": 50257}
    (tmp_path / "base" / "config.json").write_text(json.dumps(shape))
    made = config(
        lr=1e-9, steps=1, weight_decay=0.0, tag_words={"<myPT_user>": " user", "<myPT_eot>": " end"}
    )
    train(sft, made, tmp_path / "r", init_from=tmp_path / "base")
    found = weights(tmp_path / "r" / "step_000001")["model.embed_tokens.weight"]
    wanted = base["model.embed_tokens.weight"].numpy()
    assert_close(found[:50257], wanted[:50257], terms=1)
    for tag, word in (("<myPT_user>", " user"), ("<myPT_eot>", " end")):
        mean = wanted[d.tokenizer.encode(word)].mean(0)
        assert_close(found[d.tokenizer.special[tag]], mean, terms=4)
    assert log(tmp_path / "r")[0]["fresh_ids"] == 47
    with pytest.raises(ConfigError, match=r"'<user>' is no tag of mypt"):
        train(sft, config(tag_words={"<user>": "x"}), tmp_path / "x")
    with pytest.raises(CheckpointError, match="hidden_size is 16, the config has 32"):
        train(
            sft,
            {"model": SHAPE | {"hidden_size": 32}, "train": {"steps": 1}},
            tmp_path / "x",
            init_from=run,
        )


@pytest.mark.parametrize(
    "change", [{"dtype": "bfloat16"}, {"attention": "mask"}, {"micro_rows": 2}]
)
def test_other_ways_to_the_same_place(
    change: dict[str, Any], run: Path, sft: Path, tmp_path: Path
) -> None:
    """In bfloat16 about, by another kernel or in larger pieces nearly."""
    train(sft, config(log_every=1, **change), tmp_path / "r")
    mine, theirs = (
        [entry["loss"] for entry in log(folder) if entry["event"] == "step"]
        for folder in (tmp_path / "r", run)
    )
    allowed: dict[str, Any] = {"terms": forward_terms(SHAPE, 512), "dtype": np.float32}
    if "dtype" in change:  # logits of about 1 are rounded some 20 times, and a step has 100 or more
        allowed = {"terms": 20 / 100, "scale": 1.0, "dtype": torch.bfloat16}
    assert_close(mine, theirs, **allowed)
    assert not is_close(mine[1:], theirs[:-1], **allowed), "a step lost"
    assert change != {"dtype": "bfloat16"} or mine != theirs


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at all
def test_compiled(run: Path, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same losses, and the same weights where a run is resumed without it."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    made = config(log_every=1, compile=True, recompute=True)
    torch._dynamo.utils.counters.clear()
    train(sft, made, tmp_path / "r", steps=6)
    assert 0 < torch._dynamo.utils.counters["stats"]["unique_graphs"] < 12, "not one for each batch"
    train(sft, config(log_every=1), tmp_path / "r", resume=True)
    mine, theirs = (
        [entry["loss"] for entry in log(folder) if entry["event"] == "step"]
        for folder in (tmp_path / "r", run)
    )
    assert_close(mine, theirs, terms=forward_terms(SHAPE, 512), dtype=np.float32)


def test_where_nothing_can_be_compiled(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> Any:
        raise RuntimeError("No working C++ compiler found\nand more")

    monkeypatch.setattr(torch, "compile", fails)
    with pytest.raises(
        ConfigError, match=r"compile here: No working C\+\+ compiler found; install"
    ):
        train(sft, config(compile=True), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_the_curriculum_in_order(
    sft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.json").write_text(json.dumps(config(steps=5)))
    assert (
        main(
            [
                "--data",
                str(sft),
                "--config",
                str(tmp_path / "c.json"),
                "--out",
                str(tmp_path / "r"),
                "--phases",
                "1-5",
                "-q",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["step"] == 5
    assert json.loads((tmp_path / "r" / "step_000005" / "trainer.json").read_text())["phases"] == [
        1,
        3,
        4,
        5,
    ]
    assert "phase 2: no tag distinguishes it" in log(tmp_path / "r")[0]["notes"][0]
    for i, path in enumerate(PHASES, 1):
        data(
            tmp_path / "all" / f"phase{i}",
            [path],
            phase=i,
            val_fraction=0.0,
            context_length=400 + i,
        )
    assert (
        main(
            [
                "--data",
                str(tmp_path / "all"),
                "--config",
                str(tmp_path / "c.json"),
                "--out",
                str(tmp_path / "r2"),
                "--phases",
                "1-5",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["step"] == 5
    assert json.loads((tmp_path / "r2" / "step_000005" / "trainer.json").read_text())["phases"] == [
        1,
        2,
        3,
        4,
        5,
    ]
    for phases, says in (
        ("1-7", "no episodes of phase 6.*it has 1, 3, 4, 5"),
        ("x", "expected phases as"),
        ("1,1", "one twice"),
    ):
        assert (
            main(
                [
                    "--data",
                    str(sft),
                    "--config",
                    str(tmp_path / "c.json"),
                    "--out",
                    str(tmp_path / "x"),
                    "--phases",
                    phases,
                    "--set",
                    "train.steps=9",
                ]
            )
            == 2
        )
        assert re.search(says, capsys.readouterr().err)


# What is refused.


def test_configs_that_cannot_be(tmp_path: Path) -> None:
    for change, says in [
        ({"train": {"stepz": 1}}, "train has no key 'stepz'; did you mean 'steps'"),
        ({"train": {"steps": "many"}}, "train.steps is 'many', expected int"),
        ({"train": {"steps": True}}, "expected int"),
        ({"train": {"steps": 0}}, "train.steps is 0, expected 1 or more"),
        ({"train": {"lr": float("nan")}}, "train.lr is nan, expected a number above 0$"),
        ({"train": {"beta1": 2}}, "train.beta1 is 2, expected 1 or less$"),
        ({"train": {"tag_words": {"a": 1}}}, "train.tag_words is {'a': 1}, expected str"),
        ({"train": {"dtype": 3}}, "train.dtype is 3, expected str"),
        ({"train": {"lr": 0}}, "train.lr is 0"),
        ({"train": {"schedule": "cosinus"}}, "did you mean 'cosine'"),
        ({"train": {"replay": 1.0}}, "nothing of a phase"),
        ({"train": {"save_every": -1}}, "would be lost"),
        ({"train": []}, "train must be an object"),
        ({"model": {"hidden_size": 8}}, "model lacks intermediate_size"),
        ({"model": SHAPE | {"vocab_size": 9}}, "the data says"),
        ({"modell": {}}, "did you mean 'model'"),
    ]:
        (tmp_path / "c.json").write_text(json.dumps({"model": SHAPE} | change))
        with pytest.raises(ConfigError, match=says):
            Config.of(tmp_path / "c.json")
    (tmp_path / "c.json").write_text("{")
    for given, says in (
        (tmp_path / "c.json", "is not JSON"),
        (tmp_path / "no.json", "cannot read"),
        ("tinny", "did you mean 'tiny'"),
        ([], "expected an object"),
    ):
        with pytest.raises(ConfigError, match=says):
            Config.of(given)  # type: ignore[arg-type]
    for text, says in (
        ("train.lr", "expected train.KEY=VALUE"),
        ("train.lrr=1", "did you mean 'lr'"),
        ("other.x=1", "expected train.KEY"),
    ):
        with pytest.raises(ConfigError, match=says):
            Config.of("tiny").set([text])
    assert Config.of("tiny").set(["train.lr=0.5", "train.schedule=wsd"]).train.schedule == "wsd"
    given = {"lr": 1, "final_lr": 0}
    kept = Config.of({"model": SHAPE, "train": given}).as_dict()["train"]
    assert json.dumps([kept["lr"], kept["final_lr"]]) == "[1, 0]", "as it is given"


@pytest.mark.parametrize("path", sorted(configs_folder().glob("*.json")), ids=lambda p: p.stem)
def test_the_configs_that_come_with_the_package(path: Path) -> None:
    from mypt_model.llama import shapes

    if not Config.of(path.stem).model:
        return  # begins with the model of --init-from
    shape = Config.of(path.stem).shape(50304)
    size = sum(int(np.prod(s)) for s in shapes(shape).values())
    sizes = {
        "tiny": (7e6, 8e6),
        "small": (15e6, 20e6),
        "medium": (45e6, 60e6),
        "toolchat_150M": (145e6, 155e6),
    }
    assert sizes[path.stem][0] < size < sizes[path.stem][1]


def test_data_that_cannot_be_trained_on(sft: Path, run: Path, tmp_path: Path) -> None:
    bad = data(tmp_path / "bad")
    name = bad / "train" / "shard_00000.bin"
    raw = bytearray(name.read_bytes())
    raw[10] ^= 1
    name.write_bytes(raw)
    with pytest.raises(ShardError, match=r"shard_00000.bin: was altered \(SHA-256"):
        train(bad, config(), tmp_path / "r")
    name.write_bytes(raw[:-2])
    with pytest.raises(ShardError, match="bytes, expected"):
        train(bad, config(), tmp_path / "r")
    manifest = json.loads((sft / "dataset_metadata.json").read_text())

    def changed(folder: str, **change: Any) -> Path:
        shutil.copytree(sft, tmp_path / folder)
        (tmp_path / folder / "dataset_metadata.json").write_text(json.dumps(manifest | change))
        return tmp_path / folder

    with pytest.raises(
        ShardError,
        match=f"another grammar of mypt .*abcabcabcabc, installed is {mypt_spec.dialect('mypt').fingerprint[:12]}",
    ):
        train(changed("grammar", spec_fingerprint="abc" * 22), config(), tmp_path / "r")
    with pytest.raises(ShardError, match=r"vocab_size is 50262, mypt has 50304"):
        train(changed("vocabulary", vocab_size=50262), config(), tmp_path / "r")
    splits = json.loads(json.dumps(manifest["splits"]))
    splits["train"]["trained_tokens"] = 0
    with pytest.raises(ShardError, match="no token of the data is a target"):
        train(changed("masked", splits=splits), config(), tmp_path / "r")
    assert not (tmp_path / "r").exists(), "nothing was written"
    with pytest.raises(TrainError, match="is not empty, and holds no checkpoint"):
        train(sft, config(), tmp_path)
    with pytest.raises(
        TrainError, match="holds step_000008 of an earlier run; go on with --resume"
    ):
        train(sft, config(), run)
    with pytest.raises(ConfigError, match="the schedule of the config has 8 steps"):
        train(sft, config(), tmp_path / "r", steps=9)


def test_a_checkpoint_of_something_else(run: Path, sft: Path, tmp_path: Path) -> None:
    other = data(tmp_path / "other", seed=5)
    with pytest.raises(CheckpointError, match="was trained on other data"):
        train(other, config(), run, resume=True)
    with pytest.raises(
        CheckpointError, match=r"train.lr was 0.01, now it is 0.5; resume with the same config"
    ):
        train(sft, config(lr=0.5), run, resume=True)
    with pytest.raises(CheckpointError, match="the phases were"):
        train(sft, config(), run, resume=True, phases=[1, 3])
    shutil.copytree(run, tmp_path / "run")
    last = tmp_path / "run" / "step_000008"
    facts = json.loads((last / "trainer.json").read_text())
    now = facts["data"]["spec_fingerprint"]
    facts["data"]["spec_fingerprint"] = "f" * 64
    (last / "trainer.json").write_text(json.dumps(facts))
    for how in ({"resume": True}, {"init_from": last}):
        with pytest.raises(
            CheckpointError, match=f"another grammar .ffffffffffff, the data has {now[:12]}"
        ):
            train(sft, config(), tmp_path / ("run" if "resume" in how else "x"), **how)  # type: ignore[arg-type]
    (last / "model.safetensors").write_bytes(b"x")
    with pytest.raises(
        CheckpointError,
        match=r"model.safetensors: is missing or was altered; delete .* to go on from the checkpoint before",
    ):
        train(sft, config(), tmp_path / "run", resume=True)
    shutil.rmtree(last)
    assert train(sft, config(log_every=1), tmp_path / "run", resume=True).step == 8


def test_a_loss_that_is_no_number(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stops in front of the update, names the rows that fail alone, and keeps what it had."""
    from mypt_train.training.objective import Objective

    real, poisoned = Objective.tell, 3
    train_set = corpus(open_data([sft]), "train")

    def tell(self: Any, model: Any, found: Any) -> Any:
        total, losses, right = real(self, model, found)
        bad = any(poisoned in row.tolist() for row in found.rows)
        return (total * float("nan") if bad else total), losses, right

    monkeypatch.setattr(Objective, "tell", tell)
    with pytest.raises(TrainError) as caught:
        train(sft, config(save_every=1, batch_rows=1, steps=40), tmp_path / "r")
    message = str(caught.value)
    row = next(row for row in train_set.rows() if poisoned in row.tolist())
    assert "has loss nan" in message
    assert all(train_set.place(n) in message for n in row.tolist())
    assert message.count("examples/phase") == len(row)
    kept = checkpoints(tmp_path / "r")
    assert not kept or str(kept[-1]) in message
    for folder in kept:
        assert all(np.isfinite(w).all() for w in weights(folder).values())


def test_weights_that_are_no_numbers_are_not_kept(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_train.training.trainer.rate", lambda step, _: float("nan"))
    with pytest.raises(
        CheckpointError,
        match=r"after step 1 \d+ weights are not finite.*there is no checkpoint yet",
    ):
        train(sft, config(save_every=1), tmp_path / "r")
    assert not checkpoints(tmp_path / "r")


def test_a_full_disk(sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(CheckpointError, match=r"checkpoints take .* MB, 0 MB are free"):
        train(sft, config(), tmp_path / "r")
    monkeypatch.undo()
    real, left = checkpoint.save_file, [2]

    def full(*args: Any, **more: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(*args, **more)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(
        CheckpointError,
        match=r"No space left.*the last checkpoint is .*step_000002. Free some space and go on with --resume",
    ):
        train(sft, config(save_every=2), tmp_path / "r2")
    assert [p.name for p in (tmp_path / "r2").glob("step*")] == ["step_000002"]
    monkeypatch.undo()
    train(sft, config(save_every=2), tmp_path / "r2", resume=True)
    train(sft, config(save_every=2), tmp_path / "whole")
    assert contents(tmp_path / "r2" / "step_000008") == contents(tmp_path / "whole" / "step_000008")


def test_a_step_without_a_trained_token(tmp_path: Path) -> None:
    lines = [native(f"Question {i} " + "word " * 80) for i in range(3)]
    sft = data(
        tmp_path / "sft",
        [write(tmp_path / "in.jsonl", *lines)],
        context_length=128,
        val_fraction=0.0,
    )
    path = sft / "train" / "shard_00000_mask.bin"
    mask = np.fromfile(path, np.uint8)
    mask[:128] = 0
    mask.tofile(path)
    manifest = json.loads((sft / "dataset_metadata.json").read_text())
    train_split = manifest["splits"]["train"]
    train_split["trained_tokens"] = train_split["shards"][0]["trained_tokens"] = int(mask.sum())
    (sft / "dataset_metadata.json").write_text(json.dumps(manifest))
    with pytest.raises(
        TrainError,
        match=r"step [123] has no trained token; there is no checkpoint yet. Its batch holds .*in.jsonl:\d\.",
    ):
        train(sft, config(batch_rows=1), tmp_path / "r", verify=False)


def test_legality_that_cannot_be_measured(sft: Path, tmp_path: Path) -> None:
    """Bad tools are refused before the first step.

    A budget that is too small costs the measurement, not the training.
    """
    with pytest.raises(
        ConfigError, match="tool 'f' at /type: the arguments of a tool are an object"
    ):
        train(
            sft,
            config(legality_every=0),
            tmp_path / "r",
            tools=[{"name": "f", "parameters": {"type": "string"}}],
        )
    assert not (tmp_path / "r").exists()
    report = train(sft, config(legality_every=0, legality_tokens=1, steps=1), tmp_path / "r")
    assert "the shortest legal ending" in report.legality["failed"]
    assert report.folder.exists()


def test_tensorboard_is_asked_for_and_missing(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r'pip install "mypt-tags\[tensorboard\]"'):
        train(sft, config(tensorboard=True), tmp_path / "r")


def test_the_command_says_what_is_wrong(
    sft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["--data", str(tmp_path / "no"), "--config", "tiny", "--out", str(tmp_path / "r")])
        == 2
    )
    assert "mypt-train: error:" in capsys.readouterr().err
    assert (
        main(
            [
                "--data",
                str(sft),
                "--config",
                "tiny",
                "--out",
                str(tmp_path / "r"),
                "--set",
                "train.batch_row=3",
            ]
        )
        == 2
    )
    assert "did you mean 'batch_rows'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "torchrun --nproc-per-node 2 -m mypt_train" in capsys.readouterr().out
