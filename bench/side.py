"""Times ours beside what others use, in one run: linting, preparing, constrained decoding.

    nox -s speed
    python -m bench.side [--mb 2] [--records 2000] [--rounds 3] [--what lint prepare decode]
        [--tools FILE ...] [--vocabulary qwen] [--rivals FOLDER]

A side of linting and of preparing is a command of its own; its time is the processor time of the
command and its children for all records, less that for one, which is the column "start". All sides
read the same file, interleaved; medians. What is not installed is named and left out; FOLDER holds
the commands of other linters, which may need an environment of their own.

- lint: chats, calls, and traces of Claude Code, which other linters do not read. Each command runs
  as it is called without options; `dropoutt` without network and report, on one process.
- prepare: from lines of JSON to ids and masks, in a vocabulary of Qwen where dashscope is installed
  (GPT-2's otherwise) and a template that marks what is trained. `mypt-prepare --model` checks the
  records and writes shards, too; TRL is the constructor of `SFTTrainer` on a tiny model.
- decode: `bench.calls`, where the columns are explained.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import mypt_spec
from bench import chats, records
from bench.data import prose
from bench.model_folder import THEIRS, made_folder, times
from bench.vocabularies import Missing, vocabulary

ORJSON = """
import sys, orjson
for name in sys.argv[1:]:
    for line in open(name, "rb"): orjson.loads(line)
"""
RENDERERS = """
import json, sys
from renderers.base import build_training_sample, create_renderer
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer.name_or_path = "Qwen/Qwen3-0.6B"
renderer = create_renderer(tokenizer)
for line in open(sys.argv[2], encoding="utf-8"):
    record = json.loads(line)
    build_training_sample(
        renderer, record["messages"], tools=record.get("tools"),
        role_to_mask=lambda message: message["role"] == "assistant",
    )
"""
TRL = """
import json, sys, tempfile
from datasets import Dataset, disable_caching
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer
disable_caching()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer.pad_token = tokenizer.eos_token = "<|im_end|>"
shape = LlamaConfig(vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8,
                    num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)
rows = Dataset.from_list([json.loads(line) for line in open(sys.argv[2], encoding="utf-8")])
config = SFTConfig(output_dir=tempfile.mkdtemp(), assistant_only_loss=True, max_length=None,
                   use_cpu=True, bf16=False, report_to=[])
