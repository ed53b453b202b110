"""Preferences: shards that keep pairs and labels, and the losses on them, each against its formula
on plain logits.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mypt.lint.cli import main as lint
from mypt.prepare.cli import main as prepare_command
from mypt_cli.jsonl.paths import expand
from mypt_train import Options, PrepareError, ShardReader, prepare
from mypt_train.data.formats.manifest import BAD, CHOSEN, GOOD, REJECTED, SFT
from tests.support import vocabulary
from tests.support.build import assistant, chat, contents, read, user, write
from tests.support.examples import examples
from tests.support.tolerance import assert_close, forward_terms, is_close, path_of, tensors_apart
from tests.support.training import SHAPE, config, log, processes, weights

pytestmark = pytest.mark.numeric

D = vocabulary.small("usf-omega")
PAIRS = [
    chat(user(f"Question {i}"), chosen=assistant(f"Good answer {i} " + "really " * i), rejected=assistant("Bad"))
    for i in range(6)
]  # fmt: skip
LABELS = [
    chat(user(f"Is {i} even?"), assistant="Yes" if i % 3 else "It is, of course", label=bool(i % 2))
    for i in range(6)
]
# Alike but for the answer that is rejected, or for the label.
TWINS = [
    PAIRS[0] | {"rejected": assistant("Worse")}, LABELS[0] | {"label": not LABELS[0]["label"]},
]  # fmt: skip
PLAIN = chat()


def ids_of(record: dict[str, Any]) -> list[int]:
    episode, _ = D.read(record)
    assert episode is not None
    return [int(i) for i in D.encode(episode).ids]


def swapped(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a pair with the answers in the places of each other."""
    return record | {"chosen": record["rejected"], "rejected": record["chosen"]}


def kinds_of(record: dict[str, Any]) -> tuple[int, ...]:
    if "chosen" in record:
        return CHOSEN, REJECTED
    return ({None: SFT, True: GOOD, False: BAD}[record.get("label")],)


def prepared(folder: Path, *records: Any, **options: Any) -> Path:
    """Prepares records as preferences, and returns the folder of the data set."""
    usual = {"dialect": D.name, "vocabulary": str(vocabulary.path()), "context_length": 256}
    path = write(folder / "in.jsonl", *records)
    prepare(expand([path]), folder / "out", Options(**usual | {"preferences": True} | options))
    return folder / "out"


@settings(max_examples=examples(15))
@given(
    st.lists(st.sampled_from([*PAIRS, *LABELS, *TWINS, PLAIN]), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.5]), st.booleans(), st.booleans(),
)  # fmt: skip
@example([PAIRS[0], LABELS[0], *TWINS, *TWINS], 0.5, True, True)
def test_pairs_and_labels_are_kept(
    records: list[dict[str, Any]], val: float, dedup: bool, pack: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chosen = {"val_fraction": val, "dedup": dedup, "pack": pack, "tokens_per_shard": 256}
        out = prepared(Path(folder), *records, **chosen)
        reader = ShardReader(out, verify=True)
        written: list[tuple[int, int]] = []
        for split in ("train", "val"):
            pairs: dict[int, dict[int, int]] = {}
            for shard in reader.shards(split):
                assert shard.kinds is not None
                rows = zip(shard.episodes(), shard.kinds, shard.index, strict=True)
                for (ids, _), entry, where in rows:
                    line, kind, pair = int(where["line"]), int(entry["kind"]), int(entry["pair"])
                    record = records[line - 1]
                    assert (pair > 0) == (kind in (CHOSEN, REJECTED))
                    assert ids.tolist() == ids_of(swapped(record) if kind == REJECTED else record)
                    if pair:
                        pairs.setdefault(pair, {})[kind] = line
                    written.append((line, kind))
            for pair in pairs.values():
                assert set(pair) == {CHOSEN, REJECTED}, "both in one split"
                assert pair[CHOSEN] == pair[REJECTED]
        expected = [
            (number, kind)
            for number, record in enumerate(records, 1)
            if not dedup or record not in records[: number - 1]
            for kind in kinds_of(record)
        ]
        assert sorted(written) == sorted(expected)
        assert lint(["-q", str(out)]) == 0


def test_without_the_option_it_is_data_for_sft(tmp_path: Path) -> None:
    plain = prepared(tmp_path / "a", *PAIRS, preferences=False)
    answers = [{"messages": [*pair["messages"], pair["chosen"]]} for pair in PAIRS]
    same = prepared(tmp_path / "b", *answers, preferences=False)
    for name, data in contents(plain).items():
        assert name == "dataset_metadata.json" or contents(same)[name] == data
    (shard,) = ShardReader(plain).shards("train")
    assert shard.kinds is None


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = r"records of mypt hold no preferences: .* or use --dialect usf-omega"
    with pytest.raises(PrepareError, match=named):
        prepared(tmp_path / "a", {}, dialect="mypt")
    words = ["--dialect", "usf-omega", "--preferences", "--format", "parquet"]
    path = write(tmp_path / "in.jsonl", *PAIRS)
    assert prepare_command([path, *words, "--out", str(tmp_path / "x")]) == 2
    assert "no place for preferences" in capsys.readouterr().err
    long = PAIRS[0] | {"rejected": assistant("Bad " * 200)}
    for how, status in (("error", "refused"), ("split-turns", "refused"), ("drop", "long")):
        out = prepared(tmp_path / how, long, PAIRS[1], long=how, on_error="reject")
        (reject,) = read(out / "rejects.jsonl")
        assert (reject["status"], reject["findings"][0]["code"]) == (status, "MYP502")
        (shard,) = ShardReader(out).shards("train")
        assert len(shard.index) == 2


# The losses.

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from mypt_model.llama import random_transformer  # noqa: E402
from mypt_model.shape import LlamaConfig  # noqa: E402
from mypt_train.training.batches import batch  # noqa: E402
from mypt_train.training.corpus import Corpus, corpus, open_data  # noqa: E402
from mypt_train.training.objective import Objective, dpo, kto, orpo  # noqa: E402
from mypt_train.training.parts.attention import attend  # noqa: E402
from mypt_train.training.parts.config import Config  # noqa: E402
from mypt_train.training.parts.distributed import World  # noqa: E402
from mypt_train.training.trainer import CheckpointError, TrainError, train  # noqa: E402


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("set"), *PAIRS, *LABELS, PLAIN)


