"""Does the whole job on a real model: lint, prepare, train, export, reload, generate, serve.

    python -m bench.real.job --model DIR --out DIR [--data DIR] [--quick] [--steps 300]
        [--rows 1500] [--device cuda]

DIR of `--model` is a folder of Hugging Face (`bench/real/models.py`). The data are questions of
BFCL (`bench/real/functions.py`) with their ground truths as calls, those that
`bench.real.right_calls --part test` does not ask. Each stage prints what it measured, and stops the
run with a message where something is not as it has to be:

- lint: planted faults are found, each at its line, and nothing else;
- prepare: the ids are those of `apply_chat_template`, chats with the default system prompt too;
- train: all weights and LoRA; the loss falls, and the share of right tokens is named;
- export: transformers reads the folder, with logits equal to ours, and its template writes the ids
  of the rows with tools;
- answers: constrained calls are of the tools that were declared, and their arguments fit;
- serve: the client of OpenAI calls tools, streams, and parses.

`--quick` trains two steps on one row, all weights and LoRA, and asks ten questions: 90 s of
processor time. On a GPU, add `--set train.micro_rows=16 --set train.recompute=false` for a model of
this size.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from bench.real.functions import Test, data, tests
from bench.real.right_calls import is_heldout

ROOT = Path(__file__).parents[2]
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def mypt(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs a command of ours. Raises SystemExit unless it ends with this status."""
    words = [sys.executable, "-m", "mypt.main", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    if done.returncode != code:
        raise SystemExit(
            f"{' '.join(words)}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    return done


def need(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"not as it has to be: {what}")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Prints how long a stage took, and its processor time with that of the commands it ran."""
    since, used = time.time(), sum(os.times()[:4])
    print(f"## {name}", flush=True)
    yield
    spent = sum(os.times()[:4]) - used
    print(f"   {name}: {time.time() - since:.1f} s, processor {spent:.1f} s", flush=True)


def chat(test: Test) -> dict[str, Any]:
    """Returns a chat in which the right call answers the question of a test."""
    arguments = json.dumps(test.call["arguments"], ensure_ascii=False)
    call = {"id": "c1", "type": "function", "function": {"name": test.name, "arguments": arguments}}
    tools = [{"type": "function", "function": tool} for tool in test.tools]
    answer = {"role": "assistant", "tool_calls": [call]}
    return {"messages": [*test.question, answer], "tools": tools}


def findings(path: Path) -> set[tuple[str, int]]:
    """Returns the codes and lines of the findings in a file, as the plain command prints them."""
    done = mypt("lint", path, "--format", "json", "--exit-zero")
    return {(f["code"], f["location"]["row"]) for f in json.loads(done.stdout)}


def lint(folder: Path, chats: list[dict[str, Any]]) -> None:
    clean, broken = folder / "tools.jsonl", folder / "broken.jsonl"
    clean.write_text("".join(json.dumps(c, ensure_ascii=False) + "\n" for c in chats))
    before = findings(clean)
    print(f"   {len(chats)} chats: {len(before)} findings {sorted({code for code, _ in before})}")
    rows = [json.loads(json.dumps(c)) for c in chats]
    places = range(0, len(rows), max(1, len(rows) // 6))
    for number, at in enumerate(places):
        call = rows[at]["messages"][-1]["tool_calls"][0]["function"]
        if number % 3 == 0:
            call["name"] = "not_declared"
        elif number % 3 == 1:
            call["arguments"] = call["arguments"].replace('"', "'")
        else:
            rows[at]["messages"][0]["role"] = "humann"
    broken.write_text("".join(json.dumps(c, ensure_ascii=False) + "\n" for c in rows))
    lines = {line for _, line in findings(broken) - before}
    need(lines == {at + 1 for at in places}, f"planted at {list(places)}, found at {sorted(lines)}")
    print(f"   {len(places)} planted faults found, each at its line")


def plain_ids(folder: Path, model: Path) -> None:
    """Compares the ids of chats without tools with those of the model's own template."""
    from transformers import AutoTokenizer

    import mypt_spec

    rows = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": text[::-1].strip()}]
        for text in ("Hi there!", "größe, 東京 \U0001f600", "a\n\n  b", "x = {'y': 1}  # z")
    ]
    tokenizer = AutoTokenizer.from_pretrained(model)
    dialect = mypt_spec.dialect("chatml", vocabulary=model / "tokenizer.json")
    for system in (None, "Be kind.", SYSTEM):
        for row in rows:
            own = row if system is None else [{"role": "system", "content": system}, *row]
            asked = [{"role": "system", "content": SYSTEM}, *row] if system is None else own
            expected = tokenizer.apply_chat_template(own, tokenize=False)
            episode, findings = dialect.read({"messages": asked})
            need(episode is not None, str(findings))
            ids = [*map(int, dialect.encode(episode).ids)]
            want = tokenizer(expected.rstrip("\n"), add_special_tokens=False)["input_ids"]
            got = ids[:-1] if dialect.tokenizer.decode(ids[-1:]) == "\n" else ids
            need(got == want, f"ids of {own}: {got} and {want}")
    print(f"   {3 * len(rows)} chats: ids equal to apply_chat_template")


def trained(folder: Path, model: Path, name: str, *options: str) -> dict[str, Any]:
    """Trains; returns the first and the last row of the log."""
    out = folder / name
    settings = [word for option in options for word in ("--set", option)]
    if name == "lora":
        settings += ["--config", "lora"]
    since = time.time()
    mypt("train", "--data", folder / "sft", "--init-from", model, "--out", out, *settings, "-q")
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = [row for row in rows if "loss" in row]
    print(f"   {name}: {time.time() - since:.0f} s; first {losses[0]}")
    print(f"   {name}: last {losses[-1]}")
    checked = [row for row in rows if "validation" in row or "val" in row]
    print(f"   {name}: validation {checked[-1] if checked else rows[-1]}")
    need(losses[-1]["loss"] < losses[0]["loss"], f"{name}: the loss does not fall")
    return losses[-1]


def exported(folder: Path, run: Path, chats: list[dict[str, Any]], device: str) -> Path:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import mypt_spec
    from mypt_infer.generate.llama import load

    out = folder / "exported"
    mypt("export", run, "--out", out, "--for", "vllm")
    dialect = mypt_spec.dialect("qwen3", vocabulary=out / "tokenizer.json")
    tokenizer = AutoTokenizer.from_pretrained(out)
    same = 0
    for record in chats:
        episode, findings = dialect.read(record)
        need(episode is not None, str(findings))
        trained = dialect.trained(episode, history="official")[-1]  # as mypt-prepare does
        ids = [*map(int, dialect.encode(trained).ids)]
        *asked, answer = json.loads(json.dumps(record["messages"]))
        for call in answer["tool_calls"]:  # templates print arguments that are objects
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        messages = [*asked, {"content": "", **answer}]
        text = tokenizer.apply_chat_template(messages, tools=record["tools"], tokenize=False)
        want = tokenizer(text, add_special_tokens=False)["input_ids"]
        same += [i for i in ids if i] == [i for i in want if i] or ids == want[: len(ids)]
    need(same == len(chats), f"ids of {len(chats) - same} rows differ from apply_chat_template")
    print(f"   {same} of {len(chats)} rows with tools: ids equal to apply_chat_template")
    theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).to(device)
    mine = load(out).to(device)
    mine.net.float()
    ids = torch.tensor([ids[:256]], device=device)
    with torch.no_grad():
        expected = theirs(ids).logits[:, -1]
    logits = mine(ids, torch.tensor([ids.shape[1]], device=device), mine.begin(1, 300))
    print(f"   logits differ by at most {(logits - expected).abs().max():.1e}")
    return out


