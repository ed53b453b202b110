"""Measures what the grammar buys: how often a small model answers held-out prompts legally.

    python -m bench.legality [--out DIR] [--steps 600] [--seeds 0,1] [--only mask,all,phases,random]

Makes the curriculum, learns a vocabulary of 1,004 ids of text from it, and trains 600 steps on one
thread with a fixed seed: on the loss mask with the phases shuffled; the same on all tokens; and on
the mask with the phases in order. Then every model answers the same held-out prompts, greedily and
at temperature 1, by itself and under the constraint; random weights do, too. Prints tables in
Markdown.

Measurements are kept in DIR/results.jsonl, and not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mypt import vocab
from mypt.legality import measure
from mypt.prepare import cli as prepare
from mypt_cli.jsonl.output import Output
from mypt_infer.generate.llama import Llama, load
from mypt_model.llama import random_transformer
from mypt_train.curriculum import episodes
from mypt_train.training.corpus import corpus, open_data
from mypt_train.training.parts.config import Config
from mypt_train.training.trainer import train

ROOT = Path(__file__).parent.parent
COUNTS = {1: 10_000, 2: 10_000, 3: 6_000, 4: 4_000, 5: 4_000}
HELD_OUT = 200  # of each phase
VARIANTS = {
    "mask": "on the mask, shuffled",
    "all": "on all tokens, shuffled",
    "phases": "on the mask, phases in order",
    "random": "random weights",
}
TEMPERATURES = (0.0, 1.0)
CONTEXT, TEXT_IDS, ANSWER = 512, 1004, 200
Result = dict[str, Any]


def data(folder: Path, counts: Mapping[int, int] = COUNTS) -> list[Path]:
    """Prepares folders, one a phase for training and one with held-out episodes to validate.

    `counts`: episodes to train on, by phase. The vocabulary is in `folder / "small.tiktoken"`.
    """
    out = [folder / f"{what}{phase}" for phase in counts for what in ("train", "heldout")]
    if all((path / "dataset_metadata.json").exists() for path in out):
        return out
    for phase, count in counts.items():
        for split, n in (("train", count), ("heldout", HELD_OUT)):
            with Output(str(folder / f"{split}{phase}.jsonl"), ()) as file:
                for record in episodes(phase, n, seed=1, split=split):
                    file.write(record)
    small = folder / "small.tiktoken"
    _ran(
        vocab.main(
            [
                *(str(folder / f"train{phase}.jsonl") for phase in counts),
                "--size",
                str(TEXT_IDS),
                "-o",
                str(small),
                "-q",
            ]
        )
    )
    for path in out:
        held = ["--val-fraction", "1"] if path.name.startswith("heldout") else []
        args = [
            f"{path}.jsonl",
            "--out",
            str(path),
            "--phase",
            path.name[-1],
            "--vocab",
            str(small),
            "--context-length",
            str(CONTEXT),
        ]
        _ran(prepare.main([*args, *held, "--workers", "1", "-q"]))
    return out


def _ran(status: int) -> None:
    if status:
        raise SystemExit(status)


def run(variant: str, seed: int, folders: list[Path], out: Path, steps: int) -> Result:
    """Trains one model, and lets it answer."""
    found: Result = {"variant": variant, "seed": seed, "steps": steps}
    tiny = Config.load(ROOT / "configs" / "tiny.json")
    how = replace(
        tiny.train,
        steps=max(1, steps),
        seed=seed,
        threads=1,
        dtype="float32",
        save_every=0,
        val_every=0,
        val_rows=10_000,
        train_on="all" if variant == "all" else "mask",
    )
    config = replace(tiny, train=how)
    held = corpus(open_data(folders), "val")
    if variant == "random":
        model = random_transformer(config.shape(held.dialect.tokenizer.vocab_size), seed)
        llama = Llama(model)
        found["weights"] = sum(weight.numel() for weight in model.parameters())
    else:
        begun = time.perf_counter()
        report = train(folders, config, out, phases=sorted(COUNTS) if variant == "phases" else None)
        found |= {
            "seconds": time.perf_counter() - begun,
            "loss": report.loss,
            "validation": report.validation,
        }
        llama = load(report.folder)
    tools = json.loads((ROOT / "examples" / "tools.json").read_text(encoding="utf-8"))
    for temperature in TEMPERATURES:
        found[f"t{temperature:g}"] = measure(
            llama,
            held,
            prompts=len(held.episodes),
            max_new_tokens=ANSWER,
            temperature=temperature,
            tools=tools,
            seed=seed,
        )
    return found


def cells(results: list[Result], kind: str, temperature: float) -> str:
    """Returns a row of a table: by phase and in all, the mean over seeds."""
    measured = [r[f"t{temperature:g}"][kind] for r in results]
    phases = sorted({phase for m in measured for phase in m["phases"]})
    shares = [statistics.mean(m["phases"][phase] for m in measured) for phase in phases] + [
        statistics.mean(m["legal"] for m in measured)
    ]
    return " | ".join(f"{share:.1%}" for share in shares)


def tables(results: list[Result]) -> Iterator[str]:
    by_variant = {v: [r for r in results if r["variant"] == v] for v in VARIANTS}
    yield "| model | decoding | 1 | 2 | 3 | 4 | 5 | all | seeds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for variant, found in by_variant.items():
        seeds = ", ".join(str(r["seed"]) for r in found)
        for kind in ("unconstrained", "constrained"):
            for temperature in TEMPERATURES:
                if found:
                    how = "greedy" if temperature == 0 else f"temperature {temperature:g}"
                    yield (
                        f"| {VARIANTS[variant]} | {kind}, {how} | "
                        f"{cells(found, kind, temperature)} | {seeds} |"
                    )
    yield ""
    yield "| model | held-out loss | held-out accuracy | seconds of training | seeds |"
    yield "|---|---|---|---|---|"
    for variant, found in by_variant.items():
        if found and variant != "random":
            means = [
                statistics.mean(values)
                for values in zip(
                    *(
                        (r["validation"]["loss"], r["validation"]["accuracy"], r["seconds"])
                        for r in found
                    ),
                    strict=True,
                )
            ]
            yield (
                f"| {VARIANTS[variant]} | {means[0]:.3f} | {means[1]:.1%} | {means[2]:.0f} | "
                f"{', '.join(str(r['seed']) for r in found)} |"
            )
    for variant, found in by_variant.items():
        reasons = Counter[str]()
        for r in found:
            for temperature in TEMPERATURES:
                reasons.update(r[f"t{temperature:g}"]["unconstrained"]["reasons"])
        if reasons:
            yield f"\nWhy not, {VARIANTS[variant]}, unconstrained: " + ", ".join(
                f"{name} {count}" for name, count in reasons.most_common(5)
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="default: a new folder for temporary files"
    )
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--only", default=",".join(VARIANTS), help="default: %(default)s")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    out = chosen.out or Path(tempfile.mkdtemp(prefix="mypt-legality-"))
    out.mkdir(parents=True, exist_ok=True)
    folders, kept = data(out), out / "results.jsonl"
    for seed in map(int, chosen.seeds.split(",")):
        for variant in chosen.only.split(","):
            steps = 0 if variant == "random" else chosen.steps
            done = (
                [json.loads(line) for line in kept.read_text().splitlines()]
                if kept.exists()
                else []
            )
            if any((r["variant"], r["seed"], r["steps"]) == (variant, seed, steps) for r in done):
                continue
            found = run(variant, seed, folders, out / f"{variant}-{seed}-{steps}", steps)
            with kept.open("a") as file:
                file.write(json.dumps(found) + "\n")
    results = [json.loads(line) for line in kept.read_text().splitlines()]
    print("\n".join(tables([r for r in results if r["steps"] in (0, chosen.steps)])))


if __name__ == "__main__":
    main()
