"""Counts the passes that jumps save a trained model, and what becomes of its answers.

    python -m bench.jumps [--steps 300] [--prompts 100] [--out DIR]

Trains a small model on made-up conversations with calls (phase 4 of the curriculum, a vocabulary of
1,004 ids of text learnt from them), on one thread. Then it answers held-out prompts, the first
answer of each a call, with and without `jump_forward`: greedily, and at temperature 1 in calls too.
A pass is a step in which the model is asked for a row. Prints a table in Markdown: tokens and
passes an answer, the passes of each token inside calls, the shares of answers that are legal by the
validator, of those that are calls, and of calls that are the ones of the held-out conversation, and
the mean probability that the model gave to refused ids.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import mypt_spec
from bench.legality import ROOT, data
from mypt_infer.decode import Decoder
from mypt_infer.generate.generate import generate
from mypt_infer.generate.generation import Generation
from mypt_infer.generate.llama import Llama, load
from mypt_spec import Dialect, Episode
from mypt_train.curriculum import episodes
from mypt_train.training.parts.config import Config
from mypt_train.training.trainer import train
from tests.support.decoding import complete

BATCH, LONGEST = 16, 200


def trained(folder: Path, steps: int) -> tuple[Llama, Dialect]:
    """Returns a model that was trained on conversations with calls, and its dialect."""
    folders = data(folder, {4: 4000})
    tiny = Config.load(ROOT / "configs" / "tiny.json")
    how = replace(tiny.train, steps=steps, threads=1, dtype="float32", save_every=0, val_every=0)
    report = train(folders[:1], replace(tiny, train=how), folder / f"model-{steps}")
    return load(report.folder), mypt_spec.dialect("mypt", vocabulary=folder / "small.tiktoken")


def asked(dialect: Dialect, count: int) -> list[tuple[Episode, dict[str, Any]]]:
    """Returns held-out prompts that a call answers, each with that call."""
    out: list[tuple[Episode, dict[str, Any]]] = []
    for record in islice(episodes(4, 20 * count, seed=1, split="heldout"), 20 * count):
        said = record["messages"]
        at = next((i for i, m in enumerate(said) if m["role"].startswith("assistant")), 0)
        if said[at]["role"] == "assistant_toolcall" and len(out) < count:
            prompt, faults = dialect.read({**record, "messages": said[:at]})
            assert prompt is not None, faults
            out.append((prompt, {k: said[at][k] for k in ("name", "arguments")}))
    return out


def call_of(answer: Generation) -> dict[str, Any] | None:
    """Returns the call in an answer; None if there is none."""
    text = answer.text
    if "<myPT_toolcall>" not in text:
        return None
    found = json.loads(text.split("<myPT_toolcall>")[1].split("</myPT_toolcall>")[0])
    return {"name": found.pop("name"), "arguments": found}


def measure(
    model: Llama, decoder: Decoder, asked_of: list[tuple[Episode, dict[str, Any]]], **how: Any
) -> str:
    """Returns the cells of a row."""
    answers: list[Generation] = []
    for begin in range(0, len(asked_of), BATCH):
        prompts = [prompt for prompt, _ in asked_of[begin : begin + BATCH]]
        answers += generate(
            model, prompts, decoder=decoder, max_new_tokens=LONGEST, seed=begin, **how
        )
    steps = [step for answer in answers for step in answer.steps]
    passes = sum(step.refused_mass is not None for step in steps)
    inside = [s.refused_mass is not None for s in steps if decoder.calling(s.state)]
    calls = [call_of(answer) for answer in answers]
    wanted = [call for _, call in asked_of]
    count = len(answers)
    share = sum(inside) / max(1, len(inside))
    return (
        f"{len(steps) / count:.1f} | {passes / count:.1f} | {share:.0%} | "
        f"{sum(complete(decoder, a.prompt + a.ids) for a in answers) / count:.0%} | "
        f"{sum(c is not None for c in calls) / count:.0%} | "
        f"{sum(c == w for c, w in zip(calls, wanted, strict=True)) / count:.0%} | "
        f"{sum(a.refused_mass for a in answers) / count:.2%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--out", type=Path, help="default: a new folder for temporary files")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    out = chosen.out or Path(tempfile.mkdtemp(prefix="mypt-jumps-"))
    out.mkdir(parents=True, exist_ok=True)
    model, dialect = trained(out, chosen.steps)
    tools = json.loads((ROOT / "examples" / "tools.json").read_text(encoding="utf-8"))
    decoder, prompts = Decoder(dialect, tools), asked(dialect, chosen.prompts)
    print(
        f"{chosen.steps} steps of training, {len(prompts)} prompts\n"
        "| decoding | jumps | tokens | passes | of tokens in calls | legal | calls "
        "| as held out | refused mass |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for name, how in (
        ("greedy", {"temperature": 0.0}),
        ("temperature 1", {"temperature": 1.0, "greedy_calls": False}),
    ):
        for jumps in (False, True):
            row = measure(model, decoder, prompts, jump_forward=jumps, **how)
            print(f"| {name} | {'yes' if jumps else 'no'} | {row} |", flush=True)


if __name__ == "__main__":
    main()
