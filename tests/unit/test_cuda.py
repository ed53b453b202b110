"""What runs on a GPU says there what it says on the CPU: masks, steps, attention, training."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.support.decoding import decoder, generated, next_tokens, prompt
from tests.support.dialects import DIALECTS
from tests.support.tolerance import is_close
from tests.support.training import SHAPE, config, processes, small_data

torch = pytest.importorskip("torch")
from mypt_infer.generate.device import Masks  # noqa: E402
from mypt_infer.generate.generate import generate  # noqa: E402
from mypt_train.training.parts.attention import attend  # noqa: E402
from mypt_train.training.trainer import train  # noqa: E402
from tests.support.tiny_models import tiny  # noqa: E402

pytestmark = [
    pytest.mark.numeric,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    # Of torch itself, where it first compiles.
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]
CUDA = "cuda"


@pytest.mark.parametrize("engine", ["table", "llguidance"])
@pytest.mark.parametrize("name", DIALECTS)
def test_masks_are_those_of_the_cpu(name: str, engine: str) -> None:
    if engine == "llguidance":
        pytest.importorskip("llguidance")
    made = decoder(name, think=20, call=90, engine=engine)
    masks, choose = Masks(CUDA), random.Random(name)
    first = made.start(prompt(name), max_new_tokens=200)
    walks = [generated(made, first, choose, bold=0.6) for _ in range(4)]
    states = torch.full((4,), first)
    for _ in range(30):
        bias = made.bias(states.tolist())
        for kind in (torch.float32, torch.bfloat16):
            logits = torch.zeros(4, made.tables.vocabulary, device=CUDA, dtype=kind)
            for row, allow_set in zip(logits, made.allow_each(states.tolist()), strict=True):
                masks.mask(row, allow_set)
            assert (logits.float().cpu().numpy() == bias).all()
        tokens = next_tokens(made, walks, states, first, choose)
        states = torch.from_numpy(made.step(states.tolist(), tokens))


@pytest.mark.parametrize("name", DIALECTS)
def test_answers_are_legal(name: str) -> None:
    made = decoder(name, think=20, call=90)
    model = tiny(made.tables.vocabulary).to(CUDA)
    for answer in generate(
        model, [prompt(name)] * 6, decoder=made, max_new_tokens=150, seed=1, device=CUDA
    ):
        assert answer.ended in ("turn", "call")
        _, findings = answer.episode
        assert {f.code for f in findings} <= {"MYP216"}  # a result has to come, or a turn


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_attention_of_all_backends_is_one(kind: torch.dtype) -> None:
    lengths, width = [[8, 40, 70], [118]], 128
    q = torch.randn(2, 4, width, 32, device=CUDA, dtype=kind)
    k, v = (torch.randn(2, 2, width, 32, device=CUDA, dtype=kind) for _ in range(2))
    device = torch.device(CUDA)
    plain = attend("slices", lengths, width, device)(0, q, k, v)
    real = torch.arange(width, device=CUDA) < torch.tensor([[118], [118]], device=CUDA)
    # Products of float32 may be made of tf32, which has the digits of float16.
    rounded = kind if kind is torch.bfloat16 else torch.float16
    for backend in ("mask", "flex"):
        out = attend(backend, lengths, width, device)(0, q, k, v)
        ours, theirs = (t.transpose(1, 2)[real].float().cpu() for t in (out, plain))
        assert is_close(ours, theirs, terms=width, scale=float(v.abs().max()), dtype=rounded)
        mixed = v.clone()
        mixed[0, :, 48:] += 1  # another episode of the same row
        again = attend(backend, lengths, width, device)(0, q, k, mixed)
        assert torch.equal(again[0, :, :48], out[0, :, :48]), backend


def wide(**train: object) -> dict[str, object]:
    """Returns a config whose head is large enough for FlexAttention."""
    return config(**train) | {"model": SHAPE | {"num_attention_heads": 1}}


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float32"},
        {"dtype": "bfloat16"},
        {"dtype": "bfloat16", "compile": True, "recompute": True},
        {"dtype": "float32", "attention": "mask"},
    ],
    ids=str,
)
def test_training_takes_the_steps_of_the_cpu(tmp_path: Path, options: dict[str, object]) -> None:
    """The loss after eight steps, beside that of the plain definition in float32 on the CPU."""
    data, plain = small_data(tmp_path / "sft"), tmp_path / "plain.json"
    plain.write_text(json.dumps(wide(dtype="float32", attention="mask")))
    (done,) = processes(
        ["--data", str(data), "--config", str(plain), "--out", str(tmp_path / "cpu")],
        1,
        CUDA_VISIBLE_DEVICES="",
    )
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "cpu" / "log.jsonl").read_text().splitlines()
    expected = [row["loss"] for row in map(json.loads, rows) if "loss" in row][-1]
    report = train([data], wide(**options), tmp_path / "run")
    rounded = torch.float16 if options["dtype"] == "float32" else torch.bfloat16
    assert is_close(report.loss, expected, terms=8, scale=expected, dtype=rounded)


@pytest.mark.parametrize("options", [{"parallel": "fsdp"}, {"lora_rank": 4}], ids=str)
def test_sharded_weights_and_adapters(tmp_path: Path, options: dict[str, object]) -> None:
    """One process with NCCL; the loss falls, and the model that is written answers legally."""
    if "lora_rank" in options:
        pytest.importorskip("peft")
    data = small_data(tmp_path / "sft")
    first = train([data], config(steps=40), tmp_path / "first")
    settings = tmp_path / "c.json"
    settings.write_text(json.dumps(config(steps=20, dtype="bfloat16", log_every=1, **options)))
    (done,) = processes(
        ["--data", str(data), "--config", str(settings), "--init-from", str(first.folder),
         "--out", str(tmp_path / "run")],
        1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    losses = [row["loss"] for row in map(json.loads, rows) if "loss" in row]
    assert sum(losses[-5:]) < sum(losses[:5])
