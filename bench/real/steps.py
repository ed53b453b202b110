"""Times the constraint on a device beside the forward pass of a real model.

    python -m bench.real.steps --model DIR [--batches 1 8 64] [--steps 60] [--device cuda]

DIR is an exported folder, or a run, whose format is qwen3. Each row has a cache of some 500 tokens,
and a pass reads one token a row. The constraint is what is allowed in the states of the rows, and
`Masks` on the device. Both are timed up to the device's end, interleaved; medians. On a CPU it is
processor time, which other programs change less. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import mypt_spec
from mypt_infer.decode import Decoder
from mypt_infer.generate.device import Masks
from mypt_infer.generate.llama import load
from mypt_model.folder import beside
from tests.support.decoding import TOOLS, prompt

CACHED = 500


def timed(work: Callable[[], Any], device: str) -> float:
    """Returns seconds, up to the end of what the device has been asked to do."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    torch.cuda.synchronize() if device == "cuda" else None
    since = clock()
    work()
    torch.cuda.synchronize() if device == "cuda" else None
    return clock() - since


def row(model: Any, dialect: Any, batch: int, steps: int, device: str) -> list[str]:
    """Returns milliseconds of a pass, and what the constraint takes of it."""
    decoder = Decoder(dialect, TOOLS, max_think_tokens=200)
    masks, size = Masks(device), decoder.tables.vocabulary

    def masked(logits: Tensor, states: list[int]) -> Tensor:
        for row, allow_set in zip(logits, decoder.allow_each(states), strict=True):
            masks.mask(row, allow_set)
        return logits

    start = decoder.start(decoder.ids_of(prompt("qwen3")))
    states = [start] * batch
    cache = model.begin(batch, CACHED + 4 * steps)
    lengths = torch.full((batch,), CACHED, device=device)
    ids = torch.randint(0, 40000, (batch, CACHED), device=device)
    one = torch.ones(batch, dtype=torch.int64, device=device)
    with torch.inference_mode():
        logits = model(ids, lengths, cache)[:, :size]

        times: dict[str, list[float]] = {"pass": [], "constraint": []}
        chosen = masked(logits.clone(), states).argmax(dim=-1)
        for at in range(-5, steps):
            seconds = {
                "pass": timed(partial(model, chosen[:, None], one, cache), device),
                "constraint": timed(partial(masked, logits.clone(), states), device),
            }
            noise = torch.randn_like(logits)
            chosen = masked(logits + 3 * noise, states).argmax(dim=-1)
            after = decoder.step(states, chosen.tolist()).tolist()
            states = [start if decoder.final(s) else s for s in after]
            if at >= 0:
                for name, value in seconds.items():
                    times[name].append(value)
    passed, share = (statistics.median(times[name]) for name in ("pass", "constraint"))
    return [str(batch), f"{1e3 * passed:.2f}", f"{100 * share / passed:.1f} %"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    model = load(chosen.model).to(chosen.device)
    vocabulary = beside(chosen.model, "tokenizer.json", "vocabulary.json")
    dialect = mypt_spec.dialect("qwen3", vocabulary=vocabulary)
    print("| rows | pass, ms | constraint |\n| --- | --- | --- |")
    for batch in chosen.batches:
        print(
            f"| {' | '.join(row(model, dialect, batch, chosen.steps, chosen.device))} |", flush=True
        )


if __name__ == "__main__":
    main()
