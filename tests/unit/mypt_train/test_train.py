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
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support import forks
from tests.support.build import contents, native, write
from tests.support.children import default_signals
from tests.support.examples import either
from tests.support.shards import PHASES, ROOT, manifest_of
from tests.support.tolerance import assert_close, forward_terms, is_close
from tests.support.training import SHAPE, config, data, log, small_data, weights
from tests.support.vocabulary import SIZE, small

torch = pytest.importorskip("torch")
from mypt.legality import legality  # noqa: E402
from mypt.train import main  # noqa: E402
from mypt_cli.progress import Bar  # noqa: E402
from mypt_infer.generate.llama import load  # noqa: E402
from mypt_infer.generate.strange import SHARE  # noqa: E402
from mypt_model.folder import checkpoints  # noqa: E402
from mypt_train.training.corpus import corpus, open_data  # noqa: E402
from mypt_train.training.objective import Objective  # noqa: E402
from mypt_train.training.parts import checkpoint, interrupt  # noqa: E402
from mypt_train.training.parts.config import Config, ConfigError, configs_folder  # noqa: E402
from mypt_train.training.parts.distributed import ALONE  # noqa: E402
from mypt_train.training.trainer import CheckpointError, ShardError, TrainError, train  # noqa: E402

pytestmark = pytest.mark.numeric

LAST = "step_000008"
# Both trace the layers; the second traces their gradients, too.
COMPILER = either("eager", "aot_eager")


@pytest.fixture(scope="module")
def sft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("set") / "sft")


@pytest.fixture(scope="module")
def run(sft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of 8 steps."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    few = {"legality_every": 0, "legality_prompts": 3, "legality_tokens": 60}
    chosen = config(save_every=4, val_every=4, log_every=1, **few)
    report = train(sft, chosen, out, legality=legality())
    assert report.folder == out / LAST
    return out


def weights_and_state(folder: Path) -> dict[str, bytes]:
    """Returns the files of a checkpoint but the one that has times."""
    return {name: data for name, data in contents(folder).items() if name != "trainer.json"}


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in log(folder) if entry["event"] == kind]


def test_it_learns_and_tells(run: Path) -> None:
    steps, validation = events(run, "step"), events(run, "validation")[-1]
    assert [entry["step"] for entry in steps] == list(range(1, 9))
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.1
    tags, total = validation["tags"], validation["tokens"]
    assert total == sum(tag["tokens"] for tag in tags.values())
    assert total == sum(phase["tokens"] for phase in validation["phases"].values())
    by_tag = sum(tag["loss"] * tag["tokens"] for tag in tags.values()) / total
    assert_close(validation["loss"], by_tag, terms=total, dtype=np.float32)
    assert {"text", "<myPT_eot>", "<myPT_assistant>"} <= set(tags)
    measured = log(run)[-1]
    assert measured["event"] == "legality"
    assert measured["constrained"]["legal"] == 1.0
    assert 0 <= measured["constrained"]["refused_mass"] <= 1
    assert "strange" in measured["warning"] or measured["constrained"]["refused_mass"] <= SHARE
    free = measured["unconstrained"]
    assert free["legal"] + sum(free["reasons"].values()) / measured["prompts"] == 1.0
    assert [p.name for p in checkpoints(run)] == ["step_000004", LAST]


def test_validation_is_the_loss_of_each_episode_alone(run: Path, sft: Path) -> None:
    """Against logits of the model that generates, one episode at a time."""
    model, val = load(run), corpus(open_data([sft]), "val")
    total, count = 0.0, 0
    for number in range(len(val.episodes)):
        ids, mask = val.tokens(number)
        ids, at = torch.tensor(ids.astype(np.int64)), torch.arange(len(ids))
        with torch.no_grad():
            logits = model.net(ids[None], at[None], _causal, at, torch.nn.functional.linear)
        losses = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
        total += float(losses[torch.tensor(mask[1:] == 1)].sum())
        count += int(mask.sum())
    validation = events(run, "validation")[-1]
    assert validation["tokens"] == count
    terms = forward_terms(SHAPE, 512)
    assert_close(validation["loss"], total / count, terms=terms, dtype=np.float32)


def _causal(_: int, q: Any, k: Any, v: Any) -> Any:
    repeat = q.shape[1] // k.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(
        q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1), is_causal=True
    )


