"""Lists the faults of public demo data and of a benchmark's ground truths, as a page of docs.

    nox -s faults -- --demo LLaMA-Factory data ff6d4d12 --demo FastChat data 0e6d3e4b

Each `--demo` names data, their folder, and their commit; BFCL's data come from the package
bfcl-eval. None of them is part of this repository: the page has places, and quotes of a few words.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import Any

from bench.real.functions import data, ids_of, is_same, rows_of
from mypt_spec.bodies.json_schema import misfits
from mypt_spec.bodies.type_names import KINDS, standard_types

PAGE = Path(__file__).parents[1] / "docs" / "faults_found.md"
# Tests whose ground truth is a list of calls with values in the types of Python.
CATEGORIES = (
    "simple_python", "multiple", "parallel", "parallel_multiple",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
)  # fmt: skip
# Findings that are no faults here: a matter of taste, and places that users are to fill in.
LEFT_OUT = {"MYP366": "phrases of chatbots", "MYP358": "`{{name}}` to be filled in, `noinput`"}
_QUOTED = 100  # code points of a message, at most


def unfit(value: Any, schema: Any) -> str:
    """Returns why a value is not legal by a schema, "" if it is, or if the schema does not tell."""
    if not isinstance(schema, dict):
        return ""
    if options := schema.get("enum"):
        known = any(is_same(option, value) for option in options)
        whose = " of the list" if isinstance(value, list) else ""  # meant for its items, probably
        return "" if known else f"{value!r} is not in the enum{whose}"
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if {*KINDS}.issuperset(kinds) and misfits(value, {"type": kinds}):
        return f"{value!r} is not of the type {' or '.join(kinds)}"
    if isinstance(value, list):
        return next(filter(None, (unfit(item, schema.get("items")) for item in value)), "")
    if isinstance(value, dict) and "properties" in schema:
        several = all(isinstance(options, list) for options in value.values())
        members = value if several else {key: [option] for key, option in value.items()}
        return illegal(members, schema, closed=False)
    return ""


def illegal(truth: dict[str, list[Any]], schema: dict[str, Any], *, closed: bool = True) -> str:
    """Returns why no call is both legal by a schema and right by a ground truth, "" if one is.

    `truth` has the right values of each argument; "" among them says that it may be left out.
    Arguments without a parameter are illegal in a `closed` one.
    """
    parameters, required = schema.get("properties", {}), schema.get("required", [])
    for key, options in truth.items():
        if key not in parameters:
            if closed and "" not in options:
                return f"there is no parameter `{key}`"
            continue
        faults = [unfit(option, parameters[key]) for option in options if option != ""]
        if "" in faults or (
            "" in options and (key not in required or not unfit("", parameters[key]))
        ):
            continue
        if not options:
            return f"`{key}` is required, and no value is listed"
        return f"`{key}`: {faults[0] if faults else 'it is required, and to be left out'}"
    missing = [key for key in required if key not in truth]
    return f"`{missing[0]}` is required, and not in the ground truth" if missing else ""


def ground_truths(folder: Path) -> tuple[int, list[tuple[str, str, str, str]]]:
    """Returns how many tests there are, and (file, id, tool, fault) of those that none can pass."""
    count, faults = 0, []
    for category in CATEGORIES:
        for key, (_, tools, calls) in zip(
            ids_of(folder, category), rows_of(folder, category), strict=True
        ):
            count += 1
            schemas = {tool["name"]: tool["parameters"] for tool in tools}
            for name, truth in calls:
                fault = illegal(truth, schemas[name]) if name in schemas else "no such tool"
                faults += [(f"BFCL_v4_{category}.json", key, name, fault)] if fault else []
    return count, faults


def contradictions(schema: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yields (place, fault) of the parts of a schema whose default or enum its own type refuses.

    A default of null or "" is taken as a word for none, and so is a null in a list.
    """
    if not isinstance(schema, dict):
        return
    for key, part in schema.get("properties", {}).items():
        yield from contradictions(part, f"{at}.{key}" if at else key)
    yield from contradictions(schema.get("items"), f"{at}[]")
    kind = {"type": schema.get("type")}
    odd = [option for option in schema.get("enum") or () if option is not None]
    odd = [option for option in odd if unfit(option, kind)]
    if odd:
        yield at, f"the enum has {odd[0]!r}, the type is {kind['type']}"
    default = schema.get("default")
    is_none = default in (None, "") or "null" in json.dumps(default)
    why = unfit(default, {key: schema.get(key) for key in ("type", "enum", "items")})
    if why and not is_none:
        yield at, f"the default {why}"


def definitions(folder: Path) -> tuple[int, dict[tuple[str, str, str], list[str]]]:
    """Returns how many definitions of tools there are, and the ids of rows by (tool, place, fault).

    It reads all files of tests with the definitions of their tools, also those in source code.
    """
    count, faults = 0, defaultdict[tuple[str, str, str], list[str]](list)
    for file in sorted(folder.glob("BFCL_v4_*.json")):
        lines = file.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.startswith('{"id"')]
        for row in rows:
            for tool in row.get("function", ()):
                count += 1
                for place, fault in contradictions(standard_types(tool["parameters"])[0]):
                    faults[tool["name"], place, fault].append(row["id"])
    return count, faults