@contextmanager
def server(*words: str, python: Sequence[str] = ("-m", "mypt.main", "serve")) -> Iterator[Any]:
    """Runs a server, `mypt-serve` unless another is named; yields its process and a client."""
    from openai import OpenAI

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, *python, *words, "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}/v1"
            client = OpenAI(base_url=url, api_key="none", max_retries=0, timeout=3600)
            for _ in range(3000):
                try:
                    client.models.list()
                    break
                except Exception:
                    log.seek(0)
                    need(child.poll() is None, f"the server ended: {log.read().decode()}")
                    time.sleep(0.2)
            yield child, client
        finally:
            child.terminate()
            child.wait(30)


def served(model: Path, asked: list[Test], device: str, *, quick: bool) -> None:
    from pydantic import BaseModel

    class City(BaseModel):
        city: Literal["Oslo", "Rome"]

    with server("--model", str(model), "--device", device) as (_, client):
        right, name = 0, client.models.list().data[0].id
        for at, test in enumerate(asked):
            tools = [{"type": "function", "function": tool} for tool in test.tools]
            common: dict[str, Any] = {"model": name, "messages": test.question, "tools": tools}
            common |= {"temperature": 0, "tool_choice": "required", "reasoning_effort": "none"}
            common |= {"max_tokens": 128 if quick else 512}
            answer = client.chat.completions.create(**common).choices[0].message
            (call,) = answer.tool_calls[:1]
            arguments = json.loads(call.function.arguments)
            right += test.is_right({"name": call.function.name, "arguments": arguments})
            need(call.function.name in {t["name"] for t in test.tools}, "an undeclared tool")
            if quick and at >= 3:
                continue
            pieces = [
                delta.tool_calls[0].function.arguments or ""
                for chunk in client.chat.completions.create(**common, stream=True)
                if chunk.choices and (delta := chunk.choices[0].delta).tool_calls
                and delta.tool_calls[0].index == 0
            ]  # fmt: skip
            need(json.loads("".join(pieces)) == arguments, "streamed arguments differ")
        parsed = client.chat.completions.parse(
            model=name, messages=[{"role": "user", "content": "Name a city."}],
            response_format=City, max_tokens=60, reasoning_effort="none",
        )  # fmt: skip
        need(isinstance(parsed.choices[0].message.parsed, City), "parse()")
        streams = 3 if quick else len(asked)
        print(f"   {len(asked)} calls, {right} right; {streams} streams are equal; parse() works")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[])
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found = list(tests(chosen.data or data()))
    rows, steps, length = (6, 2, 256) if chosen.quick else (chosen.rows, chosen.steps, 2048)
    for_training = [t for i, t in enumerate(found) if not is_heldout(i) and t.is_right(t.call)]
    chats = [chat(t) for t in for_training[:: max(1, len(for_training) // rows)]]
    if chosen.quick:
        chats = sorted(map(chat, for_training), key=lambda c: len(json.dumps(c)))[:rows]
    heldout = [t for i, t in enumerate(found) if is_heldout(i) and t.is_right(t.call)]
    if chosen.quick:
        heldout = sorted(heldout, key=lambda t: len(json.dumps(t.tools)))
    asked = heldout[:10] if chosen.quick else heldout[:: max(1, len(heldout) // 30)]
    with stage("lint"):
        lint(chosen.out, chats)
    with stage("prepare"):
        plain_ids(chosen.out, chosen.model)
        source = chosen.out / "tools.jsonl"
        if chosen.quick:  # one row, which each step reads again
            source = chosen.out / "one.jsonl"
            source.write_text(json.dumps(chats[0], ensure_ascii=False) + "\n")
        done = mypt("prepare", source, "--dialect", "qwen3", "--vocab",
                    chosen.model, "--out", chosen.out / "sft", "--context-length", length,
                    "--val-fraction", 0 if chosen.quick else 0.05, "--long", "drop")  # fmt: skip
        print(f"   {done.stdout.strip()}")
    few_rows = (
        ["train.batch_rows=1", "train.warmup=1", "train.recompute=false"] if chosen.quick else []
    )
    common = [
        f"train.steps={steps}",
        *few_rows,
        "train.log_every=1",
        "train.legality_every=-1",
        *chosen.set,
    ]
    with stage("train"):
        trained(chosen.out, chosen.model, "full", "train.lr=3e-4", *common)
        few = [f"train.steps={max(2, steps // 5)}"]
        trained(chosen.out, chosen.model, "lora", "train.lr=2e-3", *common, *few)
    with stage("export"):
        out = exported(chosen.out, chosen.out / "full", chats[:40], chosen.device)
    with stage("serve"):
        served(out, asked, chosen.device, quick=chosen.quick)


if __name__ == "__main__":
    main()