SFTTrainer(LlamaForCausalLM(shape), config, train_dataset=rows, processing_class=tokenizer)
"""
Command = Callable[[Path], list[str]]  # of a file or folder


def traces(folder: Path, size: int, one: int = 100_000) -> Path:
    """Writes traces of Claude Code of some 100 kB each, with calls and results, into a folder."""
    folder.mkdir()
    rng, written = random.Random(7), 0
    while written < size:
        path = folder / f"session-{written:09}.jsonl"
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events(rng, path.stem, one)))
        written += path.stat().st_size
    return folder


def events(rng: random.Random, session: str, size: int) -> Iterator[dict[str, object]]:
    """Yields the events of a session: a question, a call, its result, an answer, again."""
    parent, written, number = None, 0, 0
    while written < size:
        call = {"type": "tool_use", "id": f"toolu_{number:06}", "name": "Read"}
        call |= {"input": {"file_path": f"/src/{rng.randrange(999)}.py"}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": prose(rng, 400)}
        for role, content in (
            ("user", prose(rng, 100)),
            ("assistant", [call]),
            ("user", [result]),
            ("assistant", [{"type": "text", "text": prose(rng, 400)}]),
        ):
            message: dict[str, object] = {"role": role, "content": content}
            if role == "assistant":
                message |= {"id": f"msg_{number:06}", "type": "message", "model": "claude"}
            event = {"type": role, "uuid": f"{session}-{number}", "parentUuid": parent}
            event |= {"sessionId": session, "isSidechain": False, "userType": "external"}
            event |= {"timestamp": "2026-01-01T00:00:00Z", "cwd": "/src", "version": "2.0.0"}
            parent, number = f"{session}-{number}", number + 1
            written += len(json.dumps(content)) + 250
            yield event | {"message": message}


def linters(rivals: str | None, out: Path) -> dict[str, Command]:
    """Returns the commands that lint a file; names those that are not installed."""
    ours = [sys.executable, "-m", "mypt_lint", "-j1", "-q"]
    sides: dict[str, Command] = {
        "orjson.loads": lambda path: [sys.executable, "-c", ORJSON, *names(path)],
        "mypt-lint": lambda path: [*ours, *names(path)],
        "mypt-lint --dialect qwen3 --records openai": lambda path: [
            *ours, "--dialect", "qwen3", "--records", "openai", *names(path),
        ],
    }  # fmt: skip
    quiet = ["--offline", "--no-open", "--no-html", "-j", "1", "--out", str(out)]
    reports = ["--report", f"{out}.json", "--affected-records", f"{out}-affected.json"]
    for name, words, last in (
        ("finelint", ["inspect"], reports),
        ("parallelogram", ["check"], []),
        ("dropoutt", ["scan"], quiet),
    ):
        program = shutil.which(name, path=rivals)
        if program is None:
            print(f"left out: {name}, which is not installed")
        else:
            words, last = [program, *words], [*last]
            sides[name] = lambda path, words=words, last=last: [*words, str(path), *last]  # type: ignore[misc]
    return sides


def names(path: Path) -> list[str]:
    """Returns a file, or the files of a folder."""
    return [*map(str, sorted(path.iterdir()))] if path.is_dir() else [str(path)]


def preparers(folder: Path, out: Path) -> dict[str, Command]:
    """Returns the commands that prepare a file by the folder of a model."""
    ours = [sys.executable, "-m", "mypt.prepare.cli", "-q", "-j", "1", "--model", str(folder)]
    ours += ["--records", "openai", "--context-length", "100000", "--out", str(out)]
    sides: dict[str, Command] = {"mypt-prepare --model": lambda path: [*ours, str(path)]}
    for name, package, script, more in (
        ("apply_chat_template, with mask", "transformers", THEIRS, ["True"]),
        ("renderers", "renderers", RENDERERS, []),
        ("TRL", "trl", TRL, []),
    ):
        if find_spec(package) is None:
            print(f"left out: {package}, which is not installed")
        else:
            first, last = [sys.executable, "-c", script, str(folder)], [*more]
            sides[name] = lambda path, first=first, last=last: [*first, str(path), *last]  # type: ignore[misc]
    return sides


def first_line(path: Path, one: Path) -> Path:
    """Writes the first record of a file; of a folder, its first file is one."""
    if path.is_dir():
        one.mkdir()
        shutil.copy(names(path)[0], one)
    else:
        with path.open(encoding="utf-8") as lines:
            one.write_text(next(lines), encoding="utf-8")
    return one


def compare(
    kind: str, path: Path, sides: Mapping[str, Command], rounds: int,
    statuses: tuple[int, ...] = (0,),
) -> None:  # fmt: skip
    """Prints a row of a table for each side, with its time as a multiple of the first of ours.

    A command that ends with none of the `statuses` has failed.
    """
    one = first_line(path, path.with_name(f"{path.stem}-1{path.suffix}"))
    size = sum(Path(name).stat().st_size for name in names(path)) / 1e6
    start, spent = dict[str, float](), dict[str, list[float]]()

    def seconds(command: Command, file: Path) -> float:
        shutil.rmtree(path.parent / "out", ignore_errors=True)
        return times(command(file), path.parent / "cache", statuses)[0]

    for name, command in sides.items():  # twice, so that what is learned once is cached
        try:
            start[name] = min(seconds(command, one) for _ in range(2))
            spent[name] = []
        except subprocess.CalledProcessError as error:
            print(f"| {kind} | {name} | ends with status {error.returncode} | | |")
    for _ in range(rounds):
        for name, each in spent.items():
            each.append(seconds(sides[name], path) - start[name])
    mine = next(name for name in sides if name.startswith("mypt"))
    for name, each in spent.items():
        of_ours = statistics.median(a / b for a, b in zip(each, spent[mine], strict=True))
        print(
            f"| {kind}, {size:.1f} MB | {name} | {start[name]:.2f} | "
            f"{statistics.median(each):.2f} | {of_ours:.2f} |",
            flush=True,
        )


def head(title: str, packages: list[str]) -> None:
    """Prints the head of a table, with versions and load."""
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n{title}: {', '.join(versions)}; load {load} on {os.cpu_count()} cores\n")


def main() -> None:
    """Prints the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=2)
    parser.add_argument("--records", type=int, default=2000, help="to prepare")
    parser.add_argument("--rounds", type=int, default=3)
    what = ["lint", "prepare", "decode"]
    parser.add_argument("--what", nargs="+", choices=what, default=what)
    parser.add_argument("--tools", nargs="*", default=[], help="lists of tools, for decode")
    parser.add_argument("--vocabulary", default="qwen")
    parser.add_argument("--rivals", help="folder of the other linters' commands")
    chosen = parser.parse_args()
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    print(f"{commit}, Python {platform.python_version()}, {platform.machine()}")
    columns = "| records | side | start, s | time, s | of ours |\n| --- | --- | --- | --- | --- |"
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        if "lint" in chosen.what:
            sides = linters(chosen.rivals, here / "out")
            head("lint", ["orjson", "finelint", "parallelogram", "dropoutt"])
            print(columns)
            found = (0, 1, 2)  # where they find something, as parallelogram does in each call
            for kind in ("chats", "calls"):
                path = records.write(here / f"{kind}.jsonl", int(chosen.mb * 1e6), kind, prose)
                compare(kind, path, sides, chosen.rounds, found)
            some = {n: side for n, side in sides.items() if n in ("orjson.loads", "mypt-lint")}
            compare(
                "traces", traces(here / "traces", int(chosen.mb * 1e6)), some, chosen.rounds, found
            )
        if "prepare" in chosen.what:
            with vocabulary(chosen.vocabulary) as ranks:
                known = None if isinstance(ranks, Missing) else ranks
                dialect = mypt_spec.dialect("qwen3", vocabulary=known)
                model = made_folder(here / "model", dialect)
            sides = preparers(model, here / "out")
            head("prepare", ["transformers", "tokenizers", "renderers", "trl", "datasets"])
            print(columns)
            for kind in ("chats", "calls"):
                path = here / f"prepare-{kind}.jsonl"
                chats.write(path, chosen.records * 1000, kind, ids=True)
                lines = path.read_text("utf-8").splitlines(keepends=True)[: chosen.records]
                path.write_text("".join(lines), encoding="utf-8")
                compare(kind, path, sides, chosen.rounds)
    if "decode" in chosen.what:
        head("decode", ["llguidance", "xgrammar", "torch"])
        from bench import calls  # torch, which the other parts do without

        options = ["--vocabulary", chosen.vocabulary, "--counts", "10", "--batches", "1", "64"]
        options += ["--rounds", str(chosen.rounds), "--steps", "16"]
        calls.main([*options, *(["--tools", *chosen.tools] if chosen.tools else [])])


if __name__ == "__main__":
    main()