def likelihoods(model: Any, corpus: Corpus, number: int) -> list[float]:
    """Returns that of each trained token of an episode alone, as a logarithm, from whole logits."""
    ids, mask = (torch.tensor(a.astype(np.int64)) for a in corpus.tokens(number))
    at = torch.arange(len(ids))[None]
    attention = attend("mask", [[len(ids)]], len(ids), torch.device("cpu"))
    with torch.no_grad():
        logits = model(ids[None], at, attention, at[0], F.linear)
    chosen = torch.log_softmax(logits[:-1].double(), -1).gather(1, ids[1:, None])[:, 0]
    return [float(v) for v in chosen[mask[1:] == 1]]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_formula(
    objective: str, beta: float, model: Any, frozen: Any, corpus: Corpus
) -> tuple[float, float]:
    """Returns the mean loss over all pairs or answers, and the size of the log-likelihoods in it."""
    kinds, pairs = corpus.episodes["kind"], corpus.episodes["pair"]
    read = (GOOD, BAD) if objective == "kto" else (CHOSEN, REJECTED)
    some = np.flatnonzero(np.isin(kinds, read)).tolist()
    policy, reference = ({n: likelihoods(net, corpus, n) for n in some} for net in (model, frozen))
    gain = {n: sum(policy[n]) - sum(reference[n]) for n in policy}
    losses, size = [], max(abs(sum(each)) for each in policy.values())
    if objective == "kto":
        drift = max(0.0, sum(gain.values()) / len(gain))
        losses = [
            1 - sigmoid(beta * (gain[n] - drift) * (1 if kinds[n] == GOOD else -1)) for n in some
        ]
        return sum(losses) / len(losses), size
    for pair in sorted(set(pairs[pairs > 0].tolist())):
        (good,), (bad,) = (
            np.flatnonzero((pairs == pair) & (kinds == kind)).tolist()
            for kind in (CHOSEN, REJECTED)
        )
        if objective == "dpo":
            losses.append(-math.log(sigmoid(beta * (gain[good] - gain[bad]))))
        else:
            means = [sum(policy[n]) / len(policy[n]) for n in (good, bad)]
            odds = [math.log(math.exp(m) / (1 - math.exp(m))) for m in means]
            losses.append(-means[0] - beta * math.log(sigmoid(odds[0] - odds[1])))
    return sum(losses) / len(losses), size


ANSWER = 16  # the tokens of an answer, which a log-likelihood sums


