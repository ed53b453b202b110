"""Times training against what one would write in plain PyTorch: tokens a second on the same rows.

    python -m bench.train [--rounds 5] [--rows 8] [--length 512] [--config tiny]

One run, interleaved, medians of ratios. The other side is a training step in the style of nanoGPT,
of a model of the same shape (the very same modules): rows as they are, padding included, causal
attention over the whole row (so episodes see one another), logits of all tokens at once,
`F.cross_entropy` over the targets, clipping, AdamW. Ours keeps episodes apart, and makes logits
only where something is learnt. Tokens are those of the rows, with padding, on both sides. One
thread.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.data import record
from mypt_cli.jsonl.blocks import Source
from mypt_model.llama import random_transformer, spread
from mypt_train import Options, prepare
from mypt_train.training.batches import batch
from mypt_train.training.corpus import Corpus, Row, corpus, open_data
from mypt_train.training.objective import Objective
from mypt_train.training.parts.config import Config
from mypt_train.training.parts.distributed import World
from mypt_train.training.parts.optimizer import adamw


def data(folder: Path, length: int, size: int) -> Corpus:
    """Returns records of phases 1-5, English and German, that fit into a row."""
    import json

    rng = random.Random(1)
    with (folder / "in.jsonl").open("w", encoding="utf-8") as out:
        while out.tell() < size:
            out.write(json.dumps(record(rng), ensure_ascii=False) + "\n")
    path = folder / "in.jsonl"
    prepare(
        [Source(str(path), size=path.stat().st_size)],
        folder / "sft",
        Options(context_length=length, long="drop"),
    )
    return corpus(open_data([folder / "sft"]), "train")


def plain(
    model: nn.Module, optimizer: torch.optim.Optimizer, ids: Tensor, targets: Tensor, clip: float
) -> float:
    """Makes one step as one would write it.

    `targets` (rows, n) are the next ids, -100 where nothing is learnt.
    """

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            q, spread(k, q.shape[1]), spread(v, q.shape[1]), is_causal=True
        )

    at = torch.arange(ids.shape[1]).expand(ids.shape)
    logits = model(ids, at, attend, torch.arange(ids.numel()), F.linear)
    loss = F.cross_entropy(logits, targets.reshape(-1), ignore_index=-100)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return float(loss.detach())


def padded(found: Corpus, rows: list[Row], length: int) -> tuple[Tensor, Tensor]:
    """Returns rows as they are in the shards, and their targets."""
    ids, targets = (
        np.zeros((len(rows), length), np.int64),
        np.full((len(rows), length), -100, np.int64),
    )
    for i, row in enumerate(rows):
        begin = 0
        for number in row.tolist():
            tokens, mask = found.tokens(number)
            ids[i, begin : begin + len(tokens)] = tokens
            learnt = np.flatnonzero(mask)
            targets[i, begin + learnt - 1] = tokens[learnt]
            begin += len(tokens)
    return torch.from_numpy(ids), torch.from_numpy(targets)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--rows", type=int, default=8)
    options.add_argument("--length", type=int, default=512)
    options.add_argument("--config", default="tiny")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = data(Path(folder), chosen.length, 1 << 20)
        config = Config.load(chosen.config)
        shape = config.shape(found.dialect.tokenizer.vocab_size)
        rows = found.rows()
        objective = Objective(config.train, found, World(0, 1, torch.device("cpu")))
        models = [random_transformer(shape, 0) for _ in range(2)]
        optimizers = [adamw(model, config.train) for model in models]
        trained = tokens = 0

        def ours(part: list[Row]) -> float:
            batches = [batch(found, part)]
            optimizers[0].zero_grad(set_to_none=True)
            loss = objective.step(models[0], batches, objective.count(batches))
            nn.utils.clip_grad_norm_(models[0].parameters(), config.train.clip)
            optimizers[0].step()
            return float(loss)

        def theirs(part: list[Row]) -> float:
            return plain(
                models[1], optimizers[1], *padded(found, part, chosen.length), config.train.clip
            )

        seconds: dict[str, list[float]] = {"ours": [], "plain": []}
        ways: dict[str, Callable[[list[Row]], float]] = {"ours": ours, "plain": theirs}
        for turn in range(-1, chosen.rounds):
            begin = (turn + 1) * chosen.rows % max(1, len(rows) - chosen.rows)
            part = rows[begin : begin + chosen.rows]
            for name, way in ways.items():
                started = time.perf_counter()
                way(part)
                if turn >= 0:  # the first is to warm up
                    seconds[name].append(time.perf_counter() - started)
            trained += sum(int(found.tokens(n)[1].sum()) for row in part for n in row.tolist())
            tokens += len(part) * chosen.length
    weights = sum(w.numel() for w in models[0].parameters())
    print(
        f"{chosen.config}: {weights / 1e6:.1f} M weights, vocabulary {shape.vocab_size}, "
        f"{chosen.rows} rows of {chosen.length}, {trained / tokens:.0%} of the tokens trained; ",
        end="",
    )
    print(f"Python {platform.python_version()}, torch {torch.__version__}, 1 thread")
    for name, spent in seconds.items():
        print(f"{name:6} {chosen.rows * chosen.length / statistics.median(spent):8,.0f} tokens/s")
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["plain"], strict=True)]
    print(
        f"ours: {statistics.median(ratios):.2f} times the speed of plain PyTorch (from "
        f"{min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
