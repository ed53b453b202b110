"""Times the constraint on a device beside the forward pass of a real model.

    python -m bench.real.steps --model DIR [--batches 1 8 64] [--steps 60] [--device cuda]

DIR is an exported folder, or a run, whose format is qwen3. Each row has a cache of some 500 tokens,
and a pass reads one token a row. The constraint is all of it, on the device: biases, the choice of
the best allowed id, the next states; as it is, and on a GPU compiled, in one graph.
`host` is `DeviceDecoder.apply_` with states on the host, as `generate` calls it. Both passes and
constraints are timed up to the device's end, interleaved; medians. On a CPU it is processor time,
which other programs change less. Prints a table in Markdown.
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
from mypt_infer.generate.device import DeviceDecoder
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
    """Returns milliseconds of a pass, and what each way of the constraint takes of it."""
    decoder = Decoder(dialect, TOOLS, max_think_tokens=200)
    tensors, size = DeviceDecoder(decoder, device), decoder.tables.vocabulary
    start = decoder.start(decoder.ids_of(prompt("qwen3")))
    states = torch.full((batch,), start, device=device)
    cache = model.begin(batch, CACHED + 4 * steps)
    lengths = torch.full((batch,), CACHED, device=device)
    ids = torch.randint(0, 40000, (batch, CACHED), device=device)
    one = torch.ones(batch, dtype=torch.int64, device=device)
    with torch.inference_mode():
        logits = model(ids, lengths, cache)[:, :size]

        def constrain(logits: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
            chosen = (logits + tensors.bias(states)).argmax(dim=-1)
            return chosen, tensors.step(states, chosen)

        compiled = torch.compile(constrain, fullgraph=True) if device == "cuda" else None
        times: dict[str, list[float]] = {"pass": [], "eager": [], "compiled": [], "host": []}
        token = constrain(logits, states)[0][:, None]
        for at in range(-5, steps):
            host = states.tolist()
            seconds = {
                "pass": timed(partial(model, token, one, cache), device),
                "eager": timed(partial(constrain, logits, states), device),
                "host": timed(partial(tensors.apply_, logits.clone(), host), device),
            }
            if compiled:
                seconds["compiled"] = timed(partial(compiled, logits, states), device)
            noise = torch.randn_like(logits)
            chosen, after = constrain(logits + 3 * noise, states)
            over = torch.tensor([not s or decoder.final(s) for s in after.tolist()], device=device)
            states, token = torch.where(over, start, after), chosen[:, None]
            if at >= 0:
                for name, value in seconds.items():
                    times[name].append(value)
    passed = statistics.median(times["pass"])
    shares = [
        f"{100 * statistics.median(times[n]) / passed:.1f} %" if times[n] else "-"
        for n in ("eager", "compiled", "host")
    ]
    return [str(batch), f"{1e3 * passed:.2f}", *shares]


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
    print(
        "| rows | pass, ms | constraint, eager | compiled | host |\n| --- | --- | --- | --- | --- |"
    )
    for batch in chosen.batches:
        print(
            f"| {' | '.join(row(model, dialect, batch, chosen.steps, chosen.device))} |", flush=True
        )


if __name__ == "__main__":
    main()
