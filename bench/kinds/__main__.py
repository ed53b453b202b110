"""Counts which kinds of seeded faults mypt-lint finds, and false alarms on clean records.

    python -m bench.kinds [--clean 10000] [--model DIR] [--list missed|all] [--group tools]

Each kind is a file of 40 clean records in which one record, or the file as a whole, has a fault
(`of_*.py`). It is found if mypt-lint reports something that it does not report of the same file
without the fault. `plain` is `mypt-lint FILE`; `all` adds what other options find: --data-set with prompts of an
evaluation and all rules, --dialect qwen3 with --records openai, and --model DIR: without DIR, a
folder with GPT-2's vocabulary, a context of 4,096 tokens and the template of `of_templates`. Rows of a
trainer and templates have their own option, in both columns. Clean records are of 15 shapes
(`shapes.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path

from bench.kinds.faults import KINDS, Kind, as_bytes
from bench.kinds.of_templates import TEMPLATE
from bench.kinds.of_texts import EVALUATION
from bench.kinds.shapes import SHAPES
from bench.model_folder import made_folder
from mypt.lint.cli import main as mypt_lint

Finding = tuple[str, int | None, str]


def lint(path: Path, *options: str) -> set[Finding]:
    """Returns code, row and severity of all findings of a file."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = mypt_lint(
            [str(path), "--no-config", "-q", "-j", "1", "--format", "jsonl", *options]
        )
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    found = {
        (f["code"], (f.get("location") or {}).get("row"), f["severity"])
        for f in lines
        if "code" in f
    }
    if status == 2 and not found:
        return {(f"refused: {err.getvalue().strip()[:80]}", None, "error")}
    return found


def small_model(folder: Path) -> str:
    """Writes the folder of a model; returns its path."""
    here = made_folder(folder / "model")
    (here / "chat_template.jinja").write_text(TEMPLATE)
    (here / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    return str(here)


def commands(kind: Kind, folder: Path, model: str) -> list[list[str]]:
    if kind.group == "template":
        return [["--template"]]
    if kind.group == "rows":
        return [["--trainer-rows"]]
    prompts = folder / "prompts.txt"
    prompts.write_text("\n".join(EVALUATION) + "\n")
    all_options = [
        ["--data-set", "--eval-prompts", str(prompts), "--select", "all"],
        ["--dialect", "qwen3", "--records", "openai"],
    ]
    return [[], *all_options, ["--model", model]]


def findings(kind: Kind, data: bytes, folder: Path, model: str) -> list[set[Finding]]:
    path = folder / f"data{kind.suffix}"
    path.write_bytes(data)
    runs = [
        template(path) if options == ["--template"] else lint(path, *options)
        for options in commands(kind, folder, model)
    ]
    path.unlink()
    return runs


def template(path: Path) -> set[Finding]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = mypt_lint(["--template", str(path), "--no-config", "-q", "--format", "jsonl"])
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    # Of one code, findings about other things are others; the number of conversations is no matter.
    found = {
        (f"{f['code']} {f['message'].partition('; in ')[0]}", None, f["severity"])
        for f in lines
        if "code" in f
    }
    return found or (
        {(f"refused: {err.getvalue().strip()[:80]}", None, "error")} if status == 2 else set()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clean", type=int, default=1500)
    parser.add_argument("--model")
    parser.add_argument("--list", choices=("missed", "all"), default="missed")
    parser.add_argument("--group")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = asked.model or small_model(folder)
        count: dict[str, Counter[str]] = {}
        for kind in KINDS:
            if asked.group not in (None, kind.group):
                continue
            clean = TEMPLATE.encode() if kind.group == "template" else kind.clean
            before = findings(kind, clean, folder, model) if clean else [set()] * 4
            after = findings(kind, kind.data, folder, model)
            codes = [
                sorted({c.split()[0] for c, _, _ in a - b})
                for a, b in zip(after, before, strict=False)
            ]
            tally = count.setdefault(kind.group, Counter())
            tally.update(kinds=1, plain=bool(codes[0]), all=any(codes))
            if asked.list == "all" or not any(codes) or not codes[0]:
                print(
                    f"{kind.group:9} {kind.name:50} {' '.join(codes[0]) or '-':24} {' '.join(chain(*codes[1:])) or '-'}"
                )
        print()
        total: Counter[str] = Counter()
        for group, tally in count.items():
            print(
                f"{group:9} {tally['kinds']:4} kinds  plain {tally['plain']:4}  all {tally['all']:4}"
            )
            total.update(tally)
        print(
            f"{'together':9} {total['kinds']:4} kinds  plain {total['plain']:4}  all {total['all']:4}"
        )
        alarms: Counter[str] = Counter()
        each = asked.clean // len(SHAPES)
        for shape in SHAPES:
            rng = random.Random(f"clean {shape.__name__}")
            path = folder / f"{shape.__name__}.jsonl"
            path.write_bytes(as_bytes([shape(rng) for _ in range(each)]))
            for code, _, severity in lint(path):
                alarms[f"{shape.__name__} {code} {severity}"] += 1
        print(
            f"clean: {each * len(SHAPES)} records of {len(SHAPES)} shapes, {sum(alarms.values())} false alarms {dict(alarms)}"
        )


if __name__ == "__main__":
    main()