def test_resuming_is_exact(run: Path, sft: Path, tmp_path: Path) -> None:
    chosen, out = config(save_every=4, val_every=4, legality_every=-1, log_every=1), tmp_path / "r"
    train(sft, chosen, out, steps=3)
    with (out / "log.jsonl").open("a") as file:
        # Of a run that was killed behind its checkpoint.
        file.write('{"event": "step", "step": 4}\n{"event": "st')
    train(sft, chosen, out, resume=True)
    assert weights_and_state(out / LAST) == weights_and_state(run / LAST)
    assert [entry["step"] for entry in events(out, "step")] == list(range(1, 9))
    assert train(sft, chosen, out, resume=True).step == 8, "there is nothing left to do"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_saves_its_step(
    run: Path, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Once, or twice within a second; later it ends at once. With patience, the first time."""
    real, calls, times = Objective.step, [0], [1 if name == "SIGINT" else 2]

    def step(*arguments: Any) -> Any:
        calls[0] += 1
        for _ in range(times[0] if calls[0] == 3 else 0):
            signal.raise_signal(getattr(signal, name))
        return real(*arguments)

    monkeypatch.setattr(Objective, "step", step)
    if name == "SIGINT":  # at once, the second time
        monkeypatch.setattr(interrupt, "_SAME", -1)
    chosen, out = config(save_every=4, val_every=4, legality_every=-1, log_every=1), tmp_path / "r"
    with default_signals():
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            train(sft, chosen, out)
        assert "once more to end at once" in capfd.readouterr().err
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
        assert [path.name for path in checkpoints(out)] == ["step_000003"]
        train(sft, chosen, out, resume=True)
        assert weights_and_state(out / LAST) == weights_and_state(run / LAST)
        for times[0], patience in ((2, 0), (1, 1)) if name == "SIGINT" else ():
            calls[0], ended = 0, tmp_path / f"patience {patience}"
            with pytest.raises(KeyboardInterrupt):
                train(sft, config(patience=patience, val_every=4), ended)
            assert not checkpoints(ended)


def test_an_interrupt_that_ends_other_processes_too(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a terminal ends the `tee` that reads what is printed, and the compiler."""

    def gone(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(interrupt, "os", SimpleNamespace(write=gone))
    monkeypatch.setattr(Bar, "print", lambda *_: signal.raise_signal(signal.SIGINT) or gone())
    with default_signals(), pytest.raises(KeyboardInterrupt):
        train(sft, config(legality_every=-1, val_every=-1), tmp_path, quiet=False)
    assert [path.name for path in checkpoints(tmp_path)] == ["step_000001"]
    failed = type("InductorError", (RuntimeError,), {"__module__": "torch._inductor.exc"})()
    with default_signals(), interrupt.Interrupt(enabled=True, first=False) as asked:
        assert not asked.on_any(ALONE)
        signal.raise_signal(signal.SIGINT)
        assert asked.on_any(ALONE)
        with pytest.raises(KeyboardInterrupt):
            asked.__exit__(None, failed, None)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupt.Interrupt(enabled=True, first=False):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# Trains, and is killed when it has written the first file of its third checkpoint.
KILLED = """
import os, signal, sys
from mypt.train import main
from mypt_train.training.parts import checkpoint
real, left = checkpoint.save_file, [5]

def save_file(*args, **more):
    real(*args, **more)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.save_file = save_file
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_run_goes_on_to_the_same_bytes(
    run: Path, sft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that has all its steps has nothing to do, and says so."""
    out = tmp_path / "r"
    chosen = config(save_every=1, val_every=4, legality_every=-1, log_every=1)
    words = ["--config", write(tmp_path / "c.json", chosen), "--out", str(out), "-q"]
    words = ["--data", str(sft), *words]
    (end,) = forks.run([(["-c", KILLED, *words], dict(os.environ))])
    assert end.returncode == -signal.SIGKILL, end.stderr
    assert [path.name for path in checkpoints(out)] == ["step_000001", "step_000002"]
    (part,) = out.glob("*.part")
    assert [path.name for path in part.iterdir()] == ["model.safetensors"]
    assert main([*words, "--resume"]) == 0
    assert weights_and_state(out / LAST) == weights_and_state(run / LAST)
    assert not [*out.glob("*.part")]
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out)["loss"], "no step is left" in said.err) == (None, True)


