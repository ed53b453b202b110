"""Times a result of 200 tokens after a cache of 600, against reading all 800 anew.

    python -m bench.append [--rounds 15]

One thread, interleaved, medians. The model is a Llama of about 7 M parameters without its
embedding; both ways have the same logits, which is asserted here.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time

import torch

from mypt_infer.generate.llama import LlamaConfig
from tests.support.tiny_models import random_model

KEPT, ADDED = 600, 200
SHAPE = LlamaConfig(50304, 256, 768, 8, 4, 4, tie_word_embeddings=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description="Appending to a cache beside reading everything anew."
    )
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds
    torch.set_num_threads(1)
    model = random_model(SHAPE)
    ids = torch.randint(0, 50257, (1, KEPT + ADDED), generator=torch.Generator().manual_seed(0))

    def length(n: int) -> torch.Tensor:
        return torch.tensor([n])

    times: dict[str, list[float]] = {"appended": [], "anew": []}
    with torch.inference_mode():
        for _ in range(rounds + 1):
            cache = model.begin(1, KEPT + ADDED)
            model(ids[:, :KEPT], length(KEPT), cache)
            began = time.perf_counter()
            appended = model(ids[:, KEPT:], length(ADDED), cache)
            times["appended"].append(time.perf_counter() - began)
            cache = model.begin(1, KEPT + ADDED)
            began = time.perf_counter()
            anew = model(ids, length(KEPT + ADDED), cache)
            times["anew"].append(time.perf_counter() - began)
            torch.testing.assert_close(appended, anew, atol=1e-3, rtol=1e-3)
    own, full = (statistics.median(times[name][1:]) for name in ("appended", "anew"))
    print(
        f"{ADDED} tokens behind {KEPT}: {own * 1e3:.0f} ms; {KEPT + ADDED} anew: {full * 1e3:.0f} "
        f"ms; ratio {own / full:.3f}"
    )
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, one thread, {rounds} "
        "rounds"
    )


if __name__ == "__main__":
    main()