def findings(folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Returns how many records the files of a folder have, and what the linter finds in them."""
    files = sorted(p.name for p in folder.glob("*.json*") if p.name != "dataset_info.json")
    command = [sys.executable, "-m", "mypt.main", "lint", "--format", "jsonl", *files]
    output = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    *rows, summary = map(json.loads, output.splitlines())
    return summary["lines"], rows


def page(release: str, folder: Path, demos: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yields the lines of the page.

    It is of BFCL's folder of data in a release, and of (name, folder, commit) of demo data.
    """
    count, faults = ground_truths(folder)
    linted = [(name, commit, *findings(Path(place))) for name, place, commit in demos]
    total = count + sum(records for _, _, records, _ in linted)
    text = f"""This page lists faults of demo data that many people begin with, and of the ground
        truths of a benchmark, by file and row, so that their owners can mend them: {total:,}
        rows were checked. `nox -s faults` writes it, from files that are not part of this
        repository. A person has read each ground truth in the list, and the first finding of
        each rule and file; none of them was wrong. To check your own data, run `mypt-lint
        FILE`."""
    yield from [
        "# Faults found in public data",
        "",
        *_paragraph(text),
        "",
        "## Ground truths of BFCL",
        "",
    ]
    text = f"""The package bfcl-eval {release} has {count:,} tests in {len(CATEGORIES)}
        categories whose ground truths are calls with values of Python. For {len(faults)} of
        these calls, no call is both legal by the definition of its tool and right by the ground
        truth, even when texts are compared as BFCL does (without case and punctuation). A model
        that keeps to the definitions fails these tests. Members of objects that a definition
        does not name are not counted. BFCL means texts such as those of parallel_multiple_21 as
        names of variables, and takes them for any type: no definition tells so."""
    yield from [*_paragraph(text), "", "| file | test | tool | why |", "| --- | --- | --- | --- |"]
    yield from (f"| {file} | {key} | `{name}` | {_short(why)} |" for file, key, name, why in faults)
    yield from _definitions(*definitions(folder))
    yield from ["", "## Demo data", ""]
    text = "The plain command checked each folder. A row is a record of a JSON array, or a line. "
    left_out = " and ".join(f"{code} ({about})" for code, about in LEFT_OUT.items())
    text += f"Findings of {left_out} are left out. Of several in a file, the first one is quoted. "
    text += "In kto_en_demo.json, rows 22, 140 and 258 are answers that are labelled as bad."
    yield from [*_paragraph(text), "", "| data | commit | rows | findings | left out |"]
    yield "| --- | --- | --- | --- | --- |"
    places = defaultdict(list)
    for name, commit, records, rows in linted:
        kept = [row for row in rows if row["code"] not in LEFT_OUT]
        yield f"| {name} | {commit} | {records:,} | {len(kept)} | {len(rows) - len(kept)} |"
        for row in kept:
            rule, code = row["name"], row["code"]
            link = f"[{rule}](rules.md#{rule}-{code.lower()})"
            places[name, row["filename"], link].append(row)
    yield from ["", "| data | file | rule | rows | the first of them |"]
    yield "| --- | --- | --- | --- | --- |"
    for place, rows in sorted(places.items()):
        numbers = ", ".join(dict.fromkeys(map(_row, rows)))
        yield f"| {' | '.join(place)} | {numbers} | {_short(rows[0]['message'])} |"


def _definitions(count: int, faults: dict[tuple[str, str, str], list[str]]) -> Iterator[str]:
    yield from ["", "## Definitions of BFCL that contradict themselves", ""]
    text = f"""Of {count:,} definitions of tools in all tests, {len(faults)} places have a default
        or an enum that their own type or enum refuses. A default of null, or of an empty text, is
        read as none. A model or an engine that keeps to the definition cannot write such a value.
        Each place in the list was read."""
    yield from [*_paragraph(text), "", "| tool | place | what | tests | the first of them |"]
    yield "| --- | --- | --- | --- | --- |"
    for (name, place, fault), ids in sorted(faults.items()):
        place = f"`{place}`" if place else "all parameters"
        yield f"| `{name}` | {place} | {_short(fault)} | {len(ids)} | {ids[0]} |"


def _paragraph(text: str) -> list[str]:
    return wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _row(finding: dict[str, Any]) -> str:
    return str(finding.get("record") or finding["location"]["row"])


def _short(text: str) -> str:
    text = text.replace("|", "\\|")
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    about = {"nargs": 3, "action": "append", "default": [], "metavar": ("NAME", "DIR", "COMMIT")}
    parser.add_argument("--demo", **about)  # type: ignore[arg-type]
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE")
    options = parser.parse_args()
    lines = page(version("bfcl-eval"), data(), options.demo)
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