def test_others_read_the_checkpoint(run: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(
        run / LAST, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    mine = load(run)
    ids = torch.randint(0, 400, (2, 30), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = theirs.eval()(ids).logits[:, -1]
    ours = mine(ids, torch.tensor([30, 30]), mine.begin(2, 30))
    assert_close(ours, logits, terms=forward_terms(SHAPE, 30))


def test_no_file_is_pickled() -> None:
    modules = [
        p for name in ("mypt", "mypt_train", "mypt_model") for p in (ROOT / name).rglob("*.py")
    ]
    for path in modules:
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        names = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        assert not names & {"pickle", "torch.serialization", "cloudpickle", "dill", "joblib"}, path
        functions = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        assert not {"torch.save", "torch.load"} & functions, path


def test_beginning_from_a_model(run: Path, sft: Path, tmp_path: Path) -> None:
    """Weights are taken over; new ids get embeddings; tags may begin as words."""
    from safetensors.torch import save_file

    tokenizer, name = small("mypt").tokenizer, "model.embed_tokens.weight"
    base = {k: torch.tensor(v) for k, v in weights(run / LAST).items()}
    folder = tmp_path / "base"
    shape = json.loads((run / LAST / "config.json").read_text()) | {"vocab_size": SIZE}
    write(folder / "config.json", shape)
    save_file(base | {name: base[name][:SIZE].clone()}, folder / "model.safetensors")
    words = {"<myPT_user>": " user", "<myPT_eot>": " end"}
    chosen = config(lr=1e-9, steps=1, weight_decay=0.0, tag_words=words)
    train(sft, chosen, tmp_path / "r", init_from=folder)
    embedding = weights(tmp_path / "r" / "step_000001")[name]
    assert_close(embedding[:SIZE], base[name][:SIZE], terms=1)
    for tag, word in words.items():
        mean = base[name][tokenizer.encode(word)].mean(0)
        assert_close(embedding[tokenizer.special[tag]], mean, terms=4)
    assert log(tmp_path / "r")[0]["fresh_ids"] == tokenizer.vocab_size - SIZE
    with pytest.raises(ConfigError, match=r"'<user>' is not a tag of mypt"):
        train(sft, config(tag_words={"<user>": "x"}), tmp_path / "x")
    wide = {"model": SHAPE | {"hidden_size": 32}, "train": {"steps": 1}}
    with pytest.raises(CheckpointError, match="hidden_size is 16, the config has 32"):
        train(sft, wide, tmp_path / "x", init_from=run)


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in events(folder, "step")]


@pytest.mark.parametrize(
    "change", [{"dtype": "bfloat16"}, {"attention": "mask"}, {"micro_rows": 2}]
)
def test_other_ways_to_the_same_place(
    change: dict[str, Any], run: Path, sft: Path, tmp_path: Path
) -> None:
    """In bfloat16 about, by another kernel or in larger pieces nearly."""
    train(sft, config(log_every=1, **change), tmp_path / "r")
    mine, theirs = losses(tmp_path / "r"), losses(run)
    allowed: dict[str, Any] = {"terms": forward_terms(SHAPE, 512), "dtype": np.float32}
    if "dtype" in change:  # logits of about 1 are rounded some 20 times, and a step has 100 or more
        allowed = {"terms": 20 / 100, "scale": 1.0, "dtype": torch.bfloat16}
    assert_close(mine, theirs, **allowed)
    assert not is_close(mine[1:], theirs[:-1], **allowed), "a step lost"
    assert change != {"dtype": "bfloat16"} or mine != theirs


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at all
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")
def test_compiled(run: Path, sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same losses, and the same weights where a run is resumed without it."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=COMPILER))
    chosen = config(log_every=1, compile=True, recompute=True)
    torch._dynamo.utils.counters.clear()
    train(sft, chosen, tmp_path / "r", steps=6)
    assert 0 < torch._dynamo.utils.counters["stats"]["unique_graphs"] < 6, "not one for each batch"
    train(sft, config(log_every=1), tmp_path / "r", resume=True)
    mine, theirs = losses(tmp_path / "r"), losses(run)
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
    chosen = ["--config", write(tmp_path / "c.json", config(steps=5))]

    def phases_of(folder: Path, name: str) -> list[int]:
        words = ["--data", str(folder), *chosen, "--out", str(tmp_path / name), "--phases", "1-5"]
        assert main([*words, "-q"]) == 0
        assert json.loads(capsys.readouterr().out)["step"] == 5
        facts = json.loads((tmp_path / name / "step_000005" / "trainer.json").read_text())
        return list(facts["phases"])

    assert phases_of(sft, "r") == [1, 3, 4, 5]
    assert "phase 2: no tag distinguishes it" in log(tmp_path / "r")[0]["notes"][0]
    for i, path in enumerate(PHASES, 1):
        apart = {"phase": i, "val_fraction": 0.0, "context_length": 400 + i}
        data(tmp_path / "all" / f"phase{i}", [path], **apart)
    assert phases_of(tmp_path / "all", "r2") == [1, 2, 3, 4, 5]
    for phases, says in (
        ("1-7", "no episodes of phase 6.*it has 1, 3, 4, 5"),
        ("x", "expected phases as"),
        ("1,1", "one twice"),
    ):
        words = ["--data", str(sft), *chosen, "--out", str(tmp_path / "x"), "--phases", phases]
        assert main([*words, "--set", "train.steps=9"]) == 2
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
            Config.load(tmp_path / "c.json")
    (tmp_path / "c.json").write_text("{")
    sources = {"is not JSON": tmp_path / "c.json", "cannot read": tmp_path / "no.json"}
    sources |= {"did you mean 'tiny'": "tinny", "expected an object": []}
    for says, source in sources.items():
        with pytest.raises(ConfigError, match=says):
            Config.load(source)  # type: ignore[arg-type]
    for text, says in (
        ("train.lr", "expected train.KEY=VALUE"),
        ("train.lrr=1", "did you mean 'lr'"),
        ("other.x=1", "expected train.KEY"),
    ):
        with pytest.raises(ConfigError, match=says):
            Config.load("tiny").set([text])
    assert Config.load("tiny").set(["train.lr=0.5", "train.schedule=wsd"]).train.schedule == "wsd"
    rates = Config.load({"model": SHAPE, "train": {"lr": 1, "final_lr": 0}}).as_dict()["train"]
    assert json.dumps([rates["lr"], rates["final_lr"]]) == "[1, 0]", "as in the config"


@pytest.mark.parametrize("path", sorted(configs_folder().glob("*.json")), ids=lambda p: p.stem)
def test_the_configs_that_come_with_the_package(path: Path) -> None:
    from mypt_model.llama import shapes

    if not Config.load(path.stem).model:
        return  # begins with the model of --init-from
    shape = Config.load(path.stem).shape(50304)
    size = sum(int(np.prod(s)) for s in shapes(shape).values())
    millions = {"tiny": (7, 8), "small": (15, 20), "medium": (45, 60), "toolchat_150M": (145, 155)}
    low, high = millions[path.stem]
    assert low * 1e6 < size < high * 1e6


def test_data_that_cannot_be_trained_on(sft: Path, run: Path, tmp_path: Path) -> None:
    def refuse(says: str, folder: Path, out: Path = tmp_path / "r", **more: Any) -> None:
        with pytest.raises((ShardError, TrainError, ConfigError), match=says):
            train(folder, config(), out, **more)

    bad = Path(shutil.copytree(sft, tmp_path / "bad"))
    shard = bad / "train" / "shard_00000.bin"
    raw = bytearray(shard.read_bytes())
    raw[10] ^= 1
    shard.write_bytes(raw)
    refuse(r"shard_00000.bin: was altered \(SHA-256", bad)
    shard.write_bytes(raw[:-2])
    refuse("bytes, expected", bad)
    manifest = manifest_of(sft)
    masked = json.loads(json.dumps(manifest["splits"]))
    masked["train"]["trained_tokens"] = 0
    installed = small("mypt").fingerprint[:12]
    for change, says in (
        ({"spec_fingerprint": "abc" * 22}, f"another grammar of mypt .*cabc, installed is {installed}"),
        ({"vocab_size": 50262}, r"vocab_size is 50262, mypt has 448"),
        ({"splits": masked}, "no token of the data is a target"),
    ):  # fmt: skip
        folder = Path(shutil.copytree(sft, tmp_path / next(iter(change))))
        write(folder / "dataset_metadata.json", manifest | change)
        refuse(says, folder)
    assert not (tmp_path / "r").exists(), "nothing was written"
    refuse("is not empty, and holds no checkpoint", sft, tmp_path)
    refuse("holds step_000008 of an earlier run; go on with --resume", sft, run)
    refuse("the schedule of the config has 8 steps", sft, steps=9)


def test_a_checkpoint_of_something_else(run: Path, sft: Path, tmp_path: Path) -> None:
    def refuse(says: str, folder: Path = sft, out: Path = run, **more: Any) -> None:
        options = {"resume": True} if "init_from" not in more else {}
        with pytest.raises(CheckpointError, match=says):
            train(folder, config(**more.pop("train", {})), out, **options, **more)

    refuse("was trained on other data", small_data(tmp_path / "other", seed=5))
    refuse("train.lr was 0.01, now it is 0.5; resume with the same config", train={"lr": 0.5})
    refuse("the phases were", phases=[1, 3])
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    facts = json.loads((copy / LAST / "trainer.json").read_text())
    installed = facts["data"]["spec_fingerprint"]
    facts["data"]["spec_fingerprint"] = "f" * 64
    write(copy / LAST / "trainer.json", facts)
    says = f"another grammar .ffffffffffff, the data has {installed[:12]}"
    refuse(says, out=copy)
    refuse(says, out=tmp_path / "x", init_from=copy / LAST)
    (copy / LAST / "model.safetensors").write_bytes(b"x")
    refuse(
        r"model.safetensors: is missing or was altered; delete .* to go on from the checkpoint before",
        out=copy,
    )
    shutil.rmtree(copy / LAST)
    assert train(sft, config(log_every=1), copy, resume=True).step == 8


def test_a_loss_that_is_no_number(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stops in front of the update, names the rows that fail alone, and keeps what it had."""
    real, poisoned = Objective.token_losses, 3
    train_set = corpus(open_data([sft]), "train")

    def token_losses(self: Any, model: Any, batch: Any) -> Any:
        total, losses, right = real(self, model, batch)
        bad = any(poisoned in row.tolist() for row in batch.rows)
        return (total * float("nan") if bad else total), losses, right

    monkeypatch.setattr(Objective, "token_losses", token_losses)
    with pytest.raises(TrainError) as caught:
        train(sft, config(save_every=1, batch_rows=1, steps=40), tmp_path / "r")
    message = str(caught.value)
    row = next(row for row in train_set.rows() if poisoned in row.tolist())
    assert "has loss nan" in message
    assert all(train_set.place(n) in message for n in row.tolist())
    assert message.count("examples/phase") == len(row)
    folders = checkpoints(tmp_path / "r")
    assert not folders or str(folders[-1]) in message
    for folder in folders:
        assert all(np.isfinite(w).all() for w in weights(folder).values())


def test_weights_that_are_no_numbers_are_not_kept(
    sft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mypt_train.training.trainer.rate", lambda step, _: float("nan"))
    says = r"after step 1 \d+ weights are not finite.*there is no checkpoint yet"
    with pytest.raises(CheckpointError, match=says):
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
    says = "No space left.*the last checkpoint is .*step_000002. Free some space and go on with --resume"
    with pytest.raises(CheckpointError, match=says):
        train(sft, config(save_every=2), tmp_path / "r2")
    assert [p.name for p in (tmp_path / "r2").glob("step*")] == ["step_000002"]
    monkeypatch.undo()
    train(sft, config(save_every=2), tmp_path / "r2", resume=True)
    train(sft, config(save_every=2), tmp_path / "whole")
    mine, theirs = (weights_and_state(tmp_path / name / LAST) for name in ("r2", "whole"))
    assert mine == theirs


def test_a_step_without_a_trained_token(tmp_path: Path) -> None:
    long = [native(f"Question {i} " + "word " * 80) for i in range(3)]
    path = write(tmp_path / "in.jsonl", *long)
    sft = data(tmp_path / "sft", [path], context_length=128, val_fraction=0.0)
    path = sft / "train" / "shard_00000_mask.bin"
    mask = np.fromfile(path, np.uint8)
    mask[:128] = 0
    mask.tofile(path)
    manifest = manifest_of(sft)
    split = manifest["splits"]["train"]
    split["trained_tokens"] = split["shards"][0]["trained_tokens"] = int(mask.sum())
    write(sft / "dataset_metadata.json", manifest)
    says = r"step [123] has no trained token; there is no checkpoint yet. Its batch holds .*in.jsonl:\d\."
    with pytest.raises(TrainError, match=says):
        train(sft, config(batch_rows=1), tmp_path / "r", verify=False)


def test_legality_that_cannot_be_measured(sft: Path, tmp_path: Path) -> None:
    """Bad tools are refused before the first step.

    A budget that is too small costs the measurement, not the training.
    """
    tools = [{"name": "f", "parameters": {"type": "string"}}]
    says = "tool 'f' at /type: the arguments of a tool are an object"
    with pytest.raises(ConfigError, match=says):
        legality(tools)
    few = config(legality_every=0, legality_tokens=1, steps=1)
    report = train(sft, few, tmp_path / "r", legality=legality())
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
    words = ["--config", "tiny", "--out", str(tmp_path / "r")]
    assert main(["--data", str(tmp_path / "no"), *words]) == 2
    assert "mypt-train: error:" in capsys.readouterr().err
    assert main(["--data", str(sft), *words, "--set", "train.batch_row=3"]) == 2
    assert "did you mean 'batch_rows'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "torchrun --nproc-per-node 2 -m mypt.train" in capsys.readouterr().out