@pytest.mark.parametrize("name", ["dpo", "orpo", "kto"])
def test_losses_are_their_formulas_however_a_step_is_cut(name: str, data: Path) -> None:
    some = corpus(open_data([data]), "train")
    c = Config.load({"model": SHAPE, "train": {"objective": name, "beta": 0.7}}).train
    shape = LlamaConfig(vocab_size=D.tokenizer.vocab_size, **SHAPE)
    rows = some.rows(kinds=(GOOD, BAD)) if name == "kto" else some.pairs()
    model, frozen = random_transformer(shape, 1), random_transformer(shape, 2).requires_grad_(False)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.5)
    objective = Objective(c, some, World(0, 1, torch.device("cpu")), frozen)
    gradients = []
    for micro in (1, len(rows)):
        batches = [batch(some, rows[i : i + micro]) for i in range(0, len(rows), micro)]
        model.zero_grad()
        loss = objective.step(model, batches, objective.count(batches))
        formula, size = by_formula(name, 0.7, model, frozen, some)
        assert_close(loss, formula, terms=ANSWER, scale=size)
        other, _ = by_formula(name, 1.0, model, frozen, some)
        assert not is_close(loss, other, terms=ANSWER, scale=size), "another beta"
        gradients.append([weight.grad.clone() for weight in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        # It is a multiple of a function of beta times a difference of log-likelihoods.
        limit = {"terms": ANSWER, "scale": 0.7 * size * float(other.abs().max())}
        assert_close(one, other, **limit)
        assert not is_close(0.999 * one, other, **limit), "another divisor"
    assert max(float(g.abs().max()) for g in gradients[0]) > 1e-3


@pytest.mark.parametrize("name", ["dpo", "orpo", "kto"])
def test_gradients_of_losses(name: str) -> None:
    """Against finite differences."""
    policy = torch.tensor([-3.0, -4.0, -2.0, -9.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-3.5, -3.0, -2.0, -8.0], dtype=torch.float64)
    lengths, good = torch.tensor([3, 4, 2, 5]), torch.tensor([True, False] * 2)
    drift = torch.tensor(0.1)
    losses = {
        "dpo": lambda p: dpo(p, reference, beta=0.3),
        "orpo": lambda p: orpo(p, lengths, beta=0.3),
        "kto": lambda p: kto(p, reference, good, drift, beta=0.3),
    }
    assert torch.autograd.gradcheck(losses[name], (policy,))


@pytest.mark.parametrize("name", ["dpo", "orpo", "kto"])
def test_training_prefers_what_is_chosen(name: str, data: Path, tmp_path: Path) -> None:
    val = prepared(tmp_path / "val", *PAIRS, *LABELS, val_fraction=1.0)
    chosen = config(objective=name, beta=1.0, steps=6, log_every=1, lr=0.003, val_every=3)
    train([data, val], chosen, tmp_path / "r")
    judged = [entry["loss"] for entry in log(tmp_path / "r") if entry["event"] == "validation"]
    assert judged[1] < judged[0]
    losses = [entry["loss"] for entry in log(tmp_path / "r") if entry["event"] == "step"]
    assert losses[-1] < losses[0]


def test_a_run_goes_on_with_the_reference_that_it_began_with(data: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        train(data, config(steps=2, seed=seed), tmp_path / f"sft{seed}")
    dpo = config(objective="dpo", steps=4, save_every=2)
    train(data, dpo, tmp_path / "whole", init_from=tmp_path / "sft1")
    train(data, dpo, tmp_path / "r", init_from=tmp_path / "sft1", steps=2)
    train(data, dpo, tmp_path / "r", resume=True)
    for name in ("model", "optimizer"):
        files = [tmp_path / run / "step_000004" / f"{name}.safetensors" for run in ("whole", "r")]
        assert files[0].read_bytes() == files[1].read_bytes()
    shutil.rmtree(tmp_path / "r" / "step_000004")
    other = tmp_path / "sft1" / "step_000002" / "model.safetensors"
    other.write_bytes((tmp_path / "sft2" / "step_000002" / "model.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="is no longer the reference"):
        train(data, dpo, tmp_path / "r", resume=True)


def test_a_run_that_began_with_drawn_weights_keeps_them_as_reference(
    data: Path, tmp_path: Path
) -> None:
    dpo = config(objective="dpo", steps=4)
    train(data, dpo, tmp_path / "whole")
    train(data, dpo, tmp_path / "r", steps=2)
    train(data, dpo, tmp_path / "r", resume=True)
    files = [tmp_path / run / "step_000004" / "model.safetensors" for run in ("whole", "r")]
    assert files[0].read_bytes() == files[1].read_bytes()


# Only the first process makes the whole model, and the whole reference.
SHARED = """
import os, sys
from mypt.train import main
from mypt_train.training import begin
from mypt_train.training.parts import checkpoint

def refused(*given, **more):
    raise AssertionError("this process makes the whole model")

if os.environ["RANK"] == "1":
    begin.random_transformer = checkpoint.open_model = refused
sys.exit(main(sys.argv[1:]))
"""


def test_processes_share_the_reference(data: Path, tmp_path: Path) -> None:
    kto = config(objective="kto", beta=1.0, steps=2)
    base = train(data, config(steps=1), tmp_path / "sft").folder
    one = train(data, kto, tmp_path / "one", init_from=base).folder
    chosen = write(tmp_path / "c.json", kto)
    words = ["--data", str(data), "--config", chosen, "--init-from", str(base)]
    words += ["--set", "train.parallel=fsdp", "--out", str(tmp_path / "two"), "-q"]
    for done in processes(["-c", SHARED, *words], 2):
        assert done.returncode == 0, done.stderr
    mine, theirs = weights(tmp_path / "two" / "step_000002"), weights(one)
    terms = forward_terms(SHAPE, 512)
    assert tensors_apart(mine, theirs, terms=terms, path=path_of(kto)) == []


def test_sft_on_preferences_leaves_out_bad_answers(data: Path, tmp_path: Path) -> None:
    some = corpus(open_data([data]), "train")
    kinds = {int(some.episodes["kind"][n]) for row in some.rows() for n in row.tolist()}
    assert kinds == {SFT, CHOSEN, GOOD}
    plain = prepared(tmp_path / "plain", PLAIN)
    for name, what in (("dpo", "pairs"), ("kto", "labels")):
        with pytest.raises(TrainError, match=f"the data has no {what} to train on"):
            train(plain, config(objective=name), tmp_path / "r")
